/* From the rows of a sequence to one row: mean, first, last, max, or attention with one learned query a head over the rows
 * themselves (keys = values = rows, heads as column ranges). An empty sequence gives 0. */
#ifndef QKV_LAYERS_POOLING_LAYER_H
#define QKV_LAYERS_POOLING_LAYER_H

#include "layers/layers.h"

typedef struct qkv_pooling_layer {
    qkv_pooling kind;
    bool both;     /* rows are two directions side by side: `last` takes of each where it ends. Not set by declare */
    int64_t heads; /* of attention pooling; divides dim */
    int64_t query; /* parameter number, -1: none */
} qkv_pooling_layer;

typedef struct qkv_pooling_saved {
    qkv_mat in, out, lse;
    int32_t *which;
} qkv_pooling_saved;

/* prefix "" gives the parameter pool.query. */
qkv_status qkv_pooling_layer_declare(qkv_pooling_layer *l, qkv_reg *reg, const char *prefix, qkv_pooling kind, int64_t dim, int64_t heads) QKV_MUST_USE;
/* in [N,dim], out [n_seq,dim]; both must live until backward. */
qkv_status qkv_pooling_layer_forward(qkv_exec *x, const qkv_pooling_layer *l, const qkv_batch *batch, qkv_mat in, qkv_mat out,
                                     qkv_pooling_saved *saved) QKV_MUST_USE;
qkv_status qkv_pooling_layer_backward(qkv_exec *x, const qkv_pooling_layer *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                      const qkv_pooling_saved *saved) QKV_MUST_USE;

#endif
