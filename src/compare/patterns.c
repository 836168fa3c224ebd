/* Long documents: what is read of them and who sees whom, each way trained and asked on the same rows. Truncation, full attention,
 * windows, and segments with an encoder over them; beside them a linear model that reads everything. */
#include "compare/patterns.h"

#include <math.h>
#include <stdio.h>

#include "base/cpu.h"
#include "compare/list.h"

const qkv_patterns_arm QKV_PATTERNS_ARMS[QKV_PATTERNS_COUNT] = {
    [QKV_PATTERNS_SHORT] = {QKV_WAY_FULL, 1, 1, 0},
    [QKV_PATTERNS_ENDS] = {QKV_WAY_ENDS, 1, 1, 0},
    [QKV_PATTERNS_FULL_4] = {QKV_WAY_FULL, 4, 1, 0},
    [QKV_PATTERNS_LOCAL_4] = {QKV_WAY_LOCAL, 4, 1, 0},
    [QKV_PATTERNS_GLOBAL_4] = {QKV_WAY_GLOBAL, 4, 1, 0},
    [QKV_PATTERNS_FIXED_4] = {QKV_WAY_FIXED, 4, 1, 0},
    [QKV_PATTERNS_SENTENCES_4] = {QKV_WAY_SENTENCES, 4, 1, 0},
    [QKV_PATTERNS_DEEP_4] = {QKV_WAY_DEEP, 4, 3, 1},
    [QKV_PATTERNS_ALTERNATING_4] = {QKV_WAY_ALTERNATING, 4, 3, 1},
    [QKV_PATTERNS_SPARSE_4] = {QKV_WAY_SPARSE, 4, 1, 2},
    [QKV_PATTERNS_LOCAL_16] = {QKV_WAY_LOCAL, 16, 1, 3},
    [QKV_PATTERNS_GLOBAL_16] = {QKV_WAY_GLOBAL, 16, 1, 3},
    [QKV_PATTERNS_FIXED_16] = {QKV_WAY_FIXED, 16, 1, 3},
    [QKV_PATTERNS_SENTENCES_16] = {QKV_WAY_SENTENCES, 16, 1, 3},
    [QKV_PATTERNS_LINEAR] = {QKV_WAY_LINEAR, 0, 0, 0},
};

/* They are in the keys of cells. */
const char *const QKV_WAY_NAMES[QKV_WAYS] = {[QKV_WAY_FULL] = "full",
                                             [QKV_WAY_ENDS] = "full, both ends",
                                             [QKV_WAY_LOCAL] = "window",
                                             [QKV_WAY_GLOBAL] = "window, first tokens global",
                                             [QKV_WAY_FIXED] = "segments",
                                             [QKV_WAY_SENTENCES] = "sentences",
                                             [QKV_WAY_DEEP] = "full, 3 layers",
                                             [QKV_WAY_ALTERNATING] = "alternating, 3 layers",
                                             [QKV_WAY_SPARSE] = "window, global and random blocks",
                                             [QKV_WAY_LINEAR] = "linear model"};

int64_t qkv_patterns_length(const qkv_patterns *p, int64_t arm) {
    return QKV_PATTERNS_ARMS[arm].units * p->unit;
}

void qkv_patterns_name(const qkv_patterns *p, int64_t arm, char text[64]) {
    const char *name = QKV_WAY_NAMES[QKV_PATTERNS_ARMS[arm].way];
    if (arm == QKV_PATTERNS_LINEAR)
        snprintf(text, 64, "%s, whole texts", name);
    else
        snprintf(text, 64, "%s, %lld tokens", name, (long long)qkv_patterns_length(p, arm));
}

/* ---- trials ---- */

static int64_t rows_of(const qkv_crossval *c, int64_t fold) {
    int64_t n = 0;
    for (int64_t i = 0; i < c->table.count; i++) n += c->fold[i] == fold;
    return n;
}

static int64_t steps_of(const qkv_patterns *p, int64_t fold) {
    const int64_t learned = p->crossval.table.count - rows_of(&p->crossval, fold);
    return (int64_t)ceil(p->epochs * (double)((learned + p->batch_rows - 1) / p->batch_rows));
}

/* Of the whole experiment, in seconds or so: tokens that are read, and pairs where all see each other. */
static double weight_of(const qkv_patterns *p, int64_t a, int64_t fold) {
    if (QKV_PATTERNS_ARMS[a].way == QKV_WAY_LINEAR) return 1e-2 * (double)p->crossval.table.count;
    const double longest = (double)qkv_patterns_length(p, a), typical = 1.3 * (double)p->crossval.words,
                 n = longest < typical ? longest : typical;
    const qkv_way w = QKV_PATTERNS_ARMS[a].way;
    const double all = n / 2000, some = 0.1,
                 seen = w == QKV_WAY_FULL || w == QKV_WAY_ENDS || w == QKV_WAY_DEEP ? all
                        : w == QKV_WAY_ALTERNATING                                  ? (all + 2 * some) / 3
                                                                                    : some;
    return (double)(steps_of(p, fold) * p->batch_rows * QKV_PATTERNS_ARMS[a].layers) * n * (1 + seen) / 60000;
}

static qkv_status add_trial(qkv_run *run, int64_t a, int64_t fold, int64_t seed) {
    const qkv_patterns *p = run->self;
    const unsigned long long number = run->o->seed + (unsigned long long)seed;
    char name[64];
    qkv_trial *t;
    qkv_patterns_name(p, a, name);
    QKV_TRY(qkv_run_add(run, &t));
    t->at[QKV_PATTERNS_ARM] = a, t->at[QKV_PATTERNS_FOLD] = fold, t->at[QKV_PATTERNS_TURN] = seed;
    t->weight = weight_of(p, a, fold);
    snprintf(t->what, sizeof t->what, "%s, fold %lld of %lld, seed %llu", name, (long long)fold + 1, (long long)p->crossval.asked,
             number);
    if (a == QKV_PATTERNS_LINEAR)
        snprintf(t->key, sizeof t->key, "patterns: %s, %s, fold %lld", qkv_name_in_key(p->crossval.name, 150).s, name,
                 (long long)fold);
    else
        snprintf(t->key, sizeof t->key,
                 "patterns: %s, layers %lld, d %lld, window %lld, every %lld, segments %lld, %g epochs of %lld rows, lr %g, "
                 "%s, fold %lld, seed %llu",
                 qkv_name_in_key(p->crossval.name, 110).s, (long long)QKV_PATTERNS_ARMS[a].layers, (long long)p->dim,
                 (long long)p->window, (long long)p->every, (long long)p->segment, p->epochs, (long long)p->batch_rows, p->lr, name,
                 (long long)fold, number);
    return QKV_OK;
}

static qkv_status add_fold(qkv_run *run, int64_t fold, int64_t seed, int stage) {
    for (int64_t a = 0; a < QKV_PATTERNS_COUNT; a++)
        if (QKV_PATTERNS_ARMS[a].stage == stage && (a != QKV_PATTERNS_LINEAR || seed == 0)) QKV_TRY(add_trial(run, a, fold, seed));
    return QKV_OK;
}

static void describe(qkv_run *run) {
    const qkv_patterns *p = run->self;
    const unsigned long long first = run->o->seed, last = first + (unsigned long long)run->seeds - 1;
    char folds[96];
    if (p->crossval.asked > 1)
        snprintf(folds, sizeof folds, "in %lld folds, each held out in turn", (long long)p->crossval.asked);
    else
        snprintf(folds, sizeof folds, "one fifth held out");
    snprintf(
        run->setting, sizeof run->setting,
        "%s: %lld texts of %lld kinds, median %lld words, %s; 1 layer (or 3, where it says so) of width %lld, %g epochs in steps "
        "of %lld texts, rate %g, "
        "seeds %llu to %llu, scored once, with the last weights. Windows of %lld tokens each side, the first %lld tokens global and one "
        "in %lld, segments of at most %lld tokens with one layer over them.",
        p->crossval.name, (long long)p->crossval.table.count, (long long)p->crossval.labels.count, (long long)p->crossval.words,
        folds, (long long)p->dim, p->epochs, (long long)p->batch_rows, p->lr, first, last, (long long)p->window,
        (long long)p->first, (long long)p->every, (long long)p->segment);
}

static qkv_status prepare(qkv_run *run) {
    qkv_patterns *p = run->self;
    const bool quick = run->o->quick;
    QKV_TRY(run->o->data ? qkv_crossval_read(run->ctx, run->o->data, &p->crossval)
                         : qkv_crossval_make(run->ctx, quick ? 200 : 600, quick ? 400 : 3000, 1, &p->crossval));
    p->given = run->o->data != NULL;
    p->unit = quick ? 32 : 512;
    p->window = quick ? 8 : 64;
    p->first = p->unit / 8;
    p->every = p->unit;
    p->segment = p->unit / 4;
    p->dim = quick ? 64 : 128;
    p->heads = 4;
    p->batch_rows = 8;
    p->epochs = quick ? 8 : 16;
    p->lr = quick ? 2e-3 : 1e-3;
    if (quick || !run->o->data) qkv_crossval_ask(&p->crossval, 1);
    if (p->crossval.asked > 1 && run->o->seeds == 0) run->seeds = 1; /* each fold is a training of its own */
    describe(run);
    /* The longest last: a run that is ended early has something to say of all folds. */
    for (int64_t seed = 0; seed < run->seeds; seed++)
        for (int stage = 0; stage < QKV_PATTERNS_STAGES; stage++)
            for (int64_t f = 0; f < p->crossval.asked; f++) QKV_TRY(add_fold(run, f, seed, stage));
    return QKV_OK;
}

/* ---- measuring ---- */

static qkv_config config_of(const qkv_patterns *p, int64_t a, const qkv_dataset *l) {
    qkv_config c = qkv_recipe_config(l, QKV_PATTERNS_ARMS[a].layers, p->dim, p->heads);
    switch (QKV_PATTERNS_ARMS[a].way) {
    case QKV_WAY_GLOBAL:
        c.global_first = p->first;
        c.global_every = p->every;
        c.span = (qkv_span){p->window, p->window};
        break;
    case QKV_WAY_LOCAL:
        c.span = (qkv_span){p->window, p->window};
        break;
    case QKV_WAY_ALTERNATING:
        c.span = (qkv_span){p->window, p->window};
        qkv_config_preset(&c, QKV_PATTERN_ALTERNATING);
        break;
    case QKV_WAY_SPARSE:
        c.span = (qkv_span){p->window, p->window};
        qkv_config_preset(&c, QKV_PATTERN_SPARSE);
        break;
    case QKV_WAY_FIXED:
        c.segment = QKV_SEGMENT_TOKENS;
        break;
    case QKV_WAY_SENTENCES:
        c.segment = QKV_SEGMENT_SENTENCES;
        break;
    default:
        break;
    }
    if (c.segment != QKV_SEGMENT_NONE) c.segment_length = p->segment;
    return c;
}

static void put(json_t *values, const char *name, double x) {
    if (isfinite(x)) json_object_set_new(values, name, json_real(x));
}

static qkv_status measure_linear(qkv_run *run, int64_t fold, json_t *values) {
    qkv_patterns *p = run->self;
    int32_t *given;
    double bytes;
    const double begun = qkv_now();
    QKV_TRY(qkv_crossval_linear(&p->crossval, fold, &given, &bytes));
    put(values, "seconds", qkv_now() - begun);
    put(values, "bytes", bytes);
    json_object_set_new(values, "given", qkv_given_json(given, rows_of(&p->crossval, fold)));
    qkv_free(run->ctx, given);
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    qkv_patterns *p = run->self;
    const int64_t a = trial->at[QKV_PATTERNS_ARM], fold = trial->at[QKV_PATTERNS_FOLD];
    qkv_dataset dataset = {.classes = p->crossval.labels.count, .max_length = qkv_patterns_length(p, a)};
    if (a == QKV_PATTERNS_LINEAR) return measure_linear(run, fold, values);
    const qkv_config read = config_of(p, a, &dataset);
    QKV_TRY(qkv_crossval_dataset(&p->crossval, fold, &read, QKV_PATTERNS_ARMS[a].way == QKV_WAY_ENDS, &dataset));
    const qkv_recipe recipe = {.config = config_of(p, a, &dataset),
                               .steps = steps_of(p, fold),
                               .batch_tokens = p->batch_rows * dataset.max_length,
                               .batch_rows = p->batch_rows,
                               .lr = p->lr,
                               .clip = 1,
                               .seed = run->o->seed + (uint64_t)trial->at[QKV_PATTERNS_TURN]};
    qkv_learned learned;
    qkv_status status = qkv_recipe_train(run, &dataset, &recipe, &learned);
    if (status == QKV_OK) {
        qkv_learned_json(&learned, &dataset, values);
        put(values, "seconds", learned.seconds);
        put(values, "tokens", learned.tokens);
        if (learned.given) json_object_set_new(values, "given", qkv_given_json(learned.given, dataset.test.count));
        qkv_learned_free(run->ctx, &learned);
    }
    qkv_dataset_free(run->ctx, &dataset);
    return status;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    static const char *const every[] = {"seconds", "bytes", NULL}, *const trained[] = {"tokens", "step_seconds", "step_flops",
                                                                                       NULL};
    const qkv_patterns *p = run->self;
    const int64_t rows = rows_of(&p->crossval, trial->at[QKV_PATTERNS_FOLD]);
    if (!qkv_values_within(values, every, 0, 1e18)) return false;
    if (trial->at[QKV_PATTERNS_ARM] != QKV_PATTERNS_LINEAR && !qkv_values_within(values, trained, 0, 1e18)) return false;
    if (json_number_value(json_object_get(values, "diverged")) > 0) return true;
    return qkv_given_whole(json_object_get(values, "given"), rows, p->crossval.labels.count);
}

static void drop(qkv_run *run) {
    qkv_patterns *p = run->self;
    qkv_crossval_free(&p->crossval);
}

const qkv_experiment qkv_experiment_patterns = {
    .name = "patterns",
    .summary = "long documents: truncated, full, windows, segments: quality, time, memory",
    .self_size = sizeof(qkv_patterns),
    .takes_data = true,
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = qkv_patterns_conclude,
    .drop = drop,
};
