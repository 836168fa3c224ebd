#define QKV_ISA_NEON 1
#define QKV_ISA_TABLE qkv_kernels_neon
#define QKV_ISA_NAME "neon"
#include "kernels/isa.inc"
