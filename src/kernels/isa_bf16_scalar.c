#define QKV_ISA_TABLE qkv_kernels_bf16_scalar
#define QKV_ISA_NAME "bf16_scalar"
#include "kernels/isa_bf16.inc"
