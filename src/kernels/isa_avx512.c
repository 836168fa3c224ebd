#define QKV_ISA_AVX512 1
#define QKV_ISA_TABLE qkv_kernels_avx512
#define QKV_ISA_NAME "avx512"
#include "kernels/isa.inc"
