/* Is the order of words visible? A network without positions gives each word of a permuted text what it gave it before; with
 * positions, a causal mask or recurrence it does not. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "compare/dataset.h"
#include "models/classifier.h"
#include "models/encoder.h"
#include "ops/reg.h"

/* Sums of the same terms in another order differ by rounding: 64 terms in f32, a few layers deep. */
static const double ROUNDING = 1e-5;

enum { WORDS = 64, VOCAB = 100, DIM = 64, HEADS = 4, LAYERS = 2, CAT = 50, EATS, FISH };

typedef struct arm {
    const char *name;
    bool encoding; /* order should be visible */
    qkv_position position;
    bool causal;
    qkv_network model;
} arm;

static const arm ARMS[] = {
    {"no positions", false, QKV_POSITION_NONE, false, QKV_NETWORK_TRANSFORMER},
    {"sinusoidal positions", true, QKV_POSITION_SINUSOIDAL, false, QKV_NETWORK_TRANSFORMER},
    {"learned positions", true, QKV_POSITION_LEARNED, false, QKV_NETWORK_TRANSFORMER},
    {"vectors by distance (Shaw)", true, QKV_POSITION_SHAW, false, QKV_NETWORK_TRANSFORMER},
    {"biases by buckets of distances (T5)", true, QKV_POSITION_T5, false, QKV_NETWORK_TRANSFORMER},
    {"biases linear in the distance (ALiBi)", true, QKV_POSITION_ALIBI, false, QKV_NETWORK_TRANSFORMER},
    {"rotary positions (RoPE)", true, QKV_POSITION_ROPE, false, QKV_NETWORK_TRANSFORMER},
    {"no positions, causal mask", true, QKV_POSITION_NONE, true, QKV_NETWORK_TRANSFORMER},
    {"RNN", true, QKV_POSITION_NONE, false, QKV_NETWORK_RNN},
    {"LSTM", true, QKV_POSITION_NONE, false, QKV_NETWORK_LSTM},
    {"GRU", true, QKV_POSITION_NONE, false, QKV_NETWORK_GRU},
};
enum { ARMS_COUNT = sizeof ARMS / sizeof *ARMS };

/* One text, as it is and permuted: row r of the second is row order[r] of the first. */
typedef struct texts {
    int64_t count, order[WORDS];
    real first[WORDS * DIM], second[WORDS * DIM];
} texts;

/* Largest difference of what belongs together, beside the largest element. */
static double rows_differ(const texts *t) {
    double most = 0, largest = 0;
    for (int64_t r = 0; r < t->count; r++)
        for (int64_t c = 0; c < DIM; c++) {
            double a = (double)t->first[t->order[r] * DIM + c], b = (double)t->second[r * DIM + c];
            most = fmax(most, fabs(a - b));
            largest = fmax(largest, fabs(a));
        }
    return largest > 0 ? most / largest : NAN;
}

/* The same of the mean over the rows: what a text is judged by. */
static double means_differ(const texts *t) {
    double most = 0, largest = 0;
    for (int64_t c = 0; c < DIM; c++) {
        double a = 0, b = 0;
        for (int64_t r = 0; r < t->count; r++) a += (double)t->first[r * DIM + c], b += (double)t->second[r * DIM + c];
        most = fmax(most, fabs(a - b));
        largest = fmax(largest, fabs(a));
    }
    return largest > 0 ? most / largest : NAN;
}

/* ---- the network ---- */

static qkv_config config_of(const arm *a) {
    const qkv_dataset read = {.vocab = VOCAB, .classes = 2, .max_length = WORDS};
    qkv_config c = qkv_recipe_config(&read, LAYERS, DIM, HEADS);
    c.model = a->model;
    c.position = a->position;
    c.pooling = QKV_POOL_MEAN;
    if (a->causal) c.span.right = 0;
    if (qkv_config_recurrent(&c)) qkv_config_settle(&c);
    return c;
}

static qkv_status pass(qkv_exec *x, const qkv_encoder *e, const int32_t *ids, int64_t count, real *to) {
    const int64_t offset[2] = {0, count};
    const qkv_batch batch = {.n_seq = 1, .offset = offset, .ids = ids};
    const qkv_frame f = qkv_frame_enter(x, false, false);
    qkv_mat out;
    qkv_status status = qkv_encoder_forward(x, e, e->net.count, &batch, &out);
    for (int64_t r = 0; status == QKV_OK && !x->plan && r < count; r++) memcpy(to + r * DIM, out.p + r * out.ld, DIM * sizeof *to);
    return qkv_frame_leave(x, f, status);
}

static qkv_status run_encoder(qkv_ctx *ctx, const qkv_encoder *e, const qkv_reg *reg, uint64_t seed, const int32_t *ids, texts *t) {
    int32_t permuted[WORDS];
    real *weights;
    qkv_exec plan = {.ctx = ctx, .plan = true, .reg = reg};
    for (int64_t r = 0; r < t->count; r++) permuted[r] = ids[t->order[r]];
    QKV_TRY(pass(&plan, e, NULL, t->count, NULL));
    QKV_TRY(qkv_alloc(ctx, reg->size, sizeof *weights, &weights));
    qkv_reg_init(reg, seed, weights);
    qkv_exec x = {.ctx = ctx, .reg = reg, .weights = weights};
    qkv_status status = qkv_arena_create(ctx, plan.arena.peak, &x.arena);
    if (status == QKV_OK) status = pass(&x, e, ids, t->count, t->first);
    if (status == QKV_OK) status = pass(&x, e, permuted, t->count, t->second);
    qkv_arena_free(ctx, &x.arena);
    qkv_free(ctx, weights);
    return status;
}

static qkv_status network(qkv_ctx *ctx, const arm *a, uint64_t seed, const int32_t *ids, texts *t) {
    const qkv_config config = config_of(a);
    qkv_reg reg = {.ctx = ctx};
    qkv_encoder e = {0};
    qkv_status status = qkv_encoder_declare(&e, &reg, &config, false);
    if (status == QKV_OK) status = run_encoder(ctx, &e, &reg, seed, ids, t);
    qkv_encoder_free(&e);
    qkv_reg_free(&reg);
    return status;
}

/* ---- the experiment ---- */

static qkv_status prepare(qkv_run *run) {
    snprintf(run->setting, sizeof run->setting,
             "Random weights, %lld of them (seeds %llu to %llu). Two texts: 'cat eats fish' and the same backwards; %d random "
             "words and a "
             "random order of them. The network has %d layers of width %d with %d heads. Equal within rounding means: no element "
             "differs "
             "by more than %g of the largest.",
             (long long)run->seeds, (unsigned long long)run->o->seed,
             (unsigned long long)run->o->seed + (unsigned long long)run->seeds - 1, WORDS, LAYERS, DIM, HEADS, ROUNDING);
    for (int64_t i = 0; i < ARMS_COUNT; i++)
        for (int64_t seed = 0; seed < run->seeds; seed++) {
            qkv_trial *t;
            QKV_TRY(qkv_run_add(run, &t));
            t->at[0] = i;
            t->at[1] = seed;
            snprintf(t->what, sizeof t->what, "%s, seed %llu", ARMS[i].name,
                     (unsigned long long)run->o->seed + (unsigned long long)seed);
            snprintf(t->key, sizeof t->key, "order: %s", t->what);
        }
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    const arm *a = &ARMS[trial->at[0]];
    const uint64_t seed = run->o->seed + (uint64_t)trial->at[1];
    int32_t ids[WORDS];
    texts *t;
    QKV_TRY(qkv_alloc_zero(run->ctx, 1, sizeof *t, &t));
    qkv_status status = QKV_OK;
    for (int shuffled = 0; status == QKV_OK && shuffled < 2; shuffled++) {
        t->count = shuffled ? WORDS : 3;
        for (int64_t r = 0; r < t->count; r++) {
            ids[r] = shuffled ? (int32_t)qkv_below(qkv_key3(seed, 3, (uint64_t)r), VOCAB) : CAT + (int32_t)r;
            t->order[r] = t->count - 1 - r;
        }
        if (shuffled) qkv_shuffle(qkv_key2(seed, 4), t->count, t->order);
        status = network(run->ctx, a, seed, ids, t);
        json_object_set_new(values, shuffled ? "rows" : "words", json_real(rows_differ(t)));
        json_object_set_new(values, shuffled ? "mean" : "text", json_real(means_differ(t)));
    }
    qkv_free(run->ctx, t);
    return status;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    static const char *const names[] = {"words", "text", "rows", "mean", NULL};
    (void)run;
    (void)trial;
    return qkv_values_within(values, names, 0, 1e30);
}

/* The largest over the seeds that are done; NaN: none is. */
static double largest(const qkv_run *run, int64_t a, const char *name) {
    const int64_t at[QKV_TRIAL_PLACES] = {a, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY};
    double of[QKV_SAMPLES], most = NAN;
    const int64_t n = qkv_run_samples(run, at, name, of);
    for (int64_t i = 0; i < n; i++) most = fmax(most, of[i]); /* which passes over what is no number */
    return most;
}

static double least(const qkv_run *run, int64_t a, const char *name) {
    const int64_t at[QKV_TRIAL_PLACES] = {a, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY};
    double of[QKV_SAMPLES], low = NAN;
    const int64_t n = qkv_run_samples(run, at, name, of);
    for (int64_t i = 0; i < n; i++) low = fmin(low, of[i]);
    return low;
}

static void conclude_table(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {
        {"arm", "what sees the text", QKV_UNIT_TEXT}, {"words", "'cat eats fish' backwards: words", QKV_UNIT_NUMBER},
        {"text", "the text", QKV_UNIT_NUMBER},        {"rows", "random order: words", QKV_UNIT_NUMBER},
        {"mean", "the text", QKV_UNIT_NUMBER},        {"order", "order", QKV_UNIT_TEXT}};
    qkv_outcome_table(
        o, "order", "What changes when the words change places",
        "Largest difference over the seeds, beside the largest element: of what each word has become, and of the mean over "
        "the words. Biases by distance on both sides alike (ALiBi) see a text and its mirror image alike, as the distances are the same.",
        columns, sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < ARMS_COUNT; a++) {
        const double rows = largest(run, a, "rows");
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, ARMS[a].name);
        for (int64_t c = 1; c <= 4; c++) qkv_outcome_set(o, c, largest(run, a, columns[c].key), NAN);
        qkv_outcome_set_text(o, 5, isnan(rows) ? "" : rows <= ROUNDING ? "invisible" : "visible");
    }
}

/* Arms with (or without) an encoding, and those of them that did as they should in every seed; NaN: some are not measured at all. */
static double as_said(const qkv_run *run, bool encoding, int64_t *arms, int64_t *missing) {
    double count = 0;
    *arms = *missing = 0;
    for (int64_t a = 0; a < ARMS_COUNT; a++) {
        if (ARMS[a].encoding != encoding) continue;
        const double worst = encoding ? least(run, a, "rows") : fmax(largest(run, a, "rows"), largest(run, a, "text"));
        ++*arms;
        *missing += qkv_run_missing(run, (const int64_t[QKV_TRIAL_PLACES]){a, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY});
        if (isnan(worst)) count = NAN;
        count += encoding ? worst > ROUNDING : worst <= ROUNDING;
    }
    return count;
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    int64_t without, with, no_same, no_differ;
    const double same = as_said(run, false, &without, &no_same), differ = as_said(run, true, &with, &no_differ);
    qkv_outcome_claim c = {.row = 8,
                           .article = "A",
                           .says = "without positions the order of words is invisible: 'cat eats fish' is 'fish eats cat'",
                           .figure = "equal outputs"};
    if (run->done > 0) conclude_table(run, o);
    snprintf(c.ours, sizeof c.ours,
             "largest difference, beside the largest element: %.1e without positions, %.2f with learned ones",
             fmax(largest(run, 0, "rows"), largest(run, 0, "text")), largest(run, 2, "rows"));
    qkv_claim_count(&c, "without positions equal within rounding", same, without, no_same);
    qkv_claim_count(&c, "with positions, a causal mask or recurrence different", differ, with, no_differ);
    qkv_outcome_add_claim(o, &c, "");
}

const qkv_experiment qkv_experiment_order = {
    .name = "order",
    .summary = "without positions the order of words is invisible; with each encoding it is not",
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
};
