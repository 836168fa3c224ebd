/* Dropout and residual sums: y = base + dropout(in), and plain scaled sums. */
#ifndef QKV_OPS_RESIDUAL_H
#define QKV_OPS_RESIDUAL_H

#include "ops/exec.h"

/* base NULL: none. in, base and out may be the same buffer. With d.p = 0 it is the sum (or the copy). The backward pass of
 * the dropped branch is the same call on gradients without base: the mask is a function of its key. */
qkv_status qkv_residual(qkv_exec *x, const qkv_mat *base, qkv_mat in, qkv_mat out, qkv_dropout d) QKV_MUST_USE;

/* Refuses a dropout that cannot be done on so many rows. */
qkv_status qkv_residual_check(const qkv_exec *x, qkv_dropout d, int64_t rows) QKV_MUST_USE;

/* out = a * in + b * out; b = 0 does not read out. */
qkv_status qkv_scaled_sum(qkv_exec *x, qkv_work work, real a, qkv_mat in, real b, qkv_mat out) QKV_MUST_USE;

/* x->rebuilt becomes the largest |again - was| of all such calls, each beside the largest |was| there; NaN where there is one. */
qkv_status qkv_rebuilt(qkv_exec *x, qkv_mat again, qkv_mat was) QKV_MUST_USE;

#endif
