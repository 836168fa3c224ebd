#include "layers/masked_head.h"

#include <string.h>

#include "layers/block.h"
#include "ops/activation.h"
#include "ops/embedding.h"
#include "ops/loss.h"
#include "ops/reg.h"

qkv_status qkv_masked_head_declare(qkv_masked_head *l, qkv_reg *reg, int64_t table, const qkv_block_shape *shape) {
    qkv_param_kind weight = {.std = 0.02, .decay = true, .matrix = true}, bias = {.vector = true};
    *l = (qkv_masked_head){.logits.weight = table};
    QKV_TRY(qkv_reg_add(reg, "masked.", "dense.weight", shape->dim, shape->dim, weight, &l->dense.weight));
    QKV_TRY(qkv_reg_add(reg, "masked.", "dense.bias", 1, shape->dim, bias, &l->dense.bias));
    QKV_TRY(qkv_norm_declare(&l->norm, reg, "masked.", "norm", shape));
    return qkv_reg_add(reg, "masked.", "bias", 1, reg->params[table].rows, bias, &l->logits.bias);
}

/* Of one call; all of it scratch. */
typedef struct work {
    qkv_mat in, inner, active, normed; /* [count,dim] */
    qkv_norm_saved norm;
    qkv_mat dnormed;
} work;

static qkv_status transform(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, qkv_mat rows, work *w) {
    const int64_t count = masks->count;
    QKV_TRY(qkv_temp(x, count, rows.cols, &w->in));
    QKV_TRY(qkv_temp(x, count, rows.cols, &w->inner));
    QKV_TRY(qkv_temp(x, count, rows.cols, &w->active));
    QKV_TRY(qkv_temp(x, count, rows.cols, &w->normed));
    const qkv_linear_then gelu = {.kind = QKV_THEN_ACT, .act = QKV_KERNEL_GELU, .other = w->active};
    QKV_TRY(qkv_embedding_forward(x, "rows of the encoder", rows, masks->row, 1, w->in));
    QKV_TRY(qkv_linear_forward_then(x, l->dense, w->in, w->inner, &gelu));
    return qkv_norm_forward(x, &l->norm, w->active, w->normed, &w->norm);
}

/* Logits of a chunk: about so many numbers, so that they are used again while they are in a cache. */
enum { CHUNK = 1 << 22, LEAST_ROWS = 16 };

static int64_t chunk_rows(const qkv_exec *x, const qkv_masked_head *l, int64_t count) {
    int64_t rows = CHUNK / x->reg->params[l->logits.weight].rows;
    if (rows < LEAST_ROWS) rows = LEAST_ROWS;
    return rows < count ? rows : count;
}

/* Some masked rows: their losses, and what follows from them for normed. `logits` becomes their gradient. */
static qkv_status one_chunk(qkv_exec *x, qkv_linear l, qkv_mat normed, const int32_t *target, qkv_mat logits, double scale, real *loss,
                            const qkv_mat *dnormed) {
    x->pass = QKV_PASS_FORWARD;
    QKV_TRY(qkv_linear_forward(x, l, normed, logits));
    QKV_TRY(qkv_cross_entropy(x, logits, target, 0, scale, loss, dnormed ? logits : (qkv_mat){0}));
    if (!dnormed) return QKV_OK;
    x->pass = QKV_PASS_BACKWARD;
    return qkv_linear_backward(x, l, normed, logits, dnormed);
}

static qkv_status losses(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, const work *w, double scale, real *loss, bool learn) {
    const size_t mark = qkv_exec_mark(x);
    const int64_t most = chunk_rows(x, l, masks->count);
    qkv_linear map = l->logits;
    qkv_mat logits;
    QKV_TRY(qkv_linear_ready(x, &map, learn));
    QKV_TRY(qkv_temp(x, most, x->reg->params[map.weight].rows, &logits));
    for (int64_t r = 0; r < masks->count; r += most) {
        const int64_t rows = masks->count - r < most ? masks->count - r : most;
        qkv_mat d = learn ? qkv_mat_rows(w->dnormed, r, rows) : (qkv_mat){0};
        QKV_TRY(one_chunk(x, map, qkv_mat_rows(w->normed, r, rows), x->plan ? NULL : masks->target + r, qkv_mat_rows(logits, 0, rows), scale,
                          x->plan ? NULL : loss + r, learn ? &d : NULL));
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status backward(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, const work *w, qkv_mat drows) {
    const qkv_mat d = w->dnormed, dinner = w->normed; /* both have done their work */
    QKV_TRY(qkv_norm_backward(x, &l->norm, d, d, &w->norm));
    QKV_TRY(qkv_activation_backward(x, QKV_KERNEL_GELU, false, w->inner, d, dinner));
    QKV_TRY(qkv_linear_backward(x, l->dense, w->in, dinner, &d));
    for (int64_t r = 0; !x->plan && r < drows.rows; r++) memset(drows.p + r * drows.ld, 0, (size_t)drows.cols * sizeof(real));
    return qkv_embedding_backward(x, drows, masks->row, 1, d);
}

static qkv_status walk(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, qkv_mat rows, double scale, real *loss,
                       const qkv_mat *drows) {
    work w = {0};
    QKV_TRY(transform(x, l, masks, rows, &w));
    if (drows) QKV_TRY(qkv_temp(x, masks->count, rows.cols, &w.dnormed));
    QKV_TRY(losses(x, l, masks, &w, scale, loss, drows != NULL));
    if (!drows) return QKV_OK;
    x->pass = QKV_PASS_BACKWARD;
    return backward(x, l, masks, &w, *drows);
}

static qkv_status run(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, qkv_mat rows, double scale, real *loss,
                      const qkv_mat *drows) {
    const size_t mark = qkv_exec_mark(x);
    const bool keep = x->keep;
    const qkv_pass pass = x->pass;
    x->keep = false; /* nothing outlives the call */
    qkv_status status = walk(x, l, masks, rows, scale, loss, drows);
    x->keep = keep;
    x->pass = pass;
    qkv_exec_release(x, mark);
    return status;
}

qkv_status qkv_masked_head_loss(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, qkv_mat rows, real *loss) {
    return run(x, l, masks, rows, 1, loss, NULL);
}

qkv_status qkv_masked_head_learn(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, qkv_mat rows, double scale, real *loss,
                                 qkv_mat drows) {
    QKV_TRY(qkv_exec_shape(x, "gradient of the encoder's rows", drows, rows.rows, rows.cols));
    return run(x, l, masks, rows, scale, loss, &drows);
}
