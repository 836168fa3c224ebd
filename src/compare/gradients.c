/* How far gradients reach: their norm by layer and by distance from the row that is judged, the last one, at the start and while a
 * network learns to recall. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/dataset.h"
#include "data/recall.h"

/* A step counts as exploding where the norm of the whole gradient, before clipping, is beyond EXPLODED or no number; as vanishing
 * where the gradient of the farthest quarter of the rows is less than this share of that of the nearest quarter, the judged row
 * aside (root mean squares). */
static const double VANISHED = 1e-3, EXPLODED = 10;

typedef struct arm {
    const char *name;
    qkv_network model;
    bool forgets; /* the biases of the forget gates start with 0 instead of 1: at first half of the state is gone each step */
} arm;

static const arm ARMS[] = {{"attention", QKV_NETWORK_TRANSFORMER, false},
                           {"RNN", QKV_NETWORK_RNN, false},
                           {"LSTM", QKV_NETWORK_LSTM, false},
                           {"LSTM, forget bias 0", QKV_NETWORK_LSTM, true},
                           {"GRU", QKV_NETWORK_GRU, false}};
enum { ARM_COUNT = sizeof ARMS / sizeof *ARMS, ATTENTION = 0, RNN = 1, LSTM = 2, LSTM_0 = 3, GRU = 4 };

/* Places of a trial. */
enum { ARM, TURN };
#define AT(arm) ((const int64_t[QKV_TRIAL_PLACES]){arm, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY})

enum { STRETCHES = 16, LAYERS = 2, PROBED = 16 };

typedef struct gradients {
    qkv_dataset dataset;
    int64_t n, steps, every; /* rows of a text; a step of so many is looked at */
} gradients;

static qkv_status prepare(qkv_run *run) {
    gradients *g = run->self;
    const bool quick = run->o->quick;
    g->n = quick ? 64 : 128;
    g->steps = quick ? 80 : 400;
    g->every = 10;
    const qkv_recall task = {.keys = 8, .values = 8, .filler = 32, .pairs = 3, .shortest = g->n, .longest = g->n};
    g->dataset = (qkv_dataset){.name = "recall", .vocab = qkv_recall_vocab(&task), .classes = task.values, .max_length = g->n};
    snprintf(run->setting, sizeof run->setting,
             "%d layers of width 64, judged by the last row; recall of one of %lld pairs that stand in the farthest quarter "
             "of %lld tokens; %lld steps of 4096 tokens, "
             "each %lldth looked at, gradients clipped to a norm of 1, seeds %llu to %llu. The gradient of a row is that of what "
             "stands at "
             "this time step, and is told for %d stretches of %lld rows each. Vanishing: it is in the farthest quarter of the rows "
             "below %g of "
             "what it is in the nearest. Exploding: the norm of the whole gradient is beyond %g before clipping, or no number.",
             LAYERS, (long long)task.pairs, (long long)g->n, (long long)g->steps, (long long)g->every,
             (unsigned long long)run->o->seed, (unsigned long long)run->o->seed + (unsigned long long)run->seeds - 1, STRETCHES,
             (long long)(g->n / STRETCHES), VANISHED, EXPLODED);
    for (int64_t seed = 0; seed < run->seeds; seed++)
        for (int64_t a = 0; a < ARM_COUNT; a++) {
            qkv_trial *t;
            QKV_TRY(qkv_run_add(run, &t));
            t->at[ARM] = a, t->at[TURN] = seed;
            t->weight = a >= LSTM ? 2 : 1;
            snprintf(t->what, sizeof t->what, "%s, seed %llu", ARMS[a].name,
                     (unsigned long long)run->o->seed + (unsigned long long)seed);
            snprintf(t->key, sizeof t->key, "gradients by the last row: n %lld, steps %lld, %s", (long long)g->n,
                     (long long)g->steps, t->what);
        }
    QKV_TRY(qkv_recall_make(run->ctx, &task, 1, 0, g->steps * 4096 / g->n, &g->dataset.train));
    return qkv_recall_make(run->ctx, &task, 2, 0, 500, &g->dataset.test);
}

/* ---- looking at gradients ---- */

typedef struct look {
    double stretch[STRETCHES]; /* root mean square over rows, by distance */
    double layer[LAYERS];      /* norm of the parameters' gradient */
    double near, far;
} look;

/* A twin of the network in which every row of the probed batch has a token of its own, so that the gradient of the token table is
 * that of the rows. */
typedef struct probe {
    qkv_run *run;
    const gradients *g;
    json_t *values;
    qkv_classifier *twin;
    qkv_batch batch;
    int64_t offset[PROBED + 1];
    int32_t *ids;
    real *weights, *grads;
    qkv_arena arena;
    size_t peak;
    int64_t looks, vanished, exploded, counted, nonfinite;
} probe;

static qkv_status probe_make(probe *p, qkv_config config) {
    qkv_ctx *ctx = p->run->ctx;
    const int64_t rows = PROBED * p->g->n;
    double loss;
    config.vocab = rows;
    QKV_TRY(qkv_classifier_create(ctx, &config, false, &p->twin));
    const qkv_reg *reg = qkv_classifier_reg(p->twin);
    QKV_TRY(qkv_alloc(ctx, rows, sizeof *p->ids, &p->ids));
    QKV_TRY(qkv_alloc(ctx, reg->size, sizeof *p->weights, &p->weights));
    QKV_TRY(qkv_alloc(ctx, reg->size, sizeof *p->grads, &p->grads));
    for (int64_t r = 0; r < rows; r++) p->ids[r] = (int32_t)r;
    for (int64_t s = 0; s <= PROBED; s++) p->offset[s] = s * p->g->n;
    p->batch = (qkv_batch){.n_seq = PROBED, .offset = p->offset, .ids = p->ids};
    qkv_exec plan = {.ctx = ctx, .plan = true, .reg = reg};
    QKV_TRY(qkv_classifier_step(&plan, p->twin, &p->batch, NULL, 0, 1.0 / PROBED, &loss, NULL));
    return qkv_arena_create(ctx, plan.arena.peak, &p->arena);
}

static void probe_free(probe *p) {
    qkv_ctx *ctx = p->run->ctx;
    qkv_arena_free(ctx, &p->arena);
    qkv_free(ctx, p->ids);
    qkv_free(ctx, p->weights);
    qkv_free(ctx, p->grads);
    qkv_classifier_free(p->twin);
}

/* The first parameter of every network is the token table; the others are the same in both. */
static void probe_copy(probe *p, const qkv_classifier *net, const real *weights) {
    const qkv_reg *to = qkv_classifier_reg(p->twin), *from = qkv_classifier_reg(net);
    const qkv_param *table = &to->params[0];
    memset(p->grads, 0, (size_t)to->size * sizeof *p->grads);
    for (int64_t r = 0; r < table->rows; r++)
        memcpy(p->weights + table->offset + r * table->cols,
               weights + from->params[0].offset + p->g->dataset.test.ids[r] * table->cols, (size_t)table->cols * sizeof *weights);
    for (int64_t i = 1; i < to->count; i++)
        memcpy(p->weights + to->params[i].offset, weights + from->params[i].offset,
               (size_t)(to->params[i].rows * to->params[i].cols) * sizeof *weights);
}

static double squares(const real *p, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)p[i] * (double)p[i];
    return sum;
}

static void read_gradients(const probe *p, look *l) {
    const qkv_reg *reg = qkv_classifier_reg(p->twin);
    const qkv_param *table = &reg->params[0];
    const int64_t n = p->g->n;
    double near = 0, far = 0, count[STRETCHES] = {0};
    *l = (look){0};
    for (int64_t s = 0; s < PROBED; s++)
        for (int64_t r = 0; r < n; r++) {
            const double q = squares(p->grads + table->offset + (s * n + r) * table->cols, table->cols);
            const int64_t away = n - 1 - r;
            l->stretch[away * STRETCHES / n] += q;
            count[away * STRETCHES / n]++;
            if (away > 0 && away <= n / 4) near += q;
            if (away >= n - n / 4) far += q;
        }
    for (int i = 0; i < STRETCHES; i++) l->stretch[i] = sqrt(l->stretch[i] / count[i]) * PROBED;
    l->near = sqrt(near), l->far = sqrt(far);
    for (int64_t i = 1; i < reg->count; i++)
        for (int k = 0; k < LAYERS; k++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "encoder.%d.", k);
            if (strncmp(reg->params[i].name, prefix, strlen(prefix)) == 0)
                l->layer[k] += squares(p->grads + reg->params[i].offset, reg->params[i].rows * reg->params[i].cols);
        }
    for (int k = 0; k < LAYERS; k++) l->layer[k] = sqrt(l->layer[k]);
}

static qkv_status probe_look(probe *p, const qkv_classifier *net, const real *weights, look *l) {
    double loss;
    probe_copy(p, net, weights);
    qkv_exec x = {.ctx = p->run->ctx,
                  .reg = qkv_classifier_reg(p->twin),
                  .weights = p->weights,
                  .grads = p->grads,
                  .arena = p->arena,
                  .seed = 1};
    qkv_status status = qkv_classifier_step(&x, p->twin, &p->batch, p->g->dataset.test.target, 0, 1.0 / PROBED, &loss, NULL);
    if (status == QKV_OK) read_gradients(p, l);
    return status;
}

static void put(json_t *values, const char *when, const char *what, int i, double x) {
    char name[40];
    snprintf(name, sizeof name, "%s_%s_%d", when, what, i);
    if (isfinite(x)) json_object_set_new(values, name, json_real(x));
}

static void keep(const look *l, const char *when, json_t *values) {
    for (int i = 0; i < STRETCHES; i++) put(values, when, "stretch", i, l->stretch[i]);
    for (int i = 0; i < LAYERS; i++) put(values, when, "layer", i, l->layer[i]);
    put(values, when, "reach", 0, l->near > 0 ? l->far / l->near : l->near == 0 ? 0 : NAN);
}

static qkv_status watch(void *user, const qkv_classifier *net, const real *weights, int64_t step, double norm) {
    probe *p = user;
    look l;
    p->counted++;
    p->exploded += !(norm <= EXPLODED);
    if (step % p->g->every != 0) return QKV_OK;
    QKV_TRY(probe_look(p, net, weights, &l));
    p->looks++;
    const bool number = isfinite(l.near) && isfinite(l.far);
    p->nonfinite += !number;
    p->vanished += number && (l.far < VANISHED * l.near || l.near == 0);
    if (step >= p->g->steps - p->g->every + 1) keep(&l, "end", p->values);
    return QKV_OK;
}

/* ---- trials ---- */

static qkv_config config_of(const gradients *g, const arm *a) {
    qkv_config c = qkv_recipe_config(&g->dataset, LAYERS, 64, 4);
    c.model = a->model;
    c.pooling = QKV_POOL_LAST;
    c.forget_given = a->forgets;
    if (qkv_config_recurrent(&c)) qkv_config_settle(&c);
    return c;
}

/* With the weights that training starts from. */
static qkv_status look_at_start(probe *p, const qkv_config *config, uint64_t seed) {
    qkv_ctx *ctx = p->run->ctx;
    qkv_classifier *net;
    real *weights = NULL;
    look l;
    QKV_TRY(qkv_classifier_create(ctx, config, false, &net));
    qkv_status status = qkv_alloc(ctx, qkv_classifier_reg(net)->size, sizeof *weights, &weights);
    if (status == QKV_OK) {
        qkv_reg_init(qkv_classifier_reg(net), seed, weights);
        status = probe_look(p, net, weights, &l);
    }
    if (status == QKV_OK) keep(&l, "start", p->values);
    qkv_free(ctx, weights);
    qkv_classifier_free(net);
    return status;
}

static qkv_status train(probe *p, const qkv_config *config, uint64_t seed) {
    const gradients *g = p->g;
    const qkv_recipe recipe = {.config = *config,
                               .steps = g->steps,
                               .batch_tokens = 4096,
                               .lr = 1e-3,
                               .clip = 1,
                               .seed = seed,
                               .watch = watch,
                               .watch_user = p};
    qkv_learned learned;
    QKV_TRY(qkv_recipe_train(p->run, &g->dataset, &recipe, &learned));
    qkv_learned_json(&learned, &g->dataset, p->values);
    qkv_learned_free(p->run->ctx, &learned);
    json_object_set_new(p->values, "looks", json_real((double)p->looks));
    json_object_set_new(p->values, "vanished", json_real((double)p->vanished));
    json_object_set_new(p->values, "nonfinite", json_real((double)p->nonfinite));
    json_object_set_new(p->values, "counted", json_real((double)p->counted));
    json_object_set_new(p->values, "exploded", json_real((double)p->exploded));
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    probe p = {.run = run, .g = run->self, .values = values};
    const qkv_config config = config_of(p.g, &ARMS[trial->at[ARM]]);
    const uint64_t seed = run->o->seed + (uint64_t)trial->at[TURN];
    qkv_status status = probe_make(&p, config);
    if (status == QKV_OK) status = look_at_start(&p, &config, seed);
    if (status == QKV_OK) status = train(&p, &config, seed);
    probe_free(&p);
    return status;
}

/* A look that came to no number has none, where that is counted. */
static bool has(const json_t *values, const char *when, const char *what, int count) {
    const bool nonfinite = json_number_value(json_object_get(values, "nonfinite")) > 0;
    char name[40];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s_%s_%d", when, what, i);
        if (nonfinite && !json_object_get(values, name)) continue;
        if (!qkv_values_within(values, (const char *const[]){name, NULL}, 0, 1e30)) return false;
    }
    return true;
}

static bool has_look(const json_t *values, const char *when) {
    return has(values, when, "stretch", STRETCHES) && has(values, when, "layer", LAYERS) && has(values, when, "reach", 1);
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    static const char *const counts[] = {"looks", "vanished", "nonfinite", "counted", "exploded", NULL};
    const gradients *g = run->self;
    (void)trial;
    if (!qkv_learned_whole(values, &g->dataset) || !json_object_get(values, "right") ||
        !qkv_values_within(values, counts, 0, (double)g->steps))
        return false;
    return has_look(values, "start") && (json_number_value(json_object_get(values, "diverged")) > 0 || has_look(values, "end"));
}

/* ---- results ---- */

static double mean_of(const qkv_run *run, int64_t a, const char *when, const char *what, int i) {
    char name[40];
    snprintf(name, sizeof name, "%s_%s_%d", when, what, i);
    return qkv_run_mean(run, AT(a), name, 0).value;
}

/* Of all of `among`, the share of which it is true: training by training. */
static qkv_estimate share_of(const qkv_run *run, int64_t a, const char *name, const char *among) {
    double part[QKV_SAMPLES], all[QKV_SAMPLES];
    const int64_t n = qkv_run_samples(run, AT(a), name, part);
    qkv_run_samples(run, AT(a), among, all);
    for (int64_t i = 0; i < n; i++) part[i] /= all[i];
    return qkv_estimate_mean(part, n, 0);
}

static void conclude_table(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"arm", "network", QKV_UNIT_TEXT},
                                                 {"start_reach", "start: far / near", QKV_UNIT_NUMBER},
                                                 {"end_reach", "end: far / near", QKV_UNIT_NUMBER},
                                                 {"start_layer_0", "start: layer 0", QKV_UNIT_NUMBER},
                                                 {"start_layer_1", "layer 1", QKV_UNIT_NUMBER},
                                                 {"end_layer_0", "end: layer 0", QKV_UNIT_NUMBER},
                                                 {"end_layer_1", "layer 1", QKV_UNIT_NUMBER},
                                                 {"vanishing", "steps vanishing", QKV_UNIT_SHARE},
                                                 {"exploding", "exploding", QKV_UNIT_SHARE},
                                                 {"accuracy", "accuracy", QKV_UNIT_SHARE},
                                                 {"diverged", "diverged", QKV_UNIT_COUNT}};
    qkv_outcome_table(
        o, "gradients", "Gradients by network",
        "far / near: root mean square of the gradient of the rows in the farthest quarter beside that of the nearest. Layers: norm "
        "of the gradient of the parameters. Exploding is what is no number, too; a training that diverged has nothing at the end, "
        "and counts "
        "as one that always gives the most frequent class. Means over the seeds, +- their deviation.",
        columns, sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        const qkv_estimate accuracy = qkv_run_mean(run, AT(a), "accuracy", 0), vanishing = share_of(run, a, "vanished", "looks"),
                           exploding = share_of(run, a, "exploded", "counted");
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, ARMS[a].name);
        for (int k = 0; k < 2; k++) {
            const char *when = k ? "end" : "start";
            qkv_outcome_set(o, 1 + k, mean_of(run, a, when, "reach", 0), NAN);
            for (int i = 0; i < LAYERS; i++) qkv_outcome_set(o, 3 + 2 * k + i, mean_of(run, a, when, "layer", i), NAN);
        }
        qkv_outcome_set_estimate(o, 7, &vanishing);
        qkv_outcome_set_estimate(o, 8, &exploding);
        qkv_outcome_set_estimate(o, 9, &accuracy);
        qkv_outcome_set(o, 10, qkv_run_count(run, AT(a), "diverged"), NAN);
    }
}

static void conclude_distances(const qkv_run *run, qkv_outcome *o) {
    static const char *const when[] = {"start", "end"};
    static const qkv_compare_column columns[] = {{"network", "network", QKV_UNIT_TEXT},
                                                 {"distance", "distance from the judged row", QKV_UNIT_TEXT},
                                                 {"start", "at the start", QKV_UNIT_NUMBER},
                                                 {"end", "at the end", QKV_UNIT_NUMBER}};
    const gradients *g = run->self;
    qkv_outcome_table(o, "distances", "Gradient of a row by its distance",
                      "Root mean square over the rows of a stretch of that many time steps, mean over the seeds.", columns,
                      sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < ARM_COUNT; a++)
        for (int i = 0; i < STRETCHES; i++) {
            qkv_outcome_row(o);
            qkv_outcome_set_text(o, 0, ARMS[a].name);
            qkv_outcome_set_text(o, 1,
                                 qkv_outcome_text(o, "%lld to %lld", (long long)(i * g->n / STRETCHES),
                                                  (long long)((i + 1) * g->n / STRETCHES - 1)));
            for (int k = 0; k < 2; k++) qkv_outcome_set(o, 2 + k, mean_of(run, a, when[k], "stretch", i), NAN);
        }
    for (int k = 0; k < 2; k++) {
        qkv_outcome_chart(o, qkv_outcome_text(o, "Gradient of a row by its distance, at the %s", when[k]),
                          "distance from the judged row", QKV_UNIT_COUNT, false, "norm", QKV_UNIT_NUMBER, true);
        for (int64_t a = 0; a < ARM_COUNT; a++) {
            qkv_outcome_line(o, ARMS[a].name);
            for (int i = 0; i < STRETCHES; i++)
                qkv_outcome_point(o, ((double)i + 0.5) * (double)g->n / STRETCHES, mean_of(run, a, when[k], "stretch", i), NAN);
        }
    }
}

/* Trainings in which gradients vanish, or in which none does; one that diverged before it was looked at is neither. NaN: not all
 * are there. */
static double trainings(const qkv_run *run, int64_t a, bool some) {
    double of[QKV_SAMPLES], looks[QKV_SAMPLES], count = 0;
    const int64_t n = qkv_run_samples(run, AT(a), "vanished", of);
    qkv_run_samples(run, AT(a), "looks", looks);
    for (int64_t i = 0; i < n; i++) count += isnan(of[i]) ? NAN : looks[i] > 0 && (of[i] > 0) == some;
    return count;
}

static void claim(const qkv_run *run, qkv_outcome *o) {
    double share[ARM_COUNT];
    for (int64_t a = 0; a < ARM_COUNT; a++) share[a] = 100 * share_of(run, a, "vanished", "looks").value;
    qkv_outcome_claim c = {
        .row = 13, .article = "B", .says = "vanishing gradients while training, LSTM and attention", .figure = "17 an epoch and 0"};
    snprintf(c.ours, sizeof c.ours,
             "of the steps looked at: LSTM %.0f %% (forget bias 0: %.0f %%), GRU %.0f %%, RNN %.0f %%, attention %.0f %%",
             share[LSTM], share[LSTM_0], share[GRU], share[RNN], share[ATTENTION]);
    qkv_claim_count(&c, "trainings of attention in which none vanish", trainings(run, ATTENTION, false), run->seeds,
                    qkv_run_missing(run, AT(ATTENTION)));
    qkv_claim_count(&c, "trainings of the LSTM in which some do", trainings(run, LSTM, true), run->seeds,
                    qkv_run_missing(run, AT(LSTM)));
    qkv_claim_count(&c, "trainings of the LSTM with a forget bias of 0 in which some do", trainings(run, LSTM_0, true), run->seeds,
                    qkv_run_missing(run, AT(LSTM_0)));
    qkv_outcome_add_claim(o, &c, "The claim does not say what it counts; ours is by the thresholds above, on recall.");
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    if (qkv_run_has(run, AT(QKV_ANY))) {
        conclude_table(run, o);
        conclude_distances(run, o);
    }
    claim(run, o);
}

static void drop(qkv_run *run) {
    gradients *g = run->self;
    qkv_dataset_free(run->ctx, &g->dataset);
}

const qkv_experiment qkv_experiment_gradients = {
    .name = "gradients",
    .summary = "how far gradients reach in attention, RNN, LSTM and GRU, by layer and by stretches of the text",
    .self_size = sizeof(gradients),
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
    .drop = drop,
};
