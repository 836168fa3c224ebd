/* Parallel for over a small pool of threads that the context owns. The only file that knows threads is par.c. */
#ifndef QKV_BASE_PAR_H
#define QKV_BASE_PAR_H

#include <stdint.h>

#include "ctx.h"

/* Calls fn(arg, chunk, thread) for every chunk in 0..chunks-1, each once, thread in 0..ctx->threads-1. How the problem is
 * cut into chunks must depend on the problem only, and chunks must write disjoint memory: then the result does not depend
 * on the number of threads. Runs on the caller alone when chunks < 2 or ctx->threads < 2. `thread` may index scratch.
 *
 * Every thread has a contiguous share of the chunks and takes them in ascending order; who has done with its own takes from the
 * ends of the others', so a thread that the system does not let run delays nobody. Calls over the same rows thus meet the same
 * rows in the same core's caches. The threads are started by the first call that wants them; where the system refuses some, fewer
 * work. Between calls they spin for some microseconds and then sleep. Calls do not nest: one from inside fn runs on its thread
 * alone. */
typedef void qkv_par_fn(void *arg, int64_t chunk, int thread);
void qkv_par(const qkv_ctx *ctx, int64_t chunks, qkv_par_fn *fn, void *arg);

/* The same, but chunks are handed out in ascending order to whoever asks: a chunk may wait for what a lower one produces
 * (qkv_par_wait), since whoever holds that one is running it. */
void qkv_par_in_order(const qkv_ctx *ctx, int64_t chunks, qkv_par_fn *fn, void *arg);

/* A number that chunks of one call hand work over by. What was written before qkv_par_post can be read after the qkv_par_wait
 * that saw it. */
typedef struct qkv_par_counter {
    int64_t value;
} qkv_par_counter;
void qkv_par_post(qkv_par_counter *counter, int64_t value);
void qkv_par_wait(qkv_par_counter *counter, int64_t value); /* until it is at least `value` */

/* Ends the threads. The context can be used again (they are started anew). */
void qkv_par_close(qkv_ctx *ctx);

const char *qkv_par_kind(void); /* "threads" or "no threads" */

#endif
