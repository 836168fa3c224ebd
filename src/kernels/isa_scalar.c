#define QKV_ISA_SCALAR 1
#define QKV_ISA_TABLE qkv_kernels_scalar
#define QKV_ISA_NAME "scalar"
#include "kernels/isa.inc"
