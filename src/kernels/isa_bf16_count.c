#define QKV_ISA_COUNT 1
#define QKV_ISA_TABLE qkv_kernels_bf16_count
#define QKV_ISA_NAME "bf16_count"
#include "kernels/isa_bf16.inc"
