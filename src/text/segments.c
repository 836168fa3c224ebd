#include "text/segments.h"

#include <stdbool.h>
#include <utf8proc.h>

#include "text/utf8.h"
#include "text/words.h"

/* Walks over the cuts of a text in ascending order. */
typedef struct cutter {
    const char *text;
    int64_t length, at; /* of what comes next */
    bool words;
    bool ended;     /* a sentence that white space would close */
    bool ended_now; /* one that is closed */
    bool spaced;    /* the last code point was white space */
    bool character; /* it was a word */
} cutter;

static bool is_space(int32_t c) {
    if (c < 128) return c == ' ' || (c >= '\t' && c <= '\r');
    const utf8proc_category_t g = utf8proc_category(c);
    return c == 0x85 || (g >= UTF8PROC_CATEGORY_ZS && g <= UTF8PROC_CATEGORY_ZP);
}

static bool is_break(int32_t c) {
    return (c >= '\t' && c <= '\r') || c == 0x85 || c == 0x2028 || c == 0x2029;
}
static bool is_end(int32_t c) {
    return c == '.' || c == '!' || c == '?';
}
static bool is_wide_end(int32_t c) {
    return c == 0x3002 || c == 0xFF01 || c == 0xFF1F;
}

static bool is_closer(int32_t c) {
    if (c < 128) return c == '"' || c == '\'' || c == ')' || c == ']' || c == '}';
    const utf8proc_category_t g = utf8proc_category(c);
    return g == UTF8PROC_CATEGORY_PE || g == UTF8PROC_CATEGORY_PF;
}

static int32_t look(const cutter *k, int64_t at, int64_t *next) {
    int32_t c;
    const int size = qkv_utf8_next(k->text + at, k->length - at, &c);
    *next = at + (size < 0 ? -size : size);
    return c;
}

/* End of the white space at `at`, and whether there is a line break in it. */
static int64_t space_end(const cutter *k, int64_t at, bool *broken) {
    *broken = false;
    for (int64_t next; at < k->length; at = next) {
        const int32_t c = look(k, at, &next);
        if (!is_space(c)) break;
        *broken |= is_break(c);
    }
    return at;
}

static void note(cutter *k, int32_t c) {
    if (is_closer(c)) return; /* as it was */
    k->ended = is_end(c);
    k->ended_now = is_wide_end(c);
}

/* Is there a cut before the code point (or the white space) at k->at? Goes on behind it. */
static bool cut_here(cutter *k, bool first) {
    int64_t next;
    bool cut, broken;
    const int32_t c = look(k, k->at, &next);
    if (is_space(c)) {
        k->at = space_end(k, k->at, &broken);
        cut = k->words || broken || k->ended || k->ended_now;
        k->ended = k->ended_now = k->character = false;
        k->spaced = true;
        return cut && !first && k->at < k->length;
    }
    const bool character = k->words && qkv_script_without_spaces(c);
    cut = k->words ? (character || k->character) && !k->spaced : k->ended_now && !is_wide_end(c) && !is_closer(c);
    k->character = character;
    k->spaced = false;
    k->at = next;
    note(k, c);
    return cut && !first;
}

/* The first cut behind what was walked; the length where there is none. */
static int64_t next_cut(cutter *k) {
    while (k->at < k->length) {
        const int64_t here = k->at;
        if (cut_here(k, here == 0)) return here;
    }
    return k->length;
}

int64_t qkv_segments_of(qkv_segmentation kind, int64_t limit, const char *text, int64_t length, const qkv_token *tokens,
                        int64_t count, int32_t *sizes) {
    cutter k = {.text = text, .length = kind == QKV_SEGMENT_TOKENS ? 0 : length, .words = kind == QKV_SEGMENT_WORDS};
    int64_t segments = 0, cut = next_cut(&k);
    for (int64_t i = 0; i < count; i++) {
        bool begins = i == 0 || sizes[segments - 1] == limit;
        for (; cut <= tokens[i].begin && cut < k.length; cut = next_cut(&k)) begins = true;
        if (begins) sizes[segments++] = 0;
        sizes[segments - 1]++;
    }
    return segments;
}
