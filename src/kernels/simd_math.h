/* Elementary functions of 16 reals, from + - * / fma and bits only, so that every instruction set and every libm gives the
 * same answer. Polynomials: least maximum error over the stated range, coefficients rounded to float one after another.
 * In the double build (gradient checks) they are libm's, where digits matter and bits do not.
 *
 * For every function a NaN stays a NaN. Errors in units of the last place are asserted in the tests. */
#ifndef QKV_KERNELS_SIMD_MATH_H
#define QKV_KERNELS_SIMD_MATH_H

/* What these functions do inside is not counted lane by lane: the COUNT build books one `math` lane a lane. */
#ifdef QKV_ISA_COUNT
#define V_WORD(name)                        \
    V_CALLED v16 name(v16 x) {              \
        qkv_counts before = qkv_counted;    \
        v16 y = name##_(x);                 \
        qkv_counted = before;               \
        qkv_counted.math += 16;             \
        return y;                           \
    }
#else
#define V_WORD(name) \
    V_CALLED v16 name(v16 x) { return name##_(x); }
#endif

#define V_LOG2E ((real)1.44269504088896340736)
#define V_LN2 ((real)0.69314718055994530942)

/* Pieces of exp2 for kernels that reduce the argument themselves: with c = V_MAGIC + V_BIAS - m (m an even integer),
 * t = s + c, f = s - (t - c): 2^(s-m) = v_exp2_poly(f) * v_exp2_scale(t), for s - m in -V_BIAS .. V_BIAS. At -V_BIAS and
 * down to half below it the scale is exactly 0. */
#ifdef QKV_DOUBLE

#define V_MAGIC 0x1.8p52
#define V_BIAS 1023.0

V_INLINE v16 v_exp2_scale(v16 t) {
    uint64_t b[16];
    memcpy(b, &t, sizeof b);
    for (int i = 0; i < 16; i++) b[i] <<= 52;
    memcpy(&t, b, sizeof b);
    return t;
}
#define V_LIBM(name, expression)                             \
    V_INLINE v16 name##_(v16 x) {                            \
        for (int i = 0; i < 16; i++) {                       \
            double a = x.a[i];                               \
            x.a[i] = expression;                             \
        }                                                    \
        return x;                                            \
    }                                                        \
    V_WORD(name)
V_LIBM(v_exp2_poly, exp2(a))
V_LIBM(v_exp2, exp2(a))
V_LIBM(v_exp, exp(a))
V_LIBM(v_log, log(a))
V_LIBM(v_tanh, tanh(a))
V_LIBM(v_normal, 0.5 * erfc(-a * 0.70710678118654752440))
V_LIBM(v_gelu_slope, 0.5 * erfc(-a * 0.70710678118654752440) + a * 0.39894228040143267794 * exp(-0.5 * a * a))
#undef V_LIBM

#else

#define V_MAGIC 0x1.8p23f
#define V_BIAS 127.0f

V_INLINE v16 v_exp2_scale(v16 t) { return v_from_bits(i_shl(v_bits(t), 23)); }

/* 2^f for |f| <= 1/2 */
V_INLINE v16 v_exp2_poly_(v16 f) {
    v16 p = v_set1(0x1.417a9ap-13f);
    p = v_fma(p, f, v_set1(0x1.5f0948p-10f));
    p = v_fma(p, f, v_set1(0x1.3b2dd2p-7f));
    p = v_fma(p, f, v_set1(0x1.c6af7ap-5f));
    p = v_fma(p, f, v_set1(0x1.ebfbdcp-3f));
    p = v_fma(p, f, v_set1(0x1.62e430p-1f));
    return v_fma(p, f, v_set1(1));
}
V_WORD(v_exp2_poly)

/* 2^x; exactly 0 below -126.5, inf from 127.5. Multiplying by the power (rather than adding to the exponent) keeps a NaN. */
V_INLINE v16 v_exp2_(v16 x) {
    v16 c = v_set1(V_MAGIC + V_BIAS);
    x = v_min(v_set1(128), v_max(v_set1(-127), x));
    v16 t = v_add(x, c);
    return v_mul(v_exp2_poly_(v_sub(x, v_sub(t, c))), v_exp2_scale(t));
}
V_WORD(v_exp2)

/* e^x; exactly 0 below -87.68, inf from 88.38. ln 2 in two parts (the first of 11 bits, so that n * first is exact). */
V_INLINE v16 v_exp_(v16 x) {
    v16 c = v_set1(V_MAGIC + V_BIAS);
    x = v_min(v_set1(89), v_max(v_set1(-88.1f), x));
    v16 t = v_fma(x, v_set1(V_LOG2E), c), n = v_sub(t, c);
    v16 f = v_fma(n, v_set1(-0x1.62ep-1f), x);
    f = v_fma(n, v_set1(-0x1.0bfbe8p-15f), f);
    v16 p = v_set1(0x1.6a3d7ap-10f);
    p = v_fma(p, f, v_set1(0x1.1239e0p-7f));
    p = v_fma(p, f, v_set1(0x1.5558c0p-5f));
    p = v_fma(p, f, v_set1(0x1.555492p-3f));
    p = v_fma(p, f, v_set1(0x1.fffffcp-2f));
    p = v_fma(v_mul(f, f), p, f);
    return v_mul(v_add(p, v_set1(1)), v_exp2_scale(t));
}
V_WORD(v_exp)

/* Natural logarithm; -inf at 0, NaN below, inf at inf, subnormals included. x = 2^e m with m in sqrt(1/2) .. sqrt(2),
 * log m = f - f^2/2 + f^3 P(f) with f = m - 1. */
V_INLINE v16 v_log_(v16 x) {
    m16 tiny = v_lt(x, v_set1(0x1p-126f));
    i16v b = v_bits(v_select(tiny, v_mul(x, v_set1(0x1p23f)), x));
    i16v e = i_shr(i_add(b, i_set1(0x3F800000u - 0x3F3504F3u)), 23);
    v16 m = v_from_bits(i_add(b, i_shl(i_add(i_xor(e, i_set1(0xFFFFFFFFu)), i_set1(128)), 23))); /* b - ((e - 127) << 23) */
    v16 n = v_sub(v_from_int(e), v_select(tiny, v_set1(127 + 23), v_set1(127)));
    v16 f = v_sub(m, v_set1(1)), s = v_mul(f, f);
    v16 p = v_set1(0x1.1484e6p-4f);
    p = v_fma(p, f, v_set1(-0x1.de1008p-4f));
    p = v_fma(p, f, v_set1(0x1.e6c040p-4f));
    p = v_fma(p, f, v_set1(-0x1.fc26acp-4f));
    p = v_fma(p, f, v_set1(0x1.233b78p-3f));
    p = v_fma(p, f, v_set1(-0x1.555c4ep-3f));
    p = v_fma(p, f, v_set1(0x1.99a478p-3f));
    p = v_fma(p, f, v_set1(-0x1.000006p-2f));
    p = v_fma(p, f, v_set1(0x1.555548p-2f));
    p = v_fma(n, v_set1(0x1.0bfbe8p-15f), v_mul(v_mul(s, f), p));
    p = v_add(v_fma(s, v_set1(-0.5f), p), f);
    p = v_fma(n, v_set1(0x1.62ep-1f), p);
    p = v_select(v_lt(v_zero(), x), p, v_select(v_eq(x, v_zero()), v_set1(-INFINITY), v_set1(NAN)));
    return v_select(v_eq(x, v_set1(INFINITY)), x, p);
}
V_WORD(v_log)

V_INLINE v16 v_tanh_(v16 x) {
    v16 a = v_min(v_set1(10), v_abs(x)), s = v_mul(x, x);
    v16 p = v_set1(-0x1.75438ap-8f);
    p = v_fma(p, s, v_set1(0x1.52034ep-6f));
    p = v_fma(p, s, v_set1(-0x1.b836e8p-5f));
    p = v_fma(p, s, v_set1(0x1.1106fcp-3f));
    p = v_fma(p, s, v_set1(-0x1.555532p-2f));
    v16 near = v_fma(v_mul(x, s), p, x);
    v16 e = v_exp_(v_add(a, a));
    v16 far = v_sub(v_set1(1), v_div(v_set1(2), v_add(e, v_set1(1))));
    far = v_select(v_lt(x, v_zero()), v_neg(far), far);
    return v_select(v_lt(a, v_set1(0.625f)), near, far);
}
V_WORD(v_tanh)

/* The normal distribution function, 1/2 + x P(x^2) / Q(x^2), to within 1.9e-7. Far out the quotient still leads beyond 0 and 1. */
V_INLINE v16 v_normal_(v16 x) {
    v16 s = v_min(v_set1(30.25f), v_mul(x, x));
    v16 p = v_set1(0x1.0576cep-25f), q = v_set1(0x1.ae19c0p-20f);
    p = v_fma(p, s, v_set1(0x1.1d2e8cp-17f));
    q = v_fma(q, s, v_set1(0x1.9d4e6cp-14f));
    p = v_fma(p, s, v_set1(0x1.d9b8d4p-13f));
    q = v_fma(q, s, v_set1(0x1.4a7ba6p-9f));
    p = v_fma(p, s, v_set1(0x1.9a22b4p-8f));
    q = v_fma(q, s, v_set1(0x1.39fc00p-5f));
    p = v_fma(p, s, v_set1(0x1.730e2ep-5f));
    q = v_fma(q, s, v_set1(0x1.589cfcp-2f));
    p = v_fma(p, s, v_set1(0x1.114c3ap-1f));
    q = v_fma(q, s, v_set1(0x1.56872cp+0f));
    v16 half = v_div(v_mul(x, p), q);
    return v_add(v_set1(0.5f), v_min(v_set1(0.5f), v_max(v_set1(-0.5f), half)));
}
V_WORD(v_normal)

/* Derivative of x times the normal distribution function, likewise, to within 2.6e-7; exactly 0 and 1 beyond 6.05. */
V_INLINE v16 v_gelu_slope_(v16 x) {
    x = v_min(v_set1(6.05f), v_max(v_set1(-6.05f), x));
    v16 s = v_mul(x, x), p = v_set1(0x1.bf2ce6p-26f), q = v_set1(0x1.107876p-29f);
    q = v_fma(q, s, v_set1(0x1.1a8b0cp-21f));
    p = v_fma(p, s, v_set1(0x1.851898p-20f));
    q = v_fma(q, s, v_set1(0x1.083e4ap-16f));
    p = v_fma(p, s, v_set1(0x1.ab6c38p-15f));
    q = v_fma(q, s, v_set1(0x1.8759f8p-12f));
    p = v_fma(p, s, v_set1(0x1.597644p-12f));
    q = v_fma(q, s, v_set1(0x1.89d3d4p-8f));
    p = v_fma(p, s, v_set1(0x1.5243a8p-6f));
    q = v_fma(q, s, v_set1(0x1.104bd0p-4f));
    p = v_fma(p, s, v_set1(-0x1.05c1f6p-5f));
    q = v_fma(q, s, v_set1(0x1.d4f17cp-2f));
    p = v_fma(p, s, v_set1(0x1.312980p+0f));
    q = v_fma(q, s, v_set1(0x1.7e76c8p+0f));
    return v_add(v_set1(0.5f), v_div(v_mul(x, p), q));
}
V_WORD(v_gelu_slope)

#endif

/* Where e^-x overflows, the quotient is 0. */
V_INLINE v16 v_sigmoid_(v16 x) { return v_div(v_set1(1), v_add(v_set1(1), v_exp_(v_neg(x)))); }
V_WORD(v_sigmoid)

V_INLINE real r_exp(real x) { return v_first(v_exp(v_set1(x))); }
V_INLINE real r_log(real x) { return v_first(v_log(v_set1(x))); }

#endif
