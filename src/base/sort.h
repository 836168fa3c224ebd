/* Stable sort by an unsigned key; the same order on every machine, linear time. */
#ifndef QKV_BASE_SORT_H
#define QKV_BASE_SORT_H

#include <stdint.h>

#include "ctx.h"

typedef struct qkv_sort_item {
    uint64_t key;
    int64_t value;
} qkv_sort_item;

/* Ascending keys. Needs memory for a second copy. */
qkv_status qkv_sort(qkv_ctx *ctx, qkv_sort_item *items, int64_t count) QKV_MUST_USE;

#endif
