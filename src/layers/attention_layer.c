#include "layers/attention_layer.h"

#include <math.h>
#include <string.h>

#include "ops/attention.h"
#include "ops/attention_watch.h"
#include "ops/reg.h"

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
    QKV_TRY(qkv_head_norms_declare(&l->norms, reg, prefix, "attention.q_norm.weight", "attention.k_norm.weight", shape));
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

/* The three column ranges of a fused matrix. */
static void heads_of(const qkv_attention_layer *l, qkv_mat qkv, qkv_normed *p, qkv_heads *v) {
    const int64_t queries = l->heads * l->head_dim, keys = l->kv_heads * l->head_dim;
    *p = (qkv_normed){.q_in = qkv_mat_cols(qkv, 0, queries), .k_in = qkv_mat_cols(qkv, queries, keys)};
    *v = qkv_heads_of(qkv_mat_cols(qkv, queries + keys, keys), l->head_dim);
}

/* What attention sees of it, and of global tokens with projections of their own; in the backward pass with room for the gradients. */
typedef struct parts {
    qkv_normed at;
    qkv_heads v;
    qkv_global_seen global;
} parts;

static qkv_status parts_of(qkv_exec *x, const qkv_attention_layer *l, qkv_mat qkv, const qkv_global_saved *global, bool backward,
                           qkv_attention_shape *shape, parts *p) {
    heads_of(l, qkv, &p->at, &p->v);
    QKV_TRY(qkv_head_norms_forward(x, &l->norms, &p->at));
    if (l->global.queries.weight < 0) return QKV_OK;
    QKV_TRY(qkv_global_projection_see(x, &l->global, global, backward, &p->global));
    shape->apart = &p->global.apart;
    return QKV_OK;
}

static qkv_status project_globals(qkv_exec *x, const qkv_attention_layer *l, const qkv_attention_shape *shape, qkv_mat in, bool keep,
                                  qkv_global_saved *saved) {
    return l->global.queries.weight < 0 ? QKV_OK : qkv_global_projection_forward(x, &l->global, shape, in, keep, saved);
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
    QKV_TRY(project_globals(x, l, &shape, in, !saved->again, &saved->global));
    QKV_TRY(parts_of(x, l, saved->qkv, &saved->global, false, &shape, &p));
    QKV_TRY(qkv_attend_forward(x, &shape, p.at.q, p.at.k, p.v, qkv_heads_of(saved->mixed, l->head_dim), saved->lse.p));
    if (x->watch) QKV_TRY(qkv_attend_watch(x, x->watch, &shape, p.at.q, p.at.k, p.v));
    if (l->out.weight >= 0) QKV_TRY(qkv_linear_forward_then(x, l->out, saved->mixed, out, then));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attention_layer_backward(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                        const qkv_attention_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat dmixed = dout, dqkv, qkv = saved->qkv;
    if (l->out.weight >= 0) QKV_TRY(qkv_temp(x, dout.rows, saved->mixed.cols, &dmixed));
    QKV_TRY(qkv_temp(x, dout.rows, saved->qkv.cols, &dqkv));
    if (l->out.weight >= 0) QKV_TRY(qkv_linear_backward(x, l->out, saved->mixed, dout, &dmixed));
    qkv_attention_shape shape = shape_of(x, l, batch);
    qkv_global_saved global = saved->global;
    if (saved->again) {
        QKV_TRY(qkv_temp(x, dout.rows, qkv.cols, &qkv));
        const qkv_pass pass = qkv_exec_pass(x, QKV_PASS_RECOMPUTE);
        QKV_TRY(qkv_linear_forward(x, l->qkv, saved->in, qkv));
        QKV_TRY(project_globals(x, l, &shape, saved->in, false, &global));
        x->pass = pass;
    }
    parts p;
    qkv_normed d;
    qkv_heads dv;
    QKV_TRY(parts_of(x, l, qkv, &global, true, &shape, &p));
    heads_of(l, dqkv, &d, &dv);
    QKV_TRY(qkv_relative_before(x, l->relative, &l->position, &shape));
    QKV_TRY(qkv_attend_backward(x, &shape, p.at.q, p.at.k, p.v, qkv_heads_of(saved->mixed, l->head_dim), saved->lse.p,
                                qkv_heads_of(dmixed, l->head_dim), qkv_heads_of(d.q_in, l->head_dim), qkv_heads_of(d.k_in, l->head_dim), dv));
    QKV_TRY(qkv_relative_after(x, l->relative, &l->position, &shape));
    QKV_TRY(qkv_head_norms_backward(x, &l->norms, &p.at, &d));
    QKV_TRY(qkv_linear_backward(x, l->qkv, saved->in, dqkv, &din));
    if (shape.apart) QKV_TRY(qkv_global_projection_backward(x, &l->global, &shape, saved->in, &p.global, din));
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
    QKV_TRY(project_globals(x, l, &shape, in, false, &global));
    QKV_TRY(parts_of(x, l, qkv, &global, false, &shape, &p));
    QKV_TRY(weights_of(x, &shape, batch, p.at.q, p.at.k, head, weights));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
