#include "unit/tasks/toy.h"

#include <math.h>

#include "data/folds.h"
#include "tasks/folds.h"

static qkv_classify_options quick(void) {
    qkv_classify_options o = toy_options();
    o.epochs = 2;
    return o;
}

typedef struct seen {
    int scored, data, ends, stop_after;
    qkv_fold_score last;
} seen;

static void on_scored(void *user, int64_t fold, const qkv_fold_score *score) {
    seen *s = user;
    assert_int_equal(fold, s->scored);
    s->scored++;
    s->last = *score;
}

static void on_event(void *user, const qkv_train_event *event) {
    seen *s = user;
    s->data += event->kind == QKV_TRAIN_DATA;
    s->ends += event->kind == QKV_TRAIN_END;
}

static int on_stop(void *user) {
    const seen *s = user;
    return s->stop_after > 0 && s->scored >= s->stop_after;
}

static qkv_status run(qkv_ctx *ctx, const qkv_classify_options *o, const char *path, const char *dev, int64_t folds, seen *s,
                      qkv_folds *f) {
    const qkv_train_callbacks training = {on_event, s};
    const qkv_folds_callbacks callbacks = {&training, on_scored, s};
    ctx->stop = on_stop;
    ctx->stop_user = s;
    return qkv_folds_run(ctx, o, path, dev, folds, &callbacks, f);
}

/* Rows (with line breaks) of a file that are, or are not, in a fold, as a file. */
static const char *part_file(const qkv_table *t, const int32_t *fold, int32_t which, bool inside, const char *name,
                             char path[512]) {
    FILE *f = fopen(test_path(name, path), "wb");
    assert_non_null(f);
    for (int64_t i = 0; i < t->count; i++)
        if ((fold[i] == which) == inside) fprintf(f, "%s\t%s\n", t->rows[i].label, t->rows[i].text);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* A fold scores what a training on a file of the other rows, tested on a file of its rows, does: to the last bit. */
static void as_by_hand(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char path[512], dev[512], others[512], own[512];
    toy_file("folds_all.tsv", 150, 1, path);
    toy_file("folds_dev.tsv", 30, 2, dev);
    const qkv_classify_options o = quick();
    for (int with_dev = 0; with_dev < 2; with_dev++) {
        seen s = {0};
        qkv_folds f;
        assert_int_equal(run(&ctx, &o, path, with_dev ? dev : NULL, 3, &s, &f), QKV_OK);
        assert_true(f.folds == 3 && f.done == 3 && s.scored == 3 && s.data == 3 && s.ends == 3);
        assert_int_equal(f.fold[0].rows + f.fold[1].rows + f.fold[2].rows, 150);
        qkv_table t;
        int32_t fold[150];
        assert_int_equal(qkv_table_read(&ctx, path, NULL, QKV_WANT_LABEL, false, &t), QKV_OK);
        assert_int_equal(qkv_table_deal(&t, 3, o.seed, fold), QKV_OK);
        part_file(&t, fold, 1, false, "folds_others.tsv", others);
        part_file(&t, fold, 1, true, "folds_own.tsv", own);
        qkv_table_free(&t);
        qkv_model *model;
        qkv_classify_report *r;
        assert_int_equal(qkv_classify_fit(&ctx, &o, NULL, others, with_dev ? dev : NULL, NULL, NULL, &model), QKV_OK);
        assert_int_equal(qkv_classify_score(model, own, NULL, NULL, NULL, &r), QKV_OK);
        assert_int_equal(r->rows, f.fold[1].rows);
        assert_true(r->accuracy == f.fold[1].accuracy && r->macro_f1 == f.fold[1].macro_f1 && r->loss == f.fold[1].loss);
        assert_int_equal(f.fold[1].train_rows + (with_dev ? 0 : f.fold[1].dev_rows), 150 - f.fold[1].rows);
        assert_true(with_dev ? f.fold[1].dev_rows == 30 : f.fold[1].dev_rows > 0);
        assert_memory_equal(&s.last, &f.fold[2], sizeof s.last);
        qkv_classify_score_free(&ctx, r);
        qkv_model_free(model);
    }
    assert_int_equal(memory.blocks, 0);
}

static void mean_and_deviation(void **state) {
    (void)state;
    qkv_folds f = {.folds = 5, .done = 3};
    f.fold[0] = (qkv_fold_score){.accuracy = 0.5, .macro_f1 = 0.25, .loss = 1, .seconds = 2};
    f.fold[1] = (qkv_fold_score){.accuracy = 0.75, .macro_f1 = 0.25, .loss = 2, .seconds = 2};
    f.fold[2] = (qkv_fold_score){.accuracy = 1, .macro_f1 = 0.25, .loss = NAN, .seconds = 5};
    qkv_folds_settle(&f);
    assert_true(f.mean.accuracy == 0.75 && fabs(f.deviation.accuracy - 0.25) < 1e-15);
    assert_true(f.mean.macro_f1 == 0.25 && f.deviation.macro_f1 == 0);
    assert_true(isnan(f.mean.loss) && isnan(f.deviation.loss));
    assert_true(f.mean.seconds == 3 && fabs(f.deviation.seconds - sqrt(3)) < 1e-15);
    f.done = 1;
    qkv_folds_settle(&f);
    assert_true(f.mean.accuracy == 0.5 && isnan(f.deviation.accuracy));
    f.done = 0;
    qkv_folds_settle(&f);
    assert_true(isnan(f.mean.accuracy));
}

static void several_labels_and_unseen_ones(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char path[512], text[4096] = "";
    size_t at = 0;
    for (int i = 0; i < 40; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\trow %d %s\n",
                               i == 7  ? "rare"
                               : i % 2 ? "yes"
                                       : "no",
                               i, i % 2 ? "bright" : "gloomy");
    toy_text("folds_rare.tsv", text, path);
    qkv_classify_options o = quick();
    for (int multi = 0; multi < 2; multi++) {
        seen s = {0};
        qkv_folds f;
        o.multi_label = multi;
        assert_int_equal(run(&ctx, &o, path, NULL, 4, &s, &f), QKV_OK);
        int64_t unseen = 0;
        for (int i = 0; i < 4; i++) {
            unseen += f.fold[i].unseen_rows;
            assert_true(f.fold[i].accuracy >= 0 && f.fold[i].accuracy <= 1 && f.fold[i].rows == 10);
        }
        assert_int_equal(unseen, 1);
    }
    assert_int_equal(memory.blocks, 0);
}

static void stops_with_the_folds_done(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char path[512];
    const qkv_classify_options o = quick();
    seen s = {.stop_after = 2};
    qkv_folds f;
    assert_int_equal(run(&ctx, &o, toy_file("folds_stop.tsv", 100, 1, path), NULL, 5, &s, &f), QKV_STOPPED);
    assert_int_equal(f.done, 2);
    assert_true(f.mean.accuracy == (f.fold[0].accuracy + f.fold[1].accuracy) / 2);
    assert_int_equal(memory.blocks, 0);
}

static void bad_input(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char path[512];
    qkv_classify_options o = quick();
    qkv_folds f;
    toy_text("folds_few.tsv", "a\tone\nb\ttwo\n", path);
    assert_int_equal(qkv_folds_run(&ctx, &o, path, NULL, 3, NULL, &f), QKV_BAD_DATA);
    assert_int_equal(qkv_folds_run(&ctx, &o, "/nowhere/at.all", NULL, 3, NULL, &f), QKV_IO);
    o.heads = 5;
    assert_int_equal(qkv_folds_run(&ctx, &o, path, NULL, 2, NULL, &f), QKV_BAD_CONFIG);
    assert_true(f.folds == 2 && f.done == 0);
    assert_int_equal(memory.blocks, 0);
}

/* The law of memory, for this call. */
static void memory_runs_out(void **state) {
    (void)state;
    char path[512];
    toy_file("folds_oom.tsv", 12, 1, path);
    qkv_classify_options o = quick();
    o.epochs = 1;
    o.vocab = 265;
    for (int64_t k = 1;; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
        qkv_folds f;
        const qkv_status status = qkv_folds_run(&ctx, &o, path, NULL, 2, NULL, &f);
        const bool reached = memory.calls >= k;
        assert_int_equal(status, reached ? QKV_NO_MEMORY : QKV_OK);
        assert_int_equal(memory.blocks, 0);
        if (!reached) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_by_hand),
        cmocka_unit_test(mean_and_deviation),
        cmocka_unit_test(several_labels_and_unseen_ones),
        cmocka_unit_test(stops_with_the_folds_done),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
