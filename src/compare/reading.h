/* One trained network asked in several ways: with other answers to what stands beyond the lengths that it learned from. */
#ifndef QKV_COMPARE_READING_H
#define QKV_COMPARE_READING_H

#include "compare/dataset.h"

/* How rows of shortest .. longest tokens are read. The configuration may differ from that of the training in what tells about
 * places: what is beyond a learned table, how angles are stretched, or how many rows the table has: further ones are as they were
 * drawn before the training. */
typedef struct qkv_reading_of {
    qkv_config config;
    int64_t shortest, longest;
} qkv_reading_of;

/* Answers of one network to these rows, as those of qkv_learned: digits of four rows each, "0" where no reading is of such a row.
 * `seed` is that of the training. *answers is to be given back with qkv_free. */
qkv_status qkv_reading_ask(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, uint64_t seed, const qkv_ragged *rows,
                           const qkv_reading_of *readings, int64_t count, char **answers) QKV_MUST_USE;

/* The same of one that gives all rows this class. */
qkv_status qkv_reading_always(qkv_ctx *ctx, const qkv_ragged *rows, int64_t class, char **answers) QKV_MUST_USE;

/* `more` behind `rows`. Both have targets. */
qkv_status qkv_ragged_append(qkv_ctx *ctx, qkv_ragged *rows, const qkv_ragged *more) QKV_MUST_USE;

#endif
