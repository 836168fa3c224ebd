#include "unit/tasks/toy.h"

#include <math.h>
#include <time.h>

#include "base/cpu.h"
#include "tasks/autotune.h"

enum { MOST = 64 };

typedef struct seen {
    int begun, done, stop_in; /* stop_in: from the first step of this trial on */
    int slow_from, slow_ms;   /* each step of trials from this one on */
    qkv_classify_options options[MOST];
    qkv_autotune_trial trial[MOST];
    char why[MOST][200];
    int steps; /* of the trial at hand */
    int64_t dev_rows;
    char log[1024];
} seen;

static void on_begun(void *user, int64_t trial, const qkv_classify_options *options) {
    seen *s = user;
    assert_int_equal(trial, s->begun + 1);
    assert_true(s->begun < MOST && s->begun == s->done);
    s->options[s->begun++] = *options;
    s->steps = 0;
}

static void on_done(void *user, const qkv_autotune_trial *t) {
    seen *s = user;
    s->trial[s->done] = *t;
    snprintf(s->why[s->done++], sizeof s->why[0], "%s", t->why);
}

static void on_event(void *user, const qkv_train_event *event) {
    seen *s = user;
    if (event->kind == QKV_TRAIN_DATA) s->dev_rows = event->u.data.dev_rows;
    if (event->kind != QKV_TRAIN_STEP) return;
    s->steps++;
    if (s->slow_from == 0 || s->begun < s->slow_from) return;
    nanosleep(&(struct timespec){0, 1000000L * s->slow_ms}, NULL);
}

static int on_stop(void *user) {
    const seen *s = user;
    return s->stop_in > 0 && (s->begun > s->stop_in || (s->begun == s->stop_in && s->steps > 0));
}

static void on_log(void *user, const char *line) {
    seen *s = user;
    snprintf(s->log, sizeof s->log, "%s", line);
}

static qkv_status run(qkv_ctx *ctx, const qkv_classify_options *o, const qkv_autotune_options *how, const char *path, seen *s,
                      qkv_classify_options *best, qkv_model **model) {
    const qkv_train_callbacks training = {on_event, s};
    const qkv_autotune_callbacks callbacks = {&training, on_begun, on_done, s};
    ctx->stop = on_stop;
    ctx->log = on_log;
    ctx->stop_user = ctx->log_user = s;
    const qkv_status status = qkv_autotune_run(ctx, o, how, NULL, path, NULL, &callbacks, best, model);
    assert_ptr_equal(ctx->stop, on_stop);
    assert_ptr_equal(ctx->stop_user, s);
    return status;
}

static qkv_classify_options quick(void) {
    qkv_classify_options o = toy_options();
    o.epochs = 1;
    return o;
}

static const char *const small[] = {"layers", "dim", "vocab"}; /* stay, so that tests are quick */

/* Rows whose labels are noisy, so that trials differ. */
static const char *noisy_file(const char *name, char path[512]) {
    char text[16384] = "";
    size_t at = 0;
    for (int i = 0; i < 200; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\t%s day %d so %d\n",
                               qkv_below(qkv_key2(9, (uint64_t)i), 4) ? (i % 2 ? "yes" : "no") : "yes", i % 2 ? "bright" : "gloomy",
                               i % 7, i % 13);
    return toy_text(name, text, path);
}

static bool same_weights(const qkv_model *a, const qkv_model *b) {
    const qkv_reg *reg = qkv_classifier_reg(a->net);
    return reg->size == qkv_classifier_reg(b->net)->size && memcmp(a->weights, b->weights, (size_t)reg->size * sizeof(real)) == 0;
}

enum { TRIALS = 6 };

static void the_best_trial_is_the_model(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char path[512];
    noisy_file("tune.tsv", path);
    int gained = 0, doubtful = 0;
    for (int metric = 0; metric < 3; metric++) {
        qkv_classify_options o = quick(), best;
        o.metric = metric;
        const qkv_autotune_options how = {.trials = TRIALS, .fixed = small, .fixed_count = 3};
        seen s = {0};
        qkv_model *model, *alone;
        assert_int_equal(run(&ctx, &o, &how, path, &s, &best, &model), QKV_OK);
        assert_int_equal(s.done, TRIALS);
        assert_memory_equal(&s.options[0], &o, sizeof o);
        int ahead = 0, winner = 0;
        const double start = metric == 0 ? s.trial[0].accuracy : s.trial[0].macro_f1;
        const double chance = metric == 2 ? 0 : sqrt(start * (1 - start) / (double)s.dev_rows);
        for (int i = 0; i < TRIALS; i++) {
            const qkv_autotune_trial *t = &s.trial[i], *a = &s.trial[ahead];
            const double mine = metric == 0 ? t->accuracy : metric == 1 ? t->macro_f1 : -t->loss;
            const double theirs = metric == 0 ? a->accuracy : metric == 1 ? a->macro_f1 : -a->loss;
            const bool is_ahead = i == 0 || mine > theirs || (mine == theirs && t->loss < a->loss);
            const bool is_best = i == 0 || (is_ahead && (metric == 2 || mine - start > chance));
            assert_true(t->status == QKV_OK && t->best == is_best && t->seconds > 0 && !s.why[i][0]);
            if (is_ahead) ahead = i;
            if (is_best) winner = i;
        }
        doubtful += winner != ahead;
        gained += winner > 0;
        assert_memory_equal(&best, &s.options[winner], sizeof best);
        assert_int_equal(qkv_classify_fit(&ctx, &best, NULL, path, NULL, NULL, NULL, &alone), QKV_OK);
        assert_true(same_weights(model, alone));
        assert_int_equal(json_equal(model->record, alone->record), 1);
        qkv_model_free(alone);
        qkv_model_free(model);
    }
    assert_true(gained > 0 && doubtful > 0); /* both happen here */
    assert_int_equal(memory.blocks, 0);
}

static void the_same_seed_draws_the_same(void **state) {
    (void)state;
    test_memory memory = {0};
    char path[512];
    noisy_file("tune_twice.tsv", path);
    static seen s[3];
    memset(s, 0, sizeof s);
    for (int i = 0; i < 3; i++) {
        TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1 + i);
        qkv_classify_options o = quick();
        o.seed = i < 2 ? 3 : 8;
        const qkv_autotune_options how = {.trials = 4, .fixed = small, .fixed_count = 3};
        qkv_model *model;
        assert_int_equal(run(&ctx, &o, &how, path, &s[i], NULL, &model), QKV_OK);
        qkv_model_free(model);
    }
    assert_memory_equal(s[0].options, s[1].options, 4 * sizeof *s[0].options);
    int moved = 0;
    for (int i = 1; i < 4; i++)
        moved += s[0].options[i].lr != s[2].options[i].lr || s[0].options[i].dropout != s[2].options[i].dropout;
    assert_true(moved > 0);
    for (int i = 0; i < 4; i++) assert_true(s[0].trial[i].loss == s[1].trial[i].loss);
    assert_int_equal(memory.blocks, 0);
}

static void a_stop_keeps_the_best_so_far(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char path[512];
    noisy_file("tune_stop.tsv", path);
    const qkv_classify_options o = quick();
    qkv_classify_options best;
    const qkv_autotune_options how = {.trials = 6, .fixed = small, .fixed_count = 3};
    qkv_model *model, *alone;
    seen s = {.stop_in = 2};
    assert_int_equal(run(&ctx, &o, &how, path, &s, &best, &model), QKV_STOPPED);
    assert_int_equal(s.done, 2);
    assert_true(s.trial[0].status == QKV_OK && s.trial[1].status == QKV_STOPPED && !s.trial[1].best);
    assert_string_equal(s.why[1], "stopped on request");
    assert_memory_equal(&best, &o, sizeof o);
    assert_int_equal(qkv_classify_fit(&ctx, &(qkv_classify_options){0}, NULL, path, NULL, NULL, NULL, &alone), QKV_BAD_CONFIG);
    ctx.stop = NULL;
    assert_int_equal(qkv_classify_fit(&ctx, &o, NULL, path, NULL, NULL, NULL, &alone), QKV_OK);
    assert_true(same_weights(model, alone));
    qkv_model_free(model);
    qkv_model_free(alone);
    /* in the first trial: what it came to */
    s = (seen){.stop_in = 1};
    assert_int_equal(run(&ctx, &o, &how, path, &s, &best, &model), QKV_STOPPED);
    assert_non_null(model);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static void the_time_is_kept(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char path[512];
    noisy_file("tune_time.tsv", path);
    qkv_classify_options o = quick(), best;
    o.batch_rows = 8;
    /* later trials are too slow, which shows by their pace */
    seen s = {.slow_from = 2, .slow_ms = 250};
    qkv_autotune_options how = {.minutes = 0.06, .fixed = small, .fixed_count = 3};
    qkv_model *model;
    double begun = qkv_now();
    assert_int_equal(run(&ctx, &o, &how, path, &s, &best, &model), QKV_OK);
    assert_true(qkv_now() - begun < 20); /* 3.6 s and a step, on a machine that has other things to do */
    assert_true(s.done >= 2 && s.trial[0].best);
    for (int i = 1; i < s.done; i++) {
        assert_true(s.trial[i].status == QKV_STOPPED && isnan(s.trial[i].loss));
        assert_true(strstr(s.why[i], "time") != NULL);
    }
    assert_memory_equal(&best, &o, sizeof o);
    qkv_model_free(model);
    /* the first does not end at all */
    o.epochs = 2000;
    s = (seen){.slow_from = 1, .slow_ms = 20};
    how.minutes = 0.03;
    assert_int_equal(run(&ctx, &o, &how, path, &s, &best, &model), QKV_OK);
    assert_int_equal(s.done, 1);
    assert_string_equal(s.why[0], "the time is up");
    assert_non_null(strstr(s.log, "too short for one trial"));
    assert_non_null(model);
    qkv_model_free(model);
    /* nor begins */
    how.minutes = 1e-9;
    s = (seen){0};
    assert_int_equal(run(&ctx, &o, &how, path, &s, &best, &model), QKV_BAD_ARGUMENT);
    assert_null(model);
    assert_int_equal(memory.blocks, 0);
}

static void nothing_to_search(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    char path[512];
    qkv_classify_options o = quick();
    static const char *const all[] = {"layers",  "dim",    "vocab",         "lr",     "embedding-lr",
                                      "dropout", "epochs", "token-dropout", "ngrams", "embedding-dropout"};
    qkv_autotune_options how = {.trials = 5, .fixed = all, .fixed_count = 10};
    qkv_model *model;
    seen s = {0};
    assert_int_equal(run(&ctx, &o, &how, noisy_file("tune_fixed.tsv", path), &s, NULL, &model), QKV_OK);
    assert_int_equal(s.done, 1);
    qkv_model_free(model);
    s = (seen){0};
    assert_int_equal(run(&ctx, &o, &how, toy_text("tune_no_dev.tsv", "a\tone\nb\ttwo\nc\tthree\n", path), &s, NULL, &model),
                     QKV_BAD_DATA);
    assert_non_null(strstr(ctx.message, "tune_no_dev.tsv: no dev row"));
    assert_null(model);
    o.lr = o.embedding_lr = 1e6; /* diverges, and there is no other rate to try */
    o.warmup = 0;
    o.clip = 0;
    o.schedule = 2;
    o.epochs = 20;
    s = (seen){0};
    assert_int_equal(run(&ctx, &o, &how, toy_file("tune_diverges.tsv", 200, 1, path), &s, NULL, &model), QKV_NUMERIC);
    assert_non_null(strstr(s.why[0], "learning rate"));
    assert_true(s.trial[0].status == QKV_NUMERIC && isnan(s.trial[0].accuracy));
    assert_null(model);
    assert_int_equal(memory.blocks, 0);
}

/* A trial that memory does not suffice for is one that does not count, but for the first. */
static void memory_runs_out(void **state) {
    (void)state;
    char path[512];
    toy_file("tune_oom.tsv", 12, 1, path);
    const qkv_classify_options o = quick();
    const qkv_autotune_options how = {.trials = 2, .fixed = small, .fixed_count = 3};
    bool ended = false, refused = false;
    for (int64_t k = 1;; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
        qkv_model *model;
        const qkv_status status = qkv_autotune_run(&ctx, &o, &how, NULL, path, NULL, NULL, NULL, &model);
        assert_true(status == QKV_OK || status == QKV_NO_MEMORY);
        assert_int_equal(model != NULL, status == QKV_OK);
        qkv_model_free(model);
        assert_int_equal(memory.blocks, 0);
        ended |= status == QKV_OK;
        refused |= status == QKV_NO_MEMORY;
        if (memory.calls < k) break;
    }
    assert_true(ended && refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_trial_is_the_model),
        cmocka_unit_test(the_same_seed_draws_the_same),
        cmocka_unit_test(a_stop_keeps_the_best_so_far),
        cmocka_unit_test(the_time_is_kept),
        cmocka_unit_test(nothing_to_search),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
