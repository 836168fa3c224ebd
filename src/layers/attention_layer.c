#include "layers/attention_layer.h"

#include <math.h>

#include "ops/attention.h"
#include "ops/reg.h"

qkv_status qkv_attention_layer_declare(qkv_attention_layer *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape,
                                       uint64_t site) {
    int64_t queries = shape->heads * shape->head_dim, width = queries + 2 * shape->kv_heads * shape->head_dim;
    double depth = sqrt(2.0 * (double)shape->layers);
    qkv_param_kind in = {.std = 1 / sqrt((double)shape->dim), .decay = true, .matrix = true};
    qkv_param_kind out = {.std = 1 / sqrt((double)queries) / depth, .decay = true, .matrix = true};
    qkv_param_kind bias = {.vector = true};
    *l = (qkv_attention_layer){.heads = shape->heads, .kv_heads = shape->kv_heads, .head_dim = shape->head_dim, .span = shape->span,
                               .dropout = shape->attention_dropout, .site = site, .qkv = {.bias = -1, .work = QKV_WORK_PROJECTION},
                               .out = {.bias = -1, .work = QKV_WORK_PROJECTION}};
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.qkv.weight", width, shape->dim, in, &l->qkv.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "attention.qkv.bias", 1, width, bias, &l->qkv.bias));
    l->out.weight = -1;
    if (shape->no_output) return QKV_OK;
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.out.weight", shape->dim, queries, out, &l->out.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "attention.out.bias", 1, shape->dim, bias, &l->out.bias));
    return QKV_OK;
}

static qkv_attention_shape shape_of(const qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch) {
    return (qkv_attention_shape){.sequences = batch->n_seq, .q_offset = batch->offset, .k_offset = batch->offset, .heads = l->heads,
                                 .kv_heads = l->kv_heads, .dim = l->head_dim, .value_dim = l->head_dim,
                                 .scale = (real)(1 / sqrt((double)l->head_dim)), .left = l->span.left, .right = l->span.right,
                                 .dropout = qkv_exec_dropout(x, l->dropout, l->site, batch->row_key)};
}

/* The three column ranges of a fused matrix. */
static void heads_of(const qkv_attention_layer *l, qkv_mat qkv, qkv_heads *q, qkv_heads *k, qkv_heads *v) {
    int64_t queries = l->heads * l->head_dim, keys = l->kv_heads * l->head_dim;
    *q = qkv_heads_of(qkv_mat_cols(qkv, 0, queries), l->head_dim);
    *k = qkv_heads_of(qkv_mat_cols(qkv, queries, keys), l->head_dim);
    *v = qkv_heads_of(qkv_mat_cols(qkv, queries + keys, keys), l->head_dim);
}

qkv_status qkv_attention_layer_forward_then(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat in, qkv_mat out,
                                            qkv_attention_saved *saved, const qkv_linear_then *then) {
    size_t mark = qkv_exec_mark(x);
    if (l->out.weight < 0 && (then || out.cols != l->heads * l->head_dim))
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention without an output projection gives %lld columns and nothing more",
                        (long long)(l->heads * l->head_dim));
    *saved = (qkv_attention_saved){.in = in};
    QKV_TRY(qkv_keep(x, in.rows, (l->heads + 2 * l->kv_heads) * l->head_dim, &saved->qkv));
    if (l->out.weight < 0) saved->mixed = out;
    else QKV_TRY(qkv_keep(x, in.rows, l->heads * l->head_dim, &saved->mixed));
    if (x->keep) QKV_TRY(qkv_keep(x, l->heads, in.rows, &saved->lse));
    QKV_TRY(qkv_linear_forward(x, l->qkv, in, saved->qkv));
    qkv_attention_shape shape = shape_of(x, l, batch);
    qkv_heads q, k, v;
    heads_of(l, saved->qkv, &q, &k, &v);
    QKV_TRY(qkv_attend_forward(x, &shape, q, k, v, qkv_heads_of(saved->mixed, l->head_dim), saved->lse.p));
    if (l->out.weight >= 0) QKV_TRY(qkv_linear_forward_then(x, l->out, saved->mixed, out, then));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attention_layer_backward(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                        const qkv_attention_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat dmixed = dout, dqkv;
    if (l->out.weight >= 0) QKV_TRY(qkv_temp(x, dout.rows, saved->mixed.cols, &dmixed));
    QKV_TRY(qkv_temp(x, dout.rows, saved->qkv.cols, &dqkv));
    if (l->out.weight >= 0) QKV_TRY(qkv_linear_backward(x, l->out, saved->mixed, dout, &dmixed));
    qkv_attention_shape shape = shape_of(x, l, batch);
    qkv_heads q, k, v, dq, dk, dv;
    heads_of(l, saved->qkv, &q, &k, &v);
    heads_of(l, dqkv, &dq, &dk, &dv);
    QKV_TRY(qkv_attend_backward(x, &shape, q, k, v, qkv_heads_of(saved->mixed, l->head_dim), saved->lse.p,
                                qkv_heads_of(dmixed, l->head_dim), dq, dk, dv));
    QKV_TRY(qkv_linear_backward(x, l->qkv, saved->in, dqkv, &din));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attention_layer_weights(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat in, int64_t head,
                                       real *weights) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat qkv;
    QKV_TRY(qkv_temp(x, in.rows, (l->heads + 2 * l->kv_heads) * l->head_dim, &qkv));
    QKV_TRY(qkv_linear_forward(x, l->qkv, in, qkv));
    qkv_attention_shape shape = shape_of(x, l, batch);
    qkv_heads q, k, v;
    heads_of(l, qkv, &q, &k, &v);
    QKV_TRY(qkv_attend_weights(x, &shape, q, k, 0, head, weights));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
