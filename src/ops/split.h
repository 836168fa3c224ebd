/* Cutting work into chunks: a function of the problem only, never of the number of threads. */
#ifndef QKV_OPS_SPLIT_H
#define QKV_OPS_SPLIT_H

#include <stdint.h>

typedef struct qkv_range {
    int64_t from, to;
} qkv_range;

static inline int64_t qkv_chunks(int64_t n, int64_t grain) { return (n + grain - 1) / grain; }

static inline qkv_range qkv_chunk_range(int64_t n, int64_t grain, int64_t chunk) {
    int64_t from = chunk * grain, to = from + grain;
    return (qkv_range){from, to < n ? to : n};
}

/* Rows of `cols` elements a chunk of pointwise work: about 32,768 elements, at least one row. */
static inline int64_t qkv_row_grain(int64_t cols) {
    int64_t grain = 32768 / (cols > 0 ? cols : 1);
    return grain > 1 ? grain : 1;
}

/* Columns a chunk where every chunk walks all rows: a multiple of 16, about 32,768 elements. */
static inline int64_t qkv_col_grain(int64_t rows) {
    int64_t grain = 32768 / (rows > 0 ? rows : 1) / 16 * 16;
    return grain > 16 ? grain : 16;
}

/* The same for sums down many rows: wide enough that memory is walked along the rows. */
static inline int64_t qkv_wide_grain(int64_t rows) {
    int64_t grain = qkv_col_grain(rows);
    return grain > 256 ? grain : 256;
}

#endif
