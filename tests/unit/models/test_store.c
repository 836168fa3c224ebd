#include "model_support.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static void same_model(const qkv_model *a, const qkv_model *b) {
    assert_string_equal(a->task, b->task);
    assert_int_equal(a->config.classes, b->config.classes);
    for (int64_t i = 0; i < a->config.classes; i++) {
        assert_int_equal(a->label_sizes[i], b->label_sizes[i]);
        assert_memory_equal(a->labels[i], b->labels[i], (size_t)a->label_sizes[i] + 1);
    }
    const qkv_reg *reg = qkv_classifier_reg(a->net);
    assert_memory_equal(a->weights, b->weights, (size_t)reg->size * sizeof(real));
    assert_true(json_equal(a->record, b->record));
    assert_int_equal(qkv_tokenizer_vocab(a->tokenizer), qkv_tokenizer_vocab(b->tokenizer));
    assert_true(a->config.embedding_dropout == b->config.embedding_dropout);
}

static void save(qkv_model *model, const char *path) {
    if (qkv_model_save(model, path) != QKV_OK) fail_msg("%s", model->ctx->message);
}

/* Save, load, save: equal models, identical bytes. */
static void save_load_save(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    char first[512], second[512];
    test_path("store-first", first);
    test_path("store-second", second);
    qkv_model *model = test_model(&ctx), *loaded;
    save(model, first);
    if (qkv_model_load(&ctx, first, &loaded) != QKV_OK) fail_msg("%s", ctx.message);
    same_model(model, loaded);
    assert_int_equal(qkv_model_pack(loaded), QKV_OK); /* packed copies are not stored */
    save(loaded, second);
    int64_t n1, n2;
    char *a = test_read_file(first, &n1), *b = test_read_file(second, &n2);
    assert_int_equal(n1, n2);
    assert_memory_equal(a, b, (size_t)n1);
    free(a);
    free(b);
    qkv_model_free(model);
    qkv_model_free(loaded);
    qkv_model_free(NULL);
    assert_int_equal(memory.blocks, 0);
    unlink(first);
    unlink(second);
}

/* Metadata for any reader; tensors whose size allows it at multiples of 64 bytes of the file. */
static void file_is_plain_and_aligned(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    char path[512];
    test_path("store-aligned", path);
    qkv_model *model = test_model(&ctx);
    save(model, path);
    qkv_safetensors *file;
    assert_int_equal(qkv_safetensors_open(&ctx, path, &file), QKV_OK);
    assert_string_equal(qkv_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(qkv_safetensors_metadata(file, "qkv.version"), "1");
    assert_string_equal(qkv_safetensors_metadata(file, "qkv.task"), "classify");
    const char *labels = qkv_safetensors_metadata(file, "qkv.labels");
    assert_non_null(strstr(labels, "\"back\\\\\\\\slash \\\\\\\\x41\"")); /* JSON doubles what the escape doubled */
    assert_non_null(strstr(labels, "\"nul\\\\x00in it\""));
    assert_non_null(strstr(labels, "\"\\\\xFF\\\\xC3(\\\\xE4\\\\xB8\""));
    assert_non_null(strstr(labels, "\xe4\xb8\xad\xe6\x96\x87"));
    const qkv_reg *reg = qkv_classifier_reg(model->net);
    assert_int_equal(qkv_safetensors_count(file), reg->count);
    bool whole = true;
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_tensor *t = qkv_safetensors_at(file, i);
        int64_t align = t->bytes % 64 == 0 ? 64 : t->bytes % 32 == 0 ? 32 : t->bytes % 16 == 0 ? 16 : t->bytes % 8 == 0 ? 8 : 4;
        assert_int_equal((uintptr_t)t->data % (uintptr_t)align, 0);
        assert_true(whole || align < 64); /* those of whole multiples come first */
        whole = align == 64;
    }
    qkv_safetensors_close(file);
    qkv_model_free(model);
    unlink(path);
}

/* ---- files that must be refused ---- */

typedef struct edited {
    qkv_tensor tensors[64];
    int64_t count;
    qkv_metadata metadata[16];
    int64_t n_metadata;
    char text[8192]; /* room for a changed value */
    real numbers[256];
} edited;

static edited copy_of(const qkv_safetensors *file) {
    edited e = {0};
    e.count = qkv_safetensors_count(file);
    assert_true(e.count < 60);
    for (int64_t i = 0; i < e.count; i++) e.tensors[i] = *qkv_safetensors_at(file, i);
    const qkv_metadata *all = qkv_safetensors_all_metadata(file, &e.n_metadata);
    memcpy(e.metadata, all, (size_t)e.n_metadata * sizeof *all);
    return e;
}

static qkv_metadata *find_metadata(edited *e, const char *key) {
    for (int64_t i = 0; i < e->n_metadata; i++) {
        if (strcmp(e->metadata[i].key, key) == 0) return &e->metadata[i];
    }
    fail_msg("no metadata %s", key);
    return NULL;
}

static qkv_tensor *find_tensor(edited *e, const char *name) {
    for (int64_t i = 0; i < e->count; i++) {
        if (strcmp(e->tensors[i].name, name) == 0) return &e->tensors[i];
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

static void set(edited *e, const char *key, const char *value) {
    find_metadata(e, key)->value = value;
}

/* A new entry, in the order of the keys. */
static void add(edited *e, const char *key, const char *value) {
    int64_t at = e->n_metadata++;
    for (; at > 0 && strcmp(e->metadata[at - 1].key, key) > 0; at--) e->metadata[at] = e->metadata[at - 1];
    e->metadata[at] = (qkv_metadata){key, value};
}

static void drop(edited *e, const char *key) {
    qkv_metadata *m = find_metadata(e, key);
    memmove(m, m + 1, (size_t)(e->metadata + --e->n_metadata - m) * sizeof *m);
}

/* In the value of `key`, replaces the first `from` by `to`. */
static void replace(edited *e, const char *key, const char *from, const char *to) {
    const char *value = find_metadata(e, key)->value, *at = strstr(value, from);
    if (!at) fail_msg("%s has no %s: %s", key, from, value);
    snprintf(e->text, sizeof e->text, "%.*s%s%s", (int)(at - value), value, to, at + strlen(from));
    set(e, key, e->text);
}

static void newer(edited *e) {
    set(e, "qkv.version", "2");
}
static void version_word(edited *e) {
    set(e, "qkv.version", "one");
}
static void version_zero(edited *e) {
    set(e, "qkv.version", "0");
}
static void no_version(edited *e) {
    drop(e, "qkv.version");
}
static void other_task(edited *e) {
    set(e, "qkv.task", "translate");
}
static void no_task(edited *e) {
    drop(e, "qkv.task");
}
static void no_config(edited *e) {
    drop(e, "qkv.config");
}
static void config_text(edited *e) {
    set(e, "qkv.config", "layers: 2");
}
static void config_list(edited *e) {
    set(e, "qkv.config", "[]");
}
static void config_key(edited *e) {
    replace(e, "qkv.config", "\"layers\"", "\"leyers\"");
}
static void config_twice(edited *e) {
    replace(e, "qkv.config", "\"layers\":2", "\"layers\":2,\"layers\":2");
}
static void config_heads(edited *e) {
    replace(e, "qkv.config", "\"heads\":3", "\"heads\":5");
}
static void dim_2_40(edited *e) {
    replace(e, "qkv.config", "\"dim\":12", "\"dim\":1099511627776");
}
static void dim_large(edited *e) {
    replace(e, "qkv.config", "\"dim\":12", "\"dim\":49152");
}
static void vocab_large(edited *e) {
    replace(e, "qkv.config", "\"vocab\":260", "\"vocab\":268435456");
}
static void classes_large(edited *e) {
    replace(e, "qkv.config", "\"classes\":8", "\"classes\":16777216");
}
static void ffn_large(edited *e) {
    replace(e, "qkv.config", "\"ffn\":10", "\"ffn\":1000000");
}
static void layers_large(edited *e) {
    replace(e, "qkv.config", "\"layers\":2", "\"layers\":4096");
}
static void length_large(edited *e) {
    replace(e, "qkv.config", "\"max_length\":40", "\"max_length\":16777216");
}
static void head_dim_large(edited *e) {
    replace(e, "qkv.config", "\"head_dim\":4", "\"head_dim\":4096");
}
static void layers_more(edited *e) {
    replace(e, "qkv.config", "\"layers\":2", "\"layers\":3");
}
static void layers_fewer(edited *e) {
    replace(e, "qkv.config", "\"layers\":2", "\"layers\":1");
}
static void sinusoidal_large(edited *e) {
    length_large(e);
    char text[sizeof e->text];
    strcpy(text, e->text);
    set(e, "qkv.config", text);
    replace(e, "qkv.config", "\"learned\"", "\"sinusoidal\"");
}
static void missing_tensor(edited *e) {
    qkv_tensor *t = find_tensor(e, "norm.bias");
    *t = e->tensors[--e->count];
}
static void unknown_tensor(edited *e) {
    e->tensors[e->count++] = (qkv_tensor){.name = "encoder.7.mystery", .dtype = QKV_DTYPE_F32, .rank = 1};
}
static void renamed_tensor(edited *e) {
    find_tensor(e, "norm.bias")->name = "norm.Bias";
}
static void wrong_shape(edited *e) {
    qkv_tensor *t = find_tensor(e, "head.weight");
    t->shape[0] = 12;
    t->shape[1] = TEST_LABELS;
}
static void wrong_rank(edited *e) {
    qkv_tensor *t = find_tensor(e, "head.weight");
    t->rank = 1;
    t->shape[0] = t->count;
}
static void wrong_type(edited *e) {
    find_tensor(e, "head.weight")->dtype = sizeof(real) == 4 ? QKV_DTYPE_I32 : QKV_DTYPE_I64;
}
static void not_finite(edited *e) {
    qkv_tensor *t = find_tensor(e, "head.weight");
    memcpy(e->numbers, t->data, (size_t)t->bytes);
    e->numbers[5] = (real)NAN;
    t->data = e->numbers;
}
static void no_labels(edited *e) {
    drop(e, "qkv.labels");
}
static void fewer_labels(edited *e) {
    set(e, "qkv.labels", "[\"a\"]");
}
static void label_number(edited *e) {
    set(e, "qkv.labels", "[\"a\",1,\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]");
}
static void label_escape(edited *e) {
    set(e, "qkv.labels", "[\"a\",\"\\\\n\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]");
}
static void label_deep(edited *e) {
    set(e, "qkv.labels", "[[[[]]]]");
}
static void label_twice(edited *e) {
    set(e, "qkv.labels", "[\"a\",\"b\",\"b\",\"d\",\"e\",\"f\",\"g\",\"h\"]");
}
static void label_escaped_twice(edited *e) {
    set(e, "qkv.labels", "[\"a\",\"b\",\"\\\\x62\",\"d\",\"e\",\"f\",\"g\",\"h\"]");
}
static void labels_descend(edited *e) {
    set(e, "qkv.labels", "[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"fg\",\"b\"]");
}
static void no_tokenizer(edited *e) {
    drop(e, "qkv.tokenizer");
}
static void tokenizer_text(edited *e) {
    set(e, "qkv.tokenizer", "bpe");
}
static void tokenizer_empty(edited *e) {
    set(e, "qkv.tokenizer", "{}");
}
static void no_record(edited *e) {
    drop(e, "qkv.record");
}
static void record_list(edited *e) {
    set(e, "qkv.record", "[1]");
}
static void multi_label(edited *e) {
    replace(e, "qkv.config", "\"span_left\"", "\"multi_label\":true,\"span_left\"");
}
static void multi_label_number(edited *e) {
    replace(e, "qkv.config", "\"span_left\"", "\"multi_label\":1,\"span_left\"");
}
static void thresholds_alone(edited *e) {
    add(e, "qkv.thresholds", "[0.5]");
}
static void few_thresholds(edited *e) {
    multi_label(e);
    add(e, "qkv.thresholds", "[0.5]");
}
static void threshold_zero(edited *e) {
    multi_label(e);
    add(e, "qkv.thresholds", "[0.5,0.5,0,0.5,0.5,0.5,0.5,0.5]");
}
static void threshold_text(edited *e) {
    multi_label(e);
    add(e, "qkv.thresholds", "[\"x\",0.5,0.5,0.5,0.5,0.5,0.5,0.5]");
}
static void thresholds_object(edited *e) {
    multi_label(e);
    add(e, "qkv.thresholds", "{}");
}
static void tokenizer_form(edited *e) {
    replace(e, "qkv.tokenizer", "\"lowercase\"", "\"normalize\":\"nfd\",\"lowercase\"");
}
static void no_checksum(edited *e) {
    drop(e, "qkv.sha256");
}

static const struct {
    void (*edit)(edited *e);
    const char *part;
} refused[] = {
    {newer, "made by a newer qkv, file version 2, this one reads 1"},
    {version_word, "qkv.version is \"one\""},
    {version_zero, "qkv.version is \"0\""},
    {no_version, "not a qkv model"},
    {other_task, "the task \"translate\""},
    {no_task, "no qkv.task"},
    {no_config, "no qkv.config"},
    {config_text, "qkv.config: not valid JSON"},
    {config_list, "qkv.config: "},
    {config_key, "leyers"},
    {config_twice, "duplicate"},
    {config_heads, "heads=5 does not divide dim=12"},
    {dim_2_40, "dim"},
    {dim_large, "the config asks for a matrix of vocab x dim=49152"},
    {vocab_large, "the config asks for a matrix of vocab x dim=12"},
    {classes_large, "the config asks for a matrix of classes"},
    {ffn_large, "the config asks for a matrix of ffn"},
    {layers_large, "the config has layers=4096"},
    {length_large, "the config asks for a matrix of max_length"},
    {head_dim_large, "the config asks for a matrix of heads * head_dim"},
    {sinusoidal_large, "max_length=16777216"},
    {layers_more, "tensor \"encoder.2.norm1.weight\" of the config's network is missing"},
    {layers_fewer, "tensor \"encoder.1."},
    {missing_tensor, "tensor \"norm.bias\" of the config's network is missing"},
    {renamed_tensor, "tensor \"norm.bias\" of the config's network is missing"},
    {unknown_tensor, "tensor \"encoder.7.mystery\" is not part"},
    {wrong_shape, "tensor \"head.weight\" is [12, 8], the config asks for [8, 12]"},
    {wrong_rank, "tensor \"head.weight\" is [96], the config asks for [8, 12]"},
    {wrong_type, "tensor \"head.weight\" holds I"},
    {not_finite, "tensor \"head.weight\" holds a value that is not finite (element 5)"},
    {no_labels, "no qkv.labels"},
    {fewer_labels, "a list of 8 labels (classes of the config), it has 1"},
    {label_number, "label 1 is not a string"},
    {label_escape, "label 1 holds a backslash"},
    {label_deep, "nested more than"},
    {label_twice, "labels 1 and 2 are both 'b'"},
    {label_escaped_twice, "labels 1 and 2 are both 'b'"},
    {labels_descend, "label 7, 'b', stands behind 'fg'"},
    {no_tokenizer, "no qkv.tokenizer"},
    {tokenizer_text, "qkv.tokenizer: not valid JSON"},
    {tokenizer_empty, "qkv.tokenizer: "},
    {no_record, "no qkv.record"},
    {record_list, "qkv.record is not an object"},
    {multi_label, "no qkv.thresholds"},
    {multi_label_number, "multi_label is an integer, expected true or false"},
    {thresholds_alone, "qkv.thresholds in a model of one class a text"},
    {few_thresholds, "1 thresholds for 8 classes"},
    {threshold_zero, "threshold 2 is not a number above 0 and at most 1"},
    {threshold_text, "threshold 0 is not a number"},
    {thresholds_object, "qkv.thresholds is not an array"},
    {tokenizer_form, "\"normalize\" is not one of nfc, nfkc"},
    {no_checksum, "no qkv.sha256"},
};

/* Refuses any block that a number in the file, and not the file itself, could have asked for. */
static void *modest_allocate(void *user, size_t bytes) {
    return bytes > (1 << 20) ? NULL : test_allocate(user, bytes);
}

static void write_edited(qkv_ctx *ctx, edited *e, bool sum, const char *path) {
    char hex[65];
    for (int64_t i = 0; sum && i < e->n_metadata; i++) {
        if (strcmp(e->metadata[i].key, "qkv.sha256") != 0) continue;
        qkv_model_checksum(e->metadata, e->n_metadata, e->tensors, e->count, hex);
        e->metadata[i].value = hex;
    }
    qkv_output *output;
    assert_int_equal(qkv_output_open(ctx, path, &output), QKV_OK);
    if (qkv_safetensors_write(ctx, output, e->tensors, e->count, e->metadata, e->n_metadata) != QKV_OK)
        fail_msg("%s", ctx->message);
    assert_int_equal(qkv_output_commit(output), QKV_OK);
}

static void expect_refused(qkv_ctx *ctx, test_memory *memory, const char *path, const char *part) {
    int64_t before = memory->blocks;
    qkv_model *model;
    qkv_status status = qkv_model_load(ctx, path, &model);
    if (status != QKV_BAD_FORMAT || !strstr(ctx->message, part)) {
        fail_msg("status %d, \"%s\", expected \"%s\"", status, ctx->message, part);
    }
    assert_ptr_equal(strstr(ctx->message, path), ctx->message);
    assert_null(model);
    assert_int_equal(memory->blocks, before);
}

static void refuses_what_does_not_fit_together(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    ctx.allocate = modest_allocate;
    char good[512], bad[512];
    test_path("store-good", good);
    test_path("store-bad", bad);
    qkv_model *model = test_model(&ctx);
    save(model, good);
    qkv_model_free(model);
    qkv_safetensors *file;
    assert_int_equal(qkv_safetensors_open(&ctx, good, &file), QKV_OK);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        edited e = copy_of(file);
        refused[i].edit(&e);
        write_edited(&ctx, &e, true, bad);
        expect_refused(&ctx, &memory, bad, refused[i].part);
        assert_null(strstr(ctx.message, "checksum match"));
    }
    edited e = copy_of(file); /* and the copy itself is good */
    write_edited(&ctx, &e, true, bad);
    assert_int_equal(qkv_model_load(&ctx, bad, &model), QKV_OK);
    qkv_model_free(model);
    e = copy_of(file); /* an edit without a new checksum is noticed */
    replace(&e, "qkv.record", "caf", "Caf");
    write_edited(&ctx, &e, false, bad);
    expect_refused(&ctx, &memory, bad, "the checksum does not match");
    e = copy_of(file);
    layers_more(&e);
    write_edited(&ctx, &e, false, bad);
    expect_refused(&ctx, &memory, bad, "is missing; nor does the checksum match");
    qkv_safetensors_close(file);
    assert_int_equal(memory.blocks, 0);
    unlink(good);
    unlink(bad);
}

/* One bit of the file flipped, at a sample of places: refused. */
static void refuses_flipped_bits(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    ctx.allocate = modest_allocate;
    char path[512];
    test_path("store-flipped", path);
    qkv_model *model = test_model(&ctx);
    save(model, path);
    qkv_model_free(model);
    int64_t size;
    char *data = test_read_file(path, &size);
    for (int64_t at = 0; at < size; at += at < 8 ? 1 : 131) {
        data[at] ^= (char)(1 << (at % 8));
        test_write_file(path, data, (size_t)size);
        qkv_status status = qkv_model_load(&ctx, path, &model);
        data[at] ^= (char)(1 << (at % 8));
        if (status != QKV_BAD_FORMAT) fail_msg("a flipped bit at %lld: status %d, %s", (long long)at, status, ctx.message);
    }
    free(data);
    assert_int_equal(memory.blocks, 0);
    unlink(path);
}

static void refuses_truncated_and_foreign_files(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    char path[512], part[64];
    test_path("store-cut", path);
    qkv_model *model = test_model(&ctx);
    save(model, path);
    qkv_model_free(model);
    int64_t size;
    char *data = test_read_file(path, &size);
    test_write_file(path, data, (size_t)size - 12);
    snprintf(part, sizeof part, ": 12 bytes missing at offset %lld", (long long)size - 12);
    expect_refused(&ctx, &memory, path, part);
    test_write_file(path, data, 100);
    expect_refused(&ctx, &memory, path, "bytes missing at offset 100");
    test_write_file(path, data, 0);
    expect_refused(&ctx, &memory, path, "the file is empty");
    test_write_file(path, "sport\tthe match was lost\n", 25);
    expect_refused(&ctx, &memory, path, "this is a text file, not a safetensors file");
    test_write_file(path, "\xBA\x16\x4F\x2F\x0C\0\0\0\x64\0\0\0\x05\0\0\0", 16);
    expect_refused(&ctx, &memory, path, "this is a fastText model");
    free(data);
    assert_int_equal(qkv_model_load(&ctx, "/nonexistent/model", &model), QKV_IO);
    assert_int_equal(qkv_model_load(&ctx, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(memory.blocks, 0);
    unlink(path);
}

/* A diverged model does not replace a good file. */
static void does_not_save_what_is_not_finite(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
    char path[512];
    test_path("store-nan", path);
    qkv_model *model = test_model(&ctx), *loaded;
    save(model, path);
    const qkv_param *p = &qkv_classifier_reg(model->net)->params[3];
    model->weights[p->offset + 2] = (real)INFINITY;
    assert_int_equal(qkv_model_save(model, path), QKV_NUMERIC);
    assert_non_null(strstr(ctx.message, p->name));
    assert_int_equal(qkv_model_load(&ctx, path, &loaded), QKV_OK);
    qkv_model_free(loaded);
    qkv_model_free(model);
    unlink(path);
}

/* The k-th allocation fails, for every k, in making, saving, loading and packing. */
static void survives_no_memory(void **state) {
    (void)state;
    char path[512];
    test_path("store-oom", path);
    qkv_config config = test_config();
    for (int64_t k = 1, done = 0; !done; k++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx_run(&memory);
        memory = (test_memory){.fail_at = k};
        qkv_model *model = NULL, *loaded = NULL;
        qkv_status status = test_model_try(&ctx, &config, &model);
        if (status == QKV_OK) status = qkv_model_save(model, path);
        if (status == QKV_OK) status = qkv_model_load(&ctx, path, &loaded);
        if (status == QKV_OK) status = qkv_model_pack(loaded);
        done = status == QKV_OK;
        if (!done) assert_int_equal(status, QKV_NO_MEMORY);
        qkv_model_free(model);
        qkv_model_free(loaded);
        assert_int_equal(memory.blocks, 0);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(save_load_save),
        cmocka_unit_test(file_is_plain_and_aligned),
        cmocka_unit_test(refuses_what_does_not_fit_together),
        cmocka_unit_test(refuses_flipped_bits),
        cmocka_unit_test(refuses_truncated_and_foreign_files),
        cmocka_unit_test(does_not_save_what_is_not_finite),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
