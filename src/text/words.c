#include "text/words.h"

#include <utf8proc.h>

#include "base/rng.h"
#include "text/utf8.h"

/* What a word has in common with its other forms and with its family, in languages that change the ends of words (docs/quality.md). */
enum { SHORT_BEGINNING = 4, LONG_BEGINNING = 6 };
static const uint64_t BEGINNING_DOMAIN = 0x626567696e;

typedef enum kind { SPACE, LETTER, ALONE, CHARACTER } kind;

bool qkv_script_without_spaces(int32_t c) {
    return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) || (c >= 0x1780 && c <= 0x17FF) || (c >= 0x3040 && c <= 0x30FF) ||
           (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}

static kind ascii_kind(int32_t c) {
    if (c <= ' ' || c == 127) return SPACE;
    bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return word ? LETTER : ALONE;
}

static kind kind_of(int32_t c) {
    if (c < 128) return ascii_kind(c);
    if (qkv_script_without_spaces(c)) return CHARACTER;
    utf8proc_category_t g = utf8proc_category(c);
    if (g >= UTF8PROC_CATEGORY_LU && g <= UTF8PROC_CATEGORY_NO) return LETTER; /* letters, marks, numbers */
    return g >= UTF8PROC_CATEGORY_ZS || g == UTF8PROC_CATEGORY_CN ? SPACE : ALONE;
}

int64_t qkv_words(const char *text, int64_t length, uint64_t *hash, uint64_t *beginning, int64_t *beginnings) {
    int64_t count = 0, letters = 0;
    *beginnings = 0;
    bool open = false; /* the last word may go on */
    for (int64_t i = 0; i < length;) {
        int32_t c;
        int size = qkv_utf8_next(text + i, length - i, &c);
        i += size < 0 ? -size : size;
        kind k = kind_of(c);
        uint64_t lower = (uint64_t)(c < 128 ? (c >= 'A' && c <= 'Z' ? c + 32 : c) : utf8proc_tolower(c));
        letters = k == LETTER && open ? letters + 1 : 1;
        if (letters > 1) {
            if (letters == SHORT_BEGINNING + 1 || letters == LONG_BEGINNING + 1) beginning[(*beginnings)++] = qkv_key2(BEGINNING_DOMAIN, hash[count - 1]);
            hash[count - 1] = qkv_key2(hash[count - 1], lower) & ~(uint64_t)1;
        } else if (k != SPACE) hash[count++] = (qkv_mix64(lower) & ~(uint64_t)1) | (k == CHARACTER);
        open = k == LETTER;
    }
    return count;
}
