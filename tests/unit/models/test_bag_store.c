/* A model file with a bag of words: whole, and damaged. */
#include "model_support.h"

#include <math.h>
#include <unistd.h>

static const uint64_t KEYS[] = {3, 77, 0xfedcba9876543210u};
enum { FEATURES = sizeof KEYS / sizeof *KEYS };

static qkv_status add_bag(qkv_ctx *ctx, int64_t features, qkv_bag *b) {
    *b = (qkv_bag){.ctx = ctx, .ngrams = 2, .features = features, .classes = TEST_LABELS};
    QKV_TRY(qkv_alloc(ctx, features, sizeof *b->key, &b->key));
    QKV_TRY(qkv_alloc(ctx, features * TEST_LABELS, sizeof(real), &b->weight));
    QKV_TRY(qkv_alloc(ctx, TEST_LABELS, sizeof(real), &b->bias));
    if (features > 0) memcpy(b->key, KEYS, (size_t)features * sizeof *KEYS);
    for (int64_t i = 0; i < features * TEST_LABELS; i++) b->weight[i] = (real)i / 7 - 1;
    for (int64_t i = 0; i < TEST_LABELS; i++) b->bias[i] = (real)i / 3;
    return qkv_bag_index(b);
}

static qkv_model *with_bag(qkv_ctx *ctx, int64_t features) {
    qkv_config config = test_config();
    qkv_model *model;
    config.ngrams = 2;
    assert_int_equal(test_model_try(ctx, &config, &model), QKV_OK);
    assert_int_equal(add_bag(ctx, features, &model->bag), QKV_OK);
    return model;
}

static void save_load_save(void **state) {
    (void)state;
    for (int64_t features = 0; features <= FEATURES; features += FEATURES) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
        char first[512], second[512];
        test_path("bag-first", first);
        test_path("bag-second", second);
        qkv_model *model = with_bag(&ctx, features), *loaded;
        assert_int_equal(qkv_model_save(model, first), QKV_OK);
        if (qkv_model_load(&ctx, first, &loaded) != QKV_OK) fail_msg("%s", ctx.message);
        assert_int_equal(loaded->bag.features, features);
        assert_int_equal(loaded->bag.ngrams, 2);
        real a[TEST_LABELS], b[TEST_LABELS];
        const uint64_t keys[] = {77, 5, 3, 77};
        int32_t found[4];
        qkv_bag_score(&model->bag, found, qkv_bag_find(&model->bag, keys, 4, found), a);
        int64_t n = qkv_bag_find(&loaded->bag, keys, 4, found);
        assert_int_equal(n, features ? 2 : 0);
        qkv_bag_score(&loaded->bag, found, n, b);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(qkv_model_save(loaded, second), QKV_OK);
        int64_t n1, n2;
        char *x = test_read_file(first, &n1), *y = test_read_file(second, &n2);
        assert_int_equal(n1, n2);
        assert_memory_equal(x, y, (size_t)n1);
        free(x);
        free(y);
        qkv_model_free(model);
        qkv_model_free(loaded);
        assert_int_equal(memory.blocks, 0);
        unlink(first);
        unlink(second);
    }
}

/* What happens to the tensors of a good file; where one is dropped its name is emptied. */
typedef struct fault {
    const char *name, *part;
    int what;
} fault;
enum { DROPPED, WRONG_TYPE, WRONG_SHAPE, NOT_FINITE, DESCENDING };

static void write_with(qkv_ctx *ctx, const qkv_safetensors *file, const fault *f, const char *path) {
    qkv_tensor tensors[64];
    static real numbers[FEATURES * TEST_LABELS];
    static uint64_t keys[FEATURES] = {3, 3, 4};
    qkv_metadata metadata[16];
    int64_t n = 0, n_metadata;
    const qkv_metadata *all = qkv_safetensors_all_metadata(file, &n_metadata);
    char hex[65];
    for (int64_t i = 0; i < qkv_safetensors_count(file); i++) {
        qkv_tensor t = *qkv_safetensors_at(file, i);
        bool it = strcmp(t.name, f->name) == 0;
        if (it && f->what == DROPPED) continue;
        if (it && f->what == WRONG_TYPE) t.dtype = t.dtype == QKV_DTYPE_U64 ? QKV_DTYPE_F64 : sizeof(real) == 8 ? QKV_DTYPE_U64 : QKV_DTYPE_I32;
        if (it && f->what == WRONG_SHAPE) t.rank = 3, t.shape[1] = t.rank > 1 ? t.shape[1] : 1, t.shape[2] = 1;
        if (it && f->what == WRONG_SHAPE && t.count == t.shape[0]) t.shape[1] = 1;
        if (it && f->what == NOT_FINITE) numbers[1] = (real)INFINITY, t.data = numbers;
        if (it && f->what == DESCENDING) t.data = keys;
        tensors[n++] = t;
    }
    memcpy(metadata, all, (size_t)n_metadata * sizeof *all);
    qkv_model_checksum(metadata, n_metadata, tensors, n, hex);
    for (int64_t i = 0; i < n_metadata; i++)
        if (strcmp(metadata[i].key, "qkv.sha256") == 0) metadata[i].value = hex;
    qkv_output *output;
    assert_int_equal(qkv_output_open(ctx, path, &output), QKV_OK);
    if (qkv_safetensors_write(ctx, output, tensors, n, metadata, n_metadata) != QKV_OK) fail_msg("%s", ctx->message);
    assert_int_equal(qkv_output_commit(output), QKV_OK);
}

static void refuses_damage(void **state) {
    (void)state;
    static const fault faults[] = {
        {"bag.keys", "tensor \"bag.keys\" of the linear model is missing", DROPPED},
        {"bag.weight", "tensor \"bag.weight\" of the linear model is missing", DROPPED},
        {"bag.bias", "tensor \"bag.bias\" of the linear model is missing", DROPPED},
        {"bag.keys", "tensor \"bag.keys\" is not of the type and the shape", WRONG_TYPE},
        {"bag.weight", "tensor \"bag.weight\" is not of the type and the shape", WRONG_TYPE},
        {"bag.bias", "tensor \"bag.bias\" is not of the type and the shape", WRONG_TYPE},
        {"bag.keys", "tensor \"bag.keys\" is not of the type and the shape", WRONG_SHAPE},
        {"bag.weight", "tensor \"bag.weight\" is not of the type and the shape", WRONG_SHAPE},
        {"bag.bias", "tensor \"bag.bias\" is not of the type and the shape", WRONG_SHAPE},
        {"bag.weight", "the linear model holds a value that is not finite", NOT_FINITE},
        {"bag.bias", "the linear model holds a value that is not finite", NOT_FINITE},
        {"bag.keys", "the keys of the linear model do not ascend (element 1)", DESCENDING},
    };
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    char good[512], bad[512];
    test_path("bag-good", good);
    test_path("bag-bad", bad);
    qkv_model *model = with_bag(&ctx, FEATURES);
    assert_int_equal(qkv_model_save(model, good), QKV_OK);
    qkv_model_free(model);
    qkv_safetensors *file;
    assert_int_equal(qkv_safetensors_open(&ctx, good, &file), QKV_OK);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        write_with(&ctx, file, &faults[i], bad);
        qkv_status status = qkv_model_load(&ctx, bad, &model);
        if (status != QKV_BAD_FORMAT || !strstr(ctx.message, faults[i].part)) fail_msg("%zu: status %d, \"%s\"", i, status, ctx.message);
        assert_null(model);
    }
    qkv_safetensors_close(file);
    assert_int_equal(memory.blocks, 0);
    unlink(good);
    unlink(bad);
}

/* A bag in a file whose config has none is not part of the network; one that is not finite is not saved. */
static void refuses_what_is_not_asked_for(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    char path[512];
    test_path("bag-odd", path);
    qkv_model *model = with_bag(&ctx, FEATURES), *loaded;
    model->config.ngrams = 0;
    assert_int_equal(qkv_model_save(model, path), QKV_OK);
    assert_int_equal(qkv_model_load(&ctx, path, &loaded), QKV_BAD_FORMAT);
    assert_non_null(strstr(ctx.message, "tensor \"bag."));
    model->bag.weight[2] = (real)NAN;
    assert_int_equal(qkv_model_save(model, path), QKV_NUMERIC);
    assert_non_null(strstr(ctx.message, "its linear model"));
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
    unlink(path);
}

static void survives_no_memory(void **state) {
    (void)state;
    char path[512];
    test_path("bag-oom", path);
    {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
        qkv_model *model = with_bag(&ctx, FEATURES);
        assert_int_equal(qkv_model_save(model, path), QKV_OK);
        qkv_model_free(model);
    }
    for (int64_t k = 1;; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
        qkv_model *model;
        qkv_status status = qkv_model_load(&ctx, path, &model);
        if (status == QKV_OK) qkv_model_free(model);
        assert_int_equal(memory.blocks, 0);
        if (status == QKV_OK) break;
        assert_int_equal(status, QKV_NO_MEMORY);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(save_load_save), cmocka_unit_test(refuses_damage),
                                       cmocka_unit_test(refuses_what_is_not_asked_for), cmocka_unit_test(survives_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
