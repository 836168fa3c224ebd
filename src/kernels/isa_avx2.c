#define QKV_ISA_AVX2 1
#define QKV_ISA_TABLE qkv_kernels_avx2
#define QKV_ISA_NAME "avx2"
#include "kernels/isa.inc"
