#define QKV_ISA_AVX2 1
#define QKV_ISA_TABLE qkv_kernels_bf16_avx2
#define QKV_ISA_NAME "bf16_avx2"
#include "kernels/isa_bf16.inc"
