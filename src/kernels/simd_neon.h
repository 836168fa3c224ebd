/* The vocabulary on AArch64: four registers a vector. */
#ifndef QKV_KERNELS_SIMD_NEON_H
#define QKV_KERNELS_SIMD_NEON_H

#include <arm_neon.h>

typedef struct v16 {
    float32x4_t a, b, c, d;
} v16;
typedef struct i16v {
    uint32x4_t a, b, c, d;
} i16v;
typedef i16v m16; /* all ones or all zeros a lane */

#define V_MAP1(f, x) {f((x).a), f((x).b), f((x).c), f((x).d)}
#define V_MAP2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)}

V_INLINE v16 v_load(const real *p) { return (v16){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
V_INLINE void v_store(real *p, v16 x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
V_INLINE void v_store_around(real *p, v16 x) { v_store(p, x); }
V_INLINE void v_around_done(void) {}
V_INLINE v16 v_loadn(const real *p, int n) {
    if (n == 16) return v_load(p);
    real t[16] = {0};
    for (int i = 0; i < n; i++) t[i] = p[i];
    return v_load(t);
}
V_INLINE void v_storen(real *p, int n, v16 x) {
    if (n == 16) {
        v_store(p, x);
        return;
    }
    real t[16];
    v_store(t, x);
    for (int i = 0; i < n; i++) p[i] = t[i];
}
V_INLINE v16 v_set1(real a) {
    float32x4_t x = vdupq_n_f32(a);
    return (v16){x, x, x, x};
}
V_INLINE v16 v_zero(void) { return v_set1(0); }

V_INLINE v16 v_add(v16 x, v16 y) { return (v16)V_MAP2(vaddq_f32, x, y); }
V_INLINE v16 v_sub(v16 x, v16 y) { return (v16)V_MAP2(vsubq_f32, x, y); }
V_INLINE v16 v_mul(v16 x, v16 y) { return (v16)V_MAP2(vmulq_f32, x, y); }
V_INLINE v16 v_div(v16 x, v16 y) { return (v16)V_MAP2(vdivq_f32, x, y); }
V_INLINE v16 v_fma(v16 x, v16 y, v16 z) {
    return (v16){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
/* FMAX would return the NaN of either side; the rule here is x > y ? x : y */
V_INLINE float32x4_t v_max4_(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
V_INLINE float32x4_t v_min4_(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
V_INLINE v16 v_max(v16 x, v16 y) { return (v16)V_MAP2(v_max4_, x, y); }
V_INLINE v16 v_min(v16 x, v16 y) { return (v16)V_MAP2(v_min4_, x, y); }
V_INLINE v16 v_sqrt(v16 x) { return (v16)V_MAP1(vsqrtq_f32, x); }
V_INLINE v16 v_abs(v16 x) { return (v16)V_MAP1(vabsq_f32, x); }
V_INLINE v16 v_neg(v16 x) { return (v16)V_MAP1(vnegq_f32, x); }
V_INLINE i16v v_bits(v16 x) { return (i16v)V_MAP1(vreinterpretq_u32_f32, x); }
V_INLINE v16 v_from_bits(i16v x) { return (v16)V_MAP1(vreinterpretq_f32_u32, x); }
V_INLINE float32x4_t v_from_int4_(uint32x4_t x) { return vcvtq_f32_s32(vreinterpretq_s32_u32(x)); }
V_INLINE v16 v_from_int(i16v x) { return (v16)V_MAP1(v_from_int4_, x); }

V_INLINE real v_sum(v16 x) {
    float32x4_t z = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t y = vadd_f32(vget_low_f32(z), vget_high_f32(z));
    return vget_lane_f32(y, 0) + vget_lane_f32(y, 1);
}
V_INLINE real v_hmax(v16 x) {
    float32x4_t z = v_max4_(v_max4_(x.a, x.c), v_max4_(x.b, x.d));
    float32x2_t l = vget_low_f32(z), h = vget_high_f32(z);
    float32x2_t y = vbsl_f32(vcgt_f32(l, h), l, h);
    real p = vget_lane_f32(y, 0), q = vget_lane_f32(y, 1);
    return p > q ? p : q;
}
V_INLINE real v_first(v16 x) { return vgetq_lane_f32(x.a, 0); }

V_INLINE m16 v_lt(v16 x, v16 y) { return (m16)V_MAP2(vcltq_f32, x, y); }
V_INLINE m16 v_le(v16 x, v16 y) { return (m16)V_MAP2(vcleq_f32, x, y); }
V_INLINE m16 v_eq(v16 x, v16 y) { return (m16)V_MAP2(vceqq_f32, x, y); }
V_INLINE m16 m_not(m16 x) { return (m16)V_MAP1(vmvnq_u32, x); }
V_INLINE m16 v_isnan(v16 x) { return m_not(v_eq(x, x)); }
V_INLINE v16 v_select(m16 m, v16 x, v16 y) {
    return (v16){vbslq_f32(m.a, x.a, y.a), vbslq_f32(m.b, x.b, y.b), vbslq_f32(m.c, x.c, y.c), vbslq_f32(m.d, x.d, y.d)};
}

V_INLINE i16v i_set1(uint32_t a) {
    uint32x4_t x = vdupq_n_u32(a);
    return (i16v){x, x, x, x};
}
V_INLINE i16v i_iota(void) {
    static const uint32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (i16v){vld1q_u32(lanes), vld1q_u32(lanes + 4), vld1q_u32(lanes + 8), vld1q_u32(lanes + 12)};
}
V_INLINE i16v i_loadn(const uint32_t *p, int n) {
    uint32_t t[16] = {0};
    for (int i = 0; i < n; i++) t[i] = p[i];
    return (i16v){vld1q_u32(t), vld1q_u32(t + 4), vld1q_u32(t + 8), vld1q_u32(t + 12)};
}
V_INLINE void i_storen(uint32_t *p, int n, i16v x) {
    uint32_t t[16];
    vst1q_u32(t, x.a);
    vst1q_u32(t + 4, x.b);
    vst1q_u32(t + 8, x.c);
    vst1q_u32(t + 12, x.d);
    for (int i = 0; i < n; i++) p[i] = t[i];
}
V_INLINE i16v i_add(i16v x, i16v y) { return (i16v)V_MAP2(vaddq_u32, x, y); }
V_INLINE i16v i_mul(i16v x, i16v y) { return (i16v)V_MAP2(vmulq_u32, x, y); }
V_INLINE i16v i_xor(i16v x, i16v y) { return (i16v)V_MAP2(veorq_u32, x, y); }
V_INLINE i16v i_shr(i16v x, int n) {
    int32x4_t s = vdupq_n_s32(-n);
    return (i16v){vshlq_u32(x.a, s), vshlq_u32(x.b, s), vshlq_u32(x.c, s), vshlq_u32(x.d, s)};
}
V_INLINE i16v i_shl(i16v x, int n) {
    int32x4_t s = vdupq_n_s32(n);
    return (i16v){vshlq_u32(x.a, s), vshlq_u32(x.b, s), vshlq_u32(x.c, s), vshlq_u32(x.d, s)};
}
V_INLINE m16 i_lt(i16v x, i16v y) { return (m16)V_MAP2(vcltq_u32, x, y); }
V_INLINE i16v i_select(m16 m, i16v x, i16v y) {
    return (i16v){vbslq_u32(m.a, x.a, y.a), vbslq_u32(m.b, x.b, y.b), vbslq_u32(m.c, x.c, y.c), vbslq_u32(m.d, x.d, y.d)};
}

V_INLINE m16 m_first(int n) { return i_lt(i_iota(), i_set1((uint32_t)n)); }
V_INLINE m16 m_and(m16 x, m16 y) { return (m16)V_MAP2(vandq_u32, x, y); }
V_INLINE m16 m_or(m16 x, m16 y) { return (m16)V_MAP2(vorrq_u32, x, y); }
V_INLINE bool m_any(m16 x) { return vmaxvq_u32(vorrq_u32(vorrq_u32(x.a, x.b), vorrq_u32(x.c, x.d))) != 0; }
V_INLINE uint32_t m_bits(m16 x) {
    static const uint32_t weights[4] = {1, 2, 4, 8};
    uint32x4_t w = vld1q_u32(weights);
    return vaddvq_u32(vandq_u32(x.a, w)) | vaddvq_u32(vandq_u32(x.b, w)) << 4 | vaddvq_u32(vandq_u32(x.c, w)) << 8 |
           vaddvq_u32(vandq_u32(x.d, w)) << 12;
}

V_INLINE void v_transpose4x4_(float32x4_t *r0, float32x4_t *r1, float32x4_t *r2, float32x4_t *r3) {
    float32x4x2_t p = vtrnq_f32(*r0, *r1), q = vtrnq_f32(*r2, *r3);
    *r0 = vcombine_f32(vget_low_f32(p.val[0]), vget_low_f32(q.val[0]));
    *r1 = vcombine_f32(vget_low_f32(p.val[1]), vget_low_f32(q.val[1]));
    *r2 = vcombine_f32(vget_high_f32(p.val[0]), vget_high_f32(q.val[0]));
    *r3 = vcombine_f32(vget_high_f32(p.val[1]), vget_high_f32(q.val[1]));
}
#define V_SWAP_(x, y)         \
    do {                      \
        float32x4_t t_ = (x); \
        (x) = (y);            \
        (y) = t_;             \
    } while (0)
V_INLINE void v_transpose16x16(v16 r[16]) {
    V_UNROLL(4)
    for (int i = 0; i < 16; i += 4) {
        v_transpose4x4_(&r[i].a, &r[i + 1].a, &r[i + 2].a, &r[i + 3].a);
        v_transpose4x4_(&r[i].b, &r[i + 1].b, &r[i + 2].b, &r[i + 3].b);
        v_transpose4x4_(&r[i].c, &r[i + 1].c, &r[i + 2].c, &r[i + 3].c);
        v_transpose4x4_(&r[i].d, &r[i + 1].d, &r[i + 2].d, &r[i + 3].d);
    }
    V_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        V_SWAP_(r[i].b, r[4 + i].a);
        V_SWAP_(r[i].c, r[8 + i].a);
        V_SWAP_(r[i].d, r[12 + i].a);
        V_SWAP_(r[4 + i].c, r[8 + i].b);
        V_SWAP_(r[4 + i].d, r[12 + i].b);
        V_SWAP_(r[8 + i].d, r[12 + i].c);
    }
}

V_INLINE real r_fma(real a, real b, real c) { return __builtin_fmaf(a, b, c); }
V_INLINE real r_sqrt(real a) { return __builtin_sqrtf(a); }

#endif
