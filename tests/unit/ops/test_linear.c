/* The linear op against plain loops: small and odd shapes, and some that are cut into chunks; strides; frozen weights. */
#include "ops.h"

#include "ops/activation.h"
#include "ops/linear.h"
#include "ops/residual.h"

/* A chain in float against one in double: a few roundings of the sum of the sizes of its terms. */
static void close_to(const char *what, double got, double sum, double sizes) { ops_near(what, got - sum, 0, 5e-7 * sizes + 1e-6); }

static void add(double *sum, double *sizes, real a, real b) {
    *sum += (double)a * (double)b;
    *sizes += fabs((double)a * (double)b);
}

static void check_forward(ops_bench *bench, qkv_linear l, qkv_mat in, qkv_mat out) {
    const qkv_param *w = &bench->reg.params[l.weight];
    const real *weight = qkv_weight(&bench->x, l.weight), *bias = l.bias >= 0 ? qkv_weight(&bench->x, l.bias) : NULL;
    for (int64_t r = 0; r < in.rows; r++)
        for (int64_t o = 0; o < w->rows; o++) {
            double sum = bias ? (double)bias[o] : 0, sizes = fabs(sum);
            for (int64_t i = 0; i < w->cols; i++) add(&sum, &sizes, ops_at(in, r, i), weight[o * w->cols + i]);
            close_to("y", (double)ops_at(out, r, o), sum, sizes);
        }
}

static void check_backward(ops_bench *bench, qkv_linear l, qkv_mat in, qkv_mat dout, qkv_mat din, const real *before) {
    const qkv_param *w = &bench->reg.params[l.weight];
    const real *weight = qkv_weight(&bench->x, l.weight);
    for (int64_t r = 0; r < in.rows; r++)
        for (int64_t i = 0; i < w->cols; i++) {
            double sum = 0, sizes = 0;
            for (int64_t o = 0; o < w->rows; o++) add(&sum, &sizes, ops_at(dout, r, o), weight[o * w->cols + i]);
            close_to("dx", (double)ops_at(din, r, i), sum, sizes);
        }
    for (int64_t o = 0; o < w->rows; o++) {
        double bias = l.bias >= 0 ? (double)before[bench->reg.params[l.bias].offset + o] : 0, bias_sizes = fabs(bias);
        for (int64_t i = 0; i < w->cols; i++) {
            double sum = (double)before[w->offset + o * w->cols + i], sizes = fabs(sum);
            for (int64_t r = 0; r < in.rows; r++) add(&sum, &sizes, ops_at(dout, r, o), ops_at(in, r, i));
            close_to("dW", (double)bench->grads[w->offset + o * w->cols + i], sum, sizes);
        }
        for (int64_t r = 0; r < in.rows; r++) add(&bias, &bias_sizes, ops_at(dout, r, o), 1);
        if (l.bias >= 0) close_to("db", (double)qkv_grad(&bench->x, l.bias)[o], bias, bias_sizes);
    }
}

static void one(int64_t rows, int64_t in_cols, int64_t out_cols, bool bias) {
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 3);
    qkv_linear l = {.bias = -1};
    OPS_OK(qkv_reg_add(&bench->reg, "", "w", out_cols, in_cols, (qkv_param_kind){.matrix = true}, &l.weight));
    if (bias) OPS_OK(qkv_reg_add(&bench->reg, "", "b", 1, out_cols, (qkv_param_kind){0}, &l.bias));
    ops_ready(bench, (int64_t)sizeof(real) << 23);
    qkv_mat in = ops_mat(rows, in_cols, in_cols + 3, 10), out = ops_mat(rows, out_cols, out_cols + 5, 11);
    qkv_mat dout = ops_mat(rows, out_cols, out_cols + 2, 12), din = ops_mat(rows, in_cols, in_cols + 1, 13);
    OPS_OK(qkv_linear_forward(&bench->x, l, in, out));
    check_forward(bench, l, in, out);

    /* a packed copy made beforehand: the same bits */
    real *packed = aligned_alloc(64, ((size_t)qkv_packed_size(in_cols, out_cols) * sizeof(real) + 63) / 64 * 64);
    qkv_mat frozen = ops_mat(rows, out_cols, out_cols + 5, 14);
    qkv_linear_pack(&bench->ctx, false, qkv_weight(&bench->x, l.weight), out_cols, in_cols, packed);
    bench->x.packed = packed;
    OPS_OK(qkv_linear_forward(&bench->x, l, in, frozen));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < out_cols; c++) assert_true(ops_at(frozen, r, c) == ops_at(out, r, c));
    bench->x.packed = NULL;

    /* packed once for several products: the same bits, forward in two parts */
    qkv_linear once = l;
    size_t mark = qkv_exec_mark(&bench->x);
    OPS_OK(qkv_linear_ready(&bench->x, &once, true));
    OPS_OK(qkv_linear_forward(&bench->x, once, qkv_mat_rows(in, 0, rows / 2), qkv_mat_rows(frozen, 0, rows / 2)));
    OPS_OK(qkv_linear_forward(&bench->x, once, qkv_mat_rows(in, rows / 2, rows - rows / 2), qkv_mat_rows(frozen, rows / 2, rows - rows / 2)));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < out_cols; c++) assert_true(ops_at(frozen, r, c) == ops_at(out, r, c));

    real *before = malloc((size_t)bench->reg.size * sizeof *before);
    memcpy(before, bench->grads, (size_t)bench->reg.size * sizeof *before);
    bench->x.pass = QKV_PASS_BACKWARD;
    OPS_OK(qkv_linear_backward(&bench->x, l, in, dout, &din));
    check_backward(bench, l, in, dout, din, before);
    qkv_mat again = ops_mat(rows, in_cols, in_cols + 1, 15);
    real *added = malloc((size_t)bench->reg.size * sizeof *added);
    memcpy(added, bench->grads, (size_t)bench->reg.size * sizeof *added);
    memcpy(bench->grads, before, (size_t)bench->reg.size * sizeof *before);
    OPS_OK(qkv_linear_backward(&bench->x, once, in, dout, &again));
    assert_memory_equal(added, bench->grads, (size_t)bench->reg.size * sizeof *added);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < in_cols; c++) assert_true(ops_at(again, r, c) == ops_at(din, r, c));
    for (int ready = 0; ready < 2; ready++) { /* the input alone; the weight's gradient stays as it is */
        memset(again.p, 0, (size_t)(rows * again.ld) * sizeof(real));
        OPS_OK(qkv_linear_backward_input(&bench->x, ready ? once : l, dout, again));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < in_cols; c++) assert_true(ops_at(again, r, c) == ops_at(din, r, c));
    }
    assert_memory_equal(added, bench->grads, (size_t)bench->reg.size * sizeof *added);
    qkv_exec_release(&bench->x, mark);
    double product = 2.0 * (double)rows * (double)in_cols * (double)out_cols;
    assert_true(bench->x.tally.flops[QKV_PASS_FORWARD][QKV_CLASS_GEMM] == 3 * product);
    assert_true(bench->x.tally.flops[QKV_PASS_BACKWARD][QKV_CLASS_GEMM] == 6 * product);
    ops_untouched(out);
    ops_untouched(din);
    ops_untouched(frozen);
    real *all[] = {in.p, out.p, dout.p, din.p, frozen.p, packed, before, again.p, added};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    ops_end(bench);
}

static void small_shapes(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 5, 16, 17, 33};
    for (int r = 0; r < 6; r++)
        for (int i = 0; i < 6; i++)
            for (int o = 0; o < 6; o++) one(sizes[r], sizes[i], sizes[o], (r + i + o) % 2);
    one(0, 3, 4, true);
}

static void large_shapes(void **state) {
    (void)state;
    one(501, 67, 131, true);
    one(7, 300, 700, true);
    one(1, 128, 9000, false);
    one(900, 40, 50, true);
}

static void wrong_shapes(void **state) {
    (void)state;
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 1);
    qkv_linear l = {.bias = -1};
    OPS_OK(qkv_reg_add(&bench->reg, "head.", "weight", 4, 3, (qkv_param_kind){.matrix = true}, &l.weight));
    ops_ready(bench, 4096);
    qkv_mat in = ops_mat(2, 3, 3, 1), out = ops_mat(2, 4, 4, 1);
    assert_int_equal(qkv_linear_forward(&bench->x, l, out, in), QKV_INTERNAL);
    assert_string_equal(bench->ctx.message, "head.weight is 4 x 3: cannot map 2 x 4 to 2 x 3");
    assert_int_equal(qkv_linear_forward(&bench->x, l, qkv_mat_rows(in, 0, 1), out), QKV_INTERNAL);
    assert_int_equal(qkv_linear_backward(&bench->x, l, in, out, &out), QKV_INTERNAL);
    assert_int_equal(qkv_linear_backward_input(&bench->x, l, in, out), QKV_INTERNAL);
    assert_int_equal(qkv_linear_forward(&bench->x, l, (qkv_mat){NULL, 2, 3, 3}, out), QKV_INTERNAL);
    free(in.p);
    free(out.p);
    ops_end(bench);
}

/* What follows a product in its blocks has the bits of the op that would follow it, on more columns and rows than a block. */
static void what_follows(void **state) {
    (void)state;
    enum { ROWS = 230, IN = 40, OUT = 600 };
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 3);
    qkv_linear l = {.bias = -1};
    OPS_OK(qkv_reg_add(&bench->reg, "", "w", OUT, IN, (qkv_param_kind){.matrix = true}, &l.weight));
    ops_ready(bench, (int64_t)sizeof(real) << 23);
    uint64_t keys[ROWS];
    for (int i = 0; i < ROWS; i++) keys[i] = (uint64_t)(5 * i);
    qkv_dropout d = {(real)0.3, 21, keys, 0};
    qkv_mat in = ops_mat(ROWS, IN, IN + 3, 10), out = ops_mat(ROWS, OUT, OUT + 5, 11), want = ops_mat(ROWS, OUT, OUT, 12);
    qkv_mat other = ops_mat(ROWS, OUT, OUT + 1, 13), din = ops_mat(ROWS, IN, IN, 14), wide = ops_mat(ROWS, IN, IN + 2, 15);
    qkv_mat got = ops_mat(ROWS, OUT, OUT + 2, 16);

    OPS_OK(qkv_linear_forward(&bench->x, l, in, out));
    OPS_OK(qkv_residual(&bench->x, &other, out, want, d));
    OPS_OK(qkv_linear_forward_then(&bench->x, l, in, got, &(qkv_linear_then){.kind = QKV_THEN_RESIDUAL, .other = other, .dropout = d}));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < OUT; c++) assert_true(ops_at(got, r, c) == ops_at(want, r, c));

    OPS_OK(qkv_activation_forward(&bench->x, QKV_KERNEL_GELU, false, out, want));
    OPS_OK(qkv_linear_forward_then(&bench->x, l, in, got, &(qkv_linear_then){.kind = QKV_THEN_ACT, .other = other, .act = QKV_KERNEL_GELU}));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < OUT; c++) {
            assert_true(ops_at(got, r, c) == ops_at(out, r, c));
            assert_true(ops_at(other, r, c) == ops_at(want, r, c));
        }
    OPS_OK(qkv_linear_forward_then(&bench->x, l, in, got, &(qkv_linear_then){.kind = QKV_THEN_ACT, .other = got, .act = QKV_KERNEL_GELU}));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < OUT; c++) assert_true(ops_at(got, r, c) == ops_at(want, r, c));

    qkv_mat slope = ops_mat(ROWS, IN, IN, 17);
    OPS_OK(qkv_linear_backward(&bench->x, l, in, out, &din));
    OPS_OK(qkv_activation_backward(&bench->x, QKV_KERNEL_SILU, false, wide, din, slope));
    OPS_OK(qkv_linear_backward_then(&bench->x, l, in, out, &din, &(qkv_linear_then){.kind = QKV_THEN_SLOPE, .other = wide, .act = QKV_KERNEL_SILU}));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < IN; c++) assert_true(ops_at(din, r, c) == ops_at(slope, r, c));

    d.row_key = NULL;
    qkv_linear_then bad = {.kind = QKV_THEN_RESIDUAL, .other = other, .dropout = d};
    assert_int_equal(qkv_linear_forward_then(&bench->x, l, in, got, &bad), QKV_INTERNAL);
    bad = (qkv_linear_then){.kind = QKV_THEN_ACT, .other = wide};
    assert_int_equal(qkv_linear_forward_then(&bench->x, l, in, got, &bad), QKV_INTERNAL);
    qkv_mat all[] = {in, out, want, other, din, wide, got, slope};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i].p);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_shapes), cmocka_unit_test(large_shapes), cmocka_unit_test(wrong_shapes),
                                       cmocka_unit_test(what_follows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
