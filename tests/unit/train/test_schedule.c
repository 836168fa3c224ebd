/* Learning-rate schedules: every edge of warm-up, and values worked out by hand. */
#include "support.h"

#include <math.h>

#include "train/clip.h"
#include "train/schedule.h"

static void warmup_of(void **state) {
    (void)state;
    assert_int_equal(qkv_warmup_steps(0, 100), 0);
    assert_int_equal(qkv_warmup_steps(0.1, 100), 10);
    assert_int_equal(qkv_warmup_steps(0.1, 4), 0);
    assert_int_equal(qkv_warmup_steps(0.1, 5), 1); /* 0.5 rounds up */
    assert_int_equal(qkv_warmup_steps(0.999, 100), 100);
    assert_int_equal(qkv_warmup_steps(1, 100), 1);
    assert_int_equal(qkv_warmup_steps(25.9, 100), 25);
    assert_int_equal(qkv_warmup_steps(100, 100), 100);
    assert_int_equal(qkv_warmup_steps(1e12, 100), 100);
    assert_int_equal(qkv_warmup_steps(0.5, 0), 0);
    assert_int_equal(qkv_warmup_steps(-3, 100), 0);
    assert_int_equal(qkv_warmup_steps(NAN, 100), 0);
}

static double at(qkv_schedule_kind kind, int64_t warmup, int64_t total, int64_t step) {
    qkv_schedule s = {kind, warmup, total};
    return qkv_schedule_factor(&s, step);
}

static void close_to(double a, double b) {
    assert_true(fabs(a - b) < 1e-14);
}

static void first_step_of_a_warmup_is_one_part(void **state) {
    (void)state;
    for (int kind = QKV_SCHEDULE_LINEAR; kind <= QKV_SCHEDULE_INVERSE_SQRT; kind++) {
        for (int64_t w = 1; w <= 20; w++) {
            close_to(at(kind, w, 20, 1), 1.0 / (double)w);
            close_to(at(kind, w, 20, w), 1);
        }
    }
}

static void values(void **state) {
    (void)state;
    /* linear, W=2, T=6: 1/2, 1, 1, 3/4, 1/2, 1/4 */
    const double linear[] = {0.5, 1, 1, 0.75, 0.5, 0.25};
    for (int i = 0; i < 6; i++) close_to(at(QKV_SCHEDULE_LINEAR, 2, 6, i + 1), linear[i]);
    close_to(at(QKV_SCHEDULE_LINEAR, 2, 6, 7), 0);
    /* cosine, W=0, T=4: cos of 0, 45, 90, 135 degrees */
    const double cosine[] = {1, 0.5 + 0.35355339059327378, 0.5, 0.5 - 0.35355339059327378};
    for (int i = 0; i < 4; i++) close_to(at(QKV_SCHEDULE_COSINE, 0, 4, i + 1), cosine[i]);
    close_to(at(QKV_SCHEDULE_COSINE, 0, 4, 5), 0);
    close_to(at(QKV_SCHEDULE_CONSTANT, 3, 10, 2), 2.0 / 3);
    close_to(at(QKV_SCHEDULE_CONSTANT, 3, 10, 10), 1);
    close_to(at(QKV_SCHEDULE_INVERSE_SQRT, 4, 100, 16), 0.5);
    close_to(at(QKV_SCHEDULE_INVERSE_SQRT, 0, 100, 1), 1);
    close_to(at(QKV_SCHEDULE_INVERSE_SQRT, 0, 100, 4), 0.5);
    close_to(at(QKV_SCHEDULE_INVERSE_SQRT, 1, 100, 4), 0.5);
}

/* Warm-up of nothing, of one step, of all steps; runs of no step and one step. */
static void nothing_divides_by_zero(void **state) {
    (void)state;
    for (int kind = QKV_SCHEDULE_LINEAR; kind <= QKV_SCHEDULE_INVERSE_SQRT; kind++) {
        for (int64_t total = 0; total <= 5; total++) {
            for (int64_t w = 0; w <= total; w++) {
                for (int64_t step = 0; step <= total + 2; step++) {
                    double f = at(kind, w, total, step);
                    assert_true(f >= 0 && f <= 1);
                    if (step >= 1 && step <= total) assert_true(f > 0);
                }
            }
        }
    }
}

static void clipping(void **state) {
    (void)state;
    close_to(qkv_clip_factor(0, 1), 1);
    close_to(qkv_clip_factor(0.5, 1), 1);
    close_to(qkv_clip_factor(1, 1), 1);
    close_to(qkv_clip_factor(4, 1), 0.25);
    close_to(qkv_clip_factor(4, 0), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warmup_of), cmocka_unit_test(first_step_of_a_warmup_is_one_part),
        cmocka_unit_test(values),    cmocka_unit_test(nothing_divides_by_zero),
        cmocka_unit_test(clipping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
