/* Parallel for. The only file that knows OpenMP is par.c. */
#ifndef QKV_BASE_PAR_H
#define QKV_BASE_PAR_H

#include <stdint.h>

#include "ctx.h"

/* Calls fn(arg, chunk, thread) for every chunk in 0..chunks-1, each once, thread in 0..ctx->threads-1. How the problem is
 * cut into chunks must depend on the problem only, and chunks must write disjoint memory: then the result does not depend
 * on the number of threads. Runs on the caller alone when chunks < 2 or ctx->threads < 2. `thread` may index scratch. */
typedef void qkv_par_fn(void *arg, int64_t chunk, int thread);
void qkv_par(const qkv_ctx *ctx, int64_t chunks, qkv_par_fn *fn, void *arg);

const char *qkv_par_kind(void); /* "OpenMP" or "no threads" */

#endif
