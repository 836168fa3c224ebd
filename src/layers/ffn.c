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
    const qkv_block_std spread = qkv_block_spread(shape);
    qkv_param_kind in = {.std = spread.value / sqrt((double)shape->dim), .decay = true, .matrix = true};
    qkv_param_kind out = {.std = spread.out / sqrt((double)shape->ffn), .decay = true, .matrix = true};
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
    saved->again = qkv_exec_drops(x, QKV_AGAIN_POINTWISE);
    if (l->gated) {
        QKV_TRY(qkv_keep(x, in.rows, 2 * l->width, &saved->inner));
        QKV_TRY((saved->again ? qkv_temp : qkv_keep)(x, in.rows, l->width, &saved->active));
        QKV_TRY(qkv_linear_forward(x, l->in, in, saved->inner));
        return qkv_activation_forward(x, l->act, true, saved->inner, saved->active);
    }
    QKV_TRY(qkv_keep(x, in.rows, l->width, &saved->inner));
    saved->active = saved->inner;
    if (x->keep) QKV_TRY((saved->again ? qkv_temp : qkv_keep)(x, in.rows, l->width, &saved->active));
    qkv_linear_then then = {.kind = QKV_THEN_ACT, .other = saved->active, .act = l->act};
    return qkv_linear_forward_then(x, l->in, in, saved->inner, &then);
}

static qkv_status forward_rows(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_mat out, qkv_ffn_saved *saved,
                               const qkv_linear_then *then) {
    *saved = (qkv_ffn_saved){.in = in};
    QKV_TRY(forward_inner(x, l, in, saved));
    return qkv_linear_forward_then(x, l->out, saved->active, out, then);
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

static qkv_status backward_rows(qkv_exec *x, const qkv_ffn *l, qkv_mat dout, qkv_mat din, const qkv_ffn_saved *saved) {
    qkv_ffn_saved s = *saved;
    qkv_mat dinner;
    if (s.again) {
        QKV_TRY(qkv_temp(x, dout.rows, l->width, &s.active));
        const qkv_pass pass = qkv_exec_pass(x, QKV_PASS_RECOMPUTE);
        QKV_TRY(qkv_activation_forward(x, l->act, l->gated, s.inner, s.active));
        x->pass = pass;
    }
    QKV_TRY(backward_inner(x, l, dout, &s, &dinner));
    return qkv_linear_backward(x, l->in, s.in, dinner, &din);
}

/* ---- some rows at a time ---- */

static bool in_parts(const qkv_exec *x, qkv_mat in) { return x->saving.ffn_rows > 0 && x->saving.ffn_rows < in.rows; }

/* The same with its weights packed once for all parts. */
static qkv_status ready(qkv_exec *x, const qkv_ffn *l, bool backward, qkv_ffn *packed) {
    *packed = *l;
    if (x->packed) return QKV_OK;
    QKV_TRY(qkv_linear_ready(x, &packed->in, backward));
    return qkv_linear_ready(x, &packed->out, backward);
}

static qkv_status forward_parts(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_mat out, const qkv_linear_then *then) {
    qkv_ffn packed;
    QKV_TRY(ready(x, l, false, &packed));
    for (int64_t r = 0, to; r < in.rows; r = to) {
        const size_t mark = qkv_exec_mark(x);
        qkv_ffn_saved unused;
        to = qkv_linear_cut(r, x->saving.ffn_rows, in.rows);
        qkv_linear_then part = then ? *then : (qkv_linear_then){.kind = QKV_THEN_NOTHING};
        if (then) part.other = qkv_mat_rows(then->other, r, to - r);
        if (part.dropout.row_key) part.dropout.row_key += r;
        QKV_TRY(forward_rows(x, &packed, qkv_mat_rows(in, r, to - r), qkv_mat_rows(out, r, to - r), &unused, then ? &part : NULL));
        qkv_exec_release(x, mark);
    }
    return QKV_OK;
}

static qkv_status backward_parts(qkv_exec *x, const qkv_ffn *l, qkv_mat dout, qkv_mat din, qkv_mat in) {
    qkv_ffn packed;
    QKV_TRY(ready(x, l, true, &packed));
    for (int64_t r = 0, to; r < in.rows; r = to) {
        const size_t mark = qkv_exec_mark(x);
        to = qkv_linear_cut(r, x->saving.ffn_rows, in.rows);
        qkv_ffn_saved part = {.in = qkv_mat_rows(in, r, to - r)};
        const qkv_pass pass = qkv_exec_pass(x, QKV_PASS_RECOMPUTE);
        QKV_TRY(qkv_temp(x, to - r, (l->gated ? 2 : 1) * l->width, &part.inner));
        QKV_TRY(qkv_temp(x, to - r, l->width, &part.active));
        qkv_linear_then then = {.kind = QKV_THEN_ACT, .other = part.active, .act = l->act};
        QKV_TRY(qkv_linear_forward_then(x, packed.in, part.in, part.inner, l->gated ? NULL : &then));
        if (l->gated) QKV_TRY(qkv_activation_forward(x, l->act, true, part.inner, part.active));
        x->pass = pass;
        QKV_TRY(backward_rows(x, &packed, qkv_mat_rows(dout, r, to - r), qkv_mat_rows(din, r, to - r), &part));
        qkv_exec_release(x, mark);
    }
    return QKV_OK;
}

/* ---- the layer ---- */

qkv_status qkv_ffn_forward_then(qkv_exec *x, const qkv_ffn *l, qkv_mat in, qkv_mat out, qkv_ffn_saved *saved,
                                const qkv_linear_then *then) {
    const size_t mark = qkv_exec_mark(x);
    if (in_parts(x, in)) {
        const bool keep = x->keep;
        x->keep = false;
        *saved = (qkv_ffn_saved){.in = in, .parts = true};
        QKV_TRY(forward_parts(x, l, in, out, then));
        x->keep = keep;
    } else QKV_TRY(forward_rows(x, l, in, out, saved, then));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_ffn_backward(qkv_exec *x, const qkv_ffn *l, qkv_mat dout, qkv_mat din, const qkv_ffn_saved *saved) {
    const size_t mark = qkv_exec_mark(x);
    if (saved->parts) QKV_TRY(backward_parts(x, l, dout, din, saved->in));
    else QKV_TRY(backward_rows(x, l, dout, din, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
