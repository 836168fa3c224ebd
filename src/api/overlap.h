/* Do the ranges of memory that strided buffers name share any of it? Exact, and without looking at the memory. */
#ifndef QKV_API_OVERLAP_H
#define QKV_API_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* `width` floats at base + r * row + h * head for all r < rows, h < heads. Strides are not negative; none is beyond 2^31. */
typedef struct qkv_area {
    const char *name; /* for sentences */
    const void *base;
    int64_t rows, heads, width, row, head;
} qkv_area;

/* Floats from the first to behind the last. 0 if there is nothing. */
int64_t qkv_area_extent(const qkv_area *a);

/* Two of its own (row, head) ranges share memory. */
bool qkv_area_folds(const qkv_area *a);

/* The two share memory. Where they interleave they must have the same row stride; else this answers true. */
bool qkv_areas_meet(const qkv_area *a, const qkv_area *b);

#endif
