/* Feed-forward: out(act(in(x))), or gated out(act(gate(x)) * up(x)) with gate and up as one fused weight [2 ffn, dim]. */
#ifndef QKV_LAYERS_FFN_H
#define QKV_LAYERS_FFN_H

#include "layers/layers.h"
#include "ops/linear.h"

typedef struct qkv_ffn {
    int64_t width;
    qkv_act act;
    bool gated;
    qkv_linear in, out;
} qkv_ffn;

typedef struct qkv_ffn_saved {
    qkv_mat in, inner, active; /* [N,dim], [N,ffn] or [N,2 ffn], [N,ffn] */
    bool again; /* `active` was not kept */
    bool parts; /* it went over some rows at a time, and kept nothing */
} qkv_ffn_saved;

qkv_status qkv_ffn_declare(qkv_ffn *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape) QKV_MUST_USE;
/* then: what follows on out (ops/linear.h); NULL: nothing. */
qkv_status qkv_ffn_forward_then(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_mat out, qkv_ffn_saved *saved,
                                const qkv_linear_then *then) QKV_MUST_USE;
static inline QKV_MUST_USE qkv_status qkv_ffn_forward(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_mat out, qkv_ffn_saved *saved) {
    return qkv_ffn_forward_then(x, l, in, out, saved, NULL);
}
qkv_status qkv_ffn_backward(qkv_exec *x, const qkv_ffn *l, qkv_mat dout, qkv_mat din, const qkv_ffn_saved *saved) QKV_MUST_USE;

#endif
