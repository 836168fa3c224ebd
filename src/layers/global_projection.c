#include "layers/global_projection.h"

#include <math.h>

#include "ops/global_rows.h"
#include "ops/reg.h"
#include "ops/residual.h"

qkv_status qkv_global_projection_declare(qkv_global_projection *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape) {
    const int64_t queries = shape->heads * shape->head_dim, keys = shape->kv_heads * shape->head_dim;
    const qkv_block_std spread = qkv_block_spread(shape);
    qkv_param_kind q = {.std = spread.in / sqrt((double)shape->dim), .decay = true, .matrix = true}, kv = q;
    const qkv_param_kind bias = {.vector = true};
    kv.last_rows = keys, kv.last_std = spread.value / sqrt((double)shape->dim);
    *l = (qkv_global_projection){.heads = shape->heads, .kv_heads = shape->kv_heads, .head_dim = shape->head_dim,
                                 .queries = {.weight = -1, .bias = -1, .work = QKV_WORK_PROJECTION},
                                 .keys = {.weight = -1, .bias = -1, .work = QKV_WORK_PROJECTION}};
    if (!shape->global_projection) return QKV_OK;
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.global.q.weight", queries, shape->dim, q, &l->queries.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "attention.global.q.bias", 1, queries, bias, &l->queries.bias));
    QKV_TRY(qkv_reg_add(reg, prefix, "attention.global.kv.weight", 2 * keys, shape->dim, kv, &l->keys.weight));
    return shape->bias ? qkv_reg_add(reg, prefix, "attention.global.kv.bias", 1, 2 * keys, bias, &l->keys.bias) : QKV_OK;
}

qkv_status qkv_global_projection_forward(qkv_exec *x, const qkv_global_projection *l, const qkv_attention_shape *s, qkv_mat in, bool keep,
                                         qkv_global_saved *saved) {
    const int64_t globals = qkv_attention_globals(s);
    qkv_status (*const room)(qkv_exec *, int64_t, int64_t, qkv_mat *) = keep ? qkv_keep : qkv_temp;
    QKV_TRY(room(x, globals, in.cols, &saved->in));
    QKV_TRY(room(x, globals, l->heads * l->head_dim, &saved->queries));
    QKV_TRY(room(x, in.rows, 2 * l->kv_heads * l->head_dim, &saved->keys));
    QKV_TRY(qkv_global_rows_forward(x, s, in, saved->in));
    QKV_TRY(qkv_linear_forward(x, l->queries, saved->in, saved->queries));
    return qkv_linear_forward(x, l->keys, in, saved->keys);
}

qkv_status qkv_global_projection_backward(qkv_exec *x, const qkv_global_projection *l, const qkv_attention_shape *s, qkv_mat in,
                                          const qkv_global_saved *saved, const qkv_global_saved *d, qkv_mat din) {
    const size_t mark = qkv_exec_mark(x);
    qkv_mat of_keys, of_queries;
    QKV_TRY(qkv_temp(x, in.rows, in.cols, &of_keys));
    QKV_TRY(qkv_temp(x, saved->in.rows, in.cols, &of_queries));
    QKV_TRY(qkv_linear_backward(x, l->keys, in, d->keys, &of_keys));
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_PROJECTION, 1, of_keys, 1, din));
    QKV_TRY(qkv_linear_backward(x, l->queries, saved->in, d->queries, &of_queries));
    QKV_TRY(qkv_global_rows_backward(x, s, of_queries, din));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static void heads_of(const qkv_global_projection *l, const qkv_global_saved *m, qkv_heads *q, qkv_heads *k, qkv_heads *v) {
    const int64_t keys = l->kv_heads * l->head_dim;
    *q = qkv_heads_of(m->queries, l->head_dim);
    *k = qkv_heads_of(qkv_mat_cols(m->keys, 0, keys), l->head_dim);
    *v = qkv_heads_of(qkv_mat_cols(m->keys, keys, keys), l->head_dim);
}

qkv_apart qkv_global_projection_apart(const qkv_global_projection *l, const qkv_global_saved *saved, const qkv_global_saved *d) {
    qkv_apart a = {0};
    heads_of(l, saved, &a.q, &a.k, &a.v);
    if (d) heads_of(l, d, &a.dq, &a.dk, &a.dv);
    return a;
}
