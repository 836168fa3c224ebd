/* The public side: option table, sizes, argument checks, and one run from options to a saved and loaded model. */
#include "support.h"

#include <qkv.h>

#include "unit/api/fixture.h"

static qkv_classify_options defaults(void) {
    qkv_classify_options o;
    qkv_options_default(qkv_classify_options_table(), &o);
    return o;
}

/* Every field is named once, every default lies in its own range and reads back to itself. */
static void the_table_is_sound(void **state) {
    (void)state;
    fixture f;
    start(&f);
    const qkv_option_table *t = qkv_classify_options_table();
    assert_int_equal(t->struct_size, sizeof(qkv_classify_options));
    assert_string_equal(t->name, "train classify");
    static unsigned char covered[sizeof(qkv_classify_options)];
    memset(covered, 0, sizeof covered);
    for (size_t i = 0; i < t->count; i++) {
        const qkv_option *o = &t->options[i];
        static const size_t sizes[] = {sizeof(int64_t), sizeof(double),   sizeof(int),
                                       sizeof(int),     sizeof(qkv_span), sizeof(uint64_t),
                                       QKV_OPTION_TEXT_SIZE, sizeof(int64_t)};
        for (size_t b = 0; b < sizes[o->type]; b++) assert_int_equal(covered[o->offset + b]++, 0);
        assert_true(o->help && strlen(o->help) > 3 && strlen(o->help) < 90 && o->group && o->fallback);
        assert_int_equal(o->choices != NULL, o->type == QKV_OPTION_CHOICE);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(t->options[k].name, o->name);
        qkv_classify_options a = defaults();
        char text[128];
        assert_int_equal(qkv_options_set(f.ctx, t, &a, o->name, o->fallback), QKV_OK);
        assert_true(qkv_options_text(o, &a, text, sizeof text) < sizeof text);
        qkv_classify_options b = a;
        assert_int_equal(qkv_options_set(f.ctx, t, &b, o->name, text), QKV_OK);
        assert_memory_equal(&a, &b, sizeof a);
    }
    for (size_t b = 0; b < sizeof(char *); b++) assert_int_equal(covered[offsetof(qkv_classify_options, pretrain_text) + b]++, 0);
    for (size_t b = 0; b < sizeof(int64_t); b++) assert_int_equal(covered[offsetof(qkv_classify_options, monitor) + b]++, 0);
    /* what no option covers is that path and how often is looked, which are no settings, and padding after an int */
    size_t holes = 0;
    for (size_t b = 0; b < sizeof covered; b++) holes += !covered[b];
    if (holes > 4 * 8) fail_msg("%zu bytes that no option covers", holes);
    finish(&f);
}

static void names_of_the_command_line(void **state) {
    (void)state;
    static const char *const names[] = {"epochs",
                                        "steps",
                                        "seed",
                                        "model",
                                        "cell",
                                        "layers",
                                        "dim",
                                        "heads",
                                        "kv-heads",
                                        "ffn",
                                        "ngrams",
                                        "ngram-min-rows",
                                        "patience",
                                        "average",
                                        "ema-decay",
                                        "average-last",
                                        "pretrain",
                                        "pretrain-lr",
                                        "mask",
                                        "position",
                                        "pooling",
                                        "norm",
                                        "activation",
                                        "norm-place",
                                        "qk-norm",
                                        "softcap",
                                        "residual",
                                        "init",
                                        "unscaled",
                                        "bias",
                                        "causal",
                                        "window",
                                        "tokenizer",
                                        "vocab",
                                        "max-length",
                                        "lowercase",
                                        "batch-tokens",
                                        "batch-rows",
                                        "accumulate",
                                        "lr",
                                        "embedding-lr",
                                        "lazy-embedding",
                                        "schedule",
                                        "warmup",
                                        "weight-decay",
                                        "beta1",
                                        "beta2",
                                        "epsilon",
                                        "clip",
                                        "dropout",
                                        "attention-dropout",
                                        "embedding-dropout",
                                        "token-dropout",
                                        "label-smoothing",
                                        "evaluate",
                                        "metric",
                                        "recompute",
                                        "recompute-every",
                                        "ffn-chunk",
                                        "reversible",
                                        "memory",
                                        "dtype",
                                        "normalize",
                                        "multi-label",
                                        "pair",
                                        "balance",
                                        "format",
                                        "separator",
                                        "label-separator",
                                        "label-prefix",
                                        "label-field",
                                        "text-field",
                                        "text-field-2",
                                        "label-column",
                                        "text-column",
                                        "text-column-2",
                                        "position-layout",
                                        "position-beyond",
                                        "position-reach",
                                        "position-buckets",
                                        "rope-base",
                                        "rope-pairs",
                                        "rope-part",
                                        "rope-stretch",
                                        "rope-factor",
                                        "rope-length",
                                        "pattern",
                                        "dilation",
                                        "global-first",
                                        "global-every",
                                        "global-at",
                                        "global-token",
                                        "global-question",
                                        "global-projection",
                                        "forget-bias",
                                        "random-blocks",
                                        "block",
                                        "full-every",
                                        "local-rope-base",
                                        "segment",
                                        "segment-length",
                                        "segment-layers"};
    const qkv_option_table *t = qkv_classify_options_table();
    assert_int_equal(t->count, sizeof names / sizeof names[0]);
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        int found = 0;
        for (size_t i = 0; i < t->count; i++) found += strcmp(t->options[i].name, names[n]) == 0;
        if (found != 1) print_error("%s\n", names[n]);
        assert_int_equal(found, 1);
    }
}

static void sizes_by_name(void **state) {
    (void)state;
    fixture f;
    start(&f);
    qkv_classify_options plain = defaults(), o = defaults();
    assert_int_equal(qkv_classify_options_size(f.ctx, &o, "base"), QKV_OK);
    assert_int_equal(o.layers, 4);
    assert_int_equal(o.dim, 256);
    assert_int_equal(o.heads, 4);
    o.seed = 99;
    assert_int_equal(qkv_classify_options_size(f.ctx, &o, "tiny"), QKV_OK);
    assert_int_equal(o.dim, 64);
    assert_int_equal(o.heads, 2);
    assert_int_equal(o.seed, 99);
    o = defaults();
    assert_int_equal(qkv_classify_options_size(f.ctx, &o, "small"), QKV_OK); /* the default size is the default */
    assert_memory_equal(&o, &plain, sizeof o);
    assert_int_equal(qkv_classify_options_size(f.ctx, &o, "huge"), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(qkv_message(f.ctx), "tiny|small|base"));
    assert_memory_equal(&o, &plain, sizeof o);
    assert_int_equal(qkv_classify_options_size(f.ctx, NULL, "tiny"), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_options_model(f.ctx, &o, "transformer"), QKV_OK); /* the default model, too */
    assert_memory_equal(&o, &plain, sizeof o);
    assert_int_equal(qkv_classify_options_model(f.ctx, &o, "tree"), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(qkv_message(f.ctx), "bilstm"));
    assert_int_equal(qkv_classify_options_model(f.ctx, &o, "bigru"), QKV_OK);
    assert_true(o.model == QKV_NETWORK_BIGRU && o.lr > plain.lr);
    finish(&f);
}

static void null_arguments(void **state) {
    (void)state;
    fixture f;
    start(&f);
    qkv_classify_options o = defaults();
    qkv_model *model;
    qkv_classify_report *report;
    float p;
    assert_int_equal(qkv_classify_train(NULL, &o, "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_train(f.ctx, NULL, "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_train(f.ctx, &o, NULL, NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_null(model);
    assert_int_equal(qkv_classify_train(f.ctx, &o, "x", NULL, NULL, NULL, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_train(f.ctx, &o, "-", "-", NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_predict(NULL, 1, NULL, NULL, &p, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_embed(NULL, 1, NULL, NULL, &p, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_model_dim(NULL), 0);
    assert_int_equal(qkv_classify_test(NULL, "x", NULL, NULL, NULL, &report), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_intervals(NULL, 100, 1), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_write_errors(NULL, "x", 0), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_write_confusion(NULL, "x"), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_compare(NULL, NULL, 100, 1, NULL), QKV_BAD_ARGUMENT);
    qkv_classify_report_free(f.ctx, NULL);
    finish(&f);
}

static const char *data_file(char path[512]) {
    FILE *out = fopen(test_path("api_classify.tsv", path), "wb");
    assert_non_null(out);
    for (int i = 0; i < 60; i++) fprintf(out, i % 3 ? "good\tbright day number %d\n" : "bad\tgloomy day number %d\n", i);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void many_trainings_are_checked(void **state) {
    (void)state;
    fixture f;
    start(&f);
    const qkv_classify_options o = defaults();
    qkv_classify_options stdin_texts = o;
    stdin_texts.pretrain_text = "-";
    qkv_folds folds;
    assert_int_equal(qkv_classify_folds(NULL, &o, "x", NULL, 3, NULL, &folds), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_folds(f.ctx, &o, "x", NULL, 3, NULL, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_folds(f.ctx, NULL, "x", NULL, 3, NULL, &folds), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_folds(f.ctx, &o, NULL, NULL, 3, NULL, &folds), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_folds(f.ctx, &o, "-", "-", 3, NULL, &folds), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_folds(f.ctx, &stdin_texts, "x", NULL, 3, NULL, &folds), QKV_BAD_ARGUMENT);
    for (int64_t k = -1; k < 2; k++) assert_int_equal(qkv_classify_folds(f.ctx, &o, "x", NULL, k, NULL, &folds), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_folds(f.ctx, &o, "x", NULL, QKV_FOLDS_MOST + 1, NULL, &folds), QKV_BAD_ARGUMENT);
    assert_string_equal(qkv_message(f.ctx), "folds=101 is not in 2 .. 100");
    assert_int_equal(qkv_classify_folds(f.ctx, &o, "/nowhere/at.all", NULL, 2, NULL, &folds), QKV_IO);

    static const char *const names[] = {"lr", "rate"};
    qkv_model *model = (qkv_model *)&f;
    qkv_autotune_options how = {.trials = 2};
    assert_int_equal(qkv_classify_autotune(NULL, &o, &how, "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_autotune(f.ctx, &o, &how, "x", NULL, NULL, NULL, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_autotune(f.ctx, NULL, &how, "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_null(model);
    assert_int_equal(qkv_classify_autotune(f.ctx, &o, NULL, "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_autotune(f.ctx, &o, &how, NULL, NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_autotune(f.ctx, &stdin_texts, &how, "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_autotune(f.ctx, &o, &how, "/nowhere/at.all", NULL, NULL, NULL, &model), QKV_IO);
    how = (qkv_autotune_options){.trials = 2, .fixed = names, .fixed_count = 2};
    assert_int_equal(qkv_classify_autotune(f.ctx, &o, &how, "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    assert_string_equal(qkv_message(f.ctx), "there is no option 'rate' to be fixed");
    const qkv_autotune_options bad[] = {{0}, {.minutes = -1}, {.minutes = 0.0 / 0.0, .trials = 1}, {.trials = -1}, {.trials = 1, .fixed_count = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(qkv_classify_autotune(f.ctx, &o, &bad[i], "x", NULL, NULL, NULL, &model), QKV_BAD_ARGUMENT);
    finish(&f);
}

static void tests_progress(void *user, int64_t rows) {
    *(int64_t *)user = rows;
}

static qkv_status predict_one(const qkv_model *model, const char *text, int64_t length, float p[2]) {
    return qkv_classify_predict(model, 1, &text, &length, p, NULL);
}

static void train_save_load_use(void **state) {
    (void)state;
    fixture f;
    start(&f);
    char data[512], file[512];
    data_file(data);
    test_path("api_classify.safetensors", file);
    qkv_classify_options o = defaults();
    const qkv_option_table *t = qkv_classify_options_table();
    static const char *const set[][2] = {{"dim", "16"},
                                         {"heads", "2"},
                                         {"vocab", "300"},
                                         {"epochs", "6"},
                                         {"lr", "0.005"},
                                         {"batch-rows", "8"},
                                         {"seed", "18446744073709551615"},
                                         {"window", "4,4"},
                                         {"max-length", "16"}};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        assert_int_equal(qkv_options_set(f.ctx, t, &o, set[i][0], set[i][1]), QKV_OK);
    qkv_model *model, *loaded;
    assert_int_equal(qkv_classify_train(f.ctx, &o, data, NULL, NULL, NULL, &model), QKV_OK);
    assert_string_equal(qkv_model_task(model), "classify");
    assert_int_equal(qkv_model_labels(model), 2);
    assert_string_equal(qkv_model_label(model, 0), "bad");
    assert_int_equal(qkv_model_save(model, file), QKV_OK);
    assert_int_equal(qkv_model_load(f.ctx, file, &loaded), QKV_OK);

    char *json;
    assert_int_equal(qkv_model_describe(loaded, &json), QKV_OK);
    assert_non_null(strstr(json, "\"18446744073709551615\"")); /* the seed survives as text */
    assert_non_null(strstr(json, "\"4,4\""));
    assert_non_null(strstr(json, "api_classify.tsv"));
    assert_null(strstr(json, data)); /* the file's name, not its folder */
    qkv_release(f.ctx, json);

    float a[2], b[2];
    assert_int_equal(predict_one(model, "gloomy day", 10, a), QKV_OK);
    assert_int_equal(predict_one(loaded, "gloomy day", 10, b), QKV_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_true(a[0] > 0.7f);
    const char *longer = "x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x";
    int64_t length = (int64_t)strlen(longer), dropped = -1;
    assert_int_equal(qkv_classify_predict(model, 1, &longer, &length, a, &dropped), QKV_OK);
    assert_int_equal(dropped, 63);
    assert_int_equal(qkv_model_multi_label(model), 0);
    assert_int_equal(qkv_model_pair(model), 0);
    assert_true(qkv_model_threshold(model, 0) == 0);
    assert_int_equal(predict_one(model, NULL, 0, a), QKV_OK);
    assert_int_equal(predict_one(model, "", 0, b), QKV_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(predict_one(model, "x", -1, a), QKV_BAD_ARGUMENT);
    assert_int_equal(predict_one(model, NULL, 3, a), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_predict(model, -1, NULL, NULL, a, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_predict(model, 0, NULL, NULL, NULL, NULL), QKV_OK);
    float v[2][16] = {{1}, {1}};
    assert_int_equal(qkv_model_dim(model), 16);
    assert_int_equal(qkv_classify_embed(model, 1, &longer, &length, v[0], &dropped), QKV_OK);
    assert_int_equal(dropped, 63);
    assert_int_equal(qkv_classify_embed(loaded, 1, &longer, &length, v[1], NULL), QKV_OK);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    assert_int_equal(qkv_classify_embed(model, 1, &longer, &length, NULL, NULL), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(qkv_message(f.ctx), "texts, lengths and vectors must not be NULL"));
    assert_int_equal(qkv_classify_embed(model, 0, NULL, NULL, NULL, NULL), QKV_OK);

    qkv_classify_report *report;
    int64_t rows = 0;
    assert_int_equal(qkv_classify_test(loaded, data, NULL, tests_progress, &rows, &report), QKV_OK);
    assert_int_equal(rows, 60);
    assert_int_equal(report->rows, 60);
    assert_true(report->accuracy > 0.95);
    qkv_comparison comparison;
    assert_int_equal(qkv_classify_intervals(report, 100, 1), QKV_OK);
    assert_true(report->accuracy_interval.low <= report->accuracy && report->accuracy <= report->accuracy_interval.high);
    assert_int_equal(qkv_classify_intervals(report, 5, 1), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_compare(report, report, 100, 1, &comparison), QKV_OK);
    assert_true(comparison.rows == 60 && comparison.mcnemar == 1);
    assert_int_equal(qkv_classify_compare(report, NULL, 100, 1, &comparison), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_compare(report, report, 100, 1, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_write_errors(report, test_path("api_errors.tsv", file), 0), QKV_OK);
    assert_int_equal(qkv_classify_write_errors(report, file, -1), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_write_errors(report, NULL, 0), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_write_confusion(report, file), QKV_OK);
    assert_int_equal(qkv_classify_write_confusion(report, NULL), QKV_BAD_ARGUMENT);
    qkv_classify_report_free(f.ctx, report);
    assert_int_equal(qkv_classify_test(loaded, "no such file", NULL, NULL, NULL, &report), QKV_IO);
    assert_null(report);
    qkv_model_free(model);
    qkv_model_free(loaded);
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound), cmocka_unit_test(names_of_the_command_line), cmocka_unit_test(sizes_by_name),
        cmocka_unit_test(many_trainings_are_checked), cmocka_unit_test(null_arguments),     cmocka_unit_test(train_save_load_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
