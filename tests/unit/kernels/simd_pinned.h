/* The elementary functions and the dropout hash on fixed numbers, folded into one number. It was computed once and is the
 * same on every instruction set and with every C library. Include after kernels/simd.h. */
#ifndef QKV_TESTS_SIMD_PINNED_H
#define QKV_TESTS_SIMD_PINNED_H

#include "unit/kernels/kernel_case.h"

#define VOCABULARY_HASH 0xC1A37C5A88C86CD4u

#define EACH for (int i = 0; i < 16; i++)

/* Numbers of all kinds: ordinary, huge, tiny, subnormal, zeros, infinities, NaN. */
static void mixed(dice *d, real x[16]) {
    EACH {
        int kind = (int)dice_int(d, 0, 11);
        real a = (real)dice_real(d, -2, 2);
        x[i] = kind == 0 ? (real)NAN : kind == 1 ? (real)INFINITY : kind == 2 ? (real)-INFINITY : kind == 3 ? 0 : kind == 4 ? -(real)0.0
             : kind == 5 ? a * (real)0x1p100 : kind == 6 ? a * (real)0x1p-100 : kind == 7 ? a * (real)0x1p-140 : a;
    }
}

static v16 word(int which, v16 x) {
    switch (which) {
    case 0: return v_exp2(x);
    case 1: return v_exp(x);
    case 2: return v_log(x);
    case 3: return v_tanh(x);
    case 4: return v_sigmoid(x);
    case 5: return v_normal(x);
    default: return v_gelu_slope(x);
    }
}

#ifndef QKV_DOUBLE
static uint64_t vocabulary_hash(void) {
    uint64_t hash = 0;
    dice d = {30, 0};
    for (int round = 0; round < 4000; round++) {
        real x[16], y[16];
        if (round % 8 == 0) mixed(&d, x);
        else EACH x[i] = (real)dice_real(&d, -100, 100) * (real)ldexp(1, -(round % 16));
        for (int f = 0; f < 7; f++) {
            v_store(y, word(f, v_load(x)));
            EACH {
                uint32_t bits;
                memcpy(&bits, &y[i], 4);
                hash = qkv_key2(hash, isnan(y[i]) ? 0x7FC00000u : bits);
            }
        }
        dropout_row row = dropout_row_key((uint64_t)round, 5);
        hash = qkv_key2(hash, m_bits(v_dropout_keep(row, i_add(i_iota(), i_set1((uint32_t)round)), dropout_threshold((real)0.3))));
    }
    return hash;
}
#endif

#endif
