/* y = x W' + b, with W [out, in]. Each element of y, dx and dW is one chain of fused multiply-adds. */
#ifndef QKV_OPS_LINEAR_H
#define QKV_OPS_LINEAR_H

#include "ops/exec.h"

typedef struct qkv_linear {
    int64_t weight; /* parameter numbers in the registry */
    int64_t bias;   /* -1: none */
} qkv_linear;

/* in [N, in], out [N, out]. Uses the packed copy of a frozen model, else packs the weight in scratch. */
qkv_status qkv_linear_forward(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat out) QKV_MUST_USE;

/* Adds to the gradients of weight and bias. din NULL: not wanted (nothing is computed for it). */
qkv_status qkv_linear_backward(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat dout, const qkv_mat *din) QKV_MUST_USE;

/* sum [cols] += sum over the rows, one ascending chain a column: gradients of biases and of shared rows. */
qkv_status qkv_column_sum(qkv_exec *x, qkv_mat rows, real *sum) QKV_MUST_USE;

/* The packed copy of a weight [out, in] that forward uses, of qkv_packed_size(in, out) reals. */
void qkv_linear_pack(const qkv_ctx *ctx, const real *weight, int64_t out, int64_t in, real *packed);

#endif
