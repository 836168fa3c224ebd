/* Words of bf16. A pair is a 32-bit lane with two bf16 in it, the first of the two in the upper half; an i16v is 16 pairs.
 *
 *   v_mix(x, y)      lane i: x[i], y[i]
 *   v_pairs(x, y)    lane i: elements 2i and 2i+1 of the 32 in x, y
 *   v_pairs_back(x, y)   lane i: elements 2i+1 and 2i of them; one instruction less where there are instructions
 *   v_dot(a, b, c)   c + a.first * b.first, then + a.second * b.second: two fused multiply-adds, first then second, so that a
 *                    chain of dots over pairs of k is the chain over k
 *   v_first_of v_second_of   the halves as 16 reals
 *   i_load i_store   16 pairs, unaligned
 *   i_transpose16x16(r)   in place on i16v r[16]
 *
 * Rounding to bf16 is to nearest, ties to even; overflow gives inf, NaN stays NaN, and what is subnormal as f32 becomes a zero
 * of its sign. With AVX512-BF16 (QKV_BF16_NATIVE) they are instructions. Elsewhere the same is computed from the words of
 * simd.h, and the bits are the same but for one thing: the instruction takes subnormal sums for zero too. */
#ifndef QKV_KERNELS_SIMD_BF16_H
#define QKV_KERNELS_SIMD_BF16_H

#include "kernels/simd.h"

#if defined(QKV_ISA_AVX2) /* as two halves: a copy of the whole would live in memory */
V_INLINE i16v i_load(const uint32_t *p) {
    return (i16v){_mm256_loadu_si256((const __m256i *)(const void *)p), _mm256_loadu_si256((const __m256i *)(const void *)(p + 8))};
}
V_INLINE void i_store(uint32_t *p, i16v x) {
    _mm256_storeu_si256((__m256i *)(void *)p, x.l);
    _mm256_storeu_si256((__m256i *)(void *)(p + 8), x.h);
}
#else
V_INLINE i16v i_load(const uint32_t *p) {
    i16v x;
    memcpy(&x, p, sizeof x);
    return x;
}
V_INLINE void i_store(uint32_t *p, i16v x) { memcpy(p, &x, sizeof x); }
#endif

#if defined(QKV_ISA_AVX512) || defined(QKV_ISA_AVX2) || defined(QKV_ISA_NEON)

V_INLINE v16 v_first_of(i16v a) { return v_from_bits(i_shl(i_shr(a, 16), 16)); }
V_INLINE v16 v_second_of(i16v a) { return v_from_bits(i_shl(a, 16)); }

V_INLINE void i_transpose16x16(i16v r[16]) {
    v16 t[16];
    V_UNROLL(16)
    for (int i = 0; i < 16; i++) t[i] = v_from_bits(r[i]);
    v_transpose16x16(t);
    V_UNROLL(16)
    for (int i = 0; i < 16; i++) r[i] = v_bits(t[i]);
}

#endif

#if defined(QKV_BF16_NATIVE)

/* The instruction takes the odd element first: that is the upper half of a lane. */
V_INLINE v16 v_dot(i16v a, i16v b, v16 c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
V_INLINE i16v v_pairs_back(v16 x, v16 y) { return (i16v)_mm512_cvtne2ps_pbh(y, x); }
V_INLINE i16v v_pairs(v16 x, v16 y) { return _mm512_maskz_rol_epi32(0xFFFF, v_pairs_back(x, y), 16); }
V_INLINE i16v v_mix(v16 x, v16 y) {
    const i16v order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18,
                                        2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (i16v)_mm512_cvtne2ps_pbh(x, y));
}

#elif defined(QKV_ISA_AVX512) || defined(QKV_ISA_AVX2) || defined(QKV_ISA_NEON)

V_INLINE v16 v_dot(i16v a, i16v b, v16 c) { return v_fma(v_second_of(a), v_second_of(b), v_fma(v_first_of(a), v_first_of(b), c)); }

/* In the upper half; what is in the lower half is the caller's to clear. */
V_INLINE i16v v_round_bf16(v16 x) {
    i16v b = v_bits(x), odd = i_shr(i_shl(b, 15), 31);
    i16v r = i_add(b, i_add(odd, i_set1(0x7FFF)));
    r = i_select(v_isnan(x), i_set1(0x7FC00000), r);
    return i_select(v_lt(v_abs(x), v_set1(0x1p-126f)), i_shl(i_shr(b, 31), 31), r);
}
V_INLINE i16v v_mix(v16 x, v16 y) { return i_add(i_shl(i_shr(v_round_bf16(x), 16), 16), i_shr(v_round_bf16(y), 16)); }
V_INLINE i16v v_pairs(v16 x, v16 y) {
    uint32_t t[32], r[16];
    i_store(t, v_round_bf16(x));
    i_store(t + 16, v_round_bf16(y));
    for (int i = 0; i < 16; i++) r[i] = (t[2 * i] & 0xFFFF0000u) | t[2 * i + 1] >> 16;
    return i_load(r);
}
V_INLINE i16v v_pairs_back(v16 x, v16 y) {
    i16v r = v_pairs(x, y);
    return i_add(i_shr(r, 16), i_shl(r, 16));
}

#else

V_INLINE uint32_t r_bf16(real x) {
    float f = (float)x;
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    if (f != f) return 0x7FC0;
    if ((b & 0x7F800000) == 0) return b >> 16 & 0x8000;
    return (b + 0x7FFF + (b >> 16 & 1)) >> 16;
}
V_INLINE real r_from_bf16(uint32_t bits) {
    float f;
    bits <<= 16;
    memcpy(&f, &bits, sizeof f);
    return (real)f;
}
V_INLINE v16 v_first_of(i16v a) {
    v16 x;
    V_EACH x.a[i] = r_from_bf16(a.a[i] >> 16);
    return x;
}
V_INLINE v16 v_second_of(i16v a) {
    v16 x;
    V_EACH x.a[i] = r_from_bf16(a.a[i] & 0xFFFF);
    return x;
}
V_LONG v16 v_dot(i16v a, i16v b, v16 c) { return v_fma(v_second_of(a), v_second_of(b), v_fma(v_first_of(a), v_first_of(b), c)); }
V_LONG i16v v_mix(v16 x, v16 y) {
    i16v r;
    V_EACH r.a[i] = r_bf16(x.a[i]) << 16 | r_bf16(y.a[i]);
    return r;
}
V_LONG i16v v_pairs(v16 x, v16 y) {
    i16v r;
    V_EACH {
        const real *from = i < 8 ? x.a + 2 * i : y.a + 2 * i - 16;
        r.a[i] = r_bf16(from[0]) << 16 | r_bf16(from[1]);
    }
    return r;
}
V_LONG i16v v_pairs_back(v16 x, v16 y) {
    i16v r = v_pairs(x, y);
    V_EACH r.a[i] = r.a[i] >> 16 | r.a[i] << 16;
    return r;
}
V_LONG void i_transpose16x16(i16v r[16]) {
    for (int i = 0; i < 16; i++)
        for (int j = i + 1; j < 16; j++) {
            uint32_t t = r[i].a[j];
            r[i].a[j] = r[j].a[i];
            r[j].a[i] = t;
        }
}

#endif

/* 2^f for |f| <= 1/2, to 1.0e-4, exact at 0: for what is rounded to bf16 afterwards. */
V_INLINE v16 v_exp2_short_(v16 f) {
    v16 p = v_fma(v_set1((real)0x1.c2a25ap-5), f, v_set1((real)0x1.f00c76p-3));
    p = v_fma(p, f, v_set1((real)0x1.62f5fcp-1));
    return v_fma(p, f, v_set1(1));
}
V_WORD(v_exp2_short)

#endif
