/* Costs by layer and by operation, from a plan with a ledger. */
#ifndef QKV_REPORT_FLOPS_H
#define QKV_REPORT_FLOPS_H

#include "layers/layers.h"
#include "models/config.h"
#include "models/saving.h"
#include "qkv/flops.h"

extern const qkv_option_table qkv_flops_table;

/* What real passes need and a plan does not: all NULL there. */
typedef struct qkv_flops_data {
    real *weights, *grads, *m, *v, *packed, *values;
    int32_t *ids, *targets;
    uint64_t *keys;
    int64_t *label_at;
} qkv_flops_data;

/* What is planned. The batch's offsets must live until the walk is over. */
typedef struct qkv_flops_walk {
    qkv_ctx *ctx;
    bool train;
    double measure; /* seconds for real passes; 0: there are none */
    qkv_saving saving;
    qkv_batch batch;
    void *listed; /* the batch's lists, where they are its own */
    qkv_exec x;
    qkv_ledger ledger;
    double weights, packed; /* reals */
    double rows;            /* reals in front of and behind a layer alone */
    int64_t dim;            /* of such a layer */
    int64_t vocab, values;  /* of a network, else 0; reals of those rows, or of a network's logits */
    qkv_flops_data data;
} qkv_flops_walk;

/* Refuses what is too much to walk or to count: `width` is that of the widest rows between two layers. */
qkv_status qkv_flops_check(qkv_ctx *ctx, const int64_t *lengths, int64_t sequences, int64_t layers, int64_t heads,
                           int64_t width) QKV_MUST_USE;

/* The configuration and, where there are no layers, the attention layer that the options describe. */
qkv_config qkv_flops_config(const qkv_flops_options *o, int64_t longest);
qkv_block_shape qkv_flops_layer(const qkv_flops_options *o);

/* Offsets of the lengths, and a zeroed ledger for `layers` blocks; to be freed also after a failure. */
qkv_status qkv_flops_begin(qkv_flops_walk *w, qkv_ctx *ctx, const int64_t *lengths, int64_t sequences, int64_t layers) QKV_MUST_USE;
/* The segments of these sequences, where the network reads by them; NULL: of the length that the config says. After begin. */
qkv_status qkv_flops_cut(qkv_flops_walk *w, const qkv_config *config, const qkv_flops_segments *segments) QKV_MUST_USE;
/* The lists of their global tokens, where the network needs them. After cut. */
qkv_status qkv_flops_list(qkv_flops_walk *w, const qkv_config *config, const qkv_flops_segments *segments) QKV_MUST_USE;
void qkv_flops_end(qkv_flops_walk *w);

/* A whole network, or a layer alone of its encoder, forward and, where w->train, backward and update; then *out from the ledger. */
qkv_status qkv_flops_network(qkv_flops_walk *w, const qkv_config *config, qkv_flops **out) QKV_MUST_USE;
qkv_status qkv_flops_attention(qkv_flops_walk *w, const qkv_block_shape *shape, qkv_flops **out) QKV_MUST_USE;
qkv_status qkv_flops_recurrent(qkv_flops_walk *w, const qkv_config *config, qkv_flops **out) QKV_MUST_USE;

/* One pass, planned or real, of what `self` is. */
typedef qkv_status qkv_flops_pass_fn(qkv_flops_walk *w, const void *self);

/* After the plan and its sums: runs passes on random weights and tokens for about w->measure seconds, at least three, and tells
 * flops->pass_s and passes. */
qkv_status qkv_flops_run(qkv_flops_walk *w, qkv_flops_pass_fn *pass, const void *self, qkv_flops *flops) QKV_MUST_USE;

/* The sums of a walk that is done. */
qkv_status qkv_flops_sums(const qkv_flops_walk *w, qkv_flops **out) QKV_MUST_USE;

#endif
