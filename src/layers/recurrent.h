/* A recurrent layer: one projection of the inputs of all steps, then the walk along the sequences, in one direction or both at
 * once. Layers are stacked by the network; dropout between them is dropout of the input here. */
#ifndef QKV_LAYERS_RECURRENT_H
#define QKV_LAYERS_RECURRENT_H

#include "layers/layers.h"
#include "ops/linear.h"
#include "ops/recurrence.h"

typedef struct qkv_recurrent_shape {
    qkv_recur_cell cell;
    int64_t in;     /* width of the rows that come in */
    int64_t units;  /* of one direction; rows that go out are directions * units wide */
    int directions; /* 1 or 2 */
    bool peepholes; /* of an LSTM */
    double forget;  /* bias of the forget gate of an LSTM at the start; 1 is usual (Jozefowicz et al. 2015) */
    double dropout; /* of the input */
} qkv_recurrent_shape;

typedef struct qkv_recurrent {
    qkv_linear input; /* [directions * gates * units, in]: gates in the order of ops/recurrence.h, one direction after the other */
    qkv_recurrence recurrence;
    double dropout;
    uint64_t site;
} qkv_recurrent;

typedef struct qkv_recurrent_saved {
    qkv_mat in; /* after dropout */
    qkv_mat gates, hidden, cells;
} qkv_recurrent_saved;

/* prefix "encoder.0." gives encoder.0.input.weight, encoder.0.input.bias, and for each direction, "forth" and "back":
 * encoder.0.forth.weight and, where the cell has them, .candidate, .peepholes, .bias. */
qkv_status qkv_recurrent_declare(qkv_recurrent *l, qkv_reg *reg, const char *prefix, const qkv_recurrent_shape *shape,
                                 uint64_t site) QKV_MUST_USE;
/* in [N, in] must live until backward; out [N, directions * units]. ends: what stands before the first step and behind the last
 * (ops/recurrence.h); NULL: nothing. The last c of an LSTM is a row of saved->cells. */
qkv_status qkv_recurrent_forward(qkv_exec *x, const qkv_recurrent *l, const qkv_batch *batch, const qkv_recur_ends *ends, qkv_mat in,
                                 qkv_mat out, qkv_recurrent_saved *saved) QKV_MUST_USE;
qkv_status qkv_recurrent_backward(qkv_exec *x, const qkv_recurrent *l, const qkv_batch *batch, const qkv_recur_ends *ends,
                                  qkv_mat dout, qkv_mat din, const qkv_recurrent_saved *saved) QKV_MUST_USE;

#endif
