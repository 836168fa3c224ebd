/* What the tokenizer's calls refuse, and in which words. */
#include "support.h"

#include "qkv/tokenizer.h"

static void refused(qkv_ctx *ctx, qkv_status status, const char *words) {
    if (status != QKV_BAD_ARGUMENT || !strstr(ctx->message, words)) fail_msg("status %d: %s", status, ctx->message);
    ctx->message[0] = 0;
}

static void lengths_out_of_range(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const char *texts[] = {"a", "b"};
    for (int kind = QKV_TOKENIZER_BPE; kind <= QKV_TOKENIZER_BYTE; kind++)
        for (int lowercase = 0; lowercase < 2; lowercase++) {
            qkv_tokenizer_options o = {(qkv_tokenizer_kind)kind, 300, lowercase, 0};
            qkv_tokenizer *t = (void *)&o;
            refused(&ctx, qkv_tokenizer_train(&ctx, &o, 2, texts, (int64_t[]){1, INT64_MAX}, &t),
                    "text 1 has a length of 9223372036854775807");
            assert_null(t);
            refused(&ctx, qkv_tokenizer_train(&ctx, &o, 2, texts, (int64_t[]){-5, 1}, &t), "text 0 has a length of -5");
            refused(&ctx, qkv_tokenizer_train(&ctx, &o, 1, (const char *[]){NULL}, (int64_t[]){3}, &t),
                    "text 0 is NULL, with a length of 3");
            refused(&ctx, qkv_tokenizer_train(&ctx, &o, -1, texts, (int64_t[]){1}, &t), "-1 texts");
            assert_int_equal(memory.blocks, 0);
            assert_int_equal(qkv_tokenizer_train(&ctx, &o, 2, texts, (int64_t[]){1, 1}, &t), QKV_OK);
            qkv_token token;
            int64_t n = 7;
            refused(&ctx, qkv_tokenizer_encode(&ctx, t, "a", INT64_MAX, &token, 1, &n), "a length of 9223372036854775807");
            assert_int_equal(n, 0);
            refused(&ctx, qkv_tokenizer_encode(&ctx, t, "a", INT64_MIN, &token, 1, &n), "a length of -9223372036854775808");
            refused(&ctx, qkv_tokenizer_encode(&ctx, t, NULL, 1, &token, 1, &n), "is NULL");
            refused(&ctx, qkv_tokenizer_encode(&ctx, t, "a", 1, NULL, 1, &n), "a buffer of 1 tokens");
            refused(&ctx, qkv_tokenizer_encode(&ctx, t, "a", 1, &token, -1, &n), "a buffer of -1 tokens");
            refused(&ctx, qkv_tokenizer_encode(&ctx, t, "a", 1, &token, 1, NULL), "count is NULL");
            assert_int_equal(qkv_tokenizer_encode(NULL, t, "a", 1, &token, 1, &n), QKV_BAD_ARGUMENT);
            assert_string_equal(qkv_tokenizer_piece(t, 0, NULL), "");
            qkv_tokenizer_free(t);
            assert_int_equal(memory.blocks, 0);
        }
}

static void null_pointers(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer_options o = {QKV_TOKENIZER_BPE, 300, 0, 0};
    qkv_tokenizer *t;
    int64_t n = 7;
    refused(&ctx, qkv_tokenizer_train(&ctx, NULL, 0, NULL, NULL, &t), "options are NULL");
    refused(&ctx, qkv_tokenizer_train(&ctx, &o, 0, NULL, NULL, NULL), "tokenizer is NULL");
    assert_int_equal(qkv_tokenizer_train(NULL, &o, 0, NULL, NULL, &t), QKV_BAD_ARGUMENT);
    refused(&ctx, qkv_tokenizer_encode(&ctx, NULL, "", 0, NULL, 0, &n), "the tokenizer is NULL");
    assert_int_equal(n, 0);
    assert_int_equal(qkv_tokenizer_vocab(NULL), 0);
    n = 7;
    assert_string_equal(qkv_tokenizer_piece(NULL, 0, &n), "");
    assert_int_equal(n, 0);
    qkv_tokenizer_free(NULL);
    assert_int_equal(memory.calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths_out_of_range), cmocka_unit_test(null_pointers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
