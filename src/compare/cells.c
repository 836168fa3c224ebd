#include "compare/cells.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "formats/json.h"

enum { MOST_BYTES = 1 << 28, DEPTH = 8 };

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static const char VERSION[] = TEXT(QKV_VERSION_MAJOR) "." TEXT(QKV_VERSION_MINOR) "." TEXT(QKV_VERSION_PATCH);

static qkv_status no_memory(qkv_ctx *ctx) {
    return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory for the cells of an experiment");
}

/* ---- reading ---- */

static qkv_status check_head(qkv_cells *c, const char *line, int64_t size) {
    json_t *head = NULL;
    qkv_status status = qkv_json_parse(c->ctx, c->path, line, size, DEPTH, &head);
    const char *kind = status == QKV_OK ? json_string_value(json_object_get(head, "qkv")) : NULL;
    const char *version = status == QKV_OK ? json_string_value(json_object_get(head, "version")) : NULL;
    if (!kind || !version || strcmp(kind, "cells") != 0)
        status = qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: is not a file of cells of an experiment", c->path);
    else if (strcmp(version, VERSION) != 0)
        status = qkv_fail(c->ctx, QKV_BAD_FORMAT, "%s: cells of qkv %.32s; this is %s, and what they measured may have changed",
                          c->path, version, VERSION);
    json_decref(head);
    return status;
}

/* Where a line is no cell, its number and false. */
static qkv_status read_line(qkv_cells *c, const char *line, int64_t size, bool *good) {
    json_t *cell = NULL;
    *good = qkv_json_parse(c->ctx, c->path, line, size, DEPTH, &cell) == QKV_OK;
    const char *key = *good ? json_string_value(json_object_get(cell, "cell")) : NULL;
    json_t *values = *good ? json_object_get(cell, "values") : NULL;
    *good = key && json_is_object(values);
    int failed = *good ? json_object_set(c->all, key, values) : 0;
    json_decref(cell);
    return failed ? no_memory(c->ctx) : QKV_OK;
}

static qkv_status read_lines(qkv_cells *c, const char *text, int64_t size) {
    int64_t number = 0, bad = 0, first_bad = 0;
    for (int64_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', (size_t)(size - at));
        int64_t length = end ? end - (text + at) : size - at;
        bool good = true;
        if (++number == 1)
            QKV_TRY(check_head(c, text + at, length));
        else if (length > 0)
            QKV_TRY(read_line(c, text + at, length, &good));
        if (!good && bad++ == 0) first_bad = number;
        at += length + 1;
    }
    if (bad)
        qkv_log(c->ctx, "%s: line %lld%s no cell; measured anew", c->path, (long long)first_bad,
                bad > 1 ? " and others are" : " is");
    return QKV_OK;
}

qkv_status qkv_cells_open(qkv_ctx *ctx, const char *path, qkv_cells *c) {
    char *text, first[2];
    int64_t size;
    *c = (qkv_cells){.ctx = ctx, .path = path, .all = json_object()};
    if (!c->all) return no_memory(ctx);
    if (!path || !qkv_file_peek(path, first, sizeof first)) return QKV_OK;
    QKV_TRY(qkv_file_read(ctx, path, MOST_BYTES, &text, &size));
    qkv_status status = size > 0 ? read_lines(c, text, size) : QKV_OK;
    qkv_free(ctx, text);
    return status;
}

void qkv_cells_close(qkv_cells *c) {
    json_decref(c->all);
    c->all = NULL;
}

/* ---- writing ---- */

static qkv_status add_line(json_t *line, qkv_buf *out) {
    if (!line) return no_memory(out->ctx);
    qkv_status status = qkv_json_print(line, out);
    json_decref(line);
    return status == QKV_OK ? qkv_buf_add(out, "\n", 1) : status;
}

static qkv_status print_all(const qkv_cells *c, qkv_buf *out) {
    const char *key;
    json_t *values;
    QKV_TRY(add_line(json_pack("{s:s, s:s}", "qkv", "cells", "version", VERSION), out));
    json_object_foreach(c->all, key, values) QKV_TRY(add_line(json_pack("{s:s, s:O}", "cell", key, "values", values), out));
    return QKV_OK;
}

static qkv_status write_all(const qkv_cells *c) {
    qkv_buf text = {.ctx = c->ctx};
    qkv_output *output;
    qkv_status status = print_all(c, &text);
    if (status == QKV_OK) status = qkv_output_open(c->ctx, c->path, &output);
    if (status == QKV_OK) {
        status = qkv_output_write(output, text.p, text.size);
        if (status == QKV_OK)
            status = qkv_output_commit(output);
        else
            qkv_output_discard(output);
    }
    qkv_buf_free(&text);
    return status;
}

const json_t *qkv_cells_get(const qkv_cells *c, const char *key) {
    return json_object_get(c->all, key);
}

qkv_status qkv_cells_put(qkv_cells *c, const char *key, json_t *values) {
    if (json_object_set_new(c->all, key, values) != 0) return no_memory(c->ctx);
    return c->path ? write_all(c) : QKV_OK;
}
