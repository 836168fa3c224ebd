/* The public line reader: qkv/data.h. */
#include "qkv/data.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "data/rows_state.h"

enum { CHUNK = 1 << 16 };

struct qkv_lines {
    qkv_ctx *ctx;
    qkv_input *input;
    char *buffer; /* always one byte of room behind `capacity` for a NUL */
    int64_t capacity;
    int64_t begin, scanned, end; /* not yet returned: begin..end-1; no line break before `scanned` */
    int64_t number;
    bool started, ended;
    qkv_status failed; /* found while looking ahead; told by the next call */
    char message[512];
};

qkv_status qkv_lines_open(qkv_ctx *ctx, const char *path, qkv_lines **lines) {
    qkv_lines *l;
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!lines) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no place for the reader of lines: lines is NULL");
    *lines = NULL;
    if (!path) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "lines are read from a path, not from NULL");
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *l, &l));
    l->ctx = ctx;
    qkv_status status = qkv_input_open(ctx, path, &l->input);
    if (status != QKV_OK) {
        qkv_free(ctx, l);
        return status;
    }
    *lines = l;
    return QKV_OK;
}

void qkv_lines_close(qkv_lines *l) {
    if (!l) return;
    qkv_input_close(l->input);
    qkv_free(l->ctx, l->buffer);
    qkv_free(l->ctx, l);
}

static qkv_status read_more(qkv_lines *l) {
    if (l->begin > 0 && (l->begin == l->end || l->begin >= l->capacity / 2)) {
        memmove(l->buffer, l->buffer + l->begin, (size_t)(l->end - l->begin));
        l->scanned -= l->begin, l->end -= l->begin, l->begin = 0;
    }
    if (l->end == l->capacity) {
        int64_t capacity = l->capacity ? 2 * l->capacity : CHUNK;
        QKV_TRY(qkv_grow(l->ctx, capacity + 1, 1, &l->buffer));
        l->capacity = capacity;
    }
    int64_t got;
    QKV_TRY(qkv_input_read(l->input, l->buffer + l->end, l->capacity - l->end, &got));
    l->ended = got == 0;
    l->end += got;
    return QKV_OK;
}

/* The byte order mark can be recognised once three bytes are there, or as soon as one does not fit. */
static bool start(qkv_lines *l) {
    static const char mark[] = "\xEF\xBB\xBF";
    int64_t have = l->end - l->begin;
    int64_t same = 0;
    while (same < have && same < 3 && l->buffer[l->begin + same] == mark[same]) same++;
    if (same == have && have < 3 && !l->ended) return false;
    if (same == 3) l->begin += 3, l->scanned = l->begin;
    l->started = true;
    return true;
}

/* True once a whole line is in the buffer, with *stop at its line break or at the end of the input. */
static bool find_line(qkv_lines *l, int64_t *stop) {
    if (!l->started && !start(l)) return false;
    const char *at = l->end > l->scanned ? memchr(l->buffer + l->scanned, '\n', (size_t)(l->end - l->scanned)) : NULL;
    l->scanned = at ? at - l->buffer : l->end;
    *stop = l->scanned;
    return at || l->ended;
}

qkv_status qkv_lines_next(qkv_lines *l, const char **text, int64_t *length) {
    int64_t stop;
    if (!l) return QKV_BAD_ARGUMENT;
    if (!text || !length) return qkv_fail(l->ctx, QKV_BAD_ARGUMENT, "there is no place for a line: %s is NULL", text ? "length" : "text");
    *text = NULL, *length = 0;
    if (l->failed != QKV_OK) return qkv_fail(l->ctx, l->failed, "%s", l->message);
    while (!find_line(l, &stop)) QKV_TRY(read_more(l));
    if (l->begin == l->end) return QKV_OK; /* only at the end of the input */
    int64_t begin = l->begin, last = stop;
    if (stop < l->end) {
        l->begin = l->scanned = stop + 1;
        if (last > begin && l->buffer[last - 1] == '\r') last--;
    } else {
        l->begin = l->scanned = stop;
    }
    l->buffer[last] = 0;
    l->number++;
    *text = l->buffer + begin, *length = last - begin;
    return QKV_OK;
}

int qkv_lines_ready(qkv_lines *l) {
    int64_t stop;
    if (!l) return 0;
    while (l->failed == QKV_OK && !find_line(l, &stop)) {
        if (!qkv_input_ready(l->input)) return 0;
        l->failed = read_more(l);
        if (l->failed != QKV_OK) memcpy(l->message, l->ctx->message, sizeof l->message);
    }
    return 1;
}

int64_t qkv_lines_number(const qkv_lines *l) {
    return l ? l->number : 0;
}

const char *qkv_line_column(const char *line, int64_t length, int64_t column, int64_t *column_length) {
    if (!column_length) return NULL;
    *column_length = 0;
    if (!line || length < 0 || column < 1) return NULL;
    for (const char *end = line + length;; line++) {
        const char *tab = line < end ? memchr(line, '\t', (size_t)(end - line)) : NULL;
        if (column-- == 1) {
            *column_length = (tab ? tab : end) - line;
            return line;
        }
        if (!tab) return NULL;
        line = tab;
    }
}

int64_t qkv_lines_size(const qkv_lines *l) { return qkv_input_size(l->input); }
