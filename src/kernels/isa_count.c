#define QKV_ISA_COUNT 1
#define QKV_ISA_TABLE qkv_kernels_count
#define QKV_ISA_NAME "count"
#include "kernels/isa.inc"

qkv_counts qkv_counted;
