/* Small data sets and contexts for the tests of text classification. */
#ifndef QKV_TESTS_TOY_H
#define QKV_TESTS_TOY_H

#include "support.h"

#include "kernels/pick.h"
#include "tasks/classify.h"

/* A context with kernels, over a counting allocator. */
static inline qkv_ctx toy_ctx(test_memory *memory, int threads) {
    qkv_ctx ctx = test_ctx(memory);
    ctx.threads = threads;
    assert_int_equal(qkv_kernels_pick(&ctx, NULL), QKV_OK);
    return ctx;
}

/* `rows` rows of two classes: each text holds one of two telling words among filler. Returns the path. */
static inline const char *toy_file(const char *name, int rows, uint64_t seed, char path[512]) {
    static const char *const filler[] = {"the", "day", "went", "on", "and", "so", "did", "we"};
    FILE *f = fopen(test_path(name, path), "wb");
    assert_non_null(f);
    for (int i = 0; i < rows; i++) {
        uint64_t key = qkv_key2(seed, (uint64_t)i);
        int good = i % 2, n = 3 + (int)qkv_below(qkv_key2(key, 0), 9), at = (int)qkv_below(qkv_key2(key, 1), (uint64_t)n);
        fprintf(f, "%s\t", good ? "yes" : "no");
        for (int w = 0; w < n; w++)
            fprintf(f, "%s%s", w ? " " : "",
                    w == at ? (good ? "bright" : "gloomy") : filler[qkv_below(qkv_key2(key, 2 + (uint64_t)w), 8)]);
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *toy_text(const char *name, const char *text, char path[512]) {
    test_write_file(test_path(name, path), text, strlen(text));
    return path;
}

/* A model small enough for a test, with everything switched on. */
static inline qkv_classify_options toy_options(void) {
    return (qkv_classify_options){.layers = 1,
                                  .dim = 16,
                                  .heads = 2,
                                  .ffn = 32,
                                  .ngrams = 2,
                                  .ngram_min_rows = 1,
                                  .position = QKV_POSITION_LEARNED,
                                  .pooling = QKV_POOL_ATTENTION,
                                  .norm = QKV_NORM_LAYER,
                                  .activation = QKV_ACT_GELU,
                                  .bias = 1,
                                  .window = {-1, -1},
                                  .tokenizer = QKV_TOKENIZER_BPE,
                                  .vocab = 300,
                                  .max_length = 32,
                                  .lowercase = 1,
                                  .epochs = 8,
                                  .ema_decay = 0.99,
                                  .average_last = 3,
                                  .batch_tokens = 256,
                                  .batch_rows = 16,
                                  .accumulate = 1,
                                  .lr = 3e-3,
                                  .embedding_lr = 3e-2,
                                  .warmup = 0.1,
                                  .weight_decay = 0.01,
                                  .beta1 = 0.9,
                                  .beta2 = 0.98,
                                  .epsilon = 1e-8,
                                  .clip = 1,
                                  .dropout = 0.1,
                                  .attention_dropout = 0.1,
                                  .embedding_dropout = 0.1,
                                  .token_dropout = 0.05,
                                  .label_smoothing = 0.05,
                                  .evaluate = 1,
                                  .pretrain_lr = 3e-3,
                                  .mask = 0.2,
                                  .seed = 3};
}

#endif
