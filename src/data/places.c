#include "data/places.h"

#include "base/rng.h"
#include "data/made.h"
#include "qkv/tokenizer.h"

enum { LENGTH = 1, FILLER, CLASS, PLACE, OTHER };

int64_t qkv_places_vocab(const qkv_places *t) {
    return QKV_TOKEN_SPECIALS + t->filler + 2;
}

static int64_t length_of(const void *task, uint64_t key) {
    const qkv_places *t = task;
    return t->shortest + (int64_t)qkv_below(qkv_key2(key, LENGTH), (uint64_t)(t->longest - t->shortest + 1));
}

/* Where A and B stand in a row of this class. */
static void place(const qkv_places *t, uint64_t key, int64_t n, int64_t class, int64_t at[2]) {
    int64_t from = 1, to = n - 1; /* distances */
    if (t->kind == QKV_PLACES_NEAR && class == 1) to = t->reach;
    if (t->kind == QKV_PLACES_NEAR && class == 0) from = 2 * t->reach + 1;
    const int64_t distance = from + (int64_t)qkv_below(qkv_key2(key, OTHER), (uint64_t)(to - from + 1));
    const int64_t left = (int64_t)qkv_below(qkv_key2(key, PLACE), (uint64_t)(n - distance));
    const bool turned = t->kind == QKV_PLACES_ORDER ? class == 1 : qkv_below(qkv_key3(key, PLACE, 1), 2) == 1;
    at[turned] = left;
    at[!turned] = left + distance;
}

static void make_row(const void *task, uint64_t key, int64_t n, int32_t *ids, int32_t *target) {
    const qkv_places *t = task;
    const int64_t filler = QKV_TOKEN_SPECIALS;
    int64_t at[2];
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(filler + (int64_t)qkv_below(qkv_key3(key, FILLER, (uint64_t)i), (uint64_t)t->filler));
    *target = (int32_t)qkv_below(qkv_key2(key, CLASS), QKV_PLACES_CLASSES);
    place(t, key, n, *target, at);
    for (int k = 0; k < 2; k++) ids[at[k]] = (int32_t)(filler + t->filler + k);
}

static qkv_status check(qkv_ctx *ctx, const qkv_places *t) {
    const int64_t least = t->kind == QKV_PLACES_NEAR ? 2 * t->reach + 2 : 2;
    if (t->filler < 1 || t->filler > 1 << 16 || t->reach > 1 << 20 || (t->kind == QKV_PLACES_NEAR && t->reach < 1) ||
        t->shortest < least || t->longest < t->shortest || t->longest > 1 << 24)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "places: %lld tokens of filler, reach %lld, rows of %lld to %lld tokens",
                        (long long)t->filler, (long long)t->reach, (long long)t->shortest, (long long)t->longest);
    return QKV_OK;
}

qkv_status qkv_places_make(qkv_ctx *ctx, const qkv_places *t, uint64_t seed, int64_t first, int64_t count, qkv_ragged *rows) {
    *rows = (qkv_ragged){0};
    QKV_TRY(check(ctx, t));
    return qkv_made_rows(ctx, &(qkv_made){t, length_of, make_row}, seed, first, count, rows);
}
