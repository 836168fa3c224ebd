#include "layers/embedding_layer.h"

#include <math.h>

#include "ops/embedding.h"
#include "ops/reg.h"
#include "ops/residual.h"

qkv_status qkv_embedding_layer_declare(qkv_embedding_layer *l, qkv_reg *reg, int64_t vocab, int64_t dim,
                                       const qkv_position_shape *position, double dropout) {
    /* A small start and a rate of its own, 5 to 10 times the dense one, is what matters most for small data sets. */
    const qkv_param_kind table = {.std = 0.01, .embedding = true};
    *l = (qkv_embedding_layer){.scale = position->kind == QKV_POSITION_SINUSOIDAL ? sqrt((double)dim) : 1, .dropout = dropout};
    QKV_TRY(qkv_reg_add(reg, "", "embedding.weight", vocab, dim, table, &l->weight));
    return qkv_absolute_declare(&l->position, reg, "", dim, position);
}

qkv_status qkv_embedding_layer_declare_positions(qkv_embedding_layer *l, qkv_reg *reg, const char *prefix, int64_t dim,
                                                 const qkv_position_shape *position) {
    *l = (qkv_embedding_layer){.weight = -1};
    return qkv_absolute_declare(&l->position, reg, prefix, dim, position);
}

qkv_status qkv_embedding_layer_forward(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat out) {
    size_t mark = qkv_exec_mark(x);
    if (l->weight >= 0) QKV_TRY(qkv_embedding_forward(x, "token table", qkv_embedding_table(x, l->weight), batch->ids, l->scale, out));
    QKV_TRY(qkv_absolute_forward(x, &l->position, batch, out));
    qkv_dropout d = qkv_exec_dropout(x, l->dropout, QKV_SITE_EMBEDDING, batch->row_key);
    if (d.p > 0) QKV_TRY(qkv_residual(x, NULL, out, out, d));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_embedding_layer_backward(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat dout) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat drows = dout;
    qkv_dropout d = qkv_exec_dropout(x, l->dropout, QKV_SITE_EMBEDDING, batch->row_key);
    if (d.p > 0) {
        QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &drows));
        QKV_TRY(qkv_residual(x, NULL, dout, drows, d));
    }
    if (l->weight >= 0) QKV_TRY(qkv_embedding_backward(x, qkv_embedding_grad(x, l->weight), batch->ids, l->scale, drows));
    QKV_TRY(qkv_absolute_backward(x, &l->position, batch, drows));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
