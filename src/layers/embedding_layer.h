/* Token embeddings and positions: out = drop(scale * table[id] + position[p]). */
#ifndef QKV_LAYERS_EMBEDDING_LAYER_H
#define QKV_LAYERS_EMBEDDING_LAYER_H

#include "layers/layers.h"

typedef struct qkv_embedding_layer {
    int64_t weight;        /* parameter number of the token table */
    int64_t position;      /* of the learned position table; -1: none */
    bool sinusoidal;       /* constant positions instead */
    int64_t max_length;    /* longest sequence: rows of the learned table */
    double scale;          /* sqrt(dim) with sinusoidal positions, whose size is 1; else 1 */
    double dropout;
} qkv_embedding_layer;

/* Parameters embedding.weight and, for learned positions, position.weight. */
qkv_status qkv_embedding_layer_declare(qkv_embedding_layer *l, qkv_reg *reg, int64_t vocab, int64_t dim, int64_t max_length,
                                       qkv_position position, double dropout) QKV_MUST_USE;
qkv_status qkv_embedding_layer_forward(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat out) QKV_MUST_USE;
qkv_status qkv_embedding_layer_backward(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat dout) QKV_MUST_USE;

#endif
