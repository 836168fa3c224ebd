#include "data/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "data/sniff.h"
#include "qkv/data.h"
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
    t->repaired_rows += qkv_utf8_faults(row->text, row->text_size) > 0;
    t->hash = row_hash(row, t->hash);
}

static qkv_status add_row(qkv_table *t, const char *label, int64_t label_size, const char *text, int64_t text_size, int64_t line) {
    QKV_TRY(grow_pool(t, label_size + text_size + 2));
    if (t->count == t->capacity) {
        int64_t capacity = t->capacity ? 2 * t->capacity : 1024;
        QKV_TRY(qkv_grow(t->ctx, capacity, sizeof *t->rows, &t->rows));
        t->capacity = capacity;
    }
    qkv_row *row = &t->rows[t->count];
    *row = (qkv_row){.label_size = label_size, .text_size = text_size, .line = line};
    row->label = put(t, label, label_size);
    row->text = put(t, text, text_size);
    t->count++;
    count_row(t, row);
    return QKV_OK;
}

void qkv_table_free(qkv_table *t) {
    if (!t->ctx) return;
    qkv_free(t->ctx, t->rows);
    qkv_free(t->ctx, t->pool);
    t->rows = NULL, t->pool = NULL;
    t->count = t->capacity = t->pool_size = t->pool_capacity = 0;
}

/* ---- reading ---- */

static qkv_status fail_line(qkv_table *t, int64_t line, const char *what) {
    return qkv_fail(t->ctx, QKV_BAD_DATA, "%s:%lld: %s", t->name, (long long)line, what);
}

static qkv_status parse_row(qkv_table *t, const char *text, int64_t length, int64_t line) {
    const char *tab = memchr(text, '\t', (size_t)length);
    if (!tab) return fail_line(t, line, "1 column, expected 2 (label<TAB>text)");
    int64_t label_size = tab - text;
    if (label_size == 0) return fail_line(t, line, "the label before the tab is empty");
    if (memchr(text, 0, (size_t)label_size)) return fail_line(t, line, "the label holds a NUL byte");
    return add_row(t, text, label_size, tab + 1, length - label_size - 1, line);
}

static qkv_status sniff(qkv_table *t, const char *text, int64_t length) {
    char what[96];
    if (!qkv_sniff(text, length, what, sizeof what)) return QKV_OK;
    return qkv_fail(t->ctx, QKV_BAD_DATA, "%s: this is %s; expected UTF-8 lines label<TAB>text", t->name, what);
}

enum { POLL_ROWS = 4096 };

static qkv_status read_rows(qkv_table *t, qkv_lines *lines) {
    int64_t blank = 0; /* the first of the empty lines since the last row */
    for (;;) {
        const char *text;
        int64_t length;
        QKV_TRY(qkv_lines_next(lines, &text, &length));
        if (!text) break;
        int64_t line = qkv_lines_number(lines);
        if (line == 1) QKV_TRY(sniff(t, text, length));
        if (line % POLL_ROWS == 1 && qkv_stop_asked(t->ctx))
            return qkv_fail(t->ctx, QKV_STOPPED, "%s: stopped on request at line %lld", t->name, (long long)line);
        if (length == 0) {
            if (blank == 0) blank = line;
            continue;
        }
        if (blank > 0) return fail_line(t, blank, "empty line, expected 2 columns (label<TAB>text)");
        QKV_TRY(parse_row(t, text, length, line));
    }
    if (t->count == 0) return qkv_fail(t->ctx, QKV_BAD_DATA, "%s: no rows, the file is empty", t->name);
    return QKV_OK;
}

static void set_name(qkv_table *t, const char *path) {
    if (strcmp(path, "-") == 0) path = "standard input";
    size_t size = strlen(path), room = sizeof t->name - 1;
    if (size <= room) {
        memcpy(t->name, path, size + 1);
    } else { /* the end of a long path says more than its start */
        memcpy(t->name, "...", 3);
        memcpy(t->name + 3, path + size - (room - 3), room - 3 + 1);
    }
}

qkv_status qkv_table_read(qkv_ctx *ctx, const char *path, qkv_table *t) {
    qkv_lines *lines;
    *t = (qkv_table){.ctx = ctx};
    set_name(t, path);
    QKV_TRY(qkv_lines_open(ctx, path, &lines));
    qkv_status status = read_rows(t, lines);
    qkv_lines_close(lines);
    if (status != QKV_OK) qkv_table_free(t);
    return status;
}

/* ---- holding out ---- */

enum { ONE_IN = 10 };

typedef struct candidate {
    const qkv_row *row;
    uint64_t hash;
    bool moves;
} candidate;

static int compare_labels(const qkv_row *a, const qkv_row *b) {
    size_t n = (size_t)(a->label_size < b->label_size ? a->label_size : b->label_size);
    int order = memcmp(a->label, b->label, n);
    return order ? order : (a->label_size > b->label_size) - (a->label_size < b->label_size);
}

/* By label, then as in the file. */
static int compare_candidates(const void *a, const void *b) {
    const candidate *const *x = a, *const *y = b;
    int order = compare_labels((*x)->row, (*y)->row);
    return order ? order : (*x > *y) - (*x < *y);
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
static void give_back(candidate **by_label, int64_t count) {
    qsort(by_label, (size_t)count, sizeof *by_label, compare_candidates);
    for (int64_t begin = 0, end; begin < count; begin = end) {
        bool vanishes = true;
        for (end = begin; end < count && compare_labels(by_label[begin]->row, by_label[end]->row) == 0; end++)
            vanishes &= by_label[end]->moves;
        if (vanishes) by_label[begin]->moves = false;
    }
}

static qkv_status make_candidates(const qkv_table *t, candidate *c) {
    candidate **by_label;
    QKV_TRY(qkv_alloc(t->ctx, t->count, sizeof *by_label, &by_label));
    for (int64_t i = 0; i < t->count; i++) {
        c[i] = (candidate){&t->rows[i], row_hash(&t->rows[i], 0), false};
        by_label[i] = &c[i];
    }
    choose(c, t->count);
    give_back(by_label, t->count);
    qkv_free(t->ctx, by_label);
    return QKV_OK;
}

static qkv_status copy_moving(const candidate *c, int64_t count, qkv_table *held_out) {
    for (int64_t i = 0; i < count; i++) {
        const qkv_row *r = c[i].row;
        if (c[i].moves) QKV_TRY(add_row(held_out, r->label, r->label_size, r->text, r->text_size, r->line));
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
    if (t->count < 2) return QKV_OK;
    QKV_TRY(qkv_alloc(t->ctx, t->count, sizeof *c, &c));
    qkv_status status = make_candidates(t, c);
    if (status == QKV_OK) status = copy_moving(c, t->count, held_out);
    if (status == QKV_OK) {
        t->empty_rows -= held_out->empty_rows;
        t->repaired_rows -= held_out->repaired_rows;
        keep_staying(t, c);
    } else {
        qkv_table_free(held_out);
    }
    qkv_free(t->ctx, c);
    return status;
}
