#include "data/globals.h"

#include <string.h>

#include "base/number.h"
#include "qkv/tokenizer.h"

static bool among(const qkv_numbers *numbers, int64_t number) {
    for (int64_t i = 0; i < numbers->count; i++)
        if (numbers->at[i] == number) return true;
    return false;
}

/* Tokens of the first text of a pair and the SEP; 0 where there is none. */
static int64_t question_of(const int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (ids[i] == QKV_TOKEN_SEP) return i + 1;
    return 0;
}

int64_t qkv_globals_list(const qkv_global_rule *g, const int32_t *ids, int64_t n, int64_t *list) {
    const int64_t question = g->question && ids ? question_of(ids, n) : 0;
    const int64_t first = question > g->first ? question : g->first;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool told = i < first || (g->every > 0 && i % g->every == 0) || among(&g->places, i);
        if (told || (ids && among(&g->tokens, ids[i]))) list[count++] = i;
    }
    return count;
}

bool qkv_numbers_add(qkv_numbers *numbers, int64_t number) {
    int64_t at = numbers->count;
    if (among(numbers, number)) return true;
    if (numbers->count == QKV_NUMBERS_MOST) return false;
    for (; at > 0 && numbers->at[at - 1] > number; at--) numbers->at[at] = numbers->at[at - 1];
    numbers->at[at] = number;
    numbers->count++;
    return true;
}

bool qkv_numbers_parse(const char *text, int64_t most, qkv_numbers *numbers) {
    *numbers = (qkv_numbers){0};
    if (!*text) return true;
    for (const char *p = text;; p++) {
        const size_t size = strcspn(p, ",");
        int64_t number;
        if (!qkv_parse_int(p, size, &number) || number < 0 || number > most || !qkv_numbers_add(numbers, number)) return false;
        p += size;
        if (!*p) return true;
    }
}

qkv_status qkv_numbers_check(qkv_ctx *ctx, const char *name, const char *text, int64_t most) {
    qkv_numbers numbers;
    if (qkv_numbers_parse(text, most, &numbers)) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_CONFIG, "%s=%.60s: expected up to %d whole numbers from 0 to %lld, with commas between", name,
                    text, QKV_NUMBERS_MOST, (long long)most);
}
