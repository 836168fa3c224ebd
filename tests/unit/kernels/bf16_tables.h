/* Every bf16 table that can run here, each beside the f32 table of its instruction set; the counting ones included. */
#ifndef QKV_TESTS_BF16_TABLES_H
#define QKV_TESTS_BF16_TABLES_H

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "kernels/pick.h"

typedef struct bf16_table {
    const qkv_bf16_kernels *k;
    const qkv_kernels *f32;
} bf16_table;

enum { BF16_TABLES = 6 };
static inline int bf16_tables(bf16_table tables[BF16_TABLES]) {
    const qkv_kernels *present[4];
    int n = 0, count = qkv_kernels_present(present);
    for (int i = 0; i < count; i++) tables[n++] = (bf16_table){qkv_kernels_bf16(present[i]), present[i]};
#if defined(__x86_64__) && !defined(QKV_DOUBLE)
    qkv_cpu cpu;
    qkv_cpu_detect(&cpu);
    if (cpu.avx512_bf16) tables[n++] = (bf16_table){&qkv_kernels_bf16_avx512, &qkv_kernels_avx512}; /* what it would be without */
#endif
    tables[n++] = (bf16_table){&qkv_kernels_bf16_count, &qkv_kernels_count};
    return n;
}

/* To nearest, ties to even, written out in another way than in the kernels: by the two neighbours. */
static inline real to_bf16(real x) {
    float f = (float)x, low, high;
    uint32_t bits;
    if (isnan(f) || isinf(f)) return (real)f;
    if (fabsf(f) < 0x1p-126f) return (real)copysignf(0, f);
    memcpy(&bits, &f, sizeof bits);
    uint32_t down = bits & 0xFFFF0000u, up = down + 0x10000u;
    memcpy(&low, &down, sizeof low);
    memcpy(&high, &up, sizeof high);
    double below = fabs((double)f - (double)low), above = isinf(high) ? fabs(copysign(0x1p128, f) - (double)f) : fabs((double)high - (double)f);
    if (below == above) return (real)(down & 0x10000u ? high : low);
    return (real)(below < above ? low : high);
}

#endif
