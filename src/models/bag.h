/* The linear side of a classifier: a weight for each word and each run of words that a text contains, however often and wherever. What
 * long words begin with (text/words.h) can have weights, too.
 * It reads the whole text, beyond any limit of the encoder. Scores are sums of weights; train/bag_fit.h learns them. */
#ifndef QKV_MODELS_BAG_H
#define QKV_MODELS_BAG_H

#include "base/ctx.h"
#include "base/real.h"
#include "qkv/tokenizer.h"

typedef struct qkv_bag {
    qkv_ctx *ctx;
    int64_t ngrams; /* longest run of words */
    bool beginnings; /* of words are read; where a bag has none that costs time and changes nothing, as their keys are no word's */
    qkv_normalization normalize; /* of a text, before its words are taken */
    int64_t features, classes;
    uint64_t *key; /* [features], ascending: hashes of the runs */
    real *weight;  /* [features][classes] */
    real *bias;    /* [classes] */
    int32_t *slots; /* open addressing by key; made by qkv_bag_index */
    int64_t mask;
} qkv_bag;

void qkv_bag_free(qkv_bag *bag); /* what it holds */
int64_t qkv_bag_bytes(const qkv_bag *bag);

/* Makes the index over `key`. */
qkv_status qkv_bag_index(qkv_bag *bag) QKV_MUST_USE;

/* Reads texts: the room it needs grows with them. Zeroed but for `bag`, of which only ctx, ngrams, beginnings and normalize are looked at. */
typedef struct qkv_bag_reader {
    const qkv_bag *bag;
    int64_t word_room, key_room;
    uint64_t *words, *keys;
} qkv_bag_reader;

/* Beginnings of words if bag->beginnings, then the runs of 1..ngrams words of a text, of characters of a script without spaces one more:
 * reader->keys[count], repetitions and all. */
qkv_status qkv_bag_read(qkv_bag_reader *reader, const char *text, int64_t length, int64_t *count) QKV_MUST_USE;
void qkv_bag_reader_free(qkv_bag_reader *reader);

/* The features among the keys, ascending and each once; returns their number, at most `count`. */
int64_t qkv_bag_find(const qkv_bag *bag, const uint64_t *keys, int64_t count, int32_t *found);

/* Multiplies all scores by so much. */
void qkv_bag_scale(qkv_bag *bag, double factor);

/* bias + sum of the weights: scores[classes]. */
void qkv_bag_score(const qkv_bag *bag, const int32_t *found, int64_t count, real *scores);

#endif
