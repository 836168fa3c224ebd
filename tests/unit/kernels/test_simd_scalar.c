#define SIMD_PRESENT 1
#include "unit/kernels/simd_check.inc"
