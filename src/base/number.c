#define _GNU_SOURCE 1
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtod and printf use the locale's decimal sign. There is exactly one such sign in a number, so it can be exchanged. */
static const char *decimal_sign(void) {
    const char *sign = localeconv()->decimal_point;
    return sign && *sign ? sign : ".";
}

bool qkv_parse_real(const char *text, size_t length, double *value) {
    const char *sign = decimal_sign();
    size_t width = strlen(sign), n = 0;
    char copy[512];
    if (length == 0 || length + width >= sizeof copy) return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        /* Only what a plain number is made of: no white space, no locale's sign, no hexadecimal float. */
        if (!strchr("+-.0123456789eEinfatyINFATY", c) || c == 0) return false;
        if (c == '.') {
            if (n + width >= sizeof copy) return false;
            memcpy(copy + n, sign, width);
            n += width;
        } else {
            if (n + 1 >= sizeof copy) return false;
            copy[n++] = c;
        }
    }
    copy[n] = 0;
    char *end;
    double v = strtod(copy, &end);
    if (end != copy + n) return false;
    *value = v;
    return true;
}

bool qkv_parse_uint(const char *text, size_t length, uint64_t *value) {
    uint64_t v = 0;
    if (length == 0) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v)) return false;
    }
    *value = v;
    return true;
}

bool qkv_parse_int(const char *text, size_t length, int64_t *value) {
    bool minus = length > 0 && text[0] == '-';
    uint64_t v;
    if (!qkv_parse_uint(text + minus, length - minus, &v)) return false;
    if (v > (uint64_t)INT64_MAX) return false;
    *value = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

static size_t with_point(char *text) {
    const char *sign = decimal_sign();
    if (strcmp(sign, ".") != 0) {
        char *at = strstr(text, sign);
        if (at) {
            *at = '.';
            memmove(at + 1, at + strlen(sign), strlen(at + strlen(sign)) + 1);
        }
    }
    return strlen(text);
}

static size_t print_shortest(double value, bool single, char *text, size_t size) {
    if (value != value) return (size_t)snprintf(text, size, "nan");
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) break;
    }
    return with_point(text);
}

size_t qkv_print_real(double value, char *text, size_t size) { return print_shortest(value, false, text, size); }
size_t qkv_print_float(float value, char *text, size_t size) { return print_shortest((double)value, true, text, size); }

qkv_number qkv_plain(double value) {
    qkv_number n;
    const double size = fabs(value);
    if (value == 0 || (size >= 1e-6 && size < 1e15)) {
        int decimals = 0;
        for (; decimals < 24; decimals++) {
            snprintf(n.s, sizeof n.s, "%.*f", decimals, value);
            if (strtod(n.s, NULL) == value) break;
        }
        with_point(n.s);
        return n;
    }
    qkv_print_real(value, n.s, sizeof n.s);
    char *plus = strstr(n.s, "e+");
    if (plus) memmove(plus + 1, plus + 2, strlen(plus + 2) + 1);
    return n;
}
