/* Two-ended arena: kept buffers grow from the bottom and are popped in reverse order, scratch grows from the top.
 * With base == NULL it only counts (PLAN). */
#ifndef QKV_BASE_ARENA_H
#define QKV_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctx.h"

typedef struct qkv_arena {
    char *base;        /* NULL: plan */
    size_t size;       /* bytes; ignored in a plan */
    size_t low, high;  /* bytes in use at either end */
    size_t peak;       /* largest low + high seen */
} qkv_arena;

/* An arena of `bytes` from the context's allocator, empty. Use these two, so that the sanitizer's marks are set and lifted. */
qkv_status qkv_arena_create(qkv_ctx *ctx, size_t bytes, qkv_arena *a) QKV_MUST_USE;
void qkv_arena_free(qkv_ctx *ctx, qkv_arena *a);

/* Every block is rounded up to 64 bytes. *pointer is NULL in a plan. A full arena is QKV_INTERNAL: the plan was wrong. */
qkv_status qkv_arena_low(qkv_ctx *ctx, qkv_arena *a, size_t bytes, void **pointer) QKV_MUST_USE;
qkv_status qkv_arena_high(qkv_ctx *ctx, qkv_arena *a, size_t bytes, void **pointer) QKV_MUST_USE;
/* Releasing goes by marks: remember a->low or a->high, and set it back. Released memory is poisoned (filled with NaN in
 * debug builds, marked for the address sanitizer). */
void qkv_arena_low_release(qkv_arena *a, size_t mark);
void qkv_arena_high_release(qkv_arena *a, size_t mark);

#endif
