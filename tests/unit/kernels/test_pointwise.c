#include "unit/kernels/kernel_test.h"

static void axpby_against_double(void **state) {
    (void)state;
    static const int64_t cols[] = {0, 1, 16, 19, 48};
    static const double bs[] = {0, 1, -0.5};
    FOR_EACH_TABLE(t) {
        dice d = {1, 0};
        for (int64_t rows = 0; rows < 4; rows++)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++)
                for (int b = 0; b < 3; b++) {
                    int64_t n = cols[j], ldx = n + dice_int(&d, 0, 3), ldy = n + dice_int(&d, 0, 3);
                    real *x = random_reals(&d, matrix_size(rows, n, ldx), 1), *y = random_reals(&d, matrix_size(rows, n, ldy), 1);
                    real *old = copy_reals(y, matrix_size(rows, n, ldy)), a = (real)dice_real(&d, -2, 2);
                    for (int64_t i = 0; b == 0 && i < matrix_size(rows, n, ldy); i++) y[i] = (real)NAN; /* b = 0 does not read y */
                    t->axpby(rows, n, a, x, ldx, (real)bs[b], y, ldy);
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t c = 0; c < n; c++)
                            check_near(y[r * ldy + c], (double)a * x[r * ldx + c] + bs[b] * old[r * ldy + c], 4 * EPSILON, t, "y", c);
                    free(x), free(y), free(old);
                }
    }
}

static void column_sum_adds_one_chain(void **state) {
    (void)state;
    static const int64_t cols[] = {0, 1, 16, 64, 83, 150};
    FOR_EACH_TABLE(t) {
        dice d = {2, 0};
        for (int64_t rows = 0; rows < 30; rows += 7)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++) {
                int64_t n = cols[j], ld = n + 3, from = n > 20 ? 16 : 0;
                real *x = random_reals(&d, matrix_size(rows, n, ld), 1), *out = random_reals(&d, n, 1), *want = copy_reals(out, n);
                for (int64_t c = from; c < n; c++)
                    for (int64_t r = 0; r < rows; r++) want[c] += x[r * ld + c];
                t->column_sum(rows, from, n, x, ld, out);
                check_same(out, want, n, t, "out");
                free(x), free(out), free(want);
            }
    }
}

static void column_max_takes_the_first_and_nan(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {3, 0};
        for (int64_t rows = 1; rows < 9; rows++)
            for (int64_t cols = 0; cols < 40; cols += 13) {
                real *x = must_alloc((size_t)(rows * cols) * sizeof *x), *out = must_alloc((size_t)cols * sizeof *out);
                int32_t *which = must_alloc((size_t)cols * sizeof *which);
                for (int64_t i = 0; i < rows * cols; i++) /* few values: ties; and a NaN now and then */
                    x[i] = dice_int(&d, 0, 30) == 0 ? (real)NAN : (real)dice_int(&d, -3, 3);
                t->column_max(rows, cols, x, cols, out, which);
                for (int64_t c = 0; c < cols; c++) {
                    int64_t best = 0;
                    for (int64_t r = 1; r < rows; r++) {
                        real v = x[r * cols + c], m = x[best * cols + c];
                        if (!isnan(m) && (isnan(v) || v > m)) best = r;
                    }
                    assert_int_equal(which[c], best);
                    assert_true(same_bits(out[c], x[best * cols + c]));
                }
                free(x), free(out), free(which);
            }
    }
}

static void sum_squares_in_blocks(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 16, 100, 4095, 4096, 4097, 16384, 16385, 40000};
    FOR_EACH_TABLE(t) {
        dice d = {4, 0};
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            int64_t n = sizes[j];
            real *x = random_reals(&d, n, 1);
            double want = 0, parts = 0, got = t->sum_squares(n, x);
            for (int64_t i = 0; i < n; i++) want += (double)x[i] * x[i];
            for (int64_t i = 0; i < n; i += 4096) parts += t->sum_squares(n - i < 4096 ? n - i : 4096, x + i);
            check_near(got, want, 256 * EPSILON * want, t, "sum", n);
            assert_true(got == parts); /* a caller may cut at multiples of 4096 */
            if (n) x[n / 2] = (real)NAN;
            if (n) assert_true(isnan(t->sum_squares(n, x)));
            free(x);
        }
    }
}

/* ---- dropout ---- */

static void dropout_of_nothing_is_the_sum(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {5, 0};
        real *x = random_reals(&d, 3 * 20, 1), *base = random_reals(&d, 3 * 20, 1), y[60];
        t->dropout(3, 20, base, 20, x, 20, y, 20, (qkv_dropout){0}, false);
        for (int i = 0; i < 60; i++) assert_true(y[i] == base[i] + x[i]);
        t->dropout(3, 20, NULL, 0, x, 20, y, 20, (qkv_dropout){0}, false);
        check_same(y, x, 60, t, "y");
        free(x), free(base);
    }
}

/* Kept elements are divided by 1 - p, the choice is the same for any base, width of the call and place of the row. */
static void dropout_repeats_itself(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        dice d = {6, 0};
        const uint64_t rows[3] = {7, 1u << 20, 3};
        qkv_dropout drop = {(real)0.3, 99, rows, 0};
        real *x = random_reals(&d, 3 * 50, 1), *base = random_reals(&d, 3 * 50, 1), y[150], z[150], one[37];
        t->dropout(3, 50, NULL, 0, x, 50, y, 50, drop, false);
        t->dropout(3, 50, base, 50, x, 50, z, 50, drop, false);
        int kept = 0;
        for (int i = 0; i < 150; i++) {
            if (y[i] != 0) check_near(y[i], x[i] / (1 - (double)drop.p), 4 * EPSILON, t, "y", i), kept++;
            assert_true(z[i] == base[i] + y[i]);
        }
        assert_in_range(kept, 80, 130);
        drop.row_key = rows + 2;
        t->dropout(1, 37, NULL, 0, x + 100, 50, one, 37, drop, false);
        check_same(one, y + 100, 37, t, "a row alone");
        drop.column = 13;
        t->dropout(1, 37, NULL, 0, x + 113, 50, one, 37, drop, false);
        check_same(one, y + 113, 37, t, "columns from the thirteenth");
        drop.column = 0;
        memcpy(z, x, sizeof z);
        drop.row_key = rows;
        t->dropout(3, 50, z, 50, z, 50, z, 50, drop, false); /* all three the same buffer */
        for (int i = 0; i < 150; i++) assert_true(z[i] == x[i] + y[i]);
        x[149] = (real)NAN, x[148] = (real)NAN; /* a dropped NaN is gone, a kept one stays */
        t->dropout(3, 50, NULL, 0, x, 50, z, 50, drop, false);
        for (int i = 148; i < 150; i++) assert_int_equal(isnan(z[i]) != 0, y[i] != 0);
        free(x), free(base);
    }
}

/* Mean and variance over all, correlation between neighbours in a row and in a column, and between two keys, must all be
 * within 4.5 standard deviations of what independent draws give. */
static void dropout_looks_random(void **state) {
    (void)state;
    enum { ROWS = 400, COLS = 500 };
    FOR_EACH_TABLE(t) {
        if (t == &qkv_kernels_count) continue; /* it is the scalar one */
        uint64_t rows[ROWS];
        for (int r = 0; r < ROWS; r++) rows[r] = (uint64_t)r;
        real *one = must_alloc(ROWS * COLS * sizeof *one), *a = must_alloc(ROWS * COLS * sizeof *a), *b = must_alloc(ROWS * COLS * sizeof *b);
        for (int i = 0; i < ROWS * COLS; i++) one[i] = 1;
        static const double ps[] = {0.1, 0.5, 0.9};
        for (int q = 0; q < 3; q++) {
            double p = ps[q], keep = 1 - p, n = ROWS * COLS;
            t->dropout(ROWS, COLS, NULL, 0, one, COLS, a, COLS, (qkv_dropout){(real)p, 1, rows, 0}, false);
            t->dropout(ROWS, COLS, NULL, 0, one, COLS, b, COLS, (qkv_dropout){(real)p, 2, rows, 0}, false);
            double mean = 0, right = 0, down = 0, keys = 0, row_spread = 0, column_spread = 0;
            for (int i = 0; i < ROWS * COLS; i++) {
                double u = (a[i] != 0) - keep;
                mean += u / n;
                if (i % COLS < COLS - 1) right += u * ((a[i + 1] != 0) - keep) / n;
                if (i < (ROWS - 1) * COLS) down += u * ((a[i + COLS] != 0) - keep) / n;
                keys += u * ((b[i] != 0) - keep) / n;
            }
            for (int r = 0; r < ROWS; r++) {
                double s = 0;
                for (int c = 0; c < COLS; c++) s += (a[r * COLS + c] != 0) - keep;
                row_spread += s * s / (COLS * p * keep) / ROWS;
            }
            for (int c = 0; c < COLS; c++) {
                double s = 0;
                for (int r = 0; r < ROWS; r++) s += (a[r * COLS + c] != 0) - keep;
                column_spread += s * s / (ROWS * p * keep) / COLS;
            }
            double sigma = 4.5 / sqrt(n);
            check_near(mean, 0, sigma * sqrt(p * keep), t, "mean", q);
            check_near(right, 0, sigma * p * keep, t, "neighbours in a row", q);
            check_near(down, 0, sigma * p * keep, t, "neighbours in a column", q);
            check_near(keys, 0, sigma * p * keep, t, "two keys", q);
            check_near(row_spread, 1, 4.5 * sqrt(2.0 / ROWS), t, "variance of row sums", q);
            check_near(column_spread, 1, 4.5 * sqrt(2.0 / COLS), t, "variance of column sums", q);
        }
        free(one), free(a), free(b);
    }
}

/* ---- what the machine can do ---- */

static void peak_and_read(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        real sink = (real)0.5;
        double once = t->fma_peak(1, &sink), thrice = t->fma_peak(3, &sink);
        assert_true(once >= 128 && thrice == 3 * once);
        assert_true(isfinite(sink));
        dice d = {8, 0};
        for (int64_t n = 0; n < 5000; n += n < 600 ? 97 : 1201) {
            real *x = random_reals(&d, n, 1), *room = random_reals(&d, n + 16, 1);
            real *y = room + (64 - (uintptr_t)room % 64) % 64 / sizeof(real);
            double want = 0;
            for (int64_t i = 0; i < n; i++) want += x[i];
            for (int way = 0; way < QKV_READ_WAYS; way++)
                check_near(t->read_sum(n, x, (qkv_read_way)way), want, 64 * EPSILON * (double)(n + 1), t, "sum", n);
            for (int off = 0; off < 2 && n > 0; off++) { /* whole lines, and not */
                t->copy_around(n - off, x, y + off);
                assert_memory_equal(x, y + off, (size_t)(n - off) * sizeof(real));
            }
            free(x);
            free(room);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axpby_against_double),          cmocka_unit_test(column_sum_adds_one_chain),
        cmocka_unit_test(column_max_takes_the_first_and_nan), cmocka_unit_test(sum_squares_in_blocks),
        cmocka_unit_test(dropout_of_nothing_is_the_sum), cmocka_unit_test(dropout_repeats_itself),
        cmocka_unit_test(dropout_looks_random),          cmocka_unit_test(peak_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
