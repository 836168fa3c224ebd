/* Scores against numbers worked out by hand (and checked once with scikit-learn's conventions on paper). */
#include "support.h"

#include <math.h>

#include "train/metrics.h"

static void close_to(double a, double b) {
    assert_true(fabs(a - b) < 1e-14);
}

static qkv_counts counts_of(qkv_ctx *ctx, int64_t classes, const int (*pairs)[2], int n) {
    qkv_counts c;
    assert_int_equal(qkv_counts_create(ctx, classes, &c), QKV_OK);
    for (int i = 0; i < n; i++) qkv_counts_add(&c, pairs[i][0], pairs[i][1], 0.5);
    return c;
}

/* gold 0 0 0 1 1 2, predicted 0 0 1 1 2 2; class 3 occurs nowhere and is left out of the macro mean.
 * f1: 2*2/(3+2) = 4/5, 2*1/(2+2) = 1/2, 2*1/(1+2) = 2/3. */
static void by_hand(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const int pairs[][2] = {{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 2}};
    qkv_counts c = counts_of(&ctx, 4, pairs, 6);
    qkv_scores s;
    qkv_counts_scores(&c, &s);
    assert_int_equal(s.rows, 6);
    close_to(s.loss, 0.5);
    close_to(s.accuracy, 4.0 / 6);
    close_to(s.micro_f1, 4.0 / 6);
    close_to(s.macro_f1, (4.0 / 5 + 1.0 / 2 + 2.0 / 3) / 3);
    close_to(s.weighted_f1, (3 * 4.0 / 5 + 2 * 1.0 / 2 + 2.0 / 3) / 6);
    qkv_class_score one;
    qkv_counts_class(&c, 0, &one);
    close_to(one.precision, 1);
    close_to(one.recall, 2.0 / 3);
    assert_int_equal(one.support, 3);
    assert_int_equal(one.predicted, 2);
    qkv_counts_class(&c, 3, &one);
    close_to(one.precision, 0);
    close_to(one.recall, 0);
    close_to(one.f1, 0);
    qkv_counts_free(&ctx, &c);
    assert_int_equal(memory.blocks, 0);
}

/* A class that is predicted but never gold counts in the macro mean with 0; so does each unseen gold label. */
static void predicted_only_and_unseen(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const int pairs[][2] = {{0, 0}, {0, 1}, {-1, 0}, {-1, 1}};
    qkv_counts c = counts_of(&ctx, 2, pairs, 4);
    c.unseen_labels = 2;
    qkv_scores s;
    qkv_counts_scores(&c, &s);
    assert_int_equal(s.rows, 4);
    close_to(s.loss, 0.5); /* over the two rows whose label is known */
    close_to(s.accuracy, 0.25);
    close_to(s.macro_f1, 0.5 / 4); /* f1 of class 0 is 2*1/(2+2); class 1 and two unseen labels have 0 */
    close_to(s.weighted_f1, 2 * 0.5 / 4);
    qkv_counts_clear(&c);
    qkv_counts_scores(&c, &s);
    assert_int_equal(s.rows, 0);
    assert_int_equal(c.unseen_labels, 2);
    qkv_counts_free(&ctx, &c);
}

static void no_rows(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_counts c = counts_of(&ctx, 3, NULL, 0);
    qkv_scores s;
    qkv_counts_scores(&c, &s);
    assert_true(isnan(s.loss) && isnan(s.accuracy) && isnan(s.micro_f1) && isnan(s.macro_f1) && isnan(s.weighted_f1));
    /* rows, but none with a known label: all are wrong, and there is no loss */
    qkv_counts_add(&c, -1, 1, 7);
    c.unseen_labels = 1;
    qkv_counts_scores(&c, &s);
    assert_int_equal(s.rows, 1);
    assert_true(isnan(s.loss));
    assert_true(s.accuracy == 0 && s.macro_f1 == 0 && s.micro_f1 == 0 && s.weighted_f1 == 0);
    qkv_counts_free(&ctx, &c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(predicted_only_and_unseen),
        cmocka_unit_test(no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
