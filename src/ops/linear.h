/* y = x W' + b, with W [out, in]. Each element of y, dx and dW is one chain of fused multiply-adds. */
#ifndef QKV_OPS_LINEAR_H
#define QKV_OPS_LINEAR_H

#include "ops/exec.h"

typedef struct qkv_linear {
    int64_t weight; /* parameter numbers in the registry */
    int64_t bias;   /* -1: none */
    qkv_work work;  /* what its operations are booked as */
    int64_t idle;   /* rows of `in` known to be 0: the gradient of the weight goes over them, which is not booked as useful */
    bool ready;     /* by qkv_linear_ready; then where the packed copies are: */
    const real *ready_forward, *ready_backward;
} qkv_linear;

/* What is done to each block of a product while it is in the cache: the same as the op of that name afterwards, without its
 * passes through memory. `other` has the shape of the product. */
typedef enum qkv_then_kind { QKV_THEN_NOTHING, QKV_THEN_ACT, QKV_THEN_SLOPE, QKV_THEN_RESIDUAL } qkv_then_kind;
typedef struct qkv_linear_then {
    qkv_then_kind kind;
    qkv_mat other;       /* ACT: other = act(out), may be out. SLOPE: out *= act'(other). RESIDUAL: out = other + dropout(out) */
    qkv_act act;
    qkv_dropout dropout;
} qkv_linear_then;

/* in [N, in], out [N, out]. Uses the packed copy of a frozen model, else packs the weight in scratch. then NULL: nothing. */
qkv_status qkv_linear_forward_then(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat out, const qkv_linear_then *then) QKV_MUST_USE;

/* Adds to the gradients of weight and bias. din NULL: not wanted (nothing is computed for it); `then` is of din. */
qkv_status qkv_linear_backward_then(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat dout, const qkv_mat *din,
                                    const qkv_linear_then *then) QKV_MUST_USE;

static inline QKV_MUST_USE qkv_status qkv_linear_forward(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat out) {
    return qkv_linear_forward_then(x, l, in, out, NULL);
}
static inline QKV_MUST_USE qkv_status qkv_linear_backward(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat dout, const qkv_mat *din) {
    return qkv_linear_backward_then(x, l, in, dout, din, NULL);
}

/* The gradient of the input alone. */
qkv_status qkv_linear_backward_input(qkv_exec *x, qkv_linear l, qkv_mat dout, qkv_mat din) QKV_MUST_USE;

/* Packs the weight once, in the caller's scratch, for several products with *l until that is released: those of forward and, if
 * `backward`, of the gradient of the input. */
qkv_status qkv_linear_ready(qkv_exec *x, qkv_linear *l, bool backward) QKV_MUST_USE;

/* Where a walk over rows that begins at `from` may be cut without changing a bit of the gradients of weight and bias: after about
 * `most` rows, or at the end. */
int64_t qkv_linear_cut(int64_t from, int64_t most, int64_t rows);

/* sum [cols] += sum over the rows, one ascending chain a column: gradients of biases and of shared rows. */
qkv_status qkv_column_sum(qkv_exec *x, qkv_work work, qkv_mat rows, real *sum) QKV_MUST_USE;

/* The packed copy of a weight [out, in] that forward uses, and the reals it takes; with bf16 a pair takes the place of a real. */
int64_t qkv_linear_packed_size(bool bf16, int64_t out, int64_t in);
void qkv_linear_pack(const qkv_ctx *ctx, bool bf16, const real *weight, int64_t out, int64_t in, real *packed);

#endif
