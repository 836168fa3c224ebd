/* Labelled rows in memory, read from a file of any format that rows.h reads. */
#ifndef QKV_DATA_TABLE_H
#define QKV_DATA_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "data/rows.h"

typedef struct qkv_row {
    /* Into the table's pool; each has a NUL after it. Several labels lie one after another, a NUL between; a pair of texts has a
     * tab between. */
    const char *label, *text;
    int64_t label_size, label_count, text_size;
    int64_t line;  /* in the file, from 1 */
    bool repaired; /* NUL or bytes that are not UTF-8 */
} qkv_row;

typedef struct qkv_table {
    qkv_ctx *ctx;
    char name[256]; /* the file, for messages */
    qkv_row *rows;
    int64_t count, capacity;
    char *pool; /* all bytes */
    int64_t pool_size, pool_capacity;
    int64_t empty_rows, repaired_rows; /* without text; with NUL or invalid UTF-8 */
    int64_t unlabelled_rows;           /* where several labels are legal, none is too */
    char format[192];                  /* what was read, and how it is known: "CSV, separator comma, guessed from line 1" */
    uint64_t hash;                     /* of all rows in order */
} qkv_table;

/* Reads the whole file; `want` is QKV_WANT_LABEL or QKV_WANT_LABELS, `options` may be NULL. A row that cannot be used is
 * QKV_BAD_DATA: "train.tsv:120: 1 column, expected 2 (label<TAB>text)". Empty lines at the end of the file are ignored. A file
 * without rows or without a single label is QKV_BAD_DATA. UTF-16 and binary files are named as such. QKV_STOPPED when the stop
 * callback asks for it. */
qkv_status qkv_table_read(qkv_ctx *ctx, const char *path, const qkv_data_options *options, qkv_rows_want want, bool pair,
                          qkv_table *table) QKV_MUST_USE;
/* The texts alone, of a file of any format or with a text a line; labels are left out, empty texts are rows. */
qkv_status qkv_table_read_texts(qkv_ctx *ctx, const char *path, const qkv_data_options *options, bool pair, qkv_table *table) QKV_MUST_USE;
void qkv_table_free(qkv_table *table);
/* Adds a row whose bytes lie elsewhere, to a table that has room for it. */
void qkv_table_put(qkv_table *table, const qkv_row *row);

/* The label after this one in a row of several. */
static inline const char *qkv_label_next(const char *label, int64_t size) { return label + size + 1; }

/* Moves one row in ten, chosen by the hash of its bytes, from `table` to `held_out` (order kept); where the hash picks none,
 * the row with the smallest. Every label keeps a row in `table`: of a label that would vanish from it, the first row stays (the
 * first in which it is; so where rows have several labels, more rows stay).
 * So nothing may move, as in a table where every label occurs once. */
qkv_status qkv_table_hold_out(qkv_table *table, qkv_table *held_out) QKV_MUST_USE;

#endif
