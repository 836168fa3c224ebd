/* The vocabulary on AVX2 with FMA: two registers a vector (one 64-byte gcc vector would live on the stack). */
#ifndef QKV_KERNELS_SIMD_AVX2_H
#define QKV_KERNELS_SIMD_AVX2_H

#include <immintrin.h>

typedef struct v16 {
    __m256 l, h;
} v16;
typedef struct i16v {
    __m256i l, h;
} i16v;
typedef struct m16 {
    __m256 l, h; /* all ones or all zeros a lane */
} m16;

V_INLINE v16 v_load(const real *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
V_INLINE void v_store(real *p, v16 x) {
    _mm256_storeu_ps(p, x.l);
    _mm256_storeu_ps(p + 8, x.h);
}
V_INLINE void v_store_around(real *p, v16 x) {
    _mm256_stream_ps(p, x.l);
    _mm256_stream_ps(p + 8, x.h);
}
V_INLINE void v_around_done(void) { _mm_sfence(); }
V_INLINE i16v i_set1(uint32_t a) { return (i16v){_mm256_set1_epi32((int)a), _mm256_set1_epi32((int)a)}; }
V_INLINE i16v i_iota(void) {
    return (i16v){_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
V_INLINE i16v i_first_(int n) {
    i16v i = i_iota();
    __m256i k = _mm256_set1_epi32(n);
    return (i16v){_mm256_cmpgt_epi32(k, i.l), _mm256_cmpgt_epi32(k, i.h)};
}
V_INLINE m16 m_first(int n) {
    i16v m = i_first_(n);
    return (m16){_mm256_castsi256_ps(m.l), _mm256_castsi256_ps(m.h)};
}
/* Whole vectors are nearly all there are, and masked stores are slow on some machines. */
V_INLINE v16 v_loadn(const real *p, int n) {
    if (n == 16) return v_load(p);
    i16v m = i_first_(n);
    return (v16){_mm256_maskload_ps(p, m.l), _mm256_maskload_ps(p + 8, m.h)};
}
V_INLINE void v_storen(real *p, int n, v16 x) {
    if (n == 16) {
        v_store(p, x);
        return;
    }
    i16v m = i_first_(n);
    _mm256_maskstore_ps(p, m.l, x.l);
    _mm256_maskstore_ps(p + 8, m.h, x.h);
}
V_INLINE v16 v_set1(real a) { return (v16){_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
V_INLINE v16 v_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }

V_INLINE v16 v_add(v16 a, v16 b) { return (v16){a.l + b.l, a.h + b.h}; }
V_INLINE v16 v_sub(v16 a, v16 b) { return (v16){a.l - b.l, a.h - b.h}; }
V_INLINE v16 v_mul(v16 a, v16 b) { return (v16){a.l * b.l, a.h * b.h}; }
V_INLINE v16 v_div(v16 a, v16 b) { return (v16){a.l / b.l, a.h / b.h}; }
V_INLINE v16 v_fma(v16 a, v16 b, v16 c) { return (v16){_mm256_fmadd_ps(a.l, b.l, c.l), _mm256_fmadd_ps(a.h, b.h, c.h)}; }
V_INLINE v16 v_max(v16 a, v16 b) { return (v16){_mm256_max_ps(a.l, b.l), _mm256_max_ps(a.h, b.h)}; }
V_INLINE v16 v_min(v16 a, v16 b) { return (v16){_mm256_min_ps(a.l, b.l), _mm256_min_ps(a.h, b.h)}; }
V_INLINE v16 v_sqrt(v16 a) { return (v16){_mm256_sqrt_ps(a.l), _mm256_sqrt_ps(a.h)}; }
V_INLINE i16v v_bits(v16 a) { return (i16v){_mm256_castps_si256(a.l), _mm256_castps_si256(a.h)}; }
V_INLINE v16 v_from_bits(i16v a) { return (v16){_mm256_castsi256_ps(a.l), _mm256_castsi256_ps(a.h)}; }
V_INLINE v16 v_from_int(i16v a) { return (v16){_mm256_cvtepi32_ps(a.l), _mm256_cvtepi32_ps(a.h)}; }
V_INLINE v16 v_abs(v16 a) {
    __m256 m = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    return (v16){_mm256_and_ps(a.l, m), _mm256_and_ps(a.h, m)};
}
V_INLINE v16 v_neg(v16 a) {
    __m256 m = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_xor_ps(a.l, m), _mm256_xor_ps(a.h, m)};
}

V_INLINE real v_sum(v16 x) {
    __m256 y = _mm256_add_ps(x.l, x.h);
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
V_INLINE real v_hmax(v16 x) {
    __m256 y = _mm256_max_ps(x.l, x.h);
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}
V_INLINE real v_first(v16 x) { return _mm256_cvtss_f32(x.l); }

V_INLINE m16 v_lt(v16 a, v16 b) { return (m16){_mm256_cmp_ps(a.l, b.l, _CMP_LT_OQ), _mm256_cmp_ps(a.h, b.h, _CMP_LT_OQ)}; }
V_INLINE m16 v_le(v16 a, v16 b) { return (m16){_mm256_cmp_ps(a.l, b.l, _CMP_LE_OQ), _mm256_cmp_ps(a.h, b.h, _CMP_LE_OQ)}; }
V_INLINE m16 v_eq(v16 a, v16 b) { return (m16){_mm256_cmp_ps(a.l, b.l, _CMP_EQ_OQ), _mm256_cmp_ps(a.h, b.h, _CMP_EQ_OQ)}; }
V_INLINE m16 v_isnan(v16 a) { return (m16){_mm256_cmp_ps(a.l, a.l, _CMP_UNORD_Q), _mm256_cmp_ps(a.h, a.h, _CMP_UNORD_Q)}; }
V_INLINE v16 v_select(m16 m, v16 a, v16 b) { return (v16){_mm256_blendv_ps(b.l, a.l, m.l), _mm256_blendv_ps(b.h, a.h, m.h)}; }

V_INLINE m16 m_and(m16 a, m16 b) { return (m16){_mm256_and_ps(a.l, b.l), _mm256_and_ps(a.h, b.h)}; }
V_INLINE m16 m_or(m16 a, m16 b) { return (m16){_mm256_or_ps(a.l, b.l), _mm256_or_ps(a.h, b.h)}; }
V_INLINE m16 m_not(m16 a) {
    __m256 one = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    return (m16){_mm256_xor_ps(a.l, one), _mm256_xor_ps(a.h, one)};
}
V_INLINE uint32_t m_bits(m16 a) { return (uint32_t)_mm256_movemask_ps(a.l) | (uint32_t)_mm256_movemask_ps(a.h) << 8; }
V_INLINE bool m_any(m16 a) { return _mm256_movemask_ps(_mm256_or_ps(a.l, a.h)) != 0; }

V_INLINE i16v i_loadn(const uint32_t *p, int n) {
    i16v m = i_first_(n);
    return (i16v){_mm256_maskload_epi32((const int *)p, m.l), _mm256_maskload_epi32((const int *)p + 8, m.h)};
}
V_INLINE void i_storen(uint32_t *p, int n, i16v x) {
    i16v m = i_first_(n);
    _mm256_maskstore_epi32((int *)p, m.l, x.l);
    _mm256_maskstore_epi32((int *)p + 8, m.h, x.h);
}
V_INLINE i16v i_add(i16v a, i16v b) { return (i16v){_mm256_add_epi32(a.l, b.l), _mm256_add_epi32(a.h, b.h)}; }
V_INLINE i16v i_mul(i16v a, i16v b) { return (i16v){_mm256_mullo_epi32(a.l, b.l), _mm256_mullo_epi32(a.h, b.h)}; }
V_INLINE i16v i_xor(i16v a, i16v b) { return (i16v){_mm256_xor_si256(a.l, b.l), _mm256_xor_si256(a.h, b.h)}; }
V_INLINE i16v i_shr(i16v a, int n) { return (i16v){_mm256_srli_epi32(a.l, n), _mm256_srli_epi32(a.h, n)}; }
V_INLINE i16v i_shl(i16v a, int n) { return (i16v){_mm256_slli_epi32(a.l, n), _mm256_slli_epi32(a.h, n)}; }
V_INLINE m16 i_lt(i16v a, i16v b) {
    __m256i s = _mm256_set1_epi32(INT32_MIN); /* there is only a signed comparison */
    return (m16){_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_xor_si256(b.l, s), _mm256_xor_si256(a.l, s))),
                 _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_xor_si256(b.h, s), _mm256_xor_si256(a.h, s)))};
}
V_INLINE i16v i_select(m16 m, i16v a, i16v b) { return v_bits(v_select(m, v_from_bits(a), v_from_bits(b))); }

V_INLINE void v_transpose8x8_(__m256 r[8]) {
    __m256 t[8], u[8];
    V_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    V_UNROLL(2)
    for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE);
    }
    V_UNROLL(4)
    for (int c = 0; c < 4; c++) {
        r[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
        r[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
}
V_INLINE void v_transpose16x16(v16 r[16]) {
    __m256 a[8], b[8];
    V_UNROLL(8)
    for (int i = 0; i < 8; i++) a[i] = r[i].h, b[i] = r[8 + i].l;
    v_transpose8x8_(a);
    v_transpose8x8_(b);
    V_UNROLL(8)
    for (int i = 0; i < 8; i++) r[i].h = b[i], r[8 + i].l = a[i];
    V_UNROLL(8)
    for (int i = 0; i < 8; i++) a[i] = r[i].l, b[i] = r[8 + i].h;
    v_transpose8x8_(a);
    v_transpose8x8_(b);
    V_UNROLL(8)
    for (int i = 0; i < 8; i++) r[i].l = a[i], r[8 + i].h = b[i];
}

V_INLINE real r_fma(real a, real b, real c) { return __builtin_fmaf(a, b, c); }
V_INLINE real r_sqrt(real a) { return __builtin_sqrtf(a); }

#endif
