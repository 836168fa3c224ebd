#include "layers/block.h"

#include <math.h>
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

static double alpha_of(const qkv_block_shape *shape) {
    return shape->residual == QKV_RESIDUAL_DEEPNORM ? pow(2.0 * (double)shape->layers, 0.25) : 1;
}

qkv_status qkv_block_declare(qkv_block *l, qkv_reg *reg, const char *prefix, const qkv_block_shape *shape, int64_t layer) {
    *l = (qkv_block){.norm_place = shape->norm_place, .residual = shape->residual, .alpha = (real)alpha_of(shape), .dropout = shape->dropout,
                     .site = (uint64_t)layer * QKV_SITES_A_LAYER};
    const bool post = l->norm_place == QKV_NORM_POST, sandwich = l->norm_place == QKV_NORM_SANDWICH;
    if (!post) QKV_TRY(qkv_norm_declare(&l->norm1, reg, prefix, "norm1", shape));
    QKV_TRY(qkv_attention_layer_declare(&l->attention, reg, prefix, shape, l->site + QKV_SITE_ATTENTION));
    if (post) QKV_TRY(qkv_norm_declare(&l->norm1, reg, prefix, "norm1", shape));
    if (sandwich) QKV_TRY(qkv_norm_declare(&l->after1, reg, prefix, "norm1.after", shape));
    if (!post) QKV_TRY(qkv_norm_declare(&l->norm2, reg, prefix, "norm2", shape));
    QKV_TRY(qkv_ffn_declare(&l->ffn, reg, prefix, shape));
    if (post) QKV_TRY(qkv_norm_declare(&l->norm2, reg, prefix, "norm2", shape));
    if (sandwich) QKV_TRY(qkv_norm_declare(&l->after2, reg, prefix, "norm2.after", shape));
    return QKV_OK;
}

/* ---- one half: a branch, its norms, and the sum with what it is added to ---- */

static const qkv_norm_op *norm_of(const qkv_block *l, int half) { return half ? &l->norm2 : &l->norm1; }
static const qkv_norm_op *after_of(const qkv_block *l, int half) { return half ? &l->after2 : &l->after1; }

static qkv_dropout drop(const qkv_exec *x, const qkv_block *l, const qkv_batch *batch, int half) {
    return qkv_exec_dropout(x, l->dropout, l->site + (half ? QKV_SITE_FFN_OUT : QKV_SITE_ATTENTION_OUT), batch->row_key);
}

static qkv_status branch_forward(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat in, qkv_mat out,
                                 const qkv_linear_then *then, qkv_block_saved *s) {
    if (half) return qkv_ffn_forward_then(x, &l->ffn, in, out, &s->ffn, then);
    return qkv_attention_layer_forward_then(x, &l->attention, batch, in, out, &s->attention, then);
}

/* What goes past a branch, or its gradient; NULL: nothing does. */
static const qkv_mat *past(const qkv_block *l, const qkv_mat *m) { return l->residual == QKV_RESIDUAL_NONE ? NULL : m; }

/* in: what the branch saw, where it was not kept. */
static qkv_status branch_backward(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat in, qkv_mat dout, qkv_mat din,
                                  const qkv_block_saved *s) {
    qkv_ffn_saved ffn = s->ffn;
    qkv_attention_saved attention = s->attention;
    ffn.in = attention.in = in;
    if (half) return qkv_ffn_backward(x, &l->ffn, dout, din, &ffn);
    return qkv_attention_layer_backward(x, &l->attention, batch, dout, din, &attention);
}

/* Normalises what a branch saw once more. */
static qkv_status see_again(qkv_exec *x, const qkv_block *l, int half, const qkv_half_saved *h, qkv_mat *seen) {
    qkv_norm_saved known;
    const bool keep = x->keep;
    const qkv_pass pass = qkv_exec_pass(x, QKV_PASS_RECOMPUTE);
    x->keep = false;
    QKV_TRY(qkv_temp(x, h->seen.rows, h->seen.cols, seen));
    QKV_TRY(qkv_norm_forward(x, norm_of(l, half), h->norm.in, *seen, &known));
    x->pass = pass;
    x->keep = keep;
    return QKV_OK;
}

/* out = alpha * base + dropout(branch(in)); base NULL: the branch alone. */
static qkv_status sum_forward(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, const qkv_mat *base, qkv_mat in, qkv_mat out,
                              qkv_block_saved *s) {
    const qkv_dropout d = drop(x, l, batch, half);
    if (!base) {
        QKV_TRY(branch_forward(x, l, half, batch, in, out, NULL, s));
        return d.p > 0 ? qkv_residual(x, NULL, out, out, d) : QKV_OK;
    }
    qkv_linear_then then = {.kind = QKV_THEN_RESIDUAL, .other = *base, .dropout = d};
    if (l->residual == QKV_RESIDUAL_DEEPNORM) {
        QKV_TRY(qkv_temp(x, base->rows, base->cols, &then.other));
        QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, l->alpha, *base, 0, then.other));
    }
    return branch_forward(x, l, half, batch, in, out, &then, s);
}

/* base: what the branch of `in` is added to. */
static qkv_status half_forward(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat in, const qkv_mat *base, qkv_mat out,
                               qkv_block_saved *s) {
    qkv_half_saved *h = &s->half[half];
    if (l->norm_place == QKV_NORM_POST) {
        QKV_TRY(qkv_keep(x, in.rows, in.cols, &h->seen));
        QKV_TRY(sum_forward(x, l, half, batch, base, in, h->seen, s));
        return qkv_norm_forward(x, norm_of(l, half), h->seen, out, &h->norm);
    }
    h->again = qkv_exec_drops(x, QKV_AGAIN_POINTWISE);
    QKV_TRY((h->again ? qkv_temp : qkv_keep)(x, in.rows, in.cols, &h->seen));
    QKV_TRY(qkv_norm_forward(x, norm_of(l, half), in, h->seen, &h->norm));
    if (l->norm_place == QKV_NORM_PRE) return sum_forward(x, l, half, batch, base, h->seen, out, s);
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &h->branch));
    QKV_TRY(branch_forward(x, l, half, batch, h->seen, h->branch, NULL, s));
    QKV_TRY(qkv_norm_forward(x, after_of(l, half), h->branch, out, &h->after));
    const qkv_dropout d = drop(x, l, batch, half);
    return base || d.p > 0 ? qkv_residual(x, base, out, out, d) : QKV_OK;
}

static qkv_status post_backward(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                                const qkv_block_saved *s) {
    const qkv_dropout d = drop(x, l, batch, half);
    qkv_mat dsum, branch;
    QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &dsum));
    branch = dsum;
    if (d.p > 0) QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &branch));
    QKV_TRY(qkv_norm_backward_sum(x, norm_of(l, half), dout, NULL, dsum, d.p > 0 ? &branch : NULL, d, &s->half[half].norm));
    QKV_TRY(branch_backward(x, l, half, batch, half ? s->ffn.in : s->attention.in, branch, din, s));
    return past(l, &dsum) ? qkv_scaled_sum(x, QKV_WORK_RESIDUAL, l->alpha, dsum, 1, din) : QKV_OK;
}

/* dbranch: the gradient behind the branch's dropout; beside: the one that comes past the branch (NULL: none); dseen: scratch, may be din.
 * *next, unless it is NULL: the gradient behind the dropout of the half before, of din. */
static qkv_status pre_backward(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat dbranch, const qkv_mat *beside,
                               qkv_mat dseen, qkv_mat din, const qkv_mat *next, const qkv_block_saved *s) {
    const qkv_half_saved *h = &s->half[half];
    qkv_mat branch = dbranch, seen = h->seen;
    const size_t mark = qkv_exec_mark(x);
    if (h->again) QKV_TRY(see_again(x, l, half, h, &seen));
    if (l->norm_place == QKV_NORM_SANDWICH) {
        QKV_TRY(qkv_temp(x, dbranch.rows, dbranch.cols, &branch));
        QKV_TRY(qkv_norm_backward(x, after_of(l, half), dbranch, branch, &h->after));
    }
    QKV_TRY(branch_backward(x, l, half, batch, seen, branch, dseen, s));
    qkv_exec_release(x, mark);
    return qkv_norm_backward_sum(x, norm_of(l, half), dseen, beside, din, next, drop(x, l, batch, 0), &h->norm);
}

/* ---- the layer ---- */

static qkv_status forward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_block_saved *s) {
    qkv_mat middle;
    QKV_TRY(qkv_keep(x, in.rows, in.cols, &middle));
    const size_t mark = qkv_exec_mark(x);
    QKV_TRY(half_forward(x, l, 0, batch, in, past(l, &in), middle, s));
    qkv_exec_release(x, mark);
    return half_forward(x, l, 1, batch, middle, past(l, &middle), out, s);
}

static qkv_status backward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const qkv_block_saved *s) {
    const bool dropped = drop(x, l, batch, 0).p > 0;
    qkv_mat dmiddle, branch;
    QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &dmiddle));
    if (l->norm_place == QKV_NORM_POST) {
        const size_t mark = qkv_exec_mark(x);
        QKV_TRY(post_backward(x, l, 1, batch, dout, dmiddle, s));
        qkv_exec_release(x, mark);
        return post_backward(x, l, 0, batch, dmiddle, din, s);
    }
    if (dropped) {
        QKV_TRY(qkv_temp(x, dout.rows, dout.cols, &branch));
        QKV_TRY(qkv_residual(x, NULL, dout, branch, drop(x, l, batch, 1)));
    }
    QKV_TRY(pre_backward(x, l, 1, batch, dropped ? branch : dout, past(l, &dout), dmiddle, dmiddle, dropped ? &branch : NULL, s));
    return pre_backward(x, l, 0, batch, dropped ? branch : dmiddle, past(l, &dmiddle), din, din, NULL, s);
}

qkv_status qkv_block_forward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, qkv_mat out, qkv_block_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    *saved = (qkv_block_saved){0};
    QKV_TRY(forward(x, l, batch, in, out, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_block_backward(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat dout, qkv_mat din,
                              const qkv_block_saved *saved) {
    size_t mark = qkv_exec_mark(x);
    QKV_TRY(backward(x, l, batch, dout, din, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* ---- two streams ---- */

/* to += sign * the branch of a half of `in`. Rounded before it is added, so that what is taken off again is what was added. */
static qkv_status add_half(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat in, real sign, qkv_mat to,
                           qkv_block_saved *saved) {
    const size_t mark = qkv_exec_mark(x);
    qkv_mat branch;
    *saved = (qkv_block_saved){0};
    QKV_TRY(qkv_temp(x, in.rows, in.cols, &branch));
    QKV_TRY(half_forward(x, l, half, batch, in, NULL, branch, saved));
    QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, sign, branch, 1, to));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* din += the gradient of `in`, of that of `to` after adding. */
static qkv_status add_half_backward(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat dto, qkv_mat din,
                                    const qkv_block_saved *saved) {
    const size_t mark = qkv_exec_mark(x);
    const qkv_dropout d = drop(x, l, batch, half);
    qkv_mat branch = dto, dseen;
    QKV_TRY(qkv_temp(x, dto.rows, dto.cols, &dseen));
    if (d.p > 0) {
        QKV_TRY(qkv_temp(x, dto.rows, dto.cols, &branch));
        QKV_TRY(qkv_residual(x, NULL, dto, branch, d));
    }
    QKV_TRY(pre_backward(x, l, half, batch, branch, &din, dseen, din, NULL, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_block_couple(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat a, qkv_mat b) {
    qkv_block_saved unused;
    const bool keep = x->keep;
    x->keep = false;
    QKV_TRY(add_half(x, l, 0, batch, b, 1, a, &unused));
    QKV_TRY(add_half(x, l, 1, batch, a, 1, b, &unused));
    x->keep = keep;
    return QKV_OK;
}

/* Takes off what the half added, keeping what its backward pass needs, and goes back through it. */
static qkv_status take_off(qkv_exec *x, const qkv_block *l, int half, const qkv_batch *batch, qkv_mat from, qkv_mat in, qkv_mat dfrom, qkv_mat din) {
    const size_t low = x->arena.low;
    qkv_block_saved saved;
    const qkv_pass pass = qkv_exec_pass(x, QKV_PASS_RECOMPUTE);
    QKV_TRY(add_half(x, l, half, batch, in, -1, from, &saved));
    x->pass = pass;
    QKV_TRY(add_half_backward(x, l, half, batch, dfrom, din, &saved));
    qkv_arena_low_release(&x->arena, low);
    return QKV_OK;
}

qkv_status qkv_block_uncouple(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat a, qkv_mat b, qkv_mat da, qkv_mat db) {
    QKV_TRY(take_off(x, l, 1, batch, b, a, db, da));
    return take_off(x, l, 0, batch, a, b, da, db);
}

qkv_status qkv_block_weights(qkv_exec *x, const qkv_block *l, const qkv_batch *batch, qkv_mat in, int64_t head, real *weights) {
    size_t mark = qkv_exec_mark(x);
    qkv_mat normed = in;
    qkv_norm_saved ignored;
    if (l->norm_place != QKV_NORM_POST) {
        QKV_TRY(qkv_temp(x, in.rows, in.cols, &normed));
        QKV_TRY(qkv_norm_forward(x, &l->norm1, in, normed, &ignored));
    }
    QKV_TRY(qkv_attention_layer_weights(x, &l->attention, batch, normed, head, weights));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
