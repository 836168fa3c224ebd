#include "model_support.h"
#include "qkv/classify.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

static qkv_model *model_of(qkv_ctx *ctx, qkv_config config) {
    qkv_model *model;
    if (test_model_try(ctx, &config, &model) != QKV_OK) fail_msg("%s", ctx->message);
    return model;
}

static void looks(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    qkv_model *model = test_model(&ctx);
    assert_string_equal(qkv_model_task(model), "classify");
    assert_int_equal(qkv_model_labels(model), TEST_LABELS);
    for (int64_t i = 0; i < TEST_LABELS; i++) {
        assert_memory_equal(qkv_model_label(model, i), test_labels[i].bytes, (size_t)test_labels[i].size + 1);
    }
    assert_null(qkv_model_label(model, -1));
    assert_null(qkv_model_label(model, TEST_LABELS));
    assert_int_equal(qkv_tokenizer_vocab(qkv_model_tokenizer(model)), 260);
    assert_null(qkv_model_task(NULL));
    assert_int_equal(qkv_model_labels(NULL), 0);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static json_t *at(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!value) fail_msg("the description has no %s", key);
    return value;
}

static const json_t *parameter(const json_t *all, const char *name) {
    const json_t *list = at(all, "parameters");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(json_string_value(at(json_array_get(list, i), "name")), name) == 0) return json_array_get(list, i);
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

static void describes(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    qkv_model *model = test_model(&ctx);
    char *text;
    assert_int_equal(qkv_model_describe(model, &text), QKV_OK);
    json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    assert_string_equal(json_string_value(at(all, "task")), "classify");
    assert_int_equal(json_integer_value(at(all, "version")), 1);
    assert_int_equal(json_array_size(at(all, "labels")), TEST_LABELS);
    assert_string_equal(json_string_value(json_array_get(at(all, "labels"), 4)), "sport");
    assert_string_equal(json_string_value(at(at(all, "tokenizer"), "kind")), "byte");
    assert_int_equal(json_integer_value(at(at(all, "tokenizer"), "vocab")), 260);
    assert_true(json_is_false(at(at(all, "tokenizer"), "lowercase")));
    assert_int_equal(json_integer_value(at(at(all, "config"), "dim")), 12);
    assert_string_equal(json_string_value(at(at(all, "config"), "activation")), "swiglu");
    assert_string_equal(json_string_value(at(all, "network")),
                        "2 layers, dim 12, 3 heads (1 of keys and values), ffn 10 (swiglu), positions learned, pooling attention");
    assert_true(json_real_value(at(at(all, "record"), "accuracy")) == 0.1);
    /* no decay on biases and norms (as users asked), none on embeddings */
    const json_t *weight = parameter(all, "encoder.1.ffn.in.weight");
    assert_int_equal(json_integer_value(json_array_get(at(weight, "shape"), 0)), 20);
    assert_int_equal(json_integer_value(json_array_get(at(weight, "shape"), 1)), 12);
    assert_int_equal(json_integer_value(at(weight, "count")), 240);
    assert_true(json_is_true(at(weight, "decay")));
    assert_true(json_is_false(at(weight, "embedding")));
    assert_true(json_is_false(at(parameter(all, "encoder.0.norm1.weight"), "decay")));
    assert_true(json_is_false(at(parameter(all, "encoder.0.attention.qkv.bias"), "decay")));
    assert_int_equal(json_array_size(at(parameter(all, "head.bias"), "shape")), 1);
    assert_true(json_is_true(at(parameter(all, "embedding.weight"), "embedding")));
    int64_t count = 0;
    for (size_t i = 0; i < json_array_size(at(all, "parameters")); i++) {
        count += json_integer_value(at(json_array_get(at(all, "parameters"), i), "count"));
    }
    assert_int_equal(json_integer_value(at(all, "parameter_count")), count);
    assert_true(json_integer_value(at(all, "bytes")) >= count * (int64_t)sizeof(float));
    const json_t *flops = at(all, "flops_per_token");
    assert_int_equal(json_object_size(flops), 2);
    double f32 = json_real_value(at(flops, "32")), f40 = json_real_value(at(flops, "40"));
    /* every matrix once a token, and attention that grows with the length */
    assert_true(f32 > 2.0 * 2 * (20 * 12 + 12 * 12 + 20 * 12 + 10 * 12) && f40 > f32 && f40 < 1.3 * f32);
    json_decref(all);
    qkv_release(&ctx, text);
    qkv_config config = test_config();
    config.max_length = 7;
    qkv_model *brief = model_of(&ctx, config);
    assert_int_equal(qkv_model_describe(brief, &text), QKV_OK);
    all = json_loads(text, 0, NULL);
    assert_int_equal(json_object_size(at(all, "flops_per_token")), 1);
    assert_true(json_real_value(at(at(all, "flops_per_token"), "7")) > 0);
    json_decref(all);
    qkv_release(&ctx, text);
    qkv_model_free(brief);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static void tokens_are_what_the_model_sees(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    qkv_model *model = test_model(&ctx);
    qkv_token *tokens;
    int64_t count, full;
    assert_int_equal(qkv_model_tokens(model, "a\0b", 3, &tokens, &count, &full), QKV_OK);
    assert_int_equal(count, 3);
    assert_int_equal(full, 3);
    for (int i = 0; i < 3; i++) assert_true(tokens[i].begin == i && tokens[i].end == i + 1);
    qkv_release(&ctx, tokens);
    char text[100];
    memset(text, 'x', sizeof text);
    assert_int_equal(qkv_model_tokens(model, text, 100, &tokens, &count, &full), QKV_OK);
    assert_int_equal(count, 40);
    assert_int_equal(full, 100);
    qkv_release(&ctx, tokens);
    assert_int_equal(qkv_model_tokens(model, NULL, 0, &tokens, &count, NULL), QKV_OK);
    assert_int_equal(count, 0);
    qkv_release(&ctx, tokens);
    assert_int_equal(qkv_model_tokens(model, NULL, 5, &tokens, &count, &full), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_tokens(model, "a", -1, &tokens, &count, &full), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_tokens(NULL, "a", 1, &tokens, &count, &full), QKV_BAD_ARGUMENT);
    qkv_model_free(model);
    /* pooling by the first row: CLS stands in front, and counts against the limit */
    qkv_config config = test_config();
    config.pooling = QKV_POOL_FIRST;
    model = model_of(&ctx, config);
    assert_int_equal(qkv_model_tokens(model, text, 100, &tokens, &count, &full), QKV_OK);
    assert_int_equal(count, 40);
    assert_int_equal(full, 101);
    assert_int_equal(tokens[0].id, QKV_TOKEN_CLS);
    assert_true(tokens[0].begin == 0 && tokens[0].end == 0 && tokens[1].begin == 0 && tokens[39].end == 39);
    qkv_release(&ctx, tokens);
    assert_int_equal(qkv_model_tokens(model, "", 0, &tokens, &count, &full), QKV_OK);
    assert_int_equal(count, 1);
    qkv_release(&ctx, tokens);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static void attention_is_a_distribution(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    qkv_config config = test_config();
    config.span = (qkv_span){2, 0};
    qkv_model *model = model_of(&ctx, config);
    enum { N = 9 };
    float weights[N * N + 1], packed[N * N];
    for (int64_t layer = 0; layer < 2; layer++) {
        for (int64_t head = 0; head < 3; head++) {
            weights[N * N] = 77;
            if (qkv_model_attention(model, "nine byte", N, layer, head, weights) != QKV_OK) fail_msg("%s", ctx.message);
            assert_true(weights[N * N] == 77);
            for (int i = 0; i < N; i++) {
                double sum = 0;
                for (int j = 0; j < N; j++) {
                    if (j > i || j < i - 2)
                        assert_true(weights[i * N + j] == 0);
                    else
                        assert_true(weights[i * N + j] > 0);
                    sum += weights[i * N + j];
                }
                assert_true(fabs(sum - 1) < 1e-6);
            }
        }
    }
    assert_int_equal(qkv_model_pack(model), QKV_OK); /* packed copies change no bit */
    assert_int_equal(qkv_model_attention(model, "nine byte", N, 1, 2, packed), QKV_OK);
    assert_memory_equal(packed, weights, sizeof packed);
    assert_int_equal(qkv_model_attention(model, "", 0, 1, 2, NULL), QKV_OK);
    assert_int_equal(qkv_model_attention(model, "x", 1, 1, 2, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_attention(model, "x", 1, 2, 0, weights), QKV_BAD_ARGUMENT);
    assert_string_equal(ctx.message, "layer 2 is out of range: the model has 2 (0..1)");
    assert_int_equal(qkv_model_attention(model, "x", 1, 0, 3, weights), QKV_BAD_ARGUMENT);
    assert_string_equal(ctx.message, "head 3 is out of range: the model has 3 (0..2)");
    assert_int_equal(qkv_model_attention(model, "x", 1, 0, -1, weights), QKV_BAD_ARGUMENT);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* bf16 gives other bits, not far off, and f32 afterwards the same as before. */
static void computes_either_way(void **state) {
    (void)state;
    enum { ROWS = 3, ALL = ROWS * TEST_LABELS };
    static const char *const texts[ROWS] = {"nine bytes or more", "", "x"};
    static const int64_t lengths[ROWS] = {18, 0, 1};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    qkv_model *model = test_model(&ctx);
    float p[3][ALL];
    static const qkv_compute how[3] = {QKV_COMPUTE_F32, QKV_COMPUTE_BF16, QKV_COMPUTE_F32};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(qkv_model_set_compute(model, how[i]), QKV_OK);
        assert_int_equal(qkv_model_compute(model), how[i]);
        assert_int_equal(qkv_classify_predict(model, ROWS, texts, lengths, p[i], NULL), QKV_OK);
    }
    assert_memory_equal(p[0], p[2], sizeof p[0]);
    assert_memory_not_equal(p[0], p[1], sizeof p[0]);
    for (int i = 0; i < ALL; i++) assert_true(fabs((double)(p[0][i] - p[1][i])) < 0.02);
    assert_int_equal(qkv_model_set_compute(model, (qkv_compute)2), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_set_compute(NULL, QKV_COMPUTE_F32), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_compute(NULL), QKV_COMPUTE_F32);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* The k-th allocation fails, for every k, in describing, cutting to tokens and attending. */
static void survives_no_memory(void **state) {
    (void)state;
    for (int64_t k = 1, done = 0; !done; k++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
        qkv_model *model = test_model(&ctx);
        int64_t before = memory.blocks;
        memory.calls = 0;
        memory.fail_at = k;
        char *text = NULL;
        qkv_token *tokens = NULL;
        int64_t count, full;
        float weights[25];
        qkv_status status = qkv_model_describe(model, &text);
        if (status == QKV_OK) status = qkv_model_tokens(model, "abcde", 5, &tokens, &count, &full);
        if (status == QKV_OK) status = qkv_model_attention(model, "abcde", 5, 1, 1, weights);
        done = status == QKV_OK;
        if (!done) assert_int_equal(status, QKV_NO_MEMORY);
        qkv_release(&ctx, text);
        qkv_release(&ctx, tokens);
        assert_int_equal(memory.blocks, before);
        memory.fail_at = 0;
        qkv_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks),
        cmocka_unit_test(describes),
        cmocka_unit_test(tokens_are_what_the_model_sees),
        cmocka_unit_test(attention_is_a_distribution),
        cmocka_unit_test(computes_either_way),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
