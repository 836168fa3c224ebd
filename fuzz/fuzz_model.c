/* A model file of any bytes: refused with a reason, or a model that can be looked at and used. The checksum is repaired, so
 * that what lies behind it is reached too. */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/pick.h"
#include "models/model.h"
#include "qkv/classify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds) abort();
}

/* What a small file may ask for. */
static void *allocate(void *user, size_t bytes) {
    (void)user;
    return bytes > ((size_t)1 << 24) ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release(void *user, void *pointer, size_t bytes) {
    (void)user;
    (void)bytes;
    free(pointer);
}

static void use(qkv_ctx *ctx, const qkv_model *model) {
    char *json;
    qkv_token *tokens;
    int64_t count, full, lengths[] = {5, 0};
    const char *texts[] = {"ab\xff c", ""};
    if (qkv_model_describe(model, &json) == QKV_OK) {
        require(json[0] == '{');
        qkv_release(ctx, json);
    }
    require(qkv_model_labels(model) > 0 && qkv_model_label(model, 0));
    if (qkv_model_tokens(model, texts[0], 5, &tokens, &count, &full) != QKV_OK) return;
    require(count >= 0 && count <= full);
    qkv_release(ctx, tokens);
    float *weights, *probabilities;
    if (qkv_alloc(ctx, count * count + 1, sizeof *weights, &weights) != QKV_OK) return;
    qkv_status status = qkv_model_attention(model, texts[0], 5, 0, 0, weights);
    require(status == QKV_OK || status == QKV_NO_MEMORY);
    qkv_free(ctx, weights);
    if (qkv_alloc(ctx, 2 * qkv_model_labels(model), sizeof *probabilities, &probabilities) != QKV_OK) return;
    status = qkv_classify_predict(model, 2, texts, lengths, probabilities, NULL);
    require(status == QKV_OK || status == QKV_NO_MEMORY);
    qkv_free(ctx, probabilities);
}

static qkv_status try_file(qkv_ctx *ctx, const qkv_safetensors *file) {
    qkv_model *model;
    qkv_status status = qkv_model_from_file(ctx, file, &model);
    if (status == QKV_OK)
        use(ctx, model);
    else
        require(!model && ctx->message[0] != 0 &&
                (status == QKV_BAD_FORMAT || status == QKV_BAD_CONFIG || status == QKV_NO_MEMORY));
    qkv_model_free(model);
    return status;
}

/* Writes the checksum that the content has over the one that is stored; 0: there is none. */
static int repair(const qkv_safetensors *file, uint8_t *data, size_t size) {
    const char *stored = qkv_safetensors_metadata(file, "qkv.sha256");
    if (!stored || strlen(stored) != 64) return 0;
    char hex[65];
    int64_t n, count = qkv_safetensors_count(file);
    const qkv_metadata *all = qkv_safetensors_all_metadata(file, &n);
    qkv_model_checksum(all, n, count ? qkv_safetensors_at(file, 0) : NULL, count, hex);
    uint8_t *at = memmem(data, size, stored, 64);
    if (at) memcpy(at, hex, 64);
    return at != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qkv_ctx ctx = {0};
    qkv_safetensors *file;
    qkv_ctx_options options = {.struct_size = sizeof options, .threads = 1, .allocate = allocate, .release = release};
    qkv_ctx_setup(&ctx, &options);
    require(qkv_kernels_pick(&ctx, NULL) == QKV_OK);
    if (qkv_safetensors_parse(&ctx, "fuzz", data, (int64_t)size, &file) != QKV_OK) return 0;
    qkv_status status = try_file(&ctx, file);
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    int repaired = status != QKV_OK && repair(file, copy, size);
    qkv_safetensors_close(file);
    if (repaired && qkv_safetensors_parse(&ctx, "fuzz", copy, (int64_t)size, &file) == QKV_OK) {
        (void)!try_file(&ctx, file);
        qkv_safetensors_close(file);
    }
    free(copy);
    return 0;
}
