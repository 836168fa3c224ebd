#include "unit/kernels/kernel_test.h"

typedef struct norm_case {
    int64_t rows, cols, ldx, ldy;
    bool centered, with_beta;
    double epsilon;
    real *x, *gamma, *beta, *dy;
} norm_case;

static norm_case case_make(dice *d, int64_t rows, int64_t cols, bool centered, double offset) {
    norm_case c = {rows, cols, cols + dice_int(d, 0, 4), cols + dice_int(d, 0, 4), centered, dice_int(d, 0, 1), 1e-5, 0, 0, 0, 0};
    c.x = random_reals(d, matrix_size(rows, cols, c.ldx), 2);
    for (int64_t i = 0; i < matrix_size(rows, cols, c.ldx); i++) c.x[i] += (real)offset;
    c.gamma = random_reals(d, cols, 1.5);
    c.beta = random_reals(d, cols, 1);
    c.dy = random_reals(d, matrix_size(rows, cols, c.ldy), 1);
    return c;
}

static void case_free(norm_case *c) { free(c->x), free(c->gamma), free(c->beta), free(c->dy); }

/* In double. `x` is one row, contiguous. */
static void reference_row(const norm_case *c, const double *x, double *mean, double *rstd, double *y) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < c->cols; i++) sum += x[i];
    *mean = c->centered && c->cols ? sum / (double)c->cols : 0;
    for (int64_t i = 0; i < c->cols; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1 / sqrt((c->cols ? squares / (double)c->cols : 0) + (double)(real)c->epsilon);
    for (int64_t i = 0; i < c->cols; i++)
        y[i] = (x[i] - *mean) * *rstd * c->gamma[i] + (c->with_beta ? (double)c->beta[i] : 0);
}

static double *row_of(const real *p, int64_t cols) {
    double *r = must_alloc((size_t)cols * sizeof *r);
    for (int64_t i = 0; i < cols; i++) r[i] = p[i];
    return r;
}

static void check_forward(const qkv_kernels *t, const norm_case *c, double slack) {
    int64_t size = matrix_size(c->rows, c->cols, c->ldy);
    real *y = copy_reals(c->dy, size), *mean = must_alloc((size_t)c->rows * sizeof *mean), *rstd = must_alloc((size_t)c->rows * sizeof *rstd);
    double *want = must_alloc((size_t)c->cols * sizeof *want), m, s;
    t->norm_forward(c->rows, c->cols, c->x, c->ldx, c->gamma, c->with_beta ? c->beta : NULL, (real)c->epsilon, y, c->ldy,
                    c->centered ? mean : NULL, rstd, false);
    for (int64_t r = 0; r < c->rows; r++) {
        double *x = row_of(c->x + r * c->ldx, c->cols);
        reference_row(c, x, &m, &s, want);
        if (c->centered) check_near(mean[r], m, 8 * EPSILON * (fabs(m) + 2), t, "mean", r);
        check_near(rstd[r], s, slack * s, t, "rstd", r);
        for (int64_t i = 0; i < c->cols; i++) {
            double size_of_x = fabs(x[i] - m) + 4 * EPSILON * fabs(m);
            check_near(y[r * c->ldy + i], want[i], slack * (size_of_x * s * fabs(c->gamma[i]) + 1) + 4 * EPSILON * fabs(m) * s * 2, t, "y", i);
        }
        for (int64_t i = c->cols; c->cols && i < c->ldy && r + 1 < c->rows; i++) assert_true(same_bits(y[r * c->ldy + i], c->dy[r * c->ldy + i]));
        free(x);
    }
    free(y), free(mean), free(rstd), free(want);
}

static void forward_against_double(void **state) {
    (void)state;
    static const int64_t rows[] = {0, 1, 2, 4, 5, 9}, cols[] = {0, 1, 2, 15, 16, 17, 33, 64, 100};
    FOR_EACH_TABLE(t) {
        dice d = {1, 0};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++)
                for (int centered = 0; centered < 2; centered++) {
                    norm_case c = case_make(&d, rows[i], cols[j], centered, 0);
                    check_forward(t, &c, 64 * EPSILON * (cols[j] == 2 ? 1e3 : 1)); /* two values may nearly coincide */
                    case_free(&c);
                }
    }
}

/* Sums of squares in one pass would have no digit left here. */
static void a_large_mean(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {2, 0};
        norm_case c = case_make(&d, 3, 96, true, 3000);
        check_forward(t, &c, 1e-3); /* the mean itself is rounded to 1e-4 of a standard deviation */
        case_free(&c);
    }
}

static void a_constant_row_gives_beta(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        real x[20], gamma[20], beta[20], y[20], mean, rstd;
        for (int i = 0; i < 20; i++) x[i] = 4, gamma[i] = 2, beta[i] = (real)i;
        t->norm_forward(1, 20, x, 20, gamma, beta, (real)1e-5, y, 20, &mean, &rstd, false);
        check_same(y, beta, 20, t, "y");
    }
}

/* Central differences of sum(dy * y) in double. */
static void backward_against_differences(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 3, 16, 21, 40};
    FOR_EACH_TABLE(t) {
        dice d = {3, 0};
        for (int round = 0; round < 10; round++) {
            norm_case c = case_make(&d, round % 5 + 1, cols[round / 2], round & 1, 0);
            c.epsilon = 0.1; /* so that the row of one column has a slope worth testing, in the RMS case */
            int64_t size = matrix_size(c.rows, c.cols, c.ldy);
            real *y = copy_reals(c.dy, size), *dx = copy_reals(c.dy, size), *past = copy_reals(c.dy, size), mean[5], rstd[5], unused[40] = {0};
            t->norm_forward(c.rows, c.cols, c.x, c.ldx, c.gamma, c.beta, (real)c.epsilon, y, c.ldy, c.centered ? mean : NULL, rstd,
                            false);
            /* dx is dy here: in place is promised */
            const real *center = c.centered ? mean : NULL;
            t->norm_backward(c.rows, c.cols, c.x, c.ldx, c.gamma, center, rstd, dx, c.ldy, NULL, 0, dx, c.ldy, unused, NULL, false);
            /* and what comes past the norm, added in place */
            t->norm_backward(c.rows, c.cols, c.x, c.ldx, c.gamma, center, rstd, c.dy, c.ldy, past, c.ldy, past, c.ldy, unused, NULL,
                             false);
            for (int64_t r = 0; r < c.rows; r++)
                for (int64_t i = 0; i < c.cols; i++)
                    assert_true(same_bits(past[r * c.ldy + i], c.dy[r * c.ldy + i] + dx[r * c.ldy + i]));
            for (int64_t r = 0; r < c.rows; r++) {
                double *x = row_of(c.x + r * c.ldx, c.cols), m, s, out[40];
                for (int64_t i = 0; i < c.cols; i++) {
                    double h = 1e-5, old = x[i], sum[2] = {0, 0};
                    for (int side = 0; side < 2; side++) {
                        x[i] = side ? old + h : old - h;
                        reference_row(&c, x, &m, &s, out);
                        for (int64_t k = 0; k < c.cols; k++) sum[side] += out[k] * c.dy[r * c.ldy + k];
                    }
                    x[i] = old;
                    check_near(dx[r * c.ldy + i], (sum[1] - sum[0]) / (2 * h), 100 * EPSILON + 1e-8, t, "dx", i);
                }
                free(x);
            }
            free(y), free(dx), free(past);
            case_free(&c);
        }
    }
}

static void gradients_of_gamma_and_beta(void **state) {
    (void)state;
    static const int64_t cols[] = {1, 16, 70, 130};
    FOR_EACH_TABLE(t) {
        dice d = {4, 0};
        for (int round = 0; round < 16; round++) {
            norm_case c = case_make(&d, round % 4 * 3, cols[round / 4], round & 1, 0);
            real mean[9], rstd[9], *dgamma = copy_reals(c.gamma, c.cols), *dbeta = copy_reals(c.beta, c.cols);
            real *dx = copy_reals(c.dy, matrix_size(c.rows, c.cols, c.ldy));
            for (int r = 0; r < 9; r++) mean[r] = (real)dice_real(&d, -1, 1), rstd[r] = (real)dice_real(&d, 0, 2);
            const real *m = c.centered ? mean : NULL;
            t->norm_backward(c.rows, c.cols, c.x, c.ldx, c.gamma, m, rstd, c.dy, c.ldy, NULL, 0, dx, c.ldy, dgamma,
                             c.with_beta ? dbeta : NULL, false);
            for (int64_t i = 0; i < c.cols; i++) {
                double g = c.gamma[i], b = c.beta[i];
                for (int64_t r = 0; r < c.rows; r++) {
                    double dy = c.dy[r * c.ldy + i];
                    g += dy * (c.x[r * c.ldx + i] - (m ? m[r] : 0)) * rstd[r];
                    b += c.with_beta ? dy : 0;
                }
                check_near(dgamma[i], g, 200 * EPSILON, t, "dgamma", i);
                check_near(dbeta[i], b, 100 * EPSILON, t, "dbeta", i);
            }
            free(dgamma), free(dbeta), free(dx);
            case_free(&c);
        }
    }
}

static void nan_stays_in_its_row(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {5, 0};
        norm_case c = case_make(&d, 6, 35, true, 0);
        real y[6 * 40], mean[6], rstd[6];
        c.x[2 * c.ldx + 34] = (real)NAN;
        t->norm_forward(6, 35, c.x, c.ldx, c.gamma, c.beta, (real)1e-5, y, 40, mean, rstd, false);
        for (int r = 0; r < 6; r++)
            for (int i = 0; i < 35; i++) assert_int_equal(isnan(y[r * 40 + i]) != 0, r == 2);
        case_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_against_double),      cmocka_unit_test(a_large_mean),
        cmocka_unit_test(a_constant_row_gives_beta),   cmocka_unit_test(backward_against_differences),
        cmocka_unit_test(gradients_of_gamma_and_beta), cmocka_unit_test(nan_stays_in_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
