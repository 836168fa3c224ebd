#include "formats/json.h"

#include <string.h>

#include "base/number.h"

/* jansson recurses for every open bracket (2,048 at most); a limit of our own keeps the stack small on any thread. */
static bool too_deep(const char *text, int64_t size, int depth) {
    bool in_string = false;
    int open = 0;
    for (int64_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++open > depth) return true;
        } else if ((c == '}' || c == ']') && open > 0) {
            open--;
        }
    }
    return false;
}

/* A number that JSON allows and no 64 bits hold is not a mistake of form. jansson stops right behind it. */
static qkv_status refuse(qkv_ctx *ctx, const char *what, const json_error_t *error, const char *text, int64_t size, bool row) {
    char place[60];
    if (row)
        snprintf(place, sizeof place, "(column %d)", error->column);
    else
        snprintf(place, sizeof place, "(line %d, column %d)", error->line, error->column);
    if (json_error_code(error) != json_error_numeric_overflow)
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: not valid JSON: %s %s", what, error->text, place);
    int64_t end = error->position <= size ? error->position : size, begin = end;
    while (begin > 0 && strchr("+-.eE0123456789", text[begin - 1])) begin--;
    int length = (int)(end - begin < 40 ? end - begin : 40);
    return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the number %.*s%s is out of range: whole numbers have 64 bits, others reach 1.8e308 %s", what,
                    length, text + begin, end - begin > 40 ? "..." : "", place);
}

static qkv_status parse(qkv_ctx *ctx, const char *what, const char *text, int64_t size, int depth, bool row, json_t **json) {
    *json = NULL;
    if (too_deep(text, size, depth)) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: JSON nested more than %d levels deep", what, depth);
    }
    json_error_t error;
    json_t *value = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | (row ? JSON_ALLOW_NUL : 0), &error);
    if (!value) {
        if (json_error_code(&error) == json_error_out_of_memory) {
            return qkv_fail(ctx, QKV_NO_MEMORY, "%s: out of memory while reading %lld bytes of JSON", what, (long long)size);
        }
        return refuse(ctx, what, &error, text, size, row);
    }
    *json = value;
    return QKV_OK;
}

qkv_status qkv_json_parse(qkv_ctx *ctx, const char *what, const char *text, int64_t size, int depth, json_t **json) {
    return parse(ctx, what, text, size, depth, false, json);
}

qkv_status qkv_json_parse_row(qkv_ctx *ctx, const char *what, const char *text, int64_t size, int depth, json_t **json) {
    return parse(ctx, what, text, size, depth, true, json);
}

/* ---- printing: jansson would write 0.1 as 0.10000000000000001 ---- */

static qkv_status print_string(const char *text, size_t size, qkv_buf *out) {
    QKV_TRY(qkv_buf_add(out, "\"", 1));
    size_t from = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 32 && c != '"' && c != '\\') continue;
        QKV_TRY(qkv_buf_add(out, text + from, (int64_t)(i - from)));
        from = i + 1;
        if (c == '"' || c == '\\')
            QKV_TRY(qkv_buf_addf(out, "\\%c", c));
        else if (c == '\n')
            QKV_TRY(qkv_buf_add(out, "\\n", 2));
        else if (c == '\t')
            QKV_TRY(qkv_buf_add(out, "\\t", 2));
        else
            QKV_TRY(qkv_buf_addf(out, "\\u%04x", c));
    }
    QKV_TRY(qkv_buf_add(out, text + from, (int64_t)(size - from)));
    return qkv_buf_add(out, "\"", 1);
}

/* A real stays one when it is read back: 1 is written 1.0. */
static qkv_status print_real(double value, qkv_buf *out) {
    char text[40];
    size_t size = qkv_print_real(value, text, sizeof text);
    QKV_TRY(qkv_buf_add(out, text, (int64_t)size));
    return strpbrk(text, ".e") ? QKV_OK : qkv_buf_add(out, ".0", 2);
}

static qkv_status print_array(const json_t *json, qkv_buf *out) {
    for (size_t i = 0; i < json_array_size(json); i++) {
        QKV_TRY(qkv_buf_add(out, i ? "," : "[", 1));
        QKV_TRY(qkv_json_print(json_array_get(json, i), out));
    }
    return json_array_size(json) ? qkv_buf_add(out, "]", 1) : qkv_buf_add(out, "[]", 2);
}

static qkv_status print_object(const json_t *json, qkv_buf *out) {
    const char *key, *before = "{";
    json_t *value;
    json_object_foreach((json_t *)json, key, value) {
        QKV_TRY(qkv_buf_add(out, before, 1));
        QKV_TRY(print_string(key, strlen(key), out));
        QKV_TRY(qkv_buf_add(out, ":", 1));
        QKV_TRY(qkv_json_print(value, out));
        before = ",";
    }
    return *before == ',' ? qkv_buf_add(out, "}", 1) : qkv_buf_add(out, "{}", 2);
}

qkv_status qkv_json_print(const json_t *json, qkv_buf *out) {
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return print_object(json, out);
    case JSON_ARRAY:
        return print_array(json, out);
    case JSON_STRING:
        return print_string(json_string_value(json), json_string_length(json), out);
    case JSON_INTEGER:
        return qkv_buf_addf(out, "%lld", (long long)json_integer_value(json));
    case JSON_REAL:
        return print_real(json_real_value(json), out);
    case JSON_TRUE:
        return qkv_buf_add(out, "true", 4);
    case JSON_FALSE:
        return qkv_buf_add(out, "false", 5);
    case JSON_NULL:
        break;
    }
    return qkv_buf_add(out, "null", 4);
}
