/* Long documents: what is read of them and who sees whom, each way trained and asked on the same rows. Truncation, full attention,
 * windows, and segments with an encoder over them; beside them a linear model that reads everything. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "compare/course.h"
#include "compare/standing.h"

typedef enum way { FULL, ENDS, LOCAL, GLOBAL, FIXED, SENTENCES, LINEAR, WAYS } way;

/* Lengths are in units of what full attention is used to: 512 tokens. */
typedef struct arm {
    way way;
    int64_t units;
} arm;

static const arm ARMS[] = {
    {FULL, 1},      {ENDS, 1},   {FULL, 4},    {LOCAL, 4},  {GLOBAL, 4},     {FIXED, 4},
    {SENTENCES, 4}, {LOCAL, 16}, {GLOBAL, 16}, {FIXED, 16}, {SENTENCES, 16}, {LINEAR, 0},
};
enum { ARM_COUNT = sizeof ARMS / sizeof *ARMS, SHORT = 0, FULL_4 = 2, GLOBAL_4 = 4, FIXED_4 = 5, LINEAR_ARM = ARM_COUNT - 1, LONGEST = 16 };
static const char *const NAMES[WAYS] = {"full",     "full, both ends", "window",      "window and global tokens",
                                        "segments", "sentences",       "linear model"};

/* Places of a trial. */
enum { ARM, FOLD, TURN };
#define AT(arm) ((const int64_t[QKV_TRIAL_PLACES]){arm, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY})

typedef struct patterns {
    qkv_course course;
    int64_t unit;                   /* tokens */
    int64_t window, every, segment; /* neighbours on each side; tokens from one that is global to the next; of a segment at most */
    int64_t layers, dim, heads, batch_rows;
    double epochs, lr;
    qkv_standing standing[ARM_COUNT];
} patterns;

static int64_t length_of(const patterns *p, int64_t a) {
    return ARMS[a].units * p->unit;
}

static void name_of(const patterns *p, int64_t a, char text[64]) {
    if (ARMS[a].way == LINEAR)
        snprintf(text, 64, "%s, whole texts", NAMES[LINEAR]);
    else
        snprintf(text, 64, "%s, %lld tokens", NAMES[ARMS[a].way], (long long)length_of(p, a));
}

/* ---- trials ---- */

static int64_t rows_of(const qkv_course *c, int64_t fold) {
    int64_t n = 0;
    for (int64_t i = 0; i < c->table.count; i++) n += c->fold[i] == fold;
    return n;
}

static int64_t steps_of(const patterns *p, int64_t fold) {
    const int64_t learned = p->course.table.count - rows_of(&p->course, fold);
    return (int64_t)ceil(p->epochs * (double)((learned + p->batch_rows - 1) / p->batch_rows));
}

/* Of the whole experiment, in seconds or so: tokens that are read, and pairs where all see each other. */
static double weight_of(const patterns *p, int64_t a, int64_t fold) {
    if (ARMS[a].way == LINEAR) return 1e-2 * (double)p->course.table.count;
    const double longest = (double)length_of(p, a), typical = 1.3 * (double)p->course.words,
                 n = longest < typical ? longest : typical;
    const double seen = ARMS[a].way == FULL || ARMS[a].way == ENDS ? n / 2000 : 0.1;
    return (double)(steps_of(p, fold) * p->batch_rows) * n * (1 + seen) / 60000;
}

static qkv_status add_trial(qkv_run *run, int64_t a, int64_t fold, int64_t seed) {
    const patterns *p = run->self;
    const unsigned long long number = run->o->seed + (unsigned long long)seed;
    char name[64];
    qkv_trial *t;
    name_of(p, a, name);
    QKV_TRY(qkv_run_add(run, &t));
    t->at[ARM] = a, t->at[FOLD] = fold, t->at[TURN] = seed;
    t->weight = weight_of(p, a, fold);
    snprintf(t->what, sizeof t->what, "%s, fold %lld of %lld, seed %llu", name, (long long)fold + 1, (long long)p->course.asked,
             number);
    if (a == LINEAR_ARM)
        snprintf(t->key, sizeof t->key, "patterns: %.150s, %s, fold %lld", p->course.name, name, (long long)fold);
    else
        snprintf(t->key, sizeof t->key,
                 "patterns: %.110s, layers %lld, d %lld, window %lld, every %lld, segments %lld, %g epochs of %lld rows, lr %g, "
                 "%s, fold %lld, seed %llu",
                 p->course.name, (long long)p->layers, (long long)p->dim, (long long)p->window, (long long)p->every,
                 (long long)p->segment, p->epochs, (long long)p->batch_rows, p->lr, name, (long long)fold, number);
    return QKV_OK;
}

/* All arms of a fold that read the longest texts, or those that do not. */
static qkv_status add_fold(qkv_run *run, int64_t fold, int64_t seed, bool longest) {
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        if ((ARMS[a].units == LONGEST) != longest || (a == LINEAR_ARM && seed > 0)) continue;
        QKV_TRY(add_trial(run, a, fold, seed));
    }
    return QKV_OK;
}

static void describe(qkv_run *run) {
    const patterns *p = run->self;
    const unsigned long long first = run->o->seed, last = first + (unsigned long long)run->seeds - 1;
    char folds[96];
    if (p->course.asked > 1)
        snprintf(folds, sizeof folds, "in %lld folds, each held out in turn", (long long)p->course.asked);
    else
        snprintf(folds, sizeof folds, "one fifth held out");
    snprintf(run->setting, sizeof run->setting,
             "%s: %lld texts of %lld kinds, median %lld words, %s; %lld layer%s of width %lld, %g epochs in steps of %lld texts, "
             "rate %g, "
             "seeds %llu to %llu, scored once, with the last weights. Windows of %lld tokens each side, one token in %lld global, "
             "segments of at most %lld tokens with one layer over them.",
             p->course.name, (long long)p->course.table.count, (long long)p->course.labels.count, (long long)p->course.words, folds,
             (long long)p->layers, p->layers == 1 ? "" : "s", (long long)p->dim, p->epochs, (long long)p->batch_rows, p->lr, first,
             last, (long long)p->window, (long long)p->every, (long long)p->segment);
}

static qkv_status prepare(qkv_run *run) {
    patterns *p = run->self;
    const bool quick = run->o->quick;
    QKV_TRY(run->o->data ? qkv_course_read(run->ctx, run->o->data, &p->course)
                         : qkv_course_make(run->ctx, quick ? 200 : 600, quick ? 400 : 3000, 1, &p->course));
    p->unit = quick ? 32 : 512;
    p->window = quick ? 8 : 64;
    p->every = p->unit;
    p->segment = p->unit / 4;
    p->layers = 1;
    p->dim = quick ? 64 : 128;
    p->heads = 4;
    p->batch_rows = 8;
    p->epochs = quick ? 8 : 16;
    p->lr = quick ? 2e-3 : 1e-3;
    if (quick || !run->o->data) qkv_course_ask(&p->course, 1);
    describe(run);
    /* The longest last: a run that is ended early has something to say of all folds. */
    for (int64_t seed = 0; seed < run->seeds; seed++)
        for (int longest = 0; longest < 2; longest++)
            for (int64_t f = 0; f < p->course.asked; f++) QKV_TRY(add_fold(run, f, seed, longest == 1));
    return QKV_OK;
}

/* ---- measuring ---- */

static qkv_config config_of(const patterns *p, int64_t a, const qkv_lesson *l) {
    qkv_config c = qkv_pupil_config(l, p->layers, p->dim, p->heads);
    switch (ARMS[a].way) {
    case GLOBAL:
        c.global_first = 1;
        c.global_every = p->every;
        c.span = (qkv_span){p->window, p->window};
        break;
    case LOCAL:
        c.span = (qkv_span){p->window, p->window};
        break;
    case FIXED:
        c.segment = QKV_SEGMENT_TOKENS;
        break;
    case SENTENCES:
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
    patterns *p = run->self;
    int32_t *given;
    double bytes;
    const double begun = qkv_now();
    QKV_TRY(qkv_course_linear(&p->course, fold, &given, &bytes));
    put(values, "seconds", qkv_now() - begun);
    put(values, "bytes", bytes);
    json_object_set_new(values, "given", qkv_given_json(given, rows_of(&p->course, fold)));
    qkv_free(run->ctx, given);
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    patterns *p = run->self;
    const int64_t a = trial->at[ARM], fold = trial->at[FOLD];
    qkv_lesson lesson = {.classes = p->course.labels.count, .max_length = length_of(p, a)};
    if (a == LINEAR_ARM) return measure_linear(run, fold, values);
    const qkv_config read = config_of(p, a, &lesson);
    QKV_TRY(qkv_course_lesson(&p->course, fold, &read, ARMS[a].way == ENDS, &lesson));
    const qkv_pupil pupil = {.config = config_of(p, a, &lesson),
                             .steps = steps_of(p, fold),
                             .batch_tokens = p->batch_rows * lesson.max_length,
                             .batch_rows = p->batch_rows,
                             .lr = p->lr,
                             .clip = 1,
                             .seed = run->o->seed + (uint64_t)trial->at[TURN]};
    qkv_learned learned;
    qkv_status status = qkv_pupil_train(run, &lesson, &pupil, &learned);
    if (status == QKV_OK) {
        qkv_learned_json(&learned, &lesson, values);
        put(values, "seconds", learned.seconds);
        put(values, "tokens", learned.tokens);
        if (learned.given) json_object_set_new(values, "given", qkv_given_json(learned.given, lesson.test.count));
        qkv_learned_free(run->ctx, &learned);
    }
    qkv_lesson_free(run->ctx, &lesson);
    return status;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    static const char *const every[] = {"seconds", "bytes", NULL}, *const trained[] = {"tokens", "step_seconds", "step_flops",
                                                                                       NULL};
    const patterns *p = run->self;
    const int64_t rows = rows_of(&p->course, trial->at[FOLD]);
    if (!qkv_values_within(values, every, 0, 1e18)) return false;
    if (trial->at[ARM] != LINEAR_ARM && !qkv_values_within(values, trained, 0, 1e18)) return false;
    if (json_number_value(json_object_get(values, "diverged")) > 0) return true;
    return qkv_given_whole(json_object_get(values, "given"), rows, p->course.labels.count);
}

/* ---- results ---- */

/* Mean over folds and seeds; one alone is as good. */
static void set_mean(const qkv_run *run, int64_t a, const char *name, int64_t column, qkv_outcome *o) {
    const qkv_estimate e = qkv_run_mean(run, AT(a), name, 0);
    qkv_outcome_set_estimate(o, column, &e);
}

static void set_gain(const patterns *p, int64_t from, int64_t a, qkv_mark mark, int64_t column, qkv_outcome *o) {
    char text[64];
    const qkv_estimate e = qkv_standing_gain(&p->standing[from], &p->standing[a], mark);
    snprintf(text, sizeof text, "%+.1f (%+.1f to %+.1f)", 100 * e.value, 100 * e.low, 100 * e.high);
    qkv_outcome_set_text(o, column, a == from ? "" : isfinite(e.value) ? text : "not measured");
}

static void quality_table(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"arm", "who sees whom", QKV_UNIT_TEXT},
                                                 {"tokens", "tokens read, at most", QKV_UNIT_COUNT},
                                                 {"accuracy", "accuracy", QKV_UNIT_SHARE},
                                                 {"macro_f1", "macro-F1", QKV_UNIT_SHARE},
                                                 {"gain", "accuracy against the first arm, points", QKV_UNIT_TEXT},
                                                 {"f1_gain", "macro-F1 against the first arm, points", QKV_UNIT_TEXT},
                                                 {"f1_linear", "macro-F1 against the linear model, points", QKV_UNIT_TEXT}};
    const patterns *p = run->self;
    qkv_outcome_table(
        o, "quality", "Quality",
        qkv_outcome_text(
            o,
            "%lld texts are scored. +- is the deviation over seeds; in brackets: 95 %% intervals, of rows and seeds. By the most "
            "frequent kind alone a model would be right on %.1f %%.",
            (long long)p->course.test_rows, 100 * qkv_course_most_frequent(&p->course)),
        columns, sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        const qkv_estimate accuracy = qkv_standing_mean(&p->standing[a], QKV_MARK_ACCURACY),
                           f1 = qkv_standing_mean(&p->standing[a], QKV_MARK_MACRO_F1);
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, NAMES[ARMS[a].way]);
        if (a != LINEAR_ARM) qkv_outcome_set(o, 1, (double)length_of(p, a), NAN);
        qkv_outcome_set_estimate(o, 2, &accuracy);
        qkv_outcome_set_estimate(o, 3, &f1);
        set_gain(p, SHORT, a, QKV_MARK_ACCURACY, 4, o);
        set_gain(p, SHORT, a, QKV_MARK_MACRO_F1, 5, o);
        set_gain(p, LINEAR_ARM, a, QKV_MARK_MACRO_F1, 6, o);
    }
}

static void cost_table(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {
        {"arm", "who sees whom", QKV_UNIT_TEXT},      {"tokens", "tokens read, at most", QKV_UNIT_COUNT},
        {"step_seconds", "step", QKV_UNIT_SECONDS},   {"seconds", "training", QKV_UNIT_SECONDS},
        {"seen", "tokens seen", QKV_UNIT_COUNT},      {"tokens_per_second", "tokens/s", QKV_UNIT_COUNT},
        {"flops", "FLOPs of a step", QKV_UNIT_COUNT}, {"bytes", "memory, planned", QKV_UNIT_BYTES},
        {"parameters", "parameters", QKV_UNIT_COUNT}};
    static const char *const values[] = {"step_seconds", "seconds", "tokens",    "tokens_per_second",
                                         "step_flops",   "bytes",   "parameters"};
    const patterns *p = run->self;
    qkv_outcome_table(
        o, "cost", "Cost",
        "Of one training: mean over folds and seeds, +- their deviation. Of the linear model the memory is its weights'.", columns,
        sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, NAMES[ARMS[a].way]);
        if (a != LINEAR_ARM) qkv_outcome_set(o, 1, (double)length_of(p, a), NAN);
        for (int64_t i = 0; i < (int64_t)(sizeof values / sizeof *values); i++) set_mean(run, a, values[i], i + 2, o);
    }
}

static void charts(const qkv_run *run, qkv_outcome *o) {
    const patterns *p = run->self;
    for (int by_time = 0; by_time < 2; by_time++) {
        qkv_outcome_chart(o, by_time ? "Macro-F1 by the time of a training" : "Macro-F1 by what is read",
                          by_time ? "seconds" : "tokens of a text, at most", by_time ? QKV_UNIT_SECONDS : QKV_UNIT_COUNT, true,
                          "macro-F1", QKV_UNIT_SHARE, false);
        for (int w = FULL; w < LINEAR; w++) {
            qkv_outcome_line(o, NAMES[w]);
            for (int64_t a = 0; a < ARM_COUNT; a++) {
                if (ARMS[a].way != (way)w) continue;
                const qkv_estimate f1 = qkv_standing_mean(&p->standing[a], QKV_MARK_MACRO_F1),
                                   seconds = qkv_run_mean(run, AT(a), "seconds", 0);
                qkv_outcome_point(o, by_time ? seconds.value : (double)length_of(p, a), f1.value, f1.deviation);
            }
        }
    }
}

static void claim_contracts(const qkv_run *run, qkv_outcome *o) {
    const patterns *p = run->self;
    const qkv_asked asked = {0.023, 0.0005, 0, "%+.1f %%", 100};
    const qkv_standing *from = &p->standing[SHORT], *to = &p->standing[GLOBAL_4];
    const qkv_estimate f1 = qkv_standing_fall(from, to, QKV_MARK_MACRO_F1),
                       accuracy = qkv_standing_fall(from, to, QKV_MARK_ACCURACY);
    qkv_outcome_claim c = {.row = 17,
                           .article = "B",
                           .says = "contracts: what F1 loses from 512 tokens to 2,048 with local and global attention",
                           .figure = "2.3 %"};
    snprintf(
        c.ours, sizeof c.ours,
        "macro-F1 %.1f %% at %lld tokens, %.1f %% at %lld with a window and global tokens: a loss of %.1f %% (of accuracy %.1f %%)",
        100 * qkv_standing_mean(from, QKV_MARK_MACRO_F1).value, (long long)p->unit,
        100 * qkv_standing_mean(to, QKV_MARK_MACRO_F1).value, (long long)(4 * p->unit), 100 * f1.value, 100 * accuracy.value);
    qkv_claim_part(&c, "macro-F1", &asked, &f1);
    qkv_claim_part(&c, "accuracy", &asked, &accuracy);
    qkv_outcome_add_claim(o, &c, qkv_outcome_text(o, "A loss below 0 is a gain. Ours is %s.", p->course.name));
}

static void claim_long(const qkv_run *run, qkv_outcome *o) {
    static const struct part {
        int64_t arm;
        const char *name;
    } parts[] = {{FIXED_4, "segments, 2,048 tokens"},
                 {FIXED_4 + 4, "segments, 8,192 tokens"},
                 {GLOBAL_4, "window and global tokens, 2,048 tokens"},
                 {GLOBAL_4 + 4, "window and global tokens, 8,192 tokens"}};
    const patterns *p = run->self;
    const qkv_asked better = {INFINITY, 0, 0, "%+.1f points", 100};
    qkv_outcome_claim c = {.row = 16,
                           .article = "B",
                           .says = "long texts are the better for hierarchical attention and for neighbours with key positions",
                           .figure = "none"};
    int used = snprintf(c.ours, sizeof c.ours, "macro-F1 against the first %lld tokens:", (long long)p->unit);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        const qkv_estimate gain = qkv_standing_gain(&p->standing[SHORT], &p->standing[parts[i].arm], QKV_MARK_MACRO_F1);
        name_of(p, parts[i].arm, name);
        if (used > 0 && used < (int)sizeof c.ours)
            used += snprintf(c.ours + used, sizeof c.ours - (size_t)used, "%s %s %+.1f", i > 0 ? "," : "", name, 100 * gain.value);
        qkv_claim_part(&c, qkv_outcome_text(o, "%s", name), &better, &gain);
    }
    qkv_outcome_add_claim(o, &c,
                          qkv_outcome_text(o, "The linear model, which reads everything, has %.1f %%.",
                                           100 * qkv_standing_mean(&p->standing[LINEAR_ARM], QKV_MARK_MACRO_F1).value));
}

/* Where memory runs out, an arm counts as not measured. */
static void conclude(qkv_run *run, qkv_outcome *o) {
    patterns *p = run->self;
    for (int64_t a = 0; a < ARM_COUNT; a++)
        if (qkv_standing_make(run, &p->course, AT(a), FOLD, TURN, &p->standing[a]) != QKV_OK) p->standing[a] = (qkv_standing){0};
    quality_table(run, o);
    cost_table(run, o);
    charts(run, o);
    claim_contracts(run, o);
    claim_long(run, o);
    for (int64_t a = 0; a < ARM_COUNT; a++) qkv_standing_free(&p->standing[a]);
}

static void drop(qkv_run *run) {
    patterns *p = run->self;
    qkv_course_free(&p->course);
}

const qkv_experiment qkv_experiment_patterns = {
    .name = "patterns",
    .summary = "long documents: truncated, full, windows, segments: quality, time, memory",
    .self_size = sizeof(patterns),
    .takes_data = true,
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
    .drop = drop,
};
