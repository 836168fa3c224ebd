/* A trained model: network, tokenizer, labels and training record in one safetensors file. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include "base.h"
#include "tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkv_model qkv_model;

/* Choices of the network; the order is the order of the names in the option table. */
typedef enum qkv_network {
    QKV_NETWORK_TRANSFORMER,
    QKV_NETWORK_RNN, /* h = tanh(W x + U h' + b) */
    QKV_NETWORK_LSTM,
    QKV_NETWORK_GRU,
    QKV_NETWORK_BIRNN, /* the same in both directions, dim/2 units each */
    QKV_NETWORK_BILSTM,
    QKV_NETWORK_BIGRU
} qkv_network;
typedef enum qkv_cell_kind {
    QKV_CELL_PLAIN,
    QKV_CELL_RELU,  /* rnn: max(0, .) in place of tanh */
    QKV_CELL_PEEPHOLES,   /* lstm: the gates see the cell (Gers et al. 2002) */
    QKV_CELL_RESET_BEFORE /* gru: reset before the recurrent product (Cho et al. 2014), not after it */
} qkv_cell_kind;
/* How the places of tokens enter: see docs/positions.md for exact definitions. Absolute ones are added to the tokens' rows. */
typedef enum qkv_position {
    QKV_POSITION_NONE,
    QKV_POSITION_SINUSOIDAL,
    QKV_POSITION_LEARNED, /* a table of max_length rows */
    QKV_POSITION_SHAW,    /* vectors by distance, beside keys and values (Shaw et al. 2018) */
    QKV_POSITION_T5,      /* learned biases by buckets of distances (Raffel et al. 2020) */
    QKV_POSITION_ALIBI,   /* biases linear in the distance (Press et al. 2022) */
    QKV_POSITION_ROPE     /* queries and keys turned by their places (Su et al. 2021) */
} qkv_position;
/* Of sinusoidal ones: sin cos sin cos, or sin sin cos cos. */
typedef enum qkv_position_layout { QKV_LAYOUT_INTERLEAVED, QKV_LAYOUT_SPLIT } qkv_position_layout;
/* What a place beyond a learned table has. */
typedef enum qkv_position_beyond {
    QKV_BEYOND_ERROR,      /* nothing: no such text is read */
    QKV_BEYOND_CLAMP,      /* the last row */
    QKV_BEYOND_TILE,       /* the table again from its first row on */
    QKV_BEYOND_INTERPOLATE /* a longer text has the whole table spread evenly over it */
} qkv_position_beyond;
typedef enum qkv_rope_pairs { QKV_ROPE_HALF, QKV_ROPE_INTERLEAVED } qkv_rope_pairs; /* columns c and c + d/2; or 2c and 2c + 1 */
typedef enum qkv_rope_stretch {
    QKV_STRETCH_NONE,
    QKV_STRETCH_LINEAR, /* all angles divided by the factor (Chen et al. 2023) */
    QKV_STRETCH_NTK,    /* a larger base */
    QKV_STRETCH_YARN    /* by band, and sharper scores (Peng et al. 2023) */
} qkv_rope_stretch;
typedef enum qkv_pooling {
    QKV_POOL_MEAN,
    QKV_POOL_FIRST, /* a CLS token stands in front of the text */
    QKV_POOL_MAX,
    QKV_POOL_ATTENTION,
    QKV_POOL_LAST /* of a recurrent model in both directions: of each where it ends */
} qkv_pooling;
typedef enum qkv_norm { QKV_NORM_LAYER, QKV_NORM_RMS } qkv_norm;
typedef enum qkv_activation {
    QKV_ACT_GELU,      /* x * Phi(x), by erf */
    QKV_ACT_GELU_TANH, /* the tanh approximation of Hendrycks & Gimpel; differs by up to 5e-4 */
    QKV_ACT_RELU,
    QKV_ACT_SILU,
    QKV_ACT_GEGLU, /* gelu(gate) * up  (Shazeer 2020) */
    QKV_ACT_SWIGLU /* silu(gate) * up */
} qkv_activation;

/* Where an encoder block normalises. b is attention or feed-forward, of which a block has one after the other. */
typedef enum qkv_norm_place {
    QKV_NORM_PRE,     /* h + b(norm(h)), and one norm after the last block */
    QKV_NORM_POST,    /* norm(h + b(h)) (Vaswani et al. 2017) */
    QKV_NORM_SANDWICH /* h + norm(b(norm(h))), and one norm after the last block (Ding et al. 2021) */
} qkv_norm_place;
typedef enum qkv_residual_kind {
    QKV_RESIDUAL_PLAIN,
    QKV_RESIDUAL_DEEPNORM, /* post-norm alone: norm(a h + b(h)), a = (2 layers)^(1/4) (Wang et al. 2022) */
    QKV_RESIDUAL_NONE      /* the branch without what it is added to; to see what becomes of a network without it */
} qkv_residual_kind;
/* The spread that the matrices of the blocks start with, beside 1/sqrt(inputs). */
typedef enum qkv_initial {
    QKV_INIT_SCALED, /* what ends a branch: times 1/sqrt(2 layers); with DeepNorm as that asks for, see docs/training-stability.md */
    QKV_INIT_PLAIN,  /* all the same, however deep */
    QKV_INIT_LARGE,  /* ten times that; to see what becomes of it */
    QKV_INIT_SMALL   /* a hundredth of that; likewise */
} qkv_initial;
/* Which tokens see each other, by name: what is not given otherwise is set to what is usual for it (docs/long-text.md). */
typedef enum qkv_pattern_kind {
    QKV_PATTERN_AUTO,  /* what a window and the like say; where nothing is said, alternating from 3 layers on for texts of more than
                        * 1,024 tokens, else full */
    QKV_PATTERN_FULL,  /* all */
    QKV_PATTERN_LOCAL, /* a window */
    QKV_PATTERN_GLOBAL,      /* a window, and global tokens, which see all and are seen by all */
    QKV_PATTERN_ALTERNATING, /* layers with a window, and every third one without */
    QKV_PATTERN_SPARSE       /* a window, global tokens and random blocks */
} qkv_pattern_kind;
/* What an encoder reads on its own before a second one reads the vectors of all of them (docs/long-text.md). */
typedef enum qkv_segmentation { QKV_SEGMENT_NONE, QKV_SEGMENT_WORDS, QKV_SEGMENT_SENTENCES, QKV_SEGMENT_TOKENS } qkv_segmentation;

/* How linear maps and attention are computed. Weights, and all else, are f32 either way. */
typedef enum qkv_compute {
    QKV_COMPUTE_F32,
    /* Operands rounded to bf16 (8 significant bits) on their way into a product, sums in f32. About twice as fast where the
     * CPU has AVX512-BF16 and half the memory for packed weights; elsewhere emulated, slower than f32, which is logged. The
     * bits are the same for any number of threads and any batch, on one instruction set. */
    QKV_COMPUTE_BF16
} qkv_compute;

/* Reads a model file. `ctx` must outlive the model. A damaged, foreign or newer file is QKV_BAD_FORMAT with the reason and the place; nothing is
 * allocated from a number in the file before that number was checked against the file's size. */
QKV_API qkv_status qkv_model_load(qkv_ctx *ctx, const char *path, qkv_model **model) QKV_MUST_USE;

/* Writes to a temporary file beside `path`, syncs it and renames: a kill at any moment leaves the old file or the new. */
QKV_API qkv_status qkv_model_save(const qkv_model *model, const char *path) QKV_MUST_USE;
QKV_API void qkv_model_free(qkv_model *model); /* NULL is harmless */

/* Everything about the model as one JSON object: task, network (in words), labels, tokenizer, config (every hyper-parameter),
 * parameters (name, shape, count, decay), bytes, linear (what the linear model beside the network knows, if there is one),
 * operations per token, record (data, options, metrics). *json is NUL-terminated; give it back with qkv_release. */
QKV_API qkv_status qkv_model_describe(const qkv_model *model, char **json) QKV_MUST_USE;

/* What these point at is the model's: valid until qkv_model_free, not to be freed. */
QKV_API const char *qkv_model_task(const qkv_model *model); /* "classify" */
QKV_API const qkv_tokenizer *qkv_model_tokenizer(const qkv_model *model);
QKV_API int64_t qkv_model_dim(const qkv_model *model); /* width of the encoder, and so of a text's vector */
QKV_API int64_t qkv_model_labels(const qkv_model *model);
QKV_API int qkv_model_multi_label(const qkv_model *model); /* 1: a text has any number of labels */
QKV_API int qkv_model_pair(const qkv_model *model);        /* 1: a text is two, with a tab between */
/* From which probability a text has the label; 0 where a text has one label or the index is out of range. */
QKV_API double qkv_model_threshold(const qkv_model *model, int64_t index);
/* UTF-8 or whatever bytes the data had, NUL-terminated; NULL if out of range. */
QKV_API const char *qkv_model_label(const qkv_model *model, int64_t index);

/* What the model was trained with and computes with, unless told otherwise. Not while another call uses the model. */
QKV_API qkv_compute qkv_model_compute(const qkv_model *model);
QKV_API qkv_status qkv_model_set_compute(qkv_model *model, qkv_compute compute) QKV_MUST_USE;

/* How texts are read from now on, where that is to be otherwise than as the model was trained. */
typedef struct qkv_reading {
    size_t struct_size;    /* set by qkv_reading_init */
    int64_t max_length;    /* tokens of a text, up to 2^24; 0: as trained */
    int position_beyond;   /* of learned positions, a qkv_position_beyond; -1: as the model has it */
    int rope_stretch;      /* of rotary ones, a qkv_rope_stretch; -1: as the model has it */
    double rope_factor;    /* of the stretch, 1 .. 10^6; 0: with a stretch that is given here max_length / what the angles were made for,
                            * at least 1, else as the model has it */
} qkv_reading;
QKV_API void qkv_reading_init(qkv_reading *reading); /* as trained */

/* QKV_BAD_ARGUMENT for what the model's positions have no use for, and for a max_length beyond a learned table where nothing says
 * what is there; the model is then as it was. Models without positions, recurrent ones, and those with sinusoidal or relative positions
 * read texts of any length; docs/positions.md has figures on how well. What is not a length is written by qkv_model_save. Not while
 * another call uses the model. */
QKV_API qkv_status qkv_model_set_reading(qkv_model *model, const qkv_reading *reading) QKV_MUST_USE;

/* How `text` becomes the model's input: its tokens, after the length limit, with a CLS of begin = end = 0 first where the
 * model pools the first token. *tokens is to be given back with qkv_release (also where *count is 0; after a failure it is
 * NULL); *full_count (the pointer may be NULL) is the count before the cut. */
QKV_API qkv_status qkv_model_tokens(const qkv_model *model, const char *text, int64_t length, qkv_token **tokens, int64_t *count,
                                    int64_t *full_count) QKV_MUST_USE;

/* Attention weights of one layer and head (from 0) for one text: weights[count][count], row = query. `count` as from
 * qkv_model_tokens. Of a model that reads by segments, tokens see those of their own segment; behind its layers come those over the
 * segments: what one gives to another is shared by the tokens of that one. An out-of-range layer or head is QKV_BAD_ARGUMENT that says
 * how many there are. */
QKV_API qkv_status qkv_model_attention(const qkv_model *model, const char *text, int64_t length, int64_t layer, int64_t head,
                                       float *weights) QKV_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
