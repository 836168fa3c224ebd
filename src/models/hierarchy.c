#include "models/hierarchy.h"

#include "ops/residual.h"

static const char PREFIX[] = "segments.";
static const qkv_place POOLING = {"segments", -1, QKV_WORK_POOLING}, POSITIONS = {"segments", -1, QKV_WORK_EMBEDDING};

qkv_status qkv_hierarchy_declare(qkv_hierarchy *h, qkv_reg *reg, const qkv_config *g, bool recompute) {
    if (g->segment == QKV_SEGMENT_NONE) return QKV_OK;
    QKV_TRY(qkv_pooling_layer_declare(&h->pooling, reg, PREFIX, g->pooling, g->dim, g->heads));
    h->pooling.both = qkv_config_directions(g) == 2;
    return qkv_encoder_declare_upper(&h->upper, reg, g, recompute);
}

void qkv_hierarchy_free(qkv_hierarchy *h) {
    qkv_encoder_free(&h->upper);
}

qkv_status qkv_hierarchy_forward(qkv_exec *x, const qkv_hierarchy *h, int64_t layers, const qkv_batch *batch, qkv_mat rows,
                                 qkv_mat *out, qkv_hierarchy_saved *saved) {
    *out = rows;
    if (!qkv_hierarchy_is(h)) return QKV_OK;
    const qkv_batch lower = qkv_batch_lower(batch), upper = qkv_batch_upper(batch);
    qkv_mat in;
    saved->low = x->arena.low;
    QKV_TRY(qkv_keep(x, lower.n_seq, rows.cols, &saved->pooled));
    QKV_TRY(qkv_keep(x, lower.n_seq, rows.cols, &in));
    qkv_exec_at(x, POOLING);
    QKV_TRY(qkv_pooling_layer_forward(x, &h->pooling, &lower, rows, saved->pooled, &saved->pooling));
    qkv_exec_at(x, POSITIONS);
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_EMBEDDING, 1, saved->pooled, 0, in)); /* the pooling's backward pass needs its own */
    return qkv_encoder_forward_rows(x, &h->upper, layers, &upper, in, out);
}

qkv_status qkv_hierarchy_backward(qkv_exec *x, const qkv_hierarchy *h, const qkv_batch *batch, qkv_mat dout, qkv_mat drows,
                                  const qkv_hierarchy_saved *saved) {
    if (!qkv_hierarchy_is(h)) return QKV_OK;
    const qkv_batch lower = qkv_batch_lower(batch), upper = qkv_batch_upper(batch);
    const size_t mark = qkv_exec_mark(x);
    qkv_mat spare, din;
    QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &spare));
    QKV_TRY(qkv_encoder_backward_rows(x, &h->upper, &upper, dout, spare, &din));
    qkv_exec_at(x, POOLING);
    QKV_TRY(qkv_pooling_layer_backward(x, &h->pooling, &lower, din, drows, &saved->pooling));
    qkv_arena_low_release(&x->arena, saved->low);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* ---- segments of batches that are made by hand ---- */

static qkv_status make_room(qkv_ctx *ctx, int64_t count, qkv_batch *batch, int64_t **segments, int64_t **segment_at) {
    QKV_TRY(qkv_alloc(ctx, batch->n_seq + 1 + count + 1, sizeof **segments, segments));
    *segment_at = *segments + batch->n_seq + 1;
    (*segments)[0] = (*segment_at)[0] = 0;
    batch->segments = *segments;
    batch->segment_at = *segment_at;
    return QKV_OK;
}

qkv_status qkv_hierarchy_assume(qkv_ctx *ctx, int64_t size, qkv_batch *batch) {
    int64_t count = 0, n = 0, *segments, *segment_at;
    if (size < 1) return QKV_OK;
    for (int64_t s = 0; s < batch->n_seq; s++) count += (batch->offset[s + 1] - batch->offset[s] + size - 1) / size;
    QKV_TRY(make_room(ctx, count, batch, &segments, &segment_at));
    for (int64_t s = 0; s < batch->n_seq; s++) {
        for (int64_t at = batch->offset[s]; at < batch->offset[s + 1]; n++) {
            at = at + size < batch->offset[s + 1] ? at + size : batch->offset[s + 1];
            segment_at[n + 1] = at;
        }
        segments[s + 1] = n;
    }
    return QKV_OK;
}

qkv_status qkv_hierarchy_cut(qkv_ctx *ctx, const int64_t *at, const int32_t *size, qkv_batch *batch) {
    int64_t *segments, *segment_at;
    QKV_TRY(make_room(ctx, at[batch->n_seq] - at[0], batch, &segments, &segment_at));
    for (int64_t s = 0; s < batch->n_seq; s++) segments[s + 1] = at[s + 1] - at[0];
    for (int64_t i = 0; i < segments[batch->n_seq]; i++) segment_at[i + 1] = segment_at[i] + size[at[0] + i];
    return QKV_OK;
}
