#include "layers/head_norms.h"

#include "ops/head_norm.h"
#include "ops/reg.h"

qkv_status qkv_head_norms_declare(qkv_head_norms *n, qkv_reg *reg, const char *prefix, const char *q, const char *k, const qkv_block_shape *shape) {
    const qkv_param_kind gain = {.value = 1, .vector = true};
    const qkv_norm_op none = {.gain = -1, .bias = -1, .rms = true, .epsilon = shape->norm_epsilon};
    *n = (qkv_head_norms){.heads = shape->heads, .kv_heads = shape->kv_heads, .head_dim = shape->head_dim, .q = none, .k = none};
    if (!shape->qk_norm) return QKV_OK;
    QKV_TRY(qkv_reg_add(reg, prefix, q, 1, shape->head_dim, gain, &n->q.gain));
    return qkv_reg_add(reg, prefix, k, 1, shape->head_dim, gain, &n->k.gain);
}

static qkv_status norm(qkv_exec *x, const qkv_norm_op *n, int64_t heads, int64_t head_dim, qkv_mat in, qkv_mat *rstd, qkv_heads *out) {
    qkv_mat normed;
    QKV_TRY(qkv_temp(x, in.rows, in.cols, &normed));
    QKV_TRY(qkv_temp(x, heads, in.rows, rstd));
    *out = qkv_heads_of(normed, head_dim);
    return qkv_head_norm_forward(x, n, heads, in, normed, *rstd);
}

qkv_status qkv_head_norms_forward(qkv_exec *x, const qkv_head_norms *n, qkv_normed *p) {
    p->q = qkv_heads_of(p->q_in, n->head_dim);
    p->k = qkv_heads_of(p->k_in, n->head_dim);
    if (n->q.gain < 0) return QKV_OK;
    QKV_TRY(norm(x, &n->q, n->heads, n->head_dim, p->q_in, &p->q_rstd, &p->q));
    return norm(x, &n->k, n->kv_heads, n->head_dim, p->k_in, &p->k_rstd, &p->k);
}

qkv_status qkv_head_norms_backward(qkv_exec *x, const qkv_head_norms *n, const qkv_normed *p, const qkv_normed *d) {
    if (n->q.gain < 0) return QKV_OK;
    QKV_TRY(qkv_head_norm_backward(x, &n->q, n->heads, p->q_in, p->q_rstd, d->q_in, d->q_in));
    return qkv_head_norm_backward(x, &n->k, n->kv_heads, p->k_in, p->k_rstd, d->k_in, d->k_in);
}
