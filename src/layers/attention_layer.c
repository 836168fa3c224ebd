#include "layers/attention_layer.h"

#include <math.h>
#include <string.h>

#include "ops/attention.h"
#include "ops/attention_watch.h"
#include "ops/head_norm.h"
#include "ops/reg.h"

static qkv_status declare_head_norms(qkv_attention_layer *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape) {
    const qkv_param_kind gain = {.value = 1, .vector = true};
    l->q_norm = l->k_norm = (qkv_norm_op){.gain = -1, .bias = -1, .rms = true, .epsilon = shape->norm_epsilon};
    if (!shape->qk_norm) return QKV_OK;
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.q_norm.weight", 1, shape->head_dim, gain, &l->q_norm.gain));
    return qkv_reg_add(reg, prefix, "attention.k_norm.weight", 1, shape->head_dim, gain, &l->k_norm.gain);
}

qkv_status qkv_attention_layer_declare(qkv_attention_layer *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape,
                                       uint64_t site) {
    int64_t queries = shape->heads * shape->head_dim, width = queries + 2 * shape->kv_heads * shape->head_dim;
    const qkv_block_std spread = qkv_block_spread(shape);
    qkv_param_kind in = {.std = spread.in / sqrt((double)shape->dim), .decay = true, .matrix = true};
    qkv_param_kind out = {.std = spread.out / sqrt((double)queries), .decay = true, .matrix = true};
    in.last_rows = shape->kv_heads * shape->head_dim, in.last_std = spread.value / sqrt((double)shape->dim);
    qkv_param_kind bias = {.vector = true};
    *l = (qkv_attention_layer){.heads = shape->heads,
                               .kv_heads = shape->kv_heads,
                               .head_dim = shape->head_dim,
                               .span = shape->span,
                               .pattern = shape->pattern,
                               .global_lists = shape->global_lists,
                               .dropout = shape->attention_dropout,
                               .site = site,
                               .qkv = {.bias = -1, .work = QKV_WORK_PROJECTION},
                               .out = {.bias = -1, .work = QKV_WORK_PROJECTION}};
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.qkv.weight", width, shape->dim, in, &l->qkv.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "attention.qkv.bias", 1, width, bias, &l->qkv.bias));
    l->out.weight = -1;
    l->scale = shape->unscaled ? 1 : (real)(1 / sqrt((double)shape->head_dim));
    l->softcap = (real)shape->softcap;
    QKV_TRY(declare_head_norms(l, reg, prefix, shape));
    l->relative = shape->relative;
    QKV_TRY(qkv_relative_declare_part(l->relative, reg, prefix, &l->position));
    l->position.rope = shape->rope;
    QKV_TRY(qkv_global_projection_declare(&l->global, reg, prefix, shape));
    if (shape->no_output) return QKV_OK;
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.out.weight", shape->dim, queries, out, &l->out.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "attention.out.bias", 1, shape->dim, bias, &l->out.bias));
    return QKV_OK;
}

static qkv_attention_shape shape_of(const qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch) {
    qkv_attention_shape s = {.sequences = batch->n_seq,
                             .q_offset = batch->offset,
                             .k_offset = batch->offset,
                             .heads = l->heads,
                             .kv_heads = l->kv_heads,
                             .dim = l->head_dim,
                             .value_dim = l->head_dim,
                             .scale = l->scale,
                             .softcap = l->softcap,
                             .left = l->span.left,
                             .right = l->span.right,
                             .pattern = l->pattern,
                             .dropout = qkv_exec_dropout(x, l->dropout, l->site, batch->row_key)};
    if (l->global_lists) {
        s.pattern.global_first = s.pattern.global_every = 0;
        s.pattern.global_offset = batch->global_offset;
        s.pattern.global_at = batch->global_at;
    }
    qkv_relative_apply(x, l->relative, &l->position, &s);
    return s;
}

/* What attention sees of a fused matrix. */
typedef struct parts {
    qkv_heads q, k, v;
    qkv_mat q_in, k_in, q_rstd, k_rstd; /* where there are norms: what they see, and what of it their backward pass asks for */
} parts;

/* The three column ranges. */
static void heads_of(const qkv_attention_layer *l, qkv_mat qkv, parts *p) {
    const int64_t queries = l->heads * l->head_dim, keys = l->kv_heads * l->head_dim;
    *p = (parts){.q_in = qkv_mat_cols(qkv, 0, queries), .k_in = qkv_mat_cols(qkv, queries, keys)};
    p->q = qkv_heads_of(p->q_in, l->head_dim);
    p->k = qkv_heads_of(p->k_in, l->head_dim);
    p->v = qkv_heads_of(qkv_mat_cols(qkv, queries + keys, keys), l->head_dim);
}

static qkv_status norm_heads(qkv_exec *x, const qkv_attention_layer *l, const qkv_norm_op *n, int64_t heads, qkv_mat in, qkv_mat *rstd,
                             qkv_heads *out) {
    qkv_mat normed;
    QKV_TRY(qkv_temp(x, in.rows, in.cols, &normed));
    QKV_TRY(qkv_temp(x, heads, in.rows, rstd));
    *out = qkv_heads_of(normed, l->head_dim);
    return qkv_head_norm_forward(x, n, heads, in, normed, *rstd);
}

/* The same with queries and keys normalised, in scratch: it is done again in the backward pass instead of kept. */
static qkv_status parts_of(qkv_exec *x, const qkv_attention_layer *l, qkv_mat qkv, parts *p) {
    heads_of(l, qkv, p);
    if (l->q_norm.gain < 0) return QKV_OK;
    QKV_TRY(norm_heads(x, l, &l->q_norm, l->heads, p->q_in, &p->q_rstd, &p->q));
    return norm_heads(x, l, &l->k_norm, l->kv_heads, p->k_in, &p->k_rstd, &p->k);
}

/* From the gradients of what attention saw to those of the fused matrix, in place. */
static qkv_status parts_backward(qkv_exec *x, const qkv_attention_layer *l, const parts *p, const parts *d) {
    if (l->q_norm.gain < 0) return QKV_OK;
    QKV_TRY(qkv_head_norm_backward(x, &l->q_norm, l->heads, p->q_in, p->q_rstd, d->q_in, d->q_in));
    return qkv_head_norm_backward(x, &l->k_norm, l->kv_heads, p->k_in, p->k_rstd, d->k_in, d->k_in);
}

qkv_status qkv_attention_layer_forward_then(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat in, qkv_mat out,
                                            qkv_attention_saved *saved, const qkv_linear_then *then) {
    size_t mark = qkv_exec_mark(x);
    if (l->out.weight < 0 && (then || out.cols != l->heads * l->head_dim))
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention without an output projection gives %lld columns and nothing more",
                        (long long)(l->heads * l->head_dim));
    *saved = (qkv_attention_saved){.in = in};
    saved->again = qkv_exec_drops(x, QKV_AGAIN_ATTENTION);
    QKV_TRY((saved->again ? qkv_temp : qkv_keep)(x, in.rows, (l->heads + 2 * l->kv_heads) * l->head_dim, &saved->qkv));
    if (l->out.weight < 0) saved->mixed = out;
    else QKV_TRY(qkv_keep(x, in.rows, l->heads * l->head_dim, &saved->mixed));
    if (x->keep) QKV_TRY(qkv_keep(x, l->heads, in.rows, &saved->lse));
    QKV_TRY(qkv_linear_forward(x, l->qkv, in, saved->qkv));
    qkv_attention_shape shape = shape_of(x, l, batch);
    parts p;
    qkv_apart apart;
    QKV_TRY(parts_of(x, l, saved->qkv, &p));
    if (l->global.queries.weight >= 0) {
        QKV_TRY(qkv_global_projection_forward(x, &l->global, &shape, in, !saved->again, &saved->global));
        apart = qkv_global_projection_apart(&l->global, &saved->global, NULL);
        shape.apart = &apart;
    }
    QKV_TRY(qkv_attend_forward(x, &shape, p.q, p.k, p.v, qkv_heads_of(saved->mixed, l->head_dim), saved->lse.p));
    if (x->watch) QKV_TRY(qkv_attend_watch(x, x->watch, &shape, p.q, p.k, p.v));
    if (l->out.weight >= 0) QKV_TRY(qkv_linear_forward_then(x, l->out, saved->mixed, out, then));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* What belongs to global tokens apart, in the backward pass: what forward had, and room for the gradients. */
typedef struct apart_parts {
    qkv_global_saved saved, d;
    qkv_apart heads;
} apart_parts;

static qkv_status apart_before(qkv_exec *x, const qkv_attention_layer *l, const qkv_attention_saved *saved, qkv_attention_shape *shape, apart_parts *a) {
    if (l->global.queries.weight < 0) return QKV_OK;
    a->saved = saved->global;
    if (saved->again) {
        const qkv_pass pass = qkv_exec_pass(x, QKV_PASS_RECOMPUTE);
        QKV_TRY(qkv_global_projection_forward(x, &l->global, shape, saved->in, false, &a->saved));
        x->pass = pass;
    }
    QKV_TRY(qkv_temp(x, a->saved.queries.rows, a->saved.queries.cols, &a->d.queries));
    QKV_TRY(qkv_temp(x, a->saved.keys.rows, a->saved.keys.cols, &a->d.keys));
    a->heads = qkv_global_projection_apart(&l->global, &a->saved, &a->d);
    shape->apart = &a->heads;
    return QKV_OK;
}

qkv_status qkv_attention_layer_backward(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                        const qkv_attention_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat dmixed = dout, dqkv, qkv = saved->qkv;
    if (l->out.weight >= 0) QKV_TRY(qkv_temp(x, dout.rows, saved->mixed.cols, &dmixed));
    QKV_TRY(qkv_temp(x, dout.rows, saved->qkv.cols, &dqkv));
    if (l->out.weight >= 0) QKV_TRY(qkv_linear_backward(x, l->out, saved->mixed, dout, &dmixed));
    if (saved->again) {
        QKV_TRY(qkv_temp(x, dout.rows, qkv.cols, &qkv));
        const qkv_pass pass = qkv_exec_pass(x, QKV_PASS_RECOMPUTE);
        QKV_TRY(qkv_linear_forward(x, l->qkv, saved->in, qkv));
        x->pass = pass;
    }
    qkv_attention_shape shape = shape_of(x, l, batch);
    parts p, d;
    apart_parts global = {0};
    QKV_TRY(apart_before(x, l, saved, &shape, &global));
    QKV_TRY(parts_of(x, l, qkv, &p));
    heads_of(l, dqkv, &d);
    QKV_TRY(qkv_relative_before(x, l->relative, &l->position, &shape));
    QKV_TRY(qkv_attend_backward(x, &shape, p.q, p.k, p.v, qkv_heads_of(saved->mixed, l->head_dim), saved->lse.p,
                                qkv_heads_of(dmixed, l->head_dim), d.q, d.k, d.v));
    QKV_TRY(qkv_relative_after(x, l->relative, &l->position, &shape));
    QKV_TRY(parts_backward(x, l, &p, &d));
    QKV_TRY(qkv_linear_backward(x, l->qkv, saved->in, dqkv, &din));
    if (shape.apart) QKV_TRY(qkv_global_projection_backward(x, &l->global, &shape, saved->in, &global.saved, &global.d, din));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* Of a segment of n rows at `first` to its place among those of all `rows`. */
static void place(const real *of, int64_t n, int64_t first, int64_t rows, real *weights) {
    for (int64_t i = 0; i < n; i++) memcpy(weights + (first + i) * rows + first, of + i * n, (size_t)n * sizeof *weights);
}

static qkv_status weights_of(qkv_exec *x, const qkv_attention_shape *s, const qkv_batch *batch, qkv_heads q, qkv_heads k, int64_t head,
                             real *weights) {
    const int64_t rows = batch->n_seq > 0 ? batch->offset[batch->n_seq] : 0;
    int64_t longest = 0;
    real *of = weights;
    for (int64_t i = 0; i < batch->n_seq; i++)
        if (batch->offset[i + 1] - batch->offset[i] > longest) longest = batch->offset[i + 1] - batch->offset[i];
    if (batch->n_seq > 1) {
        QKV_TRY(qkv_temp_array(x, longest * longest, sizeof *of, &of));
        if (!x->plan) memset(weights, 0, (size_t)(rows * rows) * sizeof *weights);
    }
    for (int64_t i = 0; i < batch->n_seq; i++) {
        QKV_TRY(qkv_attend_weights(x, s, q, k, i, head, of));
        if (of != weights && !x->plan) place(of, batch->offset[i + 1] - batch->offset[i], batch->offset[i], rows, weights);
    }
    return QKV_OK;
}

qkv_status qkv_attention_layer_weights(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat in, int64_t head,
                                       real *weights) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat qkv;
    QKV_TRY(qkv_temp(x, in.rows, (l->heads + 2 * l->kv_heads) * l->head_dim, &qkv));
    QKV_TRY(qkv_linear_forward(x, l->qkv, in, qkv));
    qkv_attention_shape shape = shape_of(x, l, batch);
    parts p;
    qkv_global_saved global;
    qkv_apart apart;
    if (l->global.queries.weight >= 0) {
        QKV_TRY(qkv_global_projection_forward(x, &l->global, &shape, in, false, &global));
        apart = qkv_global_projection_apart(&l->global, &global, NULL);
        shape.apart = &apart;
    }
    QKV_TRY(parts_of(x, l, qkv, &p));
    QKV_TRY(weights_of(x, &shape, batch, p.q, p.k, head, weights));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
