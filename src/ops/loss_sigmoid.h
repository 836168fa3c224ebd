/* Binary cross-entropy of a sigmoid per class, for rows with any number of labels; weights of classes for both losses. */
#ifndef QKV_OPS_LOSS_SIGMOID_H
#define QKV_OPS_LOSS_SIGMOID_H

#include "ops/exec.h"

/* The labels of row r are labels[at[r]] .. labels[at[r+1] - 1], each in 0..classes-1 and above the one before. Targets are
 * t = (1 - smoothing) [is a label] + smoothing / classes;
 * loss[r] = sum_c w_c (log(1 + e^z) - t z) with w_c = weight[c] for the labels (weight NULL: 1), 1 for all other classes.
 * dlogits (p NULL: not wanted) = scale * gradient. A label outside 0..classes-1 or out of order is QKV_BAD_ARGUMENT with
 * its row. */
qkv_status qkv_sigmoid_loss(qkv_exec *x, qkv_mat logits, const int64_t *at, const int32_t *labels, const real *weight,
                            double smoothing, double scale, real *loss, qkv_mat dlogits) QKV_MUST_USE;

/* After qkv_cross_entropy: multiplies loss and gradient of row r with weight[target[r]]. */
qkv_status qkv_loss_weigh(qkv_exec *x, const int32_t *target, const real *weight, real *loss, qkv_mat dlogits) QKV_MUST_USE;

#endif
