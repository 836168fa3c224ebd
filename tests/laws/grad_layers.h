/* Gradient cases of the layers, one function case_<name> for each name of QKV_LAYER_LIST. All with dropout on. */
#ifndef QKV_TESTS_LAWS_GRAD_LAYERS_H
#define QKV_TESTS_LAWS_GRAD_LAYERS_H

#include "grad_ops.h"
#include "layers/block.h"
#include "layers/embedding_layer.h"
#include "layers/head.h"
#include "layers/head_norms.h"
#include "layers/masked_head.h"
#include "layers/pooling_layer.h"
#include "layers/positions.h"
#include "layers/recurrent.h"

enum { GRAD_DIM = 8 };

static qkv_block_shape grad_shape(int i) {
    return (qkv_block_shape){.dim = GRAD_DIM, .heads = 4, .kv_heads = i % 3 == 0 ? 4 : i % 3 == 1 ? 2 : 1, .head_dim = i % 2 ? 3 : 2, .ffn = 11,
                             .norm = i % 2 ? QKV_NORM_RMS : QKV_NORM_LAYER, .activation = (qkv_activation)(i % 6),
                             .norm_place = i % 5 == 4 ? QKV_NORM_SANDWICH : (qkv_norm_place)(i / 2 % 2),
                             .residual = i == 3 || i == 7 ? QKV_RESIDUAL_DEEPNORM : i > 9 ? QKV_RESIDUAL_NONE : QKV_RESIDUAL_PLAIN,
                             .qk_norm = i % 4 == 1, .softcap = i % 4 == 2 ? 2 : 0, .unscaled = i == 5,
                             .bias = i % 4 < 2, .span = i % 3 == 1 ? (qkv_span){1, 2} : (qkv_span){-1, -1}, .norm_epsilon = 1e-5,
                             .dropout = 0.3, .attention_dropout = 0.2, .layers = 2};
}

static void run_attention_layer(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_attention_saved saved;
    GRAD_OK(qkv_attention_layer_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward)
        GRAD_OK(qkv_attention_layer_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_attention_layer(void) {
    for (int i = 0; i < 8; i++) {
        grad_case g;
        grad_start(&g);
        qkv_attention_layer l;
        qkv_block_shape shape = grad_shape(i);
        shape.no_output = i >= 6;
        if (i % 3 == 1) shape.pattern = (qkv_pattern){.global_first = 1, .global_every = 4}, shape.global_projection = i != 4;
        if (shape.no_output) shape.head_dim = GRAD_DIM / shape.heads;
        NET_OK(&g.ctx, qkv_attention_layer_declare(&l, &g.reg, "", &shape, 0));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_ROWS, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_attention_layer);
        grad_end(&g);
    }
}

/* ---- projections of global tokens ---- */

typedef struct global_projection_user {
    qkv_global_projection l;
    qkv_attention_shape s;
} global_projection_user;

/* Rows of heads as a matrix, or back. */
static void grad_rows(qkv_mat m, qkv_heads h, int64_t width, bool back) {
    for (int64_t r = 0; r < m.rows; r++)
        for (int64_t c = 0; c < m.cols; c++) {
            real *of = h.p + r * h.row + c / width * h.head + c % width;
            if (back) *of = m.p[r * m.ld + c];
            else m.p[r * m.ld + c] = *of;
        }
}

/* The output: queries, then keys and values of all rows, as attention sees them. */
static void run_global_projection(grad_case *g, bool backward) {
    const global_projection_user *u = g->user;
    const int64_t globals = qkv_attention_globals(&u->s);
    qkv_mat in = grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), din = grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM);
    const int64_t width = u->l.head_dim, keys = u->l.kv_heads * width;
    qkv_global_saved saved;
    qkv_global_seen seen;
    GRAD_OK(qkv_global_projection_forward(&g->x, &u->l, &u->s, in, true, &saved));
    GRAD_OK(qkv_global_projection_see(&g->x, &u->l, &saved, true, &seen));
    for (int back = 0; back <= backward; back++) {
        const qkv_mat m = back ? g->dout : g->out, q = {m.p, globals, m.cols, m.ld}, kv = {m.p + globals * m.ld, GRAD_ROWS, m.cols, m.ld};
        const qkv_apart *a = &seen.apart;
        grad_rows(q, back ? a->dq : a->q, width, back);
        grad_rows(qkv_mat_cols(kv, 0, keys), back ? a->dk : a->k, width, back);
        grad_rows(qkv_mat_cols(kv, keys, keys), back ? a->dv : a->v, width, back);
    }
    if (!backward) return;
    memset(din.p, 0, GRAD_ROWS * GRAD_DIM * sizeof(real));
    GRAD_OK(qkv_global_projection_backward(&g->x, &u->l, &u->s, in, &seen, din));
}

static void case_global_projection(void) {
    for (int norms = 0; norms < 2; norms++) {
        grad_case g;
        grad_start(&g);
        global_projection_user u = {.s = {.sequences = GRAD_SEQUENCES, .q_offset = GRAD_OFFSET, .k_offset = GRAD_OFFSET, .pattern = {.global_every = 2}}};
        qkv_block_shape shape = grad_shape(0);
        shape.global_projection = true;
        shape.qk_norm = norms;
        shape.kv_heads = shape.heads / 2;
        NET_OK(&g.ctx, qkv_global_projection_declare(&u.l, &g.reg, "", &shape));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, qkv_attention_globals(&u.s) + GRAD_ROWS, shape.heads * shape.head_dim);
        g.user = &u;
        grad_check(&g, run_global_projection);
        grad_end(&g);
    }
}

/* ---- norms of heads ---- */

/* Four heads of queries beside two of keys. */
static void run_head_norms(grad_case *g, bool backward) {
    const qkv_head_norms *n = g->user;
    const int64_t queries = n->heads * n->head_dim, keys = n->kv_heads * n->head_dim;
    const qkv_mat in = grad_mat(g->in[0].value, GRAD_ROWS, queries + keys), din = grad_mat(g->in[0].grad, GRAD_ROWS, queries + keys);
    qkv_normed p = {.q_in = qkv_mat_cols(in, 0, queries), .k_in = qkv_mat_cols(in, queries, keys)};
    const qkv_normed d = {.q_in = qkv_mat_cols(din, 0, queries), .k_in = qkv_mat_cols(din, queries, keys)};
    GRAD_OK(qkv_head_norms_forward(&g->x, n, &p));
    grad_rows(qkv_mat_cols(g->out, 0, queries), p.q, n->head_dim, false);
    grad_rows(qkv_mat_cols(g->out, queries, keys), p.k, n->head_dim, false);
    if (!backward) return;
    for (int64_t r = 0; r < GRAD_ROWS; r++) memcpy(din.p + r * din.ld, g->dout.p + r * g->dout.ld, (size_t)din.cols * sizeof(real));
    GRAD_OK(qkv_head_norms_backward(&g->x, n, &p, &d));
}

static void case_head_norms(void) {
    grad_case g;
    grad_start(&g);
    qkv_block_shape shape = grad_shape(1);
    qkv_head_norms n;
    NET_OK(&g.ctx, qkv_head_norms_declare(&n, &g.reg, "", "q", "k", &shape));
    grad_input(&g, "in", GRAD_ROWS * (shape.heads + shape.kv_heads) * shape.head_dim);
    grad_ready(&g, GRAD_ROWS, (shape.heads + shape.kv_heads) * shape.head_dim);
    g.user = &n;
    grad_check(&g, run_head_norms);
    grad_end(&g);
}

/* ---- positions: of the layers' scores, and added to rows ---- */

typedef struct positions_user {
    qkv_relative relative;
    qkv_attention_layer first, second; /* that share it */
    qkv_absolute absolute;
} positions_user;

static void run_positions(grad_case *g, bool backward) {
    positions_user *u = (positions_user *)g->user;
    qkv_batch batch = grad_batch();
    qkv_attention_saved one, two;
    qkv_mat in, middle, dmiddle, din;
    GRAD_OK(qkv_relative_begin(&g->x, &u->relative, &batch));
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, GRAD_DIM, &in));
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, GRAD_DIM, &middle));
    memcpy(in.p, g->in[0].value, GRAD_ROWS * GRAD_DIM * sizeof(real));
    GRAD_OK(qkv_absolute_forward(&g->x, &u->absolute, &batch, in));
    GRAD_OK(qkv_attention_layer_forward(&g->x, &u->first, &batch, in, middle, &one));
    GRAD_OK(qkv_attention_layer_forward(&g->x, &u->second, &batch, middle, g->out, &two));
    if (!backward) return;
    GRAD_OK(qkv_temp(&g->x, GRAD_ROWS, GRAD_DIM, &dmiddle));
    din = grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM);
    GRAD_OK(qkv_attention_layer_backward(&g->x, &u->second, &batch, g->dout, dmiddle, &two));
    GRAD_OK(qkv_attention_layer_backward(&g->x, &u->first, &batch, dmiddle, din, &one));
    GRAD_OK(qkv_absolute_backward(&g->x, &u->absolute, &batch, din));
}

static void one_positions(qkv_position_shape p, int64_t head_dim) {
    grad_case g;
    grad_start(&g);
    positions_user u;
    qkv_block_shape shape = grad_shape(p.causal ? 1 : 0);
    shape.span = p.causal ? (qkv_span){-1, 0} : (qkv_span){-1, -1};
    shape.head_dim = head_dim;
    p.rope.base = 100;
    NET_OK(&g.ctx, qkv_absolute_declare(&u.absolute, &g.reg, "", GRAD_DIM, &p));
    NET_OK(&g.ctx, qkv_relative_declare(&u.relative, &g.reg, "", shape.heads, shape.head_dim, &p));
    shape.relative = &u.relative;
    NET_OK(&g.ctx, qkv_attention_layer_declare(&u.first, &g.reg, "first.", &shape, 0));
    NET_OK(&g.ctx, qkv_attention_layer_declare(&u.second, &g.reg, "second.", &shape, 1));
    grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
    grad_ready(&g, GRAD_ROWS, GRAD_DIM);
    g.user = &u;
    grad_check(&g, run_positions);
    grad_end(&g);
}

static void case_positions(void) {
    for (int causal = 0; causal < 2; causal++) {
        one_positions((qkv_position_shape){.kind = QKV_POSITION_T5, .buckets = 6, .reach = 4, .causal = causal}, 2);
        one_positions((qkv_position_shape){.kind = QKV_POSITION_SHAW, .reach = 2 + causal, .causal = causal}, 3);
        one_positions((qkv_position_shape){.kind = QKV_POSITION_ALIBI, .causal = causal}, 2);
        one_positions((qkv_position_shape){.kind = QKV_POSITION_ROPE, .part = causal ? 0.5 : 1, .pairs = (qkv_rope_pairs)causal, .causal = causal}, 4);
    }
    for (int beyond = QKV_BEYOND_CLAMP; beyond <= QKV_BEYOND_INTERPOLATE; beyond++)
        one_positions((qkv_position_shape){.kind = QKV_POSITION_LEARNED, .length = 3, .beyond = (qkv_position_beyond)beyond}, 2);
    for (int stretch = QKV_STRETCH_LINEAR; stretch <= QKV_STRETCH_YARN; stretch++)
        one_positions((qkv_position_shape){.kind = QKV_POSITION_ROPE, .part = 1, .rope = {.stretch = (qkv_rope_stretch)stretch, .factor = 3, .length = 9}}, 4);
}

static void run_ffn(grad_case *g, bool backward) {
    qkv_ffn_saved saved;
    GRAD_OK(qkv_ffn_forward(&g->x, g->user, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_ffn_backward(&g->x, g->user, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_ffn(void) {
    for (int i = 0; i < 6; i++) {
        grad_case g;
        grad_start(&g);
        qkv_ffn l;
        qkv_block_shape shape = grad_shape(i);
        NET_OK(&g.ctx, qkv_ffn_declare(&l, &g.reg, "", &shape));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_ROWS, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_ffn);
        grad_end(&g);
    }
}

static void run_block(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_block_saved saved;
    GRAD_OK(qkv_block_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_block_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_block(void) {
    for (int i = 0; i < 12; i++) {
        grad_case g;
        grad_start(&g);
        qkv_block l;
        qkv_block_shape shape = grad_shape(i);
        NET_OK(&g.ctx, qkv_block_declare(&l, &g.reg, "", &shape, 1));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_ROWS, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_block);
        grad_end(&g);
    }
}

static void run_embedding_layer(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    GRAD_OK(qkv_embedding_layer_forward(&g->x, g->user, &batch, g->out));
    if (backward) GRAD_OK(qkv_embedding_layer_backward(&g->x, g->user, &batch, g->dout));
}

static void case_embedding_layer(void) {
    for (int i = 0; i < 3; i++) {
        grad_case g;
        grad_start(&g);
        qkv_embedding_layer l;
        const qkv_position_shape position = {.kind = (qkv_position)i, .length = 6};
        NET_OK(&g.ctx, qkv_embedding_layer_declare(&l, &g.reg, 7, 5, &position, 0.3));
        grad_ready(&g, GRAD_ROWS, 5);
        g.user = &l;
        grad_check(&g, run_embedding_layer);
        grad_end(&g);
    }
}

static void run_pooling_layer(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_pooling_saved saved;
    GRAD_OK(qkv_pooling_layer_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_pooling_layer_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_pooling_layer(void) {
    for (int i = 0; i < 6; i++) {
        grad_case g;
        grad_start(&g);
        qkv_pooling_layer l;
        NET_OK(&g.ctx, qkv_pooling_layer_declare(&l, &g.reg, "", i < 5 ? (qkv_pooling)i : QKV_POOL_LAST, GRAD_DIM, 4));
        l.both = i == 5;
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_SEQUENCES, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_pooling_layer);
        grad_end(&g);
    }
}

static void run_head(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_head_saved saved;
    GRAD_OK(qkv_head_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_SEQUENCES, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_head_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_SEQUENCES, GRAD_DIM), &saved));
}

static void case_head(void) {
    grad_case g;
    grad_start(&g);
    qkv_head l;
    NET_OK(&g.ctx, qkv_head_declare(&l, &g.reg, GRAD_DIM, 3, 0.4));
    grad_input(&g, "in", GRAD_SEQUENCES * GRAD_DIM);
    grad_ready(&g, GRAD_SEQUENCES, 3);
    g.user = &l;
    grad_check(&g, run_head);
    grad_end(&g);
}

static void run_masked_head(grad_case *g, bool backward) {
    static const int32_t row[] = {1, 3, 8}, target[] = {6, 0, 6};
    const qkv_masks masks = {3, row, target};
    qkv_mat rows = grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM);
    if (backward) GRAD_OK(qkv_masked_head_learn(&g->x, g->user, &masks, rows, 0.5, g->out.p, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM)));
    else GRAD_OK(qkv_masked_head_loss(&g->x, g->user, &masks, rows, g->out.p));
}

static void case_masked_head(void) {
    for (int i = 0; i < 3; i++) {
        grad_case g;
        grad_start(&g);
        qkv_masked_head l;
        int64_t table;
        qkv_block_shape shape = grad_shape(i);
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "table", 7, GRAD_DIM, (qkv_param_kind){.embedding = true}, &table));
        NET_OK(&g.ctx, qkv_masked_head_declare(&l, &g.reg, table, &shape));
        grad_input(&g, "rows", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, 3, 1);
        for (int r = 0; r < 3; r++) g.dout.p[r] = (real)0.5;
        g.user = &l;
        grad_check(&g, run_masked_head);
        grad_end(&g);
    }
}

static void run_recurrent(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_recurrent_saved saved;
    GRAD_OK(qkv_recurrent_forward(&g->x, g->user, &batch, NULL, grad_mat(g->in[0].value, GRAD_ROWS, 5), g->out, &saved));
    if (backward) GRAD_OK(qkv_recurrent_backward(&g->x, g->user, &batch, NULL, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, 5), &saved));
}

static void case_recurrent(void) {
    for (int i = 0; i < 12; i++) {
        grad_case g;
        grad_start(&g);
        qkv_recurrent l;
        const qkv_recurrent_shape shape = {.cell = (qkv_recur_cell)(i % 5), .in = 5, .units = 4, .directions = 1 + i / 5 % 2, .peepholes = i >= 5,
                                           .forget = 1, .dropout = i % 2 ? 0.3 : 0};
        NET_OK(&g.ctx, qkv_recurrent_declare(&l, &g.reg, "", &shape, 3));
        grad_input(&g, "in", GRAD_ROWS * 5);
        grad_ready(&g, GRAD_ROWS, shape.directions * 4);
        g.user = &l;
        grad_check(&g, run_recurrent);
        grad_end(&g);
    }
}

#endif
