/* What this machine is and what it can reach, as qkv sees it. */
#ifndef QKV_MACHINE_H
#define QKV_MACHINE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that all threads together move in a second, in 1e9: from a working set of this size. */
typedef struct qkv_bandwidth {
    int64_t bytes;     /* of the cache (of one core, where each has its own), 0: unknown, and not measured */
    double read_gbs;
    double copy_gbs;   /* bytes read plus bytes written, from one buffer to another by the C library's copy */
    double update_gbs; /* bytes read plus bytes written in place. A copy is slower where what is written is read first */
} qkv_bandwidth;

typedef struct qkv_machine {
    char cpu[96];        /* as the CPU names itself */
    char isa[16];        /* chosen kernel table: scalar, avx2, avx512, neon */
    char why[160];       /* one sentence: why this one */
    char present[64];    /* every table that can run here, best first */
    int cores_allowed;   /* by the affinity mask and the cgroup quota */
    int threads;         /* of this context */
    char build[160];     /* compiler, build type, real type, threads */

    /* filled by qkv_machine_measure; 0 before */
    double fma_gflops_core; /* register-only FMA rate of one thread, in 1e9 floating-point operations a second (1 FMA = 2) */
    double fma_gflops;      /* the same of all threads together */
    double bf16_gflops;     /* the same of bf16 dot products; 0: there are none here */
    qkv_bandwidth memory;   /* of buffers that no cache holds */
    qkv_bandwidth cache[3]; /* level 1, 2, 3 */
} qkv_machine;

QKV_API qkv_status qkv_machine_describe(qkv_ctx *ctx, qkv_machine *machine) QKV_MUST_USE;

/* Describes and measures; takes about `seconds` (clamped to 0.05 .. 10). Needs eight times the largest cache for the
 * bandwidths; with bandwidth = 0 only the arithmetic is measured. */
QKV_API qkv_status qkv_machine_measure(qkv_ctx *ctx, double seconds, int bandwidth, qkv_machine *machine) QKV_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
