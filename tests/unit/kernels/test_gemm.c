/* The product is one chain of fused multiply-adds with k ascending: the reference is that chain, bit for bit. */
#include "unit/kernels/kernel_test.h"

typedef struct shape {
    int64_t m, n, k;
} shape;

static real link(real a, real b, real c) {
#ifdef QKV_DOUBLE
    return a * b + c;
#else
    return fmaf(a, b, c);
#endif
}

typedef struct problem {
    shape s;
    int64_t a_row, a_col, b_row, b_col, ldc;
    real *a, *b, *c, *bias, *packed;
    int64_t a_size, c_size;
} problem;

static problem problem_make(dice *d, shape s, bool a_turned, bool b_turned) {
    problem p = {.s = s, .ldc = s.n + dice_int(d, 0, 5)};
    int64_t lda = (a_turned ? s.m : s.k) + dice_int(d, 0, 5), ldb = (b_turned ? s.k : s.n) + dice_int(d, 0, 5);
    p.a_row = a_turned ? 1 : lda, p.a_col = a_turned ? lda : 1;
    p.b_row = b_turned ? 1 : ldb, p.b_col = b_turned ? ldb : 1;
    p.a_size = a_turned ? matrix_size(s.k, s.m, lda) : matrix_size(s.m, s.k, lda);
    p.a = random_reals(d, p.a_size, 1);
    p.b = random_reals(d, b_turned ? matrix_size(s.n, s.k, ldb) : matrix_size(s.k, s.n, ldb), 1);
    p.c_size = matrix_size(s.m, s.n, p.ldc);
    p.c = random_reals(d, p.c_size, 1);
    p.bias = random_reals(d, s.n, 1);
    p.packed = random_reals(d, qkv_packed_size(s.k, s.n), 1);
    return p;
}

static void problem_free(problem *p) {
    free(p->a), free(p->b), free(p->c), free(p->bias), free(p->packed);
}

static real *chain_reference(const problem *p, int64_t n0, int64_t n1, const real *bias, bool accumulate) {
    real *c = copy_reals(p->c, p->c_size);
    for (int64_t i = 0; i < p->s.m; i++)
        for (int64_t j = n0; j < n1; j++) {
            real sum = accumulate ? c[i * p->ldc + j] : bias ? bias[j] : 0;
            for (int64_t l = 0; l < p->s.k; l++) sum = link(p->a[i * p->a_row + l * p->a_col], p->b[l * p->b_row + j * p->b_col], sum);
            c[i * p->ldc + j] = sum;
        }
    return c;
}

static void check_packed(const qkv_kernels *t, const problem *p) {
    int64_t panels = (p->s.n + 15) / 16;
    const int64_t cut = p->s.k / 2;
    t->gemm_pack(p->s.k, p->s.n, cut, p->s.k, 0, p->s.n, p->b, p->b_row, p->b_col, p->packed); /* in parts */
    t->gemm_pack(p->s.k, p->s.n, 0, cut, 0, p->s.n, p->b, p->b_row, p->b_col, p->packed);
    for (int64_t q = 0; q < panels; q++)
        for (int64_t l = 0; l < p->s.k; l++)
            for (int64_t j = 0; j < 16; j++) {
                real want = q * 16 + j < p->s.n ? p->b[l * p->b_row + (q * 16 + j) * p->b_col] : 0;
                assert_true(same_bits(p->packed[(q * p->s.k + l) * 16 + j], want));
            }
}

/* A with k contiguous, rows at *row. A turned A is turned back, and the sums on the way are held against the chain. */
static real *plain_a(const qkv_kernels *t, const problem *p, int64_t *row) {
    *row = p->a_row;
    if (p->a_col == 1) return copy_reals(p->a, p->a_size);
    const int64_t m = p->s.m, k = p->s.k, size = matrix_size(m, k, k + 3);
    real *a = must_alloc((size_t)size * sizeof *a), *want = must_alloc((size_t)size * sizeof *a);
    real *sum = copy_reals(p->c, m < p->c_size ? m : p->c_size), *all = copy_reals(p->c, m < p->c_size ? m : p->c_size);
    for (int64_t i = 0; i < size; i++) a[i] = want[i] = (real)i;
    *row = k + 3;
    const bool sums = m <= p->c_size;
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            want[i * *row + l] = p->a[i + l * p->a_col];
            if (sums) all[i] += p->a[i + l * p->a_col];
        }
    t->gemm_turn(k, m, p->a, p->a_col, a, *row, sums ? sum : NULL);
    check_same(a, want, size, t, "turned A"); /* the gaps between rows too */
    if (sums) check_same(sum, all, m, t, "sums of A");
    free(want), free(sum), free(all);
    return a;
}

static void check_product(const qkv_kernels *t, const problem *p, int64_t n0, int64_t n1, const real *bias, bool accumulate) {
    real *want = chain_reference(p, n0, n1, bias, accumulate), *c = copy_reals(p->c, p->c_size);
    int64_t row;
    real *a = plain_a(t, p, &row);
    qkv_gemm g = {.m = p->s.m, .k = p->s.k, .n0 = n0, .n1 = n1, .a = a, .a_row = row, .a_col = 1, .packed = p->packed,
                  .c = c, .ldc = p->ldc, .bias = bias, .accumulate = accumulate};
    t->gemm(&g);
    check_same(c, want, p->c_size, t, "C"); /* the gaps between rows and the other columns too */
    free(want), free(c), free(a);
}

static void check_shape(const qkv_kernels *t, dice *d, shape s) {
    for (int turned = 0; turned < 4; turned++) {
        problem p = problem_make(d, s, turned & 1, turned & 2);
        check_packed(t, &p);
        check_product(t, &p, 0, s.n, NULL, false);
        check_product(t, &p, 0, s.n, p.bias, false);
        check_product(t, &p, 0, s.n, NULL, true);
        if (s.n > 16) {
            check_product(t, &p, 16, s.n, p.bias, false);
            check_product(t, &p, 0, 16, NULL, true);
        }
        problem_free(&p);
    }
}

static void shapes_that_do_not_fit_the_tiles(void **state) {
    (void)state;
    static const int64_t ms[] = {0, 1, 2, 3, 4, 5, 6, 7, 13}, ns[] = {0, 1, 15, 16, 17, 40, 65, 80}, ks[] = {0, 1, 2, 17};
    FOR_EACH_TABLE(t) {
        dice d = {1, 0};
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
            for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
                for (size_t l = 0; l < sizeof ks / sizeof *ks; l++) check_shape(t, &d, (shape){ms[i], ns[j], ks[l]});
    }
}

static void shapes_beyond_the_blocks(void **state) {
    (void)state;
    static const shape shapes[] = {{97, 33, 31}, {200, 17, 16}, {5, 70, 511}, {6, 16, 512}, {7, 18, 513}, {3, 20, 1100}, {100, 50, 300}};
    FOR_EACH_TABLE(t) {
        dice d = {2, 0};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(t, &d, shapes[i]);
    }
}

/* Neither stride of B is 1. */
static void strided_both_ways(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {3, 0};
        problem p = {.s = {9, 21, 19}, .a_row = 60, .a_col = 1, .b_row = 2, .b_col = 41, .ldc = 25, .a_size = 8 * 60 + 19};
        p.a = random_reals(&d, p.a_size, 1), p.b = random_reals(&d, 18 * 2 + 20 * 41 + 1, 1);
        p.c_size = matrix_size(9, 21, 25);
        p.c = random_reals(&d, p.c_size, 1), p.bias = random_reals(&d, 21, 1), p.packed = random_reals(&d, qkv_packed_size(19, 21), 1);
        check_packed(t, &p);
        check_product(t, &p, 0, 21, p.bias, false);
        problem_free(&p);
    }
}

/* Against plain double, with the bound of a chain of k roundings. */
static void close_to_double(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {4, 0};
        problem p = problem_make(&d, (shape){11, 37, 411}, false, true);
        check_packed(t, &p);
        qkv_gemm g = {.m = 11, .k = 411, .n1 = 37, .a = p.a, .a_row = p.a_row, .a_col = 1, .packed = p.packed, .c = p.c, .ldc = p.ldc,
                      .bias = p.bias};
        t->gemm(&g);
        for (int64_t i = 0; i < 11; i++)
            for (int64_t j = 0; j < 37; j++) {
                double sum = p.bias[j], size = fabs(sum);
                for (int64_t l = 0; l < 411; l++) {
                    double term = (double)p.a[i * p.a_row + l] * (double)p.b[l + j * p.b_col];
                    sum += term, size += fabs(term);
                }
                check_near(p.c[i * p.ldc + j], sum, 2 * 412 * EPSILON * size, t, "C", i * 37 + j);
            }
        problem_free(&p);
    }
}

/* NaN and infinity go where they belong and nowhere else; the zeros that fill a panel do not meet them. */
static void nan_stays_in_its_row_and_column(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {5, 0};
        problem p = problem_make(&d, (shape){8, 20, 5}, false, false);
        p.a[3 * p.a_row + 2] = (real)NAN;
        p.b[1 * p.b_row + 17] = (real)INFINITY;
        check_packed(t, &p);
        check_product(t, &p, 0, 20, NULL, false);
        problem_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_that_do_not_fit_the_tiles), cmocka_unit_test(shapes_beyond_the_blocks), cmocka_unit_test(strided_both_ways),
        cmocka_unit_test(close_to_double),                  cmocka_unit_test(nan_stays_in_its_row_and_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
