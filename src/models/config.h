/* Every hyper-parameter of a network, and its JSON. */
#ifndef QKV_MODELS_CONFIG_H
#define QKV_MODELS_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "data/globals.h"
#include "qkv/attention.h"
#include "qkv/model.h"

typedef struct qkv_config {
    qkv_network model;
    qkv_cell_kind cell; /* of a recurrent model */
    /* What the biases of an LSTM's forget gates start with, where it is given; else 1. Of the start alone, so no file has it. */
    bool forget_given;
    double forget_bias;
    int64_t vocab, classes;
    int64_t layers, dim, heads, kv_heads, head_dim, ffn;
    int64_t max_length; /* tokens; also the rows of a learned position table */
    int64_t ngrams; /* longest run of words in the bag beside the network; 0: there is no bag */
    qkv_position position;
    /* Details of positions. 0 stands for what is usual, which qkv_config_reach and its like put in. */
    qkv_position_layout position_layout; /* of sinusoidal ones */
    qkv_position_beyond position_beyond; /* of a learned table */
    int64_t position_reach;              /* shaw: distances beyond it count as it (16); t5: from it on all share a bucket (128) */
    int64_t position_buckets;            /* t5: 32 */
    double rope_base;                    /* 10000 */
    qkv_rope_pairs rope_pairs;
    double rope_part; /* of the columns of a head that is turned, the first ones; 0: all */
    qkv_rope_stretch rope_stretch;
    double rope_factor;  /* of the stretch, at least 1; 0: 1 */
    int64_t rope_length; /* tokens that the angles without a stretch are made for, from which yarn tells its bands; 0: max_length */
    qkv_pooling pooling;
    qkv_norm norm;
    qkv_activation activation;
    qkv_norm_place norm_place;
    qkv_residual_kind residual;
    qkv_initial init;
    bool qk_norm;   /* each head's queries and keys are normalised before their product */
    bool unscaled;  /* that product is not divided by sqrt(head_dim) */
    double softcap; /* scores x become softcap * tanh(x / softcap); 0: they stay as they are */
    bool reversible; /* two streams of rows, from whose end training rebuilds what it did not keep (layers/block.h) */
    bool bias;
    qkv_segmentation segment; /* texts are read segment by segment, and their vectors by `segment_layers` more layers */
    int64_t segment_length;   /* tokens of one at most; 0: as usual */
    int64_t segment_layers;   /* 0: as usual */
    bool multi_label; /* any number of classes a text: a sigmoid each instead of one softmax */
    bool pair;        /* a text is two, with a tab between */
    bool bf16;        /* linear maps and attention with bf16 operands, in training and by default later */
    qkv_span span;
    /* What is seen beside the span, and in which layers; all 0: nothing. docs/long-text.md has the patterns. */
    int64_t dilation;                    /* neighbours stand so far apart; 0: 1 */
    int64_t global_first, global_every;  /* global tokens: the first so many, and every so many-th */
    qkv_numbers global_at, global_token; /* and those at some places, and those of some ids; with them all are lists of a batch */
    bool global_question;                /* and the first text of a pair, with the SEP behind it */
    bool global_projection;              /* they have queries, keys and values of their own */
    int64_t random_blocks, block;        /* blocks of keys for each block of queries; block 0: as usual */
    int64_t full_every;                  /* layers 0, k, 2k, ... see everything */
    double local_rope_base;              /* of the other layers; 0: as rope_base */
    double norm_epsilon;
    double dropout, attention_dropout, embedding_dropout; /* used in training only */
} qkv_config;

/* Recurrent models have no use for heads (but with attention pooling), position, kv_heads, head_dim, ffn, norm, activation,
 * bias, span, norm_epsilon and attention_dropout: this sets them to values that stand for nothing. They are not in the
 * JSON of such a model. */
void qkv_config_settle(qkv_config *c);
static inline bool qkv_config_recurrent(const qkv_config *c) { return c->model != QKV_NETWORK_TRANSFORMER; }
/* Do heads mean anything? Of a recurrent model only those of attention pooling do. */
static inline bool qkv_config_heads(const qkv_config *c) {
    return !qkv_config_recurrent(c) || c->pooling == QKV_POOL_ATTENTION;
}
static inline int qkv_config_directions(const qkv_config *c) {
    return c->model >= QKV_NETWORK_BIRNN ? 2 : 1;
}
static inline double qkv_config_forget(const qkv_config *c) {
    return c->forget_given ? c->forget_bias : 1;
}
int64_t qkv_config_reach(const qkv_config *c);
int64_t qkv_config_buckets(const qkv_config *c);
/* Tokens of a text at most: without a learned table, or where that says what is beyond it, there is no end before this one. */
enum { QKV_LONGEST = 1 << 24 };
int64_t qkv_config_longest(const qkv_config *c);
/* Does the memory of a batch depend on how its tokens are shared out to its sequences? Parts of gradients by key tile, rows of global
 * tokens, and heads that are cut where a batch has few. */
bool qkv_config_uneven(const qkv_config *c);
const char *qkv_network_name(qkv_network model); /* "bilstm" */

/* What stands for 0: segments of 128 tokens, of 16 where they are words, and one layer; 0 where the encoder knows no segments. */
int64_t qkv_config_segment_length(const qkv_config *c);
int64_t qkv_config_segment_layers(const qkv_config *c);
/* The encoder of single segments (of whole texts where there are none), and the one of their vectors: of max_length segments. */
qkv_config qkv_config_lower(const qkv_config *c);
qkv_config qkv_config_upper(const qkv_config *c);

/* Layers of attention that a forward pass goes through, those of segments too. */
static inline int64_t qkv_config_attention_layers(const qkv_config *c) {
    return qkv_config_recurrent(c) ? 0 : c->layers + qkv_config_segment_layers(c);
}

int64_t qkv_config_block(const qkv_config *c);
/* All that tells which tokens are global. */
qkv_global_rule qkv_config_globals(const qkv_config *c);
static inline bool qkv_config_global_lists(const qkv_config *c) {
    return c->global_at.count > 0 || c->global_token.count > 0 || c->global_question;
}
static inline bool qkv_config_has_globals(const qkv_config *c) {
    return c->global_first > 0 || c->global_every > 0 || qkv_config_global_lists(c);
}
/* Why attention is computed in f32 where bf16 is set: NULL: it is not. As qkv_attend_takes_bf16 has it. */
const char *qkv_config_attention_f32(const qkv_config *c);
/* Does layer `i` see everything (to the left, in a causal model)? */
bool qkv_config_layer_full(const qkv_config *c, int64_t i);
/* Sets what a pattern is made of and what is 0, or all, in the configuration. */
void qkv_config_preset(qkv_config *c, qkv_pattern_kind pattern);
/* Refuses what contradicts the name of a pattern: of all tokens, a window; of alternating layers, one layer. */
qkv_status qkv_config_check_name(qkv_ctx *ctx, qkv_pattern_kind pattern, qkv_span window, int64_t dilation, int64_t layers) QKV_MUST_USE;
qkv_status qkv_config_check_pattern(qkv_ctx *ctx, const qkv_config *c) QKV_MUST_USE;

/* Refuses a token that is to see nothing to its right and some of it. */
qkv_status qkv_config_check_causal(qkv_ctx *ctx, bool causal, qkv_span window) QKV_MUST_USE;

/* Refuses what cannot be built: heads=6 does not divide dim=256 (try 4 or 8). */
qkv_status qkv_config_check(qkv_ctx *ctx, const qkv_config *c) QKV_MUST_USE;

/* New reference. Enums are written by name; what is optional (models/config.c) only where it is not 0. */
qkv_status qkv_config_to_json(qkv_ctx *ctx, const qkv_config *c, json_t **json) QKV_MUST_USE;
/* Every key must be there, of the right type and in range, but for those that are optional; unknown
 * keys are refused (a newer file). Then checks. */
qkv_status qkv_config_from_json(qkv_ctx *ctx, const json_t *json, qkv_config *c) QKV_MUST_USE;

#endif
