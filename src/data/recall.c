#include "data/recall.h"

#include "base/rng.h"
#include "data/made.h"
#include "qkv/tokenizer.h"

enum { MOST_KEYS = 64, LENGTH = 1, KEYS, ASKED, VALUE, PLACE, FILLER };

int64_t qkv_recall_vocab(const qkv_recall *t) {
    return QKV_TOKEN_SPECIALS + t->filler + t->keys * t->values + t->keys;
}

static int64_t length_of(const void *task, uint64_t key) {
    const qkv_recall *t = task;
    return t->shortest + (int64_t)qkv_below(qkv_key2(key, LENGTH), (uint64_t)(t->longest - t->shortest + 1));
}

static void make_row(const void *task, uint64_t key, int64_t n, int32_t *ids, int32_t *target) {
    const qkv_recall *t = task;
    int64_t order[MOST_KEYS], filler = QKV_TOKEN_SPECIALS, pair = filler + t->filler, question = pair + t->keys * t->values;
    int64_t quarter = n / 4 > t->pairs ? n / 4 : t->pairs;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(filler + (int64_t)qkv_below(qkv_key3(key, FILLER, (uint64_t)i), (uint64_t)t->filler));
    qkv_shuffle(qkv_key2(key, KEYS), t->keys, order);
    int64_t asked = (int64_t)qkv_below(qkv_key2(key, ASKED), (uint64_t)t->pairs);
    for (int64_t p = 0; p < t->pairs; p++) {
        int64_t value = (int64_t)qkv_below(qkv_key3(key, VALUE, (uint64_t)p), (uint64_t)t->values);
        int64_t from = p * quarter / t->pairs, to = (p + 1) * quarter / t->pairs; /* a stretch for each: no two meet */
        int64_t at = from + (int64_t)qkv_below(qkv_key3(key, PLACE, (uint64_t)p), (uint64_t)(to - from));
        ids[at] = (int32_t)(pair + order[p] * t->values + value);
        if (p == asked) *target = (int32_t)value;
    }
    ids[n - 1] = (int32_t)(question + order[asked]);
}

static qkv_status check(qkv_ctx *ctx, const qkv_recall *t) {
    if (t->keys < 1 || t->keys > MOST_KEYS || t->values < 1 || t->filler < 1 || t->pairs < 1 || t->pairs > t->keys ||
        t->values > 1 << 16 || t->filler > 1 << 16)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "recall: %lld pairs of %lld keys and %lld values among %lld tokens of filler",
                        (long long)t->pairs, (long long)t->keys, (long long)t->values, (long long)t->filler);
    if (t->shortest < t->pairs + 1 || t->longest < t->shortest || t->longest > 1 << 24)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "recall: rows of %lld to %lld tokens, with %lld pairs and a question",
                        (long long)t->shortest, (long long)t->longest, (long long)t->pairs);
    return QKV_OK;
}

qkv_status qkv_recall_make(qkv_ctx *ctx, const qkv_recall *t, uint64_t seed, int64_t first, int64_t count, qkv_ragged *rows) {
    *rows = (qkv_ragged){0};
    QKV_TRY(check(ctx, t));
    return qkv_made_rows(ctx, &(qkv_made){t, length_of, make_row}, seed, first, count, rows);
}
