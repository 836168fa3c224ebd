/* What the networks of this floor share: token embeddings and positions, encoder blocks, the final norm; or recurrent layers. Its parameters come
 * first in a registry and have the same names, so two networks of one configuration agree on them. */
#ifndef QKV_MODELS_ENCODER_H
#define QKV_MODELS_ENCODER_H

#include "layers/block.h"
#include "layers/embedding_layer.h"
#include "layers/positions.h"
#include "layers/recurrent.h"
#include "models/config.h"
#include "models/net.h"

typedef struct qkv_encoder {
    qkv_ctx *ctx;
    qkv_embedding_layer embedding;
    qkv_block *blocks; /* [layers] of a transformer */
    qkv_relative *relative; /* positions in the scores of a transformer: what they share, and the tables of the pass at hand */
    qkv_recurrent *recurrent; /* [layers] of a recurrent model */
    qkv_norm_op norm;  /* after the blocks of a transformer; not of a post-norm one */
    qkv_net net;       /* blocks, and the final norm */
    qkv_saving saving;
    bool head_is_large; /* what follows needs more memory than a block does: then the last one, too, is better computed again */
    int64_t size;      /* reals that its parameters take at the start of a block */
} qkv_encoder;

/* Zeroed before, but for head_is_large. `recompute`: as qkv_encoder_set_saving with all blocks. To be freed also after a failure. */
qkv_status qkv_encoder_declare(qkv_encoder *e, qkv_reg *reg, const qkv_config *config, bool recompute) QKV_MUST_USE;
/* One over the vectors of segments: its rows are given, and it has positions and layers alone, segments.*. */
qkv_status qkv_encoder_declare_upper(qkv_encoder *e, qkv_reg *reg, const qkv_config *config, bool recompute) QKV_MUST_USE;
void qkv_encoder_free(qkv_encoder *e);

/* Takes over how positions go on beyond the length of training. */
void qkv_encoder_set_positions(qkv_encoder *e, const qkv_config *config);
/* How memory is saved in further passes. */
void qkv_encoder_set_saving(qkv_encoder *e, qkv_saving saving);

/* The widths and choices of one block of this configuration. */
qkv_block_shape qkv_encoder_shape(const qkv_config *config);
qkv_position_shape qkv_encoder_positions(const qkv_config *config);
qkv_recur_cell qkv_encoder_cell(const qkv_config *config); /* of a recurrent model */

/* The first `segments` of e->net: *out [rows,dim] lives as in qkv_net_forward. */
qkv_status qkv_encoder_forward(qkv_exec *x, const qkv_encoder *e, int64_t segments, const qkv_batch *batch, qkv_mat *out) QKV_MUST_USE;
/* After a forward of all segments with x->keep. dout [rows,dim] is overwritten. Pops what forward kept but for the rows of the
 * embedding, which go when the caller releases what he marked. */
qkv_status qkv_encoder_backward(qkv_exec *x, const qkv_encoder *e, const qkv_batch *batch, qkv_mat dout, qkv_mat spare) QKV_MUST_USE;

/* The same over rows that are given: positions are added to them in place. */
qkv_status qkv_encoder_forward_rows(qkv_exec *x, const qkv_encoder *e, int64_t segments, const qkv_batch *batch, qkv_mat in,
                                    qkv_mat *out) QKV_MUST_USE;
/* *din: which of dout and spare has their gradient in the end. */
qkv_status qkv_encoder_backward_rows(qkv_exec *x, const qkv_encoder *e, const qkv_batch *batch, qkv_mat dout, qkv_mat spare,
                                     qkv_mat *din) QKV_MUST_USE;

/* What every pass of a network does around its work: the arena is as it was afterwards, also after a failure. */
typedef struct qkv_frame {
    size_t low, high;
    bool keep, bf16;
    qkv_pass pass;
    qkv_place place;
} qkv_frame;

qkv_frame qkv_frame_enter(qkv_exec *x, bool keep, bool bf16);
qkv_status qkv_frame_leave(qkv_exec *x, qkv_frame f, qkv_status status) QKV_MUST_USE;

/* Refuses a pass over another registry, without weights or (training) gradients, or over sequences longer than max_length. */
qkv_status qkv_encoder_check(const qkv_exec *x, const qkv_reg *reg, const qkv_config *config, const qkv_batch *batch,
                             bool training) QKV_MUST_USE;

static inline int64_t qkv_batch_rows(const qkv_batch *batch) { return batch->n_seq > 0 ? batch->offset[batch->n_seq] : 0; }

#endif
