/* What the readers of single formats share; private to this folder. */
#ifndef QKV_DATA_ROWS_STATE_H
#define QKV_DATA_ROWS_STATE_H

#include "base/buf.h"
#include "data/rows.h"

enum { QKV_AHEAD = 10 }; /* lines that may be looked at before the first row is read */

typedef struct qkv_recur_cell {
    int64_t begin, size; /* in `cells` */
} qkv_recur_cell;

struct qkv_rows {
    qkv_ctx *ctx;
    qkv_lines *lines;
    char name[256];
    qkv_data_options o;
    qkv_rows_want want;
    bool pair;
    bool by_content; /* texts alone, of a file that may be anything */
    qkv_format format;
    char what[192]; /* qkv_rows_describe */

    qkv_buf ahead; /* lines looked at, each with a NUL behind it */
    int64_t ahead_begin[QKV_AHEAD], ahead_size[QKV_AHEAD];
    int ahead_count, ahead_used;
    bool ahead_ended; /* the file has no further line */

    int64_t line;  /* number of the line read last */
    int64_t blank; /* the first of the empty lines since the last row, 0: none */
    int64_t at;    /* where the row last returned begins */
    int64_t repaired_rows; /* of the public reader */

    qkv_buf labels, text; /* of the row */
    int64_t label_count;
    bool repaired;

    /* CSV */
    char separator;
    int64_t columns, label_column, text_columns[2]; /* from 0; -1: not wanted */
    qkv_buf cells;                                  /* of the record, each with a NUL behind it */
    qkv_recur_cell *cell;
    int64_t cell_count, cell_capacity;
};

int64_t qkv_lines_size(const qkv_lines *lines); /* of the file, once a line was read; -1: not known */

/* The next line; *text NULL at the end. */
qkv_status qkv_rows_line_next(qkv_rows *r, const char **text, int64_t *length) QKV_MUST_USE;
/* QKV_BAD_DATA "name:line: ...", with `line` or, where that is 0, that of the row at hand. */
qkv_status qkv_rows_fail(qkv_rows *r, int64_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds one label to the row at hand, unless it is there already. */
qkv_status qkv_rows_add_label(qkv_rows *r, const char *label, int64_t size) QKV_MUST_USE;
/* Adds what a column holds: one label, or several with the separator between. */
qkv_status qkv_rows_add_labels(qkv_rows *r, const char *cell, int64_t size) QKV_MUST_USE;
/* Adds the first or second text of a row (of a pair: with a tab between, and the first without tabs). */
qkv_status qkv_rows_add_text(qkv_rows *r, int which, const char *text, int64_t size) QKV_MUST_USE;

/* One row into labels and text; *ended at the end of the file. */
qkv_status qkv_rows_tsv(qkv_rows *r, bool *ended) QKV_MUST_USE;
qkv_status qkv_rows_fasttext(qkv_rows *r, bool *ended) QKV_MUST_USE;
qkv_status qkv_rows_text(qkv_rows *r, bool *ended) QKV_MUST_USE;
qkv_status qkv_rows_jsonl(qkv_rows *r, bool *ended) QKV_MUST_USE;
qkv_status qkv_rows_csv(qkv_rows *r, bool *ended) QKV_MUST_USE;

/* Is there a label of a fastText file in the line? */
bool qkv_fasttext_line(const qkv_rows *r, const char *line, int64_t length);
/* Is the line the header of a CSV file with the columns that are wanted? Finds the separator. */
qkv_status qkv_csv_header(qkv_rows *r, const char *line, int64_t length, bool *is) QKV_MUST_USE;
/* Reads the header and finds the columns. */
qkv_status qkv_csv_start(qkv_rows *r) QKV_MUST_USE;

/* Does the file's name end so, in any case, before a .gz? `ending` with its dot. */
bool qkv_rows_named(const qkv_rows *r, const char *ending);

#endif
