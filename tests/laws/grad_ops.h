/* Gradient cases of the ops, one function case_<name> for each name of QKV_OP_LIST. */
#ifndef QKV_TESTS_LAWS_GRAD_OPS_H
#define QKV_TESTS_LAWS_GRAD_OPS_H

#include "grad.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/loss_sigmoid.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/pooling.h"
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
    qkv_heads q = {g->in[0].value, s->heads * s->dim, s->dim}, k = {g->in[1].value, s->kv_heads * s->dim, s->dim};
    qkv_heads v = {g->in[2].value, s->kv_heads * s->value_dim, s->value_dim}, o = qkv_heads_of(g->out, s->value_dim);
    qkv_mat lse;
    GRAD_OK(qkv_keep(&g->x, s->heads, u->q_rows, &lse));
    GRAD_OK(qkv_attend_forward(&g->x, s, q, k, v, o, lse.p));
    if (!backward) return;
    qkv_heads dq = {g->in[0].grad, q.row, q.head}, dk = {g->in[1].grad, k.row, k.head}, dv = {g->in[2].grad, v.row, v.head};
    if (s->bias) shape.bias_grad = g->in[3].grad;
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
        grad_ready(&g, u.q_rows, s.heads * s.value_dim);
        g.user = &u;
        grad_check(&g, run_attention);
        grad_end(&g);
    }
}

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
    for (int interleaved = 0; interleaved < 2; interleaved++)
        one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 5, .value_dim = 3, .left = -1, .right = 1, .rope_cos = cosine,
                                            .rope_sin = sine, .rope_dim = 4, .rope_offset = 5, .rope_interleaved = interleaved != 0});
    one_attention((qkv_attention_shape){.heads = 2, .kv_heads = 2, .dim = 3, .value_dim = 5, .left = -1, .right = -1});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 4, .value_dim = 4, .left = -1, .right = 0});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 1, .dim = 3, .value_dim = 2, .left = 1, .right = 1, .softcap = 2});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 4, .dim = 2, .value_dim = 3, .left = 2, .right = -1, .alibi = slopes});
    one_attention((qkv_attention_shape){.heads = 4, .kv_heads = 2, .dim = 3, .value_dim = 3, .left = -1, .right = -1, .dropout = {.p = (real)0.3, .key = 9}});
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
    static const qkv_pool kinds[] = {QKV_POOL_OP_MEAN, QKV_POOL_OP_FIRST, QKV_POOL_OP_MAX};
    for (int i = 0; i < 3; i++) {
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

static void run_recurrence(grad_case *g, bool backward) {
    const qkv_recurrence *r = g->user;
    const int64_t wide = qkv_recurrence_gates(r), cells_wide = qkv_recurrence_cells(r), out = r->directions * r->units;
    qkv_batch batch = grad_batch();
    qkv_mat gates, cells, dhidden;
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, wide, &gates));
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, cells_wide, &cells));
    GRAD_OK(qkv_keep(&g->x, GRAD_ROWS, out, &dhidden));
    memcpy(gates.p, g->in[0].value, (size_t)(GRAD_ROWS * wide) * sizeof(real));
    GRAD_OK(qkv_recurrence_forward(&g->x, r, &batch, gates, g->out, cells));
    if (!backward) return;
    GRAD_OK(qkv_recurrence_backward(&g->x, r, &batch, g->dout, gates, g->out, cells));
    memcpy(g->in[0].grad, gates.p, (size_t)(GRAD_ROWS * wide) * sizeof(real));
}

static void one_recurrence(qkv_recur_cell cell, int64_t units, int directions, bool peepholes) {
    grad_case g;
    grad_start(&g);
    qkv_recurrence r = {cell, units, directions, {{-1, -1, -1}, {-1, -1, -1}}};
    const bool apart = cell == QKV_RECUR_GRU_BEFORE;
    const int64_t gates = apart ? 2 : qkv_recur_gates(cell);
    for (int i = 0; i < directions; i++) {
        qkv_recur_params *of = &r.of[i];
        const qkv_param_kind matrix = {.matrix = true}, vector = {.vector = true};
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "weight", gates * units, units, matrix, &of->weight));
        if (apart) NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "candidate", units, units, matrix, &of->candidate));
        if (cell == QKV_RECUR_GRU || peepholes)
            NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "vector", 1, peepholes ? 3 * units : units, vector, &of->vector));
    }
    grad_input(&g, "what comes from below", GRAD_ROWS * qkv_recurrence_gates(&r));
    grad_ready(&g, GRAD_ROWS, directions * units);
    g.user = &r;
    grad_check(&g, run_recurrence);
    grad_end(&g);
}

static void case_recurrence(void) {
    for (int cell = 0; cell <= QKV_RECUR_GRU_BEFORE; cell++)
        for (int directions = 1; directions <= 2; directions++)
            for (int peepholes = 0; peepholes <= (cell == QKV_RECUR_LSTM); peepholes++) {
                one_recurrence((qkv_recur_cell)cell, 3, directions, peepholes);
                one_recurrence((qkv_recur_cell)cell, 18, directions, peepholes);
            }
}

#endif
