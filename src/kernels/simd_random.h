/* Dropout as a function of (key, row key, column): nothing is stored, and the backward pass draws the same again. Shared
 * by the pointwise and the attention kernels. */
#ifndef QKV_KERNELS_SIMD_RANDOM_H
#define QKV_KERNELS_SIMD_RANDOM_H

#include "base/rng.h"

typedef struct dropout_row {
    uint32_t a, b;
} dropout_row;

V_INLINE dropout_row dropout_row_key(uint64_t key, uint64_t row_key) {
    uint64_t k = qkv_key2(key, row_key);
    return (dropout_row){(uint32_t)k, (uint32_t)(k >> 32)};
}

/* An element is dropped when its 32-bit hash is below this; p in [0, 1). */
V_INLINE uint32_t dropout_threshold(real p) {
    double t = (double)p * 0x1p32 + 0.5;
    return t >= 0x1p32 ? UINT32_MAX : (uint32_t)t;
}

/* Two rounds of multiply and xor-shift with the second half of the row key in between: with one half only, two rows would
 * be the same sequence in another order. h is past the first xor-shift. */
V_INLINE m16 v_dropout_rounds_(i16v h, dropout_row row, uint32_t threshold) {
    h = i_add(i_mul(h, i_set1(0x7FEB352Du)), i_set1(row.b));
    h = i_mul(i_xor(h, i_shr(h, 15)), i_set1(0x846CA68Bu));
    h = i_xor(h, i_shr(h, 16));
    return i_lt(h, i_set1(threshold));
}

V_INLINE m16 v_dropout_keep(dropout_row row, i16v column, uint32_t threshold) {
    i16v h = i_xor(column, i_set1(row.a));
    return m_not(v_dropout_rounds_(i_xor(h, i_shr(h, 16)), row, threshold));
}

/* The contrary for columns first..first+15, first a multiple of 16: then the number of a lane only fills its last bits, and what
 * comes before it is the same for all lanes. */
V_INLINE m16 v_dropout_drops(dropout_row row, uint32_t first, uint32_t threshold) {
    const uint32_t h = first ^ row.a;
    return v_dropout_rounds_(i_xor(i_iota(), i_set1(h ^ h >> 16)), row, threshold);
}

#endif
