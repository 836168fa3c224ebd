/* Learns a bag from the texts of a training set. */
#ifndef QKV_TRAIN_BAG_FIT_H
#define QKV_TRAIN_BAG_FIT_H

#include "models/bag.h"
#include "qkv/tokenizer.h"

typedef struct qkv_bag_options {
    int64_t ngrams;   /* longest run of words, 1 or more */
    bool beginnings;  /* of words count, too: see text/words.h */
    int64_t min_rows; /* a run must be in so many texts */
    int64_t most;     /* weights, classes times runs: where there would be more, runs must be in more texts; 0: no limit */
    int64_t classes;
    const real *weight; /* [classes], see train/logistic.h; NULL: 1 */
    double cost;        /* see there; 0: to be chosen */
    qkv_normalization normalize;
    uint64_t seed;
} qkv_bag_options;

/* texts[i] of lengths[i] bytes has the class target[i], or, where a text has any number, labels[label_at[i]] ..
 * labels[label_at[i+1]-1] (target is NULL then). */
typedef struct qkv_bag_texts {
    int64_t rows;
    const char *const *texts;
    const int64_t *lengths;
    const int32_t *target;
    const int64_t *label_at;
    const int32_t *labels;
} qkv_bag_texts;

/* Learns from `train`. A cost that is to be chosen is the one of 0.1 and 1 with the lower loss on `dev`, whose targets may be -1,
 * for a class that training does not have (NULL, or none known: 0.1); *cost (may be NULL) is what it came to. The same bits
 * for any number of threads. QKV_STOPPED when the stop callback asks for it. */
qkv_status qkv_bag_fit(qkv_ctx *ctx, const qkv_bag_options *options, const qkv_bag_texts *train, const qkv_bag_texts *dev,
                       qkv_bag *bag, double *cost) QKV_MUST_USE;

#endif
