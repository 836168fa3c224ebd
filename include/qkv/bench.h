/* How fast qkv runs on this machine, case by case, beside what the machine could do. `qkv bench` prints what these calls give.
 *
 * A case is one piece of work of a fixed shape: a product of matrices, an attention, a training step. It is run over and over;
 * right before and after each repeat the machine's ceilings are measured anew, with the same threads, because clocks drift and
 * machines are shared. The floor of a case is the time below which it cannot go: the larger of its useful operations at the
 * ceiling of arithmetic and its bytes, each operand once, at the ceiling of memory (or of the cache that holds them); of
 * attention.decode a loop that only reads its keys and values. Its share is the median over the repeats of floor / time.
 * Nothing but the time depends on the measuring: the work is that of the library. */
#ifndef QKV_BENCH_H
#define QKV_BENCH_H

#include "attention.h"
#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qkv_bench_dtype { QKV_BENCH_F32, QKV_BENCH_BF16 } qkv_bench_dtype;

/* How keys and values lie for attention.decode: row by row, all heads of a row side by side; or head by head, all rows of a head
 * one after another. */
typedef enum qkv_bench_layout { QKV_BENCH_ROWS, QKV_BENCH_HEADS } qkv_bench_layout;

/* What to measure. Set by qkv_bench_init; a number that is -1 is left to each case. Where a size is given, the cases named by
 * `what` are measured once, with it, instead of with their lists of sizes. Limits: m, n, k and batch up to 2^24, the others up
 * to 65536. */
typedef struct qkv_bench_options {
    size_t struct_size;
    const char *what; /* a group (gemm, attention, pointwise, layer, recurrence, train, predict), one case of it (attention.forward), or all */
    qkv_bench_dtype dtype;
    int quick;      /* 1: fewer cases, and less time for each */
    double seconds; /* spent on the repeats of a case, 0.01 .. 3600: at least so long and at least 7 repeats; of a case that
                     * takes longer than a sixth of it at least 3. 0: half a second, or a tenth where quick */

    int64_t m, n, k; /* gemm: C[m,n] = A[m,k] B[k,n]. Elsewhere n is the length of a sequence */
    int64_t dim;     /* attention: width of a head; elsewhere: of the model or row */
    int64_t value_dim, heads, kv_heads, batch;
    int64_t layers, ffn;
    int64_t global_first, global_every, random_blocks, block; /* attention, beside a window: as in qkv_attention */
    qkv_span window;                                          /* neighbours left and right; left -2: as the case has it */
    double dropout;
    int layout; /* attention.decode: a qkv_bench_layout */
} qkv_bench_options;

QKV_API void qkv_bench_init(qkv_bench_options *options); /* everything, f32 */

/* One case: what it is, and, after qkv_bench_measure, how it went. A size that it does not have is 0. */
typedef struct qkv_bench_case {
    char name[32];    /* "attention.forward" */
    char variant[32]; /* "causal", "packing included", ...; "" for the plain one */
    int64_t m, n, k;
    int64_t dim, value_dim, heads, kv_heads, batch;
    int64_t layers, ffn;
    int64_t global_first, global_every, random_blocks, block;
    int64_t shortest, tokens; /* ragged: lengths from `shortest` to n, `tokens` rows in all */
    qkv_span window;          /* -1, -1: everything */
    double dropout;
    qkv_bench_layout layout;

    /* filled by qkv_bench_measure */
    int threads;
    qkv_bench_dtype dtype;  /* it ran in: QKV_BENCH_F32 also where bf16 was asked for and the case has no such form */
    int64_t memory;         /* bytes that it took */
    double flops;           /* useful operations of one pass: products and attention, visible pairs only; where a case has
                             * neither, all of its arithmetic. 1 multiply-add = 2 */
    double bytes;           /* operands read and results written, each once */
    double items;           /* texts or tokens of one pass; 0: not counted */
    int repeats;
    int64_t passes;         /* in one repeat */
    double min_s, median_s, max_s; /* seconds of one pass */
    double gflops, gbs;     /* 1e9 operations and bytes a second, at the median */
    double floor_s;         /* of one pass, median */
    double share;           /* median of floor / time */
    int by_bytes;           /* 1: the floor is that of the bytes */
    double ceiling_gflops;  /* median of what was measured beside the repeats */
    double ceiling_gbs;     /* of the bytes in the mix that the case has; 0: not measured, they could not matter */
} qkv_bench_case;

/* The cases that `options` names, in order, nothing measured yet; to be given back with qkv_release. An unknown name or a
 * size out of range is QKV_BAD_ARGUMENT, a size that no such case has too. */
QKV_API qkv_status qkv_bench_list(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case **cases,
                                  int64_t *count) QKV_MUST_USE;

/* What one case will take: fills flops, bytes, items and memory, and measures nothing. QKV_NO_MEMORY as below. */
QKV_API qkv_status qkv_bench_plan(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) QKV_MUST_USE;

/* Runs one case with the threads of the context. QKV_NO_MEMORY, with both numbers, before anything big is allocated where the
 * system has not enough available; QKV_STOPPED when the stop callback asked between two repeats. */
QKV_API qkv_status qkv_bench_measure(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) QKV_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
