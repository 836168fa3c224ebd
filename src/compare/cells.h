/* Measurements that are kept between runs: a file of JSON lines, the first of which says what it is, the others a cell each with
 * a sum that tells damage. It is written anew, atomically, with each cell; there are hundreds at most. Others may do the same at
 * the same time: their cells stay. */
#ifndef QKV_COMPARE_CELLS_H
#define QKV_COMPARE_CELLS_H

#include <jansson.h>

#include "base/ctx.h"

typedef struct qkv_cells {
    qkv_ctx *ctx;
    const char *path; /* NULL: they are in memory alone. The caller's */
    json_t *all;      /* key -> values */
    bool kept;        /* all of them are in the file */
    bool warned;      /* that they could not be */
} qkv_cells;

/* Reads what is there; a file that is not there is one without cells. Lines that are damaged are left out, which is logged.
 * QKV_BAD_FORMAT where the first line is not that of such a file of this version. */
qkv_status qkv_cells_open(qkv_ctx *ctx, const char *path, qkv_cells *cells) QKV_MUST_USE;
void qkv_cells_close(qkv_cells *cells);

/* NULL: there is none. Borrowed. */
const json_t *qkv_cells_get(const qkv_cells *cells, const char *key);

void qkv_cells_drop(qkv_cells *cells, const char *key);
int64_t qkv_cells_count(const qkv_cells *cells); /* also of other runs */

/* Writes the file; that it cannot be written is logged once, and no failure. */
qkv_status qkv_cells_keep(qkv_cells *cells) QKV_MUST_USE;

/* Takes over `values`, also where it fails, and keeps them. */
qkv_status qkv_cells_put(qkv_cells *cells, const char *key, json_t *values) QKV_MUST_USE;

#endif
