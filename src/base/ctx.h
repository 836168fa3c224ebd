/* The context: allocator, kernel table, threads, callbacks, last message. */
#ifndef QKV_BASE_CTX_H
#define QKV_BASE_CTX_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qkv/base.h"

struct qkv_kernels;
struct qkv_bf16_kernels;
struct qkv_par_pool;

struct qkv_ctx {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer, size_t bytes);
    void *allocator_user;
    int64_t used, most_used; /* bytes that live; what they may come to, 0: any number */
    int64_t most_reached;    /* the most they came to so far */
    int64_t most_wanted;     /* what they would have come to when that was last too little; 0: it never was */
    int (*stop)(void *user);
    void *stop_user;
    void (*log)(void *user, const char *line);
    void *log_user;
    /* Fault injection for tests: asked before every write, fsync, close and rename of an output file (the name of the call
     * in `what`). Positive: that call fails with this errno. Negative: the process ends at once, as by kill -9. */
    int (*fault)(void *user, const char *what);
    void *fault_user;
    int threads;
    struct qkv_par_pool *pool; /* base/par.c; NULL until a call wants more than one thread */
    void *scratch; /* kept between calls that need some for a moment (qkv_scratch), or NULL */
    size_t scratch_size;
    const struct qkv_kernels *kernels; /* set by kernels/pick.c; never NULL in a context that was created */
    const struct qkv_bf16_kernels *bf16; /* the same; those that go with `kernels` */
    char isa_why[160];
    char message[512];
};

/* Fills the callbacks and threads of a zeroed context (no kernels yet). */
void qkv_ctx_setup(qkv_ctx *ctx, const qkv_ctx_options *options);

/* Writes the sentence and returns `status`, so that a failing function ends in `return qkv_fail(...)`. Never from inside
 * a parallel region. */
qkv_status qkv_fail(qkv_ctx *ctx, qkv_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void qkv_log(const qkv_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool qkv_stop_asked(const qkv_ctx *ctx) { return ctx->stop && ctx->stop(ctx->stop_user); }

#define QKV_TRY(expression)                        \
    do {                                           \
        qkv_status try_status_ = (expression);     \
        if (try_status_ != QKV_OK) return try_status_; \
    } while (0)

/* Memory through the context's allocator. The size is stored in front of the block. 64-byte aligned. `count * size` is
 * checked for overflow. qkv_alloc of 0 bytes returns a valid pointer. On failure: QKV_NO_MEMORY with the amount. */
qkv_status qkv_alloc(qkv_ctx *ctx, int64_t count, size_t size, void *out_pointer) QKV_MUST_USE; /* out_pointer: T** */
qkv_status qkv_alloc_zero(qkv_ctx *ctx, int64_t count, size_t size, void *out_pointer) QKV_MUST_USE;
/* Grows the block *io_pointer (NULL: none yet) to `count` elements, keeping the old ones. */
qkv_status qkv_grow(qkv_ctx *ctx, int64_t count, size_t size, void *io_pointer) QKV_MUST_USE;
void qkv_free(qkv_ctx *ctx, void *pointer); /* NULL is harmless */

/* Gives what was freed back to the system, where the C library would keep it: for the moment between reading much and needing
 * much. */
void qkv_give_back(const qkv_ctx *ctx);

/* At least `bytes` for the length of a call, to be given back by qkv_scratch_return. The context keeps blocks of moderate size,
 * as fresh pages from the system cost more than a short call. */
qkv_status qkv_scratch(qkv_ctx *ctx, size_t bytes, void *out_pointer) QKV_MUST_USE;
void qkv_scratch_return(qkv_ctx *ctx, void *pointer);
void qkv_scratch_close(qkv_ctx *ctx); /* gives back what is kept */

#endif
