#define QKV_ISA_AVX512 1
#define QKV_ISA_TABLE qkv_kernels_bf16_avx512
#define QKV_ISA_NAME "bf16_avx512"
#include "kernels/isa_bf16.inc"
