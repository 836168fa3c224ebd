/* How the places of tokens enter. Absolute positions are added to the rows of a batch; relative ones are terms of the scores of
 * attention, which all layers of an encoder share. docs/positions.md has the definitions. */
#ifndef QKV_LAYERS_POSITIONS_H
#define QKV_LAYERS_POSITIONS_H

#include "layers/layers.h"
#include "ops/attention.h"
#include "ops/position.h"

typedef struct qkv_position_shape {
    qkv_position kind;
    qkv_position_layout layout;
    qkv_position_beyond beyond;
    int64_t length; /* rows of a learned table */
    int64_t reach, buckets;
    qkv_rope_pairs pairs;
    double part; /* of a head's columns that are turned */
    qkv_rope rope; /* dim is not looked at */
    double local_base; /* of a second set of angles, for layers that ask for it; 0: there is none */
    bool causal;
} qkv_position_shape;

/* Columns of a head that are turned: an even number, two at least. */
static inline int64_t qkv_rope_columns(const qkv_position_shape *shape, int64_t head_dim) {
    const int64_t turned = 2 * (int64_t)(shape->part * (double)head_dim / 2);
    return turned < 2 ? 2 : turned;
}

/* ---- absolute: sinusoidal and learned; of other kinds nothing is added ---- */

typedef struct qkv_absolute {
    qkv_position kind;
    qkv_position_layout layout;
    qkv_position_beyond beyond;
    int64_t length, table; /* parameter number, -1: none */
} qkv_absolute;

/* Learned: parameter prefix + "position.weight" [length, dim]. */
qkv_status qkv_absolute_declare(qkv_absolute *l, qkv_reg *reg, const char *prefix, int64_t dim, const qkv_position_shape *shape) QKV_MUST_USE;
/* Adds the positions to out. */
qkv_status qkv_absolute_forward(qkv_exec *x, const qkv_absolute *l, const qkv_batch *batch, qkv_mat out) QKV_MUST_USE;
qkv_status qkv_absolute_backward(qkv_exec *x, const qkv_absolute *l, const qkv_batch *batch, qkv_mat dout) QKV_MUST_USE;

/* ---- relative ---- */

enum { QKV_ROPE_TABLES = 2 }; /* of angles: the usual one, and that of local_base */

typedef struct qkv_relative {
    qkv_position_shape shape;
    int64_t heads, head_dim;
    qkv_rope rope[QKV_ROPE_TABLES];
    int64_t table; /* parameter number of the biases by bucket, -1: none */
    /* Of the pass at hand, from qkv_relative_begin on; a plan has no numbers in them. */
    float *slopes;
    qkv_mat bias, cosine[QKV_ROPE_TABLES], sine[QKV_ROPE_TABLES];
} qkv_relative;

/* What one attention layer has of them. */
typedef struct qkv_relative_part {
    int64_t keys, values; /* parameter numbers of vectors by distance, -1: none */
    int rope;             /* which angles */
} qkv_relative_part;

/* t5: parameter prefix + "position.bias" [buckets, heads]. */
qkv_status qkv_relative_declare(qkv_relative *r, qkv_reg *reg, const char *prefix, int64_t heads, int64_t head_dim,
                                const qkv_position_shape *shape) QKV_MUST_USE;
/* shaw: prefix + "attention.position.keys" and ".values" [2 reach + 1, head_dim]. r NULL: nothing. */
qkv_status qkv_relative_declare_part(const qkv_relative *r, qkv_reg *reg, const char *prefix, qkv_relative_part *part) QKV_MUST_USE;

/* Makes the tables of a pass over this batch. They live as what qkv_keep gives; the arena must hold nothing that is released before
 * the pass is over. */
qkv_status qkv_relative_begin(qkv_exec *x, qkv_relative *r, const qkv_batch *batch) QKV_MUST_USE;

/* Adds the terms to the shape of an attention. r NULL: nothing. */
void qkv_relative_apply(const qkv_exec *x, const qkv_relative *r, const qkv_relative_part *part, qkv_attention_shape *shape);
/* Around qkv_attend_backward: room for the gradients of the terms in scratch, and then adding them to those of the parameters. Layers
 * that share a table add one after the other, the last layer first. */
qkv_status qkv_relative_before(qkv_exec *x, const qkv_relative *r, const qkv_relative_part *part, qkv_attention_shape *shape) QKV_MUST_USE;
qkv_status qkv_relative_after(qkv_exec *x, const qkv_relative *r, const qkv_relative_part *part, const qkv_attention_shape *shape) QKV_MUST_USE;

#endif
