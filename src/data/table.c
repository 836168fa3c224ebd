#include "data/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "text/utf8.h"

/* ---- rows ---- */

static qkv_status grow_pool(qkv_table *t, int64_t need) {
    if (t->pool_size + need <= t->pool_capacity) return QKV_OK;
    int64_t capacity = 2 * (t->pool_size + need) + (1 << 16);
    char *pool;
    QKV_TRY(qkv_alloc(t->ctx, capacity, 1, &pool));
    if (t->pool) memcpy(pool, t->pool, (size_t)t->pool_size);
    for (int64_t i = 0; i < t->count; i++) {
        t->rows[i].label = pool + (t->rows[i].label - t->pool);
        t->rows[i].text = pool + (t->rows[i].text - t->pool);
    }
    qkv_free(t->ctx, t->pool);
    t->pool = pool, t->pool_capacity = capacity;
    return QKV_OK;
}

static const char *put(qkv_table *t, const char *bytes, int64_t size) {
    char *at = t->pool + t->pool_size;
    if (size > 0) memcpy(at, bytes, (size_t)size);
    at[size] = 0;
    t->pool_size += size + 1;
    return at;
}

static uint64_t row_hash(const qkv_row *row, uint64_t seed) {
    return qkv_hash64(row->text, (size_t)row->text_size, qkv_hash64(row->label, (size_t)row->label_size, seed));
}

static void count_row(qkv_table *t, const qkv_row *row) {
    t->empty_rows += row->text_size == 0;
    t->unlabelled_rows += row->label_count == 0;
    t->repaired_rows += row->repaired;
    t->hash = row_hash(row, t->hash);
}

static qkv_status add_row(qkv_table *t, const qkv_record *r) {
    QKV_TRY(grow_pool(t, r->labels_size + r->text_size + 2));
    if (t->count == t->capacity) {
        int64_t capacity = t->capacity ? 2 * t->capacity : 1024;
        QKV_TRY(qkv_grow(t->ctx, capacity, sizeof *t->rows, &t->rows));
        t->capacity = capacity;
    }
    qkv_row *row = &t->rows[t->count];
    *row = (qkv_row){.label_size = r->labels_size,
                     .label_count = r->label_count,
                     .text_size = r->text_size,
                     .line = r->line,
                     .repaired = r->repaired || qkv_utf8_faults(r->text, r->text_size) > 0};
    row->label = put(t, r->labels, r->labels_size);
    row->text = put(t, r->text, r->text_size);
    t->count++;
    count_row(t, row);
    return QKV_OK;
}

void qkv_table_put(qkv_table *t, const qkv_row *row) {
    t->rows[t->count++] = *row;
    count_row(t, row);
}

void qkv_table_free(qkv_table *t) {
    if (!t->ctx) return;
    qkv_free(t->ctx, t->rows);
    qkv_free(t->ctx, t->pool);
    t->rows = NULL, t->pool = NULL;
    t->count = t->capacity = t->pool_size = t->pool_capacity = 0;
}

/* ---- reading ---- */

enum { POLL_ROWS = 4096 };

/* All of a file at once, where its size is known: growing takes three times as much, and what cannot be read is not begun. */
static qkv_status reserve(qkv_table *t, const qkv_rows *rows) {
    const int64_t size = qkv_rows_size(rows);
    if (size < 0) return QKV_OK;
    QKV_TRY(qkv_alloc(t->ctx, size, 1, &t->pool));
    t->pool_capacity = size;
    return QKV_OK;
}

static qkv_status read_rows(qkv_table *t, qkv_rows *rows, bool labelled) {
    qkv_record record;
    for (int64_t i = 0;; i++) {
        QKV_TRY(qkv_rows_read(rows, &record));
        if (!record.text) break;
        if (i == 0) QKV_TRY(reserve(t, rows));
        if (i % POLL_ROWS == 0 && qkv_stop_asked(t->ctx))
            return qkv_fail(t->ctx, QKV_STOPPED, "%s: stopped on request at line %lld", t->name, (long long)record.line);
        QKV_TRY(add_row(t, &record));
    }
    if (t->count == 0)
        return qkv_fail(t->ctx, QKV_BAD_DATA, "%s: no rows, the file is empty%s", t->name,
                        qkv_rows_format(rows) == QKV_FORMAT_CSV && qkv_rows_line(rows) > 0 ? " below its header" : "");
    if (labelled && t->unlabelled_rows == t->count)
        return qkv_fail(t->ctx, QKV_BAD_DATA, "%s: none of the %lld rows has a label", t->name, (long long)t->count);
    return QKV_OK;
}

static qkv_status read_file(qkv_ctx *ctx, const char *path, const qkv_data_options *options, qkv_rows_want want, bool pair, qkv_table *t) {
    qkv_rows *rows;
    *t = (qkv_table){.ctx = ctx};
    QKV_TRY(qkv_rows_start(ctx, path, options, want, pair, &rows));
    if (want == QKV_WANT_TEXT) qkv_rows_by_content(rows);
    strcpy(t->name, qkv_rows_name(rows));
    qkv_status status = read_rows(t, rows, want != QKV_WANT_TEXT);
    strcpy(t->format, qkv_rows_describe(rows));
    qkv_rows_close(rows);
    if (status != QKV_OK) qkv_table_free(t);
    return status;
}

qkv_status qkv_table_read(qkv_ctx *ctx, const char *path, const qkv_data_options *options, qkv_rows_want want, bool pair,
                          qkv_table *t) {
    return read_file(ctx, path, options, want, pair, t);
}

qkv_status qkv_table_read_texts(qkv_ctx *ctx, const char *path, const qkv_data_options *options, bool pair, qkv_table *t) {
    return read_file(ctx, path, options, QKV_WANT_TEXT, pair, t);
}

/* ---- holding out ---- */

enum { ONE_IN = 10 };

typedef struct candidate {
    const qkv_row *row;
    uint64_t hash;
    bool moves;
} candidate;

/* One label of one row. */
typedef struct mention {
    candidate *row;
    const char *label;
} mention;

/* By label, then as in the file. */
static int compare_mentions(const void *a, const void *b) {
    const mention *x = a, *y = b;
    int order = strcmp(x->label, y->label);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

static void choose(candidate *c, int64_t count) {
    int64_t moved = 0, smallest = 0;
    for (int64_t i = 0; i < count; i++) {
        c[i].moves = c[i].hash % ONE_IN == 0;
        moved += c[i].moves;
        if (c[i].hash < c[smallest].hash) smallest = i;
    }
    if (moved == 0) c[smallest].moves = true;
}

/* A class without a training row could never be predicted. */
static void give_back(mention *by_label, int64_t count) {
    if (count > 0) qsort(by_label, (size_t)count, sizeof *by_label, compare_mentions);
    for (int64_t begin = 0, end; begin < count; begin = end) {
        bool vanishes = true;
        for (end = begin; end < count && strcmp(by_label[begin].label, by_label[end].label) == 0; end++)
            vanishes &= by_label[end].row->moves;
        if (vanishes) by_label[begin].row->moves = false;
    }
}

static qkv_status make_candidates(const qkv_table *t, candidate *c) {
    mention *by_label;
    int64_t mentions = 0, n = 0;
    for (int64_t i = 0; i < t->count; i++) mentions += t->rows[i].label_count;
    QKV_TRY(qkv_alloc(t->ctx, mentions, sizeof *by_label, &by_label));
    for (int64_t i = 0; i < t->count; i++) {
        c[i] = (candidate){&t->rows[i], row_hash(&t->rows[i], 0), false};
        const char *label = t->rows[i].label;
        for (int64_t k = 0; k < t->rows[i].label_count; k++) {
            by_label[n++] = (mention){&c[i], label};
            label = qkv_label_next(label, (int64_t)strlen(label));
        }
    }
    choose(c, t->count);
    give_back(by_label, mentions);
    qkv_free(t->ctx, by_label);
    return QKV_OK;
}

static qkv_status copy_moving(const candidate *c, int64_t count, qkv_table *held_out) {
    for (int64_t i = 0; i < count; i++) {
        const qkv_row *r = c[i].row;
        qkv_record record = {r->label, r->label_size, r->label_count, r->text, r->text_size, r->line, r->repaired};
        if (c[i].moves) QKV_TRY(add_row(held_out, &record));
    }
    return QKV_OK;
}

static void keep_staying(qkv_table *t, const candidate *c) {
    int64_t kept = 0;
    t->hash = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (c[i].moves) continue;
        t->hash = row_hash(&t->rows[i], t->hash);
        t->rows[kept++] = t->rows[i];
    }
    t->count = kept;
}

qkv_status qkv_table_hold_out(qkv_table *t, qkv_table *held_out) {
    candidate *c;
    *held_out = (qkv_table){.ctx = t->ctx};
    memcpy(held_out->name, t->name, sizeof t->name);
    memcpy(held_out->format, t->format, sizeof t->format);
    if (t->count < 2) return QKV_OK;
    QKV_TRY(qkv_alloc(t->ctx, t->count, sizeof *c, &c));
    qkv_status status = make_candidates(t, c);
    if (status == QKV_OK) status = copy_moving(c, t->count, held_out);
    if (status == QKV_OK) {
        t->empty_rows -= held_out->empty_rows;
        t->repaired_rows -= held_out->repaired_rows;
        t->unlabelled_rows -= held_out->unlabelled_rows;
        keep_staying(t, c);
    } else {
        qkv_table_free(held_out);
    }
    qkv_free(t->ctx, c);
    return status;
}
