#include "models/model.h"

#include <string.h>

#include "text/segments.h"

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
    if (status == QKV_OK && m->config.multi_label) {
        status = qkv_alloc(ctx, m->config.classes, sizeof *m->thresholds, &m->thresholds);
        for (int64_t i = 0; status == QKV_OK && i < m->config.classes; i++) m->thresholds[i] = 0.5;
    }
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
    qkv_free(ctx, model->thresholds);
    qkv_tokenizer_free(model->tokenizer);
    qkv_bag_free(&model->bag);
    json_decref(model->record);
    qkv_free(ctx, model->packed);
    qkv_free(ctx, model->weights);
    if (model->net) qkv_classifier_free(model->net);
    qkv_free(ctx, model);
}

qkv_status qkv_model_pack(qkv_model *model) {
    if (model->packed) return QKV_OK;
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    const bool bf16 = model->config.bf16;
    real *packed;
    if (bf16) qkv_bf16_note(model->ctx);
    QKV_TRY(qkv_alloc(model->ctx, qkv_reg_packed_size(reg, bf16), sizeof *packed, &packed));
    qkv_reg_pack(model->ctx, reg, bf16, model->weights, packed);
    model->packed = packed;
    return QKV_OK;
}

void qkv_model_unpack(qkv_model *model) {
    qkv_free(model->ctx, model->packed);
    model->packed = NULL;
}

void qkv_model_use_bf16(qkv_model *model, bool bf16) {
    if (model->config.bf16 == bf16) return;
    model->config.bf16 = bf16;
    qkv_classifier_set_bf16(model->net, bf16);
    qkv_model_unpack(model);
}

qkv_status qkv_model_no_number(const qkv_model *model, const char *what) {
    return qkv_fail(model->ctx, QKV_NUMERIC,
                    "%s: the model's answer is not a number: its weights are finite but so large that sums overflow (was the file edited, or "
                    "did the training diverge?)",
                    what);
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

/* Tokens of the second text of a pair follow a SEP for the tab. `found` counts what there is of both before any cut. */
typedef struct pair {
    int64_t split; /* bytes before the tab */
    int64_t first, second;
} pair;

static qkv_status encode_pair(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text, int64_t length, qkv_token *tokens, int64_t room,
                              pair *p) {
    const char *tab = length > 0 ? memchr(text, '\t', (size_t)length) : NULL;
    p->split = tab ? tab - text : length;
    const char *rest = tab ? tab + 1 : text + length;
    int64_t size = tab ? length - p->split - 1 : 0, all = room > 0 ? room - 1 : 0;
    QKV_TRY(qkv_tokenizer_encode(ctx, t, text, p->split, NULL, 0, &p->first));
    QKV_TRY(qkv_tokenizer_encode(ctx, t, rest, size, NULL, 0, &p->second));
    if (room < 1) return QKV_OK;
    int64_t keep = p->first, other = p->second, half = all - all / 2;
    if (keep + other > all) {
        if (keep > half) keep = other < all - half ? all - other : half;
        if (other > all - keep) other = all - keep;
    }
    int64_t n;
    QKV_TRY(qkv_tokenizer_encode(ctx, t, text, p->split, keep ? tokens : NULL, keep, &n));
    tokens[keep] = (qkv_token){QKV_TOKEN_SEP, p->split, p->split + (tab != NULL)};
    QKV_TRY(qkv_tokenizer_encode(ctx, t, rest, size, other ? tokens + keep + 1 : NULL, other, &n));
    for (int64_t i = keep + 1; i <= keep + other; i++) tokens[i].begin += rest - text, tokens[i].end += rest - text;
    return QKV_OK;
}

qkv_status qkv_model_input(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, const char *text, int64_t length,
                           qkv_token *tokens, int64_t capacity, int64_t *count, int64_t *full_count) {
    int64_t room = capacity < config->max_length ? capacity : config->max_length;
    int64_t front = config->pooling == QKV_POOL_FIRST ? 1 : 0, found;
    if (front && room > 0) tokens[0] = (qkv_token){QKV_TOKEN_CLS, 0, 0};
    int64_t left = room > front ? room - front : 0;
    if (config->pair) {
        pair p;
        QKV_TRY(encode_pair(ctx, tokenizer, text, length, tokens + (left ? front : 0), left, &p));
        found = p.first + 1 + p.second;
    } else {
        QKV_TRY(qkv_tokenizer_encode(ctx, tokenizer, text, length, left ? tokens + front : NULL, left, &found));
    }
    found += front;
    if (full_count) *full_count = found;
    *count = found < config->max_length ? found : config->max_length;
    return QKV_OK;
}

int64_t qkv_model_segments(const qkv_config *config, const char *text, int64_t length, const qkv_token *tokens, int64_t count,
                           int32_t *sizes) {
    return qkv_segments_of(config->segment, qkv_config_segment_length(config), text, length, tokens, count, sizes);
}
