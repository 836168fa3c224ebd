/* The second level of an encoder that reads by segments (config.segment; Yang et al. 2016): the rows of a segment are pooled to one
 * vector, positions of segments are added, and layers of their own run over the vectors of a text. */
#ifndef QKV_MODELS_HIERARCHY_H
#define QKV_MODELS_HIERARCHY_H

#include "layers/pooling_layer.h"
#include "models/encoder.h"

typedef struct qkv_hierarchy {
    qkv_pooling_layer pooling;
    qkv_encoder upper; /* without a ctx: there is no second level, and rows pass through */
} qkv_hierarchy;

typedef struct qkv_hierarchy_saved {
    size_t low; /* kept bytes before it */
    qkv_mat pooled;
    qkv_pooling_saved pooling;
} qkv_hierarchy_saved;

/* Zeroed before; parameters segments.*. To be freed also after a failure. */
qkv_status qkv_hierarchy_declare(qkv_hierarchy *h, qkv_reg *reg, const qkv_config *config, bool recompute) QKV_MUST_USE;
void qkv_hierarchy_free(qkv_hierarchy *h);

/* From `rows` of the tokens, which must live until backward, to those of the batch whose sequences are texts: of its segments.
 * `layers` of the second encoder are run (qkv_net_forward). *out lives as there. */
qkv_status qkv_hierarchy_forward(qkv_exec *x, const qkv_hierarchy *h, int64_t layers, const qkv_batch *batch, qkv_mat rows,
                                 qkv_mat *out, qkv_hierarchy_saved *saved) QKV_MUST_USE;
/* The gradient of the tokens' rows from that of out, which is overwritten. Without a second level drows is dout. Pops what forward
 * kept. */
qkv_status qkv_hierarchy_backward(qkv_exec *x, const qkv_hierarchy *h, const qkv_batch *batch, qkv_mat dout, qkv_mat drows,
                                  const qkv_hierarchy_saved *saved) QKV_MUST_USE;

/* The segments of a batch of texts that are not at hand: each of `size` tokens, but for what is left over. `batch` has offsets, and
 * gets segments, which are one block: qkv_free batch->segments. Nothing where `size` is 0. */
qkv_status qkv_hierarchy_assume(qkv_ctx *ctx, int64_t size, qkv_batch *batch) QKV_MUST_USE;
/* The same of given sizes, each at least 1 token, which sum up to the texts: those of text i are size[at[i]] .. size[at[i + 1] -
 * 1]. */
qkv_status qkv_hierarchy_cut(qkv_ctx *ctx, const int64_t *at, const int32_t *size, qkv_batch *batch) QKV_MUST_USE;

static inline bool qkv_hierarchy_is(const qkv_hierarchy *h) {
    return h->upper.ctx != NULL;
}

#endif
