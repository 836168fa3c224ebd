/* Option tables: defaults, setting from text, printing as text. */
#include "qkv/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/number.h"
#include "qkv/attention.h"

/* Index of `value` in "a|b|c", or -1. */
static int choice_index(const char *choices, const char *value) {
    size_t n = strlen(value);
    int index = 0;
    for (const char *p = choices; p; index++) {
        const char *end = strchr(p, '|');
        size_t size = end ? (size_t)(end - p) : strlen(p);
        if (size == n && memcmp(p, value, n) == 0) return index;
        p = end ? end + 1 : NULL;
    }
    return -1;
}

static void choice_name(const char *choices, int index, char *text, size_t size) {
    const char *p = choices;
    for (; index > 0 && p; index--) {
        p = strchr(p, '|');
        if (p) p++;
    }
    size_t n = p ? strcspn(p, "|") : 0;
    snprintf(text, size, "%.*s", (int)n, p ? p : "");
}

/* "L,R", each -1 or more. */
static bool parse_span(const char *text, qkv_span *span) {
    const char *comma = strchr(text, ',');
    if (!comma) return false;
    return qkv_parse_int(text, (size_t)(comma - text), &span->left) && qkv_parse_int(comma + 1, strlen(comma + 1), &span->right) &&
           span->left >= -1 && span->right >= -1;
}

static bool parse_bool(const char *text, int *value) {
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0) return *value = 1, true;
        if (strcmp(text, no[i]) == 0) return *value = 0, true;
    }
    return false;
}

static const char UNITS[] = "kMGTKmgt"; /* 2^10, 2^20, 2^30, 2^40, and the same once more */

/* "2G", "1.5G", "300M", "4096"; a fraction of a byte is cut. */
static bool parse_size(const char *text, int64_t *bytes) {
    size_t n = strlen(text);
    const char *unit = n > 0 ? strchr(UNITS, text[n - 1]) : NULL;
    double value, scale = unit && *unit ? ldexp(1, 10 * ((int)(unit - UNITS) % 4 + 1)) : 1;
    if (scale == 1) return qkv_parse_int(text, n, bytes) && *bytes >= 0;
    if (!qkv_parse_real(text, n - 1, &value) || !(value >= 0 && value * scale < 9e18)) return false;
    *bytes = (int64_t)(value * scale);
    return true;
}

/* With the largest unit that gives a whole number. */
static void print_size(int64_t bytes, char *text, size_t size) {
    int unit = 0;
    for (; unit < 4 && bytes > 0 && bytes % 1024 == 0; unit++) bytes /= 1024;
    snprintf(text, size, "%lld%.1s", (long long)bytes, unit > 0 ? UNITS + unit - 1 : "");
}

static void *field(const qkv_option *o, void *options) { return (char *)options + o->offset; }

/* Sets the field, or returns false and leaves it alone. */
static bool assign(const qkv_option *o, void *options, const char *value) {
    size_t n = strlen(value);
    switch (o->type) {
    case QKV_OPTION_INT: {
        int64_t v;
        if (!qkv_parse_int(value, n, &v) || (double)v < o->min || (double)v > o->max) return false;
        memcpy(field(o, options), &v, sizeof v);
        return true;
    }
    case QKV_OPTION_REAL: {
        double v;
        if (!qkv_parse_real(value, n, &v) || !(v >= o->min && v <= o->max)) return false;
        memcpy(field(o, options), &v, sizeof v);
        return true;
    }
    case QKV_OPTION_BOOL: {
        int v;
        if (!parse_bool(value, &v)) return false;
        memcpy(field(o, options), &v, sizeof v);
        return true;
    }
    case QKV_OPTION_CHOICE: {
        int v = choice_index(o->choices, value);
        if (v < 0) return false;
        memcpy(field(o, options), &v, sizeof v);
        return true;
    }
    case QKV_OPTION_SPAN: {
        qkv_span v;
        if (!parse_span(value, &v)) return false;
        memcpy(field(o, options), &v, sizeof v);
        return true;
    }
    case QKV_OPTION_SEED: {
        uint64_t v;
        if (!qkv_parse_uint(value, n, &v)) return false;
        memcpy(field(o, options), &v, sizeof v);
        return true;
    }
    case QKV_OPTION_TEXT:
        if (n >= QKV_OPTION_TEXT_SIZE) return false;
        memset(field(o, options), 0, QKV_OPTION_TEXT_SIZE);
        memcpy(field(o, options), value, n);
        return true;
    case QKV_OPTION_SIZE: {
        int64_t v;
        if (!parse_size(value, &v) || (double)v < o->min || (double)v > o->max) return false;
        memcpy(field(o, options), &v, sizeof v);
        return true;
    }
    }
    return false;
}

void qkv_options_default(const qkv_option_table *table, void *options) {
    if (!table || !options) return;
    memset(options, 0, table->struct_size);
    for (size_t i = 0; i < table->count; i++) (void)assign(&table->options[i], options, table->options[i].fallback);
}

/* Levenshtein distance, capped by the fixed row: names are short. */
static int distance(const char *a, const char *b) {
    int row[64];
    int n = (int)strlen(b);
    if (n > 62) return 99;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

static qkv_status unknown(qkv_ctx *ctx, const qkv_option_table *table, const char *name) {
    const char *nearest = NULL;
    int best = 4;
    for (size_t i = 0; i < table->count; i++) {
        int d = distance(name, table->options[i].name);
        if (d < best) best = d, nearest = table->options[i].name;
    }
    if (nearest) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s has no option '%s' (did you mean '%s'?)", table->name, name, nearest);
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s has no option '%s'", table->name, name);
}

static qkv_status refuse(qkv_ctx *ctx, const qkv_option *o, const char *value) {
    char low[32], high[32];
    switch (o->type) {
    case QKV_OPTION_INT:
    case QKV_OPTION_REAL:
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%s: expected %s from %s to %s", o->name, value,
                        o->type == QKV_OPTION_INT ? "a whole number" : "a number", qkv_plain(o->min).s, qkv_plain(o->max).s);
    case QKV_OPTION_BOOL: return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%s: expected yes or no", o->name, value);
    case QKV_OPTION_CHOICE: return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%s: expected one of %s", o->name, value, o->choices);
    case QKV_OPTION_SPAN:
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%s: expected L,R: neighbours seen to the left and right, -1 for no limit", o->name, value);
    case QKV_OPTION_SEED: return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%s: expected a whole number from 0 to 2^64-1", o->name, value);
    case QKV_OPTION_TEXT:
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%.40s...: %zu bytes, at most %d are kept", o->name, value, strlen(value),
                        QKV_OPTION_TEXT_SIZE - 1);
    case QKV_OPTION_SIZE:
        print_size((int64_t)o->min, low, sizeof low);
        print_size((int64_t)o->max, high, sizeof high);
        return qkv_fail(ctx, QKV_BAD_ARGUMENT,
                        "%s=%s: expected a size from %s to %s: bytes, or a number and k, M, G or T (k: 1024 bytes)", o->name, value,
                        low, high);
    }
    return qkv_fail(ctx, QKV_INTERNAL, "option %s has no type", o->name);
}

qkv_status qkv_options_set(qkv_ctx *ctx, const qkv_option_table *table, void *options, const char *name, const char *value) {
    if (!table || !options || !name || !value)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_options_set: %s is NULL", !table ? "table" : !options ? "options" : !name ? "name" : "value");
    for (size_t i = 0; i < table->count; i++) {
        const qkv_option *o = &table->options[i];
        if (strcmp(o->name, name) == 0) return assign(o, options, value) ? QKV_OK : refuse(ctx, o, value);
    }
    return unknown(ctx, table, name);
}

size_t qkv_options_text(const qkv_option *option, const void *options, char *text, size_t size) {
    if (size) text[0] = 0;
    if (!option || !options) return 0;
    char out[QKV_OPTION_TEXT_SIZE] = "";
    const char *p = (const char *)options + option->offset;
    switch (option->type) {
    case QKV_OPTION_INT: {
        int64_t v;
        memcpy(&v, p, sizeof v);
        snprintf(out, sizeof out, "%lld", (long long)v);
        break;
    }
    case QKV_OPTION_REAL: {
        double v;
        memcpy(&v, p, sizeof v);
        snprintf(out, sizeof out, "%s", qkv_plain(v).s);
        break;
    }
    case QKV_OPTION_BOOL:
    case QKV_OPTION_CHOICE: {
        int v;
        memcpy(&v, p, sizeof v);
        choice_name(option->type == QKV_OPTION_BOOL ? "no|yes" : option->choices, v, out, sizeof out);
        break;
    }
    case QKV_OPTION_SPAN: {
        qkv_span v;
        memcpy(&v, p, sizeof v);
        snprintf(out, sizeof out, "%lld,%lld", (long long)v.left, (long long)v.right);
        break;
    }
    case QKV_OPTION_SEED: {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        snprintf(out, sizeof out, "%llu", (unsigned long long)v);
        break;
    }
    case QKV_OPTION_TEXT: snprintf(out, sizeof out, "%.*s", QKV_OPTION_TEXT_SIZE - 1, p); break;
    case QKV_OPTION_SIZE: {
        int64_t v;
        memcpy(&v, p, sizeof v);
        print_size(v, out, sizeof out);
        break;
    }
    }
    if (size) snprintf(text, size, "%s", out);
    return strlen(out);
}
