/* Norms, activations, residual sums and losses against plain loops in double, on strided rows, small and cut into chunks. */
#include "ops.h"

#include "ops/activation.h"
#include "ops/around.h"
#include "ops/embedding.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/residual.h"

static const int64_t SIZES[][2] = {{0, 4}, {1, 1}, {3, 16}, {5, 33}, {700, 100}};
enum { N_SIZES = 5 };

static void norm_one(int64_t rows, int64_t cols, bool rms, bool bias) {
    ops_bench one, *bench = &one;
    ops_start(bench, 3);
    qkv_norm_op n = {.bias = -1, .rms = rms, .epsilon = 1e-5};
    OPS_OK(qkv_reg_add(&bench->reg, "", "g", 1, cols, (qkv_param_kind){0}, &n.gain));
    if (bias) OPS_OK(qkv_reg_add(&bench->reg, "", "b", 1, cols, (qkv_param_kind){0}, &n.bias));
    ops_ready(bench, 1 << 20);
    qkv_mat in = ops_mat(rows, cols, cols + 2, 3), out = ops_mat(rows, cols, cols + 1, 4), dout = ops_mat(rows, cols, cols, 5);
    real *before = malloc((size_t)bench->reg.size * sizeof *before);
    memcpy(before, bench->grads, (size_t)bench->reg.size * sizeof *before);
    const real *gain = qkv_weight(&bench->x, n.gain), *shift = bias ? qkv_weight(&bench->x, n.bias) : NULL;
    qkv_norm_saved saved;
    OPS_OK(qkv_norm_forward(&bench->x, &n, in, out, &saved));
    qkv_mat din = ops_mat(rows, cols, cols + 3, 6), inplace = ops_mat(rows, cols, cols, 5);
    double *dgain = calloc((size_t)cols, sizeof *dgain), *dbias = calloc((size_t)cols, sizeof *dbias);
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, var = 0, a = 0, b = 0;
        for (int64_t c = 0; c < cols && !rms; c++) mean += (double)ops_at(in, r, c) / (double)cols;
        for (int64_t c = 0; c < cols; c++) var += pow((double)ops_at(in, r, c) - mean, 2) / (double)cols;
        double rstd = 1 / sqrt(var + 1e-5);
        for (int64_t c = 0; c < cols; c++) {
            double hat = ((double)ops_at(in, r, c) - mean) * rstd, dhat = (double)ops_at(dout, r, c) * (double)gain[c];
            ops_near("norm", (double)ops_at(out, r, c), hat * (double)gain[c] + (shift ? (double)shift[c] : 0), 2e-5);
            a += dhat / (double)cols;
            b += dhat * hat / (double)cols;
            dgain[c] += (double)ops_at(dout, r, c) * hat;
            dbias[c] += (double)ops_at(dout, r, c);
        }
        for (int64_t c = 0; c < cols; c++) {
            double hat = ((double)ops_at(in, r, c) - mean) * rstd, dhat = (double)ops_at(dout, r, c) * (double)gain[c];
            din.p[r * din.ld + c] = (real)((dhat - (rms ? 0 : a) - hat * b) * rstd);
        }
    }
    OPS_OK(qkv_norm_backward(&bench->x, &n, inplace, inplace, &saved));
    double scale = cols == 1 ? 400 : 20; /* of a single column LayerNorm's gradient is a cancellation */
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) ops_near("dnorm", (double)ops_at(inplace, r, c), (double)ops_at(din, r, c), scale * 2e-6);
    for (int64_t c = 0; c < cols; c++) {
        ops_near("dgain", (double)qkv_grad(&bench->x, n.gain)[c], dgain[c] + (double)before[bench->reg.params[n.gain].offset + c], 1e-4);
        if (bias) ops_near("dbias", (double)qkv_grad(&bench->x, n.bias)[c], dbias[c] + (double)before[bench->reg.params[n.bias].offset + c], 1e-4);
    }
    ops_untouched(out);
    ops_untouched(inplace);
    free(dgain);
    free(dbias);
    free(before);
    free(in.p);
    free(out.p);
    free(dout.p);
    free(din.p);
    free(inplace.p);
    qkv_arena_low_release(&bench->x.arena, 0);
    ops_end(bench);
}

static void norms(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int kind = 0; kind < 4; kind++) norm_one(SIZES[s][0], SIZES[s][1], kind & 1, kind & 2);
}

static double act(qkv_act a, double x) {
    switch (a) {
    case QKV_KERNEL_GELU: return x * 0.5 * (1 + erf(x / sqrt(2)));
    case QKV_KERNEL_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case QKV_KERNEL_RELU: return x > 0 ? x : 0;
    case QKV_KERNEL_SILU: return x / (1 + exp(-x));
    }
    return NAN;
}

static double slope(qkv_act a, double x) {
    if (a == QKV_KERNEL_RELU) return x > 0;
    return (act(a, x + 1e-6) - act(a, x - 1e-6)) / 2e-6;
}

static void activations(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    for (int s = 0; s < N_SIZES; s++)
        for (int kind = 0; kind < 8; kind++) {
            qkv_act a = (qkv_act)(kind % 4);
            bool gated = kind >= 4;
            int64_t rows = SIZES[s][0], cols = SIZES[s][1];
            qkv_mat in = ops_mat(rows, gated ? 2 * cols : cols, 2 * cols + 1, 3), out = ops_mat(rows, cols, cols + 4, 4);
            qkv_mat dout = ops_mat(rows, cols, cols + 1, 5), din = ops_mat(rows, in.cols, 2 * cols + 7, 6);
            OPS_OK(qkv_activation_forward(&bench->x, a, gated, in, out));
            OPS_OK(qkv_activation_backward(&bench->x, a, gated, in, dout, din));
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < cols; c++) {
                    double x = (double)ops_at(in, r, c), up = gated ? (double)ops_at(in, r, cols + c) : 1, d = (double)ops_at(dout, r, c);
                    ops_near("act", (double)ops_at(out, r, c), act(a, x) * up, 3e-6);
                    ops_near("dact", (double)ops_at(din, r, c), d * up * slope(a, x), 1e-5);
                    if (gated) ops_near("dup", (double)ops_at(din, r, cols + c), d * act(a, x), 3e-6);
                }
            ops_untouched(out);
            ops_untouched(din);
            free(in.p);
            free(out.p);
            free(dout.p);
            free(din.p);
        }
    qkv_mat in = ops_mat(2, 6, 6, 1), out = ops_mat(2, 6, 6, 1);
    assert_int_equal(qkv_activation_forward(&bench->x, QKV_KERNEL_GELU, true, in, out), QKV_INTERNAL);
    assert_int_equal(qkv_activation_backward(&bench->x, QKV_KERNEL_GELU, false, in, out, qkv_mat_cols(in, 0, 3)), QKV_INTERNAL);
    free(in.p);
    free(out.p);
    ops_end(bench);
}

/* Kept elements are divided by 1-p, the share that is dropped is near p, the mask belongs to (key, row key, column). */
static void dropout(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    enum { ROWS = 900, COLS = 50 };
    qkv_mat base = ops_mat(ROWS, COLS, COLS + 1, 3), in = ops_mat(ROWS, COLS, COLS, 4), out = ops_mat(ROWS, COLS, COLS + 2, 5);
    uint64_t keys[ROWS];
    for (int r = 0; r < ROWS; r++) keys[r] = qkv_key2(8, (uint64_t)r / 2); /* rows in pairs of one key */
    qkv_dropout d = {(real)0.25, 17, keys, 0};
    OPS_OK(qkv_residual(&bench->x, &base, in, out, d));
    int64_t dropped = 0;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLS; c++) {
            bool gone = ops_at(out, r, c) == ops_at(base, r, c);
            dropped += gone;
            if (!gone) ops_near("kept", (double)ops_at(out, r, c), (double)ops_at(base, r, c) + (double)ops_at(in, r, c) / 0.75, 1e-6);
            if (r % 2) assert_true(gone == (ops_at(out, r - 1, c) == ops_at(base, r - 1, c)));
        }
    ops_near("share", (double)dropped / (ROWS * COLS), 0.25, 0.01);
    ops_untouched(out);
    /* without dropout and base it is a copy; in place with itself it doubles */
    OPS_OK(qkv_residual(&bench->x, NULL, in, out, (qkv_dropout){0}));
    for (int64_t c = 0; c < COLS; c++) assert_true(ops_at(out, 7, c) == ops_at(in, 7, c));
    OPS_OK(qkv_residual(&bench->x, &in, in, in, (qkv_dropout){0}));
    for (int64_t c = 0; c < COLS; c++) assert_true(ops_at(in, 7, c) == 2 * ops_at(out, 7, c));
    for (int64_t c = 0; c < COLS; c++) out.p[c] = NAN; /* b = 0 does not read */
    OPS_OK(qkv_scaled_sum(&bench->x, QKV_WORK_RESIDUAL, (real)0.5, in, 0, out));
    for (int64_t c = 0; c < COLS; c++) assert_true(ops_at(out, 0, c) == ops_at(in, 0, c) / 2);
    d.row_key = NULL;
    assert_int_equal(qkv_residual(&bench->x, NULL, in, out, d), QKV_INTERNAL);
    d = (qkv_dropout){1, 17, keys, 0};
    assert_int_equal(qkv_residual(&bench->x, NULL, in, out, d), QKV_INTERNAL);
    free(base.p);
    free(in.p);
    free(out.p);
    ops_end(bench);
}

static void losses(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    static const int64_t sizes[][2] = {{0, 3}, {1, 1}, {4, 2}, {9, 44}, {800, 50}};
    static const double smoothing[] = {0, 0.1, 1};
    for (int s = 0; s < 5; s++)
        for (int k = 0; k < 3; k++) {
            int64_t rows = sizes[s][0], cols = sizes[s][1];
            qkv_mat x = ops_mat(rows, cols, cols + 1, 3), d = ops_mat(rows, cols, cols + 2, 4), p = ops_mat(rows, cols, cols, 5);
            int32_t *target = calloc((size_t)rows + 1, sizeof *target);
            real *loss = calloc((size_t)rows + 1, sizeof *loss);
            for (int64_t r = 0; r < rows; r++) target[r] = (int32_t)qkv_below((uint64_t)r, (uint64_t)cols);
            OPS_OK(qkv_cross_entropy(&bench->x, x, target, smoothing[k], 0.25, loss, d));
            OPS_OK(qkv_softmax(&bench->x, x, p));
            for (int64_t r = 0; r < rows; r++) {
                double top = -INFINITY, sum = 0, expected = 0;
                for (int64_t c = 0; c < cols; c++) top = fmax(top, (double)ops_at(x, r, c));
                for (int64_t c = 0; c < cols; c++) sum += exp((double)ops_at(x, r, c) - top);
                for (int64_t c = 0; c < cols; c++) {
                    double q = exp((double)ops_at(x, r, c) - top) / sum, t = (1 - smoothing[k]) * (c == target[r]) + smoothing[k] / (double)cols;
                    expected -= t * log(q);
                    ops_near("softmax", (double)ops_at(p, r, c), q, 1e-6);
                    ops_near("dlogit", (double)ops_at(d, r, c), 0.25 * (q - t), 1e-6);
                }
                ops_near("loss", (double)loss[r], expected, 3e-6);
            }
            ops_untouched(d);
            free(x.p);
            free(d.p);
            free(p.p);
            free(target);
            free(loss);
        }
    /* targets that are no class: which row, and how many classes there are */
    qkv_mat x = ops_mat(3, 4, 4, 3), none = {0};
    real loss[3];
    const int32_t above[] = {0, 4, 1}, below[] = {0, 1, -4};
    assert_int_equal(qkv_cross_entropy(&bench->x, x, above, 0, 1, loss, none), QKV_BAD_ARGUMENT);
    assert_string_equal(bench->ctx.message, "row 1 has target 4; there are 4 classes");
    assert_int_equal(qkv_cross_entropy(&bench->x, x, below, 0, 1, loss, none), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_cross_entropy(&bench->x, x, above, 1.5, 1, loss, none), QKV_BAD_ARGUMENT);
    free(x.p);
    ops_end(bench);
}

/* The gradient past a norm and the dropout behind it, in one op: the bits of three, on more rows than a chunk. */
static void norm_with_what_is_beside_it(void **state) {
    (void)state;
    enum { ROWS = 300, COLS = 250 };
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 3);
    qkv_norm_op n = {.epsilon = 1e-5};
    OPS_OK(qkv_reg_add(&bench->reg, "", "g", 1, COLS, (qkv_param_kind){0}, &n.gain));
    OPS_OK(qkv_reg_add(&bench->reg, "", "b", 1, COLS, (qkv_param_kind){0}, &n.bias));
    ops_ready(bench, 1 << 20);
    uint64_t keys[ROWS];
    for (int i = 0; i < ROWS; i++) keys[i] = (uint64_t)(3 * i);
    const qkv_dropout d = {(real)0.25, 17, keys, 0};
    qkv_mat in = ops_mat(ROWS, COLS, COLS + 2, 3), out = ops_mat(ROWS, COLS, COLS, 4), dout = ops_mat(ROWS, COLS, COLS + 1, 5);
    qkv_mat base = ops_mat(ROWS, COLS, COLS + 3, 6), want = ops_mat(ROWS, COLS, COLS, 7), got = ops_mat(ROWS, COLS, COLS + 4, 8);
    qkv_mat want_dropped = ops_mat(ROWS, COLS, COLS, 9), dropped = ops_mat(ROWS, COLS, COLS + 1, 10);
    qkv_norm_saved saved;
    OPS_OK(qkv_norm_forward(&bench->x, &n, in, out, &saved));
    OPS_OK(qkv_norm_backward(&bench->x, &n, dout, want, &saved));
    OPS_OK(qkv_scaled_sum(&bench->x, QKV_WORK_RESIDUAL, 1, base, 1, want));
    OPS_OK(qkv_residual(&bench->x, NULL, want, want_dropped, d));
    OPS_OK(qkv_norm_backward_sum(&bench->x, &n, dout, &base, got, &dropped, d, &saved));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLS; c++) {
            assert_true(ops_at(got, r, c) == ops_at(want, r, c));
            assert_true(ops_at(dropped, r, c) == ops_at(want_dropped, r, c));
        }
    ops_untouched(got);
    ops_untouched(dropped);
    qkv_dropout bad = d;
    bad.row_key = NULL;
    assert_int_equal(qkv_norm_backward_sum(&bench->x, &n, dout, &base, got, &dropped, bad, &saved), QKV_INTERNAL);
    qkv_mat all[] = {in, out, dout, base, want, got, want_dropped, dropped};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i].p);
    ops_end(bench);
}

/* What is stored past the caches: a large output of whole lines that is no operand. */
static void what_goes_around(void **state) {
    (void)state;
    real *p = aligned_alloc(64, 1024), *const in = p + 16;
    const int64_t cols = 256, most = QKV_AROUND_BYTES / (cols * (int64_t)sizeof(real));
    const qkv_mat large = {p, most + 1, cols, cols};
    assert_true(qkv_around(large, in, NULL));
    assert_true(qkv_around((qkv_mat){p, most + 1, cols, cols + 16}, in, in));
    assert_false(qkv_around(qkv_mat_rows(large, 0, most), in, NULL));
    assert_false(qkv_around(large, p, NULL));
    assert_false(qkv_around(large, in, p));
    assert_false(qkv_around((qkv_mat){p + 1, most + 1, cols, cols}, in, NULL));
    assert_false(qkv_around((qkv_mat){p, most + 1, cols, cols + 1}, in, NULL));
    assert_false(qkv_around((qkv_mat){p, 2 * most, cols - 16, cols}, in, NULL)); /* half of it is no whole lines */
    free(p);
}

/* The op itself, with chunks of several threads. */
static void large_rows_of_a_table(void **state) {
    (void)state;
    enum { COLS = 512, ROWS = QKV_AROUND_BYTES / (COLS * (int)sizeof(real)) + 3, TABLE = 7 };
    ops_bench one, *bench = &one;
    ops_start(bench, 3);
    ops_ready(bench, 1 << 16);
    qkv_mat table = ops_mat(TABLE, COLS, COLS, 3), out = ops_mat(ROWS, COLS, COLS, 4);
    int32_t *ids = malloc(ROWS * sizeof *ids);
    for (int i = 0; i < ROWS; i++) ids[i] = (int32_t)qkv_below(qkv_key2(5, (uint64_t)i), TABLE);
    assert_true(qkv_around(out, NULL, NULL));
    OPS_OK(qkv_embedding_forward(&bench->x, "table", table, ids, 1, out));
    for (int i = 0; i < ROWS; i++) assert_memory_equal(out.p + i * COLS, table.p + ids[i] * COLS, COLS * sizeof(real));
    ops_untouched(out);
    free(table.p), free(out.p), free(ids);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms), cmocka_unit_test(activations), cmocka_unit_test(dropout), cmocka_unit_test(losses),
                                       cmocka_unit_test(norm_with_what_is_beside_it), cmocka_unit_test(what_goes_around),
                                       cmocka_unit_test(large_rows_of_a_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
