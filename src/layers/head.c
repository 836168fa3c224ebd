#include "layers/head.h"

#include "ops/reg.h"
#include "ops/residual.h"

qkv_status qkv_head_declare(qkv_head *l, qkv_reg *reg, int64_t dim, int64_t classes, double dropout) {
    qkv_param_kind weight = {.std = 0.02, .decay = true, .matrix = true}, bias = {.vector = true};
    *l = (qkv_head){.dropout = dropout};
    QKV_TRY(qkv_reg_add(reg, "", "head.weight", classes, dim, weight, &l->linear.weight));
    return qkv_reg_add(reg, "", "head.bias", 1, classes, bias, &l->linear.bias);
}

static qkv_dropout drop(const qkv_exec *x, const qkv_head *l, const qkv_batch *batch) {
    return qkv_exec_dropout(x, l->dropout, QKV_SITE_HEAD, batch->seq_key);
}

qkv_status qkv_head_forward(qkv_exec *x, const qkv_head *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_head_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    qkv_dropout d = drop(x, l, batch);
    saved->dropped = in;
    if (d.p > 0) {
        QKV_TRY(qkv_keep(x, in.rows, in.cols, &saved->dropped));
        QKV_TRY(qkv_residual(x, NULL, in, saved->dropped, d));
    }
    QKV_TRY(qkv_linear_forward(x, l->linear, saved->dropped, out));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_head_backward(qkv_exec *x, const qkv_head *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const qkv_head_saved *saved) {
    QKV_TRY(qkv_linear_backward(x, l->linear, saved->dropped, dout, &din));
    qkv_dropout d = drop(x, l, batch);
    return d.p > 0 ? qkv_residual(x, NULL, din, din, d) : QKV_OK;
}
