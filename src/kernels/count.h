/* What the COUNT build of the kernels counted since the caller last zeroed it. Tests only; not for threads. */
#ifndef QKV_KERNELS_COUNT_H
#define QKV_KERNELS_COUNT_H

#include <stdint.h>

typedef struct qkv_counts {
    uint64_t fma;   /* lanes of v_fma and r_fma */
    uint64_t other; /* lanes of the other arithmetic: add, sub, mul, div, max, min, sqrt, folds */
    uint64_t math;  /* lanes of exp, log, tanh, erf, sigmoid; what they do inside is not counted above */
} qkv_counts;

extern qkv_counts qkv_counted;

#endif
