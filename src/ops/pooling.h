/* One row a sequence: mean, first row, last row, largest element a column, or both ends: the first half of the columns from the
 * last row and the second half from the first, where two directions lie side by side. An empty sequence gives 0. (Attention
 * pooling is the attention op with one query a sequence: layers/pooling.) */
#ifndef QKV_OPS_POOLING_H
#define QKV_OPS_POOLING_H

#include "ops/exec.h"

typedef enum qkv_pool { QKV_POOL_OP_MEAN, QKV_POOL_OP_FIRST, QKV_POOL_OP_MAX, QKV_POOL_OP_LAST, QKV_POOL_OP_ENDS } qkv_pool;

/* in [N, cols], out [n_seq, cols]; cols are even for ENDS. which [n_seq * cols]: for MAX, the row inside the sequence that has the largest element
 * (the first of several; NaN counts as largest); NULL otherwise. */
qkv_status qkv_pool_forward(qkv_exec *x, qkv_pool kind, const qkv_batch *batch, qkv_mat in, qkv_mat out, int32_t *which) QKV_MUST_USE;
qkv_status qkv_pool_backward(qkv_exec *x, qkv_pool kind, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const int32_t *which) QKV_MUST_USE;

#endif
