#include "layers/ffn.h"

#include <math.h>

#include "ops/activation.h"
#include "ops/reg.h"

static qkv_act kernel_act(qkv_activation a) {
    switch (a) {
    case QKV_ACT_GELU_TANH: return QKV_KERNEL_GELU_TANH;
    case QKV_ACT_RELU: return QKV_KERNEL_RELU;
    case QKV_ACT_SILU:
    case QKV_ACT_SWIGLU: return QKV_KERNEL_SILU;
    case QKV_ACT_GELU:
    case QKV_ACT_GEGLU: break;
    }
    return QKV_KERNEL_GELU;
}

qkv_status qkv_ffn_declare(qkv_ffn *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape) {
    bool gated = shape->activation == QKV_ACT_GEGLU || shape->activation == QKV_ACT_SWIGLU;
    double depth = sqrt(2.0 * (double)shape->layers);
    qkv_param_kind in = {.std = 1 / sqrt((double)shape->dim), .decay = true, .matrix = true};
    qkv_param_kind out = {.std = 1 / sqrt((double)shape->ffn) / depth, .decay = true, .matrix = true};
    qkv_param_kind bias = {.vector = true};
    int64_t inner = gated ? 2 * shape->ffn : shape->ffn;
    *l = (qkv_ffn){.width = shape->ffn, .act = kernel_act(shape->activation), .gated = gated,
                    .in = {.bias = -1, .work = QKV_WORK_FEED_FORWARD}, .out = {.bias = -1, .work = QKV_WORK_FEED_FORWARD}};
    QKV_TRY(qkv_reg_add(reg, prefix, "ffn.in.weight", inner, shape->dim, in, &l->in.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "ffn.in.bias", 1, inner, bias, &l->in.bias));
    QKV_TRY(qkv_reg_add(reg, prefix, "ffn.out.weight", shape->dim, shape->ffn, out, &l->out.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "ffn.out.bias", 1, shape->dim, bias, &l->out.bias));
    return QKV_OK;
}

/* Plain activations are applied to each block of the product; a gate and what it opens lie too far apart for that. Where no
 * backward pass will ask for it, the inner row is not kept beside the active one. */
static qkv_status forward_inner(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_ffn_saved *saved) {
    if (l->gated) {
        QKV_TRY(qkv_keep(x, in.rows, 2 * l->width, &saved->inner));
        QKV_TRY(qkv_keep(x, in.rows, l->width, &saved->active));
        QKV_TRY(qkv_linear_forward(x, l->in, in, saved->inner));
        return qkv_activation_forward(x, l->act, true, saved->inner, saved->active);
    }
    QKV_TRY(qkv_keep(x, in.rows, l->width, &saved->inner));
    saved->active = saved->inner;
    if (x->keep) QKV_TRY(qkv_keep(x, in.rows, l->width, &saved->active));
    qkv_linear_then then = {.kind = QKV_THEN_ACT, .other = saved->active, .act = l->act};
    return qkv_linear_forward_then(x, l->in, in, saved->inner, &then);
}

qkv_status qkv_ffn_forward_then(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_mat out, qkv_ffn_saved *saved,
                                const qkv_linear_then *then) {
    size_t mark = qkv_exec_mark(x);
    *saved = (qkv_ffn_saved){.in = in};
    QKV_TRY(forward_inner(x, l, in, saved));
    QKV_TRY(qkv_linear_forward_then(x, l->out, saved->active, out, then));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status backward_inner(qkv_exec *x, const qkv_ffn *l, qkv_mat dout, const qkv_ffn_saved *saved, qkv_mat *dinner) {
    qkv_mat dactive;
    QKV_TRY(qkv_temp(x, dout.rows, saved->inner.cols, dinner));
    if (!l->gated) {
        qkv_linear_then then = {.kind = QKV_THEN_SLOPE, .other = saved->inner, .act = l->act};
        return qkv_linear_backward_then(x, l->out, saved->active, dout, dinner, &then);
    }
    QKV_TRY(qkv_temp(x, dout.rows, saved->active.cols, &dactive));
    QKV_TRY(qkv_linear_backward(x, l->out, saved->active, dout, &dactive));
    return qkv_activation_backward(x, l->act, true, saved->inner, dactive, *dinner);
}

qkv_status qkv_ffn_backward(qkv_exec *x, const qkv_ffn *l, qkv_mat dout, qkv_mat din, const qkv_ffn_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat dinner;
    QKV_TRY(backward_inner(x, l, dout, saved, &dinner));
    QKV_TRY(qkv_linear_backward(x, l->in, saved->in, dinner, &din));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
