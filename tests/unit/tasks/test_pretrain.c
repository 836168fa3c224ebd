/* Pretraining before training: what is told, what is remembered, what it changes, and what goes wrong. */
#include <math.h>
#include <unistd.h>

#include "toy.h"

#include "base/par.h"
#include "models/masked.h"

typedef struct seen {
    int64_t stop_at; /* step of the pretraining, 0: none */
    int64_t plans[2], steps[2], evaluations[2], ends[2];
    double first_loss, last_loss; /* of the pretraining, on the dev rows */
    double end_loss;
    qkv_train_data data;
    char format[192];
    bool mixed; /* an event of the pretraining after one of the training */
    int64_t stopping;
} seen;

static void on_event(void *user, const qkv_train_event *event) {
    seen *s = user;
    const int phase = event->phase == QKV_PHASE_PRETRAIN;
    if (event->kind == QKV_TRAIN_DATA) {
        s->data = event->u.data;
        snprintf(s->format, sizeof s->format, "%s", event->u.data.pretrain_format);
        return;
    }
    if (phase && s->plans[0]) s->mixed = true;
    s->plans[phase] += event->kind == QKV_TRAIN_PLAN;
    s->steps[phase] += event->kind == QKV_TRAIN_STEP;
    s->ends[phase] += event->kind == QKV_TRAIN_END;
    if (phase && event->kind == QKV_TRAIN_STEP) s->stopping = s->stop_at && event->u.step.step >= s->stop_at;
    if (phase && event->kind == QKV_TRAIN_EVALUATE) {
        const double loss = event->u.evaluation.loss;
        if (!s->evaluations[1]) s->first_loss = loss;
        s->last_loss = loss;
        assert_true(isnan(event->u.evaluation.accuracy));
    }
    if (phase && event->kind == QKV_TRAIN_END) s->end_loss = event->u.end.loss;
    s->evaluations[phase] += event->kind == QKV_TRAIN_EVALUATE;
}

static int stop(void *user) { return ((const seen *)user)->stopping != 0; }

typedef struct outcome {
    qkv_status status;
    char message[512];
    int64_t size;
    real *weights;
    json_t *record;
    seen seen;
} outcome;

static outcome run(const qkv_classify_options *o, const char *train, const char *dev, const qkv_train_checkpoint *checkpoint, int64_t stop_at) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    outcome out = {.seen = {.stop_at = stop_at}};
    const qkv_train_callbacks callbacks = {on_event, &out.seen};
    qkv_model *model;
    ctx.stop = stop;
    ctx.stop_user = &out.seen;
    out.status = qkv_classify_fit(&ctx, o, NULL, train, dev, checkpoint, &callbacks, &model);
    snprintf(out.message, sizeof out.message, "%s", ctx.message);
    if (model) {
        out.size = qkv_classifier_reg(model->net)->size;
        out.weights = malloc((size_t)out.size * sizeof(real));
        memcpy(out.weights, model->weights, (size_t)out.size * sizeof(real));
        out.record = json_deep_copy(model->record);
    }
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
    return out;
}

static void drop(outcome *o) {
    free(o->weights);
    json_decref(o->record);
}

static bool equal(const outcome *a, const outcome *b) {
    return a->size == b->size && a->weights && b->weights && memcmp(a->weights, b->weights, (size_t)a->size * sizeof(real)) == 0;
}

static int64_t number(const json_t *object, const char *key) { return json_integer_value(json_object_get(object, key)); }

/* Each word follows from the one before it. */
static const char *counting_file(const char *name, int rows, char path[512]) {
    static const char *const words[] = {"one", "two", "three", "four", "five", "six", "seven", "eight"};
    FILE *f = fopen(test_path(name, path), "wb");
    assert_non_null(f);
    for (int i = 0; i < rows; i++) {
        fprintf(f, "%s\t", i % 2 ? "yes" : "no");
        for (int w = 0; w < 4 + i % 5; w++) fprintf(f, "%s%s", w ? " " : "", words[(i * 3 + w) % 8]);
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

/* The phases come one after the other, the loss falls, and the model is another one and remembers it. */
static void told_and_remembered(void **state) {
    (void)state;
    char train[512];
    counting_file("pretrain_counting.tsv", 200, train);
    qkv_classify_options o = toy_options();
    o.epochs = 2;
    outcome plain = run(&o, train, NULL, NULL, 0);
    assert_int_equal(plain.status, QKV_OK);
    assert_null(json_object_get(plain.record, "pretraining"));
    assert_true(!plain.seen.plans[1] && !plain.seen.data.pretrain_rows);
    o.pretrain = 24;
    outcome pre = run(&o, train, NULL, NULL, 0), again = run(&o, train, NULL, NULL, 0);
    assert_int_equal(pre.status, QKV_OK);
    assert_true(equal(&pre, &again) && !equal(&pre, &plain));
    const seen *s = &pre.seen;
    assert_true(!s->mixed && s->plans[0] == 1 && s->plans[1] == 1 && s->ends[0] == 1 && s->ends[1] == 1);
    assert_int_equal(s->evaluations[1], 24);
    assert_int_equal(s->steps[0], plain.seen.steps[0]);
    assert_true(s->last_loss < s->first_loss - 0.3 && s->end_loss <= s->last_loss);
    assert_int_equal(s->data.pretrain_rows, s->data.train_rows);
    assert_int_equal(s->data.pretrain_tokens, s->data.train_tokens);
    assert_string_equal(s->format, "");
    const json_t *r = json_object_get(pre.record, "pretraining");
    assert_int_equal(number(r, "rows"), s->data.train_rows);
    assert_int_equal(number(r, "tokens"), s->data.train_tokens);
    assert_int_equal(number(r, "steps"), s->steps[1]);
    assert_true(json_real_value(json_object_get(r, "loss")) == s->end_loss);
    assert_null(json_object_get(r, "texts"));
    drop(&plain);
    drop(&pre);
    drop(&again);
}

/* With no training step the model has the encoder that pretraining ended with, and beside it its own initial values. */
static void handed_over(void **state) {
    (void)state;
    char train[512];
    toy_file("pretrain.tsv", 60, 1, train);
    qkv_classify_options o = toy_options();
    o.lr = o.embedding_lr = 0;
    o.epochs = 1;
    outcome plain = run(&o, train, NULL, NULL, 0);
    o.pretrain = 2;
    outcome pre = run(&o, train, NULL, NULL, 0);
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    qkv_config config = qkv_classify_config(&o, pre.seen.data.vocab, 2);
    qkv_masked *net;
    assert_int_equal(qkv_masked_create(&ctx, &config, false, &net), QKV_OK);
    const int64_t encoder = qkv_masked_encoder_size(net);
    assert_true(encoder > 0 && encoder < pre.size);
    assert_memory_not_equal(plain.weights, pre.weights, (size_t)encoder * sizeof(real));
    qkv_masked_free(net);
    drop(&plain);
    drop(&pre);
}

static void write_texts(const char *format, const char *name, char path[512]) {
    FILE *f = fopen(test_path(name, path), "wb");
    assert_non_null(f);
    for (int i = 0; i < 80; i++) {
        static const char *const words[] = {"red", "green", "blue", "round", "square", "small"};
        char text[64];
        snprintf(text, sizeof text, "a %s and %s thing", words[i % 6], words[(i * 7 + 1) % 6]);
        if (!strcmp(format, "tsv")) fprintf(f, "some label\t%s\n", text);
        else if (!strcmp(format, "jsonl")) fprintf(f, "{\"text\": \"%s\", \"label\": %d}\n", text, i);
        else if (!strcmp(format, "csv")) fprintf(f, "%s%s,x\n", i ? "" : "text,label\n", text);
        else if (!strcmp(format, "fasttext")) fprintf(f, "__label__a %s\n", text);
        else fprintf(f, "%s\n", text);
    }
    assert_int_equal(fclose(f), 0);
}

/* Texts of their own, of any format: labels make no difference, the words get into the vocabulary. */
static void other_texts(void **state) {
    (void)state;
    static const char *const formats[] = {"text", "tsv", "jsonl", "csv", "fasttext"};
    static const char *const names[] = {"plain text", "TSV", "JSON lines", "CSV, separator comma", "fastText"};
    char train[512], texts[512];
    toy_file("pretrain.tsv", 60, 1, train);
    qkv_classify_options o = toy_options();
    o.epochs = o.pretrain = 1;
    o.data.format = QKV_FORMAT_TSV; /* said of the training file */
    outcome own = run(&o, train, NULL, NULL, 0), first = {0};
    for (int i = 0; i < 5; i++) {
        write_texts(formats[i], "pretrain_texts", texts);
        o.pretrain_text = texts;
        outcome r = run(&o, train, NULL, NULL, 0);
        if (r.status != QKV_OK) fail_msg("%s: %s", formats[i], r.message);
        assert_int_equal(r.seen.data.pretrain_rows, 80);
        assert_int_equal(strncmp(r.seen.format, names[i], strlen(names[i])), 0);
        const json_t *texts_record = json_object_get(json_object_get(r.record, "pretraining"), "texts");
        assert_string_equal(json_string_value(json_object_get(texts_record, "file")), "pretrain_texts");
        assert_int_equal(number(texts_record, "rows"), 80);
        assert_true(r.seen.data.vocab > own.seen.data.vocab);
        if (i == 0) {
            first = r;
            continue;
        }
        assert_true(equal(&first, &r));
        drop(&r);
    }
    drop(&first);
    drop(&own);
    o.pretrain = 0; /* not even read */
    o.pretrain_text = "/nowhere/at/all";
    outcome r = run(&o, train, NULL, NULL, 0);
    assert_int_equal(r.status, QKV_OK);
    drop(&r);
}

static void refused(const qkv_classify_options *o, const char *train, qkv_status status, const char *why) {
    outcome r = run(o, train, NULL, NULL, 0);
    if (r.status != status || !strstr(r.message, why)) fail_msg("status %d, '%s' does not say '%s'", r.status, r.message, why);
    assert_null(r.weights);
    assert_int_equal(r.seen.steps[0], 0);
    drop(&r);
}

static void faults(void **state) {
    (void)state;
    char train[512], texts[512];
    toy_file("pretrain.tsv", 60, 1, train);
    qkv_classify_options o = toy_options();
    o.pretrain = 1;
    o.pretrain_text = "/nowhere/at/all";
    refused(&o, train, QKV_IO, "/nowhere/at/all");
    o.pretrain_text = toy_text("pretrain_empty", "", texts);
    refused(&o, train, QKV_BAD_DATA, "empty");
    o.pretrain_text = toy_text("pretrain_blank", "\n\n\n", texts);
    refused(&o, train, QKV_BAD_DATA, "no text has a token");
    o.pretrain_text = NULL;
    o.mask = 1.5;
    refused(&o, train, QKV_BAD_CONFIG, "mask=1.5");
    o.mask = 0.2;
    o.pretrain = 9;
    o.pretrain_lr = 1e6;
    o.clip = 0;
    o.warmup = 0;
    refused(&o, train, QKV_NUMERIC, "pretraining (--pretrain-lr)");
}

/* Rows none of which is held out, texts of one token, several labels, pairs, bf16: all have a pretraining. */
static void any_task(void **state) {
    (void)state;
    char path[512];
    for (int i = 0; i < 4; i++) {
        const char *rows = i == 0   ? "a\tx\nb\ty\n"
                           : i == 1 ? "a,b\tx y z\nb\ty y x\na\tz z z\n\tnone of them\n"
                           : i == 2 ? "a\tx y z\tz y\nb\ty y\tx\na\tz\t\nb\t\tx\n"
                                    : "a\tx x x\nb\ty y y\na\tx z x\nb\ty z y\n";
        qkv_classify_options o = toy_options();
        toy_text("pretrain_any", rows, path);
        o.epochs = o.pretrain = 2;
        o.multi_label = i == 1;
        o.pair = i == 2;
        o.pooling = i == 3 ? QKV_POOL_FIRST : QKV_POOL_ATTENTION;
        o.dtype = i == 3 ? QKV_COMPUTE_BF16 : QKV_COMPUTE_F32;
        outcome r = run(&o, path, i < 2 ? NULL : path, NULL, 0);
        if (r.status != QKV_OK) fail_msg("case %d: %s", i, r.message);
        assert_true(r.seen.steps[1] >= 2);
        drop(&r);
    }
}

/* Stopped while it pretrains: no model, a checkpoint, from which it goes on; other texts are refused then. */
static void stopped(void **state) {
    (void)state;
    char train[512], texts[512], path[512];
    toy_file("pretrain.tsv", 60, 1, train);
    write_texts("text", "pretrain_texts", texts);
    test_path("pretrain_resume", path);
    unlink(path);
    qkv_classify_options o = toy_options();
    o.epochs = 1;
    o.pretrain = 2;
    o.pretrain_text = texts;
    outcome whole = run(&o, train, NULL, NULL, 0);
    qkv_train_checkpoint checkpoint = {.path = path};
    outcome part = run(&o, train, NULL, &checkpoint, 3);
    assert_int_equal(part.status, QKV_STOPPED);
    assert_true(!part.weights && part.seen.steps[1] == 3 && part.seen.steps[0] == 0);
    drop(&part);
    assert_int_equal(access(path, F_OK), 0);
    checkpoint.resume = 1;
    outcome rest = run(&o, train, NULL, &checkpoint, 0);
    assert_int_equal(rest.status, QKV_OK);
    assert_int_equal(rest.seen.data.resumed_step, 3);
    assert_int_equal(rest.seen.data.resumed_phase, QKV_PHASE_PRETRAIN);
    assert_true(equal(&whole, &rest) && json_equal(whole.record, rest.record));
    drop(&rest);
    test_write_file(texts, "something else\n", 15);
    outcome other = run(&o, train, NULL, &checkpoint, 0);
    assert_int_equal(other.status, QKV_BAD_ARGUMENT);
    assert_non_null(strstr(other.message, "pretraining texts"));
    drop(&other);
    drop(&whole);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(told_and_remembered), cmocka_unit_test(handed_over), cmocka_unit_test(other_texts),
                                       cmocka_unit_test(faults),              cmocka_unit_test(any_task),    cmocka_unit_test(stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
