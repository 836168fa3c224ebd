/* What attention costs. FLOPs: the matrix products over visible pairs, 2 (d + dv) a pair forward and 2 (3 d + 2 dv)
 * backward (the scores are computed again), and what goes with them one by one: forward, a pair is reduced,
 * exponentiated and summed; backward, reduced, exponentiated, and its gradient made of a difference and a product. Scaling
 * of the rows that enter and leave, and the row sum of dO * O, are counted too. */
#include "kernels/cost.h"

#include "kernels/attention_shape.h"

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The sum of 0, 1, ..., n, n, n, ... below its element `end`; elements before the first are 0. */
static int64_t ramp(int64_t end, int64_t n) {
    if (end <= 0) return 0;
    return end <= n + 1 ? end * (end - 1) / 2 : n * (n + 1) / 2 + (end - n - 1) * n;
}

/* Pairs in which the key stands at most `ahead` after the query: each query sees 0 to n_k of them, one more than the query before. */
static int64_t pairs_up_to(int64_t n_q, int64_t n_k, int64_t ahead) {
    int64_t first = n_k - n_q + ahead + 1;
    return ramp(first + n_q, n_k) - ramp(first, n_k);
}

int64_t qkv_span_pairs(int64_t n_q, int64_t n_k, int64_t left, int64_t right) {
    attend_span s = attend_span_of(n_q, n_k, left, right);
    int64_t pairs = s.right < 0 ? n_q * n_k : pairs_up_to(n_q, n_k, s.right);
    return s.left < 0 ? pairs : pairs - pairs_up_to(n_q, n_k, -s.left - 1);
}

/* Pairs of the products that take blocks of queries row0..row1-1: whole 16-key panels (scores), or first to last key (values). */
static int64_t pairs_of_rows(attend_span s, int64_t row0, int64_t row1, bool panels) {
    int64_t pairs = 0;
    for (int64_t i = row0; i < row1; i += ATTEND_ROWS) {
        int64_t rows = min64(ATTEND_ROWS, row1 - i), lo, hi;
        attend_keys_of_rows(s, i, i + rows, &lo, &hi);
        if (lo == hi) continue;
        pairs += rows * (panels ? attend_round16(hi) - lo / 16 * 16 : hi - lo);
    }
    return pairs;
}

static int64_t row_block_pairs(attend_span s, bool panels) {
    return pairs_of_rows(s, 0, s.n_q, panels);
}

/* Pairs of the products that take blocks of keys (gradients of keys and values); blocks start at each key tile. */
static int64_t key_block_pairs(attend_span s) {
    int64_t pairs = 0;
    for (int64_t tile = 0; tile < s.n_k; tile += ATTEND_KEYS) {
        int64_t end = min64(tile + ATTEND_KEYS, s.n_k);
        for (int64_t j = tile; j < end; j += ATTEND_ROWS) {
            int64_t keys = min64(ATTEND_ROWS, end - j), lo, hi;
            attend_rows_of_keys(s, j, j + keys, &lo, &hi);
            pairs += keys * (hi - lo);
        }
    }
    return pairs;
}

int64_t qkv_span_pairs_executed(int64_t n_q, int64_t n_k, int64_t left, int64_t right) {
    return row_block_pairs(attend_span_of(n_q, n_k, left, right), true);
}

double qkv_flops_attend_softmax(bool backward, double pairs, int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim) {
    const double wide = (double)(dim + value_dim), rows = (double)n_q;
    return backward ? pairs * 4 + rows * 2 * wide + (double)n_k * (double)dim : pairs * 3 + rows * wide;
}

double qkv_executed_attend_rows(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t row0, int64_t row1, int64_t dim,
                                int64_t value_dim) {
    const attend_span s = attend_span_of(n_q, n_k, left, right);
    return 2 * ((double)pairs_of_rows(s, row0, row1, true) * (double)dim +
                (double)pairs_of_rows(s, row0, row1, false) * (double)attend_round16(value_dim));
}

qkv_cost qkv_cost_attend_forward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim) {
    double pairs = (double)qkv_span_pairs(n_q, n_k, left, right), d = (double)dim, dv = (double)value_dim;
    return (qkv_cost){
        .flops = pairs * 2 * (d + dv) + qkv_flops_attend_softmax(false, pairs, n_q, n_k, dim, value_dim),
        .executed = qkv_executed_attend_rows(n_q, n_k, left, right, 0, n_q, dim, value_dim),
    };
}

qkv_cost qkv_cost_attend_backward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim) {
    attend_span s = attend_span_of(n_q, n_k, left, right);
    double pairs = (double)qkv_span_pairs(n_q, n_k, left, right);
    double d = (double)dim, dv = (double)value_dim, rows = (double)n_q;
    double d16 = (double)attend_round16(dim), dv16 = (double)attend_round16(value_dim);
    return (qkv_cost){
        .flops = pairs * 2 * (3 * d + 2 * dv) + qkv_flops_attend_softmax(true, pairs, n_q, n_k, dim, value_dim),
        .executed = n_k == 0 ? 0
                             : 2 * ((double)row_block_pairs(s, true) * (d + dv) + (double)row_block_pairs(s, false) * d16 +
                                    (double)key_block_pairs(s) * (d16 + dv16) + rows * dv16),
    };
}

double qkv_executed_attend_beside_backward(int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim) {
    if (n_q == 0 || n_k == 0) return 0;
    return qkv_cost_attend_backward(n_q, n_k, -1, -1, dim, value_dim).executed -
           2 * (double)n_q * (double)attend_round16(value_dim);
}

qkv_cost qkv_cost_attend_shaw_forward(int64_t queries, int64_t reach, int64_t dim, int64_t value_dim) {
    const double rows = (double)queries, count = (double)(2 * reach + 1), d = (double)dim, dv = (double)value_dim;
    return (qkv_cost){
        .flops = 2 * rows * count * (d + dv),
        .executed = 2 * rows * ((double)attend_round16(2 * reach + 1) * d + count * (double)attend_round16(value_dim)),
    };
}

/* The products of queries and of dO with the vectors, and the gradient of queries. */
qkv_cost qkv_cost_attend_shaw_backward(int64_t queries, int64_t reach, int64_t dim, int64_t value_dim) {
    const double rows = (double)queries, count = (double)(2 * reach + 1), d = (double)dim, dv = (double)value_dim;
    return (qkv_cost){
        .flops = 2 * rows * count * (2 * d + dv),
        .executed = 2 * rows * ((double)attend_round16(2 * reach + 1) * (d + dv) + count * (double)attend_round16(dim)),
    };
}
