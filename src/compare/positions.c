/* What each encoding of places is worth beyond the lengths that a network learned from: trained on short texts once, asked about
 * longer ones in every way that the encoding allows. */
#include "compare/positions.h"

#include <stdio.h>
#include <string.h>

#include "compare/list.h"
#include "compare/reading.h"
#include "data/places.h"

static const struct trained {
    const char *name;
    qkv_position position;
} TRAINED[QKV_TRAINED_COUNT] = {[QKV_TRAINED_NONE] = {"no positions", QKV_POSITION_NONE},
                                [QKV_TRAINED_SINUSOIDAL] = {"sinusoidal", QKV_POSITION_SINUSOIDAL},
                                [QKV_TRAINED_LEARNED] = {"learned", QKV_POSITION_LEARNED},
                                [QKV_TRAINED_SHAW] = {"Shaw", QKV_POSITION_SHAW},
                                [QKV_TRAINED_T5] = {"T5", QKV_POSITION_T5},
                                [QKV_TRAINED_ALIBI] = {"ALiBi", QKV_POSITION_ALIBI},
                                [QKV_TRAINED_ROPE] = {"RoPE", QKV_POSITION_ROPE}};

const qkv_placed QKV_PLACED[QKV_PLACED_COUNT] = {
    [QKV_PLACED_NONE] = {"no positions", "right_none", QKV_TRAINED_NONE, 0, 0},
    [QKV_PLACED_SINUSOIDAL] = {"sinusoidal", "right_sinusoidal", QKV_TRAINED_SINUSOIDAL, 0, 0},
    [QKV_PLACED_UNTRAINED] = {"learned, untrained rows", "right_untrained", QKV_TRAINED_LEARNED, QKV_BEYOND_ERROR, 0},
    [QKV_PLACED_CLAMP] = {"learned, last row", "right_clamp", QKV_TRAINED_LEARNED, QKV_BEYOND_CLAMP, 0},
    [QKV_PLACED_TILE] = {"learned, tiled", "right_tile", QKV_TRAINED_LEARNED, QKV_BEYOND_TILE, 0},
    [QKV_PLACED_INTERPOLATE] = {"learned, interpolated", "right_interpolate", QKV_TRAINED_LEARNED, QKV_BEYOND_INTERPOLATE, 0},
    [QKV_PLACED_SHAW] = {"Shaw", "right_shaw", QKV_TRAINED_SHAW, 0, 0},
    [QKV_PLACED_T5] = {"T5", "right_t5", QKV_TRAINED_T5, 0, 0},
    [QKV_PLACED_ALIBI] = {"ALiBi", "right_alibi", QKV_TRAINED_ALIBI, 0, 0},
    [QKV_PLACED_ROPE] = {"RoPE", "right_rope", QKV_TRAINED_ROPE, 0, QKV_STRETCH_NONE},
    [QKV_PLACED_ROPE_LINEAR] = {"RoPE, interpolated", "right_rope_linear", QKV_TRAINED_ROPE, 0, QKV_STRETCH_LINEAR},
    [QKV_PLACED_ROPE_NTK] = {"RoPE, NTK", "right_rope_ntk", QKV_TRAINED_ROPE, 0, QKV_STRETCH_NTK},
    [QKV_PLACED_ROPE_YARN] = {"RoPE, YaRN", "right_rope_yarn", QKV_TRAINED_ROPE, 0, QKV_STRETCH_YARN}};

/* ---- tasks ---- */

static qkv_status make_places(qkv_run *run, qkv_places_kind kind, qkv_positions_task *t) {
    const bool quick = run->o->quick;
    const int64_t learned = quick ? 64 : 512, rows = quick ? 200 : 500;
    qkv_places p = {.kind = kind, .filler = 8, .reach = 8, .shortest = quick ? 20 : 64, .longest = learned};
    t->name = kind == QKV_PLACES_NEAR ? "near" : "order";
    t->steps = quick ? 500 : 1500;
    t->batch_tokens = quick ? 1024 : 8192;
    t->lr = 5e-3;
    t->pooling = QKV_POOL_MAX;
    t->dataset = (qkv_dataset){.vocab = qkv_places_vocab(&p), .classes = QKV_PLACES_CLASSES, .max_length = learned};
    snprintf(t->dataset.name, sizeof t->dataset.name, "%s, learned from texts of %lld to %lld tokens",
             kind == QKV_PLACES_NEAR ? "do two tokens stand within 8 of each other" : "which of two tokens stands first",
             (long long)p.shortest, (long long)p.longest);
    QKV_TRY(qkv_places_make(run->ctx, &p, 1, 0, 2 * t->steps * t->batch_tokens / (p.shortest + p.longest), &t->dataset.train));
    QKV_TRY(qkv_places_make(run->ctx, &p, 2, 0, 0, &t->dataset.test));
    QKV_TRY(qkv_places_make(run->ctx, &p, 2, 0, 0, &t->asked));
    for (int k = 0; k < QKV_POSITIONS_LENGTHS; k++) {
        qkv_ragged more;
        p.shortest = p.longest = learned << k;
        t->at[k] = (qkv_lengths){learned << k, learned << k};
        QKV_TRY(qkv_places_make(run->ctx, &p, 3 + (uint64_t)k, 0, rows, &more));
        const qkv_status status = qkv_ragged_append(run->ctx, &t->asked, &more);
        qkv_ragged_free(run->ctx, &more);
        QKV_TRY(status);
    }
    return QKV_OK;
}

/* Learns from the shorter texts. All longer ones are new to it, held out or not. */
static qkv_status read_data(qkv_run *run, qkv_positions_task *t) {
    const bool quick = run->o->quick;
    const int64_t learned = quick ? 128 : 512;
    qkv_dataset *l = &t->dataset;
    t->name = "texts";
    QKV_TRY(qkv_dataset_read(run->ctx, run->o->data, learned << QKV_POSITIONS_LENGTHS, l));
    l->max_length = learned;
    t->asked = l->test;
    l->test = (qkv_ragged){0};
    QKV_TRY(qkv_ragged_append(run->ctx, &t->asked, &l->train));
    /* of the rows that were just put behind, only the longer ones stay */
    const int64_t held_out = t->asked.count - l->train.count;
    int64_t rows = held_out, to = t->asked.offset[held_out];
    for (int64_t i = held_out; i < t->asked.count; i++) {
        const int64_t from = t->asked.offset[i], n = t->asked.offset[i + 1] - from;
        if (n <= learned) continue;
        memmove(t->asked.ids + to, t->asked.ids + from, (size_t)n * sizeof *t->asked.ids);
        t->asked.target[rows] = t->asked.target[i];
        t->asked.offset[rows++] = to; /* never beyond what is still to be read */
        to += n;
    }
    t->asked.offset[rows] = to;
    t->asked.count = rows;
    qkv_ragged_between(&l->train, 0, learned);
    QKV_TRY(qkv_places_make(run->ctx, &(qkv_places){.filler = 1, .shortest = 2, .longest = 2}, 1, 0, 0, &l->test));
    for (int k = 0; k < QKV_POSITIONS_LENGTHS; k++) t->at[k] = (qkv_lengths){(learned << k) / 2 + 1, learned << k};
    t->batch_tokens = 8192;
    t->lr = 5e-4;
    t->pooling = QKV_POOL_ATTENTION;
    const int64_t batches = l->train.offset[l->train.count] / t->batch_tokens + 1, most = quick ? 40 : 2000;
    t->steps = 4 * batches < most ? 4 * batches : most;
    const size_t used = strlen(l->name);
    snprintf(l->name + used, sizeof l->name - used, ", learned from those of up to %lld tokens", (long long)learned);
    return QKV_OK;
}

static qkv_status make_tasks(qkv_run *run, qkv_positions *p) {
    p->count = run->o->data ? 1 : 2;
    p->layers = run->o->data ? 2 : 1;
    p->dim = 64;
    if (run->o->data) return read_data(run, &p->tasks[0]);
    QKV_TRY(make_places(run, QKV_PLACES_ORDER, &p->tasks[0]));
    return make_places(run, QKV_PLACES_NEAR, &p->tasks[1]);
}

/* ---- trials ---- */

static qkv_status add_trial(qkv_run *run, int64_t k, int64_t of, int64_t seed) {
    const qkv_positions *p = run->self;
    const qkv_positions_task *s = &p->tasks[k];
    const unsigned long long number = run->o->seed + (unsigned long long)seed;
    qkv_trial *t;
    QKV_TRY(qkv_run_add(run, &t));
    t->at[QKV_POSITIONS_TASK] = k, t->at[QKV_POSITIONS_OF] = of, t->at[QKV_POSITIONS_TURN] = seed;
    t->weight = of == QKV_TRAINED_SHAW ? 2 : of == QKV_TRAINED_LEARNED || of == QKV_TRAINED_ROPE ? 1.4 : 1;
    snprintf(t->what, sizeof t->what, "%s, %s, seed %llu", s->name, TRAINED[of].name, number);
    snprintf(t->key, sizeof t->key, "positions: %s, %lld x %lld, steps %lld of %lld, rate %g, %s, seed %llu",
             qkv_name_in_key(s->dataset.name, 170).s, (long long)p->layers, (long long)p->dim, (long long)s->steps,
             (long long)s->batch_tokens, s->lr, TRAINED[of].name, number);
    return QKV_OK;
}

static qkv_status prepare(qkv_run *run) {
    qkv_positions *p = run->self;
    QKV_TRY(make_tasks(run, p));
    int used = snprintf(run->setting, sizeof run->setting, "Transformer of %lld layer%s, width %lld, 4 heads, seeds %llu to %llu.",
                        (long long)p->layers, p->layers == 1 ? "" : "s", (long long)p->dim, (unsigned long long)run->o->seed,
                        (unsigned long long)run->o->seed + (unsigned long long)run->seeds - 1);
    for (int64_t k = 0; k < p->count && used < (int)sizeof run->setting; k++)
        used += snprintf(run->setting + used, sizeof run->setting - (size_t)used,
                         " %s: %lld rows, %lld more to score, %lld steps of at most %lld tokens, rate %g for all.",
                         p->tasks[k].dataset.name, (long long)p->tasks[k].dataset.train.count, (long long)p->tasks[k].asked.count,
                         (long long)p->tasks[k].steps, (long long)p->tasks[k].batch_tokens, p->tasks[k].lr);
    for (int64_t seed = 0; seed < run->seeds; seed++)
        for (int64_t k = 0; k < p->count; k++)
            for (int64_t of = 0; of < QKV_TRAINED_COUNT; of++) QKV_TRY(add_trial(run, k, of, seed));
    return QKV_OK;
}

typedef struct asking {
    qkv_ctx *ctx;
    const qkv_positions_task *t;
    int64_t of;
    uint64_t seed;
    qkv_config config;
    json_t *values;
} asking;

static qkv_reading_of reading_of(const asking *a, const qkv_placed *way, int k) {
    const qkv_positions_task *t = a->t;
    const int64_t learned = t->dataset.max_length;
    qkv_reading_of r = {.config = a->config, .shortest = k == 0 ? 0 : t->at[k].shortest, .longest = t->at[k].longest};
    r.config.position_beyond = way->beyond;
    if (way->trained == QKV_TRAINED_LEARNED && way->beyond == QKV_BEYOND_ERROR)
        r.config.max_length = learned << (QKV_POSITIONS_LENGTHS - 1);
    if (way->stretch == QKV_STRETCH_NONE || k == 0) return r;
    r.config.rope_stretch = way->stretch;
    r.config.rope_factor = (double)t->at[k].longest / (double)learned;
    return r;
}

static qkv_status ask(void *user, const qkv_classifier *net, const real *weights) {
    const asking *a = user;
    for (int i = 0; i < QKV_PLACED_COUNT; i++) {
        if (QKV_PLACED[i].trained != a->of) continue;
        qkv_reading_of readings[QKV_POSITIONS_LENGTHS];
        char *answers;
        for (int k = 0; k < QKV_POSITIONS_LENGTHS; k++) readings[k] = reading_of(a, &QKV_PLACED[i], k);
        QKV_TRY(qkv_reading_ask(a->ctx, net, weights, a->seed, &a->t->asked, readings, QKV_POSITIONS_LENGTHS, &answers));
        json_object_set_new(a->values, QKV_PLACED[i].key, json_string(answers));
        qkv_free(a->ctx, answers);
    }
    return QKV_OK;
}

/* Of a training that diverged: it counts as one that always gives the most frequent class. */
static qkv_status answer_for(const asking *a) {
    int64_t common;
    QKV_TRY(qkv_dataset_common(a->ctx, &a->t->dataset, &common));
    for (int i = 0; i < QKV_PLACED_COUNT; i++) {
        char *answers;
        if (QKV_PLACED[i].trained != a->of) continue;
        QKV_TRY(qkv_reading_always(a->ctx, &a->t->asked, common, &answers));
        json_object_set_new(a->values, QKV_PLACED[i].key, json_string(answers));
        qkv_free(a->ctx, answers);
    }
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    const qkv_positions *p = run->self;
    const qkv_positions_task *t = &p->tasks[trial->at[QKV_POSITIONS_TASK]];
    asking a = {.ctx = run->ctx,
                .t = t,
                .of = trial->at[QKV_POSITIONS_OF],
                .seed = run->o->seed + (uint64_t)trial->at[QKV_POSITIONS_TURN],
                .config = qkv_recipe_config(&t->dataset, p->layers, p->dim, 4),
                .values = values};
    a.config.position = TRAINED[a.of].position;
    a.config.pooling = t->pooling;
    const qkv_recipe recipe = {.config = a.config,
                               .steps = t->steps,
                               .batch_tokens = t->batch_tokens,
                               .lr = t->lr,
                               .clip = 1,
                               .seed = a.seed,
                               .watch_user = &a,
                               .ask = ask};
    qkv_learned learned;
    QKV_TRY(qkv_recipe_train(run, &t->dataset, &recipe, &learned));
    qkv_learned_json(&learned, &t->dataset, values);
    const qkv_status status = learned.diverged ? answer_for(&a) : QKV_OK;
    qkv_learned_free(run->ctx, &learned);
    return status;
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    const qkv_positions *p = run->self;
    const qkv_positions_task *t = &p->tasks[trial->at[QKV_POSITIONS_TASK]];
    if (!qkv_learned_whole(values, &t->dataset)) return false;
    for (int i = 0; i < QKV_PLACED_COUNT; i++) {
        const char *right = json_string_value(json_object_get(values, QKV_PLACED[i].key));
        if (QKV_PLACED[i].trained == trial->at[QKV_POSITIONS_OF] && (!right || (int64_t)strlen(right) != (t->asked.count + 3) / 4))
            return false;
    }
    return true;
}

static void drop(qkv_run *run) {
    qkv_positions *p = run->self;
    for (int64_t k = 0; k < QKV_POSITIONS_TASKS; k++) {
        qkv_dataset_free(run->ctx, &p->tasks[k].dataset);
        qkv_ragged_free(run->ctx, &p->tasks[k].asked);
    }
}

const qkv_experiment qkv_experiment_positions = {
    .name = "positions",
    .summary = "accuracy with each encoding of places, within the learned length and up to eight times it",
    .self_size = sizeof(qkv_positions),
    .takes_data = true,
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = qkv_positions_conclude,
    .drop = drop,
};
