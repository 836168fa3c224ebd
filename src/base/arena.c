#include "base/arena.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define QKV_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QKV_ASAN 1
#endif
#endif
#ifdef QKV_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#elif !defined(NDEBUG)
/* All ones is a NaN in either real type: whoever reads released memory finds out. */
#define POISON(p, n) memset(p, 0xff, n)
#define UNPOISON(p, n) ((void)0)
#else
#define POISON(p, n) ((void)0)
#define UNPOISON(p, n) ((void)0)
#endif

static qkv_status take(qkv_ctx *ctx, qkv_arena *a, size_t bytes, size_t *rounded) {
    if (bytes > (size_t)PTRDIFF_MAX / 4) return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory: a buffer of %zu bytes is needed", bytes);
    *rounded = (bytes + 63) / 64 * 64;
    if (a->base && a->low + a->high + *rounded > a->size)
        return qkv_fail(ctx, QKV_INTERNAL, "arena of %zu bytes is too small: %zu in use, %zu asked for", a->size, a->low + a->high, *rounded);
    size_t used = a->low + a->high + *rounded;
    if (used > a->peak) a->peak = used;
    return QKV_OK;
}

qkv_status qkv_arena_low(qkv_ctx *ctx, qkv_arena *a, size_t bytes, void **pointer) {
    size_t rounded = 0;
    QKV_TRY(take(ctx, a, bytes, &rounded));
    *pointer = a->base ? a->base + a->low : NULL;
    if (a->base) UNPOISON(a->base + a->low, rounded);
    a->low += rounded;
    return QKV_OK;
}

qkv_status qkv_arena_high(qkv_ctx *ctx, qkv_arena *a, size_t bytes, void **pointer) {
    size_t rounded = 0;
    QKV_TRY(take(ctx, a, bytes, &rounded));
    a->high += rounded;
    *pointer = a->base ? a->base + a->size - a->high : NULL;
    if (a->base) UNPOISON(a->base + a->size - a->high, rounded);
    return QKV_OK;
}

void qkv_arena_low_release(qkv_arena *a, size_t mark) {
    if (a->base) POISON(a->base + mark, a->low - mark);
    a->low = mark;
}

void qkv_arena_high_release(qkv_arena *a, size_t mark) {
    if (a->base) POISON(a->base + a->size - a->high, a->high - mark);
    a->high = mark;
}

qkv_status qkv_arena_create(qkv_ctx *ctx, size_t bytes, qkv_arena *a) {
    *a = (qkv_arena){.size = (bytes + 63) / 64 * 64};
    QKV_TRY(qkv_alloc(ctx, (int64_t)(a->size ? a->size : 64), 1, &a->base));
    POISON(a->base, a->size);
    return QKV_OK;
}

void qkv_arena_free(qkv_ctx *ctx, qkv_arena *a) {
    if (a->base) UNPOISON(a->base, a->size);
    qkv_free(ctx, a->base);
    *a = (qkv_arena){0};
}
