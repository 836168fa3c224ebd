#include "layers/ngram_layer.h"

#include "ops/embedding.h"
#include "ops/pooling.h"
#include "ops/reg.h"
#include "ops/residual.h"

/* A mean over many positions moves little when one row does; the gain makes a row of this table learn as fast as it needs to
 * at the rate of the other embeddings. */
#define NGRAM_GAIN 4

qkv_status qkv_ngram_layer_declare(qkv_ngram_layer *l, qkv_reg *reg, int64_t orders, int64_t vocab, int64_t buckets, int64_t dim) {
    qkv_param_kind table = {.std = 0.01, .embedding = true};
    *l = (qkv_ngram_layer){.orders = orders, .vocab = vocab, .buckets = orders > 1 ? buckets : 0};
    return qkv_reg_add(reg, "", "ngram.weight", vocab + l->buckets, dim, table, &l->weight);
}

static int64_t rows_of(const qkv_batch *batch) { return batch->n_seq > 0 ? batch->offset[batch->n_seq] : 0; }

/* Row of the table for the run of `order` tokens at each position. */
static void number(const qkv_ngram_layer *l, const qkv_batch *batch, int64_t order, int32_t *ids) {
    for (int64_t s = 0; s < batch->n_seq; s++) {
        int64_t end = batch->offset[s + 1];
        for (int64_t r = batch->offset[s]; r < end; r++) {
            uint64_t key = (uint64_t)order;
            for (int64_t i = r; i < r + order; i++) key = qkv_key2(key, i < end ? (uint64_t)batch->ids[i] : UINT64_MAX);
            ids[r] = order == 1 ? batch->ids[r] : (int32_t)(l->vocab + (int64_t)qkv_below(key, (uint64_t)l->buckets));
        }
    }
}

static qkv_status ids_of(qkv_exec *x, const qkv_ngram_layer *l, const qkv_batch *batch, int64_t order, int32_t **ids) {
    QKV_TRY(qkv_temp_array(x, rows_of(batch), sizeof(int32_t), ids));
    if (!x->plan) number(l, batch, order, *ids);
    return QKV_OK;
}

qkv_status qkv_ngram_layer_forward(qkv_exec *x, const qkv_ngram_layer *l, const qkv_batch *batch, qkv_mat out) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat table = qkv_embedding_table(x, l->weight), sum, rows;
    int32_t *ids;
    QKV_TRY(qkv_temp(x, rows_of(batch), out.cols, &sum));
    QKV_TRY(qkv_temp(x, rows_of(batch), out.cols, &rows));
    for (int64_t order = 1; order <= l->orders; order++) {
        size_t inner = qkv_exec_mark(x);
        QKV_TRY(ids_of(x, l, batch, order, &ids));
        QKV_TRY(qkv_embedding_forward(x, "n-gram table", table, ids, NGRAM_GAIN, order == 1 ? sum : rows));
        if (order > 1) QKV_TRY(qkv_scaled_sum(x, 1, rows, 1, sum));
        qkv_exec_release(x, inner);
    }
    QKV_TRY(qkv_pool_forward(x, QKV_POOL_OP_MEAN, batch, sum, out, NULL));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_ngram_layer_backward(qkv_exec *x, const qkv_ngram_layer *l, const qkv_batch *batch, qkv_mat dout) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat dsum;
    int32_t *ids;
    QKV_TRY(qkv_temp(x, rows_of(batch), dout.cols, &dsum));
    QKV_TRY(qkv_pool_backward(x, QKV_POOL_OP_MEAN, batch, dout, dsum, NULL));
    for (int64_t order = 1; order <= l->orders; order++) {
        size_t inner = qkv_exec_mark(x);
        QKV_TRY(ids_of(x, l, batch, order, &ids));
        QKV_TRY(qkv_embedding_backward(x, qkv_embedding_grad(x, l->weight), ids, NGRAM_GAIN, dsum));
        qkv_exec_release(x, inner);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}
