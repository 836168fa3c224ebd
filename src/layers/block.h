/* An encoder block. Pre-norm: h = in + drop(attention(norm1(in))), out = h + drop(ffn(norm2(h))).
 * Post-norm: h = norm1(a in + drop(attention(in))), out = norm2(a h + drop(ffn(h))); a is 1, or DeepNorm's (2 layers)^(1/4).
 * Sandwich: h = in + drop(after1(attention(norm1(in)))), out = h + drop(after2(ffn(norm2(h)))).
 * Without residuals what stands before the + is left out. */
#ifndef QKV_LAYERS_BLOCK_H
#define QKV_LAYERS_BLOCK_H

#include "layers/attention_layer.h"
#include "layers/ffn.h"
#include "layers/layers.h"
#include "ops/norm.h"

typedef struct qkv_block {
    qkv_norm_place norm_place;
    qkv_residual_kind residual;
    real alpha;
    double dropout;
    uint64_t site;
    qkv_norm_op norm1, norm2, after1, after2; /* after: of a sandwich */
    qkv_attention_layer attention;
    qkv_ffn ffn;
} qkv_block;

typedef struct qkv_half_saved {
    qkv_mat seen;   /* what the branch sees, norm(in); post-norm: the sum that is normalised */
    qkv_mat branch; /* sandwich: what comes of it */
    bool again; /* `seen` was not kept */
    qkv_norm_saved norm, after;
} qkv_half_saved;

typedef struct qkv_block_saved {
    qkv_half_saved half[2]; /* attention, feed-forward */
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

/* A block of two streams, with norms before the branches (RevNet, Gomez et al. 2017; Reformer, Kitaev et al. 2020), in place:
 * a += drop(attention(norm1(b))), b += drop(ffn(norm2(a))). Nothing is kept. */
qkv_status qkv_block_couple(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat a, qkv_mat b) QKV_MUST_USE;
/* Back, with x->keep: from what couple left in a and b to what they were but for rounding, and from the gradients of the former to
 * those of the latter. */
qkv_status qkv_block_uncouple(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat a, qkv_mat b, qkv_mat da, qkv_mat db) QKV_MUST_USE;

qkv_status qkv_block_weights(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, int64_t head, real *weights) QKV_MUST_USE;

#endif
