/* Queries, keys and values of global tokens by projections of their own, as in Longformer (Beltagy et al. 2020, section 3.1): a global
 * token asks by these; what others see of it is what they see of any token. */
#ifndef QKV_LAYERS_GLOBAL_PROJECTION_H
#define QKV_LAYERS_GLOBAL_PROJECTION_H

#include "layers/head_norms.h"
#include "layers/layers.h"
#include "ops/attention.h"
#include "ops/linear.h"

typedef struct qkv_global_projection {
    int64_t heads, kv_heads, head_dim;
    qkv_linear queries, keys; /* queries.weight -1: there is none; keys: keys, then values */
    qkv_head_norms norms;
} qkv_global_projection;

typedef struct qkv_global_saved {
    qkv_mat in, queries, keys; /* [globals, dim], [globals, heads head_dim], [rows, 2 kv_heads head_dim] */
} qkv_global_saved;

/* As attention sees them, and in the backward pass with the gradients of what the projections made. */
typedef struct qkv_global_seen {
    qkv_global_saved of, d;
    qkv_normed normed;
    qkv_apart apart;
} qkv_global_seen;

/* prefix + "attention.global.q.weight", "attention.global.kv.weight", biases, and gains of the norms. */
qkv_status qkv_global_projection_declare(qkv_global_projection *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape) QKV_MUST_USE;
/* keep false: what is saved is scratch. */
qkv_status qkv_global_projection_forward(qkv_exec *x, const qkv_global_projection *l, const qkv_attention_shape *s, qkv_mat in, bool keep,
                                         qkv_global_saved *saved) QKV_MUST_USE;
/* What attention sees of that, in scratch. backward: with room for the gradients. */
qkv_status qkv_global_projection_see(qkv_exec *x, const qkv_global_projection *l, const qkv_global_saved *saved, bool backward,
                                     qkv_global_seen *seen) QKV_MUST_USE;
/* When attention has written these: adds to din. */
qkv_status qkv_global_projection_backward(qkv_exec *x, const qkv_global_projection *l, const qkv_attention_shape *s, qkv_mat in,
                                          const qkv_global_seen *seen, qkv_mat din) QKV_MUST_USE;

#endif
