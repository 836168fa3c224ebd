/* Gradient cases of the ops, one function case_<name> for each name of QKV_OP_LIST. */
#ifndef QKV_TESTS_LAWS_GRAD_OPS_H
#define QKV_TESTS_LAWS_GRAD_OPS_H

#include "grad.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/global_rows.h"
#include "ops/head_norm.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/loss_sigmoid.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/pooling.h"
#include "ops/position.h"
#include "ops/recurrence.h"
#include "ops/residual.h"

#define GRAD_OK(expression) NET_OK(&g->ctx, expression)

/* ---- linear ---- */

static void run_linear(grad_case *g, bool backward) {
    const qkv_linear *l = g->user;
    qkv_mat in = grad_mat(g->in[0].value, 7, 5), din = grad_mat(g->in[0].grad, 7, 5);
    GRAD_OK(qkv_linear_forward(&g->x, *l, in, g->out));
    if (backward) GRAD_OK(qkv_linear_backward(&g->x, *l, in, g->dout, &din));
}

static void case_linear(void) {
    for (int bias = 0; bias < 2; bias++) {
        grad_case g;
        grad_start(&g);
        qkv_linear l = {.bias = -1};
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "weight", 19, 5, (qkv_param_kind){.matrix = true}, &l.weight));
        if (bias) NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "bias", 1, 19, (qkv_param_kind){0}, &l.bias));
        grad_input(&g, "in", 7 * 5);
        grad_ready(&g, 7, 19);
        g.user = &l;
        grad_check(&g, run_linear);
        grad_end(&g);
    }
}

/* ---- attention ---- */

typedef struct attention_user {
    qkv_attention_shape s;
    int64_t q_rows, k_rows;
} attention_user;

static void run_attention(grad_case *g, bool backward) {
    const attention_user *u = g->user;
    qkv_attention_shape shape = u->s, *s = &shape;
    if (s->bias) shape.bias = g->in[3].value;
    const grad_buffer *vectors = g->in + (s->bias ? 4 : 3);
    if (s->shaw_keys) shape.shaw_keys = vectors[0].value, shape.shaw_values = vectors[1].value;
    qkv_heads q = {g->in[0].value, s->heads * s->dim, s->dim}, k = {g->in[1].value, s->kv_heads * s->dim, s->dim};
    qkv_heads v = {g->in[2].value, s->kv_heads * s->value_dim, s->value_dim}, o = qkv_heads_of(g->out, s->value_dim);
    qkv_apart apart;
    if (s->apart) {
        const grad_buffer *of = vectors + (s->shaw_keys ? 2 : 0);
        const int64_t rows[] = {s->heads * s->dim, s->kv_heads * s->dim, s->kv_heads * s->value_dim};
        apart = (qkv_apart){{of[0].value, rows[0], s->dim}, {of[1].value, rows[1], s->dim}, {of[2].value, rows[2], s->value_dim},
                            {of[0].grad, rows[0], s->dim},  {of[1].grad, rows[1], s->dim},  {of[2].grad, rows[2], s->value_dim}};
        shape.apart = &apart;
    }
    qkv_mat lse;
    GRAD_OK(qkv_keep(&g->x, s->heads, u->q_rows, &lse));
    GRAD_OK(qkv_attend_forward(&g->x, s, q, k, v, o, lse.p));
    if (!backward) return;
    qkv_heads dq = {g->in[0].grad, q.row, q.head}, dk = {g->in[1].grad, k.row, k.head}, dv = {g->in[2].grad, v.row, v.head};
    if (s->bias) shape.bias_grad = g->in[3].grad;
    if (s->shaw_keys) shape.shaw_dkeys = vectors[0].grad, shape.shaw_dvalues = vectors[1].grad;
    GRAD_OK(qkv_attend_backward(&g->x, s, q, k, v, o, lse.p, qkv_heads_of(g->dout, s->value_dim), dq, dk, dv));
}

static void one_attention(qkv_attention_shape s) {
    static const int64_t other[GRAD_SEQUENCES + 1] = {0, 4, 5, 5, 12}; /* keys where queries have none, and the reverse */
    static const int64_t same[GRAD_SEQUENCES + 1] = {0, 3, 3, 4, 9};
    for (int crossed = 0; crossed < 2; crossed++) {
        grad_case g;
        grad_start(&g);
        s.sequences = GRAD_SEQUENCES;
        s.q_offset = GRAD_OFFSET;
        s.k_offset = crossed ? other : same;
        s.scale = (real)0.6;
        if (s.dropout.p > 0) s.dropout.row_key = GRAD_KEYS;
        attention_user u = {s, GRAD_ROWS, s.k_offset[GRAD_SEQUENCES]};
        grad_input(&g, "q", u.q_rows * s.heads * s.dim);
        grad_input(&g, "k", u.k_rows * s.kv_heads * s.dim);
        grad_input(&g, "v", u.k_rows * s.kv_heads * s.value_dim);
        if (s.bias) grad_input(&g, "bias", s.heads * (2 * s.bias_reach + 1));
        if (s.shaw_keys) {
            grad_input(&g, "vectors of keys", (2 * s.shaw_reach + 1) * s.dim);
            grad_input(&g, "vectors of values", (2 * s.shaw_reach + 1) * s.value_dim);
        }
        if (s.apart) {
            grad_input(&g, "q of global tokens", qkv_attention_globals(&s) * s.heads * s.dim);
            grad_input(&g, "k of global tokens", u.k_rows * s.kv_heads * s.dim);
            grad_input(&g, "v of global tokens", u.k_rows * s.kv_heads * s.value_dim);
        }
        grad_ready(&g, u.q_rows, s.heads * s.value_dim);
        g.user = &u;
        grad_check(&g, run_attention);
        grad_end(&g);
    }
}

static void case_patterns(void);

static void case_attention(void) {
    static const float slopes[4] = {0.5f, 0.25f, 0.125f, 1};
    static const real some = 0; /* a bias is wanted; its values are an input */
    real cosine[20 * 2], sine[20 * 2];
    for (int i = 0; i < 40; i++) {
        cosine[i] = (real)cos(i * 0.3);
        sine[i] = (real)sin(i * 0.3);
    }
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 3, .value_dim = 3, .left = -1, .right = -1, .bias = &some, .bias_reach = 2});
    one_attention((qkv_attention_shape){.heads = 2, .kv_heads = 2, .dim = 2, .value_dim = 3, .left = 2, .right = 0, .softcap = 2, .bias = &some,
                                        .bias_reach = 9, .dropout = {.p = (real)0.3, .key = 9}});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 3, .value_dim = 2, .left = -1, .right = -1, .shaw_keys = &some,
                                        .shaw_values = &some, .shaw_reach = 2});
    one_attention((qkv_attention_shape){.heads = 2, .kv_heads = 2, .dim = 2, .value_dim = 3, .left = 3, .right = 1, .softcap = 2, .bias = &some,
                                        .bias_reach = 3, .shaw_keys = &some, .shaw_values = &some, .shaw_reach = 1,
                                        .dropout = {.p = (real)0.3, .key = 9}});
    for (int interleaved = 0; interleaved < 2; interleaved++)
        one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 5, .value_dim = 3, .left = -1, .right = 1, .rope_cos = cosine,
                                            .rope_sin = sine, .rope_dim = 4, .rope_offset = 5, .rope_interleaved = interleaved != 0});
    one_attention((qkv_attention_shape){.heads = 2, .kv_heads = 2, .dim = 3, .value_dim = 5, .left = -1, .right = -1});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 4, .value_dim = 4, .left = -1, .right = 0});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 1, .dim = 3, .value_dim = 2, .left = 1, .right = 1, .softcap = 2});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 4, .dim = 2, .value_dim = 3, .left = 2, .right = -1, .alibi = slopes});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 3, .value_dim = 3, .left = -1, .right = -1, .dropout = {.p = (real)0.3, .key = 9}});
    case_patterns();
}

static void case_patterns(void) {
    static const real some = 0;
    static const qkv_apart own;
    real cosine[20 * 2], sine[20 * 2];
    for (int i = 0; i < 40; i++) {
        cosine[i] = (real)cos(i * 0.3);
        sine[i] = (real)sin(i * 0.3);
    }
    const qkv_pattern globals = {.global_first = 1, .global_every = 3}, dilated = {.dilation = 2, .global_every = 4},
                      random = {.random_blocks = 1, .block = 2, .global_first = 1};
    for (int apart = 0; apart < 2; apart++)
        one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 3, .value_dim = 2, .left = 1, .right = apart ? 1 : 0,
                                            .pattern = globals, .apart = apart ? &own : NULL, .dropout = {.p = (real)0.3, .key = 9}});
    one_attention((qkv_attention_shape){.heads = 2, .kv_heads = 1, .dim = 2, .value_dim = 3, .left = 1, .right = 1, .softcap = 2, .bias = &some,
                                        .bias_reach = 3, .pattern = dilated});
    one_attention((qkv_attention_shape){.heads = 2, .kv_heads = 2, .dim = 5, .value_dim = 3, .left = 0, .right = 0, .rope_cos = cosine,
                                        .rope_sin = sine, .rope_dim = 4, .rope_offset = 5, .pattern = random});
    const qkv_attention_shape by_distance = {.heads = 2, .kv_heads = 1, .dim = 3, .value_dim = 2, .left = 1, .right = 1, .softcap = 2,
                                             .shaw_keys = &some, .shaw_values = &some, .shaw_reach = 2, .dropout = {.p = (real)0.3, .key = 9}};
    for (int i = 0; i < 5; i++) {
        qkv_attention_shape s = by_distance;
        s.pattern = i % 3 == 0 ? globals : i % 3 == 1 ? dilated : random;
        s.apart = i >= 3 ? &own : NULL;
        one_attention(s);
    }
}

/* ---- rows of global tokens ---- */

static void run_global_rows(grad_case *g, bool backward) {
    const qkv_attention_shape *s = g->user;
    GRAD_OK(qkv_global_rows_forward(&g->x, s, grad_mat(g->in[0].value, GRAD_ROWS, 3), g->out));
    if (!backward) return;
    memset(g->in[0].grad, 0, GRAD_ROWS * 3 * sizeof(real));
    GRAD_OK(qkv_global_rows_backward(&g->x, s, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, 3)));
}

static void case_global_rows(void) {
    grad_case g;
    grad_start(&g);
    qkv_attention_shape s = {.sequences = GRAD_SEQUENCES, .q_offset = GRAD_OFFSET, .k_offset = GRAD_OFFSET, .pattern = {.global_every = 2}};
    grad_input(&g, "rows", GRAD_ROWS * 3);
    grad_ready(&g, qkv_attention_globals(&s), 3);
    g.user = &s;
    grad_check(&g, run_global_rows);
    grad_end(&g);
}

/* ---- norm ---- */

static void run_norm(grad_case *g, bool backward) {
    qkv_norm_saved saved;
    GRAD_OK(qkv_norm_forward(&g->x, g->user, grad_mat(g->in[0].value, 4, 21), g->out, &saved));
    if (backward) GRAD_OK(qkv_norm_backward(&g->x, g->user, g->dout, grad_mat(g->in[0].grad, 4, 21), &saved));
}

static void case_norm(void) {
    for (int kind = 0; kind < 4; kind++) {
        grad_case g;
        grad_start(&g);
        qkv_norm_op n = {.bias = -1, .rms = kind & 1, .epsilon = 1e-5};
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "gain", 1, 21, (qkv_param_kind){0}, &n.gain));
        if (kind & 2) NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "bias", 1, 21, (qkv_param_kind){0}, &n.bias));
        grad_input(&g, "in", 4 * 21);
        grad_ready(&g, 4, 21);
        g.user = &n;
        grad_check(&g, run_norm);
        grad_end(&g);
    }
}

/* ---- norm of heads ---- */

static void run_head_norm(grad_case *g, bool backward) {
    qkv_mat rstd;
    const size_t mark = qkv_exec_mark(&g->x);
    GRAD_OK(qkv_temp(&g->x, 3, 4, &rstd));
    GRAD_OK(qkv_head_norm_forward(&g->x, g->user, 3, grad_mat(g->in[0].value, 4, 15), g->out, rstd));
    if (backward)
        GRAD_OK(qkv_head_norm_backward(&g->x, g->user, 3, grad_mat(g->in[0].value, 4, 15), rstd, g->dout, grad_mat(g->in[0].grad, 4, 15)));
    qkv_exec_release(&g->x, mark);
}

static void case_head_norm(void) {
    grad_case g;
    grad_start(&g);
    qkv_norm_op op = {.bias = -1, .rms = true, .epsilon = 1e-5};
    NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "gain", 1, 5, (qkv_param_kind){.value = 1, .vector = true}, &op.gain));
    grad_input(&g, "in", 4 * 15);
    grad_ready(&g, 4, 15);
    g.user = &op;
    grad_check(&g, run_head_norm);
    grad_end(&g);
}

/* ---- activation ---- */

typedef struct activation_user {
    qkv_act act;
    bool gated;
} activation_user;

static void run_activation(grad_case *g, bool backward) {
    const activation_user *u = g->user;
    int64_t wide = u->gated ? 34 : 17;
    qkv_mat in = grad_mat(g->in[0].value, 5, wide);
    GRAD_OK(qkv_activation_forward(&g->x, u->act, u->gated, in, g->out));
    if (backward) GRAD_OK(qkv_activation_backward(&g->x, u->act, u->gated, in, g->dout, grad_mat(g->in[0].grad, 5, wide)));
}

static void case_activation(void) {
    for (int kind = 0; kind < 8; kind++) {
        grad_case g;
        grad_start(&g);
        activation_user u = {(qkv_act)(kind % 4), kind >= 4};
        grad_input(&g, "in", 5 * (u.gated ? 34 : 17));
        grad_ready(&g, 5, 17);
        g.user = &u;
        grad_check(&g, run_activation);
        grad_end(&g);
    }
}

/* ---- residual: out = 0.5 in + 3 * (base + drop(in)) ---- */

static void run_residual(grad_case *g, bool backward) {
    const qkv_dropout *d = g->user;
    qkv_mat base = grad_mat(g->in[0].value, GRAD_ROWS, 6), in = grad_mat(g->in[1].value, GRAD_ROWS, 6), sum;
    GRAD_OK(qkv_temp(&g->x, GRAD_ROWS, 6, &sum));
    GRAD_OK(qkv_residual(&g->x, &base, in, sum, *d));
    GRAD_OK(qkv_scaled_sum(&g->x, QKV_WORK_RESIDUAL, (real)0.5, in, 0, g->out));
    GRAD_OK(qkv_scaled_sum(&g->x, QKV_WORK_RESIDUAL, 3, sum, 1, g->out));
    if (!backward) return;
    qkv_mat dbase = grad_mat(g->in[0].grad, GRAD_ROWS, 6), din = grad_mat(g->in[1].grad, GRAD_ROWS, 6);
    GRAD_OK(qkv_scaled_sum(&g->x, QKV_WORK_RESIDUAL, 3, g->dout, 0, dbase));
    GRAD_OK(qkv_residual(&g->x, NULL, dbase, din, *d));
    GRAD_OK(qkv_scaled_sum(&g->x, QKV_WORK_RESIDUAL, (real)0.5, g->dout, 1, din));
}

static void case_residual(void) {
    for (int p = 0; p < 2; p++) {
        grad_case g;
        grad_start(&g);
        qkv_dropout d = {p ? (real)0.4 : 0, 77, GRAD_KEYS, 0};
        grad_input(&g, "base", GRAD_ROWS * 6);
        grad_input(&g, "in", GRAD_ROWS * 6);
        grad_ready(&g, GRAD_ROWS, 6);
        g.user = &d;
        grad_check(&g, run_residual);
        grad_end(&g);
    }
}

/* ---- positions: a table spread over longer sequences; biases by bucket ---- */

static void run_between(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    memset(g->out.p, 0, (size_t)(g->out.rows * g->out.cols) * sizeof(real));
    GRAD_OK(qkv_between_forward(&g->x, &batch, qkv_embedding_table(&g->x, 0), g->out));
    if (backward) GRAD_OK(qkv_between_backward(&g->x, &batch, qkv_embedding_grad(&g->x, 0), g->dout));
}

static void run_buckets(grad_case *g, bool backward) {
    const qkv_buckets *b = g->user;
    GRAD_OK(qkv_bucket_bias(&g->x, b, qkv_embedding_table(&g->x, 0), g->out));
    if (backward) GRAD_OK(qkv_bucket_bias_backward(&g->x, b, g->dout, qkv_embedding_grad(&g->x, 0)));
}

static void case_position(void) {
    for (int64_t rows = 1; rows <= 5; rows++) { /* the longest sequence has 5 */
        grad_case g;
        grad_start(&g);
        int64_t table;
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "table", rows, 18, (qkv_param_kind){0}, &table));
        grad_ready(&g, GRAD_ROWS, 18);
        grad_check(&g, run_between);
        grad_end(&g);
    }
    for (int causal = 0; causal < 2; causal++) {
        grad_case g;
        grad_start(&g);
        int64_t table;
        const qkv_buckets b = {.count = 8, .reach = 20, .causal = causal};
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "table", 8, 3, (qkv_param_kind){0}, &table));
        grad_ready(&g, 3, 41);
        g.user = &b;
        grad_check(&g, run_buckets);
        grad_end(&g);
    }
}

/* ---- embedding ---- */

static void run_embedding(grad_case *g, bool backward) {
    GRAD_OK(qkv_embedding_forward(&g->x, "table", qkv_embedding_table(&g->x, 0), GRAD_IDS, 1.5, g->out));
    if (backward) GRAD_OK(qkv_embedding_backward(&g->x, qkv_embedding_grad(&g->x, 0), GRAD_IDS, 1.5, g->dout));
}

static void case_embedding(void) {
    grad_case g;
    grad_start(&g);
    int64_t table;
    NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "table", 7, 5, (qkv_param_kind){0}, &table));
    grad_ready(&g, GRAD_ROWS, 5);
    grad_check(&g, run_embedding);
    grad_end(&g);
}

/* ---- pooling ---- */

static void run_pooling(grad_case *g, bool backward) {
    const qkv_pool *kind = g->user;
    qkv_batch batch = grad_batch();
    int32_t *which;
    GRAD_OK(qkv_keep_array(&g->x, GRAD_SEQUENCES * 6, sizeof *which, &which));
    GRAD_OK(qkv_pool_forward(&g->x, *kind, &batch, grad_mat(g->in[0].value, GRAD_ROWS, 6), g->out, which));
    if (backward) GRAD_OK(qkv_pool_backward(&g->x, *kind, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, 6), which));
}

static void case_pooling(void) {
    static const qkv_pool kinds[] = {QKV_POOL_OP_MEAN, QKV_POOL_OP_FIRST, QKV_POOL_OP_MAX, QKV_POOL_OP_LAST, QKV_POOL_OP_ENDS};
    for (int i = 0; i < 5; i++) {
        grad_case g;
        grad_start(&g);
        grad_input(&g, "in", GRAD_ROWS * 6);
        grad_ready(&g, GRAD_SEQUENCES, 6);
        g.user = &kinds[i];
        grad_check(&g, run_pooling);
        grad_end(&g);
    }
}

/* ---- loss: the sum of the losses, so dout is a column of ones ---- */

static void run_loss(grad_case *g, bool backward) {
    static const int32_t target[5] = {2, 0, 6, 3, 3};
    const double *smoothing = g->user;
    qkv_mat none = {0}, d = grad_mat(g->in[0].grad, 5, 7);
    GRAD_OK(qkv_cross_entropy(&g->x, grad_mat(g->in[0].value, 5, 7), target, *smoothing, 0.5, g->out.p, backward ? d : none));
}

static void case_loss(void) {
    static const double smoothing[] = {0, 0.2};
    for (int i = 0; i < 2; i++) {
        grad_case g;
        grad_start(&g);
        grad_input(&g, "logits", 5 * 7);
        grad_ready(&g, 5, 1);
        for (int r = 0; r < 5; r++) g.dout.p[r] = (real)0.5;
        g.user = &smoothing[i];
        grad_check(&g, run_loss);
        grad_end(&g);
    }
}

/* ---- sigmoid loss, and the weights of classes for both losses ---- */

static const real CLASS_WEIGHT[7] = {0.5, 1, 2, 1, 1.5, 3, 0.25};

typedef struct loss_kind {
    bool sigmoid, weighted;
    double smoothing;
} loss_kind;

static void run_loss_sigmoid(grad_case *g, bool backward) {
    static const int64_t at[6] = {0, 2, 2, 3, 6, 7};
    static const int32_t labels[7] = {0, 2, 6, 0, 3, 5, 4}, target[5] = {2, 0, 6, 3, 5};
    const loss_kind *k = g->user;
    const real *weight = k->weighted ? CLASS_WEIGHT : NULL;
    qkv_mat none = {0}, d = grad_mat(g->in[0].grad, 5, 7), logits = grad_mat(g->in[0].value, 5, 7);
    if (k->sigmoid) {
        GRAD_OK(qkv_sigmoid_loss(&g->x, logits, at, labels, weight, k->smoothing, 0.5, g->out.p, backward ? d : none));
        return;
    }
    real spare[5 * 7];
    qkv_mat gradient = backward ? d : grad_mat(spare, 5, 7);
    GRAD_OK(qkv_cross_entropy(&g->x, logits, target, k->smoothing, 0.5, g->out.p, gradient));
    GRAD_OK(qkv_loss_weigh(&g->x, target, CLASS_WEIGHT, g->out.p, gradient));
}

static void case_loss_sigmoid(void) {
    static const loss_kind kinds[] = {{true, false, 0}, {true, false, 0.2}, {true, true, 0}, {true, true, 0.3}, {false, true, 0.1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        grad_case g;
        grad_start(&g);
        grad_input(&g, "logits", 5 * 7);
        grad_ready(&g, 5, 1);
        for (int r = 0; r < 5; r++) g.dout.p[r] = (real)0.5;
        g.user = &kinds[i];
        grad_check(&g, run_loss_sigmoid);
        grad_end(&g);
    }
}

/* ---- optimizer: the gradient of the norm of a vector is the vector over its norm; AdamW is held to its formula ---- */

static void case_optimizer(void) {
    grad_case g;
    grad_start(&g);
    int64_t a, b;
    NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "a", 3, 7, (qkv_param_kind){.decay = true}, &a));
    NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "b", 1, 5, (qkv_param_kind){.embedding = true}, &b));
    grad_ready(&g, 1, 1);
    double norm, expected = 0;
    memset(g.grads, 0, (size_t)g.reg.size * sizeof(real));
    for (int64_t i = 0; i < 2; i++) grad_random(g.grads + g.reg.params[i].offset, g.reg.params[i].rows * g.reg.params[i].cols, (uint64_t)i, 1);
    for (int64_t i = 0; i < g.reg.size; i++) expected += (double)g.grads[i] * (double)g.grads[i];
    NET_OK(&g.ctx, qkv_gradient_norm(&g.x, g.grads, &norm));
    assert_true(fabs(norm - sqrt(expected)) < 1e-12 * norm);
    real *m = calloc((size_t)g.reg.size, sizeof *m), *v = calloc((size_t)g.reg.size, sizeof *v);
    for (int t = 1; t <= 3; t++) {
        real before[64], m0[64], v0[64];
        memcpy(before, g.weights, (size_t)g.reg.size * sizeof(real));
        memcpy(m0, m, sizeof(real) * (size_t)g.reg.size);
        memcpy(v0, v, sizeof(real) * (size_t)g.reg.size);
        qkv_adamw_options o = {.lr = 0.01, .embedding_lr = 0.05, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .decay = 0.1, .grad_scale = 0.5, .step = t};
        NET_OK(&g.ctx, qkv_adamw_update(&g.x, &o, g.weights, g.grads, m, v));
        for (int64_t i = 0; i < 2; i++) {
            const qkv_param *p = &g.reg.params[i];
            double lr = i == 0 ? 0.01 : 0.05, decay = i == 0 ? 0.1 : 0;
            for (int64_t e = p->offset; e < p->offset + p->rows * p->cols; e++) {
                double grad = 0.5 * (double)g.grads[e], m1 = 0.9 * (double)m0[e] + 0.1 * grad, v1 = 0.98 * (double)v0[e] + 0.02 * grad * grad;
                double step = lr * (m1 / (1 - pow(0.9, t))) / (sqrt(v1 / (1 - pow(0.98, t))) + 1e-8);
                double next = (double)before[e] - lr * decay * (double)before[e] - step;
                assert_true(fabs((double)g.weights[e] - next) < 1e-12);
            }
        }
    }
    free(m);
    free(v);
    grad_end(&g);
}

/* ---- recurrence ---- */

typedef struct walk_case {
    qkv_recurrence r;
    bool ends; /* h and c before the first step are inputs 1 and 2; the last c are outputs behind the rows */
} walk_case;

static qkv_recur_ends ends_of(grad_case *g, const walk_case *w) {
    const int64_t out = w->r.directions * w->r.units;
    qkv_recur_ends e = {.hidden = grad_mat(g->in[1].value, GRAD_SEQUENCES, out), .dhidden = grad_mat(g->in[1].grad, GRAD_SEQUENCES, out)};
    if (w->r.cell != QKV_RECUR_LSTM) return e;
    e.cells = grad_mat(g->in[2].value, GRAD_SEQUENCES, out);
    e.dcells = grad_mat(g->in[2].grad, GRAD_SEQUENCES, out);
    e.dlast = qkv_mat_rows(g->dout, GRAD_ROWS, GRAD_SEQUENCES);
    return e;
}

/* The last c of each sequence: of the direction back it is in the first row. Of a sequence without rows nothing. */
static void take_last(grad_case *g, const walk_case *w, const qkv_batch *batch, qkv_mat cells) {
    const int64_t d = w->r.units;
    for (int64_t s = 0; s < batch->n_seq; s++)
        for (int64_t c = 0; c < cells.cols && batch->offset[s + 1] > batch->offset[s]; c++)
            g->out.p[(GRAD_ROWS + s) * g->out.ld + c] = cells.p[(c < d ? batch->offset[s + 1] - 1 : batch->offset[s]) * cells.ld + c];
}

static void run_recurrence(grad_case *g, bool backward) {
    const walk_case *w = g->user;
    const qkv_recurrence *r = &w->r;
    const int64_t wide = qkv_recurrence_gates(r), cells_wide = qkv_recurrence_cells(r), out = r->directions * r->units;
    qkv_batch batch = grad_batch();
    qkv_mat gates, cells, dhidden;
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, wide, &gates));
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, cells_wide, &cells));
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, out, &dhidden));
    memcpy(gates.p, g->in[0].value, (size_t)(GRAD_ROWS * wide) * sizeof(real));
    const qkv_mat hidden = qkv_mat_rows(g->out, 0, GRAD_ROWS), dout = qkv_mat_rows(g->dout, 0, GRAD_ROWS);
    const qkv_recur_ends given = w->ends ? ends_of(g, w) : (qkv_recur_ends){0}, *ends = w->ends ? &given : NULL;
    GRAD_OK(qkv_recurrence_forward(&g->x, r, &batch, ends, gates, hidden, cells));
    if (w->ends && r->cell == QKV_RECUR_LSTM) take_last(g, w, &batch, cells);
    if (!backward) return;
    GRAD_OK(qkv_recurrence_backward(&g->x, r, &batch, ends, dout, gates, hidden, cells));
    memcpy(g->in[0].grad, gates.p, (size_t)(GRAD_ROWS * wide) * sizeof(real));
}

static void one_recurrence(qkv_recur_cell cell, int64_t units, int directions, bool peepholes, bool ends) {
    grad_case g;
    grad_start(&g);
    walk_case w = {.r = {cell, units, directions, {{-1, -1, -1}, {-1, -1, -1}}}, .ends = ends};
    const bool apart = cell == QKV_RECUR_GRU_BEFORE, lstm = cell == QKV_RECUR_LSTM;
    const int64_t gates = apart ? 2 : qkv_recur_gates(cell);
    for (int i = 0; i < directions; i++) {
        qkv_recur_params *of = &w.r.of[i];
        const qkv_param_kind matrix = {.matrix = true}, vector = {.vector = true};
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "weight", gates * units, units, matrix, &of->weight));
        if (apart) NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "candidate", units, units, matrix, &of->candidate));
        if (cell == QKV_RECUR_GRU || peepholes)
            NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "vector", 1, peepholes ? 3 * units : units, vector, &of->vector));
    }
    grad_input(&g, "what comes from below", GRAD_ROWS * qkv_recurrence_gates(&w.r));
    if (ends) grad_input(&g, "h before the first step", GRAD_SEQUENCES * directions * units);
    if (ends && lstm) grad_input(&g, "c before the first step", GRAD_SEQUENCES * directions * units);
    grad_ready(&g, GRAD_ROWS + (ends && lstm ? GRAD_SEQUENCES : 0), directions * units);
    g.user = &w;
    grad_check(&g, run_recurrence);
    grad_end(&g);
}

static void case_recurrence(void) {
    for (int cell = 0; cell <= QKV_RECUR_GRU_BEFORE; cell++)
        for (int directions = 1; directions <= 2; directions++)
            for (int peepholes = 0; peepholes <= (cell == QKV_RECUR_LSTM); peepholes++) {
                one_recurrence((qkv_recur_cell)cell, 3, directions, peepholes, directions == 2);
                one_recurrence((qkv_recur_cell)cell, 18, directions, peepholes, directions == 1);
                one_recurrence((qkv_recur_cell)cell, 18, directions, peepholes, directions == 2);
            }
}

#endif
