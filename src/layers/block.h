/* An encoder block. Pre-norm: h = in + drop(attention(norm1(in))), out = h + drop(ffn(norm2(h))).
 * Post-norm: h = norm1(in + drop(attention(in))), out = norm2(h + drop(ffn(h))). */
#ifndef QKV_LAYERS_BLOCK_H
#define QKV_LAYERS_BLOCK_H

#include "layers/attention_layer.h"
#include "layers/ffn.h"
#include "layers/layers.h"
#include "ops/norm.h"

typedef struct qkv_block {
    bool post_norm;
    double dropout;
    uint64_t site;
    qkv_norm_op norm1, norm2;
    qkv_attention_layer attention;
    qkv_ffn ffn;
} qkv_block;

typedef struct qkv_block_saved {
    qkv_mat normed1, middle, normed2; /* pre-norm: norm1(in), h, norm2(h). post-norm: the sums before the norms, and h in middle */
    qkv_norm_saved norm1, norm2;
    qkv_attention_saved attention;
    qkv_ffn_saved ffn;
} qkv_block_saved;

/* A norm and its parameters prefix + name + ".weight" and, for LayerNorm with biases, ".bias". */
qkv_status qkv_norm_declare(qkv_norm_op *n, qkv_reg *reg, const char *prefix, const char *name, const qkv_block_shape *shape) QKV_MUST_USE;

/* prefix "encoder.0."; `layer` numbers its dropout sites. */
qkv_status qkv_block_declare(qkv_block *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape, int64_t layer) QKV_MUST_USE;
/* in and out are different buffers; in must live until backward. */
qkv_status qkv_block_forward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_block_saved *saved) QKV_MUST_USE;
qkv_status qkv_block_backward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                              const qkv_block_saved *saved) QKV_MUST_USE;
qkv_status qkv_block_weights(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, int64_t head, real *weights) QKV_MUST_USE;

#endif
