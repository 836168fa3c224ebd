#include "kernels/cost.h"

#include "kernels/kernels.h"

/* The tile computes whole panels of columns, and exactly the rows and the k there are. */
qkv_cost qkv_cost_gemm(int64_t m, int64_t n, int64_t k) {
    const double columns = (double)((n + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL);
    return (qkv_cost){2.0 * (double)m * (double)n * (double)k, 2.0 * (double)m * columns * (double)k};
}
