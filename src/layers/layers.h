/* What all layers of an encoder share: the widths and choices of one block, and the numbering of dropout sites.
 *
 * A layer is three functions: declare adds its parameters to a registry; forward maps rows to rows and fills a typed
 * "saved" struct of views; backward takes that struct and adds to the gradients. What forward keeps (qkv_keep) lives until
 * backward when x->keep; otherwise it is scratch that is gone when forward returns. Every function releases its own scratch.
 * No layer knows whether it is planned or run, kept or recomputed. */
#ifndef QKV_LAYERS_LAYERS_H
#define QKV_LAYERS_LAYERS_H

#include "ops/exec.h"
#include "qkv/attention.h"
#include "qkv/model.h"

typedef struct qkv_block_shape {
    int64_t dim, heads, kv_heads, head_dim, ffn;
    qkv_norm norm;
    qkv_activation activation;
    bool post_norm, bias;
    bool no_output; /* an attention layer alone: it ends with the heads side by side, without the projection of their concatenation */
    qkv_span span;
    double norm_epsilon;
    double dropout, attention_dropout;
    int64_t layers; /* of the whole stack: residual branches start at 1/sqrt(2 layers) */
} qkv_block_shape;

/* Dropout sites. The numbers are part of what makes a run repeatable: never renumber. */
enum {
    QKV_SITE_ATTENTION = 0,     /* layer * 16 + k */
    QKV_SITE_ATTENTION_OUT = 1,
    QKV_SITE_FFN_OUT = 2,
    QKV_SITE_RECURRENT_IN = 3,
    QKV_SITES_A_LAYER = 16,
    QKV_SITE_EMBEDDING = 1 << 20,
    QKV_SITE_HEAD = (1 << 20) + 1
};

#endif
