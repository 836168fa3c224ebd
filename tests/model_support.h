/* A small model for the tests of files: every kind of parameter, labels of all sorts of bytes, a record. */
#ifndef QKV_TESTS_MODEL_SUPPORT_H
#define QKV_TESTS_MODEL_SUPPORT_H

#include "support.h"

#include "kernels/pick.h"
#include "models/model.h"

static const struct test_label {
    const char *bytes;
    int64_t size;
} test_labels[] = {{"", 0},
                   {"back\\slash \\x41", 15},
                   {"nul\0in it", 9},
                   {"quote\" \n\t\x01\x7f", 11},
                   {"sport", 5},
                   {"two words", 9},
                   {"\xe4\xb8\xad\xe6\x96\x87", 6},
                   {"\xff\xc3(\xe4\xb8", 5}};
enum { TEST_LABELS = sizeof test_labels / sizeof *test_labels };

static inline qkv_config test_config(void) {
    return (qkv_config){.vocab = 260,
                        .classes = TEST_LABELS,
                        .layers = 2,
                        .dim = 12,
                        .heads = 3,
                        .kv_heads = 1,
                        .head_dim = 4,
                        .ffn = 10,
                        .max_length = 40,
                        .position = QKV_POSITION_LEARNED,
                        .pooling = QKV_POOL_ATTENTION,
                        .norm = QKV_NORM_LAYER,
                        .activation = QKV_ACT_SWIGLU,
                        .bias = true,
                        .span = {-1, -1},
                        .norm_epsilon = 1e-5,
                        .dropout = 0.1,
                        .attention_dropout = 0.3,
                        .embedding_dropout = 1.0 / 3};
}

#define TEST_TRY(expression)                                                                                                       \
    if ((status = (expression)) != QKV_OK) goto failed

/* May fail with QKV_NO_MEMORY; then *model is NULL. */
static inline qkv_status test_model_try(qkv_ctx *ctx, const qkv_config *config, qkv_model **model) {
    qkv_status status;
    static const char *const texts[] = {"the quick brown fox", "the lazy dog"};
    static const int64_t lengths[] = {19, 12};
    qkv_tokenizer_options options = {.kind = QKV_TOKENIZER_BYTE, .vocab = 260};
    *model = NULL;
    TEST_TRY(qkv_model_create(ctx, "classify", config, model));
    TEST_TRY(qkv_tokenizer_train(ctx, &options, 2, texts, lengths, &(*model)->tokenizer));
    for (int64_t i = 0; i < TEST_LABELS; i++) TEST_TRY(qkv_model_set_label(*model, i, test_labels[i].bytes, test_labels[i].size));
    qkv_reg_init(qkv_classifier_reg((*model)->net), 7, (*model)->weights);
    json_decref((*model)->record);
    (*model)->record = json_pack("{s:s, s:f, s:{s:i}}", "data", "caf\xc3\xa9 \xe4\xb8\xad", "accuracy", 0.1, "options", "steps", 5);
    return QKV_OK;
failed:
    qkv_model_free(*model);
    *model = NULL;
    return status;
}

static inline qkv_model *test_model(qkv_ctx *ctx) {
    qkv_config config = test_config();
    qkv_model *model;
    if (test_model_try(ctx, &config, &model) != QKV_OK) fail_msg("%s", ctx->message);
    return model;
}

/* A context with kernels, for floors from ops on. */
static inline qkv_ctx test_ctx_run(test_memory *memory) {
    TEST_CTX qkv_ctx ctx = test_ctx(memory);
    assert_int_equal(qkv_kernels_pick(&ctx, NULL), QKV_OK);
    return ctx;
}

/* The whole file; the caller frees. */
static inline char *test_read_file(const char *path, int64_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is not there", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = ftell(f);
    rewind(f);
    char *data = malloc((size_t)*size + 1);
    assert_int_equal(fread(data, 1, (size_t)*size, f), *size);
    fclose(f);
    return data;
}

#endif
