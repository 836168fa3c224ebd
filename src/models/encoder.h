/* What the networks of this floor share: token embeddings and positions, encoder blocks, the final norm; or recurrent layers. Its parameters come
 * first in a registry and have the same names, so two networks of one configuration agree on them. */
#ifndef QKV_MODELS_ENCODER_H
#define QKV_MODELS_ENCODER_H

#include "layers/block.h"
#include "layers/embedding_layer.h"
#include "layers/recurrent.h"
#include "models/config.h"
#include "models/net.h"

typedef struct qkv_encoder {
    qkv_ctx *ctx;
    qkv_embedding_layer embedding;
    qkv_block *blocks; /* [layers] of a transformer */
    qkv_recurrent *recurrent; /* [layers] of a recurrent model */
    qkv_norm_op norm;  /* after the blocks of a transformer; pre-norm only */
    qkv_net net;       /* blocks, and the final norm */
    int64_t size;      /* reals that its parameters take at the start of a block */
} qkv_encoder;

/* Zeroed before. `recompute`: blocks are RECOMPUTE segments. To be freed also after a failure. */
qkv_status qkv_encoder_declare(qkv_encoder *e, qkv_reg *reg, const qkv_config *config, bool recompute) QKV_MUST_USE;
void qkv_encoder_free(qkv_encoder *e);

/* Whether the blocks are RECOMPUTE segments in further passes. */
void qkv_encoder_set_recompute(qkv_encoder *e, bool recompute);

/* The widths and choices of one block of this configuration. */
qkv_block_shape qkv_encoder_shape(const qkv_config *config);
qkv_recur_cell qkv_encoder_cell(const qkv_config *config); /* of a recurrent model */

/* The first `segments` of e->net: *out [rows,dim] lives as in qkv_net_forward. */
qkv_status qkv_encoder_forward(qkv_exec *x, const qkv_encoder *e, int64_t segments, const qkv_batch *batch, qkv_mat *out) QKV_MUST_USE;
/* After a forward of all segments with x->keep. dout [rows,dim] is overwritten. Pops what forward kept but for the rows of the
 * embedding, which go when the caller releases what he marked. */
qkv_status qkv_encoder_backward(qkv_exec *x, const qkv_encoder *e, const qkv_batch *batch, qkv_mat dout, qkv_mat spare) QKV_MUST_USE;

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
