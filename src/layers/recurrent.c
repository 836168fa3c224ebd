#include "layers/recurrent.h"

#include <math.h>
#include <stdio.h>

#include "ops/reg.h"
#include "ops/residual.h"

/* The parameters of one direction. */
static qkv_status declare_direction(qkv_reg *reg, const char *prefix, const qkv_recurrent_shape *s, int direction,
                                    qkv_recur_params *of) {
    char name[96];
    snprintf(name, sizeof name, "%s%s.", prefix, direction ? "back" : "forth");
    const bool apart = s->cell == QKV_RECUR_GRU_BEFORE;
    const int64_t gates = apart ? 2 : qkv_recur_gates(s->cell);
    const double std = 1 / sqrt((double)s->units);
    const qkv_param_kind vector = {.vector = true};
    qkv_param_kind weight = {.std = std, .decay = true, .matrix = true, .gates = gates};
    *of = (qkv_recur_params){-1, -1, -1};
    QKV_TRY(qkv_reg_add(reg, name, "weight", gates * s->units, s->units, weight, &of->weight));
    weight.gates = 1;
    if (apart) QKV_TRY(qkv_reg_add(reg, name, "candidate", s->units, s->units, weight, &of->candidate));
    if (s->cell == QKV_RECUR_GRU) QKV_TRY(qkv_reg_add(reg, name, "bias", 1, s->units, vector, &of->vector));
    if (s->cell == QKV_RECUR_LSTM && s->peepholes)
        QKV_TRY(qkv_reg_add(reg, name, "peepholes", 1, 3 * s->units, vector, &of->vector));
    return QKV_OK;
}

qkv_status qkv_recurrent_declare(qkv_recurrent *l, qkv_reg *reg, const char *prefix, const qkv_recurrent_shape *s, uint64_t site) {
    const int64_t gates = qkv_recur_gates(s->cell), width = s->directions * gates * s->units;
    const qkv_param_kind weight = {.std = 1 / sqrt((double)s->in), .decay = true, .matrix = true};
    qkv_param_kind bias = {.vector = true};
    if (s->cell == QKV_RECUR_LSTM)
        bias =
            (qkv_param_kind){.vector = true, .value = s->forget, .period = gates * s->units, .from = s->units, .to = 2 * s->units};
    *l = (qkv_recurrent){.recurrence = {.cell = s->cell, .units = s->units, .directions = s->directions},
                         .dropout = s->dropout,
                         .site = site,
                         .input = {.work = QKV_WORK_PROJECTION}};
    QKV_TRY(qkv_reg_add(reg, prefix, "input.weight", width, s->in, weight, &l->input.weight));
    QKV_TRY(qkv_reg_add(reg, prefix, "input.bias", 1, width, bias, &l->input.bias));
    for (int i = 0; i < s->directions; i++) QKV_TRY(declare_direction(reg, prefix, s, i, &l->recurrence.of[i]));
    return QKV_OK;
}

static qkv_dropout drop(const qkv_exec *x, const qkv_recurrent *l, const qkv_batch *batch) {
    return qkv_exec_dropout(x, l->dropout, l->site, batch->row_key);
}

qkv_status qkv_recurrent_forward(qkv_exec *x, const qkv_recurrent *l, const qkv_batch *batch, const qkv_recur_ends *ends, qkv_mat in,
                                 qkv_mat out, qkv_recurrent_saved *saved) {
    const qkv_recurrence *r = &l->recurrence;
    const size_t mark = qkv_exec_mark(x);
    const qkv_dropout d = drop(x, l, batch);
    *saved = (qkv_recurrent_saved){.in = in, .hidden = out};
    if (d.p > 0) {
        QKV_TRY(qkv_keep(x, in.rows, in.cols, &saved->in));
        QKV_TRY(qkv_residual(x, NULL, in, saved->in, d));
    }
    QKV_TRY(qkv_keep(x, in.rows, qkv_recurrence_gates(r), &saved->gates));
    /* A run that is repeated in the backward pass has another place for what goes out. */
    if (x->keep) QKV_TRY(qkv_keep(x, in.rows, out.cols, &saved->hidden));
    if (r->cell == QKV_RECUR_LSTM || x->keep) QKV_TRY(qkv_keep(x, in.rows, qkv_recurrence_cells(r), &saved->cells));
    QKV_TRY(qkv_linear_forward(x, l->input, saved->in, saved->gates));
    QKV_TRY(qkv_recurrence_forward(x, r, batch, ends, saved->gates, saved->hidden, saved->cells));
    if (x->keep) QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RECURRENCE, 1, saved->hidden, 0, out));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_recurrent_backward(qkv_exec *x, const qkv_recurrent *l, const qkv_batch *batch, const qkv_recur_ends *ends,
                                  qkv_mat dout, qkv_mat din, const qkv_recurrent_saved *saved) {
    const size_t mark = qkv_exec_mark(x);
    const qkv_dropout d = drop(x, l, batch);
    QKV_TRY(qkv_recurrence_backward(x, &l->recurrence, batch, ends, dout, saved->gates, saved->hidden, saved->cells));
    QKV_TRY(qkv_linear_backward(x, l->input, saved->in, saved->gates, &din));
    if (d.p > 0) QKV_TRY(qkv_residual(x, NULL, din, din, d));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
