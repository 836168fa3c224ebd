/* Which tokens of a batch are hidden from masked-token pretraining, and behind what. How many of a row are is a function of its
 * length alone, so that a plan knows it; which ones is a function of (seed, step, data row): new ones at every step, the same in
 * any batch. Tokens that stand for no text (CLS, SEP) are left alone. */
#ifndef QKV_TRAIN_MASKING_H
#define QKV_TRAIN_MASKING_H

#include "layers/masked_head.h"
#include "train/gather.h"

typedef struct qkv_masking {
    const qkv_ragged *data;
    int64_t vocab, max_tokens;
    int32_t *count;        /* [rows] hidden tokens of each data row */
    int64_t total;         /* of all rows */
    int32_t *row, *target; /* of the batch at hand */
} qkv_masking;

/* `share` of the tokens of each row, rounded to the nearest number, at least 1 where there is one to hide. `data` must outlive *m;
 * batches have at most `max_tokens` tokens. */
qkv_status qkv_masking_create(qkv_ctx *ctx, const qkv_ragged *data, double share, int64_t vocab, int64_t max_tokens,
                              qkv_masking *m) QKV_MUST_USE;
void qkv_masking_free(qkv_ctx *ctx, qkv_masking *m);
int64_t qkv_masking_bytes(const qkv_masking *m); /* that it holds */

int64_t qkv_masking_units(const qkv_masking *m, const int64_t *rows, int64_t count);

/* After qkv_gather_rows of the same rows: changes g->ids, 8 of 10 hidden tokens into MASK, 1 into any other or the same ordinary
 * token, 1 not at all (Devlin et al. 2019). In a plan only masks->count is set. */
void qkv_masking_hide(qkv_masking *m, qkv_gather *g, const qkv_batch *batch, const int64_t *rows, bool plan, uint64_t seed,
                      uint64_t step, qkv_masks *masks);

#endif
