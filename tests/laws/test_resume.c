/* A run that was stopped at any step and resumed gives the bits of one that was not: weights, record and what was reported. */
#include <unistd.h>

#include "../unit/tasks/toy.h"

#include "base/par.h"
#include "ops/reg.h"
#include "train/average.h"

typedef struct watch {
    int64_t before; /* steps of the pretraining */
    int64_t steps, stop_at, evaluations;
    double loss;
} watch;

static int stop(void *user) {
    const watch *w = user;
    return w->stop_at && w->steps >= w->stop_at;
}

static void on_event(void *user, const qkv_train_event *event) {
    watch *w = user;
    const bool pretraining = event->phase == QKV_PHASE_PRETRAIN;
    if (event->kind == QKV_TRAIN_PLAN && pretraining) w->before = event->u.plan.steps;
    if (event->kind == QKV_TRAIN_STEP) w->steps = event->u.step.step + (pretraining ? 0 : w->before);
    if (event->kind == QKV_TRAIN_EVALUATE) w->evaluations++, w->loss = event->u.evaluation.loss;
}

typedef struct outcome {
    qkv_status status;
    char message[512];
    int64_t bytes;
    real *weights;
    char *record;
    watch seen;
} outcome;

typedef struct run_options {
    int64_t before, stop_at;
    int threads;
    qkv_train_checkpoint checkpoint;
    int (*fault)(void *user, const char *what);
    void *fault_user;
} run_options;

static outcome run(const qkv_classify_options *o, const char *train, run_options r) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, r.threads);
    outcome out = {.seen = {.before = r.before, .stop_at = r.stop_at}};
    const qkv_train_callbacks callbacks = {on_event, &out.seen};
    qkv_model *model = NULL;
    ctx.stop = stop;
    ctx.stop_user = &out.seen;
    ctx.fault = r.fault;
    ctx.fault_user = r.fault_user;
    out.status = qkv_classify_fit(&ctx, o, NULL, train, NULL, r.checkpoint.path ? &r.checkpoint : NULL, &callbacks, &model);
    snprintf(out.message, sizeof out.message, "%s", ctx.message);
    if (model) {
        out.bytes = qkv_classifier_reg(model->net)->size * (int64_t)sizeof(real);
        out.weights = malloc((size_t)out.bytes);
        memcpy(out.weights, model->weights, (size_t)out.bytes);
        out.record = json_dumps(model->record, JSON_SORT_KEYS);
    }
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
    return out;
}

static void drop(outcome *o) {
    free(o->weights);
    free(o->record);
}

static void same(const outcome *a, const outcome *b) {
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->weights, b->weights, (size_t)a->bytes);
    assert_string_equal(a->record, b->record);
    if (b->seen.evaluations) assert_true(a->seen.loss == b->seen.loss);
}

static void continued(const qkv_classify_options *o, const char *train, const char *path, const outcome *whole, int64_t stop_at) {
    unlink(path);
    outcome part = run(o, train, (run_options){.before = whole->seen.before, .stop_at = stop_at, .threads = 2, .checkpoint = {.path = path}});
    assert_int_equal(part.status, QKV_STOPPED);
    assert_int_equal(part.seen.steps, stop_at);
    drop(&part);
    /* and once more, by another number of threads */
    part = run(o, train, (run_options){.before = whole->seen.before, .stop_at = stop_at + 2, .threads = 1, .checkpoint = {.path = path, .resume = 1}});
    assert_true(part.status == QKV_STOPPED || part.status == QKV_OK);
    drop(&part);
    outcome rest = run(o, train, (run_options){.before = whole->seen.before, .threads = 3, .checkpoint = {.path = path, .resume = 1}});
    same(whole, &rest);
    drop(&rest);
}

static void stopped_anywhere(void **state) {
    (void)state;
    char train[512], path[512];
    toy_file("resume.tsv", 90, 1, train);
    test_path("resume_law", path);
    for (int k = 0; k < 10; k++) {
        qkv_classify_options o = toy_options();
        o.model = k == 8 ? QKV_NETWORK_LSTM : k == 9 ? QKV_NETWORK_BIGRU : QKV_NETWORK_TRANSFORMER;
        o.epochs = k == 6 ? 9 : 3;
        o.batch_rows = 11;
        o.accumulate = k == 1 ? 3 : 1;
        o.evaluate = k == 2 ? 0 : k == 3 || k >= 5 ? 0.4 : 1;
        o.lazy_embedding = k % 2;
        o.recompute = k == 3;
        o.average = k == 4 ? QKV_AVERAGE_EMA : k == 5 ? QKV_AVERAGE_CHECKPOINTS : QKV_AVERAGE_NONE;
        o.ema_decay = 0.9;
        o.average_last = 4;
        o.patience = k == 6 ? 2 : 0;
        if (k == 6) o.lr = o.embedding_lr = 0, o.ngrams = 0; /* nothing gets better */
        o.pretrain = k == 7 ? 1.5 : 0;
        outcome whole = run(&o, train, (run_options){.threads = 2});
        assert_int_equal(whole.status, QKV_OK);
        assert_int_equal(strstr(whole.record, "out of patience") != NULL, k == 6);
        assert_int_equal(whole.seen.before > 4, k == 7);
        for (int64_t at = 1; at < whole.seen.steps; at += 1 + at / 4) continued(&o, train, path, &whole, at);
        drop(&whole);
    }
    unlink(path);
}

/* Checkpoints of every step: killed at any of them (that is, gone on from any), the rest is the same. */
static void from_every_step(void **state) {
    (void)state;
    char train[512], path[512];
    toy_file("resume.tsv", 60, 2, train);
    test_path("resume_every", path);
    unlink(path);
    qkv_classify_options o = toy_options();
    o.epochs = 2;
    outcome plain = run(&o, train, (run_options){.threads = 2});
    outcome noted = run(&o, train, (run_options){.threads = 2, .checkpoint = {.path = path, .minutes = 1e-9}});
    same(&plain, &noted); /* writing changes nothing */
    outcome again = run(&o, train, (run_options){.threads = 2, .checkpoint = {.path = path, .resume = 1}}); /* the last one written */
    same(&plain, &again);
    drop(&plain);
    drop(&noted);
    drop(&again);
    unlink(path);
}

static int fail_all(void *user, const char *what) {
    (void)what;
    ++*(int *)user;
    return 28; /* ENOSPC */
}

static void a_full_disk_does_not_end_the_run(void **state) {
    (void)state;
    char train[512], path[512];
    toy_file("resume.tsv", 60, 2, train);
    test_path("resume_full", path);
    test_write_file(path, "the last good one", 17);
    qkv_classify_options o = toy_options();
    o.epochs = 2;
    int asked = 0;
    outcome plain = run(&o, train, (run_options){.threads = 2});
    outcome full = run(&o, train, (run_options){.threads = 2, .checkpoint = {.path = path, .minutes = 1e-9}, .fault = fail_all, .fault_user = &asked});
    assert_true(asked > 0);
    same(&plain, &full);
    drop(&plain);
    drop(&full);
    FILE *f = fopen(path, "rb");
    char text[32] = "";
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text - 1, f), 17);
    fclose(f);
    assert_string_equal(text, "the last good one");
    unlink(path);
}

typedef struct script {
    int calls, fail_at;
} script;

static int fail_one(void *user, const char *what) {
    (void)what;
    script *s = user;
    return ++s->calls == s->fail_at ? 5 /* EIO */ : 0;
}

/* Whichever call of whichever checkpoint fails: the run ends as it should, and what lies there can be gone on from. */
static void any_write_may_fail(void **state) {
    (void)state;
    char train[512], path[512];
    toy_file("resume.tsv", 40, 2, train);
    test_path("resume_fail", path);
    qkv_classify_options o = toy_options();
    o.epochs = 1;
    unlink(path);
    script s = {0};
    run_options every = {.threads = 1, .checkpoint = {.path = path, .minutes = 1e-9}, .fault = fail_one, .fault_user = &s};
    outcome whole = run(&o, train, every);
    int calls = s.calls;
    assert_true(calls > 2 * whole.seen.steps);
    for (int k = 1; k <= calls; k++) {
        unlink(path);
        s = (script){.fail_at = k};
        outcome hurt = run(&o, train, every);
        same(&whole, &hurt);
        drop(&hurt);
        if (access(path, F_OK)) continue; /* the first and only one failed */
        outcome rest = run(&o, train, (run_options){.threads = 1, .checkpoint = {.path = path, .resume = 1}});
        same(&whole, &rest);
        drop(&rest);
    }
    drop(&whole);
    unlink(path);
}

static void refused(const qkv_classify_options *o, const char *train, const char *path, qkv_status status, const char *why) {
    outcome out = run(o, train, (run_options){.threads = 1, .checkpoint = {.path = path, .resume = 1}});
    assert_int_equal(out.status, status);
    if (!strstr(out.message, why)) fail_msg("'%s' does not say '%s'", out.message, why);
    assert_int_equal(out.seen.steps, 0);
    drop(&out);
}

static void another_run_is_refused(void **state) {
    (void)state;
    char train[512], other[512], path[512];
    toy_file("resume.tsv", 60, 2, train);
    toy_file("resume_other.tsv", 60, 3, other);
    test_path("resume_refused", path);
    unlink(path);
    qkv_classify_options o = toy_options();
    refused(&o, train, path, QKV_IO, "resume_refused");
    outcome part = run(&o, train, (run_options){.stop_at = 2, .threads = 1, .checkpoint = {.path = path}});
    drop(&part);
    refused(&o, other, path, QKV_BAD_ARGUMENT, "training data ");

    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -100, SEEK_END), 0);
    fputc(1, f);
    fclose(f);
    refused(&o, train, path, QKV_BAD_FORMAT, "checksum");
    test_write_file(path, "label\ttext\n", 11);
    refused(&o, train, path, QKV_BAD_FORMAT, "resume_refused");
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stopped_anywhere), cmocka_unit_test(from_every_step),
                                       cmocka_unit_test(a_full_disk_does_not_end_the_run),
                                       cmocka_unit_test(any_write_may_fail), cmocka_unit_test(another_run_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
