#include "layers/positions.h"

#include <math.h>

#include "ops/embedding.h"
#include "ops/reg.h"
#include "ops/residual.h"

/* A small start and a rate of its own, as token embeddings have. */
static const double TABLE_STD = 0.01;

/* ---- absolute ---- */

qkv_status qkv_absolute_declare(qkv_absolute *l, qkv_reg *reg, const char *prefix, int64_t dim, const qkv_position_shape *shape) {
    const qkv_param_kind table = {.std = TABLE_STD, .embedding = true};
    *l = (qkv_absolute){.kind = shape->kind, .layout = shape->layout, .beyond = shape->beyond, .length = shape->length, .table = -1};
    if (l->kind != QKV_POSITION_LEARNED) return QKV_OK;
    return qkv_reg_add(reg, prefix, "position.weight", l->length, dim, table, &l->table);
}

static int64_t longest(const qkv_batch *batch) {
    int64_t most = 0;
    for (int64_t s = 0; s < batch->n_seq; s++)
        if (batch->offset[s + 1] - batch->offset[s] > most) most = batch->offset[s + 1] - batch->offset[s];
    return most;
}

/* Is there a sequence that the whole table is spread over? */
static bool spread(const qkv_absolute *l, const qkv_batch *batch) {
    return l->table >= 0 && l->beyond == QKV_BEYOND_INTERPOLATE && longest(batch) > l->length;
}

qkv_status qkv_absolute_forward(qkv_exec *x, const qkv_absolute *l, const qkv_batch *batch, qkv_mat out) {
    if (l->table < 0 && l->kind != QKV_POSITION_SINUSOIDAL) return QKV_OK;
    if (spread(l, batch)) return qkv_between_forward(x, batch, qkv_embedding_table(x, l->table), out);
    const size_t mark = qkv_exec_mark(x);
    int32_t *numbers;
    qkv_mat rows, table;
    if (l->table >= 0) {
        table = qkv_embedding_table(x, l->table);
        QKV_TRY(qkv_positions(x, batch, l->length, l->beyond, &numbers));
    } else {
        QKV_TRY(qkv_temp(x, longest(batch), out.cols, &table));
        QKV_TRY(qkv_sinusoidal(x, l->layout, table));
        QKV_TRY(qkv_positions(x, batch, table.rows, QKV_BEYOND_ERROR, &numbers));
    }
    QKV_TRY(qkv_temp(x, out.rows, out.cols, &rows));
    QKV_TRY(qkv_embedding_forward(x, "position table", table, numbers, 1, rows));
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, rows, 1, out));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_absolute_backward(qkv_exec *x, const qkv_absolute *l, const qkv_batch *batch, qkv_mat dout) {
    if (l->table < 0) return QKV_OK;
    if (spread(l, batch)) return qkv_between_backward(x, batch, qkv_embedding_grad(x, l->table), dout);
    const size_t mark = qkv_exec_mark(x);
    int32_t *numbers;
    QKV_TRY(qkv_positions(x, batch, l->length, l->beyond, &numbers));
    QKV_TRY(qkv_embedding_backward(x, qkv_embedding_grad(x, l->table), numbers, 1, dout));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* ---- relative ---- */

static qkv_buckets buckets_of(const qkv_relative *r) { return (qkv_buckets){r->shape.buckets, r->shape.reach, r->shape.causal}; }

qkv_status qkv_relative_declare(qkv_relative *r, qkv_reg *reg, const char *prefix, int64_t heads, int64_t head_dim,
                                const qkv_position_shape *shape) {
    *r = (qkv_relative){.shape = *shape, .heads = heads, .head_dim = head_dim, .table = -1};
    for (int i = 0; i < QKV_ROPE_TABLES; i++) {
        r->rope[i] = shape->rope;
        r->rope[i].dim = qkv_rope_columns(shape, head_dim);
    }
    r->rope[1].base = shape->local_base;
    if (shape->kind != QKV_POSITION_T5) return QKV_OK;
    const qkv_param_kind table = {.std = 1 / sqrt((double)(heads * head_dim)), .embedding = true};
    return qkv_reg_add(reg, prefix, "position.bias", shape->buckets, heads, table, &r->table);
}

qkv_status qkv_relative_declare_part(const qkv_relative *r, qkv_reg *reg, const char *prefix, qkv_relative_part *part) {
    *part = (qkv_relative_part){.keys = -1, .values = -1};
    if (!r || r->shape.kind != QKV_POSITION_SHAW) return QKV_OK;
    const int64_t rows = 2 * r->shape.reach + 1;
    const qkv_param_kind table = {.std = sqrt(2 / (double)(rows + r->head_dim)), .embedding = true};
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.position.keys", rows, r->head_dim, table, &part->keys));
    return qkv_reg_add(reg, prefix, "attention.position.values", rows, r->head_dim, table, &part->values);
}

static qkv_status begin_angles(qkv_exec *x, qkv_relative *r, int64_t positions) {
    for (int i = 0; i < QKV_ROPE_TABLES; i++) {
        if (i > 0 && r->shape.local_base == 0) continue;
        const int64_t half = r->rope[i].dim / 2;
        QKV_TRY(qkv_keep(x, positions, half, &r->cosine[i]));
        QKV_TRY(qkv_keep(x, positions, half, &r->sine[i]));
        QKV_TRY(qkv_rope_angles(x, &r->rope[i], r->cosine[i], r->sine[i]));
    }
    return QKV_OK;
}

qkv_status qkv_relative_begin(qkv_exec *x, qkv_relative *r, const qkv_batch *batch) {
    if (r->shape.kind == QKV_POSITION_ROPE) return begin_angles(x, r, longest(batch));
    if (r->shape.kind == QKV_POSITION_ALIBI) {
        QKV_TRY(qkv_keep_array(x, r->heads, sizeof *r->slopes, &r->slopes));
        if (!x->plan) qkv_alibi_slopes(r->heads, r->slopes);
    }
    if (r->table < 0) return QKV_OK;
    const qkv_buckets b = buckets_of(r);
    QKV_TRY(qkv_keep(x, r->heads, 2 * b.reach + 1, &r->bias));
    return qkv_bucket_bias(x, &b, qkv_embedding_table(x, r->table), r->bias);
}

/* In a plan any pointer stands for a table. */
static const real PLANNED[1];
static const float PLANNED_SLOPES[1];

void qkv_relative_apply(const qkv_exec *x, const qkv_relative *r, const qkv_relative_part *part, qkv_attention_shape *shape) {
    if (!r) return;
    if (r->shape.kind == QKV_POSITION_ALIBI) shape->alibi = x->plan ? PLANNED_SLOPES : r->slopes;
    if (r->table >= 0) {
        shape->bias = x->plan ? PLANNED : r->bias.p;
        shape->bias_reach = r->shape.reach;
    }
    if (part->keys >= 0) {
        shape->shaw_keys = x->plan ? PLANNED : qkv_weight(x, part->keys);
        shape->shaw_values = x->plan ? PLANNED : qkv_weight(x, part->values);
        shape->shaw_reach = r->shape.reach;
    }
    if (r->shape.kind == QKV_POSITION_ROPE) {
        shape->rope_cos = x->plan ? PLANNED : r->cosine[part->rope].p;
        shape->rope_sin = x->plan ? PLANNED : r->sine[part->rope].p;
        shape->rope_dim = r->rope[part->rope].dim;
        shape->rope_interleaved = r->shape.pairs == QKV_ROPE_INTERLEAVED;
        shape->scale *= (real)qkv_rope_sharpen(&r->rope[part->rope]);
    }
}

static qkv_status room(qkv_exec *x, int64_t rows, int64_t cols, real **p) {
    qkv_mat m;
    QKV_TRY(qkv_temp(x, rows, cols, &m));
    *p = x->plan ? (real *)PLANNED : m.p;
    return QKV_OK;
}

qkv_status qkv_relative_before(qkv_exec *x, const qkv_relative *r, const qkv_relative_part *part, qkv_attention_shape *shape) {
    if (!r) return QKV_OK;
    if (r->table >= 0) QKV_TRY(room(x, r->heads, r->bias.cols, &shape->bias_grad));
    if (part->keys < 0) return QKV_OK;
    QKV_TRY(room(x, 2 * r->shape.reach + 1, r->head_dim, &shape->shaw_dkeys));
    return room(x, 2 * r->shape.reach + 1, r->head_dim, &shape->shaw_dvalues);
}

static qkv_status add(qkv_exec *x, real *gradient, int64_t param) {
    qkv_mat to = qkv_embedding_grad(x, param), from = to;
    from.p = x->plan ? NULL : gradient;
    return qkv_scaled_sum(x, QKV_WORK_EMBEDDING, 1, from, 1, to);
}

qkv_status qkv_relative_after(qkv_exec *x, const qkv_relative *r, const qkv_relative_part *part, const qkv_attention_shape *shape) {
    if (!r) return QKV_OK;
    if (r->table >= 0) {
        const qkv_buckets b = buckets_of(r);
        const qkv_mat bias = {x->plan ? NULL : shape->bias_grad, r->heads, r->bias.cols, r->bias.ld};
        QKV_TRY(qkv_bucket_bias_backward(x, &b, bias, qkv_embedding_grad(x, r->table)));
    }
    if (part->keys < 0) return QKV_OK;
    QKV_TRY(add(x, shape->shaw_dkeys, part->keys));
    return add(x, shape->shaw_dvalues, part->values);
}
