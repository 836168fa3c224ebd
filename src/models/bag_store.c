/* The linear model, a bag of words, in a model file. */
#include <math.h>
#include <string.h>

#include "models/model.h"
#include "text/tokenizer.h"

static const char KEYS[] = "bag.keys", WEIGHT[] = "bag.weight", BIAS[] = "bag.bias";

bool qkv_bag_tensor(const char *name) {
    return strcmp(name, KEYS) == 0 || strcmp(name, WEIGHT) == 0 || strcmp(name, BIAS) == 0;
}

int64_t qkv_bag_tensors(const qkv_bag *b, qkv_tensor tensors[QKV_BAG_TENSORS]) {
    const qkv_dtype numbers = sizeof(real) == 8 ? QKV_DTYPE_F64 : QKV_DTYPE_F32;
    const int64_t keys = b->features, weights = b->features * b->classes, size = sizeof(real);
    if (b->classes == 0) return 0;
    tensors[0] = (qkv_tensor){.name = KEYS, .dtype = QKV_DTYPE_U64, .rank = 1, .shape = {keys}, .count = keys, .data = b->key,
                              .bytes = keys * (int64_t)sizeof *b->key};
    tensors[1] = (qkv_tensor){.name = WEIGHT, .dtype = numbers, .rank = 2, .shape = {keys, b->classes}, .count = weights,
                              .data = b->weight, .bytes = weights * size};
    tensors[2] = (qkv_tensor){.name = BIAS, .dtype = numbers, .rank = 1, .shape = {b->classes}, .count = b->classes, .data = b->bias,
                              .bytes = b->classes * size};
    return QKV_BAG_TENSORS;
}

static bool all_finite(const real *p, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(p[i])) return false;
    return true;
}

bool qkv_bag_is_finite(const qkv_bag *b) { return all_finite(b->bias, b->classes) && all_finite(b->weight, b->features * b->classes); }

/* rows -1: any number. cols 0: a vector. */
static qkv_status find(qkv_ctx *ctx, const qkv_safetensors *file, const char *name, bool numbers, int64_t rows, int64_t cols,
                       const qkv_tensor **found) {
    const qkv_tensor *t = *found = qkv_safetensors_find(file, name);
    if (!t) return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" of the linear model is missing", qkv_safetensors_name(file), name);
    bool type = numbers ? t->dtype == QKV_DTYPE_F32 || t->dtype == QKV_DTYPE_F64 : t->dtype == QKV_DTYPE_U64;
    bool shape = t->rank == (cols ? 2 : 1) && (rows < 0 ? t->count <= INT32_MAX : t->shape[0] == rows) && (!cols || t->shape[1] == cols);
    if (type && shape) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" is not of the type and the shape that the linear model's keys and the classes ask for",
                    qkv_safetensors_name(file), name);
}

static qkv_status check(const qkv_bag *b, const char *file) {
    for (int64_t i = 1; i < b->features; i++)
        if (b->key[i] <= b->key[i - 1])
            return qkv_fail(b->ctx, QKV_BAD_FORMAT, "%s: the keys of the linear model do not ascend (element %lld)", file, (long long)i);
    if (!qkv_bag_is_finite(b)) return qkv_fail(b->ctx, QKV_BAD_FORMAT, "%s: the linear model holds a value that is not finite", file);
    return QKV_OK;
}

qkv_status qkv_bag_from_file(qkv_model *model, const qkv_safetensors *file) {
    qkv_ctx *ctx = model->ctx;
    qkv_bag *b = &model->bag;
    const int64_t classes = model->config.classes;
    const qkv_tensor *keys, *weight, *bias;
    QKV_TRY(find(ctx, file, KEYS, false, -1, 0, &keys));
    QKV_TRY(find(ctx, file, WEIGHT, true, keys->count, classes, &weight));
    QKV_TRY(find(ctx, file, BIAS, true, classes, 0, &bias));
    *b = (qkv_bag){
        .ctx = ctx,
        .ngrams = model->config.ngrams,
        .beginnings = true,
        .features = keys->count,
        .classes = classes,
        .normalize = (qkv_normalization)qkv_tokenizer_options_of(model->tokenizer)->normalize,
    };
    QKV_TRY(qkv_alloc(ctx, b->features, sizeof *b->key, &b->key));
    QKV_TRY(qkv_alloc(ctx, b->features * classes, sizeof(real), &b->weight));
    QKV_TRY(qkv_alloc(ctx, classes, sizeof(real), &b->bias));
    if (b->features > 0) memcpy(b->key, keys->data, (size_t)keys->bytes);
    QKV_TRY(qkv_tensor_reals(ctx, weight, b->weight));
    QKV_TRY(qkv_tensor_reals(ctx, bias, b->bias));
    QKV_TRY(check(b, qkv_safetensors_name(file)));
    return qkv_bag_index(b);
}
