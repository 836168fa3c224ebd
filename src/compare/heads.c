/* One head or several at equal width: what they cost, how fast they are, what comes of them. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/dataset.h"
#include "compare/timing.h"
#include "data/recall.h"
#include "report/page.h"

static const int64_t HEADS[] = {1, 2, 4, 8, 16};
enum { ARMS = sizeof HEADS / sizeof *HEADS, ONE = 0, EIGHT = 3 };

/* Places of a trial: kind, arm, and round or seed. */
enum { KIND, ARM, TURN };
enum { TIMING, TRAINING };
#define AT(kind, arm) ((const int64_t[QKV_TRIAL_PLACES]){kind, arm, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY})

/* The claim's sizes, and those that are timed. */
enum { COUNT_N = 1024, COUNT_DIM = 512, COUNT_BATCH = 32, TIME_N = 512, TIME_DIM = 512 };

typedef struct heads {
    qkv_dataset dataset;
    int64_t layers, dim, steps, batch_tokens, rounds, time_batch;
    double lr, seconds;
} heads;

static qkv_status make_dataset(qkv_run *run, heads *h) {
    const bool quick = run->o->quick;
    h->batch_tokens = 4096;
    if (run->o->data) {
        QKV_TRY(qkv_dataset_read(run->ctx, run->o->data, quick ? 128 : 256, &h->dataset));
        const int64_t batches = h->dataset.train.offset[h->dataset.train.count] / h->batch_tokens + 1, most = quick ? 100 : 1500;
        h->layers = 1;
        h->dim = quick ? 64 : 128;
        h->lr = 5e-4;
        h->steps = 4 * batches < most ? 4 * batches : most;
        return QKV_OK;
    }
    const qkv_recall task = {
        .keys = 8, .values = 8, .filler = 32, .pairs = 3, .shortest = quick ? 64 : 256, .longest = quick ? 128 : 512};
    h->dataset = (qkv_dataset){.vocab = qkv_recall_vocab(&task), .classes = task.values, .max_length = task.longest};
    snprintf(h->dataset.name, sizeof h->dataset.name, "recall of one of %lld pairs in %lld to %lld tokens, from the last",
             (long long)task.pairs, (long long)task.shortest, (long long)task.longest);
    h->layers = 1;
    h->dim = 64;
    h->lr = 1e-3;
    h->steps = quick ? 200 : 1200;
    QKV_TRY(qkv_recall_make(run->ctx, &task, 1, 0, h->steps * h->batch_tokens / task.longest * 2, &h->dataset.train));
    return qkv_recall_make(run->ctx, &task, 2, 0, quick ? 400 : 2000, &h->dataset.test);
}

static qkv_status add_trials(qkv_run *run, const heads *h) {
    qkv_trial *t;
    for (int64_t round = 0; round < h->rounds; round++) /* all arms in turn, so that all meet the same moments */
        for (int64_t a = 0; a < ARMS; a++) {
            QKV_TRY(qkv_run_add(run, &t));
            t->at[KIND] = TIMING, t->at[ARM] = a, t->at[TURN] = round;
            t->weight = h->time_batch * 0.06; /* seconds, on two cores */
            snprintf(t->what, sizeof t->what, "layer with %lld head%s, round %lld", (long long)HEADS[a], HEADS[a] == 1 ? "" : "s",
                     (long long)round + 1);
            snprintf(t->key, sizeof t->key, "heads: time, n %d, d %d, batch %lld, heads %lld, round %lld, %s", TIME_N, TIME_DIM,
                     (long long)h->time_batch, (long long)HEADS[a], (long long)round, run->machine);
        }
    for (int64_t seed = 0; seed < run->seeds; seed++)
        for (int64_t a = 0; a < ARMS; a++) {
            const unsigned long long number = run->o->seed + (unsigned long long)seed;
            QKV_TRY(qkv_run_add(run, &t));
            t->at[KIND] = TRAINING, t->at[ARM] = a, t->at[TURN] = seed;
            t->weight = (double)h->steps * (double)h->batch_tokens * (double)h->dim * (double)h->dim * 1e-9;
            snprintf(t->what, sizeof t->what, "%lld head%s, seed %llu", (long long)HEADS[a], HEADS[a] == 1 ? "" : "s", number);
            snprintf(t->key, sizeof t->key, "heads: %s, layers %lld, d %lld, steps %lld of %lld, heads %lld, seed %llu",
                     qkv_name_in_key(h->dataset.name, 150).s, (long long)h->layers, (long long)h->dim, (long long)h->steps,
                     (long long)h->batch_tokens, (long long)HEADS[a], number);
        }
    return QKV_OK;
}

static qkv_status prepare(qkv_run *run) {
    heads *h = run->self;
    const bool quick = run->o->quick;
    QKV_TRY(make_dataset(run, h));
    h->rounds = quick ? 3 : 5;
    h->seconds = quick ? 0.05 : 0.1;
    h->time_batch = quick ? 8 : 32;
    snprintf(
        run->setting, sizeof run->setting,
        "Learned: %s; %lld rows to train on, %lld held out; %lld layer%s of width %lld, %lld steps of at most %lld tokens, seeds "
        "%llu to "
        "%llu; scored once, with the last weights. Timed: one layer, d %d, n %d, batch %lld, forward and backward, %lld rounds.",
        h->dataset.name, (long long)h->dataset.train.count, (long long)h->dataset.test.count, (long long)h->layers,
        h->layers == 1 ? "" : "s", (long long)h->dim, (long long)h->steps, (long long)h->batch_tokens,
        (unsigned long long)run->o->seed, (unsigned long long)run->o->seed + (unsigned long long)run->seeds - 1, TIME_DIM, TIME_N,
        (long long)h->time_batch, (long long)h->rounds);
    return add_trials(run, h);
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    const heads *h = run->self;
    const int64_t count = HEADS[trial->at[ARM]];
    if (trial->at[KIND] == TIMING) {
        const qkv_bench_case c = {
            .name = "layer.both", .n = TIME_N, .dim = TIME_DIM, .heads = count, .batch = h->time_batch, .window = {-1, -1}};
        return qkv_timing_measure(run, &c, h->seconds, values);
    }
    qkv_recipe p = {.config = qkv_recipe_config(&h->dataset, h->layers, h->dim, count),
                   .steps = h->steps,
                   .batch_tokens = h->batch_tokens,
                   .lr = h->lr,
                   .clip = 1,
                   .seed = run->o->seed + (uint64_t)trial->at[TURN]};
    if (!h->dataset.text) p.config.pooling = QKV_POOL_LAST; /* the question stands there */
    qkv_learned learned;
    QKV_TRY(qkv_recipe_train(run, &h->dataset, &p, &learned));
    qkv_learned_json(&learned, &h->dataset, values);
    qkv_learned_free(run->ctx, &learned);
    return QKV_OK;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    const heads *h = run->self;
    if (trial->at[KIND] == TIMING) return qkv_timing_whole(values);
    return qkv_learned_whole(values, &h->dataset) && json_object_get(values, "right");
}

/* ---- results ---- */

static void conclude_table(const qkv_run *run, const qkv_layer_cost *cost, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"heads", "heads", QKV_UNIT_COUNT},
                                                 {"parameters", "parameters", QKV_UNIT_COUNT},
                                                 {"macs", "multiply-adds", QKV_UNIT_OPERATIONS},
                                                 {"macs_without_output", "without output projection", QKV_UNIT_OPERATIONS},
                                                 {"seconds", "step of a layer", QKV_UNIT_SECONDS},
                                                 {"share", "of FMA peak", QKV_UNIT_SHARE},
                                                 {"tokens_per_second", "tokens/s in training", QKV_UNIT_COUNT},
                                                 {"accuracy", "accuracy", QKV_UNIT_SHARE},
                                                 {"loss", "training loss", QKV_UNIT_NUMBER},
                                                 {"diverged", "diverged", QKV_UNIT_COUNT}};
    const heads *h = run->self;
    qkv_outcome_table(
        o, "heads", "Heads at equal width",
        qkv_outcome_text(
            o,
            "Parameters and multiply-adds: one layer, d %d, n %d, batch %d, forward, by its plan; with an output "
            "projection unless it says otherwise. A training that diverged counts as one that always gives the class most "
            "frequent in the learned rows. +- is the deviation over rounds or seeds.",
            COUNT_DIM, COUNT_N, COUNT_BATCH),
        columns, sizeof columns / sizeof *columns);
    qkv_outcome_chart(o, "Accuracy by the number of heads", "heads", QKV_UNIT_COUNT, true, "accuracy", QKV_UNIT_SHARE, false);
    qkv_outcome_line(o, h->dataset.text ? "texts" : "recall");
    for (int64_t a = 0; a < ARMS; a++) {
        const qkv_estimate seconds = qkv_run_mean(run, AT(TIMING, a), "seconds", 0),
                           share = qkv_run_mean(run, AT(TIMING, a), "share", 0),
                           speed = qkv_run_mean(run, AT(TRAINING, a), "tokens_per_second", 0),
                           accuracy = qkv_run_mean(run, AT(TRAINING, a), "accuracy", 0),
                           loss = qkv_run_mean(run, AT(TRAINING, a), "loss", 0);
        qkv_outcome_row(o);
        qkv_outcome_set(o, 0, (double)HEADS[a], NAN);
        qkv_outcome_set(o, 1, cost[2 * a].parameters, NAN);
        qkv_outcome_set(o, 2, cost[2 * a].macs, NAN);
        qkv_outcome_set(o, 3, cost[2 * a + 1].macs, NAN);
        qkv_outcome_set_estimate(o, 4, &seconds);
        qkv_outcome_set_estimate(o, 5, &share);
        qkv_outcome_set_estimate(o, 6, &speed);
        qkv_outcome_set_estimate(o, 7, &accuracy);
        qkv_outcome_set_estimate(o, 8, &loss);
        qkv_outcome_set(o, 9, qkv_run_count(run, AT(TRAINING, a), "diverged"), NAN);
        qkv_outcome_point(o, (double)HEADS[a], accuracy.value, accuracy.deviation);
    }
}

static void claim_costs(const qkv_layer_cost *cost, qkv_outcome *o) {
    qkv_outcome_claim c = {.row = 3,
                           .article = "A",
                           .says = "cost at d 512, n 1024, batch 32: one head; eight heads; eight heads that share the projection",
                           .figure = "60.1 G, 68.7 G, 60.1 G operations; 786 K, 1.05 M, 786 K parameters"};
    const qkv_asked with = {68.7, 0.05, NAN, "%.1f G", 1}, without = {60.1, 0.05, NAN, "%.1f G", 1},
                    weights = {1.05, 0.005, NAN, "%.2f M", 1};
    const qkv_estimate one = qkv_estimate_exact(1e-9 * cost[2 * ONE].macs), eight = qkv_estimate_exact(1e-9 * cost[2 * EIGHT].macs),
                       bare = qkv_estimate_exact(1e-9 * cost[2 * EIGHT + 1].macs),
                       parameters = qkv_estimate_exact(1e-6 * cost[2 * EIGHT].parameters);
    char projected[32], bare_weights[32];
    qkv_page_value(QKV_UNIT_COUNT, cost[2 * EIGHT].parameters, projected, sizeof projected);
    qkv_page_value(QKV_UNIT_COUNT, cost[2 * EIGHT + 1].parameters, bare_weights, sizeof bare_weights);
    snprintf(c.ours, sizeof c.ours,
             "%.1f G multiply-adds and %s weights with an output projection, %.1f G and %s without, whatever the number of heads",
             1e-9 * cost[2 * EIGHT].macs, projected, 1e-9 * cost[2 * EIGHT + 1].macs, bare_weights);
    qkv_claim_part(&c, "eight heads", &with, &eight);
    qkv_claim_part(&c, "their weights", &weights, &parameters);
    qkv_claim_part(&c, "eight heads without an output projection", &without, &bare);
    qkv_claim_part(&c, "one head, the same layer", &without, &one);
    qkv_outcome_add_claim(
        o, &c, "The difference is the output projection, not the heads; and the figures are multiply-adds, half of the FLOPs.");
}

static void claim_speed(const qkv_run *run, qkv_outcome *o) {
    const qkv_estimate ratio = qkv_run_ratio(run, AT(TIMING, EIGHT), AT(TIMING, ONE), "seconds");
    const qkv_asked asked = {1.2, 0.05, 1, "%.2f", 1};
    qkv_outcome_claim c = {.row = 4, .article = "A", .says = "training speed of one head and of eight", .figure = "1.2 : 1.0"};
    snprintf(c.ours, sizeof c.ours, "%.2f : 1.00 (one layer, forward and backward, d %d, n %d)", ratio.value, TIME_DIM, TIME_N);
    qkv_claim_part(&c, "", &asked, &ratio);
    qkv_outcome_add_claim(o, &c, "");
}

static void claim_accuracy(const qkv_run *run, qkv_outcome *o) {
    const heads *h = run->self;
    const bool text = h->dataset.text;
    const qkv_estimate gain = qkv_run_gain(run, AT(TRAINING, ONE), AT(TRAINING, EIGHT), &h->dataset.test, 0, INT64_MAX),
                       one = qkv_run_mean(run, AT(TRAINING, ONE), "accuracy", 0),
                       eight = qkv_run_mean(run, AT(TRAINING, EIGHT), "accuracy", 0);
    const qkv_asked on_texts = {0.043, 0.0015, 0, "%+.1f points", 100}, on_long = {0.117, 0.0005, 0, "%+.1f points", 100};
    qkv_outcome_claim c = {.row = text ? 5 : 6,
                           .article = "A",
                           .says = text ? "accuracy of text classification with one head and with eight"
                                        : "performance on long sequences with one head and with eight",
                           .figure = text ? "82.3 % and 86.7 %, +4.4 points (another line: +4.2)" : "71.5 and 83.2, +11.7 points"};
    snprintf(c.ours, sizeof c.ours, "%.2f %% and %.2f %%, %+.2f points", 100 * one.value, 100 * eight.value, 100 * gain.value);
    qkv_claim_part(&c, "", text ? &on_texts : &on_long, &gain);
    qkv_outcome_add_claim(o, &c, qkv_outcome_text(o, "The claim does not name its data; ours is %s.", h->dataset.name));
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    qkv_layer_cost cost[2 * ARMS] = {{0}};
    for (int64_t a = 0; a < ARMS; a++)
        for (int without = 0; without < 2; without++)
            if (qkv_layer_plan(run->ctx, COUNT_DIM, HEADS[a], !without, COUNT_N, COUNT_BATCH, &cost[2 * a + without]) != QKV_OK)
                cost[2 * a + without] = (qkv_layer_cost){NAN, NAN};
    conclude_table(run, cost, o);
    claim_costs(cost, o);
    claim_speed(run, o);
    claim_accuracy(run, o);
}

static void drop(qkv_run *run) {
    heads *h = run->self;
    qkv_dataset_free(run->ctx, &h->dataset);
}

const qkv_experiment qkv_experiment_heads = {
    .name = "heads",
    .summary = "1 to 16 heads at equal width: operations, time, accuracy",
    .self_size = sizeof(heads),
    .takes_data = true,
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
    .drop = drop,
};
