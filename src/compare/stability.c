/* What keeps training under control, by taking it away: the scale of the scores, residual connections, a well-made start, the place
 * of the norms; shallow and deep. What becomes of attention and gradients is what the monitor of training says. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/dataset.h"
#include "data/recall.h"

typedef struct arm {
    const char *name, *how;
    qkv_norm_place place;
    qkv_residual_kind residual;
    qkv_initial init;
    bool unscaled, qk_norm;
    double softcap, warmup; /* as qkv_recipe's */
} arm;

/* Without a warm-up, but for one: it is itself a means against what is looked for. */
enum { OURS, UNSCALED, BARE, LARGE, SMALL, POST, WARM, SANDWICH, QK_NORM, SOFTCAP, DEEPNORM, ARM_COUNT };
static const arm ARMS[ARM_COUNT] = {
    [OURS] = {.name = "pre-norm, scaled start", .how = "as qkv trains", .warmup = -1},
    [UNSCALED] = {.name = "scores not divided by sqrt(d)", .how = "--unscaled", .unscaled = true, .warmup = -1},
    [BARE] = {.name = "no residual connections",
              .how = "--residual none",
              .residual = QKV_RESIDUAL_NONE,
              .init = QKV_INIT_PLAIN,
              .warmup = -1},
    [LARGE] = {.name = "weights start 10 times too large", .how = "--init large", .init = QKV_INIT_LARGE, .warmup = -1},
    [SMALL] = {.name = "weights start 100 times too small", .how = "--init small", .init = QKV_INIT_SMALL, .warmup = -1},
    [POST] = {.name = "post-norm",
              .how = "--norm-place post --init plain",
              .place = QKV_NORM_POST,
              .init = QKV_INIT_PLAIN,
              .warmup = -1},
    [WARM] = {.name = "post-norm, warm-up",
              .how = "the same, --warmup 0.3",
              .place = QKV_NORM_POST,
              .init = QKV_INIT_PLAIN,
              .warmup = 0.3},
    [SANDWICH] = {.name = "sandwich norm", .how = "--norm-place sandwich", .place = QKV_NORM_SANDWICH, .warmup = -1},
    [QK_NORM] = {.name = "QK-norm", .how = "--qk-norm", .qk_norm = true, .warmup = -1},
    [SOFTCAP] = {.name = "soft-cap 20", .how = "--softcap 20", .softcap = 20, .warmup = -1},
    [DEEPNORM] = {.name = "DeepNorm",
                  .how = "--norm-place post --residual deepnorm",
                  .place = QKV_NORM_POST,
                  .residual = QKV_RESIDUAL_DEEPNORM,
                  .warmup = -1},
};

static const int64_t DEPTHS[] = {2, 12};
enum { DEPTH_COUNT = 2, SHALLOW = 0, DEEP = 1 };

/* Places of a trial. */
enum { ARM, DEPTH, TURN };
#define AT(arm, depth) ((const int64_t[QKV_TRIAL_PLACES]){arm, depth, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY})

enum { DIM = 32, HEADS = 2, BATCH = 1024, EVERY = 10 };
static const double RATE = 1e-3;

typedef struct stability {
    qkv_dataset dataset;
    int64_t steps;
} stability;

/* ---- trials ---- */

static qkv_status make_dataset(qkv_run *run, stability *s) {
    const bool quick = run->o->quick;
    s->steps = quick ? 80 : 400;
    if (run->o->data) {
        QKV_TRY(qkv_dataset_read(run->ctx, run->o->data, 128, &s->dataset));
        return QKV_OK;
    }
    const int64_t n = 32;
    const qkv_recall task = {.keys = 8, .values = 8, .filler = 16, .pairs = 3, .shortest = n, .longest = n};
    s->dataset = (qkv_dataset){.vocab = qkv_recall_vocab(&task), .classes = task.values, .max_length = n};
    snprintf(s->dataset.name, sizeof s->dataset.name, "recall of one of %lld pairs in %lld tokens", (long long)task.pairs,
             (long long)n);
    QKV_TRY(qkv_recall_make(run->ctx, &task, 1, 0, s->steps * BATCH / n, &s->dataset.train));
    return qkv_recall_make(run->ctx, &task, 2, 0, 500, &s->dataset.test);
}

static qkv_status add_trials(qkv_run *run, const stability *s, int64_t seed) {
    for (int64_t d = 0; d < DEPTH_COUNT; d++)
        for (int64_t a = 0; a < ARM_COUNT; a++) {
            qkv_trial *t;
            QKV_TRY(qkv_run_add(run, &t));
            t->at[ARM] = a, t->at[DEPTH] = d, t->at[TURN] = seed;
            t->weight = (double)DEPTHS[d];
            snprintf(t->what, sizeof t->what, "%s, %lld layers, seed %llu", ARMS[a].name, (long long)DEPTHS[d],
                     (unsigned long long)run->o->seed + (unsigned long long)seed);
            snprintf(t->key, sizeof t->key, "stability: %s, steps %lld, %s", qkv_name_in_key(s->dataset.name, 140).s,
                     (long long)s->steps, t->what);
        }
    return QKV_OK;
}

static qkv_status prepare(qkv_run *run) {
    stability *s = run->self;
    QKV_TRY(make_dataset(run, s));
    snprintf(run->setting, sizeof run->setting,
             "%s; width %d, %d heads, %lld and %lld layers; %lld steps of %d tokens at a rate of %g that falls to 0, from the "
             "first step on but "
             "where it says warm-up (then it rises over 0.3 of the steps), gradients not clipped, seeds %llu to %llu. Looked at: "
             "attention and "
             "gradients of every %dth step, the norm of each.",
             s->dataset.name, DIM, HEADS, (long long)DEPTHS[SHALLOW], (long long)DEPTHS[DEEP], (long long)s->steps, BATCH, RATE,
             (unsigned long long)run->o->seed, (unsigned long long)run->o->seed + (unsigned long long)run->seeds - 1, EVERY);
    for (int64_t seed = 0; seed < run->seeds; seed++) QKV_TRY(add_trials(run, s, seed));
    return QKV_OK;
}

/* ---- one training ---- */

static void put(json_t *values, const char *when, const char *what, double x) {
    char name[40];
    snprintf(name, sizeof name, "%s%s", when, what);
    if (isfinite(x)) json_object_set_new(values, name, json_real(x));
}

static void put_look(json_t *values, const char *when, const qkv_train_monitor *m) {
    double entropy = 0, score = -INFINITY, first = NAN, last = NAN;
    int64_t seen = 0;
    for (int64_t i = 0; i < m->layers * m->heads; i++) {
        entropy += m->entropy[i];
        score = m->score[i] > score ? m->score[i] : score;
        seen++;
    }
    for (int64_t i = 0; i < m->parts; i++) {
        if (strncmp(m->part[i].name, "encoder.", 8) != 0) continue;
        if (isnan(first)) first = m->part[i].gradient_norm;
        last = m->part[i].gradient_norm;
    }
    put(values, when, "_entropy", entropy / (double)seen);
    put(values, when, "_score", score);
    put(values, when, "_first", first);
    put(values, when, "_last", last);
}

static void put_end(json_t *values, const qkv_train_monitor *m) {
    char says[512] = "";
    put(values, "", "looks", (double)m->looks);
    put(values, "", "uniform", (double)m->uniform);
    put(values, "", "saturated", (double)m->saturated);
    put(values, "", "vanishing", (double)m->vanishing);
    put(values, "", "counted", (double)m->steps);
    put(values, "", "exploding", (double)m->exploding);
    put(values, "", "nonfinite", (double)m->nonfinite);
    for (int64_t i = 0; i < m->words; i++) {
        const size_t used = strlen(says);
        snprintf(says + used, sizeof says - used, "%s%s", i ? "; " : "", m->word[i]);
    }
    json_object_set_new(values, "says", json_string(says));
}

static void seen(void *user, const qkv_train_monitor *m) {
    json_t *values = user;
    if (m->over) put_end(values, m);
    if (!m->looked) return;
    if (m->looks == 1) put_look(values, "start", m);
    put_look(values, "end", m); /* the last one stays */
}

static qkv_config config_of(const stability *s, const arm *a, int64_t layers) {
    qkv_config c = qkv_recipe_config(&s->dataset, layers, DIM, HEADS);
    c.norm_place = a->place;
    c.residual = a->residual;
    c.init = a->init;
    c.unscaled = a->unscaled;
    c.qk_norm = a->qk_norm;
    c.softcap = a->softcap;
    return c;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    const stability *s = run->self;
    const arm *a = &ARMS[trial->at[ARM]];
    const qkv_recipe recipe = {.config = config_of(s, a, DEPTHS[trial->at[DEPTH]]),
                               .steps = s->steps,
                               .batch_tokens = BATCH,
                               .lr = RATE,
                               .warmup = a->warmup,
                               .seed = run->o->seed + (uint64_t)trial->at[TURN],
                               .watch_user = values,
                               .monitor = EVERY,
                               .seen = seen};
    qkv_learned learned;
    QKV_TRY(qkv_recipe_train(run, &s->dataset, &recipe, &learned));
    qkv_learned_json(&learned, &s->dataset, values);
    qkv_learned_free(run->ctx, &learned);
    return QKV_OK;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    static const char *const counts[] = {"looks", "uniform", "saturated", "vanishing", "counted", "exploding", "nonfinite", NULL},
                             *const norms[] = {"start_first", "start_last", "end_first", "end_last", NULL},
                             *const entropies[] = {"start_entropy", "end_entropy", NULL},
                             *const scores[] = {"start_score", "end_score", NULL};
    const stability *s = run->self;
    (void)trial;
    if (!qkv_learned_whole(values, &s->dataset) || !qkv_values_within(values, counts, 0, (double)s->steps)) return false;
    if (!json_is_string(json_object_get(values, "says"))) return false;
    if (json_number_value(json_object_get(values, "nonfinite")) > 0) return true; /* then what was seen may not be finite either */
    return qkv_values_within(values, norms, 0, 1e30) && qkv_values_within(values, entropies, 0, 1.001) &&
           qkv_values_within(values, scores, -1e30, 1e30);
}

/* ---- results ---- */

static double mean_of(const qkv_run *run, int64_t a, int64_t d, const char *name) {
    return qkv_run_mean(run, AT(a, d), name, 0).value;
}

static double share_of(const qkv_run *run, int64_t a, int64_t d, const char *name, const char *of) {
    return mean_of(run, a, d, name) / mean_of(run, a, d, of);
}

/* What the monitor says of the first seed. */
static const char *says(const qkv_run *run, int64_t a, int64_t d) {
    const qkv_trial *t = qkv_run_find(run, AT(a, d));
    const char *text = t && t->values ? json_string_value(json_object_get(t->values, "says")) : NULL;
    return text ? text : "";
}

static void conclude_training(const qkv_run *run, qkv_outcome *o, int64_t d) {
    static const qkv_compare_column columns[] = {
        {"arm", "network", QKV_UNIT_TEXT},       {"accuracy", "accuracy", QKV_UNIT_SHARE},
        {"loss", "loss", QKV_UNIT_NUMBER},       {"start_entropy", "entropy / log n, start", QKV_UNIT_NUMBER},
        {"end_entropy", "end", QKV_UNIT_NUMBER}, {"start_score", "largest score, start", QKV_UNIT_NUMBER},
        {"end_score", "end", QKV_UNIT_NUMBER},   {"start_ratio", "gradient, first / last layer, start", QKV_UNIT_NUMBER},
        {"end_ratio", "end", QKV_UNIT_NUMBER}};
    qkv_outcome_table(o, d == DEEP ? "deep" : "shallow", qkv_outcome_text(o, "%lld layers", (long long)DEPTHS[d]),
                      "Means over the seeds; entropy over layers and heads, loss over the last tenth of the steps.", columns,
                      sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        const qkv_estimate accuracy = qkv_run_mean(run, AT(a, d), "accuracy", 0), loss = qkv_run_mean(run, AT(a, d), "loss", 0);
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, ARMS[a].name);
        qkv_outcome_set_estimate(o, 1, &accuracy);
        qkv_outcome_set_estimate(o, 2, &loss);
        qkv_outcome_set(o, 3, mean_of(run, a, d, "start_entropy"), NAN);
        qkv_outcome_set(o, 4, mean_of(run, a, d, "end_entropy"), NAN);
        qkv_outcome_set(o, 5, mean_of(run, a, d, "start_score"), NAN);
        qkv_outcome_set(o, 6, mean_of(run, a, d, "end_score"), NAN);
        qkv_outcome_set(o, 7, share_of(run, a, d, "start_first", "start_last"), NAN);
        qkv_outcome_set(o, 8, share_of(run, a, d, "end_first", "end_last"), NAN);
    }
}

static void conclude_monitor(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {
        {"arm", "network", QKV_UNIT_TEXT},           {"layers", "layers", QKV_UNIT_COUNT},
        {"uniform", "uniform", QKV_UNIT_SHARE},      {"saturated", "saturated", QKV_UNIT_SHARE},
        {"vanishing", "vanishing", QKV_UNIT_SHARE},  {"exploding", "exploding", QKV_UNIT_SHARE},
        {"nonfinite", "not finite", QKV_UNIT_SHARE}, {"says", "what the monitor says at the end", QKV_UNIT_TEXT}};
    qkv_outcome_table(o, "monitor", "What the monitor says",
                      "Of the looks: some layer's attention is uniform, or saturated, or gradients vanish; of the steps: the "
                      "gradient explodes, or "
                      "something is not finite. The words are those of the first seed.",
                      columns, sizeof columns / sizeof *columns);
    for (int64_t d = 0; d < DEPTH_COUNT; d++)
        for (int64_t a = 0; a < ARM_COUNT; a++) {
            qkv_outcome_row(o);
            qkv_outcome_set_text(o, 0, qkv_outcome_text(o, "%s (%s)", ARMS[a].name, ARMS[a].how));
            qkv_outcome_set(o, 1, (double)DEPTHS[d], NAN);
            qkv_outcome_set(o, 2, share_of(run, a, d, "uniform", "looks"), NAN);
            qkv_outcome_set(o, 3, share_of(run, a, d, "saturated", "looks"), NAN);
            qkv_outcome_set(o, 4, share_of(run, a, d, "vanishing", "looks"), NAN);
            qkv_outcome_set(o, 5, share_of(run, a, d, "exploding", "counted"), NAN);
            qkv_outcome_set(o, 6, share_of(run, a, d, "nonfinite", "counted"), NAN);
            qkv_outcome_set_text(o, 7, says(run, a, d));
        }
}

/* How much more of it arm a has than arm b, seed by seed. Not known where a training diverged and has none of it. */
static qkv_estimate more(const qkv_run *run, int64_t a, int64_t b, int64_t d, const char *name) {
    double x[QKV_SAMPLES], y[QKV_SAMPLES];
    const int64_t n = qkv_run_samples(run, AT(a, d), name, x);
    qkv_run_samples(run, AT(b, d), name, y);
    const int64_t missing = qkv_run_missing(run, AT(a, d)) + qkv_run_missing(run, AT(b, d));
    int64_t known = 0;
    for (int64_t i = 0; i < n; i++) known += isfinite(x[i] -= y[i]);
    qkv_estimate e = qkv_estimate_mean(x, known + missing < n ? 0 : n, 0);
    e.missing = missing;
    return e;
}

/* By how much its accuracy is higher, seed by seed and row by row. */
static qkv_estimate better(const qkv_run *run, int64_t a, int64_t b, int64_t d) {
    const stability *s = run->self;
    return qkv_run_gain(run, AT(b, d), AT(a, d), &s->dataset.test, 0, INT64_MAX);
}

/* The runs of an arm in which it happened; NaN: not all are there. */
static double runs_with(const qkv_run *run, int64_t a, int64_t d, const char *name) {
    double x[QKV_SAMPLES], count = 0;
    const int64_t n = qkv_run_samples(run, AT(a, d), name, x);
    for (int64_t i = 0; i < n; i++) count += isnan(x[i]) ? NAN : x[i] > 0;
    return count;
}

static const qkv_asked MORE_ENTROPY = {INFINITY, 0, 0, "%+.3f of log n", 1}, LESS_ACCURACY = {-INFINITY, 0, 0, "%+.1f points", 100};

static void claim_uniform(const qkv_run *run, qkv_outcome *o) {
    const qkv_estimate bare = more(run, BARE, OURS, DEEP, "end_entropy"), small = more(run, SMALL, OURS, DEEP, "start_entropy"),
                       bare_lost = better(run, BARE, OURS, DEEP), small_lost = better(run, SMALL, OURS, DEEP);
    qkv_outcome_claim c = {
        .row = 19, .article = "B", .says = "weights all 1/n: initialisation and residual connections prevent it", .figure = "none"};
    snprintf(c.ours, sizeof c.ours,
             "entropy / log n at the end, %lld layers: %.3f; without residual connections %.3f; started too small %.3f",
             (long long)DEPTHS[DEEP], mean_of(run, OURS, DEEP, "end_entropy"), mean_of(run, BARE, DEEP, "end_entropy"),
             mean_of(run, SMALL, DEEP, "end_entropy"));
    qkv_claim_part(&c, "without residual connections attention is nearer to 1/n", &MORE_ENTROPY, &bare);
    qkv_claim_part(&c, "and accuracy is lost", &LESS_ACCURACY, &bare_lost);
    qkv_claim_part(&c, "started too small it begins nearer to 1/n", &MORE_ENTROPY, &small);
    qkv_claim_part(&c, "and accuracy is lost", &LESS_ACCURACY, &small_lost);
    qkv_outcome_add_claim(o, &c, "");
}

static void claim_exploding(const qkv_run *run, qkv_outcome *o) {
    const stability *s = run->self;
    const qkv_asked points = {INFINITY, 0, 0, "%+.1f points", 100};
    const qkv_estimate gain = better(run, OURS, POST, DEEP);
    qkv_outcome_claim c = {
        .row = 19, .article = "B", .says = "exploding gradients: pre-norm instead of post-norm", .figure = "none"};
    snprintf(c.ours, sizeof c.ours,
             "%lld layers, post-norm and pre-norm: %.1f and %.1f of %lld steps explode, %.0f %% and %.0f %% of the looks "
             "see vanishing gradients, accuracy %.1f %% and %.1f %%",
             (long long)DEPTHS[DEEP], mean_of(run, POST, DEEP, "exploding"), mean_of(run, OURS, DEEP, "exploding"),
             (long long)s->steps, 100 * share_of(run, POST, DEEP, "vanishing", "looks"),
             100 * share_of(run, OURS, DEEP, "vanishing", "looks"), 100 * mean_of(run, POST, DEEP, "accuracy"),
             100 * mean_of(run, OURS, DEEP, "accuracy"));
    qkv_claim_count(&c, "runs with post-norm in which a step explodes", runs_with(run, POST, DEEP, "exploding"), run->seeds,
                    qkv_run_missing(run, AT(POST, DEEP)));
    qkv_claim_part(&c, "pre-norm learns more", &points, &gain);
    qkv_outcome_add_claim(o, &c, "");
}

static void claim_overflow(const qkv_run *run, qkv_outcome *o) {
    const qkv_asked less = {-INFINITY, 0, 0, "%+.3f of log n", 1};
    const qkv_estimate sharper = more(run, UNSCALED, OURS, DEEP, "start_entropy"), lost = better(run, UNSCALED, OURS, DEEP);
    qkv_outcome_claim c = {
        .row = 19, .article = "B", .says = "softmax overflow: the scale 1/sqrt(d) prevents it", .figure = "none"};
    snprintf(c.ours, sizeof c.ours,
             "without the scale, %lld layers: %.1f steps not finite, largest score %.1f at the start and %.1f at the end "
             "(with it %.1f and %.1f)",
             (long long)DEPTHS[DEEP], mean_of(run, UNSCALED, DEEP, "nonfinite"), mean_of(run, UNSCALED, DEEP, "start_score"),
             mean_of(run, UNSCALED, DEEP, "end_score"), mean_of(run, OURS, DEEP, "start_score"),
             mean_of(run, OURS, DEEP, "end_score"));
    qkv_claim_count(&c, "runs without the scale in which something overflows", runs_with(run, UNSCALED, DEEP, "nonfinite"),
                    run->seeds, qkv_run_missing(run, AT(UNSCALED, DEEP)));
    qkv_claim_part(&c, "attention starts sharper without it", &less, &sharper);
    qkv_claim_part(&c, "and accuracy is lost", &LESS_ACCURACY, &lost);
    qkv_outcome_add_claim(o, &c, "The softmax subtracts the largest score first, so no size of score can overflow it.");
}

static void claim_vanishing(const qkv_run *run, qkv_outcome *o) {
    qkv_outcome_claim c = {.row = 13, .article = "B", .says = "attention has no vanishing gradients", .figure = "0 steps an epoch"};
    const double with = runs_with(run, OURS, DEEP, "vanishing"), bare = share_of(run, BARE, DEEP, "vanishing", "looks");
    snprintf(c.ours, sizeof c.ours,
             "%lld layers, towards the first: %.0f of %lld runs have any; without residual connections %.0f %% of the looks",
             (long long)DEPTHS[DEEP], with, (long long)run->seeds, 100 * bare);
    qkv_claim_count(&c, "runs without any", (double)run->seeds - with, run->seeds, qkv_run_missing(run, AT(OURS, DEEP)));
    qkv_outcome_add_claim(o, &c, "That is along the layers; for what reaches far along a text see qkv compare gradients.");
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    for (int64_t d = 0; d < DEPTH_COUNT; d++)
        if (qkv_run_has(run, AT(QKV_ANY, d))) conclude_training(run, o, d);
    if (qkv_run_has(run, AT(QKV_ANY, QKV_ANY))) conclude_monitor(run, o);
    claim_uniform(run, o);
    claim_exploding(run, o);
    claim_overflow(run, o);
    claim_vanishing(run, o);
}

static void drop(qkv_run *run) {
    stability *s = run->self;
    qkv_dataset_free(run->ctx, &s->dataset);
}

const qkv_experiment qkv_experiment_stability = {
    .name = "stability",
    .summary = "what norms, residuals, scale and start are for",
    .self_size = sizeof(stability),
    .takes_data = true,
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
    .drop = drop,
};
