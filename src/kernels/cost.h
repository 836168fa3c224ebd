/* What kernels cost: FLOPs by the convention 1 multiply-add = 2, everything else that is arithmetic = 1 (exp, tanh, div,
 * sqrt count 1 each). "useful" counts visible pairs only; "executed" what the tiles really compute, which the COUNT build
 * must confirm. */
#ifndef QKV_KERNELS_COST_H
#define QKV_KERNELS_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

int64_t qkv_span_pairs(int64_t n_q, int64_t n_k, int64_t left, int64_t right);         /* visible pairs */
int64_t qkv_span_pairs_executed(int64_t n_q, int64_t n_k, int64_t left, int64_t right); /* pairs the tiles compute */

typedef struct qkv_cost {
    double flops;    /* useful */
    double executed; /* FMA lanes executed by the kernel, times 2 */
} qkv_cost;

qkv_cost qkv_cost_gemm(int64_t m, int64_t n, int64_t k);
qkv_cost qkv_cost_attend_forward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim);
qkv_cost qkv_cost_attend_backward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim);

/* Executed by a forward call for queries row0..row1-1 alone. */
double qkv_executed_attend_rows(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t row0, int64_t row1, int64_t dim,
                                int64_t value_dim);

/* Executed backward for keys beside the window: the row sums of dO * O are the window's. Forward they are as a call of their own.
 */
double qkv_executed_attend_beside_backward(int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim);

/* The useful FLOPs of these beside their products, for so many visible pairs. */
double qkv_flops_attend_softmax(bool backward, double pairs, int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim);

/* What vectors by distance add to calls with keys, for so many queries. flops: of products. */
qkv_cost qkv_cost_attend_shaw_forward(int64_t queries, int64_t reach, int64_t dim, int64_t value_dim);
qkv_cost qkv_cost_attend_shaw_backward(int64_t queries, int64_t reach, int64_t dim, int64_t value_dim);

/* Steps of recurrent cells: `rows` of them, `products` of these with a product of the recurrent weights. executed: of all FMA. */
qkv_cost qkv_cost_recur_forward(qkv_recur_cell cell, bool peepholes, int64_t rows, int64_t products, int64_t units);
qkv_cost qkv_cost_recur_backward(qkv_recur_cell cell, bool peepholes, int64_t rows, int64_t products, int64_t units);

/* FMA lanes, times 2, that the bf16 kernels execute: whole pairs. */
double qkv_executed_bf16_gemm(int64_t m, int64_t n, int64_t k);
double qkv_executed_bf16_attend_forward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim);
double qkv_executed_bf16_attend_backward(int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t dim, int64_t value_dim);

#endif
