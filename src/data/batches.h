/* Ragged rows of token ids, and their grouping into batches by a token budget. */
#ifndef QKV_DATA_BATCHES_H
#define QKV_DATA_BATCHES_H

#include <stdint.h>

#include "base/ctx.h"
#include "base/real.h"
#include "data/globals.h"

/* All texts of a data set as token ids, one after another. */
typedef struct qkv_ragged {
    int64_t count;
    int64_t *offset; /* [count + 1] */
    int32_t *ids;
    int32_t *target; /* [count] class, or -1; NULL where rows have any number of labels or none are known */

    /* Rows with any number of labels: those of row i are labels[label_at[i]] .. labels[label_at[i+1] - 1], ascending. Else
     * NULL. */
    int64_t *label_at; /* [count + 1] */
    int32_t *labels;

    /* Rows that are read segment by segment: row i has the segments segment_at[i] .. segment_at[i+1] - 1, of so many tokens each, of
     * at least one. Else NULL. */
    int64_t *segment_at; /* [count + 1] */
    int32_t *segment_size;

    qkv_global_rule globals; /* which of their tokens are global; no lists: batches have none */

    real *bag; /* [count][classes] what a bag of words says of each row; NULL: there is none */
} qkv_ragged;
void qkv_ragged_free(qkv_ctx *ctx, qkv_ragged *r);

/* Batches of one epoch: batch b holds rows order[first[b]] .. order[first[b+1]-1]. */
typedef struct qkv_batches {
    int64_t count;
    int64_t *first; /* [count + 1] */
    int64_t *order; /* [rows] */
} qkv_batches;

/* Shuffles the rows (keyed seed, epoch), sorts them by length inside windows of many batches, cuts each window into batches
 * of at most `batch_tokens` tokens (a row alone may exceed it) and at most `max_rows` rows, and shuffles the batches.
 * epoch < 0: no shuffling, sorted by length over everything (evaluation). Each row appears exactly once. max_rows < 1: no
 * limit of rows. */
qkv_status qkv_batches_make(qkv_ctx *ctx, const int64_t *offset, int64_t rows, int64_t batch_tokens, int64_t max_rows,
                            uint64_t seed, int64_t epoch, qkv_batches *batches) QKV_MUST_USE;
void qkv_batches_free(qkv_ctx *ctx, qkv_batches *batches);

/* Tokens of the longest of `rows` rows. */
int64_t qkv_longest_row(const int64_t *offset, int64_t rows);

/* Bytes of the batches of so many rows, and of those and all that making them needs for a moment. */
static inline int64_t qkv_batches_bytes(int64_t rows) { return 16 * (rows + 1); }
static inline int64_t qkv_batches_peak(int64_t rows) { return 80 * (rows + 1); }

#endif
