/* Head of masked-token pretraining (Devlin et al. 2019, section 3.1): of the encoder's rows, those of the masked positions go
 * through a linear map, GELU and a norm, and their products with the token table are the logits of what was there.
 *
 * Loss and backward pass are one walk over chunks of masked rows, since rows times vocabulary is far too much to keep. */
#ifndef QKV_LAYERS_MASKED_HEAD_H
#define QKV_LAYERS_MASKED_HEAD_H

#include "layers/layers.h"
#include "ops/linear.h"
#include "ops/norm.h"

typedef struct qkv_masked_head {
    qkv_linear dense;
    qkv_norm_op norm;
    qkv_linear logits; /* its weight is the token table */
} qkv_masked_head;

/* The masked positions of a batch. In a plan only `count` is looked at. */
typedef struct qkv_masks {
    int64_t count;
    const int32_t *row;    /* [count] of the batch, no row twice */
    const int32_t *target; /* [count] the token that was there */
} qkv_masks;

/* Parameters masked.dense.*, masked.norm.*, masked.bias; `table`: parameter number of the token table [vocab,dim]. */
qkv_status qkv_masked_head_declare(qkv_masked_head *l, qkv_reg *reg, int64_t table, const qkv_block_shape *shape) QKV_MUST_USE;

/* rows [N,dim] -> loss [count], the negative log-likelihood of each target. */
qkv_status qkv_masked_head_loss(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, qkv_mat rows, real *loss) QKV_MUST_USE;
/* The same, and the gradient of scale * (the sum of the losses): added to those of the parameters, written to drows [N,dim].
 * Books forward and backward operations under their passes; x->pass is as it was afterwards. */
qkv_status qkv_masked_head_learn(qkv_exec *x, const qkv_masked_head *l, const qkv_masks *masks, qkv_mat rows, double scale, real *loss,
                                 qkv_mat drows) QKV_MUST_USE;

#endif
