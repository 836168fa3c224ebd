/* Labelled rows in memory, read from a TSV file: `label TAB text`. */
#ifndef QKV_DATA_TABLE_H
#define QKV_DATA_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"

typedef struct qkv_row {
    const char *label, *text; /* into the table's pool; each has a NUL after it */
    int64_t label_size, text_size;
    int64_t line; /* in the file, from 1 */
} qkv_row;

typedef struct qkv_table {
    qkv_ctx *ctx;
    char name[256]; /* the file, for messages */
    qkv_row *rows;
    int64_t count, capacity;
    char *pool; /* all bytes */
    int64_t pool_size, pool_capacity;
    int64_t empty_rows, repaired_rows; /* without text; with NUL or invalid UTF-8 */
    uint64_t hash;                     /* of all rows in order */
} qkv_table;

/* Reads the whole file. The label is everything before the first tab, the text everything after it. A line without a tab
 * or with an empty label is QKV_BAD_DATA: "train.tsv:120: 1 column, expected 2 (label<TAB>text)". Completely empty lines
 * at the end of the file are ignored. An empty file is QKV_BAD_DATA. UTF-16 and binary files are named as such. QKV_STOPPED
 * when the stop callback asks for it. */
qkv_status qkv_table_read(qkv_ctx *ctx, const char *path, qkv_table *table) QKV_MUST_USE;
void qkv_table_free(qkv_table *table);

/* Moves one row in ten, chosen by the hash of its bytes, from `table` to `held_out` (order kept); where the hash picks none,
 * the row with the smallest. Every label keeps a row in `table`: of a label that would vanish from it, the first row stays.
 * So nothing may move, as in a table where every label occurs once. */
qkv_status qkv_table_hold_out(qkv_table *table, qkv_table *held_out) QKV_MUST_USE;

#endif
