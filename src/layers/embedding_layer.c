#include "layers/embedding_layer.h"

#include <math.h>

#include "ops/embedding.h"
#include "ops/reg.h"
#include "ops/residual.h"

qkv_status qkv_embedding_layer_declare(qkv_embedding_layer *l, qkv_reg *reg, int64_t vocab, int64_t dim, int64_t max_length,
                                       qkv_position position, double dropout) {
    /* A small start and a rate of its own, 5 to 10 times the dense one, is what matters most for small data sets. */
    qkv_param_kind table = {.std = 0.01, .embedding = true};
    bool sinusoidal = position == QKV_POSITION_SINUSOIDAL;
    *l = (qkv_embedding_layer){.position = -1, .sinusoidal = sinusoidal, .max_length = max_length,
                               .scale = sinusoidal ? sqrt((double)dim) : 1, .dropout = dropout};
    QKV_TRY(qkv_reg_add(reg, "", "embedding.weight", vocab, dim, table, &l->weight));
    if (position == QKV_POSITION_LEARNED) QKV_TRY(qkv_reg_add(reg, "", "position.weight", max_length, dim, table, &l->position));
    return QKV_OK;
}

static int64_t longest(const qkv_batch *batch) {
    int64_t most = 0;
    for (int64_t s = 0; s < batch->n_seq; s++)
        if (batch->offset[s + 1] - batch->offset[s] > most) most = batch->offset[s + 1] - batch->offset[s];
    return most;
}

static qkv_status add_positions(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat out) {
    int32_t *positions;
    qkv_mat rows, table;
    QKV_TRY(qkv_positions(x, batch, l->max_length, &positions));
    if (l->sinusoidal) {
        QKV_TRY(qkv_temp(x, longest(batch), out.cols, &table));
        QKV_TRY(qkv_sinusoidal(x, table));
    } else {
        table = qkv_embedding_table(x, l->position);
    }
    QKV_TRY(qkv_temp(x, out.rows, out.cols, &rows));
    QKV_TRY(qkv_embedding_forward(x, "position table", table, positions, 1, rows));
    return qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, rows, 1, out);
}

qkv_status qkv_embedding_layer_forward(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat out) {
    size_t mark = qkv_exec_mark(x);
    QKV_TRY(qkv_embedding_forward(x, "token table", qkv_embedding_table(x, l->weight), batch->ids, l->scale, out));
    if (l->position >= 0 || l->sinusoidal) QKV_TRY(add_positions(x, l, batch, out));
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
    QKV_TRY(qkv_embedding_backward(x, qkv_embedding_grad(x, l->weight), batch->ids, l->scale, drows));
    if (l->position >= 0) {
        int32_t *positions;
        QKV_TRY(qkv_positions(x, batch, l->max_length, &positions));
        QKV_TRY(qkv_embedding_backward(x, qkv_embedding_grad(x, l->position), positions, 1, drows));
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}
