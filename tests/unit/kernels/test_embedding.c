#include "unit/kernels/kernel_test.h"

static void gather_and_scatter(void **state) {
    (void)state;
    enum { VOCAB = 7, MOST_ROWS = 150 }; /* more than the kernel sorts at a time */
    static const int64_t cols[] = {0, 1, 16, 31, 64};
    FOR_EACH_TABLE(t) {
        dice d = {1, 0};
        for (int64_t rows = 0; rows <= MOST_ROWS; rows = rows < 9 ? rows + 3 : rows + 141)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++) {
                int64_t n = cols[j], ldt = n + 2, ldy = n + 1;
                real *table = random_reals(&d, matrix_size(VOCAB, n, ldt), 1), *dtable = copy_reals(table, matrix_size(VOCAB, n, ldt));
                real *y = random_reals(&d, matrix_size(rows, n, ldy), 1), *dy = copy_reals(y, matrix_size(rows, n, ldy)), scale = (real)1.7;
                real *want = copy_reals(table, matrix_size(VOCAB, n, ldt));
                int32_t ids[MOST_ROWS];
                for (int64_t r = 0; r < rows; r++) ids[r] = (int32_t)dice_int(&d, 0, VOCAB - 1); /* some twice */
                t->gather(rows, n, table, ldt, ids, scale, y, ldy, false);
                for (int32_t p = 0; p < (rows > 6 ? 2 : 1); p++) t->scatter_add(rows, n, p, rows > 6 ? 2 : 1, ids, scale, dy, ldy, dtable, ldt);
                for (int64_t r = 0; r < rows; r++) {
                    for (int64_t c = 0; c < n; c++) assert_true(y[r * ldy + c] == scale * table[ids[r] * ldt + c]);
                    if (n && r + 1 < rows) assert_true(same_bits(y[r * ldy + n], dy[r * ldy + n]));
                    for (int64_t c = 0; c < n; c++) {
                        real *w = &want[ids[r] * ldt + c], g = dy[r * ldy + c];
#ifdef QKV_DOUBLE
                        *w = scale * g + *w;
#else
                        *w = fmaf(scale, g, *w); /* rows ascending, one rounding each */
#endif
                    }
                }
                check_same(dtable, want, matrix_size(VOCAB, n, ldt), t, "dtable");
                free(table), free(dtable), free(y), free(dy), free(want);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gather_and_scatter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
