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
typedef enum qkv_position { QKV_POSITION_NONE, QKV_POSITION_SINUSOIDAL, QKV_POSITION_LEARNED } qkv_position;
typedef enum qkv_pooling { QKV_POOL_MEAN, QKV_POOL_FIRST, QKV_POOL_MAX, QKV_POOL_ATTENTION } qkv_pooling;
typedef enum qkv_norm { QKV_NORM_LAYER, QKV_NORM_RMS } qkv_norm;
typedef enum qkv_activation {
    QKV_ACT_GELU,      /* x * Phi(x), by erf */
    QKV_ACT_GELU_TANH, /* the tanh approximation of Hendrycks & Gimpel; differs by up to 5e-4 */
    QKV_ACT_RELU,
    QKV_ACT_SILU,
    QKV_ACT_GEGLU, /* gelu(gate) * up  (Shazeer 2020) */
    QKV_ACT_SWIGLU /* silu(gate) * up */
} qkv_activation;

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

/* Everything about the model as one JSON object: task, labels, tokenizer, config (every hyper-parameter), parameters
 * (name, shape, count, decay), bytes, linear (what the linear model beside the network knows, if there is one), operations per token,
 * record (data, options, metrics). *json is NUL-terminated;
 * give it back with qkv_release. */
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

/* How `text` becomes the model's input: its tokens, after the length limit, with a CLS of begin = end = 0 first where the
 * model pools the first token. *tokens is to be given back with qkv_release (also where *count is 0; after a failure it is
 * NULL); *full_count (the pointer may be NULL) is the count before the cut. */
QKV_API qkv_status qkv_model_tokens(const qkv_model *model, const char *text, int64_t length, qkv_token **tokens, int64_t *count,
                                    int64_t *full_count) QKV_MUST_USE;

/* Attention weights of one layer and head (from 0) for one text: weights[count][count], row = query. `count` as from
 * qkv_model_tokens. An out-of-range layer or head is QKV_BAD_ARGUMENT that says how many there are. */
QKV_API qkv_status qkv_model_attention(const qkv_model *model, const char *text, int64_t length, int64_t layer, int64_t head,
                                       float *weights) QKV_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
