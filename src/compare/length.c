/* How well attention and recurrence do by the length of the text, within the lengths that were learned from and beyond them. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/lesson.h"
#include "data/listops.h"
#include "data/recall.h"

typedef struct arm {
    const char *name;
    qkv_network model;
    qkv_position position;
} arm;

static const arm ARMS[] = {
    {"attention, sinusoidal positions", QKV_NETWORK_TRANSFORMER, QKV_POSITION_SINUSOIDAL},
    {"attention, learned positions", QKV_NETWORK_TRANSFORMER, QKV_POSITION_LEARNED},
    {"attention, no positions", QKV_NETWORK_TRANSFORMER, QKV_POSITION_NONE},
    {"RNN", QKV_NETWORK_RNN, QKV_POSITION_NONE},
    {"LSTM", QKV_NETWORK_LSTM, QKV_POSITION_NONE},
    {"GRU", QKV_NETWORK_GRU, QKV_POSITION_NONE},
};
enum { ARM_COUNT = sizeof ARMS / sizeof *ARMS, SINUSOIDAL = 0, LEARNED = 1, RNN = 3, LSTM = 4, GRU = 5 };

/* Places of a trial. A training of the kind PICK is for choosing the rate of an arm alone, and of no other use. */
enum { TASK, ARM, TURN, KIND, RATE };
enum { TRAIN, PICK };
#define AT(task, arm) ((const int64_t[QKV_TRIAL_PLACES]){task, arm, QKV_ANY, TRAIN, QKV_ANY, QKV_ANY})

static const double RATES[] = {5e-4, 2e-3, 5e-3};
enum { RATE_COUNT = sizeof RATES / sizeof *RATES, USUAL = 1, PICK_SEED = 1000 };

enum { TASKS = 2, BUCKETS = 5 };

typedef struct task {
    const char *name;
    qkv_lesson lesson;
    qkv_ragged dev;             /* rows of learned lengths, by which rates are picked */
    int64_t learned;            /* longest row that is learned from */
    int64_t edges[BUCKETS + 1]; /* a bucket has the lengths from one edge + 1 to the next */
    int64_t buckets, within;    /* of them, the first so many are of lengths that were learned from */
    int64_t steps, batch_tokens;
    qkv_pooling pooling;
} task;

typedef struct length {
    task tasks[TASKS];
    int64_t count, dim, layers;
    int64_t rates; /* that are tried for each arm; 1: all have the usual one */
} length;

/* ---- tasks ---- */

static void set_buckets(task *t, const int64_t *edges, int64_t count) {
    memcpy(t->edges, edges, (size_t)(count + 1) * sizeof *edges);
    t->buckets = count;
    for (int64_t b = 0; b < count; b++) t->within += edges[b + 1] <= t->learned;
}

static qkv_status make_recall(qkv_run *run, task *t) {
    const bool quick = run->o->quick;
    const int64_t edges[] = {7, 16, 32, 64, 128, 256};
    qkv_recall r = {.keys = 4, .values = 8, .filler = 32, .pairs = 2, .shortest = 8, .longest = 64};
    t->name = "recall";
    t->learned = r.longest;
    t->steps = quick ? 300 : 2000;
    t->batch_tokens = 4096;
    t->pooling = QKV_POOL_LAST; /* the question stands there */
    t->lesson = (qkv_lesson){.vocab = qkv_recall_vocab(&r), .classes = r.values, .max_length = 256};
    snprintf(t->lesson.name, sizeof t->lesson.name,
             "recall of one of %lld pairs (%lld keys, %lld values), learned from texts of %lld to %lld tokens", (long long)r.pairs,
             (long long)r.keys, (long long)r.values, (long long)r.shortest, (long long)r.longest);
    set_buckets(t, edges, 5);
    QKV_TRY(qkv_recall_make(run->ctx, &r, 1, 0, 3 * t->steps * t->batch_tokens / (r.shortest + r.longest), &t->lesson.train));
    QKV_TRY(qkv_recall_make(run->ctx, &r, 3, 0, 1000, &t->dev));
    r.longest = 256;
    return qkv_recall_make(run->ctx, &r, 2, 0, quick ? 400 : 2000, &t->lesson.test);
}

static qkv_status make_listops(qkv_run *run, task *t) {
    const bool quick = run->o->quick;
    const int64_t unit = quick ? 20 : 500, edges[] = {unit, 2 * unit, 4 * unit};
    qkv_listops l = {.depth = 10, .arguments = 10, .shortest = unit, .longest = 2 * unit};
    t->name = "list operations";
    t->learned = l.longest;
    t->steps = quick ? 150 : 400;
    t->batch_tokens = quick ? 4096 : 8192;
    t->pooling = QKV_POOL_ATTENTION;
    t->lesson = (qkv_lesson){.vocab = QKV_LIST_VOCAB, .classes = QKV_LIST_CLASSES, .max_length = 4 * unit};
    snprintf(t->lesson.name, sizeof t->lesson.name, "nested list operations, learned from texts of %lld to %lld tokens",
             (long long)l.shortest, (long long)l.longest);
    set_buckets(t, edges, 2);
    t->edges[0]--; /* the shortest belong to it */
    QKV_TRY(qkv_listops_make(run->ctx, &l, 1, 0, 2 * t->steps * t->batch_tokens / (3 * unit), &t->lesson.train));
    QKV_TRY(qkv_listops_make(run->ctx, &l, 3, 0, quick ? 200 : 1000, &t->dev));
    l.longest = 4 * unit;
    return qkv_listops_make(run->ctx, &l, 2, 0, quick ? 400 : 2000, &t->lesson.test);
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static qkv_status median_length(qkv_ctx *ctx, const qkv_ragged *r, int64_t *median) {
    int64_t *lengths;
    QKV_TRY(qkv_alloc(ctx, r->count, sizeof *lengths, &lengths));
    for (int64_t i = 0; i < r->count; i++) lengths[i] = r->offset[i + 1] - r->offset[i];
    qsort(lengths, (size_t)r->count, sizeof *lengths, ascending);
    *median = r->count > 0 ? lengths[r->count / 2] : 0;
    qkv_free(ctx, lengths);
    return QKV_OK;
}

/* Learns from the shorter half of the texts, and is asked about all. */
static qkv_status read_data(qkv_run *run, task *t) {
    const bool quick = run->o->quick;
    int64_t median;
    t->name = "texts";
    QKV_TRY(qkv_lesson_read(run->ctx, run->o->data, quick ? 256 : 1024, &t->lesson));
    QKV_TRY(median_length(run->ctx, &t->lesson.train, &median));
    if (median < 4)
        return qkv_fail(run->ctx, QKV_BAD_DATA, "%s: half of the texts have fewer than 4 tokens: too short for this", run->o->data);
    t->learned = median < t->lesson.max_length / 2 ? median : t->lesson.max_length / 2;
    const int64_t edges[] = {-1, t->learned / 2, t->learned, 2 * t->learned, 4 * t->learned, INT64_MAX};
    set_buckets(t, edges, 5);
    qkv_ragged_between(&t->lesson.train, 0, t->learned);
    QKV_TRY(qkv_ragged_split(run->ctx, &t->lesson.train, 10, &t->dev));
    t->batch_tokens = 4096;
    t->pooling = QKV_POOL_ATTENTION;
    const int64_t batches = t->lesson.train.offset[t->lesson.train.count] / t->batch_tokens + 1, most = quick ? 60 : 1000;
    t->steps = 6 * batches < most ? 6 * batches : most;
    const size_t used = strlen(t->lesson.name);
    snprintf(t->lesson.name + used, sizeof t->lesson.name - used, ", learned from those of up to %lld tokens",
             (long long)t->learned);
    return QKV_OK;
}

static qkv_status make_tasks(qkv_run *run, length *l) {
    l->count = run->o->data ? 1 : 2;
    l->layers = 1;
    l->dim = 64;
    l->rates = run->o->quick ? 1 : RATE_COUNT;
    if (run->o->data) return read_data(run, &l->tasks[0]);
    QKV_TRY(make_recall(run, &l->tasks[0]));
    return make_listops(run, &l->tasks[1]);
}

/* ---- trials ---- */

/* rate: of a trial that picks; -1: of one that has the rate that was picked. */
static qkv_status add_trial(qkv_run *run, int64_t k, int64_t a, int64_t seed, int64_t rate) {
    const length *l = run->self;
    const task *s = &l->tasks[k];
    const unsigned long long number = run->o->seed + (unsigned long long)seed;
    char how[48] = "";
    qkv_trial *t;
    QKV_TRY(qkv_run_add(run, &t));
    t->at[TASK] = k, t->at[ARM] = a, t->at[TURN] = seed, t->at[KIND] = rate < 0 ? TRAIN : PICK, t->at[RATE] = rate;
    if (rate < 0 && l->rates > 1)
        snprintf(how, sizeof how, ", rate picked of %d", RATE_COUNT);
    else
        snprintf(how, sizeof how, ", rate %g", RATES[rate < 0 ? USUAL : rate]);
    t->weight = (double)s->steps * (double)s->batch_tokens * (1 + (double)s->learned / 500);
    snprintf(t->what, sizeof t->what, "%s, %s, seed %llu%s", s->name, ARMS[a].name, number, how);
    snprintf(t->key, sizeof t->key, "length: %.170s, d %lld, steps %lld of %lld, %s, seed %llu%s", s->lesson.name, (long long)l->dim,
             (long long)s->steps, (long long)s->batch_tokens, ARMS[a].name, number, how);
    return QKV_OK;
}

static qkv_status prepare(qkv_run *run) {
    length *l = run->self;
    QKV_TRY(make_tasks(run, l));
    int used = snprintf(run->setting, sizeof run->setting,
                        "%lld layer of width %lld, seeds %llu to %llu, scored once, with the last weights.", (long long)l->layers,
                        (long long)l->dim, (unsigned long long)run->o->seed,
                        (unsigned long long)run->o->seed + (unsigned long long)run->seeds - 1);
    used += l->rates > 1 ? snprintf(run->setting + used, sizeof run->setting - (size_t)used,
                                    " Rate of each arm: that of %g, %g, %g which does best with seed %llu on rows of their own.",
                                    RATES[0], RATES[1], RATES[2], (unsigned long long)run->o->seed + PICK_SEED)
                         : snprintf(run->setting + used, sizeof run->setting - (size_t)used, " Rate %g.", RATES[USUAL]);
    for (int64_t k = 0; k < l->count && used < (int)sizeof run->setting; k++)
        used += snprintf(run->setting + used, sizeof run->setting - (size_t)used,
                         " %s: %lld rows, %lld more to score, %lld steps of at most %lld tokens.", l->tasks[k].lesson.name,
                         (long long)l->tasks[k].lesson.train.count, (long long)l->tasks[k].lesson.test.count,
                         (long long)l->tasks[k].steps, (long long)l->tasks[k].batch_tokens);
    for (int64_t k = 0; k < l->count && l->rates > 1; k++)
        for (int64_t a = 0; a < ARM_COUNT; a++)
            for (int64_t r = 0; r < l->rates; r++) QKV_TRY(add_trial(run, k, a, PICK_SEED, r));
    for (int64_t seed = 0; seed < run->seeds; seed++)
        for (int64_t k = 0; k < l->count; k++)
            for (int64_t a = 0; a < ARM_COUNT; a++) QKV_TRY(add_trial(run, k, a, seed, -1));
    return QKV_OK;
}

/* The one that did best on the dev rows; the smaller one of two that did equally well. */
static double rate_of(const qkv_run *run, const qkv_trial *trial) {
    const length *l = run->self;
    double best = -1, rate = RATES[USUAL];
    if (trial->at[KIND] == PICK) return RATES[trial->at[RATE]];
    for (int64_t r = 0; r < RATE_COUNT && l->rates > 1; r++) {
        const qkv_trial *t =
            qkv_run_find(run, (const int64_t[]){trial->at[TASK], trial->at[ARM], QKV_ANY, PICK, r, QKV_ANY});
        const double accuracy = t ? qkv_trial_number(t, "accuracy") : NAN;
        if (accuracy > best) best = accuracy, rate = RATES[r];
    }
    return rate;
}

static qkv_lesson lesson_of(const task *t, const qkv_trial *trial) {
    qkv_lesson lesson = t->lesson;
    if (trial->at[KIND] == PICK) lesson.test = t->dev;
    return lesson;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    const length *l = run->self;
    const task *t = &l->tasks[trial->at[TASK]];
    const arm *a = &ARMS[trial->at[ARM]];
    const qkv_lesson lesson = lesson_of(t, trial);
    qkv_pupil p = {.config = qkv_pupil_config(&lesson, l->layers, l->dim, 4),
                   .steps = t->steps,
                   .batch_tokens = t->batch_tokens,
                   .lr = rate_of(run, trial),
                   .clip = 1,
                   .seed = run->o->seed + (uint64_t)trial->at[TURN]};
    p.config.model = a->model;
    p.config.position = a->position;
    p.config.pooling = t->pooling;
    if (qkv_config_recurrent(&p.config)) qkv_config_settle(&p.config);
    qkv_learned learned;
    QKV_TRY(qkv_pupil_train(run, &lesson, &p, &learned));
    qkv_learned_json(&learned, &lesson, values);
    json_object_set_new(values, "rate", json_real(p.lr));
    qkv_learned_free(run->ctx, &learned);
    return QKV_OK;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    const length *l = run->self;
    static const char *const rate[] = {"rate", NULL};
    const qkv_lesson lesson = lesson_of(&l->tasks[trial->at[TASK]], trial);
    return qkv_learned_whole(values, &lesson) && qkv_values_within(values, rate, RATES[0], RATES[RATE_COUNT - 1]);
}

/* ---- results ---- */

static int64_t rows_in(const task *t, int64_t from, int64_t to) {
    int64_t rows = 0;
    for (int64_t i = 0; i < t->lesson.test.count; i++) {
        const int64_t n = t->lesson.test.offset[i + 1] - t->lesson.test.offset[i];
        rows += n > from && n <= to;
    }
    return rows;
}

static const char *bucket_name(qkv_outcome *o, const task *t, int64_t b) {
    if (t->edges[b + 1] == INT64_MAX) return qkv_outcome_text(o, "over %lld", (long long)t->edges[b]);
    return qkv_outcome_text(o, "%lld to %lld", (long long)t->edges[b] + 1, (long long)t->edges[b + 1]);
}

static void table_of(const qkv_run *run, int64_t k, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {
        {"arm", "network", QKV_UNIT_TEXT},        {"tokens", "tokens of a text", QKV_UNIT_TEXT},
        {"learned", "", QKV_UNIT_TEXT},           {"rows", "texts", QKV_UNIT_COUNT},
        {"accuracy", "accuracy", QKV_UNIT_SHARE}, {"rate", "rate", QKV_UNIT_NUMBER},
        {"tokens_per_second", "tokens/s in training", QKV_UNIT_COUNT}};
    const length *l = run->self;
    const task *t = &l->tasks[k];
    if (!qkv_run_has(run, AT(k, QKV_ANY))) return;
    qkv_outcome_table(o, t->name, qkv_outcome_text(o, "Accuracy by length: %s", t->name),
                      qkv_outcome_text(o, "By chance: %.1f %% where classes are equally frequent. +- is the deviation over seeds.",
                                       100.0 / (double)t->lesson.classes),
                      columns, sizeof columns / sizeof *columns);
    qkv_outcome_chart(o, qkv_outcome_text(o, "Accuracy by length: %s", t->name), "tokens of a text, at most", QKV_UNIT_COUNT, true,
                      "accuracy", QKV_UNIT_SHARE, false);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        const qkv_estimate speed = qkv_run_mean(run, AT(k, a), "tokens_per_second", 0);
        qkv_outcome_line(o, ARMS[a].name);
        for (int64_t b = 0; b < t->buckets; b++) {
            const qkv_estimate e = qkv_run_accuracy(run, AT(k, a), &t->lesson.test, t->edges[b] + 1, t->edges[b + 1]);
            qkv_outcome_row(o);
            qkv_outcome_set_text(o, 0, ARMS[a].name);
            qkv_outcome_set_text(o, 1, bucket_name(o, t, b));
            qkv_outcome_set_text(o, 2, b < t->within ? "learned" : "beyond");
            qkv_outcome_set(o, 3, (double)rows_in(t, t->edges[b], t->edges[b + 1]), NAN);
            qkv_outcome_set_estimate(o, 4, &e);
            qkv_outcome_set(o, 5, qkv_run_mean(run, AT(k, a), "rate", 0).value, NAN);
            qkv_outcome_set_estimate(o, 6, &speed);
            qkv_outcome_point(o, (double)(t->edges[b + 1] == INT64_MAX ? t->lesson.max_length : t->edges[b + 1]), e.value,
                              e.deviation);
        }
    }
}

/* How much of the accuracy within the learned lengths is lost beyond them, seed by seed; with the spread of so many rows. */
static qkv_estimate loss_beyond(const qkv_run *run, int64_t k, int64_t a) {
    const length *l = run->self;
    const task *t = &l->tasks[k];
    const int64_t edge = t->learned;
    double of[QKV_SAMPLES], error = 0;
    int64_t seeds = 0;
    for (; seeds < run->seeds && seeds < QKV_SAMPLES; seeds++) {
        const int64_t at[QKV_TRIAL_PLACES] = {k, a, seeds, TRAIN, QKV_ANY, QKV_ANY};
        const qkv_estimate within = qkv_run_accuracy(run, at, &t->lesson.test, 0, edge),
                           beyond = qkv_run_accuracy(run, at, &t->lesson.test, edge + 1, INT64_MAX);
        of[seeds] = 1 - beyond.value / within.value;
        const double rows = (double)rows_in(t, edge, INT64_MAX);
        if (rows > 0 && within.value > 0) error = sqrt(beyond.value * (1 - beyond.value) / rows) / within.value;
    }
    return qkv_estimate_mean(of, seeds, isfinite(error) ? error : 0);
}

static void claim_long(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const length *l = run->self;
    const qkv_asked rnn = {0.37, 0.005, 0, "%.1f %%", 100}, attention = {0.05, 0.005, 0, "%.1f %%", 100};
    const qkv_estimate of_rnn = loss_beyond(run, k, RNN), of_lstm = loss_beyond(run, k, LSTM),
                       of_attention = loss_beyond(run, k, SINUSOIDAL);
    qkv_outcome_claim c = {.row = 9,
                           .article = "A",
                           .says = "what is lost on long sentences, RNN and attention",
                           .figure = "37 % and 5 % (BLEU, translation of over 30 words)"};
    snprintf(c.ours, sizeof c.ours,
             "of the accuracy, beyond the learned lengths: RNN %.1f %%, LSTM %.1f %%, attention %.1f %% (sinusoidal)",
             100 * of_rnn.value, 100 * of_lstm.value, 100 * of_attention.value);
    qkv_claim_part(&c, "RNN", &rnn, &of_rnn);
    qkv_claim_part(&c, "LSTM", &rnn, &of_lstm);
    qkv_claim_part(&c, "attention", &attention, &of_attention);
    qkv_outcome_add_claim(o, &c, qkv_outcome_text(o, "The claim is of translation; ours is %s.", l->tasks[k].lesson.name));
}

static void claim_positions(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const length *l = run->self;
    const task *t = &l->tasks[k];
    const qkv_asked learned_better = {INFINITY, 0, 0, "%+.1f points", 100},
                    sinusoidal_better = {-INFINITY, 0, 0, "%+.1f points", 100};
    const qkv_estimate gain = qkv_run_gain(run, AT(k, SINUSOIDAL), AT(k, LEARNED), &t->lesson.test, t->learned + 1, INT64_MAX);
    qkv_outcome_claim a = {.row = 7,
                           .article = "A",
                           .says = "beyond the learned lengths learned positions are more robust than fixed ones",
                           .figure = "none"},
                      b = {.row = 7,
                           .article = "B",
                           .says = "sinusoidal positions generalise best, learned ones do not",
                           .figure = "none"};
    snprintf(a.ours, sizeof a.ours, "learned less sinusoidal, beyond: %+.1f points (%s)", 100 * gain.value, t->name);
    memcpy(b.ours, a.ours, sizeof b.ours);
    qkv_claim_part(&a, "", &learned_better, &gain);
    qkv_claim_part(&b, "", &sinusoidal_better, &gain);
    qkv_outcome_add_claim(o, &a, "");
    qkv_outcome_add_claim(o, &b, "");
}

static void claim_gain(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const length *l = run->self;
    const task *t = &l->tasks[k];
    const bool text = t->lesson.text;
    const int64_t from = text ? 0 : t->learned + 1;
    const qkv_asked reviews = {0.065, 0.0005, 0, "%+.1f points", 100}, speech = {0.14, 0.005, 0, "%+.1f points", 100};
    const qkv_estimate rnn = qkv_run_gain(run, AT(k, RNN), AT(k, SINUSOIDAL), &t->lesson.test, from, INT64_MAX),
                       lstm = qkv_run_gain(run, AT(k, LSTM), AT(k, SINUSOIDAL), &t->lesson.test, from, INT64_MAX);
    qkv_outcome_claim c = {.row = text ? 11 : 13,
                           .article = "B",
                           .says = text ? "sentiment of reviews, RNN and attention"
                                        : "accuracy on long sentences, LSTM and attention (speech)",
                           .figure = text ? "86.2 % and 92.7 %, +6.5 points" : "68 % and 82 %, +14 points"};
    snprintf(c.ours, sizeof c.ours, "attention less RNN %+.1f points, attention less LSTM %+.1f points (%s%s)", 100 * rnn.value,
             100 * lstm.value, t->name, text ? "" : ", beyond the learned lengths");
    if (text) qkv_claim_part(&c, "beside the RNN", &reviews, &rnn);
    qkv_claim_part(&c, text ? "beside the LSTM" : "", text ? &reviews : &speech, &lstm);
    qkv_outcome_add_claim(o, &c, qkv_outcome_text(o, "Ours is %s.", t->lesson.name));
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    const length *l = run->self;
    for (int64_t k = 0; k < l->count; k++) table_of(run, k, o);
    for (int64_t k = 0; k < l->count; k++) {
        claim_long(run, k, o);
        claim_positions(run, k, o);
        claim_gain(run, k, o);
    }
}

static void drop(qkv_run *run) {
    length *l = run->self;
    for (int64_t k = 0; k < TASKS; k++) {
        qkv_lesson_free(run->ctx, &l->tasks[k].lesson);
        qkv_ragged_free(run->ctx, &l->tasks[k].dev);
    }
}

const qkv_experiment qkv_experiment_length = {
    .name = "length",
    .summary = "accuracy of attention, RNN, LSTM and GRU by length, within what was learned from and beyond",
    .self_size = sizeof(length),
    .takes_data = true,
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
    .drop = drop,
};
