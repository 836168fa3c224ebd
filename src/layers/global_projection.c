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
    QKV_TRY(qkv_head_norms_declare(&l->norms, reg, prefix, "attention.global.q_norm.weight", "attention.global.k_norm.weight", shape));
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

static void heads_of(const qkv_global_projection *l, const qkv_global_saved *m, qkv_normed *n, qkv_heads *v) {
    const int64_t keys = l->kv_heads * l->head_dim;
    *n = (qkv_normed){.q_in = m->queries, .k_in = qkv_mat_cols(m->keys, 0, keys)};
    *v = qkv_heads_of(qkv_mat_cols(m->keys, keys, keys), l->head_dim);
}

qkv_status qkv_global_projection_see(qkv_exec *x, const qkv_global_projection *l, const qkv_global_saved *saved, bool backward,
                                     qkv_global_seen *seen) {
    qkv_apart *a = &seen->apart;
    qkv_normed d;
    *seen = (qkv_global_seen){.of = *saved};
    heads_of(l, saved, &seen->normed, &a->v);
    QKV_TRY(qkv_head_norms_forward(x, &l->norms, &seen->normed));
    a->q = seen->normed.q;
    a->k = seen->normed.k;
    if (!backward) return QKV_OK;
    QKV_TRY(qkv_temp(x, saved->queries.rows, saved->queries.cols, &seen->d.queries));
    QKV_TRY(qkv_temp(x, saved->keys.rows, saved->keys.cols, &seen->d.keys));
    heads_of(l, &seen->d, &d, &a->dv);
    a->dq = qkv_heads_of(d.q_in, l->head_dim);
    a->dk = qkv_heads_of(d.k_in, l->head_dim);
    return QKV_OK;
}

qkv_status qkv_global_projection_backward(qkv_exec *x, const qkv_global_projection *l, const qkv_attention_shape *s, qkv_mat in,
                                          const qkv_global_seen *seen, qkv_mat din) {
    const size_t mark = qkv_exec_mark(x);
    qkv_mat of_keys, of_queries;
    qkv_normed d;
    qkv_heads unused;
    heads_of(l, &seen->d, &d, &unused);
    QKV_TRY(qkv_head_norms_backward(x, &l->norms, &seen->normed, &d));
    QKV_TRY(qkv_temp(x, in.rows, in.cols, &of_keys));
    QKV_TRY(qkv_temp(x, seen->of.in.rows, in.cols, &of_queries));
    QKV_TRY(qkv_linear_backward(x, l->keys, in, seen->d.keys, &of_keys));
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_PROJECTION, 1, of_keys, 1, din));
    QKV_TRY(qkv_linear_backward(x, l->queries, seen->of.in, seen->d.queries, &of_queries));
    QKV_TRY(qkv_global_rows_backward(x, s, of_queries, din));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
