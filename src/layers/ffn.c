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
    *l = (qkv_ffn){.width = shape->ffn, .act = kernel_act(shape->activation), .gated = gated, .in.bias = -1, .out.bias = -1};
    QKV_TRY(qkv_reg_add(reg, prefix, "ffn.in.weight", inner, shape->dim, in, &l->in.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "ffn.in.bias", 1, inner, bias, &l->in.bias));
    QKV_TRY(qkv_reg_add(reg, prefix, "ffn.out.weight", shape->dim, shape->ffn, out, &l->out.weight));
    if (shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, "ffn.out.bias", 1, shape->dim, bias, &l->out.bias));
    return QKV_OK;
}

qkv_status qkv_ffn_forward(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_mat out, qkv_ffn_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    *saved = (qkv_ffn_saved){.in = in};
    QKV_TRY(qkv_keep(x, in.rows, l->gated ? 2 * l->width : l->width, &saved->inner));
    QKV_TRY(qkv_keep(x, in.rows, l->width, &saved->active));
    QKV_TRY(qkv_linear_forward(x, l->in, in, saved->inner));
    QKV_TRY(qkv_activation_forward(x, l->act, l->gated, saved->inner, saved->active));
    QKV_TRY(qkv_linear_forward(x, l->out, saved->active, out));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_ffn_backward(qkv_exec *x, const qkv_ffn *l, qkv_mat dout, qkv_mat din, const qkv_ffn_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat dactive, dinner;
    QKV_TRY(qkv_temp(x, dout.rows, saved->active.cols, &dactive));
    QKV_TRY(qkv_temp(x, dout.rows, saved->inner.cols, &dinner));
    QKV_TRY(qkv_linear_backward(x, l->out, saved->active, dout, &dactive));
    QKV_TRY(qkv_activation_backward(x, l->act, l->gated, saved->inner, dactive, dinner));
    QKV_TRY(qkv_linear_backward(x, l->in, saved->in, dinner, &din));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
