/* The frame of the readers: opening, looking ahead, guessing the format, handing out rows. */
#include "data/rows.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/options.h"
#include "data/rows_state.h"
#include "data/sniff.h"
#include "text/utf8.h"

/* ---- opening ---- */

static void set_name(qkv_rows *r, const char *path) {
    if (strcmp(path, "-") == 0) path = "standard input";
    size_t size = strlen(path), room = sizeof r->name - 1;
    if (size <= room) {
        memcpy(r->name, path, size + 1);
    } else { /* the end of a long path says more than its start */
        memcpy(r->name, "...", 3);
        memcpy(r->name + 3, path + size - (room - 3), room - 3 + 1);
    }
}

qkv_status qkv_rows_start(qkv_ctx *ctx, const char *path, const qkv_data_options *options, qkv_rows_want want, bool pair,
                          qkv_rows **rows) {
    qkv_rows *r;
    *rows = NULL;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *r, &r));
    r->ctx = r->ahead.ctx = r->labels.ctx = r->text.ctx = r->cells.ctx = ctx;
    r->want = want;
    r->pair = pair;
    set_name(r, path);
    qkv_status status = qkv_data_options_fill(ctx, options, &r->o);
    if (status == QKV_OK && want != QKV_WANT_TEXT && r->o.format == QKV_FORMAT_TEXT)
        status = qkv_fail(ctx, QKV_BAD_ARGUMENT, "format=text has no labels: it is for prediction only");
    if (status == QKV_OK) status = qkv_lines_open(ctx, path, &r->lines);
    if (status != QKV_OK) {
        qkv_rows_close(r);
        return status;
    }
    *rows = r;
    return QKV_OK;
}

/* Of lines that are nothing but labels and text, which change their tab and their line break for a NUL. */
int64_t qkv_rows_size(const qkv_rows *r) {
    const bool plain = r->format == QKV_FORMAT_TSV || r->format == QKV_FORMAT_TEXT;
    const int64_t size = plain ? qkv_lines_size(r->lines) : -1;
    return size < 0 ? -1 : size + 2;
}

void qkv_rows_close(qkv_rows *r) {
    if (!r) return;
    qkv_lines_close(r->lines);
    qkv_buf_free(&r->ahead);
    qkv_buf_free(&r->labels);
    qkv_buf_free(&r->text);
    qkv_buf_free(&r->cells);
    qkv_free(r->ctx, r->cell);
    qkv_free(r->ctx, r);
}

/* ---- lines, with a few looked at before they are used ---- */

qkv_status qkv_rows_line_next(qkv_rows *r, const char **text, int64_t *length) {
    if (r->ahead_used < r->ahead_count) {
        *text = r->ahead.p + r->ahead_begin[r->ahead_used], *length = r->ahead_size[r->ahead_used];
        r->ahead_used++, r->line++;
        return QKV_OK;
    }
    if (r->ahead_ended) {
        *text = NULL, *length = 0;
        return QKV_OK;
    }
    QKV_TRY(qkv_lines_next(r->lines, text, length));
    if (*text) r->line++;
    return QKV_OK;
}

/* Line `index` (from 0) of those that lie ahead; *text NULL where the file has no such line. */
static qkv_status look(qkv_rows *r, int index, const char **text, int64_t *length) {
    *text = NULL, *length = 0;
    while (r->ahead_count <= index && !r->ahead_ended) {
        const char *line;
        int64_t size;
        QKV_TRY(qkv_lines_next(r->lines, &line, &size));
        if (!line) {
            r->ahead_ended = true;
            return QKV_OK;
        }
        r->ahead_begin[r->ahead_count] = r->ahead.size, r->ahead_size[r->ahead_count] = size;
        QKV_TRY(qkv_buf_add(&r->ahead, line, size));
        QKV_TRY(qkv_buf_add(&r->ahead, "", 1));
        r->ahead_count++;
    }
    if (index < r->ahead_count) *text = r->ahead.p + r->ahead_begin[index], *length = r->ahead_size[index];
    return QKV_OK;
}

qkv_status qkv_rows_fail(qkv_rows *r, int64_t line, const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return qkv_fail(r->ctx, QKV_BAD_DATA, "%s:%lld: %s", r->name, (long long)(line ? line : r->at), what);
}

/* ---- the parts of a row ---- */

static bool have_label(const qkv_rows *r, const char *label, int64_t size) {
    const char *at = r->labels.p;
    for (int64_t i = 0; i < r->label_count; i++) {
        int64_t n = (int64_t)strlen(at);
        if (n == size && memcmp(at, label, (size_t)size) == 0) return true;
        at += n + 1;
    }
    return false;
}

qkv_status qkv_rows_add_label(qkv_rows *r, const char *label, int64_t size) {
    if (size == 0) return qkv_rows_fail(r, 0, "a label is empty");
    for (int64_t i = 0; i < size; i++) {
        if (label[i] != 0 && label[i] != '\t' && label[i] != '\n' && label[i] != '\r') continue;
        return qkv_rows_fail(r, 0, "the label holds a %s", !label[i] ? "NUL byte" : label[i] == '\t' ? "tab" : "line break");
    }
    if (have_label(r, label, size)) return QKV_OK;
    if (r->label_count == QKV_ROW_LABELS) return qkv_rows_fail(r, 0, "more than %d labels in one row", (int)QKV_ROW_LABELS);
    QKV_TRY(qkv_buf_add(&r->labels, label, size));
    QKV_TRY(qkv_buf_add(&r->labels, "", 1));
    r->label_count++;
    return QKV_OK;
}

static const char *trim(const char *text, int64_t *size) {
    while (*size > 0 && *text == ' ') text++, --*size;
    while (*size > 0 && text[*size - 1] == ' ') --*size;
    return text;
}

static bool at_mark(const char *cell, int64_t size, int64_t at, const char *mark, int64_t mark_size) {
    return at + mark_size <= size && memcmp(cell + at, mark, (size_t)mark_size) == 0;
}

/* One label of a cell, from *at to the next separator or the end, into `one`; *at moves behind the separator. A backslash before the
 * separator or another backslash is taken away; other backslashes stay. */
static qkv_status next_label(const qkv_rows *r, const char *cell, int64_t size, int64_t *at, qkv_buf *one) {
    const char *mark = r->o.label_separator;
    int64_t mark_size = (int64_t)strlen(mark);
    one->size = 0;
    while (*at < size && !at_mark(cell, size, *at, mark, mark_size)) {
        int64_t n = 1;
        if (cell[*at] == '\\') {
            bool twice = *at + 1 < size && cell[*at + 1] == '\\', escapes = at_mark(cell, size, *at + 1, mark, mark_size);
            *at += twice || escapes;
            if (escapes) n = mark_size;
        }
        QKV_TRY(qkv_buf_add(one, cell + *at, n));
        *at += n;
    }
    *at += *at < size ? mark_size : 1; /* one past the end: no label follows */
    return QKV_OK;
}

/* "a, b\\,c" are two labels. */
qkv_status qkv_rows_add_labels(qkv_rows *r, const char *cell, int64_t size) {
    if (r->want == QKV_WANT_TEXT) return QKV_OK;
    if (r->want == QKV_WANT_LABEL) return qkv_rows_add_label(r, cell, size);
    int64_t left = size;
    trim(cell, &left);
    if (left == 0) return QKV_OK; /* no label at all */
    qkv_buf one = {.ctx = r->ctx};
    qkv_status status = QKV_OK;
    for (int64_t at = 0; at <= size && status == QKV_OK;) {
        status = next_label(r, cell, size, &at, &one);
        int64_t n = one.size;
        const char *label = trim(one.p ? one.p : "", &n);
        if (status == QKV_OK) status = qkv_rows_add_label(r, label, n);
    }
    qkv_buf_free(&one);
    return status;
}

qkv_status qkv_rows_add_text(qkv_rows *r, int which, const char *text, int64_t size) {
    if (which > 0) QKV_TRY(qkv_buf_add(&r->text, "\t", 1));
    int64_t begin = r->text.size;
    QKV_TRY(qkv_buf_add(&r->text, text, size));
    for (int64_t i = begin; r->pair && which == 0 && i < r->text.size; i++)
        if (r->text.p[i] == '\t') r->text.p[i] = ' ';
    return QKV_OK;
}

/* ---- the format ---- */

static const char *const format_names[] = {"", "TSV", "fastText", "JSON lines", "CSV", "plain text"};

static const char *expected(const qkv_rows *r) {
    if (r->want == QKV_WANT_TEXT) return "UTF-8 text";
    return r->o.format == QKV_FORMAT_AUTO || r->o.format == QKV_FORMAT_TSV ? "UTF-8 lines label<TAB>text" : "UTF-8 text";
}

/* Prediction answers every line, so what is no text is only named there. */
static qkv_status sniff(qkv_rows *r, const char *text, int64_t length) {
    char what[96];
    if (!text || !qkv_sniff(text, length, what, sizeof what)) return QKV_OK;
    if (r->want == QKV_WANT_TEXT && !r->by_content && (r->format == QKV_FORMAT_TEXT || r->o.format == QKV_FORMAT_TEXT)) {
        qkv_log(r->ctx, "%s: this looks like %s; its lines are read as text all the same", r->name, what);
        return QKV_OK;
    }
    return qkv_fail(r->ctx, QKV_BAD_DATA, "%s: this is %s; expected %s", r->name, what, expected(r));
}

static bool is_object(const char *line, int64_t length) {
    while (length > 0 && (*line == ' ' || *line == '\t')) line++, length--;
    const char *next = line + 1;
    if (length < 2 || *line != '{') return false;
    for (length--; length > 0 && (*next == ' ' || *next == '\t'); length--) next++;
    return length > 0 && (*next == '"' || *next == '}');
}

bool qkv_rows_named(const qkv_rows *r, const char *ending) {
    size_t n = strlen(r->name), size = strlen(ending);
    if (n > 3 && strcmp(r->name + n - 3, ".gz") == 0) n -= 3;
    return n > size && strncasecmp(r->name + n - size, ending, size) == 0;
}

/* A text may look like anything, and every line of a plain file is to be answered: only the name says that a file is another. */
static void guess_by_name(qkv_rows *r) {
    if (qkv_rows_named(r, ".csv")) r->format = QKV_FORMAT_CSV;
    else if (qkv_rows_named(r, ".jsonl") || qkv_rows_named(r, ".ndjson")) r->format = QKV_FORMAT_JSONL;
    else r->format = QKV_FORMAT_TEXT;
}

/* The first line that says something decides; one that says nothing is TSV, or, where a text may stand alone, text. *line is its
 * number. */
static qkv_status guess(qkv_rows *r, int *line) {
    *line = 1;
    for (int i = 0; i < QKV_AHEAD; i++) {
        const char *text;
        int64_t length;
        bool header = false;
        QKV_TRY(look(r, i, &text, &length));
        if (!text) break;
        *line = i + 1;
        if (i == 0) QKV_TRY(qkv_csv_header(r, text, length, &header));
        if (header)
            r->format = QKV_FORMAT_CSV;
        else if (is_object(text, length))
            r->format = QKV_FORMAT_JSONL;
        else if (qkv_fasttext_line(r, text, length))
            r->format = QKV_FORMAT_FASTTEXT;
        else if (memchr(text, '\t', (size_t)length))
            r->format = QKV_FORMAT_TSV;
        if (r->format != QKV_FORMAT_AUTO) return QKV_OK;
        if (r->by_content && length > 0) break;
    }
    *line = 1;
    r->format = r->by_content ? QKV_FORMAT_TEXT : QKV_FORMAT_TSV;
    return QKV_OK;
}

/* "label TAB text" is what nobody means as a row. */
static void warn_of_header(const qkv_rows *r, const char *line, int64_t length) {
    const char *tab = line ? memchr(line, '\t', (size_t)length) : NULL;
    if (r->format != QKV_FORMAT_TSV || r->want == QKV_WANT_TEXT || !tab) return;
    const char *names[] = {r->o.label_column, r->o.text_column};
    for (int i = 0; i < 2; i++) {
        const char *first = names[i], *second = names[1 - i];
        if (strlen(first) != (size_t)(tab - line) || memcmp(line, first, strlen(first)) != 0) continue;
        if ((int64_t)strlen(second) != length - (tab - line) - 1 || memcmp(tab + 1, second, strlen(second)) != 0) continue;
        qkv_log(r->ctx, "%s:1: read as a row, though it looks like a header; --format csv --separator tab reads it as one",
                r->name);
    }
}

static void describe(qkv_rows *r, bool guessed, int line) {
    size_t n = (size_t)snprintf(r->what, sizeof r->what, "%s", format_names[r->format]);
    if (r->format == QKV_FORMAT_CSV)
        n += (size_t)snprintf(r->what + n, sizeof r->what - n, ", separator %s",
                              r->separator == ','   ? "comma"
                              : r->separator == ';' ? "semicolon"
                                                    : "tab");
    if (guessed && (r->want != QKV_WANT_TEXT || r->by_content)) snprintf(r->what + n, sizeof r->what - n, ", guessed from line %d", line);
    else if (guessed && r->format != QKV_FORMAT_TEXT) snprintf(r->what + n, sizeof r->what - n, ", by the name of the file");
}

static qkv_status begin(qkv_rows *r) {
    const char *text;
    int64_t length;
    int line = 1;
    bool guessed = r->o.format == QKV_FORMAT_AUTO;
    QKV_TRY(look(r, 0, &text, &length));
    const bool by_content = r->want != QKV_WANT_TEXT || r->by_content;
    if (guessed && !by_content)
        guess_by_name(r);
    else if (guessed)
        QKV_TRY(guess(r, &line));
    else
        r->format = (qkv_format)r->o.format;
    QKV_TRY(look(r, 0, &text, &length)); /* the lines may have moved */
    QKV_TRY(sniff(r, text, length));
    warn_of_header(r, text, length);
    if (r->format == QKV_FORMAT_CSV && text) QKV_TRY(qkv_csv_start(r));
    describe(r, guessed, line);
    return QKV_OK;
}

/* ---- rows ---- */

static qkv_status read_row(qkv_rows *r, bool *ended) {
    switch (r->format) {
    case QKV_FORMAT_FASTTEXT:
        return qkv_rows_fasttext(r, ended);
    case QKV_FORMAT_JSONL:
        return qkv_rows_jsonl(r, ended);
    case QKV_FORMAT_CSV:
        return qkv_rows_csv(r, ended);
    case QKV_FORMAT_TEXT:
        return qkv_rows_text(r, ended);
    case QKV_FORMAT_TSV:
    case QKV_FORMAT_AUTO:
        break;
    }
    return qkv_rows_tsv(r, ended);
}

qkv_status qkv_rows_read(qkv_rows *r, qkv_record *record) {
    bool ended = false;
    *record = (qkv_record){.labels = ""};
    if (r->format == QKV_FORMAT_AUTO) QKV_TRY(begin(r));
    r->labels.size = r->text.size = r->label_count = 0;
    r->repaired = false;
    QKV_TRY(read_row(r, &ended));
    if (ended) return QKV_OK;
    if (r->want == QKV_WANT_LABEL && r->label_count != 1) {
        if (r->label_count == 0) return qkv_rows_fail(r, 0, "no label");
        return qkv_rows_fail(r, 0, "%lld labels, expected 1 (a model trained with --multi-label takes several)",
                             (long long)r->label_count);
    }
    QKV_TRY(qkv_buf_add(&r->text, "", 1));
    *record = (qkv_record){.labels = r->label_count ? r->labels.p : "",
                           .labels_size = r->label_count ? r->labels.size - 1 : 0,
                           .label_count = r->label_count,
                           .text = r->text.p,
                           .text_size = r->text.size - 1,
                           .line = r->at,
                           .repaired = r->repaired};
    return QKV_OK;
}

void qkv_rows_by_content(qkv_rows *r) {
    r->by_content = true;
}

const char *qkv_rows_name(const qkv_rows *r) {
    return r->name;
}

/* ---- the public face ---- */

qkv_status qkv_rows_open(qkv_ctx *ctx, const char *path, const qkv_data_options *options, int pair, qkv_rows **rows) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!rows) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no place for the reader of rows: rows is NULL");
    *rows = NULL;
    if (!path) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "rows are read from a path, not from NULL");
    return qkv_rows_start(ctx, path, options, QKV_WANT_TEXT, pair != 0, rows);
}

qkv_status qkv_rows_next(qkv_rows *r, const char **text, int64_t *length) {
    qkv_record record;
    if (!r) return QKV_BAD_ARGUMENT;
    if (!text || !length)
        return qkv_fail(r->ctx, QKV_BAD_ARGUMENT, "there is no place for a row: %s is NULL", text ? "length" : "text");
    *text = NULL, *length = 0;
    QKV_TRY(qkv_rows_read(r, &record));
    if (record.text) r->repaired_rows += record.repaired || qkv_utf8_faults(record.text, record.text_size) > 0;
    *text = record.text, *length = record.text_size;
    return QKV_OK;
}

int qkv_rows_ready(qkv_rows *r) {
    return r && (r->ahead_used < r->ahead_count || r->ahead_ended || qkv_lines_ready(r->lines));
}

int64_t qkv_rows_line(const qkv_rows *r) {
    return r ? r->at : 0;
}
qkv_format qkv_rows_format(const qkv_rows *r) {
    return r ? r->format : QKV_FORMAT_AUTO;
}
const char *qkv_rows_describe(const qkv_rows *r) {
    return r ? r->what : "";
}

int64_t qkv_rows_repaired(const qkv_rows *r) { return r ? r->repaired_rows : 0; }
