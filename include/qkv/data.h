/* Lines of a file, a pipe or a gzip file, and the rows of a data file in one of several formats, one at a time, with memory
 * that does not grow with the file. */
#ifndef QKV_DATA_H
#define QKV_DATA_H

#include "base.h"
#include "options.h"

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

/* ---- rows of a data file: docs/data-formats.md ---- */

typedef enum qkv_format {
    QKV_FORMAT_AUTO,     /* guessed from the first lines */
    QKV_FORMAT_TSV,      /* label TAB text */
    QKV_FORMAT_FASTTEXT, /* __label__a __label__b text */
    QKV_FORMAT_JSONL,    /* an object a line */
    QKV_FORMAT_CSV,      /* a header, then records; RFC 4180 */
    QKV_FORMAT_TEXT      /* a text a line, without labels: for prediction only */
} qkv_format;

typedef enum qkv_separator { QKV_SEPARATOR_AUTO, QKV_SEPARATOR_COMMA, QKV_SEPARATOR_SEMICOLON, QKV_SEPARATOR_TAB } qkv_separator;

/* Filled by qkv_options_default(qkv_data_options_table(), &options). An empty name stands for its default, so that zeroes are
 * defaults too. */
typedef struct qkv_data_options {
    int format;    /* qkv_format */
    int separator; /* qkv_separator, of CSV */
    char label_separator[QKV_OPTION_TEXT_SIZE]; /* between several labels in one cell */
    char label_prefix[QKV_OPTION_TEXT_SIZE];    /* fastText */
    char label_field[QKV_OPTION_TEXT_SIZE], text_field[QKV_OPTION_TEXT_SIZE], text_field_2[QKV_OPTION_TEXT_SIZE];
    char label_column[QKV_OPTION_TEXT_SIZE], text_column[QKV_OPTION_TEXT_SIZE], text_column_2[QKV_OPTION_TEXT_SIZE];
} qkv_data_options;

QKV_API const qkv_option_table *qkv_data_options_table(void);

typedef struct qkv_rows qkv_rows;

/* Opens a data file for its texts; labels are not asked for, and left out where the format has them. `options` may be NULL: all
 * defaults. pair: 1 for two texts a row. "-" is standard input; gzip as above. AUTO never takes a file for TSV here: a line that
 * is nothing else is a text. */
QKV_API qkv_status qkv_rows_open(qkv_ctx *ctx, const char *path, const qkv_data_options *options, int pair,
                                 qkv_rows **rows) QKV_MUST_USE;

/* The text of the next row, valid until the next call, with a NUL after it; the two texts of a pair have a tab between (and no
 * other tab before that). At the end *text is NULL. A row that cannot be read is QKV_BAD_DATA with file and line. */
QKV_API qkv_status qkv_rows_next(qkv_rows *rows, const char **text, int64_t *length) QKV_MUST_USE;
QKV_API int qkv_rows_ready(qkv_rows *rows);                /* 1: as qkv_lines_ready; 0 may also mean that only a part is there */
QKV_API int64_t qkv_rows_line(const qkv_rows *rows);       /* where the row last returned begins, from 1; 0 before the first */
QKV_API qkv_format qkv_rows_format(const qkv_rows *rows);  /* AUTO until the first row was asked for */
QKV_API const char *qkv_rows_describe(const qkv_rows *rows); /* "CSV, separator comma, guessed from line 1"; "" as long as AUTO */
QKV_API int64_t qkv_rows_repaired(const qkv_rows *rows);    /* rows so far with NUL or bytes that are not UTF-8 */
QKV_API void qkv_rows_close(qkv_rows *rows);               /* NULL is harmless */

#ifdef __cplusplus
}
#endif
#endif
