#include "models/model.h"

#include <string.h>

qkv_status qkv_model_adopt(qkv_ctx *ctx, const char *task, qkv_classifier *net, qkv_model **model) {
    *model = NULL;
    qkv_model *m;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *m, &m));
    m->ctx = ctx;
    m->config = *qkv_classifier_config(net);
    strncpy(m->task, task, sizeof m->task - 1);
    qkv_status status = qkv_alloc_zero(ctx, qkv_classifier_reg(net)->size, sizeof *m->weights, &m->weights);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, m->config.classes, sizeof *m->labels, &m->labels);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, m->config.classes, sizeof *m->label_sizes, &m->label_sizes);
    if (status == QKV_OK && !(m->record = json_object()))
        status = qkv_fail(ctx, QKV_NO_MEMORY, "out of memory for a model's record");
    if (status != QKV_OK) {
        qkv_model_free(m);
        return status;
    }
    m->net = net;
    *model = m;
    return QKV_OK;
}

qkv_status qkv_model_create(qkv_ctx *ctx, const char *task, const qkv_config *config, qkv_model **model) {
    *model = NULL;
    qkv_classifier *net;
    QKV_TRY(qkv_classifier_create(ctx, config, false, &net));
    qkv_status status = qkv_model_adopt(ctx, task, net, model);
    if (status != QKV_OK) qkv_classifier_free(net);
    return status;
}

void qkv_model_free(qkv_model *model) {
    if (!model) return;
    qkv_ctx *ctx = model->ctx;
    for (int64_t i = 0; model->labels && i < model->config.classes; i++) qkv_free(ctx, model->labels[i]);
    qkv_free(ctx, model->labels);
    qkv_free(ctx, model->label_sizes);
    qkv_tokenizer_free(model->tokenizer);
    json_decref(model->record);
    qkv_free(ctx, model->packed);
    qkv_free(ctx, model->weights);
    if (model->net) qkv_classifier_free(model->net);
    qkv_free(ctx, model);
}

qkv_status qkv_model_pack(qkv_model *model) {
    if (model->packed) return QKV_OK;
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    real *packed;
    QKV_TRY(qkv_alloc(model->ctx, qkv_reg_packed_size(reg), sizeof *packed, &packed));
    qkv_reg_pack(model->ctx, reg, model->weights, packed);
    model->packed = packed;
    return QKV_OK;
}

void qkv_model_unpack(qkv_model *model) {
    qkv_free(model->ctx, model->packed);
    model->packed = NULL;
}

qkv_status qkv_model_set_label(qkv_model *model, int64_t index, const char *label, int64_t size) {
    if (index < 0 || index >= model->config.classes) {
        return qkv_fail(model->ctx, QKV_INTERNAL, "label %lld of %lld classes", (long long)index, (long long)model->config.classes);
    }
    char *copy;
    QKV_TRY(qkv_alloc(model->ctx, size + 1, 1, &copy));
    if (size) memcpy(copy, label, (size_t)size);
    copy[size] = 0;
    qkv_free(model->ctx, model->labels[index]);
    model->labels[index] = copy;
    model->label_sizes[index] = size;
    return QKV_OK;
}

qkv_status qkv_model_input(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, const char *text, int64_t length,
                           qkv_token *tokens, int64_t capacity, int64_t *count, int64_t *full_count) {
    int64_t room = capacity < config->max_length ? capacity : config->max_length;
    int64_t front = config->pooling == QKV_POOL_FIRST ? 1 : 0, found;
    if (front && room > 0) tokens[0] = (qkv_token){QKV_TOKEN_CLS, 0, 0};
    int64_t left = room > front ? room - front : 0;
    QKV_TRY(qkv_tokenizer_encode(ctx, tokenizer, text, length, left ? tokens + front : NULL, left, &found));
    found += front;
    if (full_count) *full_count = found;
    *count = found < config->max_length ? found : config->max_length;
    return QKV_OK;
}
