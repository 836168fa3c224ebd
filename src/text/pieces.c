#include "text/pieces.h"

#include <utf8proc.h>

#include "text/utf8.h"

typedef enum kind { OTHER, LETTER, MARK, DIGIT, SPACE } kind;

static kind ascii_kind(unsigned char c) {
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return LETTER;
    if (c >= '0' && c <= '9') return DIGIT;
    if (c == ' ' || (c >= '\t' && c <= '\r')) return SPACE;
    return OTHER;
}

static kind kind_of(int32_t cp) {
    if (cp == 0x200C || cp == 0x200D) return MARK;
    if (cp == 0x85) return SPACE;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return LETTER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return MARK;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return DIGIT;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return SPACE;
    default:
        return OTHER;
    }
}

typedef struct reader {
    const char *text;
    int64_t length;
} reader;

/* Kind of the code point at `at`, and where the next one starts. */
static kind look(const reader *r, int64_t at, int64_t *next) {
    unsigned char c = (unsigned char)r->text[at];
    if (c < 0x80) {
        *next = at + 1;
        return ascii_kind(c);
    }
    int32_t cp;
    int size = qkv_utf8_next(r->text + at, r->length - at, &cp);
    *next = at + (size < 0 ? -size : size);
    return size < 0 ? OTHER : kind_of(cp);
}

/* Bytes of the apostrophe at `at` (U+0027 or U+2019), 0 if there is none. */
static int apostrophe(const reader *r, int64_t at) {
    if (r->text[at] == '\'') return 1;
    int32_t cp;
    return (unsigned char)r->text[at] == 0xE2 && qkv_utf8_next(r->text + at, r->length - at, &cp) == 3 && cp == 0x2019 ? 3 : 0;
}

static int64_t word_end(const reader *r, int64_t at, int64_t stop) {
    while (at < stop) {
        int64_t next;
        kind k = look(r, at, &next);
        if (k != LETTER && k != MARK) {
            int size = k == OTHER ? apostrophe(r, at) : 0;
            if (size == 0 || at + size >= r->length || look(r, at + size, &next) != LETTER) break;
        }
        at = next;
    }
    return at;
}

static int64_t digits_end(const reader *r, int64_t at, int64_t stop) {
    int digits = 0;
    while (at < stop) {
        int64_t next;
        kind k = look(r, at, &next);
        if (k != MARK && (k != DIGIT || digits++ == 3)) break;
        at = next;
    }
    return at;
}

static int64_t other_end(const reader *r, int64_t at, int64_t stop) {
    while (at < stop) {
        int64_t next;
        kind k = look(r, at, &next);
        if (k != OTHER && k != MARK) break;
        at = next;
    }
    return at;
}

/* End of the white space at `at`; *last is where its last code point starts. */
static int64_t space_end(const reader *r, int64_t at, int64_t stop, int64_t *last) {
    while (at < stop) {
        int64_t next;
        if (look(r, at, &next) != SPACE) break;
        *last = at;
        at = next;
    }
    return at;
}

int64_t qkv_piece_end(const char *text, int64_t length, int64_t begin) {
    reader r = {text, length};
    int64_t stop = length - begin > QKV_PIECE_LIMIT ? begin + QKV_PIECE_LIMIT : length;
    int64_t at = begin, last = begin, next;
    kind k = look(&r, at, &next);
    if (k == SPACE) {
        at = space_end(&r, at, stop, &last);
        if (at >= stop || text[last] != ' ') return at;
        if (last > begin) return last;
        k = look(&r, at, &next);
    }
    if (k == DIGIT) return digits_end(&r, at, stop);
    return k == OTHER ? other_end(&r, at, stop) : word_end(&r, at, stop);
}
