#include <string.h>

#include "tasks/classify.h"
#include "tasks/classify_data.h"
#include "tasks/scorer.h"

typedef struct sink {
    float *probabilities;
} sink;

static void store_row(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    (void)loss;
    float *out = ((sink *)user)->probabilities + row * classes;
    for (int64_t i = 0; i < classes; i++) out[i] = (float)probabilities[i];
}

qkv_status qkv_classify_apply(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths,
                              float *probabilities, int64_t *dropped) {
    if (count == 0) return QKV_OK;
    qkv_ctx *ctx = model->ctx;
    /* The packed copies are a cache of the weights: the model is the same to its user before and after. */
    QKV_TRY(qkv_model_pack((qkv_model *)model));
    qkv_encoded encoded;
    QKV_TRY(qkv_encode_texts(ctx, &model->config, model->tokenizer, count, texts, lengths, &encoded));
    for (int64_t i = 0; dropped && i < count; i++)
        dropped[i] = encoded.full[i] - (encoded.rows.offset[i + 1] - encoded.rows.offset[i]);
    sink s = {probabilities};
    qkv_status status = qkv_scorer_once(ctx, model->net, model->weights, model->packed, &encoded.rows, store_row, &s);
    qkv_encoded_free(ctx, &encoded);
    return status;
}
