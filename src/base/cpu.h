/* What the CPU and the operating system allow. */
#ifndef QKV_BASE_CPU_H
#define QKV_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

typedef struct qkv_cpu {
    char name[96];
    bool avx2, avx512, neon; /* usable: by CPUID *and* saved by the system (XGETBV) */
    char missing[96];        /* why the widest is not usable: "the CPU has no AVX-512", ... */
} qkv_cpu;

void qkv_cpu_detect(qkv_cpu *cpu);
int qkv_cpu_cores_allowed(void); /* affinity mask and cgroup quota, at least 1 */
double qkv_now(void);            /* monotonic seconds */

#endif
