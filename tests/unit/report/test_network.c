/* A network in words: the longest that there are fit, and are text. */
#include "support.h"

#include "report/network.h"
#include "text/utf8.h"

enum { WORDS = QKV_NUMBERS_MOST, LETTERS = 20 };

/* Knows each of these letters, twenty times, as one token. */
static qkv_tokenizer *tokenizer(qkv_ctx *ctx, const char *letters) {
    char text[40000] = "";
    for (int again = 0; again < 20; again++)
        for (int w = 0; w < WORDS; w++) {
            strcat(text, " ");
            for (int i = 0; i < LETTERS; i++) strncat(text, letters + 2 * w, 2);
        }
    const char *const texts[] = {text};
    const int64_t length = (int64_t)strlen(text);
    const qkv_tokenizer_options o = {.kind = QKV_TOKENIZER_BPE, .vocab = 800};
    qkv_tokenizer *t;
    assert_int_equal(qkv_tokenizer_train(ctx, &o, 1, texts, &length, &t), QKV_OK);
    return t;
}

static void the_longest_words_fit(void **state) {
    (void)state;
    static const char letters[] = "абвгдежзийклмноп";
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer *t = tokenizer(&ctx, letters);
    const double long_number = 12345.678901234567;
    qkv_config c = {.vocab = 100000, .classes = 100000, .layers = 4096, .dim = 65536, .heads = 4096, .kv_heads = 2048, .ffn = 1048576,
                    .head_dim = 1048576, .activation = QKV_ACT_GELU_TANH, .norm_place = QKV_NORM_SANDWICH, .norm = QKV_NORM_RMS,
                    .residual = QKV_RESIDUAL_DEEPNORM, .reversible = true, .init = QKV_INIT_PLAIN, .qk_norm = true, .unscaled = true,
                    .softcap = long_number, .position = QKV_POSITION_ROPE, .rope_base = long_number, .local_rope_base = long_number,
                    .rope_part = 0.5, .rope_pairs = QKV_ROPE_INTERLEAVED, .rope_stretch = QKV_STRETCH_LINEAR, .rope_factor = long_number,
                    .max_length = QKV_LONGEST, .pooling = QKV_POOL_ATTENTION, .span = {QKV_LONGEST, QKV_LONGEST}, .dilation = QKV_LONGEST,
                    .global_first = QKV_LONGEST, .global_every = QKV_LONGEST, .global_question = true, .global_projection = true,
                    .random_blocks = QKV_LONGEST, .block = QKV_LONGEST, .full_every = 4096, .segment = QKV_SEGMENT_SENTENCES,
                    .segment_length = QKV_LONGEST, .segment_layers = 4096};
    for (int w = 0; w < WORDS; w++) {
        char word[2 * LETTERS + 2] = " ";
        qkv_token token;
        int64_t count;
        for (int i = 0; i < LETTERS; i++) strncat(word, letters + 2 * w, 2);
        assert_int_equal(qkv_tokenizer_encode(&ctx, t, word, (int64_t)strlen(word), &token, 1, &count), QKV_OK);
        assert_int_equal(count, 1);
        assert_true(qkv_numbers_add(&c.global_token, token.id) && qkv_numbers_add(&c.global_at, QKV_LONGEST - 1 - w));
    }
    char text[QKV_NETWORK_WORDS];
    qkv_network_words(&c, t, text);
    const char *end = strstr(text, ", pooling attention");
    assert_true(end && strlen(end) == strlen(", pooling attention"));
    assert_int_equal(qkv_utf8_faults(text, (int64_t)strlen(text)), 0);
    assert_non_null(strstr(text, " \" ппппппппппппппп\", the first text of a pair with projections of their own, "));
    qkv_tokenizer_free(t);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_longest_words_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
