/* Verdicts over made-up measurements: each one is reached, by what the measurements say. */
#include "support.h"

#include <math.h>

#include "report/verdict.h"

static const qkv_asked POINTS = {0.043, 0.0015, 0, "%+.1f points", 100}, TIMES = {7.7, 0.05, 1, "%.2f times", 1};

static qkv_verdict judge(const qkv_asked *asked, const double *measured, int64_t count, double error, char why[320]) {
    const qkv_estimate e = qkv_estimate_mean(measured, count, error);
    return qkv_judge(asked, &e, why, 320);
}

static void each_verdict_is_reached(void **state) {
    (void)state;
    char why[320];
    const double as_claimed[] = {0.040, 0.044, 0.046}, smaller[] = {0.009, 0.010, 0.011}, none[] = {-0.004, 0.001, 0.003},
                 other_way[] = {-0.021, -0.020, -0.022}, wide[] = {-0.05, 0.02, 0.09}, larger[] = {0.099, 0.1, 0.101};
    assert_int_equal(judge(&POINTS, as_claimed, 3, 0, why), QKV_HOLDS);
    assert_non_null(
        strstr(why, "+4.3 points (95 % interval +3.6 points to +5.1 points, 3 measurements): the claim's +4.3 points is within"));
    assert_int_equal(judge(&POINTS, smaller, 3, 0, why), QKV_HOLDS_IN_PART);
    assert_non_null(strstr(why, "the direction is right"));
    assert_int_equal(judge(&POINTS, larger, 3, 0, why), QKV_HOLDS_IN_PART);
    assert_int_equal(judge(&POINTS, none, 3, 0, why), QKV_DOES_NOT_HOLD);
    assert_non_null(strstr(why, "no difference beyond the spread"));
    assert_int_equal(judge(&POINTS, other_way, 3, 0, why), QKV_DOES_NOT_HOLD);
    assert_non_null(strstr(why, "the other way round"));
    assert_int_equal(judge(&POINTS, wide, 3, 0, why), QKV_CANNOT_BE_JUDGED);
    assert_non_null(strstr(why, "both no difference and the claim's"));
}

/* Held against a mark that is neither 0 nor 1, the sentence names the mark. */
static void a_mark_is_named(void **state) {
    (void)state;
    const qkv_asked under = {-INFINITY, 0, 0.5, "%.1f %%", 100}, over = {INFINITY, 0, 0.5, "%.1f %%", 100};
    const double around[] = {0.45, 0.5, 0.56}, above[] = {0.91, 0.92, 0.93};
    char why[320];
    assert_int_equal(judge(&over, around, 3, 0, why), QKV_CANNOT_BE_JUDGED);
    assert_non_null(strstr(why, "the claim is of over 50.0 %, and the interval has both sides of it"));
    assert_int_equal(judge(&over, above, 3, 0, why), QKV_HOLDS);
    assert_non_null(strstr(why, "over the claim's 50.0 %, beyond the spread"));
    assert_int_equal(judge(&under, above, 3, 0, why), QKV_DOES_NOT_HOLD);
}

static void without_a_spread_there_is_no_verdict(void **state) {
    (void)state;
    char why[320];
    const double one[] = {0.043}, missing[] = {NAN, NAN};
    assert_int_equal(judge(&POINTS, one, 1, 0, why), QKV_CANNOT_BE_JUDGED);
    assert_non_null(strstr(why, "+4.3 points by one measurement"));
    assert_int_equal(judge(&POINTS, one, 1, 0.005, why), QKV_CANNOT_BE_JUDGED); /* that of the rows is not all */
    assert_int_equal(judge(&POINTS, missing, 2, 0.1, why), QKV_CANNOT_BE_JUDGED);
    assert_int_equal(judge(&POINTS, NULL, 0, 0, why), QKV_CANNOT_BE_JUDGED);
    assert_string_equal(why, "not measured");
}

/* The last digit of the figure decides how near is near enough. */
static void a_figure_is_as_exact_as_it_is_given(void **state) {
    (void)state;
    char why[320];
    const qkv_asked exact = {68.7, 0.05, NAN, "%.1f G", 1};
    qkv_estimate e = qkv_estimate_exact(68.7195);
    assert_int_equal(qkv_judge(&exact, &e, why, sizeof why), QKV_HOLDS);
    assert_string_equal(why, "68.7 G, as claimed");
    e = qkv_estimate_exact(68.76);
    assert_int_equal(qkv_judge(&exact, &e, why, sizeof why), QKV_DOES_NOT_HOLD);
    assert_string_equal(why, "68.8 G, not the claim's 68.7 G");
    /* A claim of no difference holds where there is none. */
    const qkv_asked equal = {0, 0.0005, 0, "%+.1f points", 100};
    const double none[] = {-0.0002, 0.0002, 0.0001};
    assert_int_equal(judge(&equal, none, 3, 0, why), QKV_HOLDS);
}

/* Where no value is denied, more noise must not make a figure hold more easily. */
static void holding_needs_precision(void **state) {
    (void)state;
    const qkv_asked linear = {1, 0.1, NAN, "n^%.2f", 1}, equal = {0, 0.0005, 0, "%+.1f points", 100};
    const double near[] = {1.02, 0.98, 1.01}, noisy[] = {0.4, 0.9, 1.31}, off[] = {1.5, 1.51, 1.49},
                 either[] = {-0.03, 0.03, 0.001};
    char why[320];
    assert_int_equal(judge(&linear, near, 3, 0, why), QKV_HOLDS);
    assert_int_equal(judge(&linear, noisy, 3, 0, why), QKV_CANNOT_BE_JUDGED);
    assert_non_null(strstr(why, "the claim's n^1.00 is within, but so is much else: the interval may reach 0.25 to each side"));
    assert_int_equal(judge(&linear, off, 3, 0, why), QKV_DOES_NOT_HOLD);
    assert_int_equal(judge(&equal, either, 3, 0, why), QKV_CANNOT_BE_JUDGED);
}

static void directions(void **state) {
    (void)state;
    char why[320];
    const qkv_asked up = {INFINITY, 0, 0, "%+.1f points", 100}, down = {-INFINITY, 0, 0, "%+.1f points", 100};
    const double more[] = {0.03, 0.031, 0.029}, either[] = {-0.03, 0.03, 0.01};
    assert_int_equal(judge(&up, more, 3, 0, why), QKV_HOLDS);
    assert_int_equal(judge(&down, more, 3, 0, why), QKV_DOES_NOT_HOLD);
    assert_int_equal(judge(&up, either, 3, 0, why), QKV_CANNOT_BE_JUDGED);
}

static void quotients_are_judged_by_their_logarithms(void **state) {
    (void)state;
    char why[320];
    const double slow[] = {7.6, 15.6, 3.84}, fast[] = {1, 2, 0.5}, same[] = {1.01, 1.98, 0.505};
    qkv_estimate e = qkv_estimate_ratio(slow, fast, 3);
    assert_true(fabs(e.value - 7.69) < 0.02 && e.low > 7.4 && e.high < 8);
    assert_int_equal(qkv_judge(&TIMES, &e, why, sizeof why), QKV_HOLDS);
    e = qkv_estimate_ratio(same, fast, 3);
    assert_int_equal(qkv_judge(&TIMES, &e, why, sizeof why), QKV_DOES_NOT_HOLD);
    e = qkv_estimate_ratio(fast, slow, 3); /* as much faster */
    assert_int_equal(qkv_judge(&TIMES, &e, why, sizeof why), QKV_DOES_NOT_HOLD);
    assert_non_null(strstr(why, "the other way round"));
}

static void estimates(void **state) {
    (void)state;
    const double x[] = {1, 2, NAN, 3};
    qkv_estimate e = qkv_estimate_mean(x, 4, 0);
    assert_true(e.count == 3 && e.value == 2 && fabs(e.deviation - 1) < 1e-12);
    assert_true(fabs(e.high - 2 - 4.303 / sqrt(3)) < 1e-3 && fabs(e.low + e.high - 4) < 1e-12);
    const qkv_estimate wider = qkv_estimate_mean(x, 4, 1);
    assert_true(fabs(wider.high - 2 - sqrt(4.303 * 4.303 / 3 + 1.96 * 1.96)) < 1e-3);
}

static void slopes(void **state) {
    (void)state;
    const double x[] = {0, 1, 2}, lines[] = {1, 3, 5, 11, 13, 15}, noisy[] = {0, 1.1, 2, 0, 0.9, 2, 5, 6, 7},
                 gap[] = {0, 1, 2, 0, NAN, 2};
    qkv_estimate e = qkv_estimate_slope(x, 3, lines, 2);
    assert_true(e.count == 2 && fabs(e.value - 2) < 1e-12 && fabs(e.low - 2) < 1e-6 && fabs(e.high - 2) < 1e-6);
    /* Left over: 0.1 * 0.1 * (4 + 1 + 1) / 9 of two rounds; 5 degrees of freedom. */
    e = qkv_estimate_slope(x, 3, noisy, 3);
    assert_true(e.count == 3 && fabs(e.value - 1) < 1e-12);
    assert_true(fabs(e.high - 1 - 2.571 * sqrt(2 * 0.01 * 6 / 9 / 5 / (2 * 3))) < 1e-6 && fabs(e.high + e.low - 2) < 1e-12);
    e = qkv_estimate_slope(x, 3, gap, 2); /* one whole round */
    assert_true(e.count == 1 && e.value == 1 && isnan(e.low));
    assert_int_equal(qkv_estimate_slope(x, 3, NULL, 0).count, 0);
}

/* Wilson's interval, by its formula: 200 of 200 is not all, and a half lies in the middle. */
static void shares(void **state) {
    (void)state;
    double low, high;
    qkv_share_limits(1, 200, &low, &high);
    assert_true(high == 1 && fabs(low - 0.98115) < 1e-4);
    qkv_share_limits(0, 10, &low, &high);
    assert_true(low == 0 && fabs(high - 0.27753) < 1e-4);
    qkv_share_limits(0.5, 100, &low, &high);
    assert_true(fabs(low - 0.40383) < 1e-4 && fabs(low + high - 1) < 1e-12);
    qkv_estimate e = {.value = 0.5, .low = 0.46, .high = 0.53};
    qkv_estimate_reach(&e, 0.03, 0.04);
    assert_true(fabs(e.low - 0.45) < 1e-12 && fabs(e.high - 0.55) < 1e-12);
}

static void parts(void **state) {
    (void)state;
    const qkv_verdict y = QKV_HOLDS, p = QKV_HOLDS_IN_PART, n = QKV_DOES_NOT_HOLD, o = QKV_CANNOT_BE_JUDGED;
    assert_int_equal(qkv_judge_parts((const qkv_verdict[]){y, y}, 2), QKV_HOLDS);
    assert_int_equal(qkv_judge_parts((const qkv_verdict[]){n, n}, 2), QKV_DOES_NOT_HOLD);
    assert_int_equal(qkv_judge_parts((const qkv_verdict[]){y, n}, 2), QKV_HOLDS_IN_PART);
    assert_int_equal(qkv_judge_parts((const qkv_verdict[]){n, p}, 2), QKV_HOLDS_IN_PART);
    assert_int_equal(qkv_judge_parts((const qkv_verdict[]){y, n, o}, 3), QKV_HOLDS_IN_PART);
    assert_int_equal(qkv_judge_parts((const qkv_verdict[]){y, o}, 2), QKV_CANNOT_BE_JUDGED);
    assert_int_equal(qkv_judge_parts((const qkv_verdict[]){n, o}, 2), QKV_CANNOT_BE_JUDGED);
    assert_int_equal(qkv_judge_parts(NULL, 0), QKV_CANNOT_BE_JUDGED);
    char why[320];
    assert_int_equal(qkv_judge_count(6, 6, why, sizeof why), QKV_HOLDS);
    assert_int_equal(qkv_judge_count(5, 6, why, sizeof why), QKV_HOLDS_IN_PART);
    assert_string_equal(why, "5 of 6");
    assert_int_equal(qkv_judge_count(0, 6, why, sizeof why), QKV_DOES_NOT_HOLD);
    assert_int_equal(qkv_judge_count(NAN, 6, why, sizeof why), QKV_CANNOT_BE_JUDGED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_verdict_is_reached),
        cmocka_unit_test(a_mark_is_named),
        cmocka_unit_test(without_a_spread_there_is_no_verdict),
        cmocka_unit_test(a_figure_is_as_exact_as_it_is_given),
        cmocka_unit_test(holding_needs_precision),
        cmocka_unit_test(slopes),
        cmocka_unit_test(shares),
        cmocka_unit_test(directions),
        cmocka_unit_test(quotients_are_judged_by_their_logarithms),
        cmocka_unit_test(estimates),
        cmocka_unit_test(parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
