/* Resampled scores beside scikit-learn 1.9: accuracy_score and f1_score (zero_division=0) of the rows that the documented draws
 * name, computed once in Python, with the intervals and p values of bootstrap.h. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "train/bootstrap.h"
#include "train/metrics.h"

enum { ROWS = 20, RESAMPLES = 200, LABELS = 4 };

/* Label 3 is one that neither system knows. */
static const int32_t gold[ROWS] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 0, 1, 2};
static const int32_t given_a[ROWS] = {0, 0, 0, 0, 0, 1, 2, 1, 1, 1, 1, 0, 2, 2, 2, 0, 1, 0, 1, 1};
static const int32_t given_b[ROWS] = {0, 0, 0, 0, 0, 0, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 1, 0};

static void close_to(double a, double b) {
    assert_true(fabs(a - b) < 1e-12);
}

static void interval_is(double *values, int64_t n, double low, double high) {
    qkv_interval i = qkv_bootstrap_interval(values, n);
    close_to(i.low, low);
    close_to(i.high, high);
}

static void resample_pairs(qkv_ctx *ctx, const int32_t *given, double *scores) {
    qkv_outcomes o;
    assert_int_equal(qkv_outcomes_pairs(ctx, ROWS, LABELS, gold, given, &o), QKV_OK);
    assert_int_equal(qkv_bootstrap(ctx, &o, RESAMPLES, 7, scores), QKV_OK);
    qkv_outcomes_free(ctx, &o);
}

static void like_scikit_learn(void **state) {
    (void)state;
    static const double a[QKV_BOOT_SCORES][2] = {
        {0.35, 0.85}, {0.2738095238095238, 0.7911764705882353}, {0.35, 0.85}, {0.3626984126984127, 0.8473389355742297}};
    static const double b[QKV_BOOT_SCORES][2] = {
        {0.6, 0.95}, {0.42500000000000004, 0.918840579710145}, {0.6, 0.95}, {0.5571428571428572, 0.946086956521739}};
    static const double d[QKV_BOOT_SCORES][3] = {{0, 0.3, 0.10945273631840796},
                                                 {0, 0.30372405372405364, 0.06965174129353234},
                                                 {0, 0.3, 0.10945273631840796},
                                                 {-0.00073260073260073, 0.3135331335331335, 0.07960199004975124}};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    static double x[QKV_BOOT_SCORES * RESAMPLES], y[QKV_BOOT_SCORES * RESAMPLES], differences[RESAMPLES];
    resample_pairs(&ctx, given_a, x);
    resample_pairs(&ctx, given_b, y);
    for (int s = 0; s < QKV_BOOT_SCORES; s++) {
        for (int i = 0; i < RESAMPLES; i++) differences[i] = y[s * RESAMPLES + i] - x[s * RESAMPLES + i];
        close_to(qkv_bootstrap_p(differences, RESAMPLES), d[s][2]);
        interval_is(differences, RESAMPLES, d[s][0], d[s][1]);
        interval_is(x + s * RESAMPLES, RESAMPLES, a[s][0], a[s][1]);
        interval_is(y + s * RESAMPLES, RESAMPLES, b[s][0], b[s][1]);
    }
    assert_int_equal(memory.blocks, 0);
}

/* Any number of labels a row; label 3 is one that is never given. */
static void sets_like_scikit_learn(void **state) {
    (void)state;
    enum { TEXTS = 8, TIMES = 150 };
    const int64_t gold_at[] = {0, 2, 3, 3, 5, 6, 8, 10, 11}, given_at[] = {0, 2, 4, 4, 5, 6, 7, 9, 10};
    const int32_t has[] = {0, 1, 1, 0, 2, 2, 0, 3, 1, 2, 0}, got[] = {0, 1, 1, 2, 0, 1, 0, 1, 2, 2};
    static const double known[QKV_BOOT_SCORES][2] = {{0, 0.75},
                                                     {0.2222222222222222, 0.7962962962962963},
                                                     {0.35294117647058826, 0.8571428571428571},
                                                     {0.31292517006802717, 0.8232323232323232}};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_outcomes o;
    static double scores[QKV_BOOT_SCORES * TIMES];
    assert_int_equal(qkv_outcomes_sets(&ctx, TEXTS, LABELS, gold_at, has, given_at, got, &o), QKV_OK);
    assert_int_equal(qkv_bootstrap(&ctx, &o, TIMES, 3, scores), QKV_OK);
    for (int s = 0; s < QKV_BOOT_SCORES; s++) interval_is(scores + s * TIMES, TIMES, known[s][0], known[s][1]);
    qkv_outcomes_free(&ctx, &o);
    assert_int_equal(memory.blocks, 0);
}

/* Each resample is what the metrics say of the rows that were drawn, whatever the number of threads. */
static void resamples_are_tests_of_drawn_rows(void **state) {
    (void)state;
    test_memory memory = {0};
    static double one[QKV_BOOT_SCORES * RESAMPLES], many[QKV_BOOT_SCORES * RESAMPLES];
    for (int threads = 1; threads <= 5; threads += 2) {
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        ctx.threads = threads;
        resample_pairs(&ctx, given_a, threads == 1 ? one : many);
        if (threads > 1) assert_memory_equal(one, many, sizeof one);
    }
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (uint64_t r = 0; r < RESAMPLES; r++) {
        qkv_counts c;
        qkv_scores s;
        bool unseen = false;
        assert_int_equal(qkv_counts_create(&ctx, LABELS - 1, &c), QKV_OK);
        for (uint64_t i = 0; i < ROWS; i++) {
            uint64_t row = qkv_below(qkv_key3(7, QKV_BOOTSTRAP_SITE, r) + i * 0x9E3779B97F4A7C15u, ROWS);
            qkv_counts_add(&c, gold[row] == LABELS - 1 ? -1 : gold[row], given_a[row], 0);
            unseen |= gold[row] == LABELS - 1;
        }
        c.unseen_labels = unseen;
        qkv_counts_scores(&c, &s);
        assert_true(s.accuracy == one[QKV_BOOT_ACCURACY * RESAMPLES + r] && s.macro_f1 == one[QKV_BOOT_MACRO_F1 * RESAMPLES + r]);
        assert_true(s.micro_f1 == one[QKV_BOOT_MICRO_F1 * RESAMPLES + r] &&
                    s.weighted_f1 == one[QKV_BOOT_WEIGHTED_F1 * RESAMPLES + r]);
        qkv_counts_free(&ctx, &c);
    }
    assert_int_equal(memory.blocks, 0);
}

/* The interval leaves 0 out just where p is at most 0.05, for any number of resamples. */
static void interval_and_p_agree(void **state) {
    (void)state;
    static double values[1234];
    int told = 0, untold = 0;
    for (int n = QKV_LEAST_RESAMPLES; n <= 1234; n += 27)
        for (int below = 0; below <= n; below++) {
            for (int i = 0; i < n; i++) values[i] = i < below ? -1.0 - i : 1.0 + i;
            double p = qkv_bootstrap_p(values, n);
            qkv_interval i = qkv_bootstrap_interval(values, n);
            bool aside = i.low > 0 || i.high < 0;
            assert_true(aside == (p <= 0.05));
            assert_true(p > 0 && p <= 1);
            told += aside, untold += !aside;
        }
    assert_true(told > 500 && untold > 500);
}

static int asked(void *user) {
    return ++*(int *)user > 0;
}

static void ends(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    double scores[QKV_BOOT_SCORES * QKV_LEAST_RESAMPLES];
    for (int32_t given = 0; given < 2; given++) { /* one row: right, wrong */
        qkv_outcomes o;
        assert_int_equal(qkv_outcomes_pairs(&ctx, 1, 2, (int32_t[]){0}, &given, &o), QKV_OK);
        assert_int_equal(qkv_bootstrap(&ctx, &o, QKV_LEAST_RESAMPLES, 1, scores), QKV_OK);
        for (int s = 0; s < QKV_BOOT_SCORES; s++)
            interval_is(scores + s * QKV_LEAST_RESAMPLES, QKV_LEAST_RESAMPLES, !given, !given);
        for (int64_t k = 1; k <= 2; k++) {
            memory.calls = 0;
            memory.fail_at = k;
            assert_int_equal(qkv_bootstrap(&ctx, &o, QKV_LEAST_RESAMPLES, 1, scores), QKV_NO_MEMORY);
        }
        memory.fail_at = 0;
        int asks = 0;
        ctx.stop = asked;
        ctx.stop_user = &asks;
        assert_int_equal(qkv_bootstrap(&ctx, &o, QKV_LEAST_RESAMPLES, 1, scores), QKV_STOPPED);
        assert_non_null(strstr(ctx.message, "0 of 100 resamples"));
        ctx.stop = NULL;
        qkv_outcomes_free(&ctx, &o);
    }
    double equal[QKV_LEAST_RESAMPLES] = {0};
    assert_true(qkv_bootstrap_p(equal, QKV_LEAST_RESAMPLES) == 1);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_scikit_learn),
        cmocka_unit_test(sets_like_scikit_learn),
        cmocka_unit_test(resamples_are_tests_of_drawn_rows),
        cmocka_unit_test(interval_and_p_agree),
        cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
