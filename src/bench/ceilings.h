/* What this machine can do at most, measured: multiply-adds from registers alone, and bytes moved from memory or a cache. All
 * threads of the context work at once. Every look takes one or two milliseconds, so that it can be repeated beside whatever is
 * held against it: clocks drift, and neighbours come and go. */
#ifndef QKV_BENCH_CEILINGS_H
#define QKV_BENCH_CEILINGS_H

#include "base/ctx.h"
#include "base/real.h"
#include "qkv/bench.h"

/* How bytes are moved: read; copied from one buffer to another; read, changed and written back in place. Each by the fastest of a
 * few ways: read in order, in four streams, in two by pages; copied by the C library, or in four streams that are stored past the
 * caches; updated in order, or in four streams by pages. Where a buffer is written without having been read, most processors read
 * it first, so a copy that does not go past the caches moves more than it counts. What writes to another buffer than it reads is
 * held against a copy, what changes a buffer against the rate in place. */
typedef enum qkv_stream { QKV_STREAM_READ, QKV_STREAM_COPY, QKV_STREAM_UPDATE } qkv_stream;

typedef struct qkv_ceilings qkv_ceilings;

/* `bytes`: the largest working set that will be asked for (0: none). */
qkv_status qkv_ceilings_open(qkv_ctx *ctx, int64_t bytes, qkv_ceilings **c) QKV_MUST_USE;
void qkv_ceilings_close(qkv_ceilings *c); /* NULL is harmless */

/* Floating-point operations a second (1 multiply-add = 2) of the first `threads` threads. */
double qkv_ceiling_flops(qkv_ceilings *c, qkv_bench_dtype dtype, int threads);
/* Bytes a second over a working set of `bytes` that the threads share, cut to what was opened. Bytes read and bytes written
 * both count. */
double qkv_ceiling_bytes(qkv_ceilings *c, qkv_stream kind, int64_t bytes);
/* Bytes a second of a loop that reads `count` reals of somebody's own, a part a thread. */
double qkv_ceiling_reading(qkv_ceilings *c, const real *from, int64_t count);

/* False where this build and machine have no arithmetic in this type; *why is half a sentence then. */
bool qkv_bench_has(const qkv_ctx *ctx, qkv_bench_dtype dtype, const char **why);

/* False where it is emulated. */
bool qkv_bench_native(const qkv_ctx *ctx, qkv_bench_dtype dtype);

/* A working set that no cache holds. */
int64_t qkv_beyond_caches(void);

#endif
