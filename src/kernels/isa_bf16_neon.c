#define QKV_ISA_NEON 1
#define QKV_ISA_TABLE qkv_kernels_bf16_neon
#define QKV_ISA_NAME "bf16_neon"
#include "kernels/isa_bf16.inc"
