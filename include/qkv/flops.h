/* What a network costs: parameters, operations, bytes, memory, by layer and by operation, before anything is run.
 *
 * The numbers come from a plan: the functions that train and predict are walked with no data, and book what they would do.
 * So they are those of this program, and `qkv train`, `qkv bench` and `qkv info` print the same ones.
 *
 * The convention. A multiply-add of a matrix product is 2 FLOPs; `macs` are those multiply-adds, and nothing else is among
 * them. All other arithmetic (bias gradients, softmax, norms, activations, sums, losses, the optimizer) is counted one FLOP an
 * operation, exp, tanh, erf, divisions and roots too, and is in `flops` alone. Adding a bias is not counted: it is where the sum
 * begins. Attention counts the pairs of tokens that see each other, so a causal layer costs about half of a full one; what its
 * tiles multiply beyond that is in `executed`. docs/flops.md has the list. */
#ifndef QKV_FLOPS_H
#define QKV_FLOPS_H

#include "attention.h"
#include "base.h"
#include "data.h"
#include "model.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qkv_flops_biases {
    QKV_FLOPS_BIASES_AUTO, /* of a network: yes, as it is trained; of an attention layer alone: no. Recurrent layers always have
                              them */
    QKV_FLOPS_BIASES_YES,
    QKV_FLOPS_BIASES_NO
} qkv_flops_biases;

/* How texts fall into segments, for a network that reads by them: those of text i have size[at[i]] .. size[at[i + 1] - 1] tokens each. */
typedef struct qkv_flops_segments {
    int64_t *at;   /* [texts + 1]; NULL: there are none. All four are to be given back with qkv_release */
    int32_t *size; /* 1 or more, and of a text as many together as it has tokens */
    /* Of a model whose global tokens are told by what they are; else NULL: those of segment i (of text i, where there are no
     * segments) stand at global_at[global_offset[i]] .. global_at[global_offset[i + 1] - 1] in it, ascending. */
    int64_t *global_offset, *global_at;
} qkv_flops_segments;

/* Filled by qkv_options_default(qkv_flops_options_table(), &options); see `qkv flops` for what each means. */
typedef struct qkv_flops_options {
    /* network; not looked at where a model is given */
    int model, cell; /* qkv_network, qkv_cell_kind */
    int64_t layers;  /* encoder blocks or recurrent layers, between an embedding and a head; 0: one layer alone: attention (without
                      * norm  and feed-forward), or a recurrent one */
    int64_t dim, heads, kv_heads, ffn, vocab, classes;
    int64_t max_length;                      /* rows of the learned position table; 0: the longest sequence */
    int output_projection;                   /* 0: an attention layer alone ends with the heads side by side */
    int position, pooling, norm, activation; /* the enums of model.h */
    int64_t position_reach, position_buckets; /* 0: as usual */
    double rope_part;                         /* 0: all */
    int position_beyond;                      /* qkv_position_beyond: of tokens beyond the learned table */
    int norm_place, residual, qk_norm, reversible, causal, multi_label;
    double softcap; /* of the attention scores; 0: none */
    qkv_span window;
    int pattern; /* qkv_pattern_kind: sets what of the following, and of window, is 0 or all (docs/long-text.md) */
    int64_t dilation; /* neighbours in the window stand so far apart; 0: 1 */
    int64_t global_first, global_every;   /* tokens that see all and are seen by all: the first so many, and every so many-th */
    char global_at[QKV_OPTION_TEXT_SIZE]; /* and those at places "0,5,17" */
    int global_projection;                /* 1: they have queries, keys and values of their own */
    int64_t random_blocks, block;         /* so many blocks of keys for each block of queries; block 0: 64 */
    int64_t full_every;                   /* layers 0, k, 2k, ... see everything */
    int segment;                          /* qkv_segmentation: as in training */
    int64_t segment_length, segment_layers;
    const qkv_flops_segments *segments; /* of the sequences that are counted, also where a model is given; NULL: each of segment_length
                                         * tokens. In no table */
    int biases;                                           /* qkv_flops_biases; in no table */
    double dropout, attention_dropout, embedding_dropout; /* used where train is set */
    int dtype;                                            /* qkv_compute */
    /* passes */
    int train;               /* 1: forward, backward and one update by AdamW; 0: forward */
    int recompute;           /* in the backward pass instead of keeping: none, blocks, sqrt (of the layers), attention, pointwise */
    int64_t recompute_every; /* with blocks: so many in a row at a time; 0: 1 */
    int64_t ffn_chunk;       /* where it trains: rows that a feed-forward layer goes over at a time; 0: all */
    double measure;          /* seconds, 0 to 1e6: the pass is also run, on random weights and tokens, over and over for so long
                              * and at least three times; 0: nothing is run. In no table */
    qkv_data_options data;   /* of the file that qkv_flops_lengths reads; no count looks at them */
} qkv_flops_options;

QKV_API const qkv_option_table *qkv_flops_options_table(void);

typedef struct qkv_flops_sum {
    double macs;     /* multiply-adds of products, of pairs that see each other */
    double flops;    /* 2 * macs and all other arithmetic */
    double executed; /* multiply-adds that the kernels compute for those products, whole tiles */
    double bytes;    /* operands read and results written, each once an operation */
} qkv_flops_sum;

typedef enum qkv_flops_pass {
    QKV_FLOPS_FORWARD,
    QKV_FLOPS_BACKWARD,
    QKV_FLOPS_RECOMPUTE,
    QKV_FLOPS_OPTIMIZER,
    QKV_FLOPS_PASSES
} qkv_flops_pass;
QKV_API const char *qkv_flops_pass_name(qkv_flops_pass pass); /* "forward", ... */

typedef struct qkv_flops_part {
    char name[40]; /* of a layer: "encoder.0"; of an operation: "projections" */
    int64_t parameters;
    qkv_flops_sum pass[QKV_FLOPS_PASSES];
    qkv_flops_sum total;
} qkv_flops_part;

typedef struct qkv_flops {
    char what[1700]; /* the network in words */
    char batch[120]; /* the sequences in words */
    int alone;       /* 1: a layer alone */
    int train, dtype;
    int attention_f32;       /* 1: at bf16, attention is computed in f32 all the same */
    int recompute;           /* 1: something is computed again in the backward pass, as qkv_train_plan has it: */
    int recompute_part;      /* of each block; 0: nothing, 1: what norms and activations give, 2: queries, keys and values, too */
    int64_t recompute_every; /* so many blocks in a row together; 0: blocks are kept */
    int64_t ffn_chunk;       /* feed-forward layers go over so many rows at a time; 0: over all */
    int64_t sequences, tokens, shortest, longest;
    int64_t segments; /* of all sequences; 0: they are read as wholes */
    double pairs, all_pairs; /* of tokens, one head of one layer: those that see each other (0: nothing attends); length * length */
    qkv_flops_part total;
    qkv_flops_part *layers, *operations; /* two ways to break the same total down */
    int64_t layer_count, operation_count;
    /* Memory of the network, in bytes, for as many threads as the context has; of data, tokenizer and program nothing. */
    double weight_bytes;     /* without training also their packed copies */
    double state_bytes;      /* gradients and the two moments, where it trains */
    double activation_bytes; /* the peak of what a pass keeps and of its scratch */
    double row_bytes;        /* of a layer alone: its input and output, and their gradients */
    double peak_bytes;       /* the sum */
    /* With options->measure: seconds of one pass, the median, with the threads of the context, and how many were timed; 0: none, or
     * there is nothing to multiply. */
    double pass_s;
    int64_t passes;
    /* The linear model beside a model's network, in none of the sums above. It has a weight a class for each run of words that it
     * knows, and adds up those of a text: where a token is a word, at most so many additions. 0: there is none. */
    int64_t linear_features, linear_weights;
    double linear_flops;
} qkv_flops;

/* Of the network that `options` describe, for `sequences` sequences of lengths[i] tokens in one batch. 0 sequences and lengths of 0
 * are legal and cost what they cost. A network that cannot be built is QKV_BAD_CONFIG; lengths below 0 or beyond 2^24, more than
 * 2^20 sequences, and a batch of more than 2^29 tokens (and heads of sequences) times layers, or of more bytes than 2^60, are
 * QKV_BAD_ARGUMENT.
 * With options->measure, QKV_NO_MEMORY before anything big is allocated where the system has not enough available, and QKV_STOPPED
 * where the stop callback asked between two passes.
 * *flops is to be given back with qkv_release; on failure it is NULL. */
QKV_API qkv_status qkv_flops_count(qkv_ctx *ctx, const qkv_flops_options *options, const int64_t *lengths, int64_t sequences,
                                   qkv_flops **flops) QKV_MUST_USE;

/* Of a model's network; of the options only dtype, train, what is recomputed, ffn_chunk, measure and segments are looked at. Where
 * its global tokens are told by what they are, segments must have them: QKV_BAD_ARGUMENT. Its linear model stands apart from
 * it in the result. A length beyond the model's limit is QKV_BAD_ARGUMENT. */
QKV_API qkv_status qkv_flops_count_model(const qkv_model *model, const qkv_flops_options *options, const int64_t *lengths,
                                         int64_t sequences, qkv_flops **flops) QKV_MUST_USE;

/* The tokens of each text of a data file, as the model reads them: cut at its limit, labels left out. A file with labels is known
 * by its first line, as where it is trained on, so training on these rows books the same; of another each line is a text. `data`
 * may be NULL: all defaults. More than 2^20 texts are QKV_BAD_DATA. *lengths is to be given back with qkv_release. *segments (the
 * pointer may be NULL) are those of the texts, where the model reads by them, and their global tokens, where they are told by what
 * they are. */
QKV_API qkv_status qkv_flops_lengths(const qkv_model *model, const char *path, const qkv_data_options *data, int64_t **lengths,
                                     int64_t *count, qkv_flops_segments *segments) QKV_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
