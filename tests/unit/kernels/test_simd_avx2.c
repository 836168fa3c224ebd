/* Compiled with -mavx2 -mfma where the compiler has them; skipped elsewhere. */
#if defined(__AVX2__) && defined(__FMA__) && !defined(QKV_DOUBLE)
#define QKV_ISA_AVX2 1
#define SIMD_PRESENT (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#include "unit/kernels/simd_check.inc"
#else
int main(void) { return 77; }
#endif
