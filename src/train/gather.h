/* Copies chosen rows of a data set side by side into one ragged batch, with the keys that dropout needs. */
#ifndef QKV_TRAIN_GATHER_H
#define QKV_TRAIN_GATHER_H

#include "base/ctx.h"
#include "data/batches.h"
#include "ops/exec.h"

typedef struct qkv_gather {
    int64_t max_rows, max_tokens;
    int64_t *offset;             /* [max_rows + 1] */
    int32_t *ids;                /* [max_tokens] */
    int32_t *target;             /* [max_rows]; -1 where the data has none */
    int64_t *label_at;           /* [max_rows + 1], of data with any number of labels a row; else NULL */
    int32_t *labels;
    uint64_t *seq_key, *row_key; /* [max_rows], [max_tokens] */
    int64_t max_segments;        /* of data that has segments; else the following are NULL */
    int64_t *segments, *segment_at; /* [max_rows + 1], [max_segments + 1] */
    uint64_t *segment_key;          /* [max_segments] */
    int64_t *global_offset,
        *global_at; /* of data that has lists of global tokens: [max_rows, or max_segments, + 1], [max_tokens] */
} qkv_gather;

/* Room for any batch that qkv_batches_make can cut from rows of these lengths. */
qkv_status qkv_gather_create(qkv_ctx *ctx, const qkv_ragged *data, int64_t batch_tokens, int64_t max_rows,
                             qkv_gather *g) QKV_MUST_USE;
void qkv_gather_free(qkv_ctx *ctx, qkv_gather *g);
/* Of its arrays, but those of labels. */
static inline int64_t qkv_gather_bytes(const qkv_gather *g) {
    const int64_t globals = g->global_offset ? 8 * ((g->segments ? g->max_segments : g->max_rows) + 1 + g->max_tokens) : 0;
    return 12 * g->max_tokens + 28 * (g->max_rows + 1) + (g->segments ? 16 * (g->max_segments + 1) + 8 * (g->max_rows + 1) : 0) +
           globals;
}

/* The batch of rows[0..count-1], valid until the next call; g->target holds their targets (g->label_at and
 * g->labels their labels). The key of a sequence is its row
 * in the data set, so dropout does not depend on its place in a batch. In a plan only the offsets (of segments too) and the lists
 * of global tokens are filled, and ids and targets are NULL or undefined. */
void qkv_gather_rows(qkv_gather *g, const qkv_ragged *data, const int64_t *rows, int64_t count, bool plan, qkv_batch *batch);

/* Token dropout: each id of the gathered batch but SEP, which parts two texts, becomes `unknown` with probability p, drawn from (seed, step, data row,
 * position). */
void qkv_gather_drop(qkv_gather *g, const qkv_batch *batch, double p, int32_t unknown, uint64_t seed, uint64_t step);

#endif
