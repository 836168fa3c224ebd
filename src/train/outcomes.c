#include "train/outcomes.h"

#include "base/sort.h"

/* Cells and labels are numbered in 32 bits. */
static qkv_status check_size(qkv_ctx *ctx, int64_t rows, int64_t labels) {
    if (rows <= INT32_MAX && labels <= UINT32_MAX / QKV_MARK_LABEL) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_DATA, "%lld rows with %lld labels are more than can be scored at once", (long long)rows,
                    (long long)labels);
}

static qkv_status create(qkv_ctx *ctx, int64_t rows, int64_t labels, int64_t cells, int64_t marks, qkv_outcomes *o) {
    o->rows = rows;
    o->labels = labels;
    o->cells = cells;
    QKV_TRY(qkv_alloc(ctx, rows, sizeof *o->cell, &o->cell));
    QKV_TRY(qkv_alloc(ctx, cells + 1, sizeof *o->mark_at, &o->mark_at));
    QKV_TRY(qkv_alloc(ctx, marks, sizeof *o->marks, &o->marks));
    QKV_TRY(qkv_alloc(ctx, cells, sizeof *o->right, &o->right));
    o->mark_at[0] = 0;
    return QKV_OK;
}

void qkv_outcomes_free(qkv_ctx *ctx, qkv_outcomes *o) {
    qkv_free(ctx, o->cell);
    qkv_free(ctx, o->mark_at);
    qkv_free(ctx, o->marks);
    qkv_free(ctx, o->right);
    *o = (qkv_outcomes){0};
}

static void put_mark(qkv_outcomes *o, int64_t cell, int64_t label, uint32_t bits) {
    o->marks[o->mark_at[cell + 1]++] = (uint32_t)label * QKV_MARK_LABEL + bits;
}

/* Starts cell `cell` behind the one before. */
static void begin_cell(qkv_outcomes *o, int64_t cell) {
    o->mark_at[cell + 1] = o->mark_at[cell];
    o->right[cell] = true;
}

static void put_pair(qkv_outcomes *o, int64_t cell, int64_t gold, int64_t given) {
    begin_cell(o, cell);
    if (gold == given) {
        put_mark(o, cell, gold, QKV_GOLD | QKV_GIVEN);
        return;
    }
    o->right[cell] = false;
    if (gold < given) put_mark(o, cell, gold, QKV_GOLD);
    put_mark(o, cell, given, QKV_GIVEN);
    if (gold > given) put_mark(o, cell, gold, QKV_GOLD);
}

/* items: sorted */
static qkv_status pairs_from(qkv_ctx *ctx, int64_t rows, int64_t labels, const qkv_sort_item *items, qkv_outcomes *o) {
    int64_t cells = 0;
    for (int64_t i = 0; i < rows; i++) cells += i == 0 || items[i].key != items[i - 1].key;
    QKV_TRY(create(ctx, rows, labels, cells, 2 * cells, o));
    int64_t cell = -1;
    for (int64_t i = 0; i < rows; i++) {
        if (i == 0 || items[i].key != items[i - 1].key)
            put_pair(o, ++cell, (int64_t)(items[i].key / (uint64_t)labels), (int64_t)(items[i].key % (uint64_t)labels));
        o->cell[items[i].value] = (int32_t)cell;
    }
    return QKV_OK;
}

qkv_status qkv_outcomes_pairs(qkv_ctx *ctx, int64_t rows, int64_t labels, const int32_t *gold, const int32_t *given,
                              qkv_outcomes *o) {
    *o = (qkv_outcomes){0};
    QKV_TRY(check_size(ctx, rows, labels));
    qkv_sort_item *items;
    QKV_TRY(qkv_alloc(ctx, rows, sizeof *items, &items));
    for (int64_t i = 0; i < rows; i++) items[i] = (qkv_sort_item){(uint64_t)gold[i] * (uint64_t)labels + (uint64_t)given[i], i};
    qkv_status status = qkv_sort(ctx, items, rows);
    if (status == QKV_OK) status = pairs_from(ctx, rows, labels, items, o);
    qkv_free(ctx, items);
    if (status != QKV_OK) qkv_outcomes_free(ctx, o);
    return status;
}

static void put_set(qkv_outcomes *o, int64_t cell, const int32_t *gold, int64_t golds, const int32_t *given, int64_t givens) {
    begin_cell(o, cell);
    for (int64_t g = 0, p = 0; g < golds || p < givens;) {
        bool has = g < golds && (p == givens || gold[g] <= given[p]), got = p < givens && (g == golds || given[p] <= gold[g]);
        put_mark(o, cell, has ? gold[g] : given[p], (has ? QKV_GOLD : 0u) | (got ? QKV_GIVEN : 0u));
        o->right[cell] &= has && got;
        g += has;
        p += got;
    }
}

qkv_status qkv_outcomes_sets(qkv_ctx *ctx, int64_t rows, int64_t labels, const int64_t *gold_at, const int32_t *gold,
                             const int64_t *given_at, const int32_t *given, qkv_outcomes *o) {
    *o = (qkv_outcomes){0};
    QKV_TRY(check_size(ctx, rows, labels));
    qkv_status status = create(ctx, rows, labels, rows, gold_at[rows] + given_at[rows], o);
    if (status != QKV_OK) {
        qkv_outcomes_free(ctx, o);
        return status;
    }
    for (int64_t i = 0; i < rows; i++) {
        put_set(o, i, gold + gold_at[i], gold_at[i + 1] - gold_at[i], given + given_at[i], given_at[i + 1] - given_at[i]);
        o->cell[i] = (int32_t)i;
    }
    return QKV_OK;
}
