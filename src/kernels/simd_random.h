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
 * be the same sequence in another order. h is past the first xor-shift; the last one is not done. */
V_INLINE i16v v_dropout_rounds_(i16v h, dropout_row row) {
    h = i_add(i_mul(h, i_set1(0x7FEB352Du)), i_set1(row.b));
    return i_mul(i_xor(h, i_shr(h, 15)), i_set1(0x846CA68Bu));
}

V_INLINE m16 v_dropout_keep(dropout_row row, i16v column, uint32_t threshold) {
    i16v h = i_xor(column, i_set1(row.a));
    h = v_dropout_rounds_(i_xor(h, i_shr(h, 16)), row);
    return m_not(i_lt(i_xor(h, i_shr(h, 16)), i_set1(threshold)));
}

/* The contrary for 32 columns from `first` on, a multiple of 32, by half a number each: where nothing waits for memory, the
 * drawing is what dropout costs. The number of a lane only fills the last bits of what is drawn from, and what comes before it is
 * the same for all lanes. Of the last xor-shift the halves see no more than this. */
V_INLINE i16v v_dropout_draw(dropout_row row, uint32_t first) {
    const uint32_t h = first / 2 ^ row.a;
    return v_dropout_rounds_(i_xor(i_iota(), i_set1(h ^ h >> 16)), row);
}
V_INLINE m16 v_dropout_drops(i16v drawn, bool second, uint32_t threshold) { /* the second 16; p in 16 bits */
    return i_lt(second ? drawn : i_xor(drawn, i_shl(drawn, 16)), i_set1(threshold));
}

#endif
