/* Kernels with bf16 operands and f32 accumulation: a table of their own, because the instructions for it (AVX512-BF16) are
 * there or not apart from the rest of an instruction set. Where they are not, the same kernels run on the words of f32:
 * correct, and slower than the f32 kernels.
 *
 * Operands are rounded to bf16 on their way into a product (to nearest even; NaN kept; subnormals to zero); sums are f32. Since
 * a product of two bf16 is exact in f32, a product here is what the f32 kernel gives for the rounded operands: one chain with
 * k ascending, the same for any split into chunks. Only AVX512-BF16 takes subnormal sums for zero; everybody else keeps them. */
#ifndef QKV_KERNELS_BF16_H
#define QKV_KERNELS_BF16_H

#include "kernels/kernels.h"

/* 32-bit pairs of a packed right-hand side: [ceil(n/16)][ceil(k/2)][16], the lane of column j holding k = 2l and 2l+1. Half the
 * memory of an f32 one. */
static inline int64_t qkv_bf16_packed_size(int64_t k, int64_t n) {
    return (n + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL * ((k + 1) / 2);
}

#define QKV_BF16_LIST(X)                                                                                                           \
    /* as gemm_pack of kernels.h, to pairs, and only rows k0..k1-1: k0 even, k1 even or k */                                       \
    X(void, gemm_pack, (int64_t k, int64_t n, int64_t k0, int64_t k1, int64_t n0, int64_t n1, const real *b, int64_t b_row, int64_t b_col, \
                        uint32_t *packed))                                                                                         \
    /* as gemm of kernels.h, with the packed operand as pairs; g->packed is not read */                                            \
    X(void, gemm, (const qkv_gemm *g, const uint32_t *packed))                                                                     \
    /* as those of kernels.h */                                                                                                    \
    X(int64_t, attend_forward_scratch, (int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim))                                 \
    X(void, attend_forward, (const qkv_attend *a, real *scratch))                                                                  \
    X(int64_t, attend_backward_scratch, (int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim))                                \
    X(void, attend_backward, (const qkv_attend *a, real *scratch))                                                                 \
    /* registers only: FLOPs done in `iterations` rounds of dots; *sink defeats the optimizer */                                   \
    X(double, dot_peak, (int64_t iterations, real *sink))

typedef struct qkv_bf16_kernels {
    const char *name; /* of the instruction set: bf16_scalar, bf16_avx512, ... */
    bool native;      /* by instructions made for it */
#define QKV_KERNEL_FIELD(type, name, parameters) type(*name) parameters;
    QKV_BF16_LIST(QKV_KERNEL_FIELD)
#undef QKV_KERNEL_FIELD
} qkv_bf16_kernels;

extern const qkv_bf16_kernels qkv_kernels_bf16_scalar;
extern const qkv_bf16_kernels qkv_kernels_bf16_avx2;       /* x86-64 builds */
extern const qkv_bf16_kernels qkv_kernels_bf16_avx512;     /* x86-64 builds; emulated */
extern const qkv_bf16_kernels qkv_kernels_bf16_avx512bf16; /* x86-64 builds; native */
extern const qkv_bf16_kernels qkv_kernels_bf16_neon;       /* AArch64 builds */
extern const qkv_bf16_kernels qkv_kernels_bf16_count;      /* linked into tests only */

#endif
