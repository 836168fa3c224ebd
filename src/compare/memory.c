/* Memory of a training step and the time that is paid for less of it: what is planned, what the process then has, for each way to
 * compute again instead of keeping. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "models/classifier.h"
#include "ops/optimizer.h"

typedef struct arm {
    const char *name;
    qkv_saving saving; /* every -1: about the square root of the layers */
    bool reversible;
} arm;

static const arm ARMS[] = {
    {"none", {0}, false},
    {"pointwise", {.again = QKV_AGAIN_POINTWISE}, false},
    {"attention", {.again = QKV_AGAIN_ATTENTION}, false},
    {"feed-forward by rows", {.ffn_rows = 512}, false},
    {"attention, feed-forward by rows", {.again = QKV_AGAIN_ATTENTION, .ffn_rows = 512}, false},
    {"sqrt", {.every = -1}, false},
    {"blocks", {.every = 1}, false},
    {"all of these", {.again = QKV_AGAIN_ATTENTION, .every = 1, .ffn_rows = 512}, false},
    {"reversible", {0}, true},
    {"reversible, feed-forward by rows", {.ffn_rows = 512}, true},
};
enum { ARM_COUNT = sizeof ARMS / sizeof *ARMS, NONE = 0, ATTENTION = 2, BLOCKS = 6, REVERSIBLE = 8 };

static const int64_t LENGTHS[] = {512, 8192};
enum { LENGTH_COUNT = 2, AT_512 = 0, AT_8192 = 1, VOCABULARY = 1000, CLASSES = 2 };

/* Places of a trial. */
enum { ARM, LENGTH, ROUND };
#define AT(arm, length) ((const int64_t[QKV_TRIAL_PLACES]){arm, length, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY})

typedef struct memory {
    int64_t layers, dim, heads, tokens, steps; /* steps that are timed, after one that is not */
} memory;

static qkv_config config_of(const memory *m, int64_t length, int64_t layers) {
    return (qkv_config){.vocab = VOCABULARY,
                        .classes = CLASSES,
                        .layers = layers,
                        .dim = m->dim,
                        .heads = m->heads,
                        .kv_heads = m->heads,
                        .head_dim = m->dim / m->heads,
                        .ffn = 4 * m->dim,
                        .max_length = length,
                        .position = QKV_POSITION_SINUSOIDAL,
                        .pooling = QKV_POOL_MEAN,
                        .norm = QKV_NORM_LAYER,
                        .activation = QKV_ACT_GELU,
                        .bias = true,
                        .span = {-1, -1},
                        .norm_epsilon = 1e-5,
                        .dropout = 0.1,
                        .attention_dropout = 0.1,
                        .embedding_dropout = 0.1};
}

static qkv_saving saving_of(const arm *a, int64_t layers) {
    qkv_saving s = a->saving;
    if (s.every < 0) s.every = (int64_t)floor(sqrt((double)layers) + 0.5);
    return s;
}

/* ---- one network and one batch ---- */

typedef struct job {
    qkv_ctx *ctx;
    qkv_classifier *net;
    qkv_exec x;
    qkv_batch batch;
    int64_t tokens, *offset;
    int32_t *ids, *target;
    uint64_t *seq_key, *row_key;
    real *weights, *grads, *m, *v;
    double *seconds;
    char bits[17]; /* of the first gradient */
} job;

static void free_job(job *j) {
    qkv_free(j->ctx, j->offset);
    qkv_free(j->ctx, j->ids);
    qkv_free(j->ctx, j->target);
    qkv_free(j->ctx, j->seq_key);
    qkv_free(j->ctx, j->row_key);
    qkv_free(j->ctx, j->weights);
    qkv_free(j->ctx, j->grads);
    qkv_free(j->ctx, j->m);
    qkv_free(j->ctx, j->v);
    qkv_free(j->ctx, j->seconds);
    qkv_arena_free(j->ctx, &j->x.arena);
    qkv_classifier_free(j->net);
}

static qkv_status make(job *j, const memory *m, int64_t length, int64_t layers, const arm *a) {
    qkv_config c = config_of(m, length, layers);
    c.reversible = a->reversible;
    QKV_TRY(qkv_classifier_create(j->ctx, &c, false, &j->net));
    qkv_classifier_set_saving(j->net, saving_of(a, layers));
    const int64_t n = m->tokens / length > 0 ? m->tokens / length : 1;
    j->tokens = n * length;
    QKV_TRY(qkv_alloc(j->ctx, n + 1, sizeof *j->offset, &j->offset));
    for (int64_t s = 0; s <= n; s++) j->offset[s] = s * length;
    j->batch = (qkv_batch){.n_seq = n, .offset = j->offset};
    return QKV_OK;
}

static qkv_status fill(job *j) {
    const int64_t n = j->batch.n_seq, length = j->offset[1];
    QKV_TRY(qkv_alloc(j->ctx, j->tokens, sizeof *j->ids, &j->ids));
    QKV_TRY(qkv_alloc(j->ctx, j->tokens, sizeof *j->row_key, &j->row_key));
    QKV_TRY(qkv_alloc(j->ctx, n, sizeof *j->seq_key, &j->seq_key));
    QKV_TRY(qkv_alloc(j->ctx, n, sizeof *j->target, &j->target));
    for (int64_t s = 0; s < n; s++) {
        j->seq_key[s] = qkv_key2(5, (uint64_t)s);
        j->target[s] = (int32_t)(s % CLASSES);
    }
    for (int64_t i = 0; i < j->tokens; i++) {
        j->ids[i] = (int32_t)qkv_below(qkv_key2(7, (uint64_t)i), VOCABULARY);
        j->row_key[i] = qkv_key2(j->seq_key[i / length], (uint64_t)(i % length));
    }
    j->batch.ids = j->ids;
    j->batch.seq_key = j->seq_key;
    j->batch.row_key = j->row_key;
    return QKV_OK;
}

static qkv_status forth_and_back(job *j) {
    double loss;
    return qkv_classifier_step(&j->x, j->net, &j->batch, j->x.plan ? NULL : j->target, 0, 1 / (double)j->batch.n_seq, &loss, NULL);
}

static qkv_status update(job *j, int64_t step) {
    const qkv_adamw_options o = {.lr = 1e-4, .embedding_lr = 1e-4, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .grad_scale = 1, .step = step};
    double norm;
    QKV_TRY(qkv_gradient_norm(&j->x, j->grads, &norm));
    return qkv_adamw_update(&j->x, &o, j->weights, j->grads, j->m, j->v);
}

/* Bytes of a step: weights, gradients and moments, activations. */
static qkv_status plan(job *j, double *arena, double *bytes) {
    const qkv_reg *reg = qkv_classifier_reg(j->net);
    j->x = (qkv_exec){.ctx = j->ctx, .plan = true, .keep = true, .train = true, .reg = reg, .seed = 3, .step = 1};
    QKV_TRY(forth_and_back(j));
    QKV_TRY(update(j, 1));
    *arena = (double)j->x.arena.peak;
    *bytes = *arena + 4.0 * (double)reg->size * sizeof(real);
    return QKV_OK;
}

static qkv_status allocate(job *j, size_t arena) {
    const qkv_reg *reg = qkv_classifier_reg(j->net);
    QKV_TRY(qkv_alloc(j->ctx, reg->size, sizeof(real), &j->weights));
    QKV_TRY(qkv_alloc(j->ctx, reg->size, sizeof(real), &j->grads));
    QKV_TRY(qkv_alloc(j->ctx, reg->size, sizeof(real), &j->m));
    QKV_TRY(qkv_alloc(j->ctx, reg->size, sizeof(real), &j->v));
    qkv_reg_init(reg, 1, j->weights);
    memset(j->m, 0, (size_t)reg->size * sizeof(real));
    memset(j->v, 0, (size_t)reg->size * sizeof(real));
    j->x = (qkv_exec){.ctx = j->ctx, .train = true, .reg = reg, .weights = j->weights, .grads = j->grads, .seed = 3};
    return qkv_arena_create(j->ctx, arena, &j->x.arena);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first step warms up and touches all that will be touched. */
static qkv_status run_steps(qkv_run *run, job *j, int64_t steps, double *median) {
    const qkv_reg *reg = qkv_classifier_reg(j->net);
    QKV_TRY(qkv_alloc(j->ctx, steps, sizeof *j->seconds, &j->seconds));
    for (int64_t s = 0; s <= steps; s++) {
        const double begun = qkv_now();
        j->x.step = (uint64_t)s + 1;
        memset(j->grads, 0, (size_t)reg->size * sizeof(real));
        QKV_TRY(forth_and_back(j));
        if (s == 0) snprintf(j->bits, sizeof j->bits, "%016llx", (unsigned long long)qkv_hash64(j->grads, (size_t)reg->size * sizeof(real), 0));
        QKV_TRY(update(j, s + 1));
        if (s > 0) j->seconds[s - 1] = qkv_now() - begun;
        qkv_run_tell(run, (double)(s + 1) / (double)(steps + 1));
    }
    qsort(j->seconds, (size_t)steps, sizeof *j->seconds, ascending);
    *median = j->seconds[steps / 2];
    return QKV_OK;
}

static void put(json_t *values, const char *name, double x) { json_object_set_new(values, name, json_real(x)); }

static double again_of(const qkv_tally *t) {
    double again = 0;
    for (int k = 0; k < QKV_CLASSES; k++) again += t->flops[QKV_PASS_RECOMPUTE][k];
    return again;
}

static qkv_status one(qkv_run *run, job *j, const memory *m, const qkv_trial *trial, json_t *values) {
    const arm *a = &ARMS[trial->at[ARM]];
    double arena, bytes, seconds;
    QKV_TRY(make(j, m, LENGTHS[trial->at[LENGTH]], m->layers, a));
    QKV_TRY(fill(j));
    QKV_TRY(plan(j, &arena, &bytes));
    const double flops = qkv_tally_flops(&j->x.tally), again = again_of(&j->x.tally);
    const int64_t before = qkv_memory_resident();
    const bool anew = qkv_memory_forget_peak();
    QKV_TRY(allocate(j, (size_t)arena));
    QKV_TRY(run_steps(run, j, m->steps, &seconds));
    const int64_t peak = qkv_memory_peak();
    put(values, "planned", bytes);
    put(values, "activations", arena);
    put(values, "program", (double)before);
    if (anew && before >= 0 && peak >= 0) put(values, "peak", (double)(peak - before));
    put(values, "seconds", seconds);
    put(values, "flops", flops);
    put(values, "again", again / (flops - again));
    put(values, "rebuilt", j->x.rebuilt);
    json_object_set_new(values, "bits", json_string(j->bits));
    return QKV_OK;
}

/* The same with twice the layers, planned alone. */
static qkv_status deeper(job *j, const memory *m, const qkv_trial *trial, json_t *values) {
    double arena, bytes;
    QKV_TRY(make(j, m, LENGTHS[trial->at[LENGTH]], 2 * m->layers, &ARMS[trial->at[ARM]]));
    QKV_TRY(plan(j, &arena, &bytes));
    put(values, "deeper", arena);
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    job j = {.ctx = run->ctx}, twice = {.ctx = run->ctx};
    qkv_status status = deeper(&twice, run->self, trial, values);
    free_job(&twice);
    if (status == QKV_OK) status = one(run, &j, run->self, trial, values);
    free_job(&j);
    if (status != QKV_NO_MEMORY) return status;
    json_object_set_new(values, "why", json_string(run->ctx->message));
    return QKV_OK;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    static const char *const positive[] = {"planned", "activations", "seconds", "flops", "deeper", NULL},
                             *const shares[] = {"again", "rebuilt", NULL}, *const own[] = {"program", NULL};
    (void)run;
    (void)trial;
    if (json_is_string(json_object_get(values, "why"))) return true;
    return qkv_values_within(values, positive, 1e-9, 1e30) && qkv_values_within(values, shares, 0, 10) &&
           qkv_values_within(values, own, -1, 1e30) && json_is_string(json_object_get(values, "bits"));
}

/* ---- the trials ---- */

static qkv_status add_trial(qkv_run *run, int64_t a, int64_t n, int64_t round) {
    const memory *m = run->self;
    qkv_trial *t;
    QKV_TRY(qkv_run_add(run, &t));
    t->at[ARM] = a, t->at[LENGTH] = n, t->at[ROUND] = round;
    t->weight = (double)m->tokens * (double)m->dim * (24 * (double)m->dim + 4.5 * (double)LENGTHS[n]);
    snprintf(t->what, sizeof t->what, "%s, n %lld, round %lld", ARMS[a].name, (long long)LENGTHS[n], (long long)round + 1);
    snprintf(t->key, sizeof t->key, "memory: %s, layers %lld, d %lld, heads %lld, n %lld, tokens %lld, steps %lld, round %lld, %s",
             ARMS[a].name, (long long)m->layers, (long long)m->dim, (long long)m->heads, (long long)LENGTHS[n], (long long)m->tokens,
             (long long)m->steps, (long long)round, run->machine);
    return QKV_OK;
}

static qkv_status prepare(qkv_run *run) {
    memory *m = run->self;
    *m = run->o->quick ? (memory){4, 64, 1, 8192, 1} : (memory){6, 512, 8, 16384, 1};
    snprintf(
        run->setting, sizeof run->setting,
        "%lld layers of d %lld, f32, dropout 0.1; batches of %lld tokens: %lld texts of 512, %lld of 8,192. A step is forward, "
        "backward and "
        "AdamW; after one that warms up %lld, in %lld rounds in which all take turns. Memory: planned, and by how much the peak "
        "of this process's resident memory lies above what it had before the memory of the steps was asked for (the program's "
        "own).",
        (long long)m->layers, (long long)m->dim, (long long)m->tokens, (long long)m->tokens / 512, (long long)m->tokens / 8192,
        (long long)m->steps, (long long)run->seeds);
    for (int64_t round = 0; round < run->seeds; round++)
        for (int64_t n = 0; n < LENGTH_COUNT; n++)
            for (int64_t a = 0; a < ARM_COUNT; a++) QKV_TRY(add_trial(run, a, n, round));
    return QKV_OK;
}

/* ---- results ---- */

/* Its time beside that of `none`, round by round. */
static qkv_estimate paid(const qkv_run *run, int64_t a, int64_t n) {
    return qkv_run_ratio(run, AT(a, n), AT(NONE, n), "seconds");
}

static double value(const qkv_run *run, int64_t a, int64_t n, const char *name) { return qkv_trial_number(qkv_run_find(run, AT(a, n)), name); }

/* Of all rounds the one that is farthest from the plan; NaN: not measured. */
static double farthest(const qkv_run *run, int64_t a, int64_t n) {
    double planned[QKV_SAMPLES], measured[QKV_SAMPLES], worst = NAN;
    const int64_t count = qkv_run_samples(run, AT(a, n), "planned", planned);
    qkv_run_samples(run, AT(a, n), "peak", measured);
    for (int64_t i = 0; i < count; i++) {
        const double off = measured[i] / planned[i] - 1;
        if (isfinite(off) && !(fabs(off) <= fabs(worst))) worst = off;
    }
    return worst;
}

static const char *bits(const qkv_run *run, int64_t a, int64_t n) {
    const qkv_trial *t = qkv_run_find(run, AT(a, n));
    return t && t->values ? json_string_value(json_object_get(t->values, "bits")) : NULL;
}

static void table_of(const qkv_run *run, int64_t n, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"again", "computed again", QKV_UNIT_TEXT},
                                                 {"planned", "planned", QKV_UNIT_BYTES},
                                                 {"peak", "peak, measured", QKV_UNIT_BYTES},
                                                 {"off", "measured beside planned", QKV_UNIT_SHARE},
                                                 {"program", "the program's own", QKV_UNIT_BYTES},
                                                 {"activations", "activations", QKV_UNIT_BYTES},
                                                 {"share", "of those of none", QKV_UNIT_SHARE},
                                                 {"seconds", "time of a step", QKV_UNIT_SECONDS},
                                                 {"paid", "times that of none", QKV_UNIT_NUMBER},
                                                 {"operations", "more operations", QKV_UNIT_SHARE},
                                                 {"deeper", "twice the layers, activations", QKV_UNIT_BYTES},
                                                 {"bits", "gradient", QKV_UNIT_TEXT}};
    if (!qkv_run_has(run, AT(QKV_ANY, n))) return;
    qkv_outcome_table(o, qkv_outcome_text(o, "memory_%lld", (long long)LENGTHS[n]), qkv_outcome_text(o, "n %s", n == AT_512 ? "512" : "8,192"),
                      "Planned: weights, gradients, moments and activations. +- is the deviation over rounds.", columns,
                      sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        if (!qkv_run_has(run, AT(a, n))) continue;
        const qkv_estimate seconds = qkv_run_mean(run, AT(a, n), "seconds", 0), times = paid(run, a, n);
        const char *own = bits(run, a, n), *none = bits(run, NONE, n);
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, ARMS[a].name);
        qkv_outcome_set(o, 1, value(run, a, n, "planned"), NAN);
        qkv_outcome_set(o, 2, value(run, a, n, "peak"), NAN);
        qkv_outcome_set(o, 3, 1 + farthest(run, a, n), NAN);
        qkv_outcome_set(o, 4, value(run, a, n, "program") < 0 ? NAN : value(run, a, n, "program"), NAN);
        qkv_outcome_set(o, 5, value(run, a, n, "activations"), NAN);
        qkv_outcome_set(o, 6, value(run, a, n, "activations") / value(run, NONE, n, "activations"), NAN);
        qkv_outcome_set_estimate(o, 7, &seconds);
        qkv_outcome_set_estimate(o, 8, &times);
        qkv_outcome_set(o, 9, value(run, a, n, "again"), NAN);
        qkv_outcome_set(o, 10, value(run, a, n, "deeper"), NAN);
        const double rebuilt = value(run, a, n, "rebuilt");
        qkv_outcome_set_text(o, 11,
                             !own || !none            ? "-"
                             : ARMS[a].reversible     ? qkv_outcome_text(o, "of another network, rebuilt to %.1e", rebuilt)
                             : strcmp(own, none) != 0 ? "other bits"
                                                      : "the same bits");
    }
}

static void chart_of(const qkv_run *run, int64_t n, qkv_outcome *o) {
    if (!qkv_run_has(run, AT(QKV_ANY, n))) return;
    qkv_outcome_chart(o, qkv_outcome_text(o, "Time by memory, n %s", n == AT_512 ? "512" : "8,192"), "activations", QKV_UNIT_BYTES, true,
                      "time of a step", QKV_UNIT_SECONDS, false);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        const qkv_estimate seconds = qkv_run_mean(run, AT(a, n), "seconds", 0);
        qkv_outcome_line(o, ARMS[a].name);
        qkv_outcome_point(o, value(run, a, n, "activations"), seconds.value, seconds.deviation);
    }
}

/* Ways whose measured memory lies within 5 % of the planned; NaN: one is not measured. */
static double within(const qkv_run *run, int64_t n) {
    double good = 0;
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        const double off = farthest(run, a, n);
        good += isnan(off) ? NAN : fabs(off) <= 0.05;
    }
    return good;
}

/* Of each way to compute again: are the bits those of none? */
static double same_bits(const qkv_run *run) {
    double good = 0;
    for (int64_t n = 0; n < LENGTH_COUNT; n++) {
        const char *none = bits(run, NONE, n);
        bool all = none != NULL;
        for (int64_t a = 0; a < REVERSIBLE; a++) {
            const char *own = bits(run, a, n);
            if (!own) return NAN;
            all = all && !strcmp(own, none);
        }
        good += all;
    }
    return good;
}

static void claim_recomputation(const qkv_run *run, qkv_outcome *o) {
    const double none = value(run, NONE, AT_512, "activations"), blocks = value(run, BLOCKS, AT_512, "activations"),
                 attention = value(run, ATTENTION, AT_512, "activations");
    const qkv_estimate time = paid(run, BLOCKS, AT_512), less = paid(run, ATTENTION, AT_512);
    qkv_outcome_claim c = {
        .row = 15, .article = "B", .says = "computing again in the backward pass makes training at length 512 cheap in memory", .figure = "none"};
    snprintf(c.ours, sizeof c.ours,
             "activations %.0f MB; blocks computed again %.0f MB (%.0f %%) for %.2f times the time; attention's part and what is pointwise alone "
             "%.0f MB (%.0f %%) for %.2f times",
             1e-6 * none, 1e-6 * blocks, 100 * blocks / none, time.value, 1e-6 * attention, 100 * attention / none, less.value);
    const qkv_asked half = {-INFINITY, 0, 0.5, "%.1f %%", 100}, third = {-INFINITY, 0, 4.0 / 3, "%.2f times", 1};
    const qkv_estimate share = qkv_estimate_exact(blocks / none);
    qkv_claim_part(&c, "blocks computed again, of the activations (by the plan) less than half", &half, &share);
    qkv_claim_part(&c, "for a third more time at most", &third, &time);
    qkv_claim_count(&c, "peaks measured within 5 % of what is planned, n 512", within(run, AT_512), ARM_COUNT, 0);
    qkv_claim_count(&c, "the same, n 8,192", within(run, AT_8192), ARM_COUNT, 0);
    qkv_claim_count(&c, "lengths at which all ways have the same bits", same_bits(run), LENGTH_COUNT, 0);
    qkv_outcome_add_claim(o, &c, "");
}

static void claim_reversible(const qkv_run *run, qkv_outcome *o) {
    const double none = value(run, NONE, AT_8192, "activations"), own = value(run, REVERSIBLE, AT_8192, "activations"),
                 deeper = value(run, REVERSIBLE, AT_8192, "deeper"), none_deeper = value(run, NONE, AT_8192, "deeper");
    const qkv_estimate time = paid(run, REVERSIBLE, AT_8192);
    qkv_outcome_claim c = {.row = 16, .article = "B", .says = "reversible layers, on long text", .figure = "none"};
    snprintf(c.ours, sizeof c.ours,
             "n 8,192: activations %.0f MB instead of %.0f MB, for %.2f times the time; with twice the layers %.0f MB instead of %.0f MB; rows "
             "rebuilt to %.1e",
             1e-6 * own, 1e-6 * none, time.value, 1e-6 * deeper, 1e-6 * none_deeper, value(run, REVERSIBLE, AT_8192, "rebuilt"));
    qkv_claim_count(&c, "less memory than where everything is kept", isnan(own / none) ? NAN : own < none, 1, 0);
    qkv_claim_count(&c, "no more with twice the layers", isnan(deeper / own) ? NAN : deeper <= own, 1, 0);
    qkv_outcome_add_claim(o, &c, "The other parts of this claim, hierarchical and sparse attention, are 'qkv compare patterns'.");
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    for (int64_t n = 0; n < LENGTH_COUNT; n++) table_of(run, n, o);
    for (int64_t n = 0; n < LENGTH_COUNT; n++) chart_of(run, n, o);
    claim_recomputation(run, o);
    claim_reversible(run, o);
}

const qkv_experiment qkv_experiment_memory = {
    .name = "memory",
    .summary = "memory of training, planned and measured, and the time paid for less of it",
    .self_size = sizeof(memory),
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
};
