/* The number type of every tensor. float; double only in the build that checks gradients by finite differences. */
#ifndef QKV_BASE_REAL_H
#define QKV_BASE_REAL_H

#include <stdint.h>

#ifdef QKV_DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* A matrix, or a range of columns of one: row r starts at p + r * ld. In PLAN mode p is NULL. */
typedef struct qkv_mat {
    real *p;
    int64_t rows, cols, ld;
} qkv_mat;

static inline qkv_mat qkv_mat_cols(qkv_mat m, int64_t first, int64_t cols) {
    return (qkv_mat){m.p ? m.p + first : m.p, m.rows, cols, m.ld};
}

static inline qkv_mat qkv_mat_rows(qkv_mat m, int64_t first, int64_t rows) {
    return (qkv_mat){m.p ? m.p + first * m.ld : m.p, rows, m.cols, m.ld};
}

#endif
