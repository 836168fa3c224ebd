/* The law of memory: when the k-th allocation fails, for every k, a call returns QKV_NO_MEMORY with a sentence, leaks nothing
 * and does not crash; the same call works once memory is back. */
#include "unit/tasks/toy.h"

/* texts: for a pretraining; NULL: there is none. */
static void work_train(qkv_ctx *ctx, const char *path, const char *texts, int network, qkv_status *status, qkv_model **model) {
    qkv_classify_options o = toy_options();
    o.model = network;
    o.pretrain = texts ? 1 : 0;
    o.pretrain_text = texts;
    o.epochs = 2;
    o.layers = 2;
    o.dim = 8;
    o.ffn = 8;
    o.vocab = 270;
    o.recompute = 1;
    *status = qkv_classify_fit(ctx, &o, NULL, path, NULL, NULL, NULL, model);
}

static qkv_status work_predict(const qkv_model *model) {
    static const char *const texts[] = {"a bright day", "", "a gloomy day that went on and on and on and on and on and on and on"};
    static const int64_t lengths[] = {12, 0, 66};
    float p[3 * 2];
    int64_t dropped[3];
    return qkv_classify_apply(model, 3, texts, lengths, p, dropped);
}

static qkv_status work_test(const qkv_model *model, const char *path) {
    qkv_classify_report *report;
    qkv_comparison comparison;
    char out[512];
    qkv_status status = qkv_classify_score(model, path, NULL, NULL, NULL, &report);
    assert_int_equal(report != NULL, status == QKV_OK);
    if (status == QKV_OK) status = qkv_classify_resample(report, 100, 1);
    if (status == QKV_OK) status = qkv_classify_pair(report, report, 100, 1, &comparison);
    if (status == QKV_OK) status = qkv_classify_errors(report, test_path("oom_errors.tsv", out), 0);
    if (status == QKV_OK) status = qkv_classify_confusion(report, test_path("oom_confusion.tsv", out));
    qkv_classify_score_free(model->ctx, report);
    return status;
}

static qkv_status work_save_and_load(const qkv_model *model, const char *path) {
    qkv_status status = qkv_model_save(model, path);
    qkv_model *loaded = NULL;
    if (status == QKV_OK) status = qkv_model_load(model->ctx, path, &loaded);
    assert_int_equal(loaded != NULL, status == QKV_OK);
    qkv_model_free(loaded);
    return status;
}

/* Was the k-th allocation reached? Then the status must say so, and memory must be as it was. */
static bool failed_as_it_should(const test_memory *memory, qkv_ctx *ctx, qkv_status status, int64_t blocks_before) {
    bool reached = memory->calls >= memory->fail_at;
    if (status != (reached ? QKV_NO_MEMORY : QKV_OK))
        print_error("allocation %d: status %d, %s\n", (int)memory->fail_at, status, ctx->message);
    assert_int_equal(status, reached ? QKV_NO_MEMORY : QKV_OK);
    assert_int_equal(memory->blocks, blocks_before);
    if (reached) assert_non_null(strstr(ctx->message, "memory"));
    return reached;
}

static void train_with_failures(const char *path, const char *texts, int network, int64_t least) {
    for (int64_t k = 1;; k++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
        memory.fail_at = k;
        qkv_status status;
        qkv_model *model;
        work_train(&ctx, path, texts, network, &status, &model);
        assert_int_equal(model != NULL, status == QKV_OK);
        qkv_model_free(model);
        if (!failed_as_it_should(&memory, &ctx, status, 0)) {
            assert_true(k > least);
            break;
        }
    }
}

static void training(void **state) {
    (void)state;
    char path[512];
    toy_file("oom_train.tsv", 12, 1, path);
    train_with_failures(path, NULL, QKV_NETWORK_TRANSFORMER, 100);
    train_with_failures(path, NULL, QKV_NETWORK_BIGRU, 100);
}

static void pretraining(void **state) {
    (void)state;
    char path[512], texts[512];
    toy_file("oom_train.tsv", 12, 1, path);
    toy_text("oom_texts", "a bright day\nand so we went on\n", texts);
    train_with_failures(path, texts, QKV_NETWORK_TRANSFORMER, 200);
}

typedef enum work { PREDICT, TEST, SAVE_AND_LOAD, WORKS } work;

static void using_a_model(void **state) {
    (void)state;
    char path[512], saved[512];
    toy_file("oom_use.tsv", 12, 1, path);
    test_path("oom_model.safetensors", saved);
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    qkv_status status;
    qkv_model *model;
    work_train(&ctx, path, NULL, QKV_NETWORK_TRANSFORMER, &status, &model);
    assert_int_equal(status, QKV_OK);
    for (work w = PREDICT; w < WORKS; w++) {
        int64_t k = 1;
        for (;; k++) {
            qkv_model_unpack(model);
            int64_t before = memory.blocks;
            memory.calls = 0;
            memory.fail_at = k;
            ctx.message[0] = 0;
            status = w == PREDICT ? work_predict(model) : w == TEST ? work_test(model, path) : work_save_and_load(model, saved);
            qkv_model_unpack(model); /* the cache of packed weights stays on purpose */
            if (!failed_as_it_should(&memory, &ctx, status, before)) break;
        }
        assert_true(k > 5);
        memory.fail_at = 0;
    }
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(training), cmocka_unit_test(pretraining), cmocka_unit_test(using_a_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
