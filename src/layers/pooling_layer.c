#include "layers/pooling_layer.h"

#include <math.h>

#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/pooling.h"
#include "ops/reg.h"
#include "ops/residual.h"

qkv_status qkv_pooling_layer_declare(qkv_pooling_layer *l, qkv_reg *reg, const char *prefix, qkv_pooling kind, int64_t dim, int64_t heads) {
    qkv_param_kind query = {.vector = true}; /* 0: attention pooling starts as the mean */
    *l = (qkv_pooling_layer){.kind = kind, .heads = heads, .query = -1};
    if (kind == QKV_POOL_ATTENTION) QKV_TRY(qkv_reg_add(reg, prefix, "pool.query", 1, dim, query, &l->query));
    return QKV_OK;
}

static qkv_attention_shape shape_of(const qkv_pooling_layer *l, const qkv_batch *batch, int64_t dim) {
    int64_t width = dim / l->heads;
    return (qkv_attention_shape){.sequences = batch->n_seq, .k_offset = batch->offset, .heads = l->heads, .kv_heads = l->heads, .dim = width,
                                 .value_dim = width, .scale = (real)(1 / sqrt((double)width)), .left = -1, .right = -1};
}

static qkv_pool op_kind(const qkv_pooling_layer *l) {
    switch (l->kind) {
    case QKV_POOL_FIRST: return QKV_POOL_OP_FIRST;
    case QKV_POOL_MAX: return QKV_POOL_OP_MAX;
    case QKV_POOL_LAST: return l->both ? QKV_POOL_OP_ENDS : QKV_POOL_OP_LAST;
    default: return QKV_POOL_OP_MEAN;
    }
}

/* The query row, the same for every sequence: a row stride of 0. */
static qkv_heads query_of(const qkv_exec *x, const qkv_pooling_layer *l, int64_t width) {
    return (qkv_heads){(real *)qkv_weight(x, l->query), 0, width};
}

qkv_status qkv_pooling_layer_forward(qkv_exec *x, const qkv_pooling_layer *l, const qkv_batch *batch, qkv_mat in, qkv_mat out,
                                     qkv_pooling_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    *saved = (qkv_pooling_saved){.in = in, .out = out};
    if (l->kind == QKV_POOL_ATTENTION) {
        qkv_attention_shape shape = shape_of(l, batch, in.cols);
        qkv_heads rows = qkv_heads_of(in, shape.dim);
        if (x->keep) QKV_TRY(qkv_keep(x, l->heads, batch->n_seq, &saved->lse));
        QKV_TRY(qkv_attend_forward(x, &shape, query_of(x, l, shape.dim), rows, rows, qkv_heads_of(out, shape.dim), saved->lse.p));
    } else {
        if (l->kind == QKV_POOL_MAX) QKV_TRY(qkv_keep_array(x, batch->n_seq * in.cols, sizeof(int32_t), &saved->which));
        QKV_TRY(qkv_pool_forward(x, op_kind(l), batch, in, out, saved->which));
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status attention_backward(qkv_exec *x, const qkv_pooling_layer *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                     const qkv_pooling_saved *saved) {
    qkv_attention_shape shape = shape_of(l, batch, din.cols);
    qkv_heads rows = qkv_heads_of(saved->in, shape.dim);
    qkv_mat dquery, dvalue;
    QKV_TRY(qkv_temp(x, batch->n_seq, din.cols, &dquery));
    QKV_TRY(qkv_temp(x, din.rows, din.cols, &dvalue));
    QKV_TRY(qkv_attend_backward(x, &shape, query_of(x, l, shape.dim), rows, rows, qkv_heads_of(saved->out, shape.dim), saved->lse.p,
                                qkv_heads_of(dout, shape.dim), qkv_heads_of(dquery, shape.dim), qkv_heads_of(din, shape.dim),
                                qkv_heads_of(dvalue, shape.dim)));
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, dvalue, 1, din));
    return qkv_column_sum(x, QKV_WORK_POOLING, dquery, qkv_grad(x, l->query));
}

qkv_status qkv_pooling_layer_backward(qkv_exec *x, const qkv_pooling_layer *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                      const qkv_pooling_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    if (l->kind == QKV_POOL_ATTENTION) QKV_TRY(attention_backward(x, l, batch, dout, din, saved));
    else QKV_TRY(qkv_pool_backward(x, op_kind(l), batch, dout, din, saved->which));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
