#include "compare/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "compare/only.h"

/* Seconds between two reports of one trial. */
#define TELL_EVERY 0.1

/* ---- trials ---- */

qkv_status qkv_run_add(qkv_run *run, qkv_trial **trial) {
    if (run->count == run->capacity) {
        int64_t capacity = run->capacity ? 2 * run->capacity : 64;
        QKV_TRY(qkv_grow(run->ctx, capacity, sizeof *run->trials, &run->trials));
        run->capacity = capacity;
    }
    *trial = &run->trials[run->count++];
    **trial = (qkv_trial){.weight = 1};
    return QKV_OK;
}

qkv_key_name qkv_name_in_key(const char *name, int64_t most) {
    const char *rows = strstr(name, "(rows ");
    if (rows) name = rows;
    const size_t size = strlen(name);
    qkv_key_name n;
    if ((int64_t)size <= most)
        snprintf(n.s, sizeof n.s, "%s", name);
    else
        snprintf(n.s, sizeof n.s, "%.*s [%016llx]", (int)most, name, (unsigned long long)qkv_hash64(name, size, 0));
    return n;
}

bool qkv_trial_is_at(const qkv_trial *t, const int64_t at[QKV_TRIAL_PLACES]) {
    for (int i = 0; i < QKV_TRIAL_PLACES; i++)
        if (at[i] != QKV_ANY && at[i] != t->at[i]) return false;
    return true;
}

const qkv_trial *qkv_run_find(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES]) {
    for (int64_t i = 0; i < run->count; i++)
        if (qkv_trial_is_at(&run->trials[i], at)) return &run->trials[i];
    return NULL;
}

bool qkv_run_has(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES]) {
    for (int64_t i = 0; i < run->count; i++)
        if (run->trials[i].values && qkv_trial_is_at(&run->trials[i], at)) return true;
    return false;
}

bool qkv_values_within(const json_t *values, const char *const *names, double low, double high) {
    for (; *names; names++) {
        const json_t *v = json_object_get(values, *names);
        if (!json_is_number(v) || !(json_number_value(v) >= low && json_number_value(v) <= high)) return false;
    }
    return true;
}

double qkv_trial_number(const qkv_trial *trial, const char *name) {
    const json_t *v = trial && trial->values ? json_object_get(trial->values, name) : NULL;
    return json_is_number(v) ? json_number_value(v) : NAN;
}

int64_t qkv_run_samples(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *name, double samples[QKV_SAMPLES]) {
    int64_t n = 0;
    for (int64_t i = 0; i < run->count && n < QKV_SAMPLES; i++)
        if (qkv_trial_is_at(&run->trials[i], at)) samples[n++] = qkv_trial_number(&run->trials[i], name);
    return n;
}

qkv_estimate qkv_run_mean(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *name, double error) {
    double samples[QKV_SAMPLES];
    int64_t n = qkv_run_samples(run, at, name, samples);
    qkv_estimate e = qkv_estimate_mean(samples, n, error);
    e.missing = qkv_run_missing(run, at);
    return e;
}

qkv_estimate qkv_run_ratio(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const int64_t b[QKV_TRIAL_PLACES],
                           const char *name) {
    double of_a[QKV_SAMPLES], of_b[QKV_SAMPLES];
    const int64_t n = qkv_run_samples(run, a, name, of_a), m = qkv_run_samples(run, b, name, of_b);
    qkv_estimate e = qkv_estimate_ratio(of_a, of_b, n < m ? n : m);
    e.missing = qkv_run_missing(run, a) + qkv_run_missing(run, b);
    return e;
}

int64_t qkv_run_missing(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES]) {
    int64_t missing = 0;
    for (int64_t i = 0; i < run->count; i++) missing += !run->trials[i].values && qkv_trial_is_at(&run->trials[i], at);
    return missing;
}

double qkv_run_count(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *name) {
    double count = 0;
    if (!qkv_run_has(run, at)) return NAN;
    for (int64_t i = 0; i < run->count; i++)
        count += qkv_trial_is_at(&run->trials[i], at) && qkv_trial_number(&run->trials[i], name) > 0;
    return count;
}

/* ---- progress ---- */

static double seconds_left(const qkv_run *run, double part) {
    double now = qkv_now(), weight = run->measured_weight, seconds = run->measured_seconds, left = 0;
    if (run->at_hand >= run->count) return 0;
    const double own = run->trials[run->at_hand].weight;
    if (part > 0.02) weight += part * own, seconds += now - run->trial_begun;
    for (int64_t i = run->at_hand; i < run->count; i++)
        if (!run->trials[i].values && !run->trials[i].left_out) left += run->trials[i].weight;
    return weight > 0 ? (left - part * own) * seconds / weight : NAN;
}

static void tell(qkv_run *run, double part) {
    const qkv_compare_callbacks *c = run->callbacks;
    run->told = qkv_now();
    if (!c || !c->progress) return;
    qkv_compare_progress p = {.what = run->trials[run->at_hand].what, .part = part, .left = seconds_left(run, part)};
    for (int64_t i = 0; i < run->count; i++) {
        p.cell += i < run->at_hand && !run->trials[i].left_out;
        p.cells += !run->trials[i].left_out;
    }
    c->progress(c->user, &p);
}

void qkv_run_tell(qkv_run *run, double part) {
    if (qkv_now() - run->told >= TELL_EVERY) tell(run, part);
}

/* ---- the run ---- */

static qkv_status one_trial(qkv_run *run, qkv_trial *t) {
    json_t *values = json_object();
    if (!values) return qkv_fail(run->ctx, QKV_NO_MEMORY, "out of memory for a cell");
    run->trial_begun = qkv_now();
    tell(run, 0);
    qkv_status status = run->experiment->measure(run, t, values);
    if (status != QKV_OK) {
        json_decref(values);
        return status;
    }
    QKV_TRY(qkv_cells_put(&run->cells, t->key, values));
    t->values = qkv_cells_get(&run->cells, t->key);
    run->measured_seconds += qkv_now() - run->trial_begun;
    run->measured_weight += t->weight;
    run->done++;
    return QKV_OK;
}

static qkv_status leave_out(qkv_run *run) {
    const char *only = run->o->only;
    int64_t chosen = 0;
    for (int64_t i = 0; i < run->count; i++) {
        run->trials[i].left_out = only && !qkv_only_names(only, run->trials[i].what);
        chosen += !run->trials[i].left_out;
    }
    if (chosen > 0) return QKV_OK;
    return qkv_fail(run->ctx, QKV_BAD_ARGUMENT, "only: no measurement has '%.100s' in its name; the first is '%s', the last '%s'", only,
                    run->trials[0].what, run->trials[run->count - 1].what);
}

/* Takes a cell that is there, unless it lacks something: then it is dropped. */
static bool take(qkv_run *run, qkv_trial *t, int64_t *bad) {
    const json_t *values = qkv_cells_get(&run->cells, t->key);
    if (!values || t->values) return false;
    if (!run->experiment->whole(run, t, values)) {
        qkv_cells_drop(&run->cells, t->key);
        ++*bad;
        return false;
    }
    t->values = values;
    run->taken++;
    run->done++;
    return true;
}

/* Those that were there, or that another run has put into the file meanwhile. */
static void take_kept(qkv_run *run) {
    int64_t bad = 0;
    for (int64_t i = 0; i < run->count; i++) take(run, &run->trials[i], &bad);
    if (bad > 0)
        qkv_log(run->ctx, "%s: values of %lld cell%s are missing or cannot be; passed over", run->o->cells, (long long)bad,
                bad == 1 ? "" : "s");
}

static qkv_status all_trials(qkv_run *run) {
    for (run->at_hand = 0; run->at_hand < run->count; run->at_hand++) {
        qkv_trial *t = &run->trials[run->at_hand];
        int64_t bad = 0;
        if (t->values || t->left_out || take(run, t, &bad)) continue;
        if (qkv_stop_asked(run->ctx))
            return qkv_fail(run->ctx, QKV_STOPPED, "stopped on request; %lld of %lld are done", (long long)run->done,
                            (long long)run->count);
        QKV_TRY(one_trial(run, t));
    }
    return QKV_OK;
}

/* Which run measures what claims lack. */
static void say_what_lacks(const qkv_run *run, qkv_outcome *o) {
    const qkv_compare_options *c = run->o;
    char seeds[32] = "", seed[48] = "";
    if (c->seeds > 0) snprintf(seeds, sizeof seeds, " --seeds %lld", (long long)c->seeds);
    if (c->seed != 1) snprintf(seed, sizeof seed, " --seed %llu", (unsigned long long)c->seed);
    if (run->done < run->count)
        qkv_outcome_lacks(o, qkv_outcome_text(o, "Not all of it was measured: 'qkv compare %s%s%s%s%s%s' has to run to its end.",
                                              run->experiment->name, c->data ? " --data " : "", c->data ? c->data : "",
                                              c->quick ? " --quick" : "", seeds, seed));
    else
        qkv_outcome_lacks(o, "Not all of it could be measured: a training diverged, or a layer did not fit into memory.");
}

static bool lists(const qkv_run *run) {
    return run->o->show && run->callbacks && run->callbacks->listed;
}

/* What was measured before somebody asked to stop is concluded from all the same, by code that would stop too (resampling). */
static void conclude_unstopped(qkv_run *run, qkv_outcome *o) {
    qkv_ctx *ctx = run->ctx;
    int (*const stop)(void *) = ctx->stop;
    ctx->stop = NULL;
    run->experiment->conclude(run, o);
    ctx->stop = stop;
}

static qkv_status conclude(qkv_run *run, qkv_compare_result **result) {
    qkv_outcome *o;
    QKV_TRY(qkv_outcome_create(run->ctx, &o));
    say_what_lacks(run, o);
    if (!lists(run)) conclude_unstopped(run, o);
    const char *machine = qkv_outcome_text(o, "%s", run->machine), *setting = qkv_outcome_text(o, "%s", run->setting);
    qkv_status status = qkv_outcome_finish(o, result);
    if (status != QKV_OK) {
        qkv_outcome_free(o);
        *result = NULL;
        return status;
    }
    (*result)->what = run->experiment->name;
    (*result)->summary = run->experiment->summary;
    (*result)->machine = machine;
    (*result)->setting = setting;
    (*result)->cells = run->count;
    (*result)->done = run->done;
    (*result)->taken = run->taken;
    (*result)->others = qkv_cells_count(&run->cells) - run->done;
    (*result)->kept = run->cells.kept;
    (*result)->seconds = qkv_now() - run->begun;
    return QKV_OK;
}

static void list_names(const qkv_run *run) {
    for (int64_t i = 0; i < run->count; i++)
        if (!run->trials[i].left_out)
            run->callbacks->listed(run->callbacks->user, run->trials[i].what, run->trials[i].values != NULL);
}

static qkv_status run_all(qkv_run *run, qkv_compare_result **result) {
    QKV_TRY(qkv_cells_open(run->ctx, run->o->cells, &run->cells));
    QKV_TRY(qkv_alloc_zero(run->ctx, 1, run->experiment->self_size ? run->experiment->self_size : 1, &run->self));
    QKV_TRY(run->experiment->prepare(run));
    QKV_TRY(leave_out(run));
    take_kept(run);
    qkv_status status = run->o->show ? QKV_OK : all_trials(run);
    take_kept(run);
    if (lists(run)) list_names(run);
    if (status != QKV_OK && status != QKV_STOPPED) return status;
    char message[sizeof run->ctx->message];
    memcpy(message, run->ctx->message, sizeof message);
    /* Another run that is through may have taken the file away, or it can be written again. */
    if (status == QKV_STOPPED && run->done > 0) QKV_TRY(qkv_cells_keep(&run->cells));
    QKV_TRY(conclude(run, result));
    memcpy(run->ctx->message, message, sizeof message);
    return status;
}

qkv_status qkv_experiment_run(qkv_ctx *ctx, const qkv_experiment *experiment, const qkv_compare_options *o, const char *machine,
                              const qkv_compare_callbacks *callbacks, qkv_compare_result **result) {
    qkv_run run = {.ctx = ctx, .experiment = experiment, .o = o, .machine = machine, .callbacks = callbacks, .begun = qkv_now()};
    run.seeds = o->seeds > 0 ? o->seeds : o->quick && experiment->seeds > 2 ? 2 : experiment->seeds;
    *result = NULL;
    qkv_status status = run_all(&run, result);
    if (run.self && experiment->drop) experiment->drop(&run);
    qkv_free(ctx, run.self);
    qkv_free(ctx, run.trials);
    qkv_cells_close(&run.cells);
    return status;
}
