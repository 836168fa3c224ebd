/* Rows of a made task: a length and a row are functions of the task and of a key, which is one of seed and number. */
#ifndef QKV_DATA_MADE_H
#define QKV_DATA_MADE_H

#include "data/batches.h"

typedef struct qkv_made {
    const void *task;
    int64_t (*length)(const void *task, uint64_t key);
    void (*row)(const void *task, uint64_t key, int64_t n, int32_t *ids, int32_t *target); /* n: its length */
} qkv_made;

/* Rows number first .. first+count-1; qkv_ragged_free. On failure there are none. */
qkv_status qkv_made_rows(qkv_ctx *ctx, const qkv_made *made, uint64_t seed, int64_t first, int64_t count, qkv_ragged *rows) QKV_MUST_USE;

#endif
