/* The vocabulary in plain C: the reference of the others, the double build, and (through simd_count.h) the one that counts. */
#ifndef QKV_KERNELS_SIMD_SCALAR_H
#define QKV_KERNELS_SIMD_SCALAR_H

/* simd_count.h replaces this; the class is one of the fields of qkv_counts. */
#ifndef V_COUNT
#define V_COUNT(class, lanes) ((void)0)
#endif

typedef struct v16 {
    real a[16];
} v16;
typedef struct i16v {
    uint32_t a[16];
} i16v;
typedef uint32_t m16;

/* Kept as a loop: unrolled, the tiles of the kernels become code that takes a minute to compile. */
#define V_EACH _Pragma("GCC unroll 1") for (int i = 0; i < 16; i++)

/* a*b + c rounded once. Without FMA instructions libm's is a call and, on old machines, very slow; this is exact as well:
 * the product of two floats is exact in double, the sum is rounded to odd (Boldo & Melquiond 2008), and rounding that to
 * float rounds the true value. Shifts instead of comparisons, because SSE2 has none for 64 bits. */
#if !defined(QKV_DOUBLE) && !defined(__FP_FAST_FMAF)
#define V_FMA_IN_DOUBLE 1
#endif

V_INLINE uint64_t to_odd_(uint64_t sum, uint64_t error) {
    uint64_t twice = error << 1, inexact = (twice | (0 - twice)) >> 63, finite = 1 - ((((sum >> 52) & 0x7FF) + 1) >> 11);
    uint64_t even = ~sum & 1, inward = (sum ^ error) >> 63; /* the true value lies nearer to zero than the sum */
    return sum + ((1 - (inward << 1)) & (0 - (inexact & finite & even)));
}

V_INLINE real r_fma_plain(real a, real b, real c) {
#if defined(QKV_DOUBLE)
    return a * b + c;
#elif !defined(V_FMA_IN_DOUBLE)
    return __builtin_fmaf(a, b, c);
#else
    double p = (double)a * (double)b, z = (double)c, s = p + z, t = s - p;
    double e = (p - (s - t)) + (z - t); /* s + e is the exact sum (Knuth's two-sum) */
    uint64_t sum, error;
    memcpy(&sum, &s, 8);
    memcpy(&error, &e, 8);
    sum = to_odd_(sum, error);
    memcpy(&s, &sum, 8);
    return (real)s;
#endif
}

V_INLINE v16 v_load(const real *p) {
    v16 x;
    memcpy(&x, p, sizeof x);
    return x;
}
V_INLINE void v_store(real *p, v16 x) { memcpy(p, &x, sizeof x); }
V_INLINE void v_store_around(real *p, v16 x) { v_store(p, x); }
V_INLINE void v_around_done(void) {}
V_INLINE v16 v_loadn(const real *p, int n) {
    if (n == 16) return v_load(p);
    v16 x = {{0}};
    for (int i = 0; i < n; i++) x.a[i] = p[i];
    return x;
}
V_INLINE void v_storen(real *p, int n, v16 x) {
    if (n == 16) {
        v_store(p, x);
        return;
    }
    for (int i = 0; i < n; i++) p[i] = x.a[i];
}
V_INLINE v16 v_set1(real a) {
    v16 x;
    V_EACH x.a[i] = a;
    return x;
}
V_INLINE v16 v_zero(void) { return v_set1(0); }

#define V_BINARY(name, expression)    \
    V_INLINE v16 name(v16 x, v16 y) { \
        v16 z;                        \
        V_COUNT(other, 16);           \
        V_EACH {                      \
            real a = x.a[i], b = y.a[i]; \
            z.a[i] = expression;      \
        }                             \
        return z;                     \
    }
V_BINARY(v_add, a + b)
V_BINARY(v_sub, a - b)
V_BINARY(v_mul, a *b)
V_BINARY(v_div, a / b)
V_BINARY(v_max, a > b ? a : b)
V_BINARY(v_min, a < b ? a : b)
#undef V_BINARY

V_LONG v16 v_fma(v16 x, v16 y, v16 z) {
    v16 r;
    V_COUNT(fma, 16);
#ifdef V_FMA_IN_DOUBLE /* the steps of r_fma_plain, two lanes at a time */
    typedef double two __attribute__((vector_size(16)));
    typedef uint64_t bits __attribute__((vector_size(16)));
    for (int i = 0; i < 16; i += 2) {
        two p = (two){x.a[i], x.a[i + 1]} * (two){y.a[i], y.a[i + 1]}, c = {z.a[i], z.a[i + 1]};
        two s = p + c, t = s - p, e = (p - (s - t)) + (c - t);
        bits sum = (bits)s, error = (bits)e, twice = error << 1, inexact = (twice | (0 - twice)) >> 63;
        bits finite = 1 - ((((sum >> 52) & 0x7FF) + 1) >> 11), inward = (sum ^ error) >> 63;
        sum += (1 - (inward << 1)) & (0 - (inexact & finite & ~sum & 1));
        s = (two)sum;
        r.a[i] = (real)s[0];
        r.a[i + 1] = (real)s[1];
    }
#else
    V_EACH r.a[i] = r_fma_plain(x.a[i], y.a[i], z.a[i]);
#endif
    return r;
}
V_INLINE v16 v_sqrt(v16 x) {
    V_COUNT(other, 16);
#ifdef QKV_DOUBLE
    V_EACH x.a[i] = __builtin_sqrt(x.a[i]);
#else
    V_EACH x.a[i] = __builtin_sqrtf(x.a[i]);
#endif
    return x;
}
V_INLINE v16 v_abs(v16 x) {
#ifdef QKV_DOUBLE
    V_EACH x.a[i] = __builtin_fabs(x.a[i]);
#else
    V_EACH x.a[i] = __builtin_fabsf(x.a[i]);
#endif
    return x;
}
V_INLINE v16 v_neg(v16 x) {
    V_EACH x.a[i] = -x.a[i];
    return x;
}

V_INLINE real v_sum(v16 x) {
    V_COUNT(other, 15);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) x.a[i] = x.a[i] + x.a[i + half];
    return x.a[0];
}
V_INLINE real v_hmax(v16 x) {
    V_COUNT(other, 15);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) x.a[i] = x.a[i] > x.a[i + half] ? x.a[i] : x.a[i + half];
    return x.a[0];
}
V_INLINE real v_first(v16 x) { return x.a[0]; }

#define V_COMPARE(name, expression)                                        \
    V_INLINE m16 name(v16 x, v16 y) {                                      \
        m16 m = 0;                                                         \
        V_EACH {                                                           \
            real a = x.a[i], b = y.a[i];                                   \
            m |= (m16)(expression) << i;                                   \
        }                                                                  \
        return m;                                                          \
    }
V_COMPARE(v_lt, a < b)
V_COMPARE(v_le, a <= b)
V_COMPARE(v_eq, a == b)
V_COMPARE(v_unordered, (a != a) | (b != b))
#undef V_COMPARE
V_INLINE m16 v_isnan(v16 x) { return v_unordered(x, x); }
V_INLINE v16 v_select(m16 m, v16 x, v16 y) {
    V_EACH x.a[i] = m >> i & 1 ? x.a[i] : y.a[i];
    return x;
}

V_INLINE m16 m_first(int n) { return ((m16)1 << n) - 1; }
V_INLINE m16 m_and(m16 a, m16 b) { return a & b; }
V_INLINE m16 m_or(m16 a, m16 b) { return a | b; }
V_INLINE m16 m_not(m16 a) { return ~a & 0xFFFF; }
V_INLINE bool m_any(m16 a) { return a != 0; }
V_INLINE uint32_t m_bits(m16 a) { return a; }

V_INLINE i16v i_set1(uint32_t a) {
    i16v x;
    V_EACH x.a[i] = a;
    return x;
}
V_INLINE i16v i_iota(void) {
    i16v x;
    V_EACH x.a[i] = (uint32_t)i;
    return x;
}
V_INLINE i16v i_loadn(const uint32_t *p, int n) {
    i16v x = {{0}};
    for (int i = 0; i < n; i++) x.a[i] = p[i];
    return x;
}
V_INLINE void i_storen(uint32_t *p, int n, i16v x) {
    for (int i = 0; i < n; i++) p[i] = x.a[i];
}
V_INLINE i16v i_add(i16v x, i16v y) {
    V_EACH x.a[i] += y.a[i];
    return x;
}
V_INLINE i16v i_mul(i16v x, i16v y) {
    V_EACH x.a[i] *= y.a[i];
    return x;
}
V_INLINE i16v i_xor(i16v x, i16v y) {
    V_EACH x.a[i] ^= y.a[i];
    return x;
}
V_INLINE i16v i_shl(i16v x, int n) {
    V_EACH x.a[i] <<= n;
    return x;
}
V_INLINE i16v i_shr(i16v x, int n) {
    V_EACH x.a[i] >>= n;
    return x;
}
V_INLINE m16 i_lt(i16v x, i16v y) {
    m16 m = 0;
    V_EACH m |= (m16)(x.a[i] < y.a[i]) << i;
    return m;
}
V_INLINE i16v i_select(m16 m, i16v x, i16v y) {
    V_EACH x.a[i] = m >> i & 1 ? x.a[i] : y.a[i];
    return x;
}

/* The bits of a real as integers and back: f32 only, for the functions of simd_math.h. */
#ifndef QKV_DOUBLE
V_INLINE i16v v_bits(v16 x) {
    i16v y;
    memcpy(&y, &x, sizeof y);
    return y;
}
V_INLINE v16 v_from_bits(i16v x) {
    v16 y;
    memcpy(&y, &x, sizeof y);
    return y;
}
/* Exact for lanes that are signed integers below 2^24 in magnitude. */
V_INLINE v16 v_from_int(i16v x) {
    v16 y;
    V_EACH y.a[i] = (real)(int32_t)x.a[i];
    return y;
}
#endif

V_LONG void v_transpose16x16(v16 r[16]) {
    for (int i = 0; i < 16; i++)
        for (int j = i + 1; j < 16; j++) {
            real t = r[i].a[j];
            r[i].a[j] = r[j].a[i];
            r[j].a[i] = t;
        }
}

V_INLINE real r_fma(real a, real b, real c) {
    V_COUNT(fma, 1);
    return r_fma_plain(a, b, c);
}
V_INLINE real r_sqrt(real a) {
    V_COUNT(other, 1);
#ifdef QKV_DOUBLE
    return __builtin_sqrt(a);
#else
    return __builtin_sqrtf(a);
#endif
}

#endif
