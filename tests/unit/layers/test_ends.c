/* Embedding, pooling and head: the two ends of a network. */
#include "layers_bench.h"

#include "layers/embedding_layer.h"
#include "layers/head.h"
#include "layers/pooling_layer.h"

static void embedding(void **state) {
    (void)state;
    layers_batch b;
    lb_batch(&b);
    for (int position = 0; position < 3; position++) {
        ops_bench one, *bench = &one;
        ops_start(bench, 1);
        qkv_embedding_layer l;
        const qkv_position_shape shape = {.kind = (qkv_position)position, .length = 13};
        OPS_OK(qkv_embedding_layer_declare(&l, &bench->reg, 9, 5, &shape, 0.25));
        assert_int_equal(bench->reg.count, position == QKV_POSITION_LEARNED ? 2 : 1);
        const qkv_param *table = &bench->reg.params[0];
        assert_string_equal(table->name, "embedding.weight");
        assert_true(table->rows == 9 && table->cols == 5 && table->embedding && !table->decay && table->packed_offset == -1);
        assert_true(table->init_std == (real)0.01);
        if (position == QKV_POSITION_LEARNED) assert_string_equal(bench->reg.params[1].name, "position.weight");
        ops_ready(bench, 1 << 16);
        qkv_mat out = ops_mat(LB_ROWS, 5, 5, 1), dropped = ops_mat(LB_ROWS, 5, 5, 2);
        bench->x.train = false;
        OPS_OK(qkv_embedding_layer_forward(&bench->x, &l, &b.batch, out));
        bench->x.train = true;
        OPS_OK(qkv_embedding_layer_forward(&bench->x, &l, &b.batch, dropped));
        int gone = 0;
        for (int s = 0; s < LB_SEQUENCES; s++)
            for (int64_t r = LB_OFFSET[s]; r < LB_OFFSET[s + 1]; r++)
                for (int64_t c = 0; c < 5; c++) {
                    double p = (double)(r - LB_OFFSET[s]), token = (double)bench->weights[b.ids[r] * 5 + c], add = 0;
                    double angle = p / pow(10000, 2.0 * (double)(c / 2) / 5);
                    if (position == QKV_POSITION_SINUSOIDAL) token *= sqrt(5), add = c % 2 ? cos(angle) : sin(angle);
                    if (position == QKV_POSITION_LEARNED) add = (double)bench->weights[bench->reg.params[1].offset + (r - LB_OFFSET[s]) * 5 + c];
                    ops_near("embedded", (double)ops_at(out, r, c), token + add, 1e-6);
                    if (ops_at(dropped, r, c) == 0) gone++;
                    else ops_near("dropped", (double)ops_at(dropped, r, c), (token + add) / 0.75, 2e-6);
                }
        assert_true(gone > 10 && gone < 50);
        free(out.p);
        free(dropped.p);
        ops_end(bench);
    }
}

/* The longest legal text is as long as the table; one more is a status and not a read behind it. */
static void too_long(void **state) {
    (void)state;
    layers_batch b;
    lb_batch(&b);
    for (int position = 0; position < 3; position++)
        for (int64_t limit = 12; limit <= 13; limit++) {
            ops_bench one, *bench = &one;
            ops_start(bench, 1);
            qkv_embedding_layer l;
            const qkv_position_shape shape = {.kind = (qkv_position)position, .length = limit};
            OPS_OK(qkv_embedding_layer_declare(&l, &bench->reg, 9, 5, &shape, 0));
            ops_ready(bench, 1 << 16);
            qkv_mat out = ops_mat(LB_ROWS, 5, 5, 1);
            bool refused = limit < 13 && position == QKV_POSITION_LEARNED;
            assert_int_equal(qkv_embedding_layer_forward(&bench->x, &l, &b.batch, out), refused ? QKV_BAD_ARGUMENT : QKV_OK);
            if (refused) assert_string_equal(bench->ctx.message, "sequence 3 has 13 tokens; there are 12 positions");
            qkv_exec_release(&bench->x, 0);
            free(out.p);
            ops_end(bench);
        }
}

/* Attention pooling with a query of 0 is the mean; an empty sequence is 0 whatever the kind. */
static void pooling(void **state) {
    (void)state;
    layers_batch b;
    lb_batch(&b);
    for (int kind = 0; kind < 6; kind++) {
        ops_bench one, *bench = &one;
        ops_start(bench, 2);
        qkv_pooling_layer l;
        const bool both = kind == 5; /* `last` of two directions */
        const qkv_pooling pooling_kind = both ? QKV_POOL_LAST : (qkv_pooling)kind;
        OPS_OK(qkv_pooling_layer_declare(&l, &bench->reg, "", pooling_kind, LB_DIM, 3));
        l.both = both;
        assert_int_equal(bench->reg.count, kind == QKV_POOL_ATTENTION);
        ops_ready(bench, 1 << 18);
        memset(bench->weights, 0, (size_t)bench->reg.size * sizeof(real));
        qkv_mat in = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 1), out = ops_mat(LB_SEQUENCES, LB_DIM, LB_DIM, 2);
        qkv_pooling_saved saved;
        OPS_OK(qkv_pooling_layer_forward(&bench->x, &l, &b.batch, in, out, &saved));
        for (int64_t c = 0; c < LB_DIM; c++) {
            double mean = 0, top = -INFINITY;
            for (int64_t r = 0; r < 7; r++) {
                mean += (double)ops_at(in, r, c) / 7;
                top = fmax(top, (double)ops_at(in, r, c));
            }
            double expected = kind == QKV_POOL_FIRST ? (double)ops_at(in, 0, c) : kind == QKV_POOL_MAX ? top : mean;
            if (pooling_kind == QKV_POOL_LAST) expected = (double)ops_at(in, both && c >= LB_DIM / 2 ? 0 : 6, c);
            ops_near("pooled", (double)ops_at(out, 0, c), expected, 1e-6);
            assert_true(ops_at(out, 1, c) == 0);
            ops_near("a single row", (double)ops_at(out, 2, c), (double)ops_at(in, 7, c), 1e-6);
        }
        qkv_arena_low_release(&bench->x.arena, 0);
        free(in.p);
        free(out.p);
        ops_end(bench);
    }
}

static void head(void **state) {
    (void)state;
    layers_batch b;
    lb_batch(&b);
    ops_bench one, *bench = &one;
    ops_start(bench, 1);
    qkv_head l;
    OPS_OK(qkv_head_declare(&l, &bench->reg, LB_DIM, 3, 0.5));
    lb_param(&bench->reg, "head.weight", 3, LB_DIM, true);
    lb_param(&bench->reg, "head.bias", 1, 3, false);
    ops_ready(bench, 1 << 16);
    qkv_mat in = ops_mat(LB_SEQUENCES, LB_DIM, LB_DIM, 1), out = ops_mat(LB_SEQUENCES, 3, 3, 2);
    qkv_head_saved saved;
    bench->x.train = false;
    OPS_OK(qkv_head_forward(&bench->x, &l, &b.batch, in, out, &saved));
    assert_true(saved.dropped.p == in.p && bench->x.arena.low == 0);
    for (int64_t s = 0; s < LB_SEQUENCES; s++)
        for (int64_t k = 0; k < 3; k++) {
            double sum = (double)bench->weights[bench->reg.params[l.linear.bias].offset + k];
            for (int64_t c = 0; c < LB_DIM; c++) sum += (double)ops_at(in, s, c) * (double)bench->weights[k * LB_DIM + c];
            ops_near("logit", (double)ops_at(out, s, k), sum, 1e-5);
        }
    bench->x.train = true;
    OPS_OK(qkv_head_forward(&bench->x, &l, &b.batch, in, out, &saved));
    assert_true(saved.dropped.p != in.p);
    for (int64_t c = 0; c < LB_DIM; c++) assert_true(ops_at(saved.dropped, 0, c) == 0 || ops_at(saved.dropped, 0, c) == 2 * ops_at(in, 0, c));
    qkv_arena_low_release(&bench->x.arena, 0);
    free(in.p);
    free(out.p);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(embedding), cmocka_unit_test(too_long), cmocka_unit_test(pooling), cmocka_unit_test(head)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
