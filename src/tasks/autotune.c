#include "tasks/autotune.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/number.h"
#include "data/folds.h"
#include "tasks/draws.h"

/* In a row that do not count, after which there is no point in more. */
enum { MOST_FAILURES = 20 };

/* How long a trial is watched before it is judged by its pace. */
#define WATCH_SECONDS 1.0

typedef struct worth {
    double metric, loss;
} worth;

typedef struct search {
    qkv_ctx *ctx;
    const qkv_classify_options *o;
    const qkv_autotune_options *how;
    const qkv_autotune_callbacks *callbacks;
    qkv_options_recorder *recorder;
    qkv_table table, dev;
    bool has_dev;
    qkv_draws draws;
    double begun, seconds;   /* of the whole search, and what it may take; 0: any */
    int (*stop)(void *user); /* the caller's */
    void *stop_user;
    bool asked; /* by the caller */

    /* the trial at hand */
    int64_t drawn; /* its number, from 0 */
    qkv_classify_options options;
    double trial_begun, stepping; /* since when; since its first step, 0: none yet */
    bool out_of_time;             /* of the search */
    bool too_slow, beyond_end;    /* the trial, by its pace; as it would go on after the search */
    double would_take;
    qkv_train_end end;
    int64_t dev_rows;

    /* what came of it */
    int64_t counted, failed_in_row;
    double first_seconds; /* of the first trial */
    worth start_score, best_score;
    qkv_classify_options best; /* that others are drawn around */
    qkv_classify_options kept; /* of the model */
    qkv_model *model;
    int64_t model_bytes, new_bytes; /* of the best, of the trial's */
} search;

/* ---- time ---- */

static double left(const search *s) {
    return s->seconds > 0 ? s->begun + s->seconds - qkv_now() : INFINITY;
}

static int stop(void *user) {
    search *s = user;
    s->asked = s->asked || (s->stop && s->stop(s->stop_user));
    s->out_of_time = s->out_of_time || left(s) <= 0;
    return s->asked || s->out_of_time || s->too_slow;
}

/* The first trial has all the time there is: there is nothing better to do with it. */
static void judge_pace(search *s, const qkv_train_step *step) {
    const double now = qkv_now();
    if (s->stepping <= 0) s->stepping = now - step->seconds;
    if (s->drawn == 0 || s->seconds <= 0 || now - s->stepping < WATCH_SECONDS) return;
    const double all = (now - s->stepping) / (double)step->step * (double)step->steps, most = s->seconds / 3;
    s->would_take = s->stepping - s->trial_begun + all;
    s->beyond_end = s->stepping + all > s->begun + s->seconds;
    s->too_slow = s->beyond_end || s->would_take > (most > s->first_seconds ? most : s->first_seconds);
}

static void on_event(void *user, const qkv_train_event *event) {
    search *s = user;
    const qkv_train_callbacks *theirs = s->callbacks ? s->callbacks->training : NULL;
    if (event->phase == QKV_PHASE_TRAIN && event->kind == QKV_TRAIN_STEP) judge_pace(s, &event->u.step);
    if (event->phase == QKV_PHASE_TRAIN && event->kind == QKV_TRAIN_END) s->end = event->u.end;
    if (event->kind == QKV_TRAIN_DATA) s->dev_rows = event->u.data.dev_rows;
    if (theirs && theirs->event) theirs->event(theirs->user, event);
}

/* ---- one trial ---- */

static qkv_status train(search *s, qkv_model **model) {
    const qkv_classify_source source = {
        .train_rows = &s->table,
        .dev_rows = s->has_dev ? &s->dev : NULL,
        .held = qkv_table_bytes(&s->table) + qkv_table_bytes(&s->dev) + s->model_bytes,
    };
    const qkv_train_callbacks callbacks = {on_event, s};
    json_t *record = NULL;
    if (s->recorder) QKV_TRY(s->recorder(s->ctx, &s->options, &record));
    const int64_t used = s->ctx->used;
    s->ctx->stop = stop;
    s->ctx->stop_user = s;
    qkv_status status = qkv_classify_fit_rows(s->ctx, &s->options, record, &source, NULL, &callbacks, model);
    s->ctx->stop = s->stop;
    s->ctx->stop_user = s->stop_user;
    s->new_bytes = s->ctx->used - used;
    json_decref(record);
    return status;
}

static worth score_of(const search *s) {
    const qkv_train_end *e = &s->end;
    return (worth){s->o->metric == 0 ? e->accuracy : s->o->metric == 1 ? e->macro_f1 : -e->loss, e->loss};
}

static bool better(worth a, worth b) {
    return a.metric > b.metric || (a.metric == b.metric && a.loss < b.loss);
}

/* A share of few rows is better or worse by chance, and of many trials the luckiest would win. So the start stays unless the gain
 * is more than one standard error (Breiman et al. 1984, section 3.4.3, for the simpler of two trees). The loss has no such
 * formula, and is less coarse. */
static bool beyond_chance(const search *s, worth a) {
    const double m = s->start_score.metric;
    if (s->o->metric > 1 || isnan(s->start_score.metric)) return true;
    return a.metric - m > sqrt(m * (1 - m) / (double)s->dev_rows);
}

static void take(search *s, qkv_model *model) {
    qkv_model_free(s->model);
    s->model = model;
    s->model_bytes = s->new_bytes;
    s->kept = s->options;
}

static const char *why(const search *s, qkv_status status, char *text, size_t size) {
    text[0] = 0;
    if (status == QKV_OK) return text;
    if (status != QKV_STOPPED)
        snprintf(text, size, "%s", s->ctx->message);
    else if (s->asked)
        snprintf(text, size, "stopped on request");
    else if (s->out_of_time)
        snprintf(text, size, "the time is up");
    else if (s->beyond_end)
        snprintf(text, size, "would not end in time (%.1f s)", s->would_take);
    else
        snprintf(text, size, "would take more than a third of the time (%.1f s)", s->would_take);
    return text;
}

static void report(search *s, qkv_status status, bool best) {
    char text[512];
    qkv_autotune_trial t = {
        .trial = s->drawn + 1,
        .options = &s->options,
        .status = status,
        .why = why(s, status, text, sizeof text),
        .accuracy = NAN,
        .macro_f1 = NAN,
        .loss = NAN,
        .best = best,
        .seconds = qkv_now() - s->trial_begun,
    };
    if (status == QKV_OK) t.accuracy = s->end.accuracy, t.macro_f1 = s->end.macro_f1, t.loss = s->end.loss;
    if (s->callbacks && s->callbacks->done) s->callbacks->done(s->callbacks->user, &t);
}

/* What the status of a trial means for the search. */
static qkv_status judge(search *s, qkv_status status, qkv_model **model) {
    const bool trial_only = status == QKV_STOPPED || status == QKV_NUMERIC || (status == QKV_NO_MEMORY && s->drawn > 0);
    if (status != QKV_OK && !trial_only) return status;
    if (status == QKV_OK && !isfinite(s->end.loss))
        return qkv_fail(s->ctx, QKV_BAD_DATA,
                        "%s: no dev row has a label that training knows, so nothing tells one trial from another",
                        s->has_dev ? s->dev.name : s->table.name);
    const bool ahead = status == QKV_OK && (s->counted == 0 || better(score_of(s), s->best_score));
    const bool best = ahead && (s->counted == 0 || beyond_chance(s, score_of(s)));
    if (status == QKV_OK && s->drawn == 0) s->start_score = score_of(s);
    if (ahead) s->best = s->options, s->best_score = score_of(s);
    if (best || (status == QKV_STOPPED && !s->model && *model)) {
        take(s, *model);
        *model = NULL;
    }
    s->counted += status == QKV_OK;
    s->failed_in_row = status == QKV_OK ? 0 : s->failed_in_row + 1;
    if (s->drawn == 0) s->first_seconds = qkv_now() - s->trial_begun;
    report(s, status, best);
    return QKV_OK;
}

static qkv_status one_trial(search *s) {
    qkv_model *model = NULL;
    qkv_draw(&s->draws, s->drawn, &s->best, &s->options);
    s->trial_begun = qkv_now();
    s->stepping = 0;
    s->too_slow = false;
    s->end = (qkv_train_end){.accuracy = NAN, .macro_f1 = NAN, .loss = NAN};
    if (s->callbacks && s->callbacks->begun) s->callbacks->begun(s->callbacks->user, s->drawn + 1, &s->options);
    qkv_status status = train(s, &model);
    status = judge(s, status, &model);
    qkv_model_free(model);
    s->drawn++;
    return status;
}

/* ---- all of them ---- */

static qkv_status read_rows(search *s, const char *train_path, const char *dev) {
    const qkv_rows_want want = s->o->multi_label ? QKV_WANT_LABELS : QKV_WANT_LABEL;
    QKV_TRY(qkv_table_read(s->ctx, train_path, &s->o->data, want, s->o->pair != 0, &s->table));
    s->has_dev = dev != NULL;
    return dev ? qkv_table_read(s->ctx, dev, &s->o->data, want, s->o->pair != 0, &s->dev) : QKV_OK;
}

static qkv_status how_it_ended(search *s) {
    if (s->asked) return qkv_fail(s->ctx, QKV_STOPPED, "stopped on request after %lld trials that count", (long long)s->counted);
    if (s->counted > 0) {
        if (s->failed_in_row >= MOST_FAILURES)
            qkv_log(s->ctx, "the search ended early: none of the last %d trials counted", MOST_FAILURES);
        return QKV_OK;
    }
    if (!s->model && s->out_of_time)
        return qkv_fail(s->ctx, QKV_BAD_ARGUMENT, "%s minutes are too short for the first steps of the first trial",
                        qkv_plain(s->how->minutes).s);
    if (!s->model) return qkv_fail(s->ctx, QKV_NUMERIC, "none of %lld trials ended with a finite loss", (long long)s->drawn);
    qkv_log(s->ctx, "%s minutes are too short for one trial: its best weights until then are kept", qkv_plain(s->how->minutes).s);
    return QKV_OK;
}

static qkv_status all_trials(search *s, const char *train_path, const char *dev) {
    QKV_TRY(qkv_classify_check(s->ctx, s->o));
    QKV_TRY(qkv_draws_make(s->ctx, s->o, s->how->fixed, s->how->fixed_count, &s->draws));
    QKV_TRY(read_rows(s, train_path, dev));
    const int64_t most = s->how->trials > 0 ? s->how->trials : INT64_MAX;
    while (s->counted < most && s->failed_in_row < MOST_FAILURES && !s->asked && !s->out_of_time) {
        QKV_TRY(one_trial(s));
        if (qkv_draws_open(&s->draws) == 0) break;
        s->out_of_time = s->out_of_time || left(s) <= 0;
    }
    return how_it_ended(s);
}

qkv_status qkv_autotune_run(qkv_ctx *ctx, const qkv_classify_options *options, const qkv_autotune_options *how,
                            qkv_options_recorder *recorder, const char *train_path, const char *dev,
                            const qkv_autotune_callbacks *callbacks, qkv_classify_options *best, qkv_model **model) {
    search s = {
        .ctx = ctx,
        .o = options,
        .how = how,
        .callbacks = callbacks,
        .recorder = recorder,
        .begun = qkv_now(),
        .seconds = 60 * how->minutes,
        .stop = ctx->stop,
        .stop_user = ctx->stop_user,
        .best = *options,
        .kept = *options,
        .start_score = {NAN, NAN},
    };
    *model = NULL;
    s.table.ctx = s.dev.ctx = ctx;
    qkv_status status = all_trials(&s, train_path, dev);
    qkv_table_free(&s.table);
    qkv_table_free(&s.dev);
    if (status == QKV_OK || status == QKV_STOPPED) {
        *model = s.model;
        s.model = NULL;
        if (best) *best = s.kept;
    }
    qkv_model_free(s.model);
    return status;
}
