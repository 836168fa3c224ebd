/* What is stored past the caches has the bits of what is stored as usual, and nothing beside it is touched. */
#include "unit/kernels/kernel_test.h"

enum { ROWS = 5, MOST = 96 };

typedef struct around_case {
    int64_t cols, ld; /* of x, dy, base and y; a row of a gated unit's input is two such rows long */
    real *x, *dy, *base, *row; /* row: MOST numbers, gains and biases */
    real *wide;
    uint64_t keys[ROWS];
} around_case;

static real *aligned(dice *d, int64_t n) {
    real *p = aligned_alloc(64, (size_t)n * sizeof *p); /* n a multiple of 16 */
    if (!p) abort();
    for (int64_t i = 0; i < n; i++) p[i] = (real)dice_real(d, -3, 3);
    return p;
}

static around_case case_make(dice *d) {
    around_case c = {.cols = 16 * dice_int(d, 1, 3)};
    c.ld = c.cols + 16 * dice_int(d, 0, 2);
    c.x = aligned(d, ROWS * c.ld), c.dy = aligned(d, ROWS * c.ld), c.base = aligned(d, ROWS * c.ld), c.row = aligned(d, MOST);
    c.wide = aligned(d, 2 * ROWS * c.ld);
    for (int r = 0; r < ROWS; r++) c.keys[r] = (uint64_t)dice_int(d, 0, 99);
    return c;
}

static void case_free(around_case *c) { free(c->x), free(c->dy), free(c->base), free(c->row), free(c->wide); }

typedef void around_run(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around);

static void forward_norm(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    real mean[ROWS], rstd[ROWS];
    t->norm_forward(ROWS, c->cols, c->x, c->ld, c->row, variant & 1 ? c->row + 16 : NULL, (real)1e-5, y, c->ld,
                    variant & 2 ? mean : NULL, rstd, around);
}

static void backward_norm(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    real sums[2 * MOST] = {0};
    t->norm_backward(ROWS, c->cols, c->x, c->ld, c->row, variant & 2 ? c->base : NULL, c->dy, c->dy, c->ld,
                     variant & 1 ? c->base : NULL, c->ld, y, c->ld, sums, sums + MOST, around);
}

static void forward_act(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    t->act_forward((qkv_act)(variant & 3), false, ROWS, c->cols, c->x, c->ld, y, c->ld, around);
}

static void forward_gate(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    t->act_forward((qkv_act)(variant & 3), true, ROWS, c->cols, c->wide, 2 * c->ld, y, c->ld, around);
}

static void backward_act(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    t->act_backward((qkv_act)(variant & 3), false, ROWS, c->cols, c->x, c->ld, c->dy, c->ld, y, c->ld, around);
}

static void backward_gate(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    t->act_backward((qkv_act)(variant & 3), true, ROWS, c->cols, c->wide, 2 * c->ld, c->dy, c->ld, y, 2 * c->ld, around);
}

static void dropped(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    const qkv_dropout d = {(real)(variant & 1 ? 0.3 : 0), 7, c->keys, 0};
    t->dropout(ROWS, c->cols, variant & 2 ? c->base : NULL, c->ld, c->x, c->ld, y, c->ld, d, around);
}

static void gathered(const qkv_kernels *t, const around_case *c, int variant, real *y, bool around) {
    const int32_t ids[ROWS] = {variant, 4, 0, 4, 2};
    t->gather(ROWS, c->cols, c->x, c->ld, ids, (real)1.25, y, c->ld, around);
}

static void the_bits_of_ordinary_stores(void **state) {
    (void)state;
    static around_run *const runs[] = {forward_norm, backward_norm, forward_act, forward_gate,
                                       backward_act, backward_gate, dropped,     gathered};
    static const char *const names[] = {"norm", "dnorm", "act", "gate", "dact", "dgate", "dropout", "gather"};
    FOR_EACH_TABLE(t) {
        dice d = {11, 0};
        for (int round = 0; round < 12; round++)
            for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
                around_case c = case_make(&d);
                const int64_t size = 2 * ROWS * c.ld;
                real *usual = aligned(&d, size), *around = aligned(&d, size);
                memcpy(around, usual, (size_t)size * sizeof *around);
                real *before = copy_reals(usual, size);
                runs[k](t, &c, round % 4, usual, false);
                runs[k](t, &c, round % 4, around, true);
                check_same(around, usual, size, t, names[k]);
                assert_true(first_difference(around, before, size) == 0); /* and something was written */
                free(usual), free(around), free(before), case_free(&c);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bits_of_ordinary_stores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
