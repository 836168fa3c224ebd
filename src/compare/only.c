#include "compare/only.h"

#include <string.h>

enum { MOST = 256 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z');
}

/* Lower case, without the commas of large numbers, one space for any white space, none at the ends. */
static void plain(const char *text, char to[MOST]) {
    size_t n = 0;
    for (size_t i = 0; text[i] && n + 1 < MOST; i++) {
        const char c = text[i];
        if (c == ',' && i > 0 && is_digit(text[i - 1]) && is_digit(text[i + 1])) continue;
        if (c == ' ' || (c >= '\t' && c <= '\r')) {
            if (n > 0 && to[n - 1] != ' ') to[n++] = ' ';
        } else {
            to[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
    }
    if (n > 0 && to[n - 1] == ' ') n--;
    to[n] = 0;
}

bool qkv_only_names(const char *words, const char *name) {
    char w[MOST], t[MOST];
    plain(words, w);
    plain(name, t);
    const size_t size = strlen(w);
    if (size == 0) return false;
    for (const char *at = strstr(t, w); at; at = strstr(at + 1, w)) {
        const bool begins = at == t || !is_word(at[-1]) || !is_word(w[0]), ends = !is_word(at[size]) || !is_word(w[size - 1]);
        if (begins && ends) return true;
    }
    return false;
}
