/* LayerNorm and RMSNorm over the columns of each row, with gain and optional bias. */
#ifndef QKV_OPS_NORM_H
#define QKV_OPS_NORM_H

#include "ops/exec.h"

typedef struct qkv_norm_op {
    int64_t gain; /* parameter numbers */
    int64_t bias; /* -1: none */
    bool rms;     /* RMSNorm (Zhang & Sennrich 2019) instead of LayerNorm (Ba et al. 2016) */
    double epsilon;
} qkv_norm_op;

/* Per row: mean (p NULL for RMSNorm) and reciprocal deviation, [N,1]. */
typedef struct qkv_norm_saved {
    qkv_mat in, mean, rstd;
} qkv_norm_saved;

/* Keeps the statistics of `in`, which must live until backward. */
qkv_status qkv_norm_forward(qkv_exec *x, const qkv_norm_op *n, qkv_mat in, qkv_mat out, qkv_norm_saved *saved) QKV_MUST_USE;

/* din = base + the gradient through the norm (base NULL: none), where base is the gradient that comes past the norm; din may be
 * dout or base. Then, unless it is NULL, *dropped = dropout(din), what a branch behind a dropout gets. Adds to the gradients
 * of gain and bias: one ascending chain a column in each of fixed blocks of rows, and one over the blocks. */
qkv_status qkv_norm_backward_sum(qkv_exec *x, const qkv_norm_op *n, qkv_mat dout, const qkv_mat *base, qkv_mat din,
                                 const qkv_mat *dropped, qkv_dropout d, const qkv_norm_saved *saved) QKV_MUST_USE;

/* The same with neither. */
qkv_status qkv_norm_backward(qkv_exec *x, const qkv_norm_op *n, qkv_mat dout, qkv_mat din, const qkv_norm_saved *saved) QKV_MUST_USE;

#endif
