/* Lines of a file, a pipe or a gzip file, one at a time, with memory that does not grow with the file. */
#ifndef QKV_DATA_H
#define QKV_DATA_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkv_lines qkv_lines;

/* Opens `path`; "-" is standard input, which closing leaves open. Gzip is recognised by its first bytes. A byte
 * order mark at the start is dropped, CRLF counts as one line break, the last line needs none. `ctx` must outlive *lines. */
QKV_API qkv_status qkv_lines_open(qkv_ctx *ctx, const char *path, qkv_lines **lines) QKV_MUST_USE;

/* The next line without its line break; *text is valid until the next call, has a NUL after it and may hold others.
 * At the end *text is NULL. Returns as soon as one line is there (a pipe is not read ahead of need). */
QKV_API qkv_status qkv_lines_next(qkv_lines *lines, const char **text, int64_t *length) QKV_MUST_USE;

/* 1 if qkv_lines_next would return without waiting for more input, with a line, the end or a failure; so 1 at the end, for
 * good. 0: it would wait; a batch can be cut here. */
QKV_API int qkv_lines_ready(qkv_lines *lines);

QKV_API int64_t qkv_lines_number(const qkv_lines *lines); /* of the line last returned, from 1; 0 before the first */
QKV_API void qkv_lines_close(qkv_lines *lines);           /* NULL is harmless */

/* Column `column` (from 1) of a tab-separated line; {NULL,0} if the line has fewer. No copy:
 * the pointer is into `line` and has no NUL behind it. */
QKV_API const char *qkv_line_column(const char *line, int64_t length, int64_t column, int64_t *column_length);

#ifdef __cplusplus
}
#endif
#endif
