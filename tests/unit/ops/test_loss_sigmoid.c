#include "ops.h"

#include "base/rng.h"
#include "ops/loss.h"
#include "ops/loss_sigmoid.h"

/* Each row has up to three labels, ascending. */
static void some_labels(int64_t rows, int64_t cols, int64_t *at, int32_t *labels) {
    int64_t n = 0;
    at[0] = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = (int64_t)qkv_below((uint64_t)r, (uint64_t)cols), k = 0; k < r % 4 && c < cols; k++, c += 1 + r % 5)
            labels[n++] = (int32_t)c;
        at[r + 1] = n;
    }
}

static void losses_of_several_labels(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    static const int64_t sizes[][2] = {{0, 3}, {1, 1}, {7, 2}, {9, 44}, {900, 50}};
    static const double smoothing[] = {0, 0.1, 1};
    for (int s = 0; s < 5; s++)
        for (int k = 0; k < 3; k++) {
            int64_t rows = sizes[s][0], cols = sizes[s][1];
            qkv_mat x = ops_mat(rows, cols, cols + 1, 3), d = ops_mat(rows, cols, cols + 2, 4),
                    p = ops_mat(rows, cols, cols + 3, 5);
            int64_t *at = calloc((size_t)rows + 1, sizeof *at);
            int32_t *labels = calloc(3 * (size_t)rows + 1, sizeof *labels);
            real *loss = calloc((size_t)rows + 1, sizeof *loss), *weight = calloc((size_t)cols, sizeof *weight);
            for (int64_t c = 0; c < cols; c++) weight[c] = (real)(0.5 + (double)(c % 3));
            some_labels(rows, cols, at, labels);
            OPS_OK(qkv_sigmoid_loss(&bench->x, x, at, labels, k ? weight : NULL, smoothing[k], 0.25, loss, d));
            OPS_OK(qkv_sigmoid(&bench->x, x, p));
            for (int64_t r = 0; r < rows; r++) {
                double expected = 0;
                int64_t next = at[r];
                for (int64_t c = 0; c < cols; c++) {
                    bool label = next < at[r + 1] && labels[next] == c;
                    next += label;
                    double z = (double)ops_at(x, r, c), q = 1 / (1 + exp(-z)), w = label && k ? (double)weight[c] : 1;
                    double t = (label ? 1 - smoothing[k] : 0) + smoothing[k] / (double)cols;
                    expected += w * (log1p(exp(z)) - t * z);
                    ops_near("sigmoid", (double)ops_at(p, r, c), q, 1e-6);
                    ops_near("dlogit", (double)ops_at(d, r, c), 0.25 * w * (q - t), 1e-6);
                }
                ops_near("loss", (double)loss[r], expected, 3e-6);
            }
            ops_untouched(d);
            ops_untouched(p);
            free(x.p), free(d.p), free(p.p), free(at), free(labels), free(loss), free(weight);
        }
    ops_end(bench);
}

static void weights_of_classes(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    const int32_t target[] = {2, 0, 1, 2};
    const real weight[] = {(real)0.5, 2, 3};
    qkv_mat x = ops_mat(4, 3, 5, 3), plain = ops_mat(4, 3, 3, 4), weighed = ops_mat(4, 3, 4, 5);
    real loss[4], by_weight[4];
    OPS_OK(qkv_cross_entropy(&bench->x, x, target, 0.1, 1, loss, plain));
    OPS_OK(qkv_cross_entropy(&bench->x, x, target, 0.1, 1, by_weight, weighed));
    OPS_OK(qkv_loss_weigh(&bench->x, target, weight, by_weight, weighed));
    for (int64_t r = 0; r < 4; r++) {
        assert_true(by_weight[r] == weight[target[r]] * loss[r]);
        for (int64_t c = 0; c < 3; c++) assert_true(ops_at(weighed, r, c) == weight[target[r]] * ops_at(plain, r, c));
    }
    ops_untouched(weighed);
    free(x.p), free(plain.p), free(weighed.p);
    ops_end(bench);
}

static void what_is_no_class(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 1);
    ops_ready(bench, 64);
    qkv_mat x = ops_mat(2, 4, 4, 3), none = {0};
    real loss[2];
    const int64_t at[] = {0, 1, 3};
    const int32_t above[] = {0, 2, 4}, below[] = {-1, 0, 1}, twice[] = {0, 1, 1}, order[] = {0, 3, 1};
    assert_int_equal(qkv_sigmoid_loss(&bench->x, x, at, above, NULL, 0, 1, loss, none), QKV_BAD_ARGUMENT);
    assert_string_equal(bench->ctx.message, "row 1 has label 4; there are 4 classes");
    assert_int_equal(qkv_sigmoid_loss(&bench->x, x, at, below, NULL, 0, 1, loss, none), QKV_BAD_ARGUMENT);
    assert_string_equal(bench->ctx.message, "row 0 has label -1; there are 4 classes");
    assert_int_equal(qkv_sigmoid_loss(&bench->x, x, at, twice, NULL, 0, 1, loss, none), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_sigmoid_loss(&bench->x, x, at, order, NULL, 0, 1, loss, none), QKV_BAD_ARGUMENT);
    assert_string_equal(bench->ctx.message, "row 1 has label 1 behind label 3");
    assert_int_equal(qkv_sigmoid_loss(&bench->x, x, at, order, NULL, 2, 1, loss, none), QKV_BAD_ARGUMENT);
    free(x.p);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_of_several_labels), cmocka_unit_test(weights_of_classes),
                                       cmocka_unit_test(what_is_no_class)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
