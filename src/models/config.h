/* Every hyper-parameter of a network, and its JSON. */
#ifndef QKV_MODELS_CONFIG_H
#define QKV_MODELS_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "qkv/attention.h"
#include "qkv/model.h"

typedef struct qkv_config {
    qkv_network model;
    qkv_cell_kind cell; /* of a recurrent model */
    int64_t vocab, classes;
    int64_t layers, dim, heads, kv_heads, head_dim, ffn;
    int64_t max_length; /* tokens; also the rows of a learned position table */
    int64_t ngrams; /* longest run of words in the bag beside the network; 0: there is no bag */
    qkv_position position;
    qkv_pooling pooling;
    qkv_norm norm;
    qkv_activation activation;
    bool post_norm, bias;
    bool multi_label; /* any number of classes a text: a sigmoid each instead of one softmax */
    bool pair;        /* a text is two, with a tab between */
    bool bf16;        /* linear maps and attention with bf16 operands, in training and by default later */
    qkv_span span;
    double norm_epsilon;
    double dropout, attention_dropout, embedding_dropout; /* used in training only */
} qkv_config;

/* Recurrent models have no use for position, kv_heads, head_dim, ffn, norm, activation, post_norm, bias, span, norm_epsilon and
 * attention_dropout: this sets them to values that stand for nothing. They are not in the JSON of such a model. */
void qkv_config_settle(qkv_config *c);
static inline bool qkv_config_recurrent(const qkv_config *c) { return c->model != QKV_NETWORK_TRANSFORMER; }
/* Do heads mean anything? Of a recurrent model only those of attention pooling do. */
static inline bool qkv_config_heads(const qkv_config *c) { return !qkv_config_recurrent(c) || c->pooling == QKV_POOL_ATTENTION; }
static inline int qkv_config_directions(const qkv_config *c) { return c->model >= QKV_NETWORK_BIRNN ? 2 : 1; }
const char *qkv_network_name(qkv_network model); /* "bilstm" */

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
