/* Writing a model file. The format is described in docs/model-file.md. */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "formats/json.h"
#include "models/model.h"
#include "text/tokenizer.h"

static void add_number(qkv_sha256 *s, int64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)value >> (8 * i));
    qkv_sha256_add(s, bytes, 8);
}

static void add_text(qkv_sha256 *s, const char *text) {
    size_t size = strlen(text);
    add_number(s, (int64_t)size);
    qkv_sha256_add(s, text, size);
}

void qkv_model_checksum(const qkv_metadata *metadata, int64_t n_metadata, const qkv_tensor *tensors, int64_t count, char hex[65]) {
    qkv_sha256 s;
    qkv_sha256_start(&s);
    for (int64_t i = 0; i < n_metadata; i++) {
        if (strcmp(metadata[i].key, QKV_CHECKSUM_KEY) == 0) continue;
        add_text(&s, metadata[i].key);
        add_text(&s, metadata[i].value);
    }
    for (int64_t i = 0; i < count; i++) {
        add_text(&s, tensors[i].name);
        add_text(&s, qkv_dtype_name(tensors[i].dtype));
        add_number(&s, tensors[i].rank);
        for (int k = 0; k < tensors[i].rank; k++) add_number(&s, tensors[i].shape[k]);
    }
    for (int64_t i = 0; i < count; i++) {
        if (tensors[i].bytes) qkv_sha256_add(&s, tensors[i].data, (size_t)tensors[i].bytes);
    }
    qkv_sha256_end(&s, hex);
}

/* ---- tensors ---- */

static qkv_tensor tensor_of(const qkv_param *p, const real *weights) {
    qkv_tensor t = {.name = p->name, .dtype = sizeof(real) == 8 ? QKV_DTYPE_F64 : QKV_DTYPE_F32, .count = p->rows * p->cols};
    t.rank = p->vector ? 1 : 2;
    t.shape[0] = p->vector ? t.count : p->rows;
    t.shape[1] = p->vector ? 0 : p->cols;
    t.data = weights + p->offset;
    t.bytes = t.count * (int64_t)sizeof(real);
    return t;
}

/* 64 for a size that keeps what follows aligned to 64 bytes, else the largest power of two that it keeps. */
static int64_t size_class(int64_t bytes) {
    int64_t align = QKV_TENSOR_ALIGN;
    while (bytes % align) align /= 2;
    return align;
}

/* A diverged model is not worth a file, and would replace one that is. */
static qkv_status check_finite(const qkv_model *model) {
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        const real *w = model->weights + p->offset;
        for (int64_t k = 0; k < p->rows * p->cols; k++) {
            if (isfinite(w[k])) continue;
            return qkv_fail(model->ctx, QKV_NUMERIC,
                            "the model is not saved: \"%s\" holds a value that is not finite (element %lld)", p->name,
                            (long long)k);
        }
    }
    if (qkv_bag_is_finite(&model->bag)) return QKV_OK;
    return qkv_fail(model->ctx, QKV_NUMERIC, "the model is not saved: its linear model holds a value that is not finite");
}

/* ---- metadata ---- */

enum { META_MOST = 9 };

typedef struct texts {
    qkv_buf config, labels, record, thresholds, tokenizer; /* thresholds stays empty where the model has none */
} texts;

/* Prints `json` (taken over) unless making it had failed. */
static qkv_status print_new(qkv_status status, json_t *json, qkv_buf *out) {
    if (status != QKV_OK) return status;
    status = qkv_json_print(json, out);
    json_decref(json);
    return status;
}

static qkv_status make_texts(const qkv_model *model, texts *t) {
    qkv_ctx *ctx = model->ctx;
    json_t *json = NULL;
    qkv_status status = qkv_config_to_json(ctx, &model->config, &json);
    QKV_TRY(print_new(status, json, &t->config));
    status = qkv_labels_to_json(model, &json);
    QKV_TRY(print_new(status, json, &t->labels));
    if (!model->tokenizer) return qkv_fail(ctx, QKV_INTERNAL, "a model without a tokenizer cannot be saved");
    status = qkv_tokenizer_to_json(ctx, model->tokenizer, &json);
    QKV_TRY(print_new(status, json, &t->tokenizer));
    if (model->thresholds) {
        status = qkv_thresholds_to_json(model, &json);
        QKV_TRY(print_new(status, json, &t->thresholds));
    }
    return qkv_json_print(model->record, &t->record);
}

/* The bag, then the registry in its order, within each size class; the best aligned class first. Returns how many there are. */
static int64_t order_tensors(const qkv_model *model, qkv_tensor *tensors) {
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    qkv_tensor bag[QKV_BAG_TENSORS];
    int64_t n = 0, of_bag = qkv_bag_tensors(&model->bag, bag);
    for (int64_t align = QKV_TENSOR_ALIGN; align >= 1; align /= 2) {
        for (int64_t i = 0; i < of_bag + reg->count; i++) {
            qkv_tensor t = i < of_bag ? bag[i] : tensor_of(&reg->params[i - of_bag], model->weights);
            if (size_class(t.bytes) == align) tensors[n++] = t;
        }
    }
    return n;
}

static qkv_status write_file(const qkv_model *model, const char *path, const texts *t, qkv_tensor *tensors) {
    const int64_t count = order_tensors(model, tensors);
    char hex[65], version[16];
    snprintf(version, sizeof version, "%d", QKV_MODEL_FILE_VERSION);
    const qkv_metadata all[META_MOST] = {
        {"format", "pt"},
        {"qkv.config", t->config.p},
        {"qkv.labels", t->labels.p},
        {"qkv.record", t->record.p},
        {QKV_CHECKSUM_KEY, hex},
        {"qkv.task", model->task},
        {"qkv.thresholds", t->thresholds.p},
        {"qkv.tokenizer", t->tokenizer.p},
        {"qkv.version", version},
    };
    qkv_metadata metadata[META_MOST];
    int64_t n = 0;
    for (int i = 0; i < META_MOST; i++) {
        if (all[i].value) metadata[n++] = all[i];
    }
    qkv_model_checksum(metadata, n, tensors, count, hex);
    qkv_output *output;
    QKV_TRY(qkv_output_open(model->ctx, path, &output));
    qkv_status status = qkv_safetensors_write(model->ctx, output, tensors, count, metadata, n);
    if (status != QKV_OK) {
        qkv_output_discard(output);
        return status;
    }
    return qkv_output_commit(output);
}

qkv_status qkv_model_save(const qkv_model *model, const char *path) {
    if (!model) return QKV_BAD_ARGUMENT;
    qkv_ctx *ctx = model->ctx;
    if (!path) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "a model is saved to a path, not to NULL");
    QKV_TRY(check_finite(model));
    texts t = {.config.ctx = ctx, .labels.ctx = ctx, .record.ctx = ctx, .thresholds.ctx = ctx, .tokenizer.ctx = ctx};
    qkv_tensor *tensors = NULL;
    qkv_status status = make_texts(model, &t);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, QKV_BAG_TENSORS + qkv_classifier_reg(model->net)->count, sizeof *tensors, &tensors);
    if (status == QKV_OK) status = write_file(model, path, &t, tensors);
    qkv_free(ctx, tensors);
    qkv_buf_free(&t.config);
    qkv_buf_free(&t.labels);
    qkv_buf_free(&t.record);
    qkv_buf_free(&t.thresholds);
    qkv_buf_free(&t.tokenizer);
    return status;
}
