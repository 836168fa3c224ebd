#include "unit/kernels/kernel_test.h"

static const qkv_act acts[] = {QKV_KERNEL_GELU, QKV_KERNEL_GELU_TANH, QKV_KERNEL_RELU, QKV_KERNEL_SILU};

static double reference(qkv_act act, double x) {
    switch (act) {
    case QKV_KERNEL_GELU: return x * 0.5 * erfc(-x * sqrt(0.5));
    case QKV_KERNEL_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case QKV_KERNEL_RELU: return x > 0 ? x : 0;
    case QKV_KERNEL_SILU: return x / (1 + exp(-x));
    }
    return NAN;
}

static double slope(qkv_act act, double x) {
    if (act == QKV_KERNEL_RELU) return x > 0;
    double h = 1e-5 * (fabs(x) + 1);
    return (reference(act, x + h) - reference(act, x - h)) / (2 * h);
}

static real *inputs(dice *d, int64_t n) {
    real *x = random_reals(d, n, 6);
    for (int64_t i = 0; i < n; i += 3) x[i] *= (real)0.01;
    return x;
}

static void check_plain(const qkv_kernels *t, dice *d, qkv_act act, int64_t rows, int64_t cols) {
    int64_t ldx = cols + dice_int(d, 0, 3), ldy = cols + dice_int(d, 0, 3);
    real *x = inputs(d, matrix_size(rows, cols, ldx)), *dy = random_reals(d, matrix_size(rows, cols, ldy), 1);
    real *y = copy_reals(dy, matrix_size(rows, cols, ldy)), *dx = copy_reals(x, matrix_size(rows, cols, ldx));
    t->act_forward(act, false, rows, cols, x, ldx, y, ldy, false);
    t->act_backward(act, false, rows, cols, x, ldx, dy, ldy, dx, ldx, false);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            double a = x[r * ldx + c], g = dy[r * ldy + c];
            check_near(y[r * ldy + c], reference(act, a), 4 * EPSILON * (fabs(a) + 0.1 * fabs(reference(act, a))), t, "y", c);
            check_near(dx[r * ldx + c], g * slope(act, a), (24 * EPSILON + 1e-9) * fabs(g), t, "dx", c);
        }
        for (int64_t c = cols; cols && c < ldy && r + 1 < rows; c++) assert_true(same_bits(y[r * ldy + c], dy[r * ldy + c]));
        for (int64_t c = cols; cols && c < ldx && r + 1 < rows; c++) assert_true(same_bits(dx[r * ldx + c], x[r * ldx + c]));
    }
    free(x), free(dy), free(y), free(dx);
}

static void check_gated(const qkv_kernels *t, dice *d, qkv_act act, int64_t rows, int64_t cols) {
    int64_t ldx = 2 * cols + dice_int(d, 0, 3), ldy = cols + dice_int(d, 0, 3);
    real *x = inputs(d, matrix_size(rows, 2 * cols, ldx)), *dy = random_reals(d, matrix_size(rows, cols, ldy), 1);
    real *y = copy_reals(dy, matrix_size(rows, cols, ldy)), *dx = copy_reals(x, matrix_size(rows, 2 * cols, ldx));
    t->act_forward(act, true, rows, cols, x, ldx, y, ldy, false);
    t->act_backward(act, true, rows, cols, x, ldx, dy, ldy, dx, ldx, false);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            double gate = x[r * ldx + c], up = x[r * ldx + cols + c], g = dy[r * ldy + c], a = reference(act, gate);
            check_near(y[r * ldy + c], a * up, 6 * EPSILON * (fabs(gate) + fabs(a)) * fabs(up), t, "y", c);
            check_near(dx[r * ldx + c], g * up * slope(act, gate), (26 * EPSILON + 1e-9) * fabs(g * up), t, "d gate", c);
            check_near(dx[r * ldx + cols + c], g * a, 6 * EPSILON * (fabs(gate) + fabs(a)) * fabs(g), t, "d up", c);
        }
    free(x), free(dy), free(y), free(dx);
}

static void values_and_slopes(void **state) {
    (void)state;
    static const int64_t cols[] = {0, 1, 15, 16, 17, 50};
    FOR_EACH_TABLE(t)
        for (int a = 0; a < 4; a++) {
            dice d = {(uint64_t)a, 0};
            for (int64_t rows = 0; rows < 4; rows++)
                for (size_t j = 0; j < sizeof cols / sizeof *cols; j++) {
                    check_plain(t, &d, acts[a], rows, cols[j]);
                    check_gated(t, &d, acts[a], rows, cols[j]);
                }
        }
}

/* Far out an activation is 0 or x and its slope 0 or 1, with no overflow in between; a NaN stays one. */
static void far_out_and_nan(void **state) {
    (void)state;
    static const real x[] = {-1000, -(real)1e20, -(real)3e38, 1000, (real)1e20, (real)3e38, (real)NAN, 0};
    static const real want[] = {0, 0, 0, 1000, (real)1e20, (real)3e38, (real)NAN, 0}, slopes[] = {0, 0, 0, 1, 1, 1};
    FOR_EACH_TABLE(t)
        for (int a = 0; a < 4; a++) {
            real y[8], dx[8], one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
            t->act_forward(acts[a], false, 1, 8, x, 8, y, 8, false);
            t->act_backward(acts[a], false, 1, 8, x, 8, one, 8, dx, 8, false);
            for (int i = 0; i < 8; i++) check_near(y[i], want[i], 0, t, "y", i);
            for (int i = 0; i < 6; i++) check_near(dx[i], slopes[i], 0, t, "dx", i);
            assert_true(isnan(dx[6]));
        }
}

/* The two GELUs differ, and not by more than they should: neither is a silent stand-in for the other. */
static void the_two_gelus(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        double most = 0;
        for (int i = -400; i <= 400; i++) {
            real x = (real)(i * 0.01), a, b;
            t->act_forward(QKV_KERNEL_GELU, false, 1, 1, &x, 1, &a, 1, false);
            t->act_forward(QKV_KERNEL_GELU_TANH, false, 1, 1, &x, 1, &b, 1, false);
            most = fmax(most, fabs((double)a - (double)b));
        }
        assert_true(most > 2e-4 && most < 6e-4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_slopes), cmocka_unit_test(far_out_and_nan), cmocka_unit_test(the_two_gelus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
