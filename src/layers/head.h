/* Classification head: logits = linear(drop(pooled)). */
#ifndef QKV_LAYERS_HEAD_H
#define QKV_LAYERS_HEAD_H

#include "layers/layers.h"
#include "ops/linear.h"

typedef struct qkv_head {
    double dropout;
    qkv_linear linear;
} qkv_head;

typedef struct qkv_head_saved {
    qkv_mat dropped; /* input of the linear map */
} qkv_head_saved;

qkv_status qkv_head_declare(qkv_head *l, qkv_reg *reg, int64_t dim, int64_t classes, double dropout) QKV_MUST_USE;
/* in [n_seq,dim] must live until backward. */
qkv_status qkv_head_forward(qkv_exec *x, const qkv_head *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_head_saved *saved) QKV_MUST_USE;
qkv_status qkv_head_backward(qkv_exec *x, const qkv_head *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                             const qkv_head_saved *saved) QKV_MUST_USE;

#endif
