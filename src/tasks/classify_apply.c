#include <math.h>
#include <stdio.h>

#include "tasks/classify.h"
#include "tasks/classify_data.h"
#include "tasks/scorer.h"

static void store_row(void *user, int64_t row, const real *values, int64_t width, double loss) {
    (void)loss;
    float *out = (float *)user + row * width;
    for (int64_t i = 0; i < width; i++) out[i] = (float)values[i];
}

/* The first text whose answer is not finite. */
static qkv_status check(const qkv_model *model, const float *out, int64_t count, int64_t width) {
    char what[40];
    for (int64_t i = 0; i < count * width; i++) {
        if (isfinite(out[i])) continue;
        snprintf(what, sizeof what, "text %lld", (long long)(i / width));
        return qkv_model_no_number(model, what);
    }
    return QKV_OK;
}

typedef qkv_status run(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const real *packed, const qkv_ragged *rows,
                       qkv_scored *scored, void *user);

static qkv_status apply(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths, const qkv_bag *bag,
                        run *scorer, float *out, int64_t width, int64_t *dropped) {
    if (count == 0) return QKV_OK;
    qkv_ctx *ctx = model->ctx;
    /* The packed copies are a cache of the weights: the model is the same to its user before and after. */
    QKV_TRY(qkv_model_pack((qkv_model *)model));
    qkv_encoded encoded;
    const qkv_config reads = qkv_model_reads(model);
    QKV_TRY(qkv_encode_texts(ctx, &reads, model->tokenizer, count, texts, lengths, &encoded));
    for (int64_t i = 0; dropped && i < count; i++)
        dropped[i] = encoded.full[i] - (encoded.rows.offset[i + 1] - encoded.rows.offset[i]);
    qkv_status status = qkv_encoded_score_texts(bag, count, texts, lengths, &encoded);
    if (status == QKV_OK) status = scorer(ctx, model->net, model->weights, model->packed, &encoded.rows, store_row, out);
    qkv_encoded_free(ctx, &encoded);
    return status == QKV_OK ? check(model, out, count, width) : status;
}

qkv_status qkv_classify_apply(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths,
                              float *probabilities, int64_t *dropped) {
    return apply(model, count, texts, lengths, qkv_model_bag(model), qkv_scorer_once, probabilities, model->config.classes, dropped);
}

qkv_status qkv_classify_vectors(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths, float *vectors,
                                int64_t *dropped) {
    return apply(model, count, texts, lengths, NULL, qkv_scorer_vectors, vectors, model->config.dim, dropped);
}
