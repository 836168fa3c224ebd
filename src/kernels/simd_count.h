/* The scalar vocabulary that counts what it does. */
#ifndef QKV_KERNELS_SIMD_COUNT_H
#define QKV_KERNELS_SIMD_COUNT_H

#include "kernels/count.h"

#define V_COUNT(class, lanes) (qkv_counted.class += (lanes))
#include "kernels/simd_scalar.h"

#endif
