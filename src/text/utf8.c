#include "text/utf8.h"

enum { REPLACEMENT = 0xFFFD };

int qkv_utf8_next(const char *text, int64_t length, int32_t *cp) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned first = s[0], low = 0x80, high = 0xBF; /* bounds of the second byte */
    int32_t value;
    int more;
    if (first < 0x80) {
        *cp = (int32_t)first;
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        more = 1, value = first & 0x1F;
    } else if (first >= 0xE0 && first <= 0xEF) {
        more = 2, value = first & 0x0F;
        if (first == 0xE0) low = 0xA0;  /* else overlong */
        if (first == 0xED) high = 0x9F; /* else a surrogate */
    } else if (first >= 0xF0 && first <= 0xF4) {
        more = 3, value = first & 0x07;
        if (first == 0xF0) low = 0x90;  /* else overlong */
        if (first == 0xF4) high = 0x8F; /* else above U+10FFFF */
    } else {
        *cp = REPLACEMENT;
        return -1;
    }
    for (int i = 1; i <= more; i++) {
        if (i >= length || s[i] < low || s[i] > high) {
            *cp = REPLACEMENT;
            return -i;
        }
        value = value << 6 | (s[i] & 0x3F);
        low = 0x80, high = 0xBF;
    }
    *cp = value;
    return more + 1;
}

int qkv_utf8_put(int32_t cp, char out[4]) {
    if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) cp = REPLACEMENT;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

int64_t qkv_utf8_faults(const char *text, int64_t length) {
    int64_t faults = 0;
    for (int64_t i = 0; i < length;) {
        if ((signed char)text[i] > 0) { /* plain ASCII */
            i++;
            continue;
        }
        int32_t cp;
        int size = qkv_utf8_next(text + i, length - i, &cp);
        faults += size < 0 || cp == 0;
        i += size < 0 ? -size : size;
    }
    return faults;
}
