#include "samples.h"

#include "text/tokenizer.h"

static qkv_tokenizer *train(qkv_ctx *ctx, qkv_tokenizer_kind kind, int64_t vocab, int lowercase, const samples *s) {
    qkv_tokenizer *t;
    qkv_tokenizer_options o = {kind, vocab, lowercase, 0};
    assert_int_equal(qkv_tokenizer_train(ctx, &o, s->count, s->texts, s->lengths, &t), QKV_OK);
    return t;
}

/* Through text, as the model file does it. */
static void what_was_written_reads_back(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    samples s = samples_make(21, 600);
    for (int kind = 0; kind < 3; kind++) {
        qkv_tokenizer *a = train(&ctx, (qkv_tokenizer_kind)kind, 700, kind != 1, &s), *b;
        json_t *json;
        assert_int_equal(qkv_tokenizer_to_json(&ctx, a, &json), QKV_OK);
        char *text = json_dumps(json, JSON_COMPACT);
        json_decref(json);
        json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        free(text);
        assert_non_null(json);
        assert_int_equal(qkv_tokenizer_from_json(&ctx, json, &b), QKV_OK);
        json_decref(json);
        const qkv_tokenizer_options *x = qkv_tokenizer_options_of(a), *y = qkv_tokenizer_options_of(b);
        assert_true(x->kind == y->kind && x->vocab == y->vocab && x->lowercase == y->lowercase);
        assert_int_equal(qkv_tokenizer_vocab(a), qkv_tokenizer_vocab(b));
        for (int32_t id = 0; id < qkv_tokenizer_vocab(a); id++) {
            int64_t p_size, q_size;
            const char *p = qkv_tokenizer_piece(a, id, &p_size), *q = qkv_tokenizer_piece(b, id, &q_size);
            assert_int_equal(p_size, q_size);
            assert_memory_equal(p, q, (size_t)p_size);
        }
        for (int64_t i = 0; i < s.count; i++) {
            qkv_token p[2 * SAMPLE_SIZE], q[2 * SAMPLE_SIZE];
            int64_t n, m;
            assert_int_equal(qkv_tokenizer_encode(&ctx, a, s.texts[i], s.lengths[i], p, 2 * SAMPLE_SIZE, &n), QKV_OK);
            assert_int_equal(qkv_tokenizer_encode(&ctx, b, s.texts[i], s.lengths[i], q, 2 * SAMPLE_SIZE, &m), QKV_OK);
            assert_int_equal(n, m);
            for (int64_t j = 0; j < n; j++) assert_true(p[j].id == q[j].id && p[j].begin == q[j].begin && p[j].end == q[j].end);
        }
        qkv_tokenizer_free(a);
        qkv_tokenizer_free(b);
    }
    samples_free(&s);
    assert_int_equal(memory.blocks, 0);
}

static void the_form_is_pinned(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const char *text = "the the then a\u0301 a\u0301";
    samples s = {1, NULL, &text, &(int64_t){(int64_t)strlen(text)}};
    const struct {
        qkv_tokenizer_kind kind;
        const char *expected;
    } forms[] = {
        {QKV_TOKENIZER_BPE, "{\"kind\":\"bpe\",\"lowercase\":false,\"vocab\":300,\"merges\":[\"h e\",\"t he\",\"\u0120 "
                            "a\",\"\u0120 the\",\"\u00CC \u0123\",\"\u0120a \u00CC\u0123\"]}"},
        {QKV_TOKENIZER_CHAR, "{\"kind\":\"char\",\"lowercase\":false,\"vocab\":300,\"code_points\":[32,101,104,116,97,769]}"},
        {QKV_TOKENIZER_BYTE, "{\"kind\":\"byte\",\"lowercase\":false}"},
    };
    for (int i = 0; i < 3; i++) {
        qkv_tokenizer *t = train(&ctx, forms[i].kind, 300, 0, &s);
        json_t *json;
        assert_int_equal(qkv_tokenizer_to_json(&ctx, t, &json), QKV_OK);
        char *written = json_dumps(json, JSON_COMPACT);
        assert_string_equal(written, forms[i].expected);
        free(written);
        json_decref(json);
        qkv_tokenizer_free(t);
    }
}

static void expect_refused(const char *text, const char *sentence) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    qkv_tokenizer *t;
    assert_int_equal(qkv_tokenizer_from_json(&ctx, json, &t), QKV_BAD_FORMAT);
    assert_null(t);
    if (!strstr(ctx.message, sentence)) assert_string_equal(ctx.message, sentence);
    json_decref(json);
    assert_int_equal(memory.blocks, 0);
}

static void damage_is_refused_with_its_reason(void **state) {
    (void)state;
    expect_refused("[]", "not a JSON object");
    expect_refused("{}", "\"kind\"");
    expect_refused("{\"kind\":7,\"lowercase\":true}", "\"kind\"");
    expect_refused("{\"kind\":\"byte\",\"lowercase\":1}", "\"lowercase\"");
    expect_refused("{\"kind\":\"byte\",\"lowercase\":true,\"x\":1}", "3 entries, expected 2");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"merges\":[]}", "\"vocab\"");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":{}}", "\"merges\"");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":259,\"merges\":[]}", "vocab=259 is too small");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":99999999999,\"merges\":[]}", "over the limit");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":-5,\"merges\":[]}", "too small");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":261,\"merges\":[\"a b\",\"c d\"]}", "2 merges do not fit");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[7]}", "merge 0 is not two pieces");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"ab\"]}", "merge 0 is not two pieces");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"a b\",\"ab  c\"]}", "merge 1");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\" b\"]}", "joins pieces");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"ab c\"]}", "joins pieces");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"a \u4F60\"]}", "joins pieces");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"a b\",\"a b\"]}", "there already");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"a \u00C3\"]}", "cuts a code point");
    expect_refused("{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"< un\",\"k >\"]}", "joins pieces");
    expect_refused("{\"kind\":\"char\",\"lowercase\":true,\"vocab\":300,\"code_points\":[1,2,1]}", "there twice");
    expect_refused("{\"kind\":\"char\",\"lowercase\":true,\"vocab\":300,\"code_points\":[55296]}", "no Unicode code point");
    expect_refused("{\"kind\":\"char\",\"lowercase\":true,\"vocab\":300,\"code_points\":[1114112]}", "no Unicode code point");
    expect_refused("{\"kind\":\"char\",\"lowercase\":true,\"vocab\":300,\"code_points\":[\"a\"]}", "no Unicode code point");
    expect_refused("{\"kind\":\"char\",\"lowercase\":true,\"vocab\":5,\"code_points\":[1,2]}", "2 code points do not fit");
}

/* Each merge doubles the piece: 60 of them would be an exabyte. */
static void a_small_file_cannot_ask_for_much_memory(void **state) {
    (void)state;
    char text[8192] = "{\"kind\":\"bpe\",\"lowercase\":true,\"vocab\":300,\"merges\":[\"a a\"";
    for (int size = 2; size < 200; size *= 2) {
        char piece[256];
        memset(piece, 'a', sizeof piece);
        snprintf(text + strlen(text), sizeof text - strlen(text), ",\"%.*s %.*s\"", size, piece, size, piece);
    }
    strcat(text, "]}");
    expect_refused(text, "over 128 bytes");
}

static void every_failing_allocation_is_survived(void **state) {
    (void)state;
    samples s = samples_make(22, 60);
    for (int kind = 0; kind < 3; kind++) {
        test_memory none = {0};
        TEST_CTX qkv_ctx plain = test_ctx(&none);
        qkv_tokenizer *a = train(&plain, (qkv_tokenizer_kind)kind, 500, 1, &s);
        int done = 0;
        for (int64_t k = 1; !done; k++) {
            test_memory memory = {.fail_at = k};
            TEST_CTX qkv_ctx ctx = test_ctx(&memory);
            json_t *json;
            qkv_tokenizer *b = NULL;
            qkv_status status = qkv_tokenizer_to_json(&ctx, a, &json);
            if (status == QKV_OK) status = qkv_tokenizer_from_json(&ctx, json, &b);
            done = memory.calls < k;
            assert_int_equal(status, done ? QKV_OK : QKV_NO_MEMORY);
            qkv_tokenizer_free(b);
            json_decref(json);
            assert_int_equal(memory.blocks, 0);
        }
        qkv_tokenizer_free(a);
    }
    samples_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_reads_back),          cmocka_unit_test(the_form_is_pinned),
        cmocka_unit_test(damage_is_refused_with_its_reason),    cmocka_unit_test(a_small_file_cannot_ask_for_much_memory),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
