/* What describes a network, as lines of an option table and as fields of a configuration: trainings and counts of costs share
 * them. */
#ifndef QKV_MODELS_OPTIONS_H
#define QKV_MODELS_OPTIONS_H

#include "models/config.h"
#include "qkv/options.h"

/* AT(field) is the field's offset in the table's struct, GROUP the heading, NETWORK what a line needs that is of the layers of a
 * network, "model=transformer" and more; other lines are of attention alone, too. */
#define QKV_NETWORK_INT(name, at, most, GROUP, needs, help)                                                                        \
    { name, QKV_OPTION_INT, at, "0", 0, most, NULL, GROUP, help, needs }
#define QKV_NETWORK_REAL(name, at, most, GROUP, needs, help)                                                                       \
    { name, QKV_OPTION_REAL, at, "0", 0, most, NULL, GROUP, help, needs }
#define QKV_NETWORK_BOOL(name, at, GROUP, needs, help)                                                                             \
    { name, QKV_OPTION_BOOL, at, "no", 0, 1, NULL, GROUP, help, needs }
#define QKV_NETWORK_CHOICE(name, at, fallback, choices, GROUP, needs, help)                                                        \
    { name, QKV_OPTION_CHOICE, at, fallback, 0, 0, choices, GROUP, help, needs }
#define QKV_NETWORK_ATTENDS "model=transformer"

#define QKV_BLOCK_OPTIONS(AT, GROUP, NETWORK)                                                                                      \
    QKV_NETWORK_INT("kv-heads", AT(kv_heads), 4096, GROUP, QKV_NETWORK_ATTENDS,                                                    \
                    "key/value heads, a divisor of heads (0: as heads; 1: multi-query)"),                                          \
        QKV_NETWORK_INT("ffn", AT(ffn), 1 << 20, GROUP, NETWORK, "width inside the feed-forward layers (0: 4 * dim)"),             \
        QKV_NETWORK_CHOICE("activation", AT(activation), "gelu", "gelu|gelu-tanh|relu|silu|geglu|swiglu", GROUP, NETWORK,          \
                           "of the feed-forward layers"),                                                                          \
        QKV_NETWORK_CHOICE("norm", AT(norm), "layer", "layer|rms", GROUP, NETWORK, "normalisation"),                               \
        QKV_NETWORK_CHOICE("norm-place", AT(norm_place), "pre", "pre|post|sandwich", GROUP, NETWORK,                               \
                           "before each layer, after each residual sum, or before and after each layer"),                          \
        QKV_NETWORK_CHOICE("residual", AT(residual), "plain", "plain|deepnorm|none", GROUP, NETWORK,                               \
                           "what a layer is added to: see docs/training-stability.md"),                                            \
        QKV_NETWORK_BOOL("reversible", AT(reversible), GROUP, NETWORK,                                                             \
                         "two streams of rows, from whose end training rebuilds what it did not keep"),                            \
        QKV_NETWORK_BOOL("qk-norm", AT(qk_norm), GROUP, QKV_NETWORK_ATTENDS, "normalise each head's queries and keys"),            \
        QKV_NETWORK_REAL("softcap", AT(softcap), 1e6, GROUP, QKV_NETWORK_ATTENDS,                                                  \
                         "attention scores x become softcap * tanh(x / softcap) (0: no cap)")

#define QKV_PATTERN_OPTIONS(AT, GROUP, NETWORK)                                                                                    \
    QKV_NETWORK_BOOL("causal", AT(causal), GROUP, QKV_NETWORK_ATTENDS, "a token sees itself and what stands to its left"),         \
        {"window",                                                                                                                 \
         QKV_OPTION_SPAN,                                                                                                          \
         AT(window),                                                                                                               \
         "-1,-1",                                                                                                                  \
         0,                                                                                                                        \
         0,                                                                                                                        \
         NULL,                                                                                                                     \
         GROUP,                                                                                                                    \
         "neighbours a token sees to its left and right, itself not counted (-1: all)",                                            \
         QKV_NETWORK_ATTENDS},                                                                                                     \
        QKV_NETWORK_CHOICE("pattern", AT(pattern), "auto", "auto|full|local|global|alternating|sparse", GROUP,                     \
                           QKV_NETWORK_ATTENDS,                                                                                    \
                           "who sees whom, by name: sets what of the following is not given (docs/long-text.md)"),                 \
        QKV_NETWORK_INT("dilation", AT(dilation), 65536, GROUP, QKV_NETWORK_ATTENDS,                                               \
                        "neighbours of the window stand so far apart (0: 1)"),                                                     \
        QKV_NETWORK_INT("global-first", AT(global_first), 1 << 24, GROUP, QKV_NETWORK_ATTENDS,                                     \
                        "the first so many tokens see all and are seen by all"),                                                   \
        QKV_NETWORK_INT("global-every", AT(global_every), 1 << 24, GROUP, QKV_NETWORK_ATTENDS,                                     \
                        "so do tokens 0, k, 2k, ... (0: none)"),                                                                   \
        {"global-at",        QKV_OPTION_TEXT, AT(global_at), "", 0, 0, NULL, GROUP, "so do tokens at these places: 0,5,17",        \
         QKV_NETWORK_ATTENDS},                                                                                                     \
        QKV_NETWORK_BOOL("global-projection", AT(global_projection), GROUP, QKV_NETWORK_ATTENDS,                                   \
                         "such tokens have queries, keys and values of their own"),                                                \
        QKV_NETWORK_INT("random-blocks", AT(random_blocks), 64, GROUP, QKV_NETWORK_ATTENDS,                                        \
                        "blocks of tokens that each block of tokens sees beside its window"),                                      \
        QKV_NETWORK_INT("block", AT(block), 65536, GROUP, QKV_NETWORK_ATTENDS, "tokens of such a block (0: 64)"),                  \
        QKV_NETWORK_INT("full-every", AT(full_every), 4096, GROUP, NETWORK,                                                        \
                        "layers 0, k, 2k, ... see everything, whatever the window (0: none)")

#define QKV_POSITION_OPTIONS(AT, GROUP, NETWORK)                                                                                   \
    QKV_NETWORK_CHOICE("position", AT(position), "learned", "none|sinusoidal|learned|shaw|t5|alibi|rope", GROUP, NETWORK,          \
                       "how positions enter: see docs/positions.md"),                                                              \
        QKV_NETWORK_INT("position-reach", AT(position_reach), 1 << 16, GROUP, NETWORK " position=shaw|t5",                         \
                        "distance from which on all are alike (0: shaw 16, t5 128)"),                                              \
        QKV_NETWORK_INT("position-buckets", AT(position_buckets), 1 << 16, GROUP, NETWORK " position=t5",                          \
                        "of distances, an even number (0: 32)"),                                                                   \
        QKV_NETWORK_REAL("rope-part", AT(rope_part), 1, GROUP, NETWORK " position=rope",                                           \
                         "share of a head's columns that turns, the first ones (0: all)")

/* Initialisers of a qkv_config from the fields that the structs of both tables have under the same names. */
#define QKV_NETWORK_FIELDS(o)                                                                                                      \
    .model = (qkv_network)(o)->model, .cell = (qkv_cell_kind)(o)->cell, .dim = (o)->dim, .heads = (o)->heads,                      \
    .kv_heads = (o)->kv_heads > 0 ? (o)->kv_heads : (o)->heads,                                                                    \
    .head_dim = (o)->heads > 0 && (o)->dim > (o)->heads ? (o)->dim / (o)->heads : 1,                                               \
    .ffn = (o)->ffn > 0 ? (o)->ffn : 4 * (o)->dim, .position = (qkv_position)(o)->position,                                        \
    .position_beyond = (qkv_position_beyond)(o)->position_beyond, .position_reach = (o)->position_reach,                           \
    .position_buckets = (o)->position_buckets, .rope_part = (o)->rope_part, .pooling = (qkv_pooling)(o)->pooling,                  \
    .norm = (qkv_norm)(o)->norm, .activation = (qkv_activation)(o)->activation, .norm_place = (qkv_norm_place)(o)->norm_place,     \
    .residual = (qkv_residual_kind)(o)->residual, .qk_norm = (o)->qk_norm != 0, .softcap = (o)->softcap,                           \
    .reversible = (o)->reversible != 0, .segment_length = (o)->segment_length, .segment_layers = (o)->segment_layers,              \
    .multi_label = (o)->multi_label != 0, .bf16 = (o)->dtype == QKV_COMPUTE_BF16,                                                  \
    .span = {(o)->window.left, (o)->causal ? 0 : (o)->window.right}, .dilation = (o)->dilation, .global_first = (o)->global_first, \
    .global_every = (o)->global_every, .global_projection = (o)->global_projection != 0, .random_blocks = (o)->random_blocks,      \
    .block = (o)->block, .full_every = (o)->full_every, .norm_epsilon = 1e-5, .dropout = (o)->dropout,                             \
    .attention_dropout = (o)->attention_dropout, .embedding_dropout = (o)->embedding_dropout

#endif
