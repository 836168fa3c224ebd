/* The formats of a row a line: TSV, fastText, plain text. */
#include <stdio.h>
#include <string.h>

#include "data/rows_state.h"

/* The next line that is not empty. Empty lines at the end of the file are nothing; before a row they are an error. */
static qkv_status full_line(qkv_rows *r, const char *expected, const char **text, int64_t *length) {
    for (;;) {
        QKV_TRY(qkv_rows_line_next(r, text, length));
        if (!*text) return QKV_OK;
        r->at = r->line;
        if (*length > 0) break;
        if (r->blank == 0) r->blank = r->line;
    }
    if (r->blank == 0) return QKV_OK;
    int64_t blank = r->blank;
    r->blank = 0;
    return qkv_rows_fail(r, blank, "empty line, expected %s", expected);
}

qkv_status qkv_rows_tsv(qkv_rows *r, bool *ended) {
    const char *text;
    int64_t length;
    const char *expected = r->pair ? "3 (label<TAB>text<TAB>text)" : "2 (label<TAB>text)";
    QKV_TRY(full_line(r, r->pair ? "3 columns (label<TAB>text<TAB>text)" : "2 columns (label<TAB>text)", &text, &length));
    if ((*ended = !text)) return QKV_OK;
    const char *tab = memchr(text, '\t', (size_t)length);
    if (!tab) return qkv_rows_fail(r, 0, "1 column, expected %s", expected);
    int64_t label = tab - text;
    const char *rest = tab + 1;
    int64_t left = length - label - 1;
    if (label == 0 && r->want == QKV_WANT_LABEL) return qkv_rows_fail(r, 0, "the label before the tab is empty");
    QKV_TRY(qkv_rows_add_labels(r, text, label));
    if (!r->pair) return qkv_rows_add_text(r, 0, rest, left);
    const char *second = memchr(rest, '\t', (size_t)left);
    if (!second) return qkv_rows_fail(r, 0, "2 columns, expected %s", expected);
    if (memchr(second + 1, '\t', (size_t)(left - (second - rest) - 1)))
        return qkv_rows_fail(r, 0, "more than 3 columns, expected %s", expected);
    QKV_TRY(qkv_rows_add_text(r, 0, rest, second - rest));
    return qkv_rows_add_text(r, 1, second + 1, left - (second - rest) - 1);
}

/* ---- fastText: words that begin with the prefix are labels, wherever they stand ---- */

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

/* The word at or behind *at: begin, size; false if there is none. *at moves behind it. */
static bool word(const char *line, int64_t length, int64_t *at, int64_t *begin) {
    while (*at < length && is_space(line[*at])) ++*at;
    *begin = *at;
    while (*at < length && !is_space(line[*at])) ++*at;
    return *at > *begin;
}

static bool has_prefix(const qkv_rows *r, const char *text, int64_t size) {
    int64_t n = (int64_t)strlen(r->o.label_prefix);
    return size >= n && memcmp(text, r->o.label_prefix, (size_t)n) == 0;
}

bool qkv_fasttext_line(const qkv_rows *r, const char *line, int64_t length) {
    int64_t at = 0, begin;
    return word(line, length, &at, &begin) && has_prefix(r, line + begin, at - begin);
}

/* Text between labels stays as it is; the white space around a label goes, but for one space between two parts. */
static qkv_status split_words(qkv_rows *r, const char *line, int64_t length) {
    int64_t at = 0, begin, from = -1, to = 0, prefix = (int64_t)strlen(r->o.label_prefix);
    while (word(line, length, &at, &begin)) {
        if (!has_prefix(r, line + begin, at - begin)) {
            if (from < 0) from = begin;
            to = at;
            continue;
        }
        if (from >= 0) {
            if (r->text.size > 0) QKV_TRY(qkv_buf_add(&r->text, " ", 1));
            QKV_TRY(qkv_buf_add(&r->text, line + from, to - from));
        }
        from = -1;
        if (r->want != QKV_WANT_TEXT) QKV_TRY(qkv_rows_add_label(r, line + begin + prefix, at - begin - prefix));
    }
    if (from < 0) return QKV_OK;
    if (r->text.size > 0) QKV_TRY(qkv_buf_add(&r->text, " ", 1));
    return qkv_buf_add(&r->text, line + from, to - from);
}

qkv_status qkv_rows_fasttext(qkv_rows *r, bool *ended) {
    const char *text;
    int64_t length;
    if (r->pair) return qkv_fail(r->ctx, QKV_BAD_ARGUMENT, "%s: fastText files have one text a row, and pairs need two", r->name);
    if (r->want == QKV_WANT_TEXT) {
        QKV_TRY(qkv_rows_line_next(r, &text, &length));
        r->at = r->line;
    } else {
        char expected[192];
        snprintf(expected, sizeof expected, "%.120s<label> text", r->o.label_prefix);
        QKV_TRY(full_line(r, expected, &text, &length));
    }
    if ((*ended = !text)) return QKV_OK;
    QKV_TRY(split_words(r, text, length));
    if (r->want == QKV_WANT_LABEL && r->label_count == 0)
        return qkv_rows_fail(r, 0, "no label: no word begins with %s", r->o.label_prefix);
    return QKV_OK;
}

qkv_status qkv_rows_text(qkv_rows *r, bool *ended) {
    const char *text;
    int64_t length;
    QKV_TRY(qkv_rows_line_next(r, &text, &length));
    r->at = r->line;
    if ((*ended = !text)) return QKV_OK;
    return qkv_buf_add(&r->text, text, length);
}
