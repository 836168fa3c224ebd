/* The vocabulary on AVX-512 (F, BW, DQ, VL): one register a vector. */
#ifndef QKV_KERNELS_SIMD_AVX512_H
#define QKV_KERNELS_SIMD_AVX512_H

#include <immintrin.h>

typedef __m512 v16;
typedef __m512i i16v;
typedef __mmask16 m16;

V_INLINE v16 v_load(const real *p) { return _mm512_loadu_ps(p); }
V_INLINE void v_store(real *p, v16 x) { _mm512_storeu_ps(p, x); }
V_INLINE void v_store_around(real *p, v16 x) { _mm512_stream_ps(p, x); }
V_INLINE void v_around_done(void) { _mm_sfence(); }
V_INLINE m16 m_first(int n) { return (m16)((1u << n) - 1); }
V_INLINE v16 v_loadn(const real *p, int n) { return _mm512_maskz_loadu_ps(m_first(n), p); }
V_INLINE void v_storen(real *p, int n, v16 x) { _mm512_mask_storeu_ps(p, m_first(n), x); }
V_INLINE v16 v_set1(real a) { return _mm512_set1_ps(a); }
V_INLINE v16 v_zero(void) { return _mm512_setzero_ps(); }

V_INLINE v16 v_add(v16 a, v16 b) { return a + b; }
V_INLINE v16 v_sub(v16 a, v16 b) { return a - b; }
V_INLINE v16 v_mul(v16 a, v16 b) { return a * b; }
V_INLINE v16 v_div(v16 a, v16 b) { return a / b; }
V_INLINE v16 v_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
/* maskz: the plain forms draw a false "uninitialized" warning from gcc 12 */
V_INLINE v16 v_max(v16 a, v16 b) { return _mm512_maskz_max_ps(0xFFFF, a, b); }
V_INLINE v16 v_min(v16 a, v16 b) { return _mm512_maskz_min_ps(0xFFFF, a, b); }
V_INLINE v16 v_sqrt(v16 a) { return _mm512_maskz_sqrt_ps(0xFFFF, a); }
V_INLINE i16v v_bits(v16 a) { return _mm512_castps_si512(a); }
V_INLINE v16 v_from_bits(i16v a) { return _mm512_castsi512_ps(a); }
V_INLINE v16 v_from_int(i16v a) { return _mm512_maskz_cvtepi32_ps(0xFFFF, a); }
V_INLINE v16 v_abs(v16 a) { return v_from_bits(_mm512_and_si512(v_bits(a), _mm512_set1_epi32(0x7FFFFFFF))); }
V_INLINE v16 v_neg(v16 a) { return v_from_bits(_mm512_xor_si512(v_bits(a), _mm512_set1_epi32(INT32_MIN))); }

V_INLINE __m256 v_high_(v16 x) { return _mm512_maskz_extractf32x8_ps(0xFF, x, 1); }
V_INLINE real v_sum(v16 x) {
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), v_high_(x));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
V_INLINE real v_hmax(v16 x) {
    __m256 y = _mm256_max_ps(_mm512_castps512_ps256(x), v_high_(x));
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}
V_INLINE real v_first(v16 x) { return _mm512_cvtss_f32(x); }

V_INLINE m16 v_lt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V_INLINE m16 v_le(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
V_INLINE m16 v_eq(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
V_INLINE m16 v_isnan(v16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
V_INLINE v16 v_select(m16 m, v16 a, v16 b) { return _mm512_mask_blend_ps(m, b, a); }

V_INLINE m16 m_and(m16 a, m16 b) { return (m16)(a & b); }
V_INLINE m16 m_or(m16 a, m16 b) { return (m16)(a | b); }
V_INLINE m16 m_not(m16 a) { return (m16)~a; }
V_INLINE bool m_any(m16 a) { return a != 0; }
V_INLINE uint32_t m_bits(m16 a) { return a; }

V_INLINE i16v i_set1(uint32_t a) { return _mm512_set1_epi32((int)a); }
V_INLINE i16v i_iota(void) { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
V_INLINE i16v i_loadn(const uint32_t *p, int n) { return _mm512_maskz_loadu_epi32(m_first(n), p); }
V_INLINE void i_storen(uint32_t *p, int n, i16v x) { _mm512_mask_storeu_epi32(p, m_first(n), x); }
V_INLINE i16v i_add(i16v a, i16v b) { return _mm512_add_epi32(a, b); }
V_INLINE i16v i_mul(i16v a, i16v b) { return _mm512_mullo_epi32(a, b); }
V_INLINE i16v i_xor(i16v a, i16v b) { return _mm512_xor_si512(a, b); }
#define i_shr(x, n) _mm512_maskz_srli_epi32(0xFFFF, (x), (n))
#define i_shl(x, n) _mm512_maskz_slli_epi32(0xFFFF, (x), (n))
V_INLINE m16 i_lt(i16v a, i16v b) { return _mm512_cmplt_epu32_mask(a, b); }
V_INLINE i16v i_select(m16 m, i16v a, i16v b) { return _mm512_mask_blend_epi32(m, b, a); }

/* Four rounds, each exchanging blocks of 8, 4, 2, 1: here lanes of 32 bits, then 64, then 128 twice. */
V_INLINE void v_transpose16x16(v16 r[16]) {
    v16 t[16], u[16];
    V_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_maskz_unpacklo_ps(0xFFFF, r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_maskz_unpackhi_ps(0xFFFF, r[2 * i], r[2 * i + 1]);
    }
    V_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        u[4 * i] = _mm512_maskz_shuffle_ps(0xFFFF, t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm512_maskz_shuffle_ps(0xFFFF, t[4 * i], t[4 * i + 2], 0xEE);
        u[4 * i + 2] = _mm512_maskz_shuffle_ps(0xFFFF, t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm512_maskz_shuffle_ps(0xFFFF, t[4 * i + 1], t[4 * i + 3], 0xEE);
    }
    /* u[4b + c], 128-bit lane L: rows 4b..4b+3 of column 4L + c */
    V_UNROLL(4)
    for (int c = 0; c < 4; c++) {
        v16 a = _mm512_maskz_shuffle_f32x4(0xFFFF, u[c], u[4 + c], 0x88);      /* blocks 0,1 of columns c, 8+c */
        v16 b = _mm512_maskz_shuffle_f32x4(0xFFFF, u[c], u[4 + c], 0xDD);      /* columns 4+c, 12+c */
        v16 d = _mm512_maskz_shuffle_f32x4(0xFFFF, u[8 + c], u[12 + c], 0x88); /* blocks 2,3 */
        v16 e = _mm512_maskz_shuffle_f32x4(0xFFFF, u[8 + c], u[12 + c], 0xDD);
        r[c] = _mm512_maskz_shuffle_f32x4(0xFFFF, a, d, 0x88);
        r[8 + c] = _mm512_maskz_shuffle_f32x4(0xFFFF, a, d, 0xDD);
        r[4 + c] = _mm512_maskz_shuffle_f32x4(0xFFFF, b, e, 0x88);
        r[12 + c] = _mm512_maskz_shuffle_f32x4(0xFFFF, b, e, 0xDD);
    }
}

V_INLINE real r_fma(real a, real b, real c) { return __builtin_fmaf(a, b, c); }
V_INLINE real r_sqrt(real a) { return __builtin_sqrtf(a); }

#endif
