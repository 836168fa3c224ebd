/* Counter-based random numbers: a value is a function of its key, so nothing is stored and order does not matter. */
#ifndef QKV_BASE_RNG_H
#define QKV_BASE_RNG_H

#include <stdint.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014, section 3). A bijection on 64 bits. */
static inline uint64_t qkv_mix64(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline uint64_t qkv_key2(uint64_t a, uint64_t b) { return qkv_mix64(qkv_mix64(a) ^ (b * 0xD1342543DE82EF95u + 1)); }
static inline uint64_t qkv_key3(uint64_t a, uint64_t b, uint64_t c) { return qkv_key2(qkv_key2(a, b), c); }
static inline uint64_t qkv_key4(uint64_t a, uint64_t b, uint64_t c, uint64_t d) { return qkv_key2(qkv_key3(a, b, c), d); }

/* In [0, 1), 53 bits. */
static inline double qkv_uniform(uint64_t key) { return (double)(qkv_mix64(key) >> 11) * 0x1p-53; }

/* Standard normal (Box & Muller 1958); one value a key. */
double qkv_normal(uint64_t key);

/* In [0, n), n >= 1, without bias that matters (64-bit multiply-shift). */
uint64_t qkv_below(uint64_t key, uint64_t n);

/* Fills order[0..n-1] with a permutation of 0..n-1 (Fisher-Yates, keyed). */
void qkv_shuffle(uint64_t key, int64_t n, int64_t *order);

#endif
