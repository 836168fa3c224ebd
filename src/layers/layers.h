/* What all layers of an encoder share: the widths and choices of one block, and the numbering of dropout sites.
 *
 * A layer is three functions: declare adds its parameters to a registry; forward maps rows to rows and fills a typed
 * "saved" struct of views; backward takes that struct and adds to the gradients. What forward keeps (qkv_keep) lives until
 * backward when x->keep; otherwise it is scratch that is gone when forward returns. Every function releases its own scratch.
 * No layer knows whether it is planned or run, kept or recomputed. */
#ifndef QKV_LAYERS_LAYERS_H
#define QKV_LAYERS_LAYERS_H

#include <math.h>

#include "ops/attention_pattern.h"
#include "ops/exec.h"
#include "qkv/attention.h"
#include "qkv/model.h"

typedef struct qkv_block_shape {
    int64_t dim, heads, kv_heads, head_dim, ffn;
    qkv_norm norm;
    qkv_activation activation;
    qkv_norm_place norm_place;
    qkv_residual_kind residual;
    qkv_initial init;
    bool qk_norm, unscaled; /* as in models/config.h */
    double softcap;
    bool bias;
    bool no_output; /* an attention layer alone: it ends with the heads side by side, without the projection of their concatenation */
    qkv_span span;
    qkv_pattern pattern;                 /* what is seen beside the span */
    bool global_lists;                   /* which tokens are global is told by the lists of a batch, not by the pattern */
    bool global_projection;              /* global tokens have projections of their own */
    int rope;                            /* which of two sets of angles, with relative positions of that kind */
    const struct qkv_relative *relative; /* terms of the scores by position (layers/positions.h), of all layers; NULL: none */
    double norm_epsilon;
    double dropout, attention_dropout;
    int64_t layers; /* of the whole stack: residual branches start at 1/sqrt(2 layers) */
} qkv_block_shape;

/* What the initial deviations of a block's matrices are times, beside 1/sqrt(inputs): of queries and keys; of values and of what goes into
 * the feed-forward layer; of what ends a branch. DeepNorm: b = (8 layers)^(-1/4) for all but queries and keys (Wang et al. 2022, table 1,
 * encoders). */
typedef struct qkv_block_std {
    double in, value, out;
} qkv_block_std;

static inline qkv_block_std qkv_block_spread(const qkv_block_shape *s) {
    const double layers = s->layers > 0 ? (double)s->layers : 1, beta = pow(8 * layers, -0.25);
    switch (s->init) {
    case QKV_INIT_LARGE: return (qkv_block_std){10, 10, 10};
    case QKV_INIT_SMALL: return (qkv_block_std){0.01, 0.01, 0.01};
    case QKV_INIT_PLAIN: return (qkv_block_std){1, 1, 1};
    case QKV_INIT_SCALED: break;
    }
    return s->residual == QKV_RESIDUAL_DEEPNORM ? (qkv_block_std){1, beta, beta} : (qkv_block_std){1, 1, 1 / sqrt(2 * layers)};
}

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
