/* The network of masked-token pretraining: the encoder of a classifier, and a head that tells hidden tokens. */
#ifndef QKV_MODELS_MASKED_H
#define QKV_MODELS_MASKED_H

#include "layers/masked_head.h"
#include "models/config.h"

typedef struct qkv_masked qkv_masked;

/* Declares the parameters in a registry of its own: first those of the encoder, as a classifier of this config does; allocates
 * no weights. `recompute`: all blocks are computed again in the backward pass; see qkv_encoder_set_saving. */
qkv_status qkv_masked_create(qkv_ctx *ctx, const qkv_config *config, bool recompute, qkv_masked **net) QKV_MUST_USE;
void qkv_masked_free(qkv_masked *net);

const qkv_config *qkv_masked_config(const qkv_masked *net);
const qkv_reg *qkv_masked_reg(const qkv_masked *net);
/* How memory is saved in further passes. */
void qkv_masked_set_saving(qkv_masked *net, qkv_saving saving);

/* loss[masks->count] of each masked token; *loss_sum their sum in order. batch->ids are those after masking. x->keep false. */
qkv_status qkv_masked_loss(qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, double *loss_sum,
                           real *loss) QKV_MUST_USE;

/* The same, and adds to x->grads the gradient of loss_scale * (the sum of the losses). loss may be NULL, in a plan it is. */
qkv_status qkv_masked_learn(qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, double loss_scale,
                            double *loss_sum, real *loss) QKV_MUST_USE;

/* Sets the bias of the logits to the logarithm of each token's share of `count` [vocab] (one more of each). A network that starts
 * without it learns first how frequent tokens are, and bends the token table to that end: no use to anybody. */
void qkv_masked_set_prior(const qkv_masked *net, const int64_t *count, real *weights);

/* The encoder: reals at the start of a block of either network, the same parameters in the same places in both. */
int64_t qkv_masked_encoder_size(const qkv_masked *net);

#endif
