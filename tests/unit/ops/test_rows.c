/* Embedding, positions and pooling: rows that are gathered, scattered and reduced. */
#include "ops.h"

#include "ops/embedding.h"
#include "ops/position.h"
#include "ops/pooling.h"

static void embedding_one(int64_t vocab, int64_t cols, int64_t rows) {
    ops_bench one, *bench = &one;
    ops_start(bench, 3);
    int64_t table;
    OPS_OK(qkv_reg_add(&bench->reg, "", "table", vocab, cols, (qkv_param_kind){.embedding = true}, &table));
    ops_ready(bench, 64);
    qkv_mat out = ops_mat(rows, cols, cols + 1, 3), dout = ops_mat(rows, cols, cols + 3, 4);
    int32_t *ids = calloc((size_t)rows + 1, sizeof *ids);
    for (int64_t r = 0; r < rows; r++) ids[r] = (int32_t)qkv_below((uint64_t)r + 5, (uint64_t)vocab);
    double *expected = calloc((size_t)(vocab * cols), sizeof *expected);
    for (int64_t i = 0; i < vocab * cols; i++) expected[i] = (double)bench->grads[i];
    OPS_OK(qkv_embedding_forward(&bench->x, "table", qkv_embedding_table(&bench->x, table), ids, 3, out));
    OPS_OK(qkv_embedding_backward(&bench->x, qkv_embedding_grad(&bench->x, table), ids, 3, dout));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            assert_true(ops_at(out, r, c) == 3 * bench->weights[ids[r] * cols + c]);
            expected[ids[r] * cols + c] += 3 * (double)ops_at(dout, r, c);
        }
    for (int64_t i = 0; i < vocab * cols; i++) ops_near("dtable", (double)bench->grads[i], expected[i], 2e-5);
    ops_untouched(out);
    free(out.p);
    free(dout.p);
    free(ids);
    free(expected);
    ops_end(bench);
}

static void embedding(void **state) {
    (void)state;
    embedding_one(1, 1, 1);
    embedding_one(7, 19, 0);
    embedding_one(11, 33, 40);
    embedding_one(50, 64, 2000);
}

/* Any id outside of the table is a status that names the row, never a read. */
static void ids_out_of_range(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 1);
    int64_t table;
    OPS_OK(qkv_reg_add(&bench->reg, "", "table", 5, 2, (qkv_param_kind){0}, &table));
    ops_ready(bench, 64);
    qkv_mat out = ops_mat(3, 2, 2, 3);
    const int32_t above[] = {0, 1, 5}, below[] = {0, -1, 1};
    assert_int_equal(qkv_embedding_forward(&bench->x, "token table", qkv_embedding_table(&bench->x, table), above, 1, out), QKV_BAD_ARGUMENT);
    assert_string_equal(bench->ctx.message, "token table: row 2 asks for entry 5 of 0..4");
    assert_int_equal(qkv_embedding_backward(&bench->x, qkv_embedding_grad(&bench->x, table), below, 1, out), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_embedding_forward(&bench->x, "token table", qkv_embedding_table(&bench->x, table), NULL, 1, out), QKV_INTERNAL);
    free(out.p);
    ops_end(bench);
}

static void positions(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 1);
    ops_ready(bench, 4096);
    const int64_t offset[] = {0, 3, 3, 7};
    const int32_t expected[] = {0, 1, 2, 0, 1, 2, 3};
    qkv_batch batch = {.n_seq = 3, .offset = offset};
    int32_t *got;
    OPS_OK(qkv_positions(&bench->x, &batch, 4, QKV_BEYOND_ERROR, &got));
    assert_memory_equal(got, expected, sizeof expected);
    assert_int_equal(qkv_positions(&bench->x, &batch, 3, QKV_BEYOND_ERROR, &got), QKV_BAD_ARGUMENT);
    assert_string_equal(bench->ctx.message, "sequence 2 has 4 tokens; there are 3 positions");
    const int32_t clamped[] = {0, 1, 1, 0, 1, 1, 1}, tiled[] = {0, 1, 0, 0, 1, 0, 1};
    OPS_OK(qkv_positions(&bench->x, &batch, 2, QKV_BEYOND_CLAMP, &got));
    assert_memory_equal(got, clamped, sizeof clamped);
    OPS_OK(qkv_positions(&bench->x, &batch, 2, QKV_BEYOND_TILE, &got));
    assert_memory_equal(got, tiled, sizeof tiled);
    qkv_exec_release(&bench->x, 0);
    ops_end(bench);
}

/* Every width, odd ones too, against the definition; and that the layout is the interleaved one. */
static void sinusoidal(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    ops_ready(bench, 64);
    for (int64_t width = 1; width <= 33; width++) {
        qkv_mat t = ops_mat(40, width, width + 1, 1);
        OPS_OK(qkv_sinusoidal(&bench->x, QKV_LAYOUT_INTERLEAVED, t));
        for (int64_t p = 0; p < 40; p++)
            for (int64_t c = 0; c < width; c++) {
                double angle = (double)p / pow(10000, 2.0 * (double)(c / 2) / (double)width);
                ops_near("position", (double)ops_at(t, p, c), c % 2 ? cos(angle) : sin(angle), 1e-7);
            }
        assert_true(ops_at(t, 0, 0) == 0 && (width < 2 || ops_at(t, 0, 1) == 1));
        ops_untouched(t);
        free(t.p);
    }
    ops_end(bench);
}

static void pool_one(qkv_pool kind, int64_t n_seq, int64_t longest, int64_t cols) {
    ops_bench one, *bench = &one;
    ops_start(bench, 3);
    ops_ready(bench, 64);
    int64_t *offset = calloc((size_t)n_seq + 1, sizeof *offset);
    for (int64_t s = 0; s < n_seq; s++) offset[s + 1] = offset[s] + (s == 1 ? 0 : (int64_t)qkv_below((uint64_t)s, (uint64_t)longest + 1));
    qkv_batch batch = {.n_seq = n_seq, .offset = offset};
    qkv_mat in = ops_mat(offset[n_seq], cols, cols + 2, 3), out = ops_mat(n_seq, cols, cols + 1, 4);
    qkv_mat dout = ops_mat(n_seq, cols, cols, 5), din = ops_mat(offset[n_seq], cols, cols + 5, 6);
    int32_t *which = calloc((size_t)(n_seq * cols + 1), sizeof *which);
    OPS_OK(qkv_pool_forward(&bench->x, kind, &batch, in, out, which));
    OPS_OK(qkv_pool_backward(&bench->x, kind, &batch, dout, din, which));
    for (int64_t s = 0; s < n_seq; s++)
        for (int64_t c = 0; c < cols; c++) {
            int64_t first = offset[s], n = offset[s + 1] - first, best = 0;
            double sum = 0;
            const bool last = kind == QKV_POOL_OP_LAST || (kind == QKV_POOL_OP_ENDS && c < cols / 2);
            for (int64_t r = 0; r < n; r++) {
                sum += (double)ops_at(in, first + r, c);
                if (ops_at(in, first + r, c) > ops_at(in, first + best, c)) best = r;
            }
            const int64_t taken = kind == QKV_POOL_OP_MAX ? best : last ? n - 1 : 0;
            double expected = n == 0 ? 0 : kind == QKV_POOL_OP_MEAN ? sum / (double)n : (double)ops_at(in, first + taken, c);
            ops_near("pooled", (double)ops_at(out, s, c), expected, 2e-6);
            for (int64_t r = 0; r < n; r++) {
                double d = (double)ops_at(dout, s, c), share = kind == QKV_POOL_OP_MEAN ? 1 / (double)n : r == taken;
                ops_near("dpooled", (double)ops_at(din, first + r, c), d * share, 1e-6);
            }
        }
    ops_untouched(out);
    ops_untouched(din);
    free(in.p);
    free(out.p);
    free(dout.p);
    free(din.p);
    free(which);
    free(offset);
    ops_end(bench);
}

static void pooling(void **state) {
    (void)state;
    for (int kind = 0; kind <= QKV_POOL_OP_ENDS; kind++) {
        const int64_t even = kind == QKV_POOL_OP_ENDS;
        pool_one((qkv_pool)kind, 0, 1, 3 + even);
        pool_one((qkv_pool)kind, 2, 1, 1 + even);
        pool_one((qkv_pool)kind, 6, 20, 19 + even);
        pool_one((qkv_pool)kind, 150, 60, 64);
    }
}

/* A NaN in a sequence is not hidden by pooling. */
static void nan_stays(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 1);
    ops_ready(bench, 64);
    static const int64_t offset[] = {0, 4};
    qkv_batch batch = {.n_seq = 1, .offset = offset};
    qkv_mat in = ops_mat(4, 3, 3, 1), out = ops_mat(1, 3, 3, 2);
    int32_t which[3];
    in.p[2 * 3 + 1] = NAN;
    for (int kind = 0; kind < 3; kind++) {
        OPS_OK(qkv_pool_forward(&bench->x, (qkv_pool)kind, &batch, in, out, which));
        assert_true(isfinite((double)out.p[0]) && isfinite((double)out.p[2]));
        if ((qkv_pool)kind != QKV_POOL_OP_FIRST) assert_true(isnan((double)out.p[1]));
    }
    assert_int_equal(qkv_pool_forward(&bench->x, QKV_POOL_OP_MAX, &batch, in, out, NULL), QKV_INTERNAL);
    assert_int_equal(qkv_pool_forward(&bench->x, QKV_POOL_OP_ENDS, &batch, in, out, NULL), QKV_INTERNAL);
    assert_int_equal(qkv_pool_forward(&bench->x, QKV_POOL_OP_MEAN, &batch, qkv_mat_rows(in, 0, 3), out, NULL), QKV_INTERNAL);
    free(in.p);
    free(out.p);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(embedding), cmocka_unit_test(ids_out_of_range), cmocka_unit_test(positions),
                                       cmocka_unit_test(sinusoidal), cmocka_unit_test(pooling), cmocka_unit_test(nan_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
