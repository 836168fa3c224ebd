/* What a model file holds, in memory. */
#ifndef QKV_MODELS_MODEL_H
#define QKV_MODELS_MODEL_H

#include <jansson.h>

#include "formats/safetensors.h"
#include "models/bag.h"
#include "models/classifier.h"
#include "qkv/model.h"
#include "qkv/tokenizer.h"

struct qkv_model {
    qkv_ctx *ctx;
    char task[32];
    qkv_config config;
    int64_t max_length; /* tokens of a text that are read, if not as in the config; 0: as there */
    qkv_classifier *net;
    real *weights; /* one block of the registry */
    real *packed;  /* packed copies for inference; made on first use by qkv_model_pack */
    qkv_tokenizer *tokenizer;
    char **labels; /* [config.classes], NUL-terminated */
    int64_t *label_sizes;
    qkv_bag bag; /* of words, beside the network: scores to be added to its logits; config.ngrams 0: none */
    double *thresholds; /* [config.classes] where config.multi_label is set: from which probability a class is given; else NULL */
    json_t *record; /* training record: data hash, options, metrics */
};

/* NULL where the model has none. */
static inline const qkv_bag *qkv_model_bag(const qkv_model *model) { return model->bag.classes > 0 ? &model->bag : NULL; }

/* The config by which texts become input. */
static inline qkv_config qkv_model_reads(const qkv_model *model) {
    qkv_config c = model->config;
    if (model->max_length > 0) c.max_length = model->max_length;
    return c;
}

/* An empty model of this config: net made, weights allocated and zero, labels NULLs, thresholds 0.5, the record an empty object. The caller
 * fills in weights, tokenizer (the model then owns it), labels and record. */
qkv_status qkv_model_create(qkv_ctx *ctx, const char *task, const qkv_config *config, qkv_model **model) QKV_MUST_USE;
/* The same around a net made before, which the model owns from then on; on failure it still belongs to the caller. */
qkv_status qkv_model_adopt(qkv_ctx *ctx, const char *task, qkv_classifier *net, qkv_model **model) QKV_MUST_USE;

/* Makes the packed copies if there are none. Who changes the weights afterwards calls qkv_model_unpack. */
qkv_status qkv_model_pack(qkv_model *model) QKV_MUST_USE;
void qkv_model_unpack(qkv_model *model);

/* Computes with bf16 operands from now on, or with f32; the weights stay f32. */
void qkv_model_use_bf16(qkv_model *model, bool bf16);

/* QKV_NUMERIC: weights can be finite, and so large that sums are not. `what` has no number for an answer: "text 3", "news.tsv:7". */
qkv_status qkv_model_no_number(const qkv_model *model, const char *what) QKV_MUST_USE;

/* Sets one label to a copy of these bytes. */
qkv_status qkv_model_set_label(qkv_model *model, int64_t index, const char *label, int64_t size) QKV_MUST_USE;

/* How a text becomes input: its tokens, with CLS in front where the pooling is "first" (an empty range at 0), cut to
 * config->max_length. A pair is the tokens of what stands before the first tab, a SEP for the tab, the tokens of the rest; where both
 * do not fit, the longer one is cut until they are of one length, then both are. (Without a tab the second text is empty.) Writes
 * at most `capacity` of them; *count is what there is after the cut, *full_count (may be NULL) before it. Training, prediction and
 * qkv_model_tokens all come through here. */
qkv_status qkv_model_input(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, const char *text, int64_t length,
                           qkv_token *tokens, int64_t capacity, int64_t *count, int64_t *full_count) QKV_MUST_USE;

/* The numbers of tokens of the segments of such an input (text/segments.h), at most `count`; returns how many there are. Of a config
 * that reads by segments. */
int64_t qkv_model_segments(const qkv_config *config, const char *text, int64_t length, const qkv_token *tokens, int64_t count,
                           int32_t *sizes);

/* ---- the parts of the model file (docs/model-file.md) ---- */

enum { QKV_MODEL_FILE_VERSION = 1 };

/* A JSON array of strings. Labels may hold any bytes: a byte that is not part of valid UTF-8, and NUL, is written \xHH, a
 * backslash is doubled. Reading refuses any other backslash. */
qkv_status qkv_labels_to_json(const qkv_model *model, json_t **json) QKV_MUST_USE;
qkv_status qkv_labels_from_json(qkv_model *model, const char *file, const json_t *json) QKV_MUST_USE;

/* A JSON array of numbers above 0 and at most 1, one a class. */
qkv_status qkv_thresholds_to_json(const qkv_model *model, json_t **json) QKV_MUST_USE;
qkv_status qkv_thresholds_from_json(qkv_model *model, const char *file, const json_t *json) QKV_MUST_USE;

/* The tensors of a bag, and back: keys, weights and biases; none where there is no bag. */
enum { QKV_BAG_TENSORS = 3 };
int64_t qkv_bag_tensors(const qkv_bag *bag, qkv_tensor tensors[QKV_BAG_TENSORS]);
bool qkv_bag_tensor(const char *name); /* is one of them */
bool qkv_bag_is_finite(const qkv_bag *bag);
/* Needs the model's tokenizer. */
qkv_status qkv_bag_from_file(qkv_model *model, const qkv_safetensors *file) QKV_MUST_USE;

#define QKV_CHECKSUM_KEY "qkv.sha256"
/* SHA-256 over the metadata (sorted by key, without qkv.sha256 itself), the tensors' names, types and shapes in the order of
 * the data, and the data. */
void qkv_model_checksum(const qkv_metadata *metadata, int64_t n_metadata, const qkv_tensor *tensors, int64_t count, char hex[65]);
/* `status` is what reading the rest came to. A file that cannot be read and does not match its checksum either is called damaged. */
qkv_status qkv_model_check_sum(qkv_ctx *ctx, const qkv_safetensors *file, qkv_status status) QKV_MUST_USE;

/* Makes the model of an opened file; the file may be closed afterwards. */
qkv_status qkv_model_from_file(qkv_ctx *ctx, const qkv_safetensors *file, qkv_model **model) QKV_MUST_USE;

#endif
