/* Reading a model file. Every number of the config is held against the tensors that are really in the file before anything
 * is allocated from it. The checksum is compared last, so that a message names the cause where it can. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "formats/json.h"
#include "models/model.h"
#include "text/tokenizer.h"

enum { DEPTH_CONFIG = 4, DEPTH_LABELS = 2, DEPTH_TOKENIZER = 8, DEPTH_RECORD = 32 };

/* ---- metadata ---- */

static qkv_status metadata_of(qkv_ctx *ctx, const qkv_safetensors *file, const char *key, const char **value) {
    *value = qkv_safetensors_metadata(file, key);
    if (*value) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the metadata has no %s", qkv_safetensors_name(file), key);
}

static qkv_status check_version(qkv_ctx *ctx, const qkv_safetensors *file) {
    const char *name = qkv_safetensors_name(file), *text = qkv_safetensors_metadata(file, "qkv.version");
    if (!text) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: a safetensors file, but not a qkv model (no qkv.version in its metadata)", name);
    }
    int64_t version;
    if (!qkv_parse_int(text, strlen(text), &version) || version < 1) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: qkv.version is \"%.20s\", not a version", name, text);
    }
    if (version > QKV_MODEL_FILE_VERSION) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: made by a newer qkv, file version %lld, this one reads %d", name,
                        (long long)version, QKV_MODEL_FILE_VERSION);
    }
    return QKV_OK;
}

static qkv_status json_of(qkv_ctx *ctx, const qkv_safetensors *file, const char *key, int depth, json_t **json) {
    *json = NULL;
    const char *text;
    QKV_TRY(metadata_of(ctx, file, key, &text));
    char what[320];
    snprintf(what, sizeof what, "%s: %s", qkv_safetensors_name(file), key);
    return qkv_json_parse(ctx, what, text, (int64_t)strlen(text), depth, json);
}

/* Puts the file and the key in front of a message that does not know them. */
static qkv_status blame(qkv_ctx *ctx, const qkv_safetensors *file, const char *key, qkv_status status) {
    if (status == QKV_OK || status == QKV_NO_MEMORY) return status;
    return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: %s: %s", qkv_safetensors_name(file), key, ctx->message);
}

/* ---- config against tensors ---- */

static bool product_over(int64_t a, int64_t b, int64_t limit) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > limit;
}

/* A table of sinusoidal positions is computed, so nothing in the file vouches for its size. */
#define SINUSOIDAL_LIMIT ((int64_t)1 << 26)

/* Each matrix that the config speaks of must fit into what the file holds. Afterwards no size computed from the config can
 * overflow, and the registry is no larger than the file's header. */
static qkv_status check_scale(qkv_ctx *ctx, const qkv_safetensors *file, const qkv_config *c) {
    int64_t held = 0, count = qkv_safetensors_count(file);
    for (int64_t i = 0; i < count; i++) held += qkv_safetensors_at(file, i)->count;
    const char *name = qkv_safetensors_name(file);
    const int64_t layers = c->layers + qkv_config_segment_layers(c);
    if (layers > count) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the config has layers=%lld, the file only %lld tensors", name, (long long)layers,
                        (long long)count);
    }
    const bool segments = c->segment != QKV_SEGMENT_NONE, learned = c->position == QKV_POSITION_LEARNED;
    const int64_t lower = qkv_config_lower(c).max_length, upper = segments ? qkv_config_upper(c).max_length : 0; /* positions of both */
    int64_t attention_rows = 0;
    bool over = __builtin_mul_overflow(c->kv_heads, 2, &attention_rows) ||
                __builtin_add_overflow(attention_rows, c->heads, &attention_rows) ||
                __builtin_mul_overflow(attention_rows, c->head_dim, &attention_rows);
    const struct {
        const char *what;
        int64_t rows;
    } matrices[] = {{"vocab", c->vocab},
                    {"classes", c->classes},
                    {"heads * head_dim", c->layers ? (over ? INT64_MAX : attention_rows) : 0},
                    {"ffn", c->layers ? c->ffn : 0},
                    {"max_length", learned ? lower : 0},
                    {"max_length (segments)", learned ? upper : 0}};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        if (!product_over(matrices[i].rows, c->dim, held)) continue;
        return qkv_fail(ctx, QKV_BAD_FORMAT,
                        "%s: the config asks for a matrix of %s x dim=%lld, the file holds %lld numbers in all", name,
                        matrices[i].what, (long long)c->dim, (long long)held);
    }
    if (c->position == QKV_POSITION_T5 && c->layers && product_over(qkv_config_buckets(c), c->heads, held)) {
        return qkv_fail(ctx, QKV_BAD_FORMAT,
                        "%s: the config asks for a matrix of position_buckets=%lld x heads=%lld, the file holds %lld numbers in all",
                        name, (long long)qkv_config_buckets(c), (long long)c->heads, (long long)held);
    }
    if (c->position == QKV_POSITION_SINUSOIDAL &&
        product_over(lower > upper ? lower : upper, c->dim, held > SINUSOIDAL_LIMIT ? held : SINUSOIDAL_LIMIT)) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: max_length=%lld is more than a file of this size can mean", name,
                        (long long)c->max_length);
    }
    return QKV_OK;
}

static void shape_text(const qkv_tensor *t, char *out, size_t size) {
    size_t at = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < t->rank && at < size; i++) {
        at += (size_t)snprintf(out + at, size - at, i ? ", %lld" : "%lld", (long long)t->shape[i]);
    }
    if (at < size) snprintf(out + at, size - at, "]");
}

static qkv_status check_tensor(qkv_ctx *ctx, const qkv_safetensors *file, const qkv_param *p) {
    const char *name = qkv_safetensors_name(file);
    const qkv_tensor *t = qkv_safetensors_find(file, p->name);
    if (!t) return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" of the config's network is missing", name, p->name);
    qkv_dtype wanted = sizeof(real) == 8 ? QKV_DTYPE_F64 : QKV_DTYPE_F32;
    if (t->dtype != wanted) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" holds %s, expected %s", name, p->name, qkv_dtype_name(t->dtype),
                        qkv_dtype_name(wanted));
    }
    qkv_tensor asked = {.rank = p->vector ? 1 : 2, .shape = {p->vector ? p->rows * p->cols : p->rows, p->vector ? 0 : p->cols}};
    bool same = t->rank == asked.rank;
    for (int i = 0; same && i < t->rank; i++) same = t->shape[i] == asked.shape[i];
    if (same) return QKV_OK;
    char has[96], wants[96];
    shape_text(t, has, sizeof has);
    shape_text(&asked, wants, sizeof wants);
    return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" is %s, the config asks for %s", name, p->name, has, wants);
}

static bool registered(const qkv_reg *reg, const char *name) {
    for (int64_t i = 0; i < reg->count; i++) {
        if (strcmp(reg->params[i].name, name) == 0) return true;
    }
    return false;
}

static qkv_status check_tensors(qkv_ctx *ctx, const qkv_safetensors *file, const qkv_reg *reg, bool bag) {
    for (int64_t i = 0; i < reg->count; i++) QKV_TRY(check_tensor(ctx, file, &reg->params[i]));
    for (int64_t i = 0; i < qkv_safetensors_count(file); i++) {
        const char *name = qkv_safetensors_at(file, i)->name;
        if (registered(reg, name) || (bag && qkv_bag_tensor(name))) continue;
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: tensor \"%.80s\" is not part of the config's network", qkv_safetensors_name(file),
                        name);
    }
    return QKV_OK;
}

/* ---- the model ---- */

static qkv_status read_weights(qkv_model *model, const qkv_safetensors *file) {
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        real *w = model->weights + p->offset;
        QKV_TRY(qkv_tensor_reals(model->ctx, qkv_safetensors_find(file, p->name), w));
        for (int64_t k = 0; k < p->rows * p->cols; k++) {
            if (isfinite(w[k])) continue;
            return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" holds a value that is not finite (element %lld)",
                            qkv_safetensors_name(file), p->name, (long long)k);
        }
    }
    return QKV_OK;
}

static qkv_status read_config(qkv_ctx *ctx, const qkv_safetensors *file, qkv_config *config) {
    json_t *json;
    QKV_TRY(json_of(ctx, file, "qkv.config", DEPTH_CONFIG, &json));
    qkv_status status = qkv_config_from_json(ctx, json, config);
    json_decref(json);
    QKV_TRY(blame(ctx, file, "qkv.config", status));
    return check_scale(ctx, file, config);
}

static qkv_status read_tokenizer(qkv_model *model, const qkv_safetensors *file) {
    qkv_ctx *ctx = model->ctx;
    json_t *json;
    QKV_TRY(json_of(ctx, file, "qkv.tokenizer", DEPTH_TOKENIZER, &json));
    qkv_status status = qkv_tokenizer_from_json(ctx, json, &model->tokenizer);
    json_decref(json);
    QKV_TRY(blame(ctx, file, "qkv.tokenizer", status));
    int64_t vocab = qkv_tokenizer_vocab(model->tokenizer);
    if (vocab == model->config.vocab) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the tokenizer has %lld tokens, the config vocab=%lld", qkv_safetensors_name(file),
                    (long long)vocab, (long long)model->config.vocab);
}

static qkv_status read_labels(qkv_model *model, const qkv_safetensors *file) {
    json_t *json;
    QKV_TRY(json_of(model->ctx, file, "qkv.labels", DEPTH_LABELS, &json));
    qkv_status status = qkv_labels_from_json(model, qkv_safetensors_name(file), json);
    json_decref(json);
    return status;
}

/* They are there exactly where a text may have any number of classes. */
static qkv_status read_thresholds(qkv_model *model, const qkv_safetensors *file) {
    const char *name = qkv_safetensors_name(file);
    if (!model->thresholds && qkv_safetensors_metadata(file, "qkv.thresholds"))
        return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: qkv.thresholds in a model of one class a text", name);
    if (!model->thresholds) return QKV_OK;
    json_t *json;
    QKV_TRY(json_of(model->ctx, file, "qkv.thresholds", DEPTH_LABELS, &json));
    qkv_status status = qkv_thresholds_from_json(model, name, json);
    json_decref(json);
    return status;
}

static qkv_status read_record(qkv_model *model, const qkv_safetensors *file) {
    json_t *json;
    QKV_TRY(json_of(model->ctx, file, "qkv.record", DEPTH_RECORD, &json));
    if (!json_is_object(json)) {
        json_decref(json);
        return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: qkv.record is not an object", qkv_safetensors_name(file));
    }
    json_decref(model->record);
    model->record = json;
    return QKV_OK;
}

static qkv_status make_net(qkv_ctx *ctx, const qkv_safetensors *file, const char *task, qkv_model **model) {
    qkv_config config;
    QKV_TRY(read_config(ctx, file, &config));
    qkv_classifier *net;
    QKV_TRY(qkv_classifier_create(ctx, &config, false, &net));
    qkv_status status = check_tensors(ctx, file, qkv_classifier_reg(net), config.ngrams > 0);
    if (status == QKV_OK) status = qkv_model_adopt(ctx, task, net, model);
    if (status != QKV_OK) qkv_classifier_free(net);
    return status;
}

static qkv_status read_model(qkv_ctx *ctx, const qkv_safetensors *file, qkv_model **model) {
    const char *task;
    QKV_TRY(metadata_of(ctx, file, "qkv.task", &task));
    if (strcmp(task, "classify") != 0) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the task \"%.30s\" is not one of this qkv's (classify)",
                        qkv_safetensors_name(file), task);
    }
    QKV_TRY(make_net(ctx, file, task, model));
    QKV_TRY(read_tokenizer(*model, file));
    QKV_TRY(read_labels(*model, file));
    QKV_TRY(read_thresholds(*model, file));
    QKV_TRY(read_record(*model, file));
    if ((*model)->config.ngrams > 0) QKV_TRY(qkv_bag_from_file(*model, file));
    return read_weights(*model, file);
}

qkv_status qkv_model_check_sum(qkv_ctx *ctx, const qkv_safetensors *file, qkv_status status) {
    if (status != QKV_OK && status != QKV_BAD_FORMAT) return status;
    const char *name = qkv_safetensors_name(file), *stored = qkv_safetensors_metadata(file, QKV_CHECKSUM_KEY);
    if (!stored && status == QKV_OK) return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the metadata has no qkv.sha256", name);
    if (!stored) return status;
    char hex[65];
    int64_t n_metadata, count = qkv_safetensors_count(file);
    const qkv_metadata *metadata = qkv_safetensors_all_metadata(file, &n_metadata);
    qkv_model_checksum(metadata, n_metadata, count ? qkv_safetensors_at(file, 0) : NULL, count, hex);
    if (strcmp(hex, stored) == 0) return status;
    if (status == QKV_OK) {
        return qkv_fail(ctx, QKV_BAD_FORMAT,
                        "%s: the checksum does not match, the file was damaged or edited (stored %.12s..., found %.12s...)", name,
                        stored, hex);
    }
    return qkv_fail(ctx, status, "%s; nor does the checksum match: the file was damaged or edited", ctx->message);
}

qkv_status qkv_model_from_file(qkv_ctx *ctx, const qkv_safetensors *file, qkv_model **model) {
    *model = NULL;
    QKV_TRY(check_version(ctx, file));
    qkv_status status = qkv_model_check_sum(ctx, file, read_model(ctx, file, model));
    if (status != QKV_OK) {
        qkv_model_free(*model);
        *model = NULL;
    }
    return status;
}

qkv_status qkv_model_load(qkv_ctx *ctx, const char *path, qkv_model **model) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!model) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no place for the model: model is NULL");
    *model = NULL;
    if (!path) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "a model is loaded from a path, not from NULL");
    qkv_safetensors *file;
    QKV_TRY(qkv_safetensors_open(ctx, path, &file));
    qkv_status status = qkv_model_from_file(ctx, file, model);
    qkv_safetensors_close(file);
    return status;
}
