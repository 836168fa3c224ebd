/* What the bf16 kernels compute: as the f32 ones, over pairs. Useful operations are the same; here is what the tiles execute. */
#include "kernels/bf16_shape.h"
#include "kernels/cost.h"

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t pairs(int64_t lo, int64_t hi) { return lo < hi ? (hi + 1) / 2 - lo / 2 : 0; }

double qkv_executed_bf16_gemm(int64_t m, int64_t n, int64_t k) {
    const double columns = (double)((n + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL);
    return 2.0 * (double)m * columns * 2 * (double)((k + 1) / 2);
}

/* Dots of the products that take blocks of queries against one key tile: `whole` a key of the panels that they see, `part` a
 * pair of keys from the first to the last that they see, `vector` two panels, if they are taken by twos. */
static double row_block_dots(attend_span s, double whole, double part, double vector) {
    double dots = 0;
    for (int64_t i = 0; i < s.n_q; i += BF16_BLOCK)
        for (int64_t tile = 0; tile < s.n_k; tile += BF16_KEYS) {
            int64_t rows = min64(BF16_BLOCK, s.n_q - i), lo, hi;
            attend_keys_of_rows(s, i, i + rows, &lo, &hi);
            lo = lo < tile ? tile : lo;
            hi = min64(hi, tile + BF16_KEYS);
            if (lo >= hi) continue;
            int64_t keys = attend_round16(hi) - (vector > 0 ? lo / 32 * 32 : lo / 16 * 16);
            dots += (double)rows * ((double)keys * whole + (double)pairs(lo, hi) * part + (double)((keys + 16) / 32) * vector);
        }
    return dots;
}

/* Dots of the products that take blocks of keys against blocks of queries; `part` a pair of queries. */
static double key_block_dots(attend_span s, double part) {
    double dots = 0;
    for (int64_t tile = 0; tile < s.n_k; tile += BF16_KEYS) {
        int64_t end = min64(tile + BF16_KEYS, s.n_k), first, last;
        attend_rows_of_keys(s, tile, end, &first, &last);
        for (int64_t i = first / BF16_BLOCK * BF16_BLOCK; first < last && i < last; i += BF16_QUERIES)
            for (int64_t j = tile; j < end; j += BF16_BLOCK) {
                int64_t keys = min64(BF16_BLOCK, end - j), lo, hi;
                attend_rows_of_keys(s, j, j + keys, &lo, &hi);
                lo = lo < i ? i : lo;
                hi = min64(hi, i + BF16_QUERIES);
                dots += (double)keys * (double)pairs(lo, hi) * part;
            }
    }
    return dots;
}

double qkv_executed_bf16_attend_forward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim) {
    attend_span s = attend_span_of(n_q, n_k, left, right);
    return 4 * row_block_dots(s, (double)((dim + 1) / 2), (double)attend_round16(value_dim), 16);
}

double qkv_executed_bf16_attend_backward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim) {
    attend_span s = attend_span_of(n_q, n_k, left, right);
    double wide = (double)attend_round16(dim), value_wide = (double)attend_round16(value_dim);
    if (n_k == 0) return 0;
    return 4 * row_block_dots(s, (double)((dim + 1) / 2 + (value_dim + 1) / 2), wide, 0) + 4 * key_block_dots(s, wide + value_wide) +
           2 * (double)n_q * value_wide;
}
