/* Labels to and from JSON, whatever bytes they hold. */
#include <string.h>

#include "base/buf.h"
#include "models/model.h"
#include "text/utf8.h"

static qkv_status escape(qkv_buf *out, const char *label, int64_t size) {
    for (int64_t at = 0; at < size;) {
        int32_t cp;
        int step = qkv_utf8_next(label + at, size - at, &cp);
        if (step > 0 && label[at] != 0 && label[at] != '\\') {
            QKV_TRY(qkv_buf_add(out, label + at, step));
        } else if (label[at] == '\\') {
            QKV_TRY(qkv_buf_add(out, "\\\\", 2));
        } else {
            step = step < 0 ? -step : step;
            for (int i = 0; i < step; i++) QKV_TRY(qkv_buf_addf(out, "\\x%02X", (unsigned)(unsigned char)label[at + i]));
        }
        at += step;
    }
    return QKV_OK;
}

qkv_status qkv_labels_to_json(const qkv_model *model, json_t **json) {
    *json = NULL;
    json_t *array = json_array();
    if (!array) return qkv_fail(model->ctx, QKV_NO_MEMORY, "out of memory for %lld labels", (long long)model->config.classes);
    qkv_buf text = {model->ctx, NULL, 0, 0};
    qkv_status status = QKV_OK;
    for (int64_t i = 0; status == QKV_OK && i < model->config.classes; i++) {
        text.size = 0;
        if (!model->labels[i]) status = qkv_fail(model->ctx, QKV_INTERNAL, "label %lld is not set", (long long)i);
        if (status == QKV_OK) status = escape(&text, model->labels[i], model->label_sizes[i]);
        if (status == QKV_OK && json_array_append_new(array, json_stringn(text.size ? text.p : "", (size_t)text.size))) {
            status = qkv_fail(model->ctx, QKV_NO_MEMORY, "out of memory for label %lld", (long long)i);
        }
    }
    qkv_buf_free(&text);
    if (status != QKV_OK) {
        json_decref(array);
        return status;
    }
    *json = array;
    return QKV_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Undoes `escape`; false if the text is not of its making. */
static bool unescape(qkv_buf *out, const char *text, size_t size, qkv_status *status) {
    *status = QKV_OK;
    for (size_t at = 0; at < size && *status == QKV_OK;) {
        char c = text[at++];
        if (c == '\\') {
            if (at < size && text[at] == '\\') {
                at++;
            } else if (at + 2 < size && text[at] == 'x' && hex_digit(text[at + 1]) >= 0 && hex_digit(text[at + 2]) >= 0) {
                c = (char)(hex_digit(text[at + 1]) * 16 + hex_digit(text[at + 2]));
                at += 3;
            } else {
                return false;
            }
        }
        *status = qkv_buf_add(out, &c, 1);
    }
    return true;
}

static qkv_status read_label(qkv_model *model, const char *file, int64_t i, const json_t *json, qkv_buf *bytes) {
    if (!json_is_string(json)) {
        return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: qkv.labels: label %lld is not a string", file, (long long)i);
    }
    bytes->size = 0;
    qkv_status status;
    if (!unescape(bytes, json_string_value(json), json_string_length(json), &status)) {
        return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: qkv.labels: label %lld holds a backslash that is neither \\\\ nor \\xHH",
                        file, (long long)i);
    }
    QKV_TRY(status);
    return qkv_model_set_label(model, i, bytes->size ? bytes->p : "", bytes->size);
}

/* They are looked up by halves, and a label that is there twice would be two classes of one name. */
static qkv_status check_order(const qkv_model *model, const char *file, int64_t i) {
    const char *a = model->labels[i - 1], *b = model->labels[i];
    const int64_t n = model->label_sizes[i - 1], m = model->label_sizes[i], both = n < m ? n : m;
    const int order = both > 0 ? memcmp(a, b, (size_t)both) : 0;
    if (order < 0 || (order == 0 && n < m)) return QKV_OK;
    if (order == 0 && n == m)
        return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: qkv.labels: labels %lld and %lld are both '%.64s'", file, (long long)i - 1, (long long)i, b);
    return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: qkv.labels: label %lld, '%.64s', stands behind '%.64s': they ascend by their bytes", file,
                    (long long)i, b, a);
}

qkv_status qkv_labels_from_json(qkv_model *model, const char *file, const json_t *json) {
    if (!json_is_array(json) || (int64_t)json_array_size(json) != model->config.classes) {
        return qkv_fail(model->ctx, QKV_BAD_FORMAT,
                        "%s: qkv.labels must be a list of %lld labels (classes of the config), it has %lld", file,
                        (long long)model->config.classes, (long long)(json_is_array(json) ? json_array_size(json) : 0));
    }
    qkv_buf bytes = {model->ctx, NULL, 0, 0};
    qkv_status status = QKV_OK;
    for (int64_t i = 0; status == QKV_OK && i < model->config.classes; i++) {
        status = read_label(model, file, i, json_array_get(json, (size_t)i), &bytes);
        if (status == QKV_OK && i > 0) status = check_order(model, file, i);
    }
    qkv_buf_free(&bytes);
    return status;
}

/* ---- thresholds ---- */

qkv_status qkv_thresholds_to_json(const qkv_model *model, json_t **json) {
    json_t *array = json_array();
    for (int64_t i = 0; array && i < model->config.classes; i++) {
        if (json_array_append_new(array, json_real(model->thresholds[i])) == 0) continue;
        json_decref(array);
        array = NULL;
    }
    *json = array;
    return array ? QKV_OK : qkv_fail(model->ctx, QKV_NO_MEMORY, "out of memory for the thresholds of a model");
}

qkv_status qkv_thresholds_from_json(qkv_model *model, const char *file, const json_t *json) {
    if (!json_is_array(json)) return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: qkv.thresholds is not an array", file);
    if ((int64_t)json_array_size(json) != model->config.classes)
        return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: %zu thresholds for %lld classes", file, json_array_size(json),
                        (long long)model->config.classes);
    for (int64_t i = 0; i < model->config.classes; i++) {
        const json_t *v = json_array_get(json, (size_t)i);
        double value = json_is_number(v) ? json_number_value(v) : 0;
        if (!(value > 0 && value <= 1))
            return qkv_fail(model->ctx, QKV_BAD_FORMAT, "%s: threshold %lld is not a number above 0 and at most 1", file,
                            (long long)i);
        model->thresholds[i] = value;
    }
    return QKV_OK;
}
