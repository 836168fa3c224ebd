/* The encoder block: its parameters; its formulas composed by hand from the layers below; the same bits whether or not it keeps
 * anything; nothing left in scratch. */
#include "layers_bench.h"

#include "layers/block.h"
#include "ops/residual.h"

static void parameters(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        ops_bench one, *bench = &one;
        ops_start(bench, 1);
        qkv_block_shape s = lb_shape(i);
        qkv_block l;
        OPS_OK(qkv_block_declare(&l, &bench->reg, "encoder.3.", &s, 3));
        bool gated = s.activation == QKV_ACT_GEGLU || s.activation == QKV_ACT_SWIGLU;
        int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim, inner = gated ? 40 : 20;
        lb_param(&bench->reg, "encoder.3.norm1.weight", 1, 12, false);
        lb_param(&bench->reg, "encoder.3.attention.qkv.weight", width, 12, true);
        lb_param(&bench->reg, "encoder.3.attention.out.weight", 12, 12, true);
        lb_param(&bench->reg, "encoder.3.norm2.weight", 1, 12, false);
        lb_param(&bench->reg, "encoder.3.ffn.in.weight", inner, 12, true);
        lb_param(&bench->reg, "encoder.3.ffn.out.weight", 12, 20, true);
        if (s.bias) {
            lb_param(&bench->reg, "encoder.3.attention.qkv.bias", 1, width, false);
            lb_param(&bench->reg, "encoder.3.attention.out.bias", 1, 12, false);
            lb_param(&bench->reg, "encoder.3.ffn.in.bias", 1, inner, false);
            lb_param(&bench->reg, "encoder.3.ffn.out.bias", 1, 12, false);
        }
        bool norm_bias = s.bias && s.norm == QKV_NORM_LAYER;
        if (norm_bias) lb_param(&bench->reg, "encoder.3.norm1.bias", 1, 12, false);
        assert_int_equal(bench->reg.count, 6 + (s.bias ? 4 : 0) + (norm_bias ? 2 : 0));
        /* residual branches start smaller by sqrt(2 layers) */
        const qkv_param *p = bench->reg.params;
        ops_near("qkv", (double)p[l.attention.qkv.weight].init_std, 1 / sqrt(12), 1e-6);
        ops_near("out", (double)p[l.attention.out.weight].init_std, 1 / sqrt(12) / sqrt(6), 1e-6);
        ops_near("ffn", (double)p[l.ffn.out.weight].init_std, 1 / sqrt(20) / sqrt(6), 1e-6);
        assert_true(p[l.norm1.gain].init_std == 0 && p[l.norm1.gain].init_value == 1);
        ops_ready(bench, 64);
        ops_end(bench);
    }
}

/* Other starts, and the parameters that go with them. */
static void starts(void **state) {
    (void)state;
    static const struct {
        qkv_initial init;
        qkv_residual_kind residual;
        double q, v, out;
    } cases[] = {{QKV_INIT_PLAIN, QKV_RESIDUAL_PLAIN, 1, 1, 1},
                 {QKV_INIT_LARGE, QKV_RESIDUAL_PLAIN, 10, 10, 10},
                 {QKV_INIT_SMALL, QKV_RESIDUAL_NONE, 0.01, 0.01, 0.01},
                 {QKV_INIT_SCALED, QKV_RESIDUAL_NONE, 1, 1, 0.40824829},
                 {QKV_INIT_SCALED, QKV_RESIDUAL_DEEPNORM, 1, 0.45180101, 0.45180101}}; /* (8 * 3)^(-1/4) */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ops_bench one, *bench = &one;
        ops_start(bench, 1);
        qkv_block_shape s = lb_shape(0);
        s.init = cases[i].init, s.residual = cases[i].residual, s.norm_place = QKV_NORM_POST, s.qk_norm = true;
        qkv_block l;
        OPS_OK(qkv_block_declare(&l, &bench->reg, "", &s, 0));
        const qkv_param *p = bench->reg.params, *in = &p[l.attention.qkv.weight];
        ops_near("q and k", (double)in->init_std, cases[i].q / sqrt(12), 1e-6);
        ops_near("v", (double)in->init_last_std, cases[i].v / sqrt(12), 1e-6);
        assert_int_equal(in->init_last, 12);
        ops_near("out", (double)p[l.attention.out.weight].init_std, cases[i].out / sqrt(12), 1e-6);
        ops_near("ffn in", (double)p[l.ffn.in.weight].init_std, cases[i].v / sqrt(12), 1e-6);
        ops_near("ffn out", (double)p[l.ffn.out.weight].init_std, cases[i].out / sqrt(20), 1e-6);
        ops_near("alpha", (double)l.alpha, cases[i].residual == QKV_RESIDUAL_DEEPNORM ? 1.5650846 : 1, 1e-6); /* 6^(1/4) */
        lb_param(&bench->reg, "attention.q_norm.weight", 1, 3, false);
        lb_param(&bench->reg, "attention.k_norm.weight", 1, 3, false);
        ops_ready(bench, 64);
        ops_end(bench);
    }
}

static void by_hand(ops_bench *bench, const qkv_block *l, const qkv_batch *batch, qkv_mat in, qkv_mat out) {
    qkv_exec *x = &bench->x;
    qkv_mat a = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 1), b = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 2), h = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 3);
    qkv_norm_saved n;
    qkv_attention_saved as;
    qkv_ffn_saved fs;
    qkv_dropout d1 = qkv_exec_dropout(x, 0.2, 16 * 2 + 1, batch->row_key), d2 = qkv_exec_dropout(x, 0.2, 16 * 2 + 2, batch->row_key);
    if (l->norm_place == QKV_NORM_POST) {
        OPS_OK(qkv_attention_layer_forward(x, &l->attention, batch, in, a, &as));
        OPS_OK(qkv_residual(x, &in, a, b, d1));
        OPS_OK(qkv_norm_forward(x, &l->norm1, b, h, &n));
        OPS_OK(qkv_ffn_forward(x, &l->ffn, h, a, &fs));
        OPS_OK(qkv_residual(x, &h, a, b, d2));
        OPS_OK(qkv_norm_forward(x, &l->norm2, b, out, &n));
    } else {
        OPS_OK(qkv_norm_forward(x, &l->norm1, in, a, &n));
        OPS_OK(qkv_attention_layer_forward(x, &l->attention, batch, a, b, &as));
        OPS_OK(qkv_residual(x, &in, b, h, d1));
        OPS_OK(qkv_norm_forward(x, &l->norm2, h, a, &n));
        OPS_OK(qkv_ffn_forward(x, &l->ffn, a, b, &fs));
        OPS_OK(qkv_residual(x, &h, b, out, d2));
    }
    free(a.p);
    free(b.p);
    free(h.p);
}

static void same(qkv_mat a, qkv_mat b) {
    for (int64_t r = 0; r < a.rows; r++)
        for (int64_t c = 0; c < a.cols; c++) assert_true(ops_at(a, r, c) == ops_at(b, r, c));
}

static void formulas(void **state) {
    (void)state;
    layers_batch b;
    lb_batch(&b);
    for (int i = 0; i < 12; i++) {
        ops_bench one, *bench = &one;
        ops_start(bench, 2);
        qkv_block_shape s = lb_shape(i);
        qkv_block l;
        OPS_OK(qkv_block_declare(&l, &bench->reg, "", &s, 2));
        ops_ready(bench, 1 << 20);
        qkv_mat in = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 7), kept = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 8), free_of = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 9);
        qkv_mat hand = ops_mat(LB_ROWS, LB_DIM, LB_DIM, 9);
        qkv_block_saved saved, unused;
        OPS_OK(qkv_block_forward(&bench->x, &l, &b.batch, in, kept, &saved));
        assert_true(bench->x.arena.low > 0 && bench->x.arena.high == 0);
        size_t low = bench->x.arena.low;
        bench->x.keep = false;
        OPS_OK(qkv_block_forward(&bench->x, &l, &b.batch, in, free_of, &unused));
        assert_true(bench->x.arena.low == low && bench->x.arena.high == 0);
        same(kept, free_of);
        by_hand(bench, &l, &b.batch, in, hand);
        qkv_exec_release(&bench->x, 0); /* the norm op keeps its statistics for its caller */
        same(kept, hand);
        qkv_arena_low_release(&bench->x.arena, 0);
        free(in.p);
        free(kept.p);
        free(free_of.p);
        free(hand.p);
        ops_end(bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters), cmocka_unit_test(starts), cmocka_unit_test(formulas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
