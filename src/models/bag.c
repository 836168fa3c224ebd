#include "models/bag.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "text/folded.h"
#include "text/words.h"

void qkv_bag_free(qkv_bag *bag) {
    if (!bag->ctx) return;
    qkv_free(bag->ctx, bag->key);
    qkv_free(bag->ctx, bag->weight);
    qkv_free(bag->ctx, bag->bias);
    qkv_free(bag->ctx, bag->slots);
    *bag = (qkv_bag){0};
}

int64_t qkv_bag_bytes(const qkv_bag *bag) {
    if (bag->classes == 0) return 0;
    int64_t numbers = (bag->features + 1) * bag->classes * (int64_t)sizeof(real);
    return numbers + bag->features * (int64_t)sizeof *bag->key + (bag->mask + 1) * (int64_t)sizeof *bag->slots;
}

void qkv_bag_scale(qkv_bag *bag, double factor) {
    for (int64_t i = 0; i < bag->features * bag->classes; i++) bag->weight[i] = (real)(factor * (double)bag->weight[i]);
    for (int64_t i = 0; i < bag->classes; i++) bag->bias[i] = (real)(factor * (double)bag->bias[i]);
}

qkv_status qkv_bag_index(qkv_bag *bag) {
    int64_t size = 16;
    while (size < 2 * bag->features) size *= 2;
    QKV_TRY(qkv_alloc(bag->ctx, size, sizeof *bag->slots, &bag->slots));
    memset(bag->slots, 0xff, (size_t)size * sizeof *bag->slots);
    bag->mask = size - 1;
    for (int64_t i = 0; i < bag->features; i++) {
        int64_t at = (int64_t)bag->key[i] & bag->mask;
        while (bag->slots[at] >= 0) at = (at + 1) & bag->mask;
        bag->slots[at] = (int32_t)i;
    }
    return QKV_OK;
}

void qkv_bag_reader_free(qkv_bag_reader *r) {
    qkv_free(r->bag->ctx, r->words);
    qkv_free(r->bag->ctx, r->keys);
    *r = (qkv_bag_reader){.bag = r->bag};
}

static qkv_status room(qkv_ctx *ctx, int64_t need, int64_t *have, uint64_t **array) {
    if (need <= *have) return QKV_OK;
    qkv_free(ctx, *array);
    *array = NULL;
    *have = 0;
    QKV_TRY(qkv_alloc(ctx, 2 * need, sizeof **array, array));
    *have = 2 * need;
    return QKV_OK;
}

static qkv_status keys_of(qkv_bag_reader *r, const char *text, int64_t length, int64_t *count) {
    const int64_t ngrams = r->bag->ngrams;
    QKV_TRY(room(r->bag->ctx, 2 * length, &r->word_room, &r->words));
    uint64_t *beginning = r->words + length;
    int64_t beginnings, n = qkv_words(text, length, r->words, beginning, &beginnings), k;
    if (!r->bag->beginnings) beginnings = 0;
    k = beginnings;
    QKV_TRY(room(r->bag->ctx, n * (ngrams + 1) + beginnings, &r->key_room, &r->keys));
    if (beginnings > 0) memcpy(r->keys, beginning, (size_t)beginnings * sizeof *beginning);
    for (int64_t i = 0; i < n; i++) {
        uint64_t run = r->words[i];
        bool characters = qkv_word_is_character(run);
        r->keys[k++] = run;
        for (int64_t more = 1; more <= ngrams && i + more < n; more++) {
            characters = characters && qkv_word_is_character(r->words[i + more]);
            if (more == ngrams && !characters) break;
            r->keys[k++] = run = qkv_key2(run, r->words[i + more]);
        }
    }
    *count = k;
    return QKV_OK;
}

qkv_status qkv_bag_read(qkv_bag_reader *r, const char *text, int64_t length, int64_t *count) {
    if (r->bag->normalize == QKV_NORMALIZE_NONE) return keys_of(r, text, length, count);
    qkv_folded folded;
    QKV_TRY(qkv_folded_make(r->bag->ctx, r->bag->normalize, false, text, length, &folded));
    qkv_status status = keys_of(r, folded.text, folded.length, count);
    qkv_folded_free(&folded);
    return status;
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int64_t qkv_bag_find(const qkv_bag *bag, const uint64_t *keys, int64_t count, int32_t *found) {
    int64_t n = 0, once = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = (int64_t)keys[i] & bag->mask;
        while (bag->slots[at] >= 0 && bag->key[bag->slots[at]] != keys[i]) at = (at + 1) & bag->mask;
        if (bag->slots[at] >= 0) found[n++] = bag->slots[at];
    }
    if (n > 1) qsort(found, (size_t)n, sizeof *found, ascending);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || found[i] != found[i - 1]) found[once++] = found[i];
    return once;
}

void qkv_bag_score(const qkv_bag *bag, const int32_t *found, int64_t count, real *scores) {
    for (int64_t c = 0; c < bag->classes; c++) scores[c] = bag->bias[c];
    for (int64_t i = 0; i < count; i++) {
        const real *w = bag->weight + found[i] * bag->classes;
        for (int64_t c = 0; c < bag->classes; c++) scores[c] += w[c];
    }
}
