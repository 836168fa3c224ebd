/* Logistic regression: the optimum of its objective, weights of classes, any number of classes a row, the same bits for any number of threads. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "train/logistic.h"

enum { ROWS = 240, FEATURES = 60, MOST = 8 };

typedef struct data {
    int64_t offset[ROWS + 1];
    int32_t index[ROWS * MOST], target[ROWS];
} data;

/* Feature c * 10 + k tells of class c, mostly. */
static void fill(data *d, int64_t classes) {
    d->offset[0] = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        bool has[FEATURES] = {0};
        d->target[i] = (int32_t)qkv_below(qkv_key2(7, (uint64_t)i), (uint64_t)classes);
        for (uint64_t k = 0; k < MOST; k++) {
            uint64_t key = qkv_key3(8, (uint64_t)i, k);
            uint64_t own = (uint64_t)d->target[i] * 10 + qkv_below(key, 10), any = qkv_below(key, FEATURES);
            has[qkv_uniform(qkv_key2(key, 1)) < 0.3 ? own : any] = true;
        }
        int64_t n = d->offset[i];
        for (int32_t f = 0; f < FEATURES; f++)
            if (has[f]) d->index[n++] = f;
        d->offset[i + 1] = n;
    }
}

static qkv_logistic_problem problem(const data *d, int64_t classes, double cost) {
    return (qkv_logistic_problem){.x = {ROWS, FEATURES, d->offset, d->index},
                                  .classes = classes,
                                  .target = d->target,
                                  .cost = cost,
                                  .tolerance = 0.002,
                                  .passes = 400,
                                  .seed = 3};
}

/* The gradient of the objective, which is convex, vanishes. */
static void check_optimum(const data *d, const qkv_logistic_problem *problem, const qkv_logistic_result *r, int64_t c) {
    const int64_t classes = problem->classes;
    double p[FEATURES] = {0}, q[FEATURES] = {0}, sp = 0, sq = 0, ratio[FEATURES], gradient[FEATURES + 1] = {0};
    double factor = classes == 2 && !problem->label_at ? 2 : 1;
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t k = d->offset[i]; k < d->offset[i + 1]; k++) (d->target[i] == c ? p : q)[d->index[k]] += 1;
    for (int f = 0; f < FEATURES; f++) sp += p[f] + 1, sq += q[f] + 1;
    for (int f = 0; f < FEATURES; f++) {
        ratio[f] = log((p[f] + 1) / sp) - log((q[f] + 1) / sq);
        gradient[f] = factor * (double)r->weight[f * classes + c] / ratio[f];
    }
    gradient[FEATURES] = factor * (double)r->bias[c];
    for (int64_t i = 0; i < ROWS; i++) {
        double y = d->target[i] == c ? 1 : -1, s = (double)r->bias[c];
        for (int64_t k = d->offset[i]; k < d->offset[i + 1]; k++) s += (double)r->weight[d->index[k] * classes + c];
        double by = -problem->cost * (problem->weight ? (double)problem->weight[d->target[i]] : 1) * y / (1 + exp(y * factor * s));
        for (int64_t k = d->offset[i]; k < d->offset[i + 1]; k++) gradient[d->index[k]] += by * ratio[d->index[k]];
        gradient[FEATURES] += by;
    }
    for (int f = 0; f <= FEATURES; f++) assert_true(fabs(gradient[f]) < 0.15);
}

static void finds_the_optimum(void **state) {
    (void)state;
    for (int64_t classes = 2; classes <= 5; classes++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        data d;
        fill(&d, classes);
        qkv_logistic_problem p = problem(&d, classes, 1);
        qkv_logistic_result r;
        assert_int_equal(qkv_logistic_fit(&ctx, &p, &r), QKV_OK);
        for (int64_t c = 0; c < classes; c++) check_optimum(&d, &p, &r, c);
        qkv_logistic_free(&ctx, &r);
        assert_int_equal(memory.blocks, 0);
    }
}

static void weighs_classes(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    data d;
    fill(&d, 3);
    const real weight[] = {(real)0.5, 1, 3};
    qkv_logistic_problem p = problem(&d, 3, 0.5);
    p.weight = weight;
    qkv_logistic_result r;
    assert_int_equal(qkv_logistic_fit(&ctx, &p, &r), QKV_OK);
    for (int64_t c = 0; c < 3; c++) check_optimum(&d, &p, &r, c);
    qkv_logistic_free(&ctx, &r);
}

/* One label each, given as a list of one, is the same problem; of two classes both are learned then. */
static void any_number_of_classes(void **state) {
    (void)state;
    for (int64_t classes = 2; classes <= 3; classes++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        data d;
        int64_t at[ROWS + 1];
        fill(&d, classes);
        for (int64_t i = 0; i <= ROWS; i++) at[i] = i;
        qkv_logistic_problem p = problem(&d, classes, 1);
        p.label_at = at;
        p.labels = d.target;
        p.target = NULL;
        qkv_logistic_result r;
        assert_int_equal(qkv_logistic_fit(&ctx, &p, &r), QKV_OK);
        for (int64_t c = 0; c < classes; c++) check_optimum(&d, &p, &r, c);
        qkv_logistic_free(&ctx, &r);
        assert_int_equal(memory.blocks, 0);
    }
}

static void same_bits_for_any_threads(void **state) {
    (void)state;
    data d;
    fill(&d, 3);
    real weight[FEATURES * 3], bias[3];
    for (int threads = 1; threads <= 4; threads++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        ctx.threads = threads;
        qkv_logistic_problem p = problem(&d, 3, 1);
        qkv_logistic_result r;
        assert_int_equal(qkv_logistic_fit(&ctx, &p, &r), QKV_OK);
        if (threads == 1) {
            memcpy(weight, r.weight, sizeof weight);
            memcpy(bias, r.bias, sizeof bias);
        }
        assert_memory_equal(weight, r.weight, sizeof weight);
        assert_memory_equal(bias, r.bias, sizeof bias);
        qkv_logistic_free(&ctx, &r);
    }
}

/* Every allocation may fail: an error, and nothing is lost. */
static void memory_may_end(void **state) {
    (void)state;
    data d;
    fill(&d, 3);
    qkv_logistic_problem p = problem(&d, 3, 1);
    for (int64_t k = 1;; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        qkv_logistic_result r;
        qkv_status status = qkv_logistic_fit(&ctx, &p, &r);
        if (status == QKV_OK) qkv_logistic_free(&ctx, &r);
        assert_int_equal(memory.blocks, 0);
        if (status == QKV_OK) break;
        assert_int_equal(status, QKV_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_the_optimum), cmocka_unit_test(weighs_classes), cmocka_unit_test(any_number_of_classes),
                                       cmocka_unit_test(same_bits_for_any_threads), cmocka_unit_test(memory_may_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
