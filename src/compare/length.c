/* How well attention and recurrence do by the length of the text, within the lengths that were learned from and beyond them. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/length.h"
#include "data/listops.h"
#include "data/recall.h"
#include "tasks/scorer.h"

const qkv_length_arm QKV_LENGTH_ARMS[QKV_LENGTH_ARM_COUNT] = {
    {"attention, sinusoidal positions", QKV_NETWORK_TRANSFORMER, QKV_POSITION_SINUSOIDAL},
    {"attention, learned positions", QKV_NETWORK_TRANSFORMER, QKV_POSITION_LEARNED},
    {"attention, no positions", QKV_NETWORK_TRANSFORMER, QKV_POSITION_NONE},
    {"RNN", QKV_NETWORK_RNN, QKV_POSITION_NONE},
    {"LSTM", QKV_NETWORK_LSTM, QKV_POSITION_NONE},
    {"GRU", QKV_NETWORK_GRU, QKV_POSITION_NONE},
};

bool qkv_length_attends(int64_t arm) {
    return QKV_LENGTH_ARMS[arm].model == QKV_NETWORK_TRANSFORMER;
}

/* Recurrence takes, and needs, higher rates than attention. */
const double QKV_LENGTH_RATE_OF[QKV_LENGTH_RATES] = {5e-4, 2e-3, 5e-3, 1e-2, 2e-2};
enum { USUAL = 1, OF_ATTENTION = 3, PICK_SEED = 1000 };

int64_t qkv_length_rates(const qkv_length *l, int64_t arm) {
    return !l->picks ? 1 : qkv_length_attends(arm) ? OF_ATTENTION : QKV_LENGTH_RATES;
}

/* ---- tasks ---- */

static void set_buckets(qkv_length_task *t, const int64_t *edges, int64_t count) {
    memcpy(t->edges, edges, (size_t)(count + 1) * sizeof *edges);
    t->buckets = count;
    for (int64_t b = 0; b < count; b++) t->within += edges[b + 1] <= t->learned;
}

static qkv_status make_recall(qkv_run *run, qkv_length_task *t) {
    const bool quick = run->o->quick;
    const int64_t edges[] = {7, 16, 32, 64, 128, 256};
    qkv_recall r = {.keys = 4, .values = 8, .filler = 32, .pairs = 2, .shortest = 8, .longest = 64};
    t->name = "recall";
    t->learned = r.longest;
    t->steps = t->pick_steps = quick ? 300 : 2000;
    t->pick_seeds = 2;
    t->batch_tokens = 4096;
    t->pooling = QKV_POOL_LAST; /* the question stands there */
    t->dataset = (qkv_dataset){.vocab = qkv_recall_vocab(&r), .classes = r.values, .max_length = 256};
    snprintf(t->dataset.name, sizeof t->dataset.name,
             "recall of one of %lld pairs (%lld keys, %lld values), learned from texts of %lld to %lld tokens", (long long)r.pairs,
             (long long)r.keys, (long long)r.values, (long long)r.shortest, (long long)r.longest);
    set_buckets(t, edges, 5);
    QKV_TRY(qkv_recall_make(run->ctx, &r, 1, 0, 3 * t->steps * t->batch_tokens / (r.shortest + r.longest), &t->dataset.train));
    QKV_TRY(qkv_recall_make(run->ctx, &r, 3, 0, 1000, &t->dev));
    r.longest = 256;
    return qkv_recall_make(run->ctx, &r, 2, 0, quick ? 400 : 2000, &t->dataset.test);
}

static qkv_status make_listops(qkv_run *run, qkv_length_task *t) {
    const bool quick = run->o->quick;
    const int64_t unit = quick ? 20 : 500, edges[] = {unit, 2 * unit, 4 * unit};
    qkv_listops l = {.depth = 10, .arguments = 10, .shortest = unit, .longest = 2 * unit};
    t->name = "list operations";
    t->learned = l.longest;
    t->steps = t->pick_steps = quick ? 150 : 400;
    t->pick_seeds = 1;
    t->batch_tokens = quick ? 4096 : 8192;
    t->pooling = QKV_POOL_ATTENTION;
    t->dataset = (qkv_dataset){.vocab = QKV_LIST_VOCAB, .classes = QKV_LIST_CLASSES, .max_length = 4 * unit};
    snprintf(t->dataset.name, sizeof t->dataset.name, "nested list operations, learned from texts of %lld to %lld tokens",
             (long long)l.shortest, (long long)l.longest);
    set_buckets(t, edges, 2);
    t->edges[0]--; /* the shortest belong to it */
    QKV_TRY(qkv_listops_make(run->ctx, &l, 1, 0, 2 * t->steps * t->batch_tokens / (3 * unit), &t->dataset.train));
    QKV_TRY(qkv_listops_make(run->ctx, &l, 3, 0, quick ? 200 : 1000, &t->dev));
    l.longest = 4 * unit;
    return qkv_listops_make(run->ctx, &l, 2, 0, quick ? 400 : 2000, &t->dataset.test);
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

/* Learns from the shorter half of the texts, and is asked about all. Longer texts are others than the short ones, not only longer:
 * beside that, as many steps on rows of all lengths. */
static qkv_status read_data(qkv_run *run, qkv_length_task *t) {
    const bool quick = run->o->quick;
    qkv_dataset *l = &t->dataset;
    int64_t median;
    t->name = "texts";
    QKV_TRY(qkv_dataset_read(run->ctx, run->o->data, quick ? 256 : 1024, l));
    QKV_TRY(median_length(run->ctx, &l->train, &median));
    if (median < 4)
        return qkv_fail(run->ctx, QKV_BAD_DATA, "%s: half of the texts have fewer than 4 tokens: too short for this", run->o->data);
    t->learned = median < l->max_length / 2 ? median : l->max_length / 2;
    const int64_t edges[] = {-1, t->learned / 2, t->learned, 2 * t->learned, 4 * t->learned, INT64_MAX};
    set_buckets(t, edges, 5);
    QKV_TRY(qkv_ragged_split(run->ctx, &l->train, 10, &t->dev));
    QKV_TRY(qkv_ragged_copy(run->ctx, &l->train, &t->all));
    qkv_ragged_between(&l->train, 0, t->learned);
    t->batch_tokens = 4096;
    t->pooling = QKV_POOL_ATTENTION;
    const int64_t batches = t->all.offset[t->all.count] / t->batch_tokens + 1, most = quick ? 60 : 2700;
    t->steps = 3 * batches < most ? 3 * batches : most;
    t->pick_steps = (t->steps + 1) / 2;
    t->pick_seeds = 1;
    return QKV_OK;
}

static qkv_status make_tasks(qkv_run *run, qkv_length *l) {
    l->count = run->o->data ? 1 : 2;
    l->layers = 1;
    l->dim = 64;
    l->picks = !run->o->quick;
    if (run->o->data) return read_data(run, &l->tasks[0]);
    QKV_TRY(make_recall(run, &l->tasks[0]));
    return make_listops(run, &l->tasks[1]);
}

/* ---- trials ---- */

/* What was learned from, for keys. */
static void dataset_name(const qkv_length_task *t, int64_t kind, char name[384]) {
    if (t->all.count == 0)
        snprintf(name, 384, "%s", t->dataset.name);
    else if (kind == QKV_LENGTH_TRAIN)
        snprintf(name, 384, "%s, learned from those of up to %lld tokens", t->dataset.name, (long long)t->learned);
    else
        snprintf(name, 384, "%s, learned from all", t->dataset.name);
}

static void rate_name(const qkv_length *l, const qkv_length_task *s, const qkv_trial *t, char name[64]) {
    const int64_t of = qkv_length_rates(l, t->at[QKV_LENGTH_ARM]);
    if (t->at[QKV_LENGTH_KIND] == QKV_LENGTH_PICK || of == 1)
        snprintf(name, 64, ", rate %g", QKV_LENGTH_RATE_OF[of == 1 ? USUAL : t->at[QKV_LENGTH_RATE]]);
    else if (s->pick_seeds > 1)
        snprintf(name, 64, ", rate picked of %lld by %lld", (long long)of, (long long)s->pick_seeds);
    else
        snprintf(name, 64, ", rate picked of %lld", (long long)of);
}

/* rate: of a trial that picks. */
static qkv_status add_trial(qkv_run *run, int64_t k, int64_t a, int64_t seed, int64_t kind, int64_t rate) {
    const qkv_length *l = run->self;
    const qkv_length_task *s = &l->tasks[k];
    const unsigned long long number = run->o->seed + (unsigned long long)seed;
    const int64_t steps = kind == QKV_LENGTH_PICK ? s->pick_steps : s->steps;
    char name[384], how[64];
    qkv_trial *t;
    QKV_TRY(qkv_run_add(run, &t));
    t->at[QKV_LENGTH_TASK] = k, t->at[QKV_LENGTH_ARM] = a, t->at[QKV_LENGTH_TURN] = seed;
    t->at[QKV_LENGTH_KIND] = kind, t->at[QKV_LENGTH_RATE] = rate;
    dataset_name(s, kind, name);
    rate_name(l, s, t, how);
    t->weight = (double)steps * (double)s->batch_tokens * (1 + (double)s->learned / 500) * (qkv_length_attends(a) ? 3 : 1);
    snprintf(t->what, sizeof t->what, "%s%s, %s, seed %llu%s", s->name, kind == QKV_LENGTH_ALL ? " of all lengths" : "",
             QKV_LENGTH_ARMS[a].name, number, how);
    snprintf(t->key, sizeof t->key, "length: %s, d %lld, steps %lld of %lld, %s, seed %llu%s", qkv_name_in_key(name, 170).s,
             (long long)l->dim, (long long)steps, (long long)s->batch_tokens, QKV_LENGTH_ARMS[a].name, number, how);
    return QKV_OK;
}

static qkv_status add_picks(qkv_run *run, int64_t k) {
    const qkv_length *l = run->self;
    for (int64_t a = 0; a < QKV_LENGTH_ARM_COUNT; a++)
        for (int64_t r = 0; r < qkv_length_rates(l, a); r++)
            for (int64_t s = 0; s < l->tasks[k].pick_seeds; s++) QKV_TRY(add_trial(run, k, a, PICK_SEED + s, QKV_LENGTH_PICK, r));
    return QKV_OK;
}

static void describe(qkv_run *run) {
    const qkv_length *l = run->self;
    const unsigned long long first = run->o->seed, last = first + (unsigned long long)run->seeds - 1;
    int used = snprintf(run->setting, sizeof run->setting,
                        "%lld layer of width %lld, seeds %llu to %llu, scored once, with the last weights.", (long long)l->layers,
                        (long long)l->dim, first, last);
    used += l->picks
                ? snprintf(run->setting + used, sizeof run->setting - (size_t)used,
                           " Rate of each arm: that which does best, of %g, %g, %g and with recurrence %g and %g too, with other "
                           "seeds (from %llu on) on rows that are not scored.",
                           QKV_LENGTH_RATE_OF[0], QKV_LENGTH_RATE_OF[1], QKV_LENGTH_RATE_OF[2], QKV_LENGTH_RATE_OF[3],
                           QKV_LENGTH_RATE_OF[4], first + PICK_SEED)
                : snprintf(run->setting + used, sizeof run->setting - (size_t)used, " Rate %g.", QKV_LENGTH_RATE_OF[USUAL]);
    for (int64_t k = 0; k < l->count && used < (int)sizeof run->setting; k++) {
        const qkv_length_task *t = &l->tasks[k];
        char name[384], all[96] = "";
        dataset_name(t, QKV_LENGTH_TRAIN, name);
        if (t->all.count > 0) snprintf(all, sizeof all, ", beside as many steps on all %lld rows", (long long)t->all.count);
        used += snprintf(run->setting + used, sizeof run->setting - (size_t)used,
                         " %s: %lld rows, %lld more to score, %lld steps of at most %lld tokens%s.", name,
                         (long long)t->dataset.train.count, (long long)t->dataset.test.count, (long long)t->steps,
                         (long long)t->batch_tokens, all);
    }
}

static qkv_status prepare(qkv_run *run) {
    qkv_length *l = run->self;
    QKV_TRY(make_tasks(run, l));
    for (int64_t k = 0; k < l->count; k++) QKV_TRY(qkv_dataset_common(run->ctx, &l->tasks[k].dataset, &l->tasks[k].common));
    describe(run);
    for (int64_t k = 0; k < l->count && l->picks; k++) QKV_TRY(add_picks(run, k));
    for (int64_t seed = 0; seed < run->seeds; seed++)
        for (int64_t k = 0; k < l->count; k++)
            for (int64_t a = 0; a < QKV_LENGTH_ARM_COUNT; a++) {
                QKV_TRY(add_trial(run, k, a, seed, QKV_LENGTH_TRAIN, QKV_ANY));
                if (l->tasks[k].all.count > 0) QKV_TRY(add_trial(run, k, a, seed, QKV_LENGTH_ALL, QKV_ANY));
            }
    return QKV_OK;
}

double qkv_length_pick(const qkv_run *run, int64_t k, int64_t a, int64_t rate) {
    const int64_t at[QKV_TRIAL_PLACES] = {k, a, QKV_ANY, QKV_LENGTH_PICK, rate, QKV_ANY};
    return qkv_run_mean(run, at, "accuracy", 0).value;
}

int64_t qkv_length_picked(const qkv_run *run, int64_t k, int64_t a) {
    const qkv_length *l = run->self;
    int64_t picked = 0;
    double best = -1;
    if (!l->picks) return USUAL;
    for (int64_t r = 0; r < qkv_length_rates(l, a); r++) {
        const double accuracy = qkv_length_pick(run, k, a, r);
        if (accuracy > best) best = accuracy, picked = r;
    }
    return picked;
}

static double rate_of(const qkv_run *run, const qkv_trial *t) {
    if (t->at[QKV_LENGTH_KIND] == QKV_LENGTH_PICK) return QKV_LENGTH_RATE_OF[t->at[QKV_LENGTH_RATE]];
    return QKV_LENGTH_RATE_OF[qkv_length_picked(run, t->at[QKV_LENGTH_TASK], t->at[QKV_LENGTH_ARM])];
}

static qkv_dataset dataset_of(const qkv_length_task *t, int64_t kind) {
    qkv_dataset dataset = t->dataset;
    if (kind == QKV_LENGTH_PICK) dataset.test = t->dev;
    if (kind != QKV_LENGTH_TRAIN && t->all.count > 0) dataset.train = t->all;
    return dataset;
}

/* ---- one training ---- */

/* Asks rows that are not scored too, by which one of several arms can be chosen. */
typedef struct asker {
    qkv_ctx *ctx;
    const qkv_length_task *task;
    json_t *values;
    int64_t right;
} asker;

static void on_answer(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    asker *a = user;
    (void)loss;
    a->right += qkv_argmax(probabilities, classes) == a->task->dev.target[row];
}

static qkv_status ask(void *user, const qkv_classifier *net, const real *weights) {
    asker *a = user;
    if (a->task->dev.count == 0) return QKV_OK;
    QKV_TRY(qkv_scorer_once(a->ctx, net, weights, NULL, &a->task->dev, on_answer, a));
    json_object_set_new(a->values, "dev", json_real((double)a->right / (double)a->task->dev.count));
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    const qkv_length *l = run->self;
    const qkv_length_task *t = &l->tasks[trial->at[QKV_LENGTH_TASK]];
    const qkv_length_arm *a = &QKV_LENGTH_ARMS[trial->at[QKV_LENGTH_ARM]];
    const int64_t kind = trial->at[QKV_LENGTH_KIND];
    const qkv_dataset dataset = dataset_of(t, kind);
    asker asked = {.ctx = run->ctx, .task = t, .values = values};
    qkv_recipe p = {.config = qkv_recipe_config(&dataset, l->layers, l->dim, 4),
                    .steps = kind == QKV_LENGTH_PICK ? t->pick_steps : t->steps,
                    .batch_tokens = t->batch_tokens,
                    .lr = rate_of(run, trial),
                    .clip = 1,
                    .seed = run->o->seed + (uint64_t)trial->at[QKV_LENGTH_TURN],
                    .ask = kind == QKV_LENGTH_ALL ? ask : NULL,
                    .watch_user = &asked};
    p.config.model = a->model;
    p.config.position = a->position;
    p.config.pooling = t->pooling;
    if (qkv_config_recurrent(&p.config)) qkv_config_settle(&p.config);
    qkv_learned learned;
    QKV_TRY(qkv_recipe_train(run, &dataset, &p, &learned));
    qkv_learned_json(&learned, &dataset, values);
    json_object_set_new(values, "rate", json_real(p.lr));
    qkv_status status = QKV_OK;
    if (kind == QKV_LENGTH_ALL && learned.diverged && t->dev.count > 0) { /* nobody was asked */
        int64_t common = 0;
        status = qkv_dataset_common(run->ctx, &dataset, &common);
        json_object_set_new(values, "dev", json_real(qkv_share_of_class(&t->dev, common, (qkv_lengths){0, INT64_MAX})));
    }
    qkv_learned_free(run->ctx, &learned);
    return status;
}

/* Of the trials that pick, which stand in front of the others, those that are whole are known already. */
static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    static const char *const dev[] = {"dev", NULL}, *const rate[] = {"rate", NULL};
    const qkv_length *l = run->self;
    const int64_t kind = trial->at[QKV_LENGTH_KIND];
    const qkv_length_task *t = &l->tasks[trial->at[QKV_LENGTH_TASK]];
    const qkv_dataset dataset = dataset_of(t, kind);
    const double own = rate_of(run, trial);
    const int64_t picks[QKV_TRIAL_PLACES] = {
        trial->at[QKV_LENGTH_TASK], trial->at[QKV_LENGTH_ARM], QKV_ANY, QKV_LENGTH_PICK, QKV_ANY, QKV_ANY};
    if (!qkv_learned_whole(values, &dataset) || !json_object_get(values, "right")) return false;
    if (kind != QKV_LENGTH_PICK && qkv_run_missing(run, picks) > 0) return false; /* which rate it is to have is not known */
    if (!qkv_values_within(values, rate, own, own)) return false;
    return kind != QKV_LENGTH_ALL || t->dev.count == 0 || qkv_values_within(values, dev, 0, 1);
}

static void drop(qkv_run *run) {
    qkv_length *l = run->self;
    for (int64_t k = 0; k < QKV_LENGTH_TASKS; k++) {
        qkv_dataset_free(run->ctx, &l->tasks[k].dataset);
        qkv_ragged_free(run->ctx, &l->tasks[k].all);
        qkv_ragged_free(run->ctx, &l->tasks[k].dev);
    }
}

const qkv_experiment qkv_experiment_length = {
    .name = "length",
    .summary = "accuracy of attention, RNN, LSTM and GRU by length, within what was learned from and beyond",
    .self_size = sizeof(qkv_length),
    .takes_data = true,
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = qkv_length_conclude,
    .drop = drop,
};
