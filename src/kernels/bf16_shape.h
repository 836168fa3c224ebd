/* How attention over pairs is cut into tiles, shared by the kernel and by the formulas that count what it computes. Pairs of
 * queries and of keys start at even positions; blocks of queries at multiples of BF16_BLOCK, key tiles of BF16_KEYS. */
#ifndef QKV_KERNELS_BF16_SHAPE_H
#define QKV_KERNELS_BF16_SHAPE_H

#include "kernels/attention_shape.h"

/* BF16_STRIDE: between rows that are read down their columns; a power of two would put a column into few sets of the cache. */
enum { BF16_KEYS = 128, BF16_QUERIES = 96, BF16_BLOCK = 6, BF16_STRIDE = BF16_KEYS + 16 };

#endif
