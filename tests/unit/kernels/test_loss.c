#include "unit/kernels/kernel_test.h"

static double reference_loss(const double *x, int64_t n, int64_t target, double smoothing) {
    double max = -INFINITY, sum = 0, loss = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) loss -= ((i == target ? 1 - smoothing : 0) + smoothing / (double)n) * (x[i] - max - log(sum));
    return loss;
}

static void check_rows(const qkv_kernels *t, dice *d, int64_t rows, int64_t cols, double smoothing, double spread) {
    int64_t ld = cols + dice_int(d, 0, 3), ldd = cols + dice_int(d, 0, 3);
    real *x = random_reals(d, matrix_size(rows, cols, ld), spread), *dx = random_reals(d, matrix_size(rows, cols, ldd), 1), loss[5], only[5];
    real scale = (real)0.25;
    int32_t target[5] = {0};
    for (int64_t r = 0; r < rows; r++) target[r] = (int32_t)dice_int(d, 0, cols - 1);
    t->cross_entropy(rows, cols, x, ld, target, (real)smoothing, scale, loss, dx, ldd);
    t->cross_entropy(rows, cols, x, ld, target, (real)smoothing, scale, only, NULL, 0);
    check_same(only, loss, rows, t, "loss without gradient");
    double *row = must_alloc((size_t)cols * sizeof *row);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) row[c] = x[r * ld + c];
        double s = (real)smoothing, want = reference_loss(row, cols, target[r], s);
        check_near(loss[r], want, 32 * EPSILON * (1 + 2 * spread), t, "loss", r);
        for (int64_t c = 0; c < cols; c++) {
            double h = 1e-5, old = row[c];
            row[c] = old + h;
            double up = reference_loss(row, cols, target[r], s);
            row[c] = old - h;
            double down = reference_loss(row, cols, target[r], s);
            row[c] = old;
            check_near(dx[r * ldd + c], scale * (up - down) / (2 * h), scale * (EPSILON * (32 + 4 * spread) + 1e-9 * (1 + spread)), t, "dlogits", c);
        }
    }
    free(x), free(dx), free(row);
}

static void cross_entropy_against_double(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 2, 15, 16, 17, 70};
    FOR_EACH_TABLE(t) {
        dice d = {1, 0};
        for (int64_t rows = 0; rows < 5; rows += 2)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++)
                for (int s = 0; s < 2; s++) {
                    check_rows(t, &d, rows, cols[j], s ? 0.1 : 0, 3);
                    check_rows(t, &d, rows, cols[j], s ? 0.3 : 0, 40);
                }
    }
}

static void large_logits_do_not_overflow(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        real x[3] = {(real)1e30, (real)-1e30, 0}, d[3], loss;
        int32_t target = 0;
        t->cross_entropy(1, 3, x, 3, &target, 0, 1, &loss, d, 3);
        assert_true(loss == 0 && d[0] == 0 && d[1] == 0 && d[2] == 0);
        target = 2;
        t->cross_entropy(1, 3, x, 3, &target, 0, 1, &loss, d, 3);
        check_near(loss, (double)(real)1e30, 1e24, t, "loss", 0);
        assert_true(d[0] == 1 && d[1] == 0 && d[2] == -1);
    }
}

static void nan_stays(void **state) {
    (void)state;
    FOR_EACH_TABLE(t)
        for (int where = 0; where < 20; where++) {
            real x[40] = {0}, d[40], loss[2];
            int32_t target[2] = {3, 3};
            x[where] = (real)NAN;
            t->cross_entropy(2, 20, x, 20, target, 0, 1, loss, d, 20);
            assert_true(isnan(loss[0]) && !isnan(loss[1]));
            for (int i = 0; i < 40; i++) assert_int_equal(isnan(d[i]) != 0, i < 20);
            t->softmax_rows(2, 20, x, 20, d, 20);
            for (int i = 0; i < 40; i++) assert_int_equal(isnan(d[i]) != 0, i < 20);
        }
}

static void softmax_against_double(void **state) {
    (void)state;
    static const int64_t cols[] = {0, 1, 2, 16, 17, 100};
    FOR_EACH_TABLE(t) {
        dice d = {2, 0};
        for (int64_t rows = 0; rows < 4; rows++)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++) {
                int64_t n = cols[j], ldx = n + 2, ldy = n + 1;
                real *x = random_reals(&d, matrix_size(rows, n, ldx), 20), *y = random_reals(&d, matrix_size(rows, n, ldy), 1);
                t->softmax_rows(rows, n, x, ldx, y, ldy);
                for (int64_t r = 0; r < rows; r++) {
                    double sum = 0, all = 0;
                    for (int64_t c = 0; c < n; c++) sum += exp((double)x[r * ldx + c] - 20);
                    for (int64_t c = 0; c < n; c++) {
                        double want = exp((double)x[r * ldx + c] - 20) / sum;
                        check_near(y[r * ldy + c], want, 100 * EPSILON * want, t, "y", c);
                        all += y[r * ldy + c];
                    }
                    if (n) check_near(all, 1, 16 * EPSILON, t, "sum", r);
                }
                real *same = copy_reals(x, matrix_size(rows, n, ldx)); /* in place */
                t->softmax_rows(rows, n, same, ldx, same, ldx);
                for (int64_t r = 0; r < rows; r++) check_same(same + r * ldx, y + r * ldy, n, t, "in place");
                free(x), free(y), free(same);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_against_double),
        cmocka_unit_test(large_logits_do_not_overflow),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(softmax_against_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
