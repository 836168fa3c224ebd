/* What recurrent cells cost. FLOPs: the products, 2 gates units a unit of a row that has a step before it (backward: after it), and
 * the cells, one by one: tanh counts 1, a sigmoid 3 (exp, sum, division). */
#include "kernels/cost.h"

typedef struct per_unit {
    double flops, fma; /* of the cell; fma: fused multiply-adds among them */
} per_unit;

static per_unit forward_of(qkv_recur_cell cell, bool peepholes) {
    switch (cell) {
    case QKV_RECUR_TANH:
    case QKV_RECUR_RELU:
        return (per_unit){1, 0};
    case QKV_RECUR_LSTM:
        return peepholes ? (per_unit){21, 4} : (per_unit){15, 1};
    case QKV_RECUR_GRU:
        return (per_unit){12, 2};
    case QKV_RECUR_GRU_BEFORE:
        return (per_unit){11, 1};
    }
    return (per_unit){0, 0};
}

static per_unit backward_of(qkv_recur_cell cell, bool peepholes) {
    switch (cell) {
    case QKV_RECUR_TANH:
        return (per_unit){3, 0};
    case QKV_RECUR_RELU:
        return (per_unit){1, 0};
    case QKV_RECUR_LSTM:
        return peepholes ? (per_unit){29, 3} : (per_unit){23, 0};
    case QKV_RECUR_GRU:
        return (per_unit){17, 0};
    case QKV_RECUR_GRU_BEFORE:
        return (per_unit){18, 1};
    }
    return (per_unit){0, 0};
}

static qkv_cost cost(qkv_recur_cell cell, per_unit u, int64_t rows, int64_t products, int64_t units) {
    const double d = (double)units, wide = (double)((units + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL);
    const double pairs = (double)products * (double)qkv_recur_gates(cell) * d;
    return (qkv_cost){2 * pairs * d + (double)rows * d * u.flops, 2 * (pairs * wide + (double)rows * wide * u.fma)};
}

qkv_cost qkv_cost_recur_forward(qkv_recur_cell cell, bool peepholes, int64_t rows, int64_t products, int64_t units) {
    return cost(cell, forward_of(cell, peepholes), rows, products, units);
}

/* Where a phase of a step has its product with the transposed weights, the unit that is rounded up is the one of the result. */
qkv_cost qkv_cost_recur_backward(qkv_recur_cell cell, bool peepholes, int64_t rows, int64_t products, int64_t units) {
    return cost(cell, backward_of(cell, peepholes), rows, products, units);
}
