/* Compiled with the AVX-512 flags of the kernels where the compiler has them; skipped elsewhere. */
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && !defined(QKV_DOUBLE)
#define QKV_ISA_AVX512 1
#define SIMD_PRESENT \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#include "unit/kernels/simd_check.inc"
#else
int main(void) { return 77; }
#endif
