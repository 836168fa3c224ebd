#include "train/bag_fit.h"

#include <string.h>

#include "base/sort.h"
#include "train/blend.h"
#include "train/logistic.h"

/* Finer ones take several times as long and predict no better: catalogue 79.0, 20 news groups 86.5 per cent either way. */
static const double TOLERANCE = 0.3;
enum { PASSES = 12 };

/* How many texts each run is in. */
typedef struct entry {
    uint64_t key;
    int32_t last; /* text that counted it last, from 1; 0: the place is free */
    int32_t rows;
} entry;

typedef struct census {
    qkv_ctx *ctx;
    entry *entries;
    int64_t mask, used;
} census;

static entry *place(const census *c, uint64_t key) {
    int64_t at = (int64_t)key & c->mask;
    while (c->entries[at].last && c->entries[at].key != key) at = (at + 1) & c->mask;
    return &c->entries[at];
}

static qkv_status grow(census *c) {
    census wider = {.ctx = c->ctx, .mask = 2 * c->mask + 1, .used = c->used};
    QKV_TRY(qkv_alloc_zero(c->ctx, wider.mask + 1, sizeof *wider.entries, &wider.entries));
    for (int64_t i = 0; i <= c->mask; i++)
        if (c->entries[i].last) *place(&wider, c->entries[i].key) = c->entries[i];
    qkv_free(c->ctx, c->entries);
    *c = wider;
    return QKV_OK;
}

static qkv_status count_text(census *c, int64_t text, const uint64_t *keys, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        entry *e = place(c, keys[i]);
        if (e->last == (int32_t)text + 1) continue;
        if (!e->last) {
            e->key = keys[i];
            c->used++;
        }
        e->last = (int32_t)text + 1;
        e->rows++;
        if (4 * c->used > 3 * c->mask) QKV_TRY(grow(c));
    }
    return QKV_OK;
}

static qkv_status count_all(census *c, const qkv_bag *bag, const qkv_bag_texts *t) {
    if (t->rows >= INT32_MAX) return qkv_fail(c->ctx, QKV_BAD_DATA, "%lld texts are more than a linear model can count", (long long)t->rows);
    qkv_bag_reader reader = {.bag = bag};
    qkv_status status = QKV_OK;
    for (int64_t i = 0; status == QKV_OK && i < t->rows; i++) {
        int64_t count;
        status = qkv_bag_read(&reader, t->texts[i], t->lengths[i], &count);
        if (status == QKV_OK) status = count_text(c, i, reader.keys, count);
        if (status == QKV_OK && i % 256 == 0 && qkv_stop_asked(c->ctx)) status = qkv_fail(c->ctx, QKV_STOPPED, "stopped on request");
    }
    qkv_bag_reader_free(&reader);
    return status;
}

static int64_t frequent(const census *c, int64_t min_rows) {
    int64_t n = 0;
    for (int64_t i = 0; i <= c->mask; i++) n += c->entries[i].rows >= min_rows;
    return n;
}

static qkv_status take_features(const census *c, const qkv_bag_options *o, qkv_bag *bag) {
    qkv_sort_item *items;
    int64_t min_rows = o->min_rows;
    bag->features = frequent(c, min_rows);
    while (o->most > 0 && bag->features > o->most / bag->classes) bag->features = frequent(c, ++min_rows);
    if (bag->features > INT32_MAX)
        return qkv_fail(c->ctx, QKV_BAD_DATA, "%lld runs of words are more than a linear model can hold", (long long)bag->features);
    QKV_TRY(qkv_alloc(c->ctx, bag->features, sizeof *bag->key, &bag->key));
    QKV_TRY(qkv_alloc(c->ctx, bag->features, sizeof *items, &items));
    for (int64_t i = 0, n = 0; i <= c->mask; i++)
        if (c->entries[i].rows >= min_rows) items[n++].key = c->entries[i].key;
    qkv_status status = qkv_sort(c->ctx, items, bag->features);
    for (int64_t i = 0; i < bag->features; i++) bag->key[i] = items[i].key;
    qkv_free(c->ctx, items);
    return status;
}

static qkv_status choose_features(const qkv_bag_texts *t, const qkv_bag_options *o, qkv_bag *bag) {
    census c = {.ctx = bag->ctx, .mask = (1 << 12) - 1};
    QKV_TRY(qkv_alloc_zero(c.ctx, c.mask + 1, sizeof *c.entries, &c.entries));
    qkv_status status = count_all(&c, bag, t);
    if (status == QKV_OK) status = take_features(&c, o, bag);
    qkv_free(c.ctx, c.entries);
    return status == QKV_OK ? qkv_bag_index(bag) : status;
}

/* The features of all texts. */
typedef struct table {
    int64_t *offset; /* [rows + 1] */
    int32_t *index;
} table;

static qkv_status find_some(qkv_bag_reader *reader, const qkv_bag_texts *t, table *f) {
    qkv_ctx *ctx = reader->bag->ctx;
    int64_t capacity = 0;
    for (int64_t i = 0; i < t->rows; i++) {
        int64_t count;
        QKV_TRY(qkv_bag_read(reader, t->texts[i], t->lengths[i], &count));
        if (f->offset[i] + count > capacity) {
            capacity = 2 * capacity + count + 1024;
            QKV_TRY(qkv_grow(ctx, capacity, sizeof *f->index, &f->index));
        }
        f->offset[i + 1] = f->offset[i] + qkv_bag_find(reader->bag, reader->keys, count, f->index + f->offset[i]);
    }
    return QKV_OK;
}

static qkv_status find_all(const qkv_bag *bag, const qkv_bag_texts *t, table *f) {
    qkv_bag_reader reader = {.bag = bag};
    QKV_TRY(qkv_alloc(bag->ctx, t->rows + 1, sizeof *f->offset, &f->offset));
    f->offset[0] = 0;
    qkv_status status = find_some(&reader, t, f);
    qkv_bag_reader_free(&reader);
    return status;
}

static void table_free(qkv_ctx *ctx, table *f) {
    qkv_free(ctx, f->offset);
    qkv_free(ctx, f->index);
    *f = (table){0};
}

/* ---- the cost ---- */

static bool tells(const qkv_bag_texts *dev) {
    for (int64_t i = 0; dev && i < dev->rows; i++)
        if (dev->label_at ? dev->label_at[i + 1] > dev->label_at[i] : dev->target[i] >= 0) return true;
    return false;
}

/* Of all rows with a known class. scores: room for those of all rows and one more. */
static double loss_of(const qkv_bag *bag, const qkv_bag_texts *t, const table *f, real *scores) {
    const qkv_blend_rows rows = {t->rows, bag->classes, scores, scores, t->target, t->label_at, t->labels};
    double sum = 0;
    for (int64_t i = 0; i < t->rows; i++) {
        qkv_bag_score(bag, f->index + f->offset[i], f->offset[i + 1] - f->offset[i], scores + i * bag->classes);
        sum += qkv_blend_row(&rows, (qkv_blend){.bag = 1}, i, scores + t->rows * bag->classes);
    }
    return sum;
}

typedef struct trial {
    qkv_logistic_result model;
    double cost, loss;
} trial;

static void adopt(qkv_bag *bag, const qkv_logistic_result *r) {
    bag->weight = r->weight;
    bag->bias = r->bias;
}

static qkv_status one_cost(qkv_bag *bag, qkv_logistic_problem *p, double cost, const qkv_bag_texts *dev, const table *held, trial *t) {
    real *scores;
    p->cost = t->cost = cost;
    QKV_TRY(qkv_logistic_fit(bag->ctx, p, &t->model));
    if (!held->offset) return QKV_OK;
    QKV_TRY(qkv_alloc(bag->ctx, (dev->rows + 1) * bag->classes, sizeof *scores, &scores));
    qkv_bag with = *bag;
    adopt(&with, &t->model);
    t->loss = loss_of(&with, dev, held, scores);
    qkv_free(bag->ctx, scores);
    return QKV_OK;
}

static qkv_status learn(qkv_bag *bag, qkv_logistic_problem *p, const qkv_bag_texts *dev, const table *held, double *cost) {
    static const double costs[] = {0.1, 1};
    trial best = {0}, next = {0};
    qkv_status status = one_cost(bag, p, *cost > 0 ? *cost : costs[0], dev, held, &best);
    for (size_t c = 1; status == QKV_OK && held->offset && c < sizeof costs / sizeof *costs; c++) {
        status = one_cost(bag, p, costs[c], dev, held, &next);
        bool better = status == QKV_OK && next.loss < best.loss;
        trial worse = better ? best : next;
        if (better) best = next;
        qkv_logistic_free(bag->ctx, &worse.model);
        next = (trial){0};
    }
    if (status != QKV_OK) qkv_logistic_free(bag->ctx, &best.model);
    adopt(bag, &best.model);
    *cost = best.cost;
    return status;
}

static qkv_status fit(qkv_bag *bag, const qkv_bag_options *o, const qkv_bag_texts *train, const qkv_bag_texts *dev, double *cost) {
    table seen = {0}, held = {0};
    QKV_TRY(choose_features(train, o, bag));
    qkv_status status = find_all(bag, train, &seen);
    if (status == QKV_OK && o->cost == 0 && tells(dev)) status = find_all(bag, dev, &held);
    qkv_logistic_problem p = {
        .x = {train->rows, bag->features, seen.offset, seen.index},
        .classes = o->classes,
        .target = train->target,
        .label_at = train->label_at,
        .labels = train->labels,
        .weight = o->weight,
        .tolerance = TOLERANCE,
        .passes = PASSES,
        .seed = o->seed,
    };
    if (status == QKV_OK) status = learn(bag, &p, dev, &held, cost);
    table_free(bag->ctx, &seen);
    table_free(bag->ctx, &held);
    return status;
}

qkv_status qkv_bag_fit(qkv_ctx *ctx, const qkv_bag_options *options, const qkv_bag_texts *train, const qkv_bag_texts *dev,
                       qkv_bag *bag, double *cost) {
    double chosen = options->cost;
    *bag = (qkv_bag){.ctx = ctx, .ngrams = options->ngrams, .beginnings = options->beginnings, .classes = options->classes,
                     .normalize = options->normalize};
    qkv_status status = fit(bag, options, train, dev, &chosen);
    if (cost) *cost = chosen;
    if (status != QKV_OK) qkv_bag_free(bag);
    return status;
}
