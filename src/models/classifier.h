/* The network of a text classifier: embedding and positions, encoder blocks, final norm, pooling, linear head. */
#ifndef QKV_MODELS_CLASSIFIER_H
#define QKV_MODELS_CLASSIFIER_H

#include "models/config.h"
#include "ops/exec.h"

typedef struct qkv_classifier qkv_classifier;

/* Declares the parameters in a registry of its own; allocates no weights. `recompute`: all blocks are computed again in the backward
 * pass; see qkv_encoder_set_saving. */
qkv_status qkv_classifier_create(qkv_ctx *ctx, const qkv_config *config, bool recompute, qkv_classifier **net) QKV_MUST_USE;
void qkv_classifier_free(qkv_classifier *net);

const qkv_config *qkv_classifier_config(const qkv_classifier *net);
const qkv_reg *qkv_classifier_reg(const qkv_classifier *net);
int64_t qkv_classifier_encoder_size(const qkv_classifier *net); /* reals at the start of a block, as qkv_masked_encoder_size */

/* Whether further passes are bf16 ones; packed copies must be made anew. */
void qkv_classifier_set_bf16(qkv_classifier *net, bool bf16);
/* Takes over how positions go on beyond the length of training: position_beyond and the stretch of the angles. */
void qkv_classifier_set_positions(qkv_classifier *net, const qkv_config *config);
/* How memory is saved in further passes. */
void qkv_classifier_set_saving(qkv_classifier *net, qkv_saving saving);

/* Multiplies the logits of the network by so much, by its last layer. */
void qkv_classifier_scale(const qkv_classifier *net, double factor, real *weights);

/* Initial values of a whole block from the registry's init fields, keyed (seed, parameter, element). */
void qkv_reg_init(const qkv_reg *reg, uint64_t seed, real *weights);

/* Size in reals of the packed copies of all weights, and the packing (for inference). */
int64_t qkv_reg_packed_size(const qkv_reg *reg, bool bf16);
void qkv_reg_pack(const qkv_ctx *ctx, const qkv_reg *reg, bool bf16, const real *weights, real *packed);

/* Logits [n_seq, classes] of a batch. The caller owns `logits` (p NULL in a plan). x->keep false. */
qkv_status qkv_classifier_forward(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat logits) QKV_MUST_USE;

/* What the pooling gives, [n_seq, dim]: the encoder's share of what the head sees. As above otherwise. */
qkv_status qkv_classifier_vectors(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat vectors) QKV_MUST_USE;

/* What a batch is trained towards. */
typedef struct qkv_aims {
    const int32_t *target;   /* [n_seq] one class each; NULL in a plan and where config.multi_label is set */
    const int64_t *label_at; /* multi_label: the classes of sequence s are labels[label_at[s]] .. labels[label_at[s+1] - 1] */
    const int32_t *labels;
    const real *weight; /* [classes] of the loss of a sequence of that class (multi_label: of the terms of its labels); NULL: 1 */
    double smoothing;
} qkv_aims;

/* Forward, label-smoothed loss, backward: adds to x->grads the gradient of loss_scale * sum over sequences of the loss.
 * *loss_sum is the sum of the (unscaled) losses; loss[n_seq] (may be NULL) each of them. In a plan only aims->weight != NULL is
 * looked at. */
qkv_status qkv_classifier_learn(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, const qkv_aims *aims,
                                double loss_scale, double *loss_sum, real *loss) QKV_MUST_USE;

/* The same for one class a sequence, all alike. */
qkv_status qkv_classifier_step(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, const int32_t *target, double smoothing,
                               double loss_scale, double *loss_sum, real *loss) QKV_MUST_USE;

/* Attention weights [n][n] of one layer and head for a batch of one sequence. Where it is read by segments, tokens see those of their own
 * segment; behind the layers come those of the segments, in which what one gives to another is shared by the tokens of that one. */
qkv_status qkv_classifier_weights(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, int64_t layer, int64_t head,
                                  real *weights) QKV_MUST_USE;

#endif
