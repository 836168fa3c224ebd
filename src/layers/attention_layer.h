/* Multi-head self-attention: one fused projection to queries, keys and values, attention, one output projection.
 * Rows of the fused weight: heads * head_dim of queries, then kv_heads * head_dim of keys, then as many of values. */
#ifndef QKV_LAYERS_ATTENTION_LAYER_H
#define QKV_LAYERS_ATTENTION_LAYER_H

#include "layers/global_projection.h"
#include "layers/head_norms.h"
#include "layers/layers.h"
#include "layers/positions.h"
#include "ops/linear.h"

typedef struct qkv_attention_layer {
    int64_t heads, kv_heads, head_dim;
    qkv_span span;
    qkv_pattern pattern;
    bool global_lists;
    double dropout;
    uint64_t site;
    real scale, softcap;
    qkv_head_norms norms;
    const qkv_relative *relative; /* positions in the scores; NULL: none */
    qkv_relative_part position;
    qkv_global_projection global;
    qkv_linear qkv, out; /* out.weight -1: there is no output projection */
} qkv_attention_layer;

typedef struct qkv_attention_saved {
    qkv_mat in, qkv, mixed, lse; /* [N,dim], [N,(heads+2 kv_heads) head_dim], [N,heads head_dim], [heads,N] */
    bool again; /* `qkv` was not kept */
    qkv_global_saved global;
} qkv_attention_saved;

/* With shape->no_output, out [N, heads head_dim] takes the place of `mixed`: it must live until backward, and nothing follows on it. */
/* prefix "encoder.0." gives "encoder.0.attention.qkv.weight" and so on. */
qkv_status qkv_attention_layer_declare(qkv_attention_layer *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape,
                                       uint64_t site) QKV_MUST_USE;
/* then: what follows on out (ops/linear.h); NULL: nothing. */
qkv_status qkv_attention_layer_forward_then(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat in, qkv_mat out,
                                            qkv_attention_saved *saved, const qkv_linear_then *then) QKV_MUST_USE;
static inline QKV_MUST_USE qkv_status qkv_attention_layer_forward(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch,
                                                                  qkv_mat in, qkv_mat out, qkv_attention_saved *saved) {
    return qkv_attention_layer_forward_then(x, l, batch, in, out, saved, NULL);
}
qkv_status qkv_attention_layer_backward(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                        const qkv_attention_saved *saved) QKV_MUST_USE;

/* Weights [rows][rows] of one head: 0 between rows of different sequences. */
qkv_status qkv_attention_layer_weights(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, qkv_mat in, int64_t head,
                                       real *weights) QKV_MUST_USE;

#endif
