#define _GNU_SOURCE 1
#include "base/ctx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "base/cpu.h"

/* Rows of a head are a page apart or more: with pages of 4 KiB each is looked up anew, which costs windows and decoding a tenth. */
static void *default_allocate(void *user, size_t bytes) {
    (void)user;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t large = (size_t)1 << 21;
    if (bytes >= 2 * large && bytes < SIZE_MAX - large) {
        void *pointer; /* aligned_alloc wants whole multiples of the alignment */
        if (posix_memalign(&pointer, large, bytes) != 0) return NULL;
        madvise(pointer, bytes / large * large, MADV_HUGEPAGE); /* advice: nothing depends on it */
        return pointer;
    }
#endif
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void default_release(void *user, void *pointer, size_t bytes) {
    (void)user;
    (void)bytes;
    free(pointer);
}

void qkv_ctx_setup(qkv_ctx *ctx, const qkv_ctx_options *options) {
    static const qkv_ctx_options none = {.struct_size = sizeof(qkv_ctx_options)};
    const qkv_ctx_options *o = options ? options : &none;
    ctx->allocate = o->allocate ? o->allocate : default_allocate;
    ctx->release = o->release ? o->release : default_release;
    ctx->allocator_user = o->allocator_user;
    ctx->stop = o->stop;
    ctx->stop_user = o->stop_user;
    ctx->log = o->log;
    ctx->log_user = o->log_user;
    ctx->threads = o->threads > 0 ? o->threads : qkv_cpu_cores_allowed();
}

qkv_status qkv_fail(qkv_ctx *ctx, qkv_status status, const char *format, ...) {
    if (!ctx) return status;
    /* The arguments may point into the old message. */
    char sentence[sizeof ctx->message];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    memcpy(ctx->message, sentence, sizeof sentence);
    return status;
}

void qkv_log(const qkv_ctx *ctx, const char *format, ...) {
    if (!ctx->log) return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ctx->log(ctx->log_user, line);
}

/* The size of a block stands in the 64 bytes before it, which keeps the block itself aligned. */
enum { QKV_ALLOC_HEAD = 64 };

static qkv_status block_bytes(qkv_ctx *ctx, int64_t count, size_t size, size_t *bytes) {
    if (count < 0 || __builtin_mul_overflow((size_t)count, size, bytes) || *bytes > (size_t)PTRDIFF_MAX - QKV_ALLOC_HEAD)
        return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory: %lld elements of %zu bytes asked for", (long long)count, size);
    return QKV_OK;
}

qkv_status qkv_alloc(qkv_ctx *ctx, int64_t count, size_t size, void *out_pointer) {
    size_t bytes = 0;
    QKV_TRY(block_bytes(ctx, count, size, &bytes));
    const int64_t whole = (int64_t)(bytes + QKV_ALLOC_HEAD);
    const int64_t used = __atomic_add_fetch(&ctx->used, whole, __ATOMIC_RELAXED);
    const bool allowed = ctx->most_used <= 0 || used <= ctx->most_used;
    char *block = allowed ? ctx->allocate(ctx->allocator_user, (size_t)whole) : NULL;
    if (!block) {
        __atomic_sub_fetch(&ctx->used, whole, __ATOMIC_RELAXED);
        if (allowed) return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory: %zu bytes asked for", bytes);
        __atomic_store_n(&ctx->most_wanted, used, __ATOMIC_RELAXED);
        return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory: %zu bytes asked for beside %lld that are in use, %lld are allowed",
                        bytes, (long long)(used - whole), (long long)ctx->most_used);
    }
    int64_t most = __atomic_load_n(&ctx->most_reached, __ATOMIC_RELAXED);
    while (used > most && !__atomic_compare_exchange_n(&ctx->most_reached, &most, used, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    memcpy(block, &bytes, sizeof bytes);
    block += QKV_ALLOC_HEAD;
    memcpy(out_pointer, &block, sizeof block);
    return QKV_OK;
}

qkv_status qkv_alloc_zero(qkv_ctx *ctx, int64_t count, size_t size, void *out_pointer) {
    QKV_TRY(qkv_alloc(ctx, count, size, out_pointer));
    char *block;
    memcpy(&block, out_pointer, sizeof block);
    memset(block, 0, (size_t)count * size);
    return QKV_OK;
}

qkv_status qkv_grow(qkv_ctx *ctx, int64_t count, size_t size, void *io_pointer) {
    char *old, *block;
    memcpy(&old, io_pointer, sizeof old);
    QKV_TRY(qkv_alloc(ctx, count, size, &block));
    if (old) {
        size_t had;
        memcpy(&had, old - QKV_ALLOC_HEAD, sizeof had);
        size_t now = (size_t)count * size;
        memcpy(block, old, had < now ? had : now);
        qkv_free(ctx, old);
    }
    memcpy(io_pointer, &block, sizeof block);
    return QKV_OK;
}

void qkv_free(qkv_ctx *ctx, void *pointer) {
    if (!pointer) return;
    char *block = (char *)pointer - QKV_ALLOC_HEAD;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    __atomic_sub_fetch(&ctx->used, (int64_t)(bytes + QKV_ALLOC_HEAD), __ATOMIC_RELAXED);
    ctx->release(ctx->allocator_user, block, bytes + QKV_ALLOC_HEAD);
}

static const size_t SCRATCH_KEPT = (size_t)64 << 20;

qkv_status qkv_scratch(qkv_ctx *ctx, size_t bytes, void *out_pointer) {
    char *block = ctx->scratch;
    if (block && ctx->scratch_size >= bytes) {
        ctx->scratch = NULL;
        memcpy(out_pointer, &block, sizeof block);
        return QKV_OK;
    }
    qkv_scratch_close(ctx);
    return qkv_alloc(ctx, (int64_t)bytes, 1, out_pointer);
}

void qkv_scratch_return(qkv_ctx *ctx, void *pointer) {
    if (!pointer) return;
    qkv_scratch_close(ctx);
    memcpy(&ctx->scratch_size, (char *)pointer - QKV_ALLOC_HEAD, sizeof ctx->scratch_size);
    ctx->scratch = pointer;
    if (ctx->scratch_size > SCRATCH_KEPT) qkv_scratch_close(ctx);
}

void qkv_scratch_close(qkv_ctx *ctx) {
    qkv_free(ctx, ctx->scratch);
    ctx->scratch = NULL;
    ctx->scratch_size = 0;
}

void qkv_give_back(const qkv_ctx *ctx) {
#ifdef __GLIBC__
    if (ctx->release == default_release) malloc_trim(0);
#else
    (void)ctx;
#endif
}
