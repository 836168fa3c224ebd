/* Calibration beside numbers worked out with NumPy and scikit-learn 1.9 (brier_score_loss with scale_by_half=False). */
#include "support.h"

#include <math.h>
#include <string.h>

#include "train/calibration.h"

static void close_to(double a, double b) {
    assert_true(fabs(a - b) < 1e-7); /* of float probabilities */
}

static qkv_classify_report report_of(const qkv_calibration *c, qkv_reliability bins[QKV_BINS]) {
    qkv_classify_report r = {.reliability = bins};
    qkv_calibration_report(c, &r);
    assert_int_equal(r.bins, QKV_BINS);
    return r;
}

static void bins_are_closed_above(void **state) {
    (void)state;
    assert_int_equal(qkv_calibration_bin(0), 0);
    assert_int_equal(qkv_calibration_bin(1), QKV_BINS - 1);
    for (int i = 1; i < QKV_BINS; i++) {
        double end = (double)i / QKV_BINS;
        assert_int_equal(qkv_calibration_bin(end - 1e-9), i - 1);
        assert_int_equal(qkv_calibration_bin(end + 1e-9), i);
    }
    assert_int_equal(qkv_calibration_bin(0.2), 2); /* 3/15 is the end of the third */
    assert_int_equal(qkv_calibration_bin(1.0000001), QKV_BINS - 1);
}

static void like_numpy(void **state) {
    (void)state;
    static const double p[10][3] = {{.9, .05, .05}, {.8, .1, .1},   {.2, .6, .2}, {.34, .33, .33}, {.1, .2, .7},
                                    {.7, .2, .1},   {.05, .9, .05}, {1, 0, 0},    {.4, .4, .2},    {.25, .25, .5}};
    static const int gold[10] = {0, 1, 1, 2, 2, 0, 1, 0, 1, -1}, predicted[10] = {0, 0, 1, 0, 2, 0, 1, 0, 0, 2};
    qkv_calibration c = {0};
    for (int i = 0; i < 10; i++)
        qkv_calibration_row(&c, (real[]){(real)p[i][0], (real)p[i][1], (real)p[i][2]}, 3, gold[i], predicted[i]);
    qkv_reliability bins[QKV_BINS];
    qkv_classify_report r = report_of(&c, bins);
    close_to(r.ece, 0.324);
    close_to(r.mce, 0.8);
    close_to(r.brier, 0.46184);
    close_to(r.confidence, 0.684);
    assert_true(bins[0].rows == 0 && isnan(bins[0].confidence) && isnan(bins[0].accuracy));
    assert_true(bins[10].rows == 2 && bins[10].accuracy == 1);
    close_to(bins[10].confidence, 0.7);
    const int at = sizeof(real) == 8 ? 11 : 12; /* 0.8 is the end of a bin, 0.8f lies beyond it */
    assert_true(bins[at].rows == 1 && bins[at].accuracy == 0);
    assert_true(bins[0].from == 0 && bins[QKV_BINS - 1].to == 1 && bins[3].from == bins[2].to);
}

/* Two texts, two classes; four decisions: 0.75 has, 0.25 has not, 0.75 has not, 0.25 has not. */
static void decisions_by_hand(void **state) {
    (void)state;
    qkv_calibration c = {0};
    qkv_calibration_decisions(&c, (real[]){(real)0.75, (real)0.25}, 2, (int32_t[]){0}, 1);
    qkv_calibration_decisions(&c, (real[]){(real)0.25, (real)0.75}, 2, NULL, 0);
    qkv_reliability bins[QKV_BINS];
    qkv_classify_report r = report_of(&c, bins);
    assert_true(c.count == 4 && bins[11].rows == 2 && bins[11].accuracy == 0.5 && bins[3].rows == 2 && bins[3].accuracy == 0);
    close_to(r.ece, 0.25);
    close_to(r.mce, 0.25);
    close_to(r.brier, (0.0625 + 0.0625 + 0.5625 + 0.0625) / 4);
    close_to(r.confidence, 0.5);
}

static void ends(void **state) {
    (void)state;
    qkv_reliability bins[QKV_BINS];
    qkv_calibration sure = {0}, wrong = {0}, broken = {0}, none = {0};
    qkv_calibration_row(&sure, (real[]){1}, 1, 0, 0); /* one class, one row */
    qkv_classify_report r = report_of(&sure, bins);
    assert_true(r.ece == 0 && r.mce == 0 && r.brier == 0 && r.confidence == 1);
    qkv_calibration_row(&wrong, (real[]){0, 1}, 2, 0, 1);
    qkv_calibration_row(&wrong, (real[]){1, 0}, 2, -1, 0); /* a label that nobody knows */
    r = report_of(&wrong, bins);
    assert_true(r.ece == 1 && r.mce == 1 && r.brier == 2);
    qkv_calibration_row(&broken, (real[]){1, 0}, 2, 0, 0);
    qkv_calibration_row(&broken, (real[]){(real)NAN, (real)NAN}, 2, 0, 0);
    r = report_of(&broken, bins);
    assert_true(isnan(r.ece) && isnan(r.mce) && isnan(r.brier) && isnan(r.confidence));
    assert_int_equal(bins[QKV_BINS - 1].rows, 1);
    r = report_of(&none, bins);
    assert_true(isnan(r.ece) && isnan(r.mce) && isnan(r.brier));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_are_closed_above),
        cmocka_unit_test(like_numpy),
        cmocka_unit_test(decisions_by_hand),
        cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
