/* How attention is cut into tiles, shared by the kernel and by the formulas that count what it computes.
 *
 * Keys are cut at absolute multiples of ATTEND_KEYS, so that what a query goes through does not depend on which other
 * queries are computed with it. Queries go in blocks of ATTEND_ROWS; of a key tile a block computes the scores of the
 * 16-key panels it sees, and weighs the values from the first to the last key that one of its rows sees. */
#ifndef QKV_KERNELS_ATTENTION_SHAPE_H
#define QKV_KERNELS_ATTENTION_SHAPE_H

#include <stdint.h>

#include "kernels/kernels.h"

/* ATTEND_STRIDE: between rows of scores; a power of two would put a column's elements into few sets of the cache. */
enum { ATTEND_ROWS = 6, ATTEND_KEYS = QKV_ATTEND_KEYS, ATTEND_QUERIES = 96, ATTEND_STRIDE = ATTEND_KEYS + 16 };

typedef struct attend_span {
    int64_t n_q, n_k, left, right;
} attend_span;

/* A window larger than everything is no limit, and its arithmetic cannot overflow. */
static inline attend_span attend_span_of(int64_t n_q, int64_t n_k, int64_t left, int64_t right) {
    int64_t all = n_q + n_k;
    return (attend_span){n_q, n_k, left > all ? all : left, right > all ? all : right};
}

static inline int64_t attend_round16(int64_t n) {
    return (n + 15) / 16 * 16;
}

/* Keys that at least one of the queries i0..i1-1 sees; hi = lo if there are none. First and last move with the query. */
static inline void attend_keys_of_rows(attend_span s, int64_t i0, int64_t i1, int64_t *lo, int64_t *hi) {
    int64_t unused;
    qkv_span_keys(i0, s.n_q, s.n_k, s.left, s.right, lo, &unused);
    qkv_span_keys(i1 - 1, s.n_q, s.n_k, s.left, s.right, &unused, hi);
    if (*hi < *lo) *hi = *lo;
}

/* Queries that see at least one of the keys j0..j1-1; hi = lo if there are none. */
static inline void attend_rows_of_keys(attend_span s, int64_t j0, int64_t j1, int64_t *lo, int64_t *hi) {
    int64_t shift = s.n_q - s.n_k;
    int64_t a = s.right < 0 ? 0 : j0 - s.right + shift, b = s.left < 0 ? s.n_q : j1 + s.left + shift;
    *lo = a < 0 ? 0 : a;
    *hi = b > s.n_q ? s.n_q : b;
    if (*hi < *lo) *hi = *lo;
}

/* Is key j hidden from query i, which has it in its span? */
static inline bool attend_in_hole(const qkv_attend *a, int64_t i, int64_t j) {
    return a->hole && j >= a->hole[2 * i] && j < a->hole[2 * i + 1];
}

/* Does query i, which has keys lo..hi-1 in its span, see one of them? */
static inline bool attend_sees(const qkv_attend *a, int64_t i, int64_t lo, int64_t hi) {
    return lo < hi && !(a->hole && a->hole[2 * i] <= lo && a->hole[2 * i + 1] >= hi);
}

/* What query i sees of the keys lo..hi-1 of its span: those before and those after its hole. */
typedef struct attend_parts {
    int64_t from[2], to[2];
} attend_parts;
static inline attend_parts attend_parts_of(const qkv_attend *a, int64_t i, int64_t lo, int64_t hi) {
    if (!a->hole) return (attend_parts){{lo, hi}, {hi, hi}};
    int64_t h0 = a->hole[2 * i], h1 = a->hole[2 * i + 1];
    if (h0 >= h1) return (attend_parts){{lo, hi}, {hi, hi}};
    return (attend_parts){{lo, h1 > lo ? h1 : lo}, {h0 < hi ? h0 : hi, hi}};
}

#endif
