/* JSON lines: an object a line, with the label and the text in two of its fields. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "data/rows_state.h"
#include "formats/json.h"
#include "text/utf8.h"

enum { DEPTH = 64 };

/* JSON is UTF-8 or nothing: each bad sequence becomes U+FFFD. Into r->cells, which this format does not use otherwise. */
static qkv_status repair(qkv_rows *r, const char **line, int64_t *length) {
    int64_t from = 0, at = 0;
    r->cells.size = 0;
    while (at < *length) {
        int32_t cp;
        int size = qkv_utf8_next(*line + at, *length - at, &cp);
        if (size < 0) {
            QKV_TRY(qkv_buf_add(&r->cells, *line + from, at - from));
            QKV_TRY(qkv_buf_add(&r->cells, "\xEF\xBF\xBD", 3));
            at -= size;
            from = at;
            r->repaired = true;
        } else {
            at += size;
        }
    }
    if (!r->repaired) return QKV_OK;
    QKV_TRY(qkv_buf_add(&r->cells, *line + from, at - from));
    *line = r->cells.p, *length = r->cells.size;
    return QKV_OK;
}

static const char *kind(const json_t *v) {
    static const char *const names[] = {"an object", "an array", "a string", "a number", "a number", "true", "false", "null"};
    return names[json_typeof(v)];
}

/* What there is instead of a field. */
static qkv_status no_field(qkv_rows *r, const json_t *object, const char *option, const char *name) {
    char has[200] = "";
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (n < sizeof has - 8) n += (size_t)snprintf(has + n, sizeof has - n, "%s%.60s", n ? ", " : "", key);
    }
    return qkv_rows_fail(r, 0, "no field '%.40s' (there is: %s); --%s names another", name, n ? has : "nothing", option);
}

static qkv_status add_text(qkv_rows *r, const json_t *object, int which, const char *option, const char *name) {
    const json_t *v = json_object_get(object, name);
    if (!v) return no_field(r, object, option, name);
    if (!json_is_string(v)) return qkv_rows_fail(r, 0, "the text (field '%.40s') is %s, expected a string", name, kind(v));
    return qkv_rows_add_text(r, which, json_string_value(v), (int64_t)json_string_length(v));
}

static qkv_status add_label(qkv_rows *r, const json_t *v) {
    char number[64];
    switch (json_typeof(v)) {
    case JSON_STRING:
        return qkv_rows_add_label(r, json_string_value(v), (int64_t)json_string_length(v));
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        break;
    case JSON_REAL:
        /* 100.0 is the label 100, as written without a point */
        if (fabs(json_real_value(v)) < 1e15 && floor(json_real_value(v)) == json_real_value(v))
            snprintf(number, sizeof number, "%lld", (long long)json_real_value(v));
        else qkv_print_real(json_real_value(v), number, sizeof number);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(number, sizeof number, "%s", json_is_true(v) ? "true" : "false");
        break;
    default:
        return qkv_rows_fail(r, 0, "the label (field '%.40s') is %s, expected a string, a number, true or false%s",
                             r->o.label_field, kind(v), r->want == QKV_WANT_LABELS ? ", or an array of them" : "");
    }
    return qkv_rows_add_label(r, number, (int64_t)strlen(number));
}

static qkv_status add_labels(qkv_rows *r, const json_t *object) {
    const json_t *v = json_object_get(object, r->o.label_field);
    if (!v) return no_field(r, object, "label-field", r->o.label_field);
    if (!json_is_array(v)) return add_label(r, v);
    for (size_t i = 0; i < json_array_size(v); i++) QKV_TRY(add_label(r, json_array_get(v, i)));
    return QKV_OK;
}

static qkv_status add_object(qkv_rows *r, const json_t *object) {
    if (!json_is_object(object)) return qkv_rows_fail(r, 0, "the line is %s, expected an object", kind(object));
    if (r->want != QKV_WANT_TEXT) QKV_TRY(add_labels(r, object));
    QKV_TRY(add_text(r, object, 0, "text-field", r->o.text_field));
    return r->pair ? add_text(r, object, 1, "text-field-2", r->o.text_field_2) : QKV_OK;
}

qkv_status qkv_rows_jsonl(qkv_rows *r, bool *ended) {
    const char *line;
    int64_t length;
    do {
        QKV_TRY(qkv_rows_line_next(r, &line, &length));
        if ((*ended = !line)) return QKV_OK;
    } while (length == 0);
    r->at = r->line;
    QKV_TRY(repair(r, &line, &length));
    char what[300];
    snprintf(what, sizeof what, "%s:%lld", r->name, (long long)r->at);
    json_t *object;
    qkv_status status = qkv_json_parse_row(r->ctx, what, line, length, DEPTH, &object);
    if (status == QKV_BAD_FORMAT) {
        char message[sizeof r->ctx->message];
        memcpy(message, r->ctx->message, sizeof message);
        return qkv_fail(r->ctx, QKV_BAD_DATA, "%s", message);
    }
    QKV_TRY(status);
    status = add_object(r, object);
    json_decref(object);
    return status;
}
