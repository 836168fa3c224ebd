#include "layers/block.h"

#include <stdio.h>

#include "ops/reg.h"
#include "ops/residual.h"

qkv_status qkv_norm_declare(qkv_norm_op *n, qkv_reg *reg, const char *prefix, const char *name, const qkv_block_shape *shape) {
    char full[64];
    qkv_param_kind gain = {.value = 1, .vector = true}, bias = {.vector = true};
    *n = (qkv_norm_op){.bias = -1, .rms = shape->norm == QKV_NORM_RMS, .epsilon = shape->norm_epsilon};
    snprintf(full, sizeof full, "%s.weight", name);
    QKV_TRY(qkv_reg_add(reg, prefix, full, 1, shape->dim, gain, &n->gain));
    snprintf(full, sizeof full, "%s.bias", name);
    if (!n->rms && shape->bias) QKV_TRY(qkv_reg_add(reg, prefix, full, 1, shape->dim, bias, &n->bias));
    return QKV_OK;
}

qkv_status qkv_block_declare(qkv_block *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape, int64_t layer) {
    *l = (qkv_block){.post_norm = shape->post_norm, .dropout = shape->dropout, .site = (uint64_t)layer * QKV_SITES_A_LAYER};
    if (!l->post_norm) QKV_TRY(qkv_norm_declare(&l->norm1, reg, prefix, "norm1", shape));
    QKV_TRY(qkv_attention_layer_declare(&l->attention, reg, prefix, shape, l->site + QKV_SITE_ATTENTION));
    if (l->post_norm) QKV_TRY(qkv_norm_declare(&l->norm1, reg, prefix, "norm1", shape));
    if (!l->post_norm) QKV_TRY(qkv_norm_declare(&l->norm2, reg, prefix, "norm2", shape));
    QKV_TRY(qkv_ffn_declare(&l->ffn, reg, prefix, shape));
    if (l->post_norm) QKV_TRY(qkv_norm_declare(&l->norm2, reg, prefix, "norm2", shape));
    return QKV_OK;
}

static qkv_dropout drop(const qkv_exec *x, const qkv_block *l, const qkv_batch *batch, uint64_t k) {
    return qkv_exec_dropout(x, l->dropout, l->site + k, batch->row_key);
}

/* The residual sum that follows a branch: base + dropout(branch). */
static qkv_linear_then residual(const qkv_exec *x, const qkv_block *l, const qkv_batch *batch, uint64_t k, qkv_mat base) {
    return (qkv_linear_then){.kind = QKV_THEN_RESIDUAL, .other = base, .dropout = drop(x, l, batch, k)};
}

/* ---- pre-norm ---- */

static qkv_status pre_forward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_block_saved *s) {
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &s->normed1));
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &s->middle));
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &s->normed2));
    const qkv_linear_then sum1 = residual(x, l, batch, QKV_SITE_ATTENTION_OUT, in);
    const qkv_linear_then sum2 = residual(x, l, batch, QKV_SITE_FFN_OUT, s->middle);
    QKV_TRY(qkv_norm_forward(x, &l->norm1, in, s->normed1, &s->norm1));
    QKV_TRY(qkv_attention_layer_forward_then(x, &l->attention, batch, s->normed1, s->middle, &s->attention, &sum1));
    QKV_TRY(qkv_norm_forward(x, &l->norm2, s->middle, s->normed2, &s->norm2));
    return qkv_ffn_forward_then(x, &l->ffn, s->normed2, out, &s->ffn, &sum2);
}

static qkv_status pre_backward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const qkv_block_saved *s) {
    const qkv_dropout drop2 = drop(x, l, batch, QKV_SITE_FFN_OUT), drop1 = drop(x, l, batch, QKV_SITE_ATTENTION_OUT);
    qkv_mat dmiddle, branch = dout;
    QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &dmiddle));
    if (drop1.p > 0 || drop2.p > 0) QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &branch));
    if (drop2.p > 0) QKV_TRY(qkv_residual(x, NULL, dout, branch, drop2));
    QKV_TRY(qkv_ffn_backward(x, &l->ffn, drop2.p > 0 ? branch : dout, dmiddle, &s->ffn));
    QKV_TRY(qkv_norm_backward_sum(x, &l->norm2, dmiddle, &dout, dmiddle, drop1.p > 0 ? &branch : NULL, drop1, &s->norm2));
    QKV_TRY(qkv_attention_layer_backward(x, &l->attention, batch, drop1.p > 0 ? branch : dmiddle, din, &s->attention));
    return qkv_norm_backward_sum(x, &l->norm1, din, &dmiddle, din, NULL, drop1, &s->norm1);
}

/* ---- post-norm ---- */

static qkv_status post_forward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_block_saved *s) {
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &s->normed1));
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &s->middle));
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &s->normed2));
    const qkv_linear_then sum1 = residual(x, l, batch, QKV_SITE_ATTENTION_OUT, in);
    const qkv_linear_then sum2 = residual(x, l, batch, QKV_SITE_FFN_OUT, s->middle);
    QKV_TRY(qkv_attention_layer_forward_then(x, &l->attention, batch, in, s->normed1, &s->attention, &sum1));
    QKV_TRY(qkv_norm_forward(x, &l->norm1, s->normed1, s->middle, &s->norm1));
    QKV_TRY(qkv_ffn_forward_then(x, &l->ffn, s->middle, s->normed2, &s->ffn, &sum2));
    return qkv_norm_forward(x, &l->norm2, s->normed2, out, &s->norm2);
}

static qkv_status post_backward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const qkv_block_saved *s) {
    const qkv_dropout drop2 = drop(x, l, batch, QKV_SITE_FFN_OUT), drop1 = drop(x, l, batch, QKV_SITE_ATTENTION_OUT);
    qkv_mat dsum, dmiddle, branch;
    QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &dsum));
    QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &dmiddle));
    branch = dsum;
    if (drop1.p > 0 || drop2.p > 0) QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &branch));
    QKV_TRY(qkv_norm_backward_sum(x, &l->norm2, dout, NULL, dsum, drop2.p > 0 ? &branch : NULL, drop2, &s->norm2));
    QKV_TRY(qkv_ffn_backward(x, &l->ffn, drop2.p > 0 ? branch : dsum, dmiddle, &s->ffn));
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, dsum, 1, dmiddle));
    QKV_TRY(qkv_norm_backward_sum(x, &l->norm1, dmiddle, NULL, dmiddle, drop1.p > 0 ? &branch : NULL, drop1, &s->norm1));
    QKV_TRY(qkv_attention_layer_backward(x, &l->attention, batch, drop1.p > 0 ? branch : dmiddle, din, &s->attention));
    return qkv_scaled_sum(x, QKV_WORK_RESIDUAL, 1, dmiddle, 1, din);
}

/* ---- the layer ---- */

qkv_status qkv_block_forward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_block_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    *saved = (qkv_block_saved){0};
    QKV_TRY((l->post_norm ? post_forward : pre_forward)(x, l, batch, in, out, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_block_backward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                              const qkv_block_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    QKV_TRY((l->post_norm ? post_backward : pre_backward)(x, l, batch, dout, din, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_block_weights(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, int64_t head, real *weights) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat normed = in;
    qkv_norm_saved ignored;
    if (!l->post_norm) {
        QKV_TRY(qkv_temp(x, in.rows, in.cols, &normed));
        QKV_TRY(qkv_norm_forward(x, &l->norm1, in, normed, &ignored));
    }
    QKV_TRY(qkv_attention_layer_weights(x, &l->attention, batch, normed, head, weights));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
