#include "data/listops.h"

#include <stdbool.h>
#include <string.h>

#include "base/rng.h"

enum { MOST_DEPTH = 64, MOST_ARGUMENTS = 64, DRAWS = 100000 };

/* ---- evaluation ---- */

static int apply(int32_t operation, int *values, int count) {
    int sum = 0;
    for (int i = 1; i < count; i++) /* they are few */
        for (int k = i; k > 0 && values[k] < values[k - 1]; k--) {
            int swap = values[k];
            values[k] = values[k - 1];
            values[k - 1] = swap;
        }
    for (int i = 0; i < count; i++) sum += values[i];
    switch (operation) {
    case QKV_LIST_MIN:
        return values[0];
    case QKV_LIST_MAX:
        return values[count - 1];
    case QKV_LIST_MED:
        return (values[(count - 1) / 2] + values[count / 2]) / 2;
    default:
        return sum % 10;
    }
}

int qkv_listops_value(const int32_t *ids, int64_t count) {
    struct {
        int32_t operation;
        int count, values[MOST_ARGUMENTS];
    } stack[MOST_DEPTH];
    int depth = 0;
    for (int64_t i = 0; i < count; i++) {
        int value;
        if (ids[i] >= QKV_LIST_MIN && ids[i] <= QKV_LIST_SM) {
            if (depth == MOST_DEPTH) return -1;
            stack[depth].operation = ids[i];
            stack[depth++].count = 0;
            continue;
        }
        if (ids[i] == QKV_LIST_END) {
            if (depth == 0 || stack[depth - 1].count == 0) return -1;
            depth--;
            value = apply(stack[depth].operation, stack[depth].values, stack[depth].count);
        } else if (ids[i] >= QKV_LIST_DIGIT && ids[i] < QKV_LIST_DIGIT + 10) {
            value = ids[i] - QKV_LIST_DIGIT;
        } else {
            return -1;
        }
        if (depth == 0) return i + 1 == count ? value : -1;
        if (stack[depth - 1].count == MOST_ARGUMENTS) return -1;
        stack[depth - 1].values[stack[depth - 1].count++] = value;
    }
    return -1;
}

qkv_status qkv_listops_text(const int32_t *ids, int64_t count, qkv_buf *text) {
    static const char *const names[] = {"[MIN", "[MAX", "[MED", "[SM", "]"};
    for (int64_t i = 0; i < count; i++) {
        const char *space = i ? " " : "";
        if (ids[i] >= QKV_LIST_MIN && ids[i] <= QKV_LIST_END)
            QKV_TRY(qkv_buf_addf(text, "%s%s", space, names[ids[i] - QKV_LIST_MIN]));
        else
            QKV_TRY(qkv_buf_addf(text, "%s%d", space, (int)ids[i] - QKV_LIST_DIGIT));
    }
    return QKV_OK;
}

/* ---- generation ---- */

typedef struct drawing {
    const qkv_listops *task;
    uint64_t key, drawn;
    int32_t *ids;  /* [task->longest] */
    int64_t count; /* may come to more than that: then the list is dropped */
} drawing;

static int64_t draw(drawing *d, int64_t n) {
    return (int64_t)qkv_below(qkv_key2(d->key, d->drawn++), (uint64_t)n);
}

static void put(drawing *d, int32_t id) {
    if (d->count < d->task->longest) d->ids[d->count] = id;
    d->count++;
}

/* What is too long already is not gone on with. */
static void draw_item(drawing *d, int64_t depth) {
    if (d->count > d->task->longest) return;
    if (depth > d->task->depth || (depth > 1 && draw(d, 4) > 0)) {
        put(d, QKV_LIST_DIGIT + (int32_t)draw(d, 10));
        return;
    }
    int64_t arguments = 2 + draw(d, d->task->arguments - 1);
    put(d, QKV_LIST_MIN + (int32_t)draw(d, 4));
    for (int64_t i = 0; i < arguments; i++) draw_item(d, depth + 1);
    put(d, QKV_LIST_END);
}

/* The first list of the row's own sequence that is neither too short nor too long. */
static bool draw_row(const qkv_listops *t, uint64_t key, int32_t *ids, int64_t *count) {
    for (uint64_t k = 0; k < DRAWS; k++) {
        drawing d = {t, qkv_key2(key, k), 0, ids, 0};
        draw_item(&d, 1);
        *count = d.count;
        if (d.count >= t->shortest && d.count <= t->longest) return true;
    }
    return false;
}

static qkv_status check(qkv_ctx *ctx, const qkv_listops *t) {
    if (t->depth >= 1 && t->depth <= MOST_DEPTH && t->arguments >= 2 && t->arguments <= MOST_ARGUMENTS && t->shortest >= 1 &&
        t->longest >= t->shortest && t->longest <= 1 << 24)
        return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "list operations: depth %lld, up to %lld arguments, %lld to %lld tokens",
                    (long long)t->depth, (long long)t->arguments, (long long)t->shortest, (long long)t->longest);
}

static qkv_status fill(qkv_ctx *ctx, const qkv_listops *t, uint64_t seed, int64_t first, int32_t *row, qkv_ragged *rows) {
    int64_t capacity = 0;
    rows->offset[0] = 0;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t n, begin = rows->offset[i];
        if (i % 64 == 0 && qkv_stop_asked(ctx)) return qkv_fail(ctx, QKV_STOPPED, "stopped on request while rows were made");
        if (!draw_row(t, qkv_key2(seed, (uint64_t)(first + i)), row, &n))
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "list operations: of %d lists none has %lld to %lld tokens", DRAWS,
                            (long long)t->shortest, (long long)t->longest);
        if (begin + n > capacity) {
            capacity = 2 * (begin + n);
            QKV_TRY(qkv_grow(ctx, capacity, sizeof *rows->ids, &rows->ids));
        }
        memcpy(rows->ids + begin, row, (size_t)n * sizeof *row);
        rows->offset[i + 1] = begin + n;
        rows->target[i] = qkv_listops_value(row, n);
    }
    return QKV_OK;
}

qkv_status qkv_listops_make(qkv_ctx *ctx, const qkv_listops *t, uint64_t seed, int64_t first, int64_t count, qkv_ragged *rows) {
    int32_t *row = NULL;
    *rows = (qkv_ragged){.count = count};
    QKV_TRY(check(ctx, t));
    qkv_status status = qkv_alloc(ctx, t->longest, sizeof *row, &row);
    if (status == QKV_OK) status = qkv_alloc(ctx, count + 1, sizeof *rows->offset, &rows->offset);
    if (status == QKV_OK) status = qkv_alloc(ctx, count, sizeof *rows->target, &rows->target);
    if (status == QKV_OK) status = fill(ctx, t, seed, first, row, rows);
    qkv_free(ctx, row);
    if (status != QKV_OK) qkv_ragged_free(ctx, rows);
    return status;
}
