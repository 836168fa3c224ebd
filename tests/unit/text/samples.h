/* Random texts from a fixed seed: any bytes, and text in many scripts. */
#ifndef QKV_TESTS_TEXT_SAMPLES_H
#define QKV_TESTS_TEXT_SAMPLES_H

#include "support.h"

#include "base/rng.h"
#include "qkv/tokenizer.h"
#include "text/utf8.h"

typedef struct sample_rng {
    uint64_t key, turn;
} sample_rng;

static inline int64_t draw(sample_rng *r, int64_t n) {
    return (int64_t)qkv_below(qkv_key2(r->key, r->turn++), (uint64_t)n);
}

static inline int64_t sample_bytes(sample_rng *r, char *out, int64_t capacity) {
    int64_t size = draw(r, capacity + 1);
    int letters = draw(r, 2) ? 256 : 4; /* few letters: many merges */
    for (int64_t i = 0; i < size; i++) out[i] = (char)(letters == 4 ? 'a' + draw(r, 4) : draw(r, 256));
    return size;
}

/* Words of Latin, Greek, Cyrillic, Han, Kana, Hangul, Devanagari, Thai, emoji with joiners, decomposed accents, digits,
 * punctuation, NUL, U+0130, U+212A, white space of several kinds. */
static inline int64_t sample_text(sample_rng *r, char *out, int64_t capacity) {
    /* clang-format off */
    static const char *const words[] = {
        "the", "The", "a", "attention", "don't", "l\u2019\u00E9t\u00E9", "\u00C9COLE", "nai\u0308ve", "Stra\u00DFe",
        "\u0130stanbul", "\u212Aelvin", "\u039F\u0394\u03A5\u03A3\u03A3\u0395\u03A5\u03A3",
        "\u041C\u043E\u0441\u043A\u0432\u0430", "\u4F60\u597D\u4E16\u754C", "\u4E16\u754C",
        "\u6CE8\u610F\u529B\u673A\u5236", "\u3072\u3089\u304C\u306A", "\u30AB\u30BF\u30AB\u30CA", "\u3070\u3067",
        "\uD55C\uAD6D\uC5B4", "\u0928\u092E\u0938\u094D\u0924\u0947", "\u0E2A\u0E27\u0E31\u0E2A\u0E14\u0E35",
        "\U0001F600\U0001F44D\U0001F3FD", "\U0001F469\u200D\U0001F4BB", "1\uFE0F\u20E3", "12345678", "3.14", "...",
        "\u3002\uFF0C", "<unk>", "\u023A\u023E", "\u1E9E", "\t", "\n", "\r\n", "\u00A0", "\u3000", "  ", " ", " ", " ",
        " ", " ", "!", "-"};
    /* clang-format on */
    int64_t size = 0;
    for (int64_t n = draw(r, 60); n > 0; n--) {
        const char *w = words[draw(r, (int64_t)(sizeof words / sizeof *words))];
        int64_t length = (int64_t)strlen(w);
        if (draw(r, 40) == 0) w = "\0", length = 1;
        if (size + length > capacity) break;
        memcpy(out + size, w, (size_t)length);
        size += length;
    }
    return size;
}

/* Every third one is bytes. */
typedef struct samples {
    int64_t count;
    char *pool;
    const char **texts;
    int64_t *lengths;
} samples;

enum { SAMPLE_SIZE = 400 };

static inline samples samples_make(uint64_t seed, int64_t count) {
    samples s = {count, malloc((size_t)count * SAMPLE_SIZE + 1), malloc((size_t)count * sizeof(char *) + 1),
                 malloc((size_t)count * 8 + 1)};
    sample_rng r = {seed, 0};
    for (int64_t i = 0; i < count; i++) {
        char *at = s.pool + i * SAMPLE_SIZE;
        s.texts[i] = at;
        s.lengths[i] = i % 3 == 2 ? sample_bytes(&r, at, SAMPLE_SIZE) : sample_text(&r, at, SAMPLE_SIZE);
    }
    return s;
}

static inline void samples_free(samples *s) {
    free(s->pool);
    free(s->texts);
    free(s->lengths);
}

#endif
