/* RMS norm (Zhang & Sennrich 2019) of each head of each row, with a gain [head_dim] that all heads share: what is done to queries
 * and keys before their product (after Dehghani et al. 2023, section 2, who take LayerNorm without bias). */
#ifndef QKV_OPS_HEAD_NORM_H
#define QKV_OPS_HEAD_NORM_H

#include "ops/norm.h"

/* in, out [N, heads head_dim]; rstd [heads, N] is what backward asks for. Keeps nothing. */
qkv_status qkv_head_norm_forward(qkv_exec *x, const qkv_norm_op *n, int64_t heads, qkv_mat in, qkv_mat out,
                                 qkv_mat rstd) QKV_MUST_USE;

/* din may be dout. Adds to the gradient of the gain: one chain for each head in each of fixed blocks of rows, then over all of
 * these. */
qkv_status qkv_head_norm_backward(qkv_exec *x, const qkv_norm_op *n, int64_t heads, qkv_mat in, qkv_mat rstd, qkv_mat dout,
                                  qkv_mat din) QKV_MUST_USE;

#endif
