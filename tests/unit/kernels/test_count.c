/* Law: the formula is what is executed. The COUNT table counts the lanes it computes. */
#include "unit/kernels/kernel_test.h"

#include "kernels/cost.h"
#include "kernels/count.h"

static const qkv_kernels *const counting = &qkv_kernels_count;

static void products(void **state) {
    (void)state;
    static const int64_t ms[] = {0, 1, 5, 6, 13, 97}, ns[] = {0, 1, 16, 17, 100}, ks[] = {0, 1, 16, 300};
    dice d = {1, 0};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++)
            for (int l = 0; l < 4; l++)
                for (int more = 0; more < 2; more++) {
                    int64_t m = ms[i], n = ns[j], k = ks[l];
                    real *a = random_reals(&d, m * k, 1), *b = random_reals(&d, n * k, 1), *c = random_reals(&d, m * n, 1);
                    real *packed = random_reals(&d, qkv_packed_size(k, n), 1);
                    qkv_counted = (qkv_counts){0};
                    counting->gemm_pack(k, n, 0, k, 0, n, b, n, 1, packed);
                    assert_int_equal(qkv_counted.fma + qkv_counted.other + qkv_counted.math, 0); /* packing is moving */
                    qkv_gemm g = {.m = m, .k = k, .n1 = n, .a = a, .a_row = k, .a_col = 1, .packed = packed,
                                  .c = c, .ldc = n, .accumulate = more};
                    counting->gemm(&g);
                    qkv_cost cost = qkv_cost_gemm(m, n, k);
                    assert_int_equal(2 * qkv_counted.fma, (uint64_t)cost.executed);
                    assert_int_equal(qkv_counted.other + qkv_counted.math, 0);
                    assert_true(cost.flops == 2.0 * (double)m * (double)n * (double)k && cost.flops <= cost.executed);
                    free(a), free(b), free(c), free(packed);
                }
}

/* Parts of a product cost what the whole costs. */
static void products_in_parts(void **state) {
    (void)state;
    dice d = {2, 0};
    real *a = random_reals(&d, 20 * 30, 1), *c = random_reals(&d, 20 * 50, 1), *packed = random_reals(&d, qkv_packed_size(30, 50), 1);
    qkv_counted = (qkv_counts){0};
    for (int64_t n0 = 0; n0 < 50; n0 += 16)
        for (int64_t row = 0; row < 20; row += 10) {
            qkv_gemm g = {.m = 10, .k = 30, .n0 = n0, .n1 = n0 + 16 < 50 ? n0 + 16 : 50, .a = a + row * 30, .a_row = 30, .a_col = 1,
                          .packed = packed, .c = c + row * 50, .ldc = 50};
            counting->gemm(&g);
        }
    assert_int_equal(2 * qkv_counted.fma, (uint64_t)qkv_cost_gemm(20, 50, 30).executed);
    free(a), free(c), free(packed);
}

/* Row kernels: so many lanes an element (columns rounded up to 16) and so many a row. */
typedef struct per {
    uint64_t fma, other, math;
} per;

static void check_counts(const char *what, int64_t rows, int64_t cols, per element, per row) {
    uint64_t wide = (uint64_t)((cols + 15) / 16 * 16), r = (uint64_t)rows;
    uint64_t fma = r * (element.fma * wide + row.fma), other = r * (element.other * wide + row.other);
    uint64_t math = r * (element.math * wide + row.math);
    if (qkv_counted.fma != fma || qkv_counted.other != other || qkv_counted.math != math)
        fail_msg("%s %lld x %lld: %llu fma, %llu other, %llu math counted; the formula says %llu, %llu, %llu", what, (long long)rows,
                 (long long)cols, (unsigned long long)qkv_counted.fma, (unsigned long long)qkv_counted.other,
                 (unsigned long long)qkv_counted.math, (unsigned long long)fma, (unsigned long long)other, (unsigned long long)math);
    qkv_counted = (qkv_counts){0};
}

static void row_kernels(void **state) {
    (void)state;
    static const int64_t all_cols[] = {1, 16, 40};
    dice d = {3, 0};
    for (int64_t rows = 0; rows < 10; rows += 3)
        for (int j = 0; j < 3; j++) {
            int64_t cols = all_cols[j], n = rows * cols;
            real *x = random_reals(&d, 2 * n, 1), *y = random_reals(&d, 2 * n, 1), *w = random_reals(&d, cols, 1), mean[9], rstd[9], loss[9];
            int32_t ids[9] = {0};
            qkv_counted = (qkv_counts){0};
            counting->norm_forward(rows, cols, x, cols, w, w, 1, y, cols, mean, rstd, false);
            check_counts("layer norm", rows, cols, (per){2, 4, 0}, (per){0, 31, 0});
            counting->norm_forward(rows, cols, x, cols, w, NULL, 1, y, cols, NULL, rstd, false);
            check_counts("rms norm", rows, cols, (per){2, 3, 0}, (per){0, 16, 0});
            counting->act_forward(QKV_KERNEL_GELU, false, rows, cols, x, cols, y, cols, false);
            check_counts("gelu", rows, cols, (per){0, 1, 1}, (per){0, 0, 0});
            counting->act_forward(QKV_KERNEL_SILU, true, rows, cols, x, 2 * cols, y, cols, false);
            check_counts("gated silu", rows, cols, (per){0, 2, 1}, (per){0, 0, 0});
            counting->axpby(rows, cols, 2, x, cols, 3, y, cols);
            check_counts("axpby", rows, cols, (per){1, 1, 0}, (per){0, 0, 0});
            counting->scatter_add(rows, cols, 0, 1, ids, 1, x, cols, w, cols);
            check_counts("scatter", rows, cols, (per){1, 0, 0}, (per){0, 0, 0});
            counting->softmax_rows(rows, cols, x, cols, y, cols);
            check_counts("softmax", rows, cols, (per){0, 4, 1}, (per){0, 30, 0});
            counting->cross_entropy(rows, cols, x, cols, ids, 0, 1, loss, NULL, 0);
            check_counts("cross-entropy", rows, cols, (per){0, 3, 1}, (per){0, 30, 16});
            free(x), free(y), free(w);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(products_in_parts), cmocka_unit_test(row_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
