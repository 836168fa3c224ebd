/* The one reader of data files: rows with labels and text, whatever the format. The public face of it, texts alone, is in
 * qkv/data.h. */
#ifndef QKV_DATA_ROWS_H
#define QKV_DATA_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "qkv/data.h"

typedef enum qkv_rows_want {
    QKV_WANT_TEXT,  /* labels are left out */
    QKV_WANT_LABEL, /* exactly one a row */
    QKV_WANT_LABELS /* any number, none included */
} qkv_rows_want;

/* Of one row; more are a mistake, and looking for doubles among them would take for ever. */
enum { QKV_ROW_LABELS = 10000 };

/* Valid until the next one is read. A label is never empty and holds no NUL, tab or line break; no label is there twice. */
typedef struct qkv_record {
    const char *labels; /* `label_count` strings one after another, a NUL behind each; "" if there is none */
    int64_t labels_size; /* with the NULs between, without the last one */
    int64_t label_count;
    const char *text; /* a NUL follows; NULL: the end of the file */
    int64_t text_size;
    int64_t line; /* where the row begins, from 1 */
    bool repaired; /* the format could not carry some bytes, which became U+FFFD */
} qkv_record;

qkv_status qkv_rows_start(qkv_ctx *ctx, const char *path, const qkv_data_options *options, qkv_rows_want want, bool pair,
                          qkv_rows **rows) QKV_MUST_USE;
/* Before the first row, of QKV_WANT_TEXT: the first line is looked at as where labels are wanted, and not only the name of the file; a
 * line that is nothing else is a text. */
void qkv_rows_by_content(qkv_rows *rows);
qkv_status qkv_rows_read(qkv_rows *rows, qkv_record *record) QKV_MUST_USE;
int64_t qkv_rows_size(const qkv_rows *rows); /* once a row was read: bytes that its labels and texts can come to, a NUL behind each; -1: not known */
const char *qkv_rows_name(const qkv_rows *rows); /* of the file, for messages */

#endif
