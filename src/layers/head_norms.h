/* Norms of each head's queries and keys before their product (ops/head_norm.h): those of all tokens, or of global tokens with projections
 * of their own. */
#ifndef QKV_LAYERS_HEAD_NORMS_H
#define QKV_LAYERS_HEAD_NORMS_H

#include "layers/layers.h"
#include "ops/attention.h"
#include "ops/norm.h"

typedef struct qkv_head_norms {
    int64_t heads, kv_heads, head_dim;
    qkv_norm_op q, k; /* gain -1: none */
} qkv_head_norms;

/* Queries and keys: as the projection made them, and as attention sees them. */
typedef struct qkv_normed {
    qkv_mat q_in, k_in, q_rstd, k_rstd; /* rstd: what the backward pass asks for */
    qkv_heads q, k;
} qkv_normed;

/* The names of the gains come behind prefix. */
qkv_status qkv_head_norms_declare(qkv_head_norms *n, qkv_reg *reg, const char *prefix, const char *q, const char *k,
                                  const qkv_block_shape *shape) QKV_MUST_USE;
/* p has q_in and k_in. Normalised ones are scratch: they are made again in the backward pass instead of kept. */
qkv_status qkv_head_norms_forward(qkv_exec *x, const qkv_head_norms *n, qkv_normed *p) QKV_MUST_USE;
/* From the gradients of what attention saw, in d's q_in and k_in, to those of what the projection made, in place. */
qkv_status qkv_head_norms_backward(qkv_exec *x, const qkv_head_norms *n, const qkv_normed *p, const qkv_normed *d) QKV_MUST_USE;

#endif
