/* CSV with a header, as RFC 4180 has it: a cell in quotes may hold the separator, doubled quotes and line breaks. A line break
 * inside quotes becomes LF whatever it was. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "data/rows_state.h"

static const char separators[] = {0, ',', ';', '\t'}; /* by qkv_separator */

static qkv_status end_cell(qkv_rows *r, int64_t begin) {
    if (r->cell_count == r->cell_capacity) {
        int64_t capacity = r->cell_capacity ? 2 * r->cell_capacity : 16;
        QKV_TRY(qkv_grow(r->ctx, capacity, sizeof *r->cell, &r->cell));
        r->cell_capacity = capacity;
    }
    r->cell[r->cell_count++] = (qkv_recur_cell){begin, r->cells.size - begin};
    return qkv_buf_add(&r->cells, "", 1);
}

/* From behind the opening quote to behind the closing one. `more`: further lines may be read for it. */
static qkv_status quoted(qkv_rows *r, const char **line, int64_t *length, int64_t *at, bool more) {
    int64_t opened = r->line;
    for (;;) {
        const char *from = *line + *at, *quote = memchr(from, '"', (size_t)(*length - *at));
        int64_t size = quote ? quote - from : *length - *at;
        QKV_TRY(qkv_buf_add(&r->cells, from, size));
        *at += size;
        if (quote) {
            ++*at;
            if (*at >= *length || (*line)[*at] != '"') return QKV_OK;
            QKV_TRY(qkv_buf_add(&r->cells, "\"", 1));
            ++*at;
            continue;
        }
        if (more) QKV_TRY(qkv_rows_line_next(r, line, length));
        if (!more || !*line) return qkv_rows_fail(r, opened, "the quote that opens a cell in this line is never closed");
        QKV_TRY(qkv_buf_add(&r->cells, "\n", 1));
        *at = 0;
    }
}

/* Cuts a record into cells; `line` is its first line. */
static qkv_status cut(qkv_rows *r, const char *line, int64_t length, bool more) {
    r->cells.size = r->cell_count = 0;
    for (int64_t at = 0;; at++) {
        int64_t begin = r->cells.size;
        if (at < length && line[at] == '"') {
            at++;
            QKV_TRY(quoted(r, &line, &length, &at, more));
            if (at < length && line[at] != r->separator)
                return qkv_rows_fail(r, r->line, "text behind a closing quote (column %lld); a quote inside quotes is doubled",
                                     (long long)r->cell_count + 1);
        } else {
            const char *stop = at < length ? memchr(line + at, r->separator, (size_t)(length - at)) : NULL;
            int64_t size = stop ? stop - (line + at) : length - at;
            QKV_TRY(qkv_buf_add(&r->cells, line + at, size));
            at += size;
        }
        QKV_TRY(end_cell(r, begin));
        if (at >= length) return QKV_OK;
    }
}

/* ---- the header ---- */

static bool named(const qkv_rows *r, int64_t i, const char *name) {
    return r->cell[i].size == (int64_t)strlen(name) && memcmp(r->cells.p + r->cell[i].begin, name, (size_t)r->cell[i].size) == 0;
}

/* -1: there is none, -2: there are two. */
static int64_t find(const qkv_rows *r, const char *name) {
    int64_t found = -1;
    for (int64_t i = 0; i < r->cell_count; i++)
        if (named(r, i, name)) found = found < 0 ? i : -2;
    return found;
}

static bool has_columns(const qkv_rows *r) {
    return find(r, r->o.label_column) != -1 && find(r, r->o.text_column) != -1 && (!r->pair || find(r, r->o.text_column_2) != -1);
}

/* Of tabs TSV is the better guess, since nobody quotes there. */
qkv_status qkv_csv_header(qkv_rows *r, const char *line, int64_t length, bool *is) {
    static const char tried[] = {',', ';'};
    *is = qkv_rows_named(r, ".csv");
    for (int i = 0; !*is && i < 2; i++) {
        bool given = r->o.separator != QKV_SEPARATOR_AUTO;
        r->separator = given ? separators[r->o.separator] : tried[i];
        if (given && i > 0) break;
        if (!memchr(line, r->separator, (size_t)length)) continue;
        qkv_status status = cut(r, line, length, false);
        if (status == QKV_NO_MEMORY) return status;
        *is = status == QKV_OK && has_columns(r);
    }
    return QKV_OK;
}

/* The one under which the header has the columns that are wanted, else the most frequent one. */
static qkv_status find_separator(qkv_rows *r, const char *line, int64_t length) {
    int64_t most = -1;
    char best = ',';
    for (int i = QKV_SEPARATOR_COMMA; i <= QKV_SEPARATOR_TAB; i++) {
        r->separator = separators[i];
        qkv_status status = cut(r, line, length, false);
        if (status == QKV_NO_MEMORY) return status;
        if (status != QKV_OK) continue;
        int64_t score = find(r, r->o.text_column) != -1 ? INT64_MAX : r->cell_count;
        if (score > most) most = score, best = r->separator;
    }
    r->separator = best;
    return QKV_OK;
}

static qkv_status find_column(qkv_rows *r, const char *option, const char *name, int64_t *column) {
    int64_t number;
    *column = find(r, name);
    if (*column >= 0) return QKV_OK;
    if (*column == -2) return qkv_rows_fail(r, 0, "two columns are called '%s'", name);
    if (qkv_parse_int(name, strlen(name), &number) && number >= 1 && number <= r->cell_count) {
        *column = number - 1;
        return QKV_OK;
    }
    char has[200] = "";
    size_t n = 0;
    for (int64_t i = 0; i < r->cell_count && n < sizeof has - 8; i++)
        n += (size_t)snprintf(has + n, sizeof has - n, "%s%.60s", i ? ", " : "", r->cells.p + r->cell[i].begin);
    return qkv_rows_fail(r, 0, "no column '%.40s' in the header (it has: %s); --%s names another", name, has, option);
}

qkv_status qkv_csv_start(qkv_rows *r) {
    const char *line;
    int64_t length;
    QKV_TRY(qkv_rows_line_next(r, &line, &length));
    r->at = r->line;
    if (r->o.separator == QKV_SEPARATOR_AUTO)
        QKV_TRY(find_separator(r, line, length));
    else
        r->separator = separators[r->o.separator];
    QKV_TRY(cut(r, line, length, true));
    r->columns = r->cell_count;
    r->label_column = r->text_columns[1] = -1;
    if (r->want != QKV_WANT_TEXT) QKV_TRY(find_column(r, "label-column", r->o.label_column, &r->label_column));
    QKV_TRY(find_column(r, "text-column", r->o.text_column, &r->text_columns[0]));
    if (r->pair) QKV_TRY(find_column(r, "text-column-2", r->o.text_column_2, &r->text_columns[1]));
    for (int i = 0; i <= (r->pair ? 1 : 0); i++)
        if (r->text_columns[i] == r->label_column) return qkv_rows_fail(r, 0, "label and text are the same column '%.40s'", r->o.label_column);
    return QKV_OK;
}

/* ---- rows ---- */

qkv_status qkv_rows_csv(qkv_rows *r, bool *ended) {
    const char *line;
    int64_t length;
    do { /* an empty line is a row only where a row may be one empty cell */
        QKV_TRY(qkv_rows_line_next(r, &line, &length));
        if ((*ended = !line)) return QKV_OK;
    } while (length == 0 && r->columns > 1);
    r->at = r->line;
    QKV_TRY(cut(r, line, length, true));
    if (r->cell_count != r->columns)
        return qkv_rows_fail(r, 0, "%lld column%s, expected %lld as in the header", (long long)r->cell_count,
                             r->cell_count == 1 ? "" : "s", (long long)r->columns);
    if (r->label_column >= 0) {
        qkv_recur_cell c = r->cell[r->label_column];
        if (c.size == 0 && r->want == QKV_WANT_LABEL) return qkv_rows_fail(r, 0, "the label is empty");
        QKV_TRY(qkv_rows_add_labels(r, r->cells.p + c.begin, c.size));
    }
    for (int i = 0; i <= (int)r->pair; i++) {
        qkv_recur_cell c = r->cell[r->text_columns[i]];
        QKV_TRY(qkv_rows_add_text(r, i, r->cells.p + c.begin, c.size));
    }
    return QKV_OK;
}
