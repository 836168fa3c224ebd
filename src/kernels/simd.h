/* The vocabulary of the kernels: one logical vector of 16 reals, on every instruction set.
 *
 * A kernel is written once over these words and compiled once per instruction set. All words are static inline and give
 * the same bits everywhere at f32 (a NaN is a NaN; its payload and sign are not promised).
 *
 *   v16                          16 reals
 *   v_load(p) v_store(p,x)       unaligned
 *   v_loadn(p,n) v_storen(p,n,x) the first n lanes, n in 0..16; loads zero beyond; never touches memory beyond
 *   v_set1(a) v_zero()
 *   v_add v_sub v_mul v_div      IEEE, to nearest
 *   v_fma(a,b,c)                 a*b + c rounded once (double build: twice)
 *   v_max(a,b) v_min(a,b)        a > b ? a : b and a < b ? a : b. A NaN in either gives b, so v_max(constant, x) keeps a NaN of x
 *   v_sqrt v_abs v_neg
 *   v_sum(x)                     lanes i and i+8, then i and i+4, i+2, i+1: the one tree of this library
 *   v_hmax(x)                    the largest lane by the same tree of v_max; may miss a NaN
 *   v_hmax_nan(x)                the same, NaN if any lane is
 *   v_first(x)                   lane 0
 *   v_transpose16x16(r)          in place on v16 r[16]
 *
 *   v_prefetch(p)                the line of p is asked for, and nothing waits for it; p may be any address
 *   v_prefetch_write(p)          to be written
 *   v_prefetch_far(p)            into the second cache only: what lies a power of two apart shares few sets of the first
 *   v_store_around(p,x)          p a multiple of 64 bytes: past the caches where there is a way; v_around_done() when all is stored
 *   v_put(around,p,n,x)          v_store_around, n being 16, or v_storen
 *
 *   m16                          16 truths, opaque
 *   v_lt v_le v_eq               ordered: false with a NaN
 *   v_isnan(x)
 *   v_select(m,a,b)              m ? a : b
 *   m_first(n)                   lanes below n, n in 0..16
 *   m_range(lo,hi)               lanes lo..hi-1; lo and hi are clamped to 0..16
 *   m_and m_or m_not m_any(m) m_bits(m)
 *
 *   i16v                         16 unsigned 32-bit integers, wrapping
 *   i_set1 i_iota() i_add i_mul i_xor i_shl(x,constant) i_shr(x,constant) i_lt(a,b) (unsigned, -> m16)
 *   i_loadn(p,n) i_storen(p,n,x) i_select(m,a,b)
 *
 *   r_fma r_sqrt r_exp r_log     one real, the same bits as a lane of the vector word
 *
 * simd_math.h adds v_exp2 v_exp v_log v_tanh v_erf v_sigmoid and the pieces of exp2; simd_random.h adds dropout. */
#ifndef QKV_KERNELS_SIMD_H
#define QKV_KERNELS_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/real.h"

/* Words are always inlined where they are one or a few instructions. In plain C they are loops over 16 lanes: the long ones
 * (V_LONG) are then calls, and in a build with sanitizers or without optimisation all are: inlined, they took minutes to
 * compile. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define V_SLOW_BUILD 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define V_SLOW_BUILD 1
#endif
#if defined(QKV_ISA_AVX512) || defined(QKV_ISA_AVX2) || defined(QKV_ISA_NEON)
#define V_INLINE static inline __attribute__((always_inline))
#define V_LONG V_INLINE
#else
#ifdef V_SLOW_BUILD
#define V_INLINE static __attribute__((noinline, unused))
#else
#define V_INLINE static inline __attribute__((always_inline))
#endif
#define V_LONG static __attribute__((noinline, unused))
#endif

/* Long words. Where a vector is an array of 16 they are calls: inlined, they make code that takes a minute to compile. */
#if defined(QKV_ISA_AVX512) || defined(QKV_ISA_AVX2) || defined(QKV_ISA_NEON)
#define V_CALLED V_INLINE
#else
#define V_CALLED static __attribute__((noinline, unused))
#endif

enum { V_LANES = 16 };

/* Before a loop whose n rounds must all be laid out, or its array of vectors would live in memory. (In plain C a vector is an
 * array and lives there anyway.) */
#define V_PRAGMA_(text) _Pragma(#text)
#if !defined(QKV_ISA_AVX512) && !defined(QKV_ISA_AVX2) && !defined(QKV_ISA_NEON)
#define V_UNROLL(n)
#elif defined(__clang__)
#define V_UNROLL(n) V_PRAGMA_(clang loop unroll(full))
#else
#define V_UNROLL(n) V_PRAGMA_(GCC unroll n)
#endif

/* Exactly one of these names the instruction set; isa_<name>.c defines it. */
#if defined(QKV_ISA_AVX512)
#include "kernels/simd_avx512.h"
#elif defined(QKV_ISA_AVX2)
#include "kernels/simd_avx2.h"
#elif defined(QKV_ISA_NEON)
#include "kernels/simd_neon.h"
#elif defined(QKV_ISA_COUNT)
#include "kernels/simd_count.h"
#else
#include "kernels/simd_scalar.h"
#endif

V_INLINE m16 m_range(int64_t lo, int64_t hi) {
    lo = lo < 0 ? 0 : lo > 16 ? 16 : lo;
    hi = hi < 0 ? 0 : hi > 16 ? 16 : hi;
    return m_and(m_first((int)hi), m_not(m_first((int)lo)));
}

V_INLINE real v_hmax_nan(v16 x) {
    real m = v_hmax(x);
    return m_any(v_isnan(x)) ? (real)NAN : m;
}

/* Each holds one of the few places for lines under way (24 on Zen 4) until the line is there: where rows are read along and the
 * processor looks ahead by itself, they make it slower. */
V_INLINE void v_prefetch(const void *p) { __builtin_prefetch(p); }
V_INLINE void v_prefetch_write(const void *p) { __builtin_prefetch(p, 1); }
V_INLINE void v_prefetch_far(const void *p) { __builtin_prefetch(p, 0, 2); }

/* What is written once and read later. `around` is a constant where it is called: then all rows are of whole aligned vectors. */
V_INLINE void v_put(const bool around, real *p, int n, v16 x) {
    if (around) v_store_around(p, x);
    else v_storen(p, n, x);
}

#include "kernels/simd_math.h"
#include "kernels/simd_random.h"

#endif
