#include "compare/cells.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
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

/* The line of a cell, with a sum of all that stands in front of it: what was damaged, or changed by hand, is no measurement. */
static qkv_status print_cell(const char *key, json_t *values, qkv_buf *out) {
    const int64_t from = out->size;
    json_t *line = json_pack("{s:s, s:O}", "cell", key, "values", values);
    if (!line) return no_memory(out->ctx);
    const qkv_status status = qkv_json_print(line, out);
    json_decref(line);
    QKV_TRY(status);
    const uint64_t sum = qkv_hash64(out->p + from, (size_t)(out->size - from), 0);
    out->size--; /* the brace comes again */
    return qkv_buf_addf(out, ",\"sum\":\"%016llx\"}\n", (unsigned long long)sum);
}

/* Is the line what print_cell makes of its key and values? */
static qkv_status check_cell(qkv_cells *c, const char *line, int64_t size, const char *key, json_t *values, bool *good) {
    qkv_buf again = {.ctx = c->ctx};
    const qkv_status status = print_cell(key, values, &again);
    *good = status == QKV_OK && again.size == size + 1 && memcmp(again.p, line, (size_t)size) == 0;
    qkv_buf_free(&again);
    return status;
}

/* Adds a cell that is not there yet. */
static qkv_status read_line(qkv_cells *c, const char *line, int64_t size, bool *good) {
    json_t *cell = NULL;
    *good = false;
    qkv_status status = qkv_json_parse(c->ctx, c->path, line, size, DEPTH, &cell);
    if (status != QKV_OK) return status == QKV_NO_MEMORY ? status : QKV_OK;
    const char *key = json_string_value(json_object_get(cell, "cell"));
    json_t *values = json_object_get(cell, "values");
    if (key && json_is_object(values)) status = check_cell(c, line, size, key, values, good);
    if (*good && !json_object_get(c->all, key) && json_object_set(c->all, key, values) != 0) status = no_memory(c->ctx);
    json_decref(cell);
    return status;
}

static qkv_status read_lines(qkv_cells *c, const char *text, int64_t size, int64_t *bad, int64_t *first_bad) {
    int64_t number = 0;
    for (int64_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', (size_t)(size - at));
        int64_t length = end ? end - (text + at) : size - at;
        bool good = true;
        if (++number == 1)
            QKV_TRY(check_head(c, text + at, length));
        else if (length > 0)
            QKV_TRY(read_line(c, text + at, length, &good));
        if (!good && (*bad)++ == 0) *first_bad = number;
        at += length + 1;
    }
    return QKV_OK;
}

/* Adds the cells of the file that are not there yet; of lines that are none, how many and the first. */
static qkv_status read_file(qkv_cells *c, int64_t *bad, int64_t *first_bad) {
    char *text, first[2];
    int64_t size;
    *bad = *first_bad = 0;
    if (!qkv_file_peek(c->path, first, sizeof first)) return QKV_OK;
    QKV_TRY(qkv_file_read(c->ctx, c->path, MOST_BYTES, &text, &size));
    qkv_status status = read_lines(c, text, size, bad, first_bad);
    qkv_free(c->ctx, text);
    return status;
}

qkv_status qkv_cells_open(qkv_ctx *ctx, const char *path, qkv_cells *c) {
    int64_t bad, first_bad;
    *c = (qkv_cells){.ctx = ctx, .path = path, .all = json_object(), .kept = path != NULL};
    if (!c->all) return no_memory(ctx);
    if (!path) return QKV_OK;
    QKV_TRY(read_file(c, &bad, &first_bad));
    if (bad)
        qkv_log(c->ctx, "%s: line %lld%s no whole cell; passed over", c->path, (long long)first_bad,
                bad > 1 ? " and others are" : " is");
    return QKV_OK;
}

void qkv_cells_close(qkv_cells *c) {
    json_decref(c->all);
    c->all = NULL;
}

/* ---- writing ---- */

static qkv_status print_all(const qkv_cells *c, qkv_buf *out) {
    const char *key;
    json_t *values;
    QKV_TRY(qkv_buf_addf(out, "{\"qkv\":\"cells\",\"version\":\"%s\"}\n", VERSION));
    json_object_foreach(c->all, key, values) QKV_TRY(print_cell(key, values, out));
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

/* With what others have put there meanwhile. */
static qkv_status merge_and_write(qkv_cells *c) {
    int64_t bad, first_bad;
    QKV_TRY(read_file(c, &bad, &first_bad));
    return write_all(c);
}

qkv_status qkv_cells_keep(qkv_cells *c) {
    if (!c->path) return QKV_OK;
    const int lock = qkv_folder_lock(c->path);
    const qkv_status status = merge_and_write(c);
    qkv_folder_unlock(lock);
    c->kept = status == QKV_OK;
    if (status == QKV_OK || status == QKV_NO_MEMORY) return status;
    if (!c->warned) qkv_log(c->ctx, "what is done is not kept: %s", c->ctx->message);
    c->warned = true;
    return QKV_OK;
}

const json_t *qkv_cells_get(const qkv_cells *c, const char *key) {
    return json_object_get(c->all, key);
}

void qkv_cells_drop(qkv_cells *c, const char *key) {
    json_object_del(c->all, key);
}

int64_t qkv_cells_count(const qkv_cells *c) {
    return (int64_t)json_object_size(c->all);
}

qkv_status qkv_cells_put(qkv_cells *c, const char *key, json_t *values) {
    if (json_object_set_new(c->all, key, values) != 0) return no_memory(c->ctx);
    return qkv_cells_keep(c);
}
