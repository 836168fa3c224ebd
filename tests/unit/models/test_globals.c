/* Global tokens that users name: what the tokenizer has for them; and lists of batches that are made by hand. */
#include "support.h"

#include "models/globals.h"

static qkv_tokenizer *tokenizer(qkv_ctx *ctx, qkv_tokenizer_kind kind) {
    static const char *const texts[] = {"why is that so? because it is so. why?", "it is that\nand that\nwhy? so it is",
                                        "why is it so? so why is it\n"};
    const int64_t lengths[] = {(int64_t)strlen(texts[0]), (int64_t)strlen(texts[1]), (int64_t)strlen(texts[2])};
    const qkv_tokenizer_options o = {.kind = kind, .vocab = 320, .lowercase = 1};
    qkv_tokenizer *t;
    assert_int_equal(qkv_tokenizer_train(ctx, &o, 3, texts, lengths, &t), QKV_OK);
    return t;
}

/* The id of the only token of this text. */
static int64_t id_of(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text) {
    qkv_token token;
    int64_t count;
    assert_int_equal(qkv_tokenizer_encode(ctx, t, text, (int64_t)strlen(text), &token, 1, &count), QKV_OK);
    assert_int_equal(count, 1);
    return token.id;
}

static bool has(const qkv_numbers *n, int64_t id) {
    for (int64_t i = 0; i < n->count; i++)
        if (n->at[i] == id) return true;
    return false;
}

static void names(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer *t = tokenizer(&ctx, QKV_TOKENIZER_BPE);
    qkv_numbers n;
    assert_int_equal(qkv_global_tokens_find(&ctx, t, "", &n), QKV_OK);
    assert_int_equal(n.count, 0);
    assert_int_equal(qkv_global_tokens_find(&ctx, t, " ?  <sep> \\n ", &n), QKV_OK);
    assert_true(has(&n, id_of(&ctx, t, "?")) && has(&n, QKV_TOKEN_SEP) && has(&n, id_of(&ctx, t, "\n")));
    assert_int_equal(qkv_global_tokens_find(&ctx, t, "WHY", &n), QKV_OK); /* as it is read: in lower case */
    assert_true(has(&n, id_of(&ctx, t, " why")));
    assert_int_equal(qkv_global_tokens_find(&ctx, t, "because?", &n), QKV_BAD_CONFIG);
    assert_non_null(strstr(ctx.message, "global-token: \"because?\" is no token of this tokenizer, which cuts it into \""));
    assert_non_null(strstr(ctx.message, "\"?\""));
    assert_int_equal(qkv_global_tokens_find(&ctx, t, "a\\q", &n), QKV_BAD_CONFIG);
    int64_t count;
    bool separator;
    assert_int_equal(qkv_global_tokens_count(&ctx, "a \\s \\\\ <sep>", &count, &separator), QKV_OK);
    assert_true(count == 4 && separator);
    assert_int_equal(qkv_global_tokens_count(&ctx, "1 2 3 4 5 6 7 8", &count, &separator), QKV_OK);
    assert_int_equal(qkv_global_tokens_count(&ctx, "1 2 3 4 5 6 7 8 9", &count, &separator), QKV_BAD_CONFIG);
    assert_string_equal(ctx.message, "global-token: 8 tokens at most");
    char text[16];
    qkv_global_token_print(t, (int32_t)id_of(&ctx, t, "\n"), text, sizeof text);
    assert_string_equal(text, "\\n");
    qkv_global_token_print(t, QKV_TOKEN_SEP, text, sizeof text);
    assert_string_equal(text, "<sep>");
    qkv_tokenizer_free(t);
    assert_int_equal(memory.blocks, 0);
}

static void characters(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer *t = tokenizer(&ctx, QKV_TOKENIZER_CHAR);
    qkv_numbers n;
    assert_int_equal(qkv_global_tokens_find(&ctx, t, "? \\s", &n), QKV_OK);
    assert_true(n.count == 2 && has(&n, id_of(&ctx, t, "?")) && has(&n, id_of(&ctx, t, " ")));
    assert_int_equal(qkv_global_tokens_find(&ctx, t, "#", &n), QKV_BAD_CONFIG);
    assert_string_equal(ctx.message, "global-token: the tokenizer does not know \"#\": to it it is \"<unk>\"");
    qkv_tokenizer_free(t);
    assert_int_equal(memory.blocks, 0);
}

static void printed(const qkv_tokenizer *t, int64_t id, size_t size, const char *expected) {
    char text[64];
    memset(text, '?', sizeof text);
    qkv_global_token_print(t, (int32_t)id, text, size);
    assert_string_equal(text, expected);
    assert_int_equal(text[size], '?');
}

/* Whatever bytes a token has, what is printed is text; and it is cut between characters. */
static void printed_as_text(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_tokenizer *bytes = tokenizer(&ctx, QKV_TOKENIZER_BYTE), *t;
    qkv_token letter[2];
    int64_t count;
    assert_int_equal(qkv_tokenizer_encode(&ctx, bytes, "\xd0\xbf", 2, letter, 2, &count), QKV_OK);
    assert_int_equal(count, 2);
    printed(bytes, letter[0].id, 16, "\\xD0");
    printed(bytes, letter[1].id, 16, "\\xBF");
    printed(bytes, letter[1].id, 4, "");
    printed(bytes, id_of(&ctx, bytes, "\x1b"), 16, "\\x1B");
    printed(bytes, id_of(&ctx, bytes, "\\"), 16, "\\\\");
    static const char text[] = "приветствие приветствие приветствие приветствие";
    const char *const texts[] = {text};
    const int64_t length = sizeof text - 1;
    const qkv_tokenizer_options o = {.kind = QKV_TOKENIZER_BPE, .vocab = 300};
    assert_int_equal(qkv_tokenizer_train(&ctx, &o, 1, texts, &length, &t), QKV_OK);
    const int64_t id = id_of(&ctx, t, " приветствие");
    printed(t, id, 32, " приветствие");
    printed(t, id, 16, " приветс");
    printed(t, id, 15, " привет");
    qkv_tokenizer_free(t);
    qkv_tokenizer_free(bytes);
    assert_int_equal(memory.blocks, 0);
}

static void batches_by_hand(void **state) {
    (void)state;
    static const int64_t offset[] = {0, 4, 4, 9}, segments[] = {0, 2, 2, 4}, segment_at[] = {0, 3, 4, 6, 9};
    static const int32_t ids[] = {5, 6, 5, 7, 6, 6, 5, 8, 6};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_config c = {.global_first = 1, .global_token = {1, {6}}};
    qkv_batch b = {.n_seq = 3, .offset = offset, .ids = ids};
    assert_int_equal(qkv_batch_list_globals(&ctx, &c, &b), QKV_OK);
    static const int64_t whole[] = {0, 2, 2, 5}, at[] = {0, 1, 0, 1, 4};
    assert_memory_equal(b.global_offset, whole, sizeof whole);
    assert_memory_equal(b.global_at, at, sizeof at);
    qkv_free(&ctx, (void *)b.global_offset);
    b.segments = segments, b.segment_at = segment_at; /* places are those in the segment */
    assert_int_equal(qkv_batch_list_globals(&ctx, &c, &b), QKV_OK);
    static const int64_t cut[] = {0, 2, 3, 5, 7}, cut_at[] = {0, 1, 0, 0, 1, 0, 2};
    assert_memory_equal(b.global_offset, cut, sizeof cut);
    assert_memory_equal(b.global_at, cut_at, sizeof cut_at);
    const qkv_batch lower = qkv_batch_lower(&b), upper = qkv_batch_upper(&b);
    assert_true(lower.global_offset == b.global_offset && lower.global_at == b.global_at && !upper.global_offset);
    qkv_free(&ctx, (void *)b.global_offset);
    b = (qkv_batch){.n_seq = 3, .offset = offset, .ids = ids};
    c.global_token.count = 0; /* the pattern tells it */
    assert_int_equal(qkv_batch_list_globals(&ctx, &c, &b), QKV_OK);
    assert_null(b.global_offset);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(characters), cmocka_unit_test(printed_as_text),
                                       cmocka_unit_test(batches_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
