/* A bf16 product is the f32 product of the rounded operands, bit for bit, on every instruction set. */
#include "unit/kernels/bf16_tables.h"
#include "unit/kernels/kernel_test.h"

#include "kernels/cost.h"
#include "kernels/count.h"

static real half_of(uint32_t pair, bool first) {
    uint32_t bits = first ? pair & 0xFFFF0000u : pair << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (real)f;
}

/* Numbers of every kind, ties and near ties among them. */
static real odd_number(dice *d) {
    static const uint32_t some[] = {0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0xBF818000, 0x7F7FFFFF, 0x7F7F7FFF, 0x7F7F8000, 0xFF7F8000,
                                    0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x00000001, 0x807FFFFF, 0x00800000, 0x00807FFF,
                                    0x00808000, 0x00000000, 0x80000000};
    uint32_t bits = (uint32_t)qkv_key2(d->key, d->count++);
    if (bits % 3 == 0) bits = some[bits / 3 % (sizeof some / sizeof *some)];
    else if (bits % 3 == 1) bits = (bits & 0xFFFF0000u) | 0x8000u;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (real)f;
}

static void rounding(void **state) {
    (void)state;
    enum { K = 67, N = 37 };
    bf16_table tables[BF16_TABLES];
    int n = bf16_tables(tables);
    for (int t = 0; t < n; t++)
        for (int turned = 0; turned < 2; turned++) {
            dice d = {5, 0};
            real b[K * N];
            uint32_t packed[48 * ((K + 1) / 2)];
            assert_int_equal(sizeof packed / sizeof *packed, qkv_bf16_packed_size(K, N));
            for (int i = 0; i < K * N; i++) b[i] = odd_number(&d);
            const int64_t row = turned ? 1 : N, col = turned ? K : 1;
            memset(packed, 0xAA, sizeof packed);
            tables[t].k->gemm_pack(K, N, 0, 20, 0, N, b, row, col, packed); /* in parts */
            tables[t].k->gemm_pack(K, N, 20, K, 0, 32, b, row, col, packed);
            tables[t].k->gemm_pack(K, N, 20, K, 32, N, b, row, col, packed);
            for (int64_t j = 0; j < 48; j++)
                for (int64_t l = 0; l < K + 1; l++) {
                    real want = j < N && l < K ? to_bf16(b[l * row + j * col]) : 0;
                    real got = half_of(packed[(j / 16 * ((K + 1) / 2) + l / 2) * 16 + j % 16], l % 2 == 0);
                    if (!same_bits(got, want))
                        fail_msg("%s: row %d column %d: %a became %a, not %a", tables[t].k->name, (int)l, (int)j,
                                 (double)b[l * row + j * col], (double)got, (double)want);
                }
        }
}

static real *rounded(const real *x, int64_t n) {
    real *y = must_alloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = to_bf16(x[i]);
    return y;
}

static void check_product(const bf16_table *t, dice *d, int64_t m, int64_t n, int64_t k) {
    const int64_t lda = k + dice_int(d, 0, 5), ldb = n + dice_int(d, 0, 5), ldc = n + dice_int(d, 0, 5);
    const int64_t sizes[] = {matrix_size(m, k, lda), matrix_size(k, n, ldb), matrix_size(m, n, ldc)};
    real *a = random_reals(d, sizes[0], 1), *b = random_reals(d, sizes[1], 1), *c = random_reals(d, sizes[2], 1), *bias = random_reals(d, n, 1);
    real *a16 = rounded(a, sizes[0]), *b16 = rounded(b, sizes[1]), *panels = random_reals(d, qkv_packed_size(k, n), 1);
    uint32_t *pairs = must_alloc((size_t)qkv_bf16_packed_size(k, n) * sizeof *pairs);
    t->k->gemm_pack(k, n, 0, k, 0, n, b, ldb, 1, pairs);
    t->f32->gemm_pack(k, n, 0, k, 0, n, b16, ldb, 1, panels);
    for (int how = 0; how < 3; how++) {
        real *got = copy_reals(c, sizes[2]), *want = copy_reals(c, sizes[2]);
        qkv_gemm g = {.m = m, .k = k, .n0 = 0, .n1 = n, .a = a, .a_row = lda, .a_col = 1, .c = got, .ldc = ldc,
                      .bias = how == 1 ? bias : NULL, .accumulate = how == 2};
        const int64_t cut = n > 16 ? 16 : n; /* two ranges of columns */
        g.n1 = cut;
        t->k->gemm(&g, pairs);
        g.n0 = cut, g.n1 = n;
        if (cut < n) t->k->gemm(&g, pairs);
        g.n0 = 0, g.a = a16, g.packed = panels, g.c = want;
        t->f32->gemm(&g);
        int64_t at = first_difference(got, want, sizes[2]);
        if (at >= 0)
            fail_msg("%s: %lld x %lld x %lld: element %lld is %a, not %a", t->k->name, (long long)m, (long long)n, (long long)k, (long long)at,
                     (double)got[at], (double)want[at]);
        free(got), free(want);
    }
    free(a), free(b), free(c), free(bias), free(a16), free(b16), free(panels), free(pairs);
}

static void products(void **state) {
    (void)state;
    static const int64_t ms[] = {0, 1, 2, 3, 4, 5, 6, 7, 13}, ns[] = {0, 1, 16, 17, 40, 65, 80}, ks[] = {0, 1, 2, 17, 33};
    static const int64_t large[][3] = {{97, 33, 31}, {5, 70, 511}, {6, 16, 512}, {7, 18, 513}, {3, 20, 1300}, {100, 50, 600}};
    bf16_table tables[BF16_TABLES];
    int n = bf16_tables(tables);
    for (int t = 0; t < n; t++) {
        dice d = {6, 0};
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
            for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
                for (size_t l = 0; l < sizeof ks / sizeof *ks; l++) check_product(&tables[t], &d, ms[i], ns[j], ks[l]);
        for (size_t i = 0; i < sizeof large / sizeof *large; i++) check_product(&tables[t], &d, large[i][0], large[i][1], large[i][2]);
    }
}

static void counted(void **state) {
    (void)state;
    dice d = {7, 0};
    for (int round = 0; round < 20; round++) {
        const int64_t m = dice_int(&d, 1, 30), n = dice_int(&d, 1, 70), k = dice_int(&d, 1, 70);
        real *a = random_reals(&d, m * k, 1), *b = random_reals(&d, k * n, 1), *c = random_reals(&d, m * n, 1);
        uint32_t *pairs = must_alloc((size_t)qkv_bf16_packed_size(k, n) * sizeof *pairs);
        qkv_gemm g = {.m = m, .k = k, .n1 = n, .a = a, .a_row = k, .a_col = 1, .c = c, .ldc = n};
        qkv_counted = (qkv_counts){0};
        qkv_kernels_bf16_count.gemm_pack(k, n, 0, k, 0, n, b, n, 1, pairs);
        qkv_kernels_bf16_count.gemm(&g, pairs);
        assert_true(2 * (double)qkv_counted.fma == qkv_executed_bf16_gemm(m, n, k));
        free(a), free(b), free(c), free(pairs);
    }
}

static void peak(void **state) {
    (void)state;
    bf16_table tables[BF16_TABLES];
    int n = bf16_tables(tables);
    for (int t = 0; t < n; t++) {
        real sink = 1;
        double flops = tables[t].k->dot_peak(3, &sink);
        assert_true(flops > 0 && isfinite((double)sink));
        if (tables[t].k != &qkv_kernels_bf16_count) continue;
        qkv_counted = (qkv_counts){0};
        flops = tables[t].k->dot_peak(3, &sink);
        assert_true(flops == 2 * (double)qkv_counted.fma);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounding), cmocka_unit_test(products), cmocka_unit_test(counted),
                                       cmocka_unit_test(peak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
