/* Activations, plain (y = act(x)) and gated (x = gate | up, y = act(gate) * up). */
#ifndef QKV_OPS_ACTIVATION_H
#define QKV_OPS_ACTIVATION_H

#include "ops/exec.h"

/* in [N, cols] or, gated, [N, 2 cols]; out [N, cols]. */
qkv_status qkv_activation_forward(qkv_exec *x, qkv_act act, bool gated, qkv_mat in, qkv_mat out) QKV_MUST_USE;
/* din has the shape of in, and is another buffer than dout. */
qkv_status qkv_activation_backward(qkv_exec *x, qkv_act act, bool gated, qkv_mat in, qkv_mat dout, qkv_mat din) QKV_MUST_USE;

/* Operations an element; exp, erf and tanh count 1. */
double qkv_activation_flops(qkv_act act, bool backward);

#endif
