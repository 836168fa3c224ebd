/* Cross-entropy with label smoothing; softmax and sigmoid. */
#ifndef QKV_OPS_LOSS_H
#define QKV_OPS_LOSS_H

#include "ops/exec.h"

/* loss[r] = -sum_c t_c log softmax(logits[r])_c with t = (1 - smoothing) one-hot(target[r]) + smoothing / classes.
 * dlogits (p NULL: not wanted) = scale * gradient. A target outside 0..classes-1 is QKV_BAD_ARGUMENT with its row. */
qkv_status qkv_cross_entropy(qkv_exec *x, qkv_mat logits, const int32_t *target, double smoothing, double scale, real *loss,
                             qkv_mat dlogits) QKV_MUST_USE;

/* out[r] = softmax(in[r]); out may be in. */
qkv_status qkv_softmax(qkv_exec *x, qkv_mat in, qkv_mat out) QKV_MUST_USE;
/* out = 1 / (1 + e^-in); out may be in. */
qkv_status qkv_sigmoid(qkv_exec *x, qkv_mat in, qkv_mat out) QKV_MUST_USE;

#endif
