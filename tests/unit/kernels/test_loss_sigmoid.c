#include "unit/kernels/kernel_test.h"

static double softplus(double z) {
    return (z > 0 ? z : 0) + log1p(exp(-fabs(z)));
}

/* Up to r mod 4 labels of row r, ascending, with gaps. */
static int64_t some_labels(int64_t rows, int64_t cols, int64_t *at, int32_t *labels) {
    int64_t n = 0;
    at[0] = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0, label = r % cols; i < r % 4 && label < cols; i++, label += 1 + 5 * r) labels[n++] = (int32_t)label;
        at[r + 1] = n;
    }
    return n;
}

static void check_rows(const qkv_kernels *t, dice *d, int64_t rows, int64_t cols, double smoothing, bool weighted, double spread) {
    int64_t ld = cols + 2, ldd = cols + 1, at[8];
    int32_t labels[24];
    real *x = random_reals(d, matrix_size(rows, cols, ld), spread), *dx = random_reals(d, matrix_size(rows, cols, ldd), 1);
    real *weight = random_reals(d, cols, 2), loss[7], only[7], scale = (real)0.25;
    some_labels(rows, cols, at, labels);
    t->sigmoid_loss(rows, cols, x, ld, at, labels, weighted ? weight : NULL, (real)smoothing, scale, loss, dx, ldd);
    t->sigmoid_loss(rows, cols, x, ld, at, labels, weighted ? weight : NULL, (real)smoothing, scale, only, NULL, 0);
    check_same(only, loss, rows, t, "loss without gradient");
    double s = (real)smoothing;
    for (int64_t r = 0; r < rows; r++) {
        double want = 0, size = 1;
        for (int64_t c = 0; c < cols; c++) {
            bool label = false;
            for (int64_t i = at[r]; i < at[r + 1]; i++) label |= labels[i] == c;
            double z = x[r * ld + c], target = (label ? 1 - s : 0) + s / (double)cols,
                   w = label && weighted ? (double)weight[c] : 1;
            want += w * (softplus(z) - target * z);
            size += fabs(w) * (softplus(z) + fabs(target * z));
            check_near(dx[r * ldd + c], scale * w * (1 / (1 + exp(-z)) - target), 16 * EPSILON * (1 + fabs(w)), t, "dlogits", c);
        }
        check_near(loss[r], want, 16 * EPSILON * size, t, "loss", r);
    }
    free(x), free(dx), free(weight);
}

static void binary_cross_entropy_against_double(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 2, 15, 16, 17, 70};
    FOR_EACH_TABLE(t) {
        dice d = {1, 0};
        for (int64_t rows = 0; rows < 8; rows += 7)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++)
                for (int k = 0; k < 4; k++) check_rows(t, &d, rows, cols[j], k & 1 ? 0.1 : 0, (k & 2) != 0, k ? 3 : 60);
    }
}

static void the_gradient_may_replace_the_logits(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {3, 0};
        int64_t at[8];
        int32_t labels[24];
        real *x = random_reals(&d, 7 * 20, 4), *dx = random_reals(&d, 7 * 20, 1), loss[7], again[7];
        some_labels(7, 20, at, labels);
        t->sigmoid_loss(7, 20, x, 20, at, labels, NULL, (real)0.1, 1, loss, dx, 20);
        t->sigmoid_loss(7, 20, x, 20, at, labels, NULL, (real)0.1, 1, again, x, 20);
        check_same(again, loss, 7, t, "loss");
        check_same(x, dx, 7 * 20, t, "gradient in place");
        free(x), free(dx);
    }
}

static void large_logits_do_not_overflow(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        real x[3] = {(real)1e30, (real)-1e30, 0}, d[3], loss;
        int64_t at[2] = {0, 1};
        int32_t label = 0;
        t->sigmoid_loss(1, 3, x, 3, at, &label, NULL, 0, 1, &loss, d, 3);
        check_near(loss, log(2), 1e-6, t, "loss", 0);
        assert_true(d[0] == 0 && d[1] == 0 && d[2] == (real)0.5);
        label = 1;
        t->sigmoid_loss(1, 3, x, 3, at, &label, NULL, 0, 1, &loss, d, 3);
        check_near(loss, 2e30, 1e25, t, "loss", 0);
        assert_true(d[0] == 1 && d[1] == -1 && d[2] == (real)0.5);
    }
}

static void nan_stays_in_its_row(void **state) {
    (void)state;
    FOR_EACH_TABLE(t)
    for (int where = 0; where < 20; where++) {
        real x[40] = {0}, d[40], loss[2];
        int64_t at[3] = {0, 1, 2};
        int32_t labels[2] = {3, 3};
        x[where] = (real)NAN;
        t->sigmoid_loss(2, 20, x, 20, at, labels, NULL, 0, 1, loss, d, 20);
        assert_true(isnan(loss[0]) && !isnan(loss[1]));
        for (int i = 0; i < 40; i++) assert_int_equal(isnan(d[i]) != 0, i == where);
        t->sigmoid_rows(2, 20, x, 20, d, 20);
        for (int i = 0; i < 40; i++) assert_int_equal(isnan(d[i]) != 0, i == where);
    }
}

static void sigmoid_against_double(void **state) {
    (void)state;
    static const int64_t cols[] = {0, 1, 16, 17, 100};
    FOR_EACH_TABLE(t) {
        dice d = {2, 0};
        for (size_t j = 0; j < sizeof cols / sizeof *cols; j++) {
            int64_t n = cols[j], ldx = n + 2, ldy = n + 1;
            real *x = random_reals(&d, matrix_size(3, n, ldx), 20), *y = random_reals(&d, matrix_size(3, n, ldy), 1);
            t->sigmoid_rows(3, n, x, ldx, y, ldy);
            for (int64_t r = 0; r < 3; r++)
                for (int64_t c = 0; c < n; c++) {
                    double want = 1 / (1 + exp(-(double)x[r * ldx + c]));
                    check_near(y[r * ldy + c], want, 16 * EPSILON * want, t, "y", c);
                }
            free(x), free(y);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binary_cross_entropy_against_double),
        cmocka_unit_test(the_gradient_may_replace_the_logits),
        cmocka_unit_test(large_logits_do_not_overflow),
        cmocka_unit_test(nan_stays_in_its_row),
        cmocka_unit_test(sigmoid_against_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
