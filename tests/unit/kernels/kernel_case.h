/* Numbers, buffers and comparisons for tests of kernels. No test library in here: the AArch64 program uses it too. */
#ifndef QKV_TESTS_KERNEL_CASE_H
#define QKV_TESTS_KERNEL_CASE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/kernels.h"

#ifdef QKV_DOUBLE
#define EPSILON 0x1p-53 /* half a unit in the last place of 1 */
#else
#define EPSILON 0x1p-24
#endif

typedef struct dice {
    uint64_t key, count;
} dice;

static inline double dice_real(dice *d, double from, double to) {
    return from + (to - from) * qkv_uniform(qkv_key2(d->key, d->count++));
}
static inline int64_t dice_int(dice *d, int64_t from, int64_t to) { /* both ends included */
    return from + (int64_t)(qkv_key2(d->key, d->count++) % (uint64_t)(to - from + 1));
}

/* Exactly the elements a matrix has, so that the address sanitizer sees the first one beyond. */
static inline int64_t matrix_size(int64_t rows, int64_t cols, int64_t ld) { return rows && cols ? (rows - 1) * ld + cols : 0; }

static inline void *must_alloc(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

static inline real *random_reals(dice *d, int64_t n, double scale) {
    real *p = must_alloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (real)dice_real(d, -scale, scale);
    return p;
}

static inline real *copy_reals(const real *from, int64_t n) {
    real *p = must_alloc((size_t)n * sizeof *p);
    memcpy(p, from, (size_t)n * sizeof *p);
    return p;
}

/* Bit for bit, except that any NaN equals any NaN. */
static inline bool same_bits(real a, real b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

static inline int64_t first_difference(const real *a, const real *b, int64_t n) { /* -1: none */
    for (int64_t i = 0; i < n; i++)
        if (!same_bits(a[i], b[i])) return i;
    return -1;
}

#endif
