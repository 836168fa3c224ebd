/* Pooled vectors: what the head multiplies, whatever stands around a text, for any number of threads. */
#include "unit/tasks/toy.h"

#include <math.h>

enum { DIM = 16, TEXTS = 8 };

static const char *const texts[TEXTS] = {"a bright day went on", "gloomy", "", "so did we and we and we", "the day the day bright",
                                         "x", "gloomy bright gloomy \xff\xfe", "and so on and so on and so on and so on and so on"};

static qkv_model *train(qkv_ctx *ctx, const char *name, qkv_pooling pooling) {
    char path[512];
    toy_file(name, 200, 5, path);
    qkv_classify_options o = toy_options();
    o.epochs = 1;
    o.ngrams = 0; /* the head then sees the vector alone */
    o.pooling = (int)pooling;
    qkv_model *model = NULL;
    if (qkv_classify_fit(ctx, &o, NULL, path, NULL, NULL, NULL, &model) != QKV_OK) fail_msg("%s", ctx->message);
    return model;
}

static void all_of(const qkv_model *model, float v[TEXTS][DIM], int64_t *dropped) {
    int64_t length[TEXTS];
    for (int i = 0; i < TEXTS; i++) length[i] = (int64_t)strlen(texts[i]);
    assert_int_equal(qkv_classify_vectors(model, TEXTS, texts, length, &v[0][0], dropped), QKV_OK);
}

static const real *parameter(const qkv_model *model, const char *name) {
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    for (int64_t i = 0; i < reg->count; i++)
        if (!strcmp(reg->params[i].name, name)) return model->weights + reg->params[i].offset;
    fail_msg("no parameter %s", name);
    return NULL;
}

/* softmax(W v + b) are the probabilities. */
static void they_are_what_the_head_sees(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    for (int pooling = QKV_POOL_MEAN; pooling <= QKV_POOL_LAST; pooling++) {
        qkv_model *model = train(&ctx, "embed_head.tsv", (qkv_pooling)pooling);
        const real *w = parameter(model, "head.weight"), *b = parameter(model, "head.bias");
        float v[TEXTS][DIM], p[TEXTS][2];
        int64_t length[TEXTS];
        all_of(model, v, NULL);
        for (int i = 0; i < TEXTS; i++) length[i] = (int64_t)strlen(texts[i]);
        assert_int_equal(qkv_classify_apply(model, TEXTS, texts, length, &p[0][0], NULL), QKV_OK);
        for (int i = 0; i < TEXTS; i++) {
            double logit[2], size = 0;
            for (int c = 0; c < 2; c++) {
                logit[c] = (double)b[c];
                for (int k = 0; k < DIM; k++) logit[c] += (double)w[c * DIM + k] * (double)v[i][k];
            }
            for (int k = 0; k < DIM; k++) size += fabs((double)v[i][k]);
            assert_true(fabs(1 / (1 + exp(logit[1] - logit[0])) - (double)p[i][0]) < 1e-5);
            /* an empty text has no tokens, but for the CLS of a model that pools it */
            assert_int_equal(size == 0, texts[i][0] == 0 && pooling != QKV_POOL_FIRST);
        }
        qkv_model_free(model);
    }
    assert_int_equal(memory.blocks, 0);
}

static void they_do_not_depend_on_the_company(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    qkv_model *model = train(&ctx, "embed_company.tsv", QKV_POOL_ATTENTION);
    float together[TEXTS][DIM], alone[DIM];
    int64_t dropped[TEXTS];
    all_of(model, together, dropped);
    for (int i = 0; i < TEXTS; i++) {
        int64_t length = (int64_t)strlen(texts[i]), cut;
        assert_int_equal(qkv_classify_vectors(model, 1, &texts[i], &length, alone, &cut), QKV_OK);
        assert_memory_equal(alone, together[i], sizeof alone);
        assert_int_equal(cut, dropped[i]);
    }
    /* many of them, for any number of threads */
    enum { MANY = 100 * TEXTS };
    static const char *many[MANY];
    static int64_t lengths[MANY];
    static float v[MANY][DIM];
    for (int i = 0; i < MANY; i++) {
        many[i] = texts[i % TEXTS];
        lengths[i] = (int64_t)strlen(many[i]);
    }
    for (int n = 1; n <= 4; n++) {
        ctx.threads = n;
        memset(v, 0, sizeof v);
        assert_int_equal(qkv_classify_vectors(model, MANY, many, lengths, &v[0][0], NULL), QKV_OK);
        for (int i = 0; i < MANY; i++) assert_memory_equal(v[i], together[i % TEXTS], sizeof v[i]);
    }
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* Weights that are finite, but no sum of them is: said of the first text that has no number, and the numbers before it are there. */
static void what_overflows_is_no_answer(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char path[512];
    qkv_model *model = train(&ctx, "embed_overflow.tsv", QKV_POOL_MEAN);
    const char *two[] = {"", "", "bright day"};
    const int64_t length[] = {0, 0, 10};
    float v[3][DIM], p[3][2];
    qkv_classify_report *report;
    qkv_model_unpack(model);
    real *w = (real *)parameter(model, "norm.weight");
    for (int i = 0; i < DIM; i++) w[i] = (real)3e38 * (sizeof(real) == 8 ? (real)5e269 : 1);
    assert_int_equal(qkv_classify_vectors(model, 3, two, length, &v[0][0], NULL), QKV_NUMERIC);
    assert_true(v[0][0] == 0 && v[1][DIM - 1] == 0);
    assert_non_null(strstr(ctx.message, "text 2: the model's answer is not a number"));
    assert_int_equal(qkv_classify_apply(model, 3, two, length, &p[0][0], NULL), QKV_NUMERIC);
    assert_true(p[0][0] > 0 && p[1][1] > 0);
    assert_int_equal(qkv_classify_apply(model, 2, two, length, &p[0][0], NULL), QKV_OK);
    toy_text("embed_overflow_test.tsv", "no\t\nyes\t\nno\tthe day went on and so did we\nno\tbright\n", path);
    assert_int_equal(qkv_classify_score(model, path, NULL, NULL, NULL, &report), QKV_NUMERIC);
    assert_non_null(strstr(ctx.message, "embed_overflow_test.tsv:3: the model's answer is not a number"));
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* The k-th allocation fails, for every k. */
static void no_memory_is_said(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    qkv_model *model = train(&ctx, "embed_memory.tsv", QKV_POOL_MEAN);
    float first[TEXTS][DIM], v[TEXTS][DIM];
    all_of(model, first, NULL);
    int64_t length[TEXTS], blocks = memory.blocks, failed = 0;
    for (int i = 0; i < TEXTS; i++) length[i] = (int64_t)strlen(texts[i]);
    for (int k = 1;; k++) {
        memory.fail_at = memory.calls + k;
        qkv_status status = qkv_classify_vectors(model, TEXTS, texts, length, &v[0][0], NULL);
        memory.fail_at = 0;
        assert_int_equal(memory.blocks, blocks);
        if (status == QKV_OK) break;
        assert_int_equal(status, QKV_NO_MEMORY);
        failed++;
    }
    assert_true(failed > 5);
    assert_memory_equal(v, first, sizeof v);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_what_the_head_sees),
        cmocka_unit_test(they_do_not_depend_on_the_company),
        cmocka_unit_test(what_overflows_is_no_answer),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
