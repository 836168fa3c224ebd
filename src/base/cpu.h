/* What the CPU and the operating system allow. */
#ifndef QKV_BASE_CPU_H
#define QKV_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qkv_cpu {
    char name[96];
    bool avx2, avx512, neon; /* usable: by CPUID *and* saved by the system (XGETBV) */
    bool avx512_bf16;        /* with avx512 */
    char missing[96];        /* why the widest is not usable: "the CPU has no AVX-512", ... */
} qkv_cpu;

void qkv_cpu_detect(qkv_cpu *cpu);
int qkv_cpu_cores_allowed(void); /* affinity mask and cgroup quota, at least 1 */
double qkv_now(void);            /* monotonic seconds */
int64_t qkv_cpu_cache(int level); /* bytes of the data cache of this level (1, 2, 3) that the first core sees; 0: unknown */

/* Bytes that this process can still get without swapping: what the system calls available, and what the control groups around
 * the process leave, file caches counted as free. -1: unknown. */
int64_t qkv_memory_available(void);

/* Bytes of this process that are in memory now; -1: unknown. Blocks that were freed are given back to the system first where that
 * can be asked for, so that what comes next does not hide in them. */
int64_t qkv_memory_resident(void);

/* The most that it had since qkv_memory_forget_peak; -1: unknown. That is false where the system keeps no count that can begin
 * anew. */
int64_t qkv_memory_peak(void);
bool qkv_memory_forget_peak(void);

/* The parts of it that read text: a line "name number", and the least that the memory groups at `root` + `path` and above
 * leave (-1: no limit found). Version 1 and 2 differ in the names of the files. */
bool qkv_memory_field(const char *text, const char *name, int64_t *value);
int64_t qkv_memory_group_left(const char *root, const char *path, bool version_2);

#endif
