/* What this machine is and what it can reach, as qkv sees it. */
#ifndef QKV_MACHINE_H
#define QKV_MACHINE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    double read_gbs;        /* memory read by all threads together, 1e9 bytes a second */
    double copy_gbs;        /* memory copy, bytes read plus bytes written */
} qkv_machine;

QKV_API qkv_status qkv_machine_describe(qkv_ctx *ctx, qkv_machine *machine) QKV_MUST_USE;

/* Describes and measures; takes about `seconds` (clamped to 0.05 .. 10). Needs about 256 MB for the bandwidths; with
 * bandwidth = 0 only the FMA rates are measured. */
QKV_API qkv_status qkv_machine_measure(qkv_ctx *ctx, double seconds, int bandwidth, qkv_machine *machine) QKV_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
