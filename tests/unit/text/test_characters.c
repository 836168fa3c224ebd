#include "samples.h"

#include "text/tokenizer.h"

static qkv_tokenizer *train(qkv_ctx *ctx, qkv_tokenizer_kind kind, int64_t vocab, int lowercase, const char *text, int64_t length) {
    qkv_tokenizer *t;
    qkv_tokenizer_options o = {kind, vocab, lowercase, 0};
    assert_int_equal(qkv_tokenizer_train(ctx, &o, 1, &text, &length, &t), QKV_OK);
    return t;
}

static void expect(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text, int64_t length, int64_t count,
                   const int32_t (*tokens)[3]) {
    qkv_token got[64];
    int64_t n;
    assert_int_equal(qkv_tokenizer_encode(ctx, t, text, length, got, 64, &n), QKV_OK);
    assert_int_equal(n, count);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(got[i].id, tokens[i][0]);
        assert_int_equal(got[i].begin, tokens[i][1]);
        assert_int_equal(got[i].end, tokens[i][2]);
    }
}

static void the_most_frequent_come_first(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    /* b and NUL three times, a and the Han character twice (the smaller code point first), x once: unknown. */
    const char text[] = "b\0b\0b\0a\u4F60"
                        "a\u4F60x";
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_CHAR, 100, 0, text, sizeof text - 1);
    assert_int_equal(qkv_tokenizer_vocab(t), 4 + 4);
    expect(&ctx, t,
           "\0b\u4F60"
           "ax",
           7, 5, (const int32_t[][3]){{4, 0, 1}, {5, 1, 2}, {7, 2, 5}, {6, 5, 6}, {QKV_TOKEN_UNK, 6, 7}});
    int64_t size;
    assert_memory_equal(qkv_tokenizer_piece(t, 7, &size), "\u4F60", 3);
    assert_int_equal(size, 3);
    qkv_tokenizer_free(t);
    t = train(&ctx, QKV_TOKENIZER_CHAR, 6, 0, text, sizeof text - 1);
    assert_int_equal(qkv_tokenizer_vocab(t), 6);
    expect(&ctx, t, "ab", 2, 2, (const int32_t[][3]){{QKV_TOKEN_UNK, 0, 1}, {5, 1, 2}});
    qkv_tokenizer_free(t);
    t = train(&ctx, QKV_TOKENIZER_CHAR, 4, 0, "", 0);
    assert_int_equal(qkv_tokenizer_vocab(t), 4);
    expect(&ctx, t, "a", 1, 1, (const int32_t[][3]){{QKV_TOKEN_UNK, 0, 1}});
    expect(&ctx, t, "", 0, 0, NULL);
    qkv_tokenizer_free(t);
    assert_int_equal(memory.blocks, 0);
}

static void bad_sequences_are_one_replacement_each(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_CHAR, 100, 0, "aa\xFF\xF0\x9F\x98z", 7);
    assert_int_equal(qkv_tokenizer_vocab(t), 6);
    expect(&ctx, t,
           "\xE4\xBD"
           "a\xEF\xBF\xBD",
           6, 3, (const int32_t[][3]){{5, 0, 2}, {4, 2, 3}, {5, 3, 6}});
    qkv_tokenizer_free(t);
}

static void lower_case_offsets(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_CHAR, 100, 1, "KkIi", 4);
    /* U+212A is three bytes, k one; U+0130 is i and a dot, the dot unknown. */
    expect(&ctx, t, "\u212A\u0130K", 6, 4, (const int32_t[][3]){{5, 0, 3}, {4, 3, 5}, {QKV_TOKEN_UNK, 3, 5}, {5, 5, 6}});
    qkv_tokenizer_free(t);
}

static void bytes_are_bytes(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BYTE, 0, 0, "anything", 8);
    assert_int_equal(qkv_tokenizer_vocab(t), 260);
    expect(&ctx, t, "\0\xFFz", 3, 3, (const int32_t[][3]){{4, 0, 1}, {259, 1, 2}, {4 + 'z', 2, 3}});
    int64_t size;
    assert_int_equal((unsigned char)*qkv_tokenizer_piece(t, 259, &size), 255);
    qkv_tokenizer_free(t);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_frequent_come_first),
        cmocka_unit_test(bad_sequences_are_one_replacement_each),
        cmocka_unit_test(lower_case_offsets),
        cmocka_unit_test(bytes_are_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
