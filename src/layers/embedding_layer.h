/* Token embeddings and positions: out = drop(scale * table[id] + position[p]). */
#ifndef QKV_LAYERS_EMBEDDING_LAYER_H
#define QKV_LAYERS_EMBEDDING_LAYER_H

#include "layers/layers.h"
#include "layers/positions.h"

typedef struct qkv_embedding_layer {
    int64_t weight;        /* parameter number of the token table; -1: the rows are there already, positions are added to them */
    qkv_absolute position;
    double scale;          /* sqrt(dim) with sinusoidal positions, whose size is 1; else 1 */
    double dropout;
} qkv_embedding_layer;

/* Parameters embedding.weight and, for learned positions, position.weight. */
qkv_status qkv_embedding_layer_declare(qkv_embedding_layer *l, qkv_reg *reg, int64_t vocab, int64_t dim,
                                       const qkv_position_shape *position, double dropout) QKV_MUST_USE;
/* Of rows that are no tokens: positions alone, parameter prefix + position.weight. */
qkv_status qkv_embedding_layer_declare_positions(qkv_embedding_layer *l, qkv_reg *reg, const char *prefix, int64_t dim,
                                                 const qkv_position_shape *position) QKV_MUST_USE;
qkv_status qkv_embedding_layer_forward(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat out) QKV_MUST_USE;
qkv_status qkv_embedding_layer_backward(qkv_exec *x, const qkv_embedding_layer *l, const qkv_batch *batch, qkv_mat dout) QKV_MUST_USE;

#endif
