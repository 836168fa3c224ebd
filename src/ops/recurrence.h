/* The walk of recurrent cells along the sequences of a ragged batch. What comes from below (the projection of the inputs, biases
 * included) is there for all rows beforehand; each step adds the product of the recurrent weights with the step before. Sequences
 * are taken longest first, so that a step works on those that still run: there is no padding, and a sequence may have no rows.
 *
 *   TANH, RELU   h = f(x + W h')
 *   LSTM         i = s(xi + Wi h' + pi c'), f = s(xf + Wf h' + pf c'), g = tanh(xg + Wg h'), c = f c' + i g,
 *                o = s(xo + Wo h' + po c), h = o tanh(c)          (Hochreiter & Schmidhuber 1997, Gers et al. 2000, 2002)
 *   GRU          r = s(xr + Wr h'), z = s(xz + Wz h'), n = tanh(xn + r (Wn h' + b)), h = (1 - z) n + z h'
 *   GRU_BEFORE   the same with n = tanh(xn + Wn (r h'))                                   (Cho et al. 2014)
 *
 * h', c' of the first step are given, or 0. A gate is one chain of fused multiply-adds: x, then the units of h' ascending. */
#ifndef QKV_OPS_RECURRENCE_H
#define QKV_OPS_RECURRENCE_H

#include "ops/exec.h"

/* Parameter numbers of one direction; -1: none. */
typedef struct qkv_recur_params {
    int64_t weight;    /* [gates * units, units]; of GRU_BEFORE r and z only */
    int64_t candidate; /* GRU_BEFORE: [units, units] */
    int64_t vector;    /* LSTM: peepholes of i, f, o [3 * units], or none. GRU: b [units] */
} qkv_recur_params;

typedef struct qkv_recurrence {
    qkv_recur_cell cell;
    int64_t units;  /* of one direction */
    int directions; /* 1: from the first row to the last. 2: and one from the last to the first, beside it in all matrices */
    qkv_recur_params of[2];
} qkv_recurrence;

/* Columns of a row of `gates` and, for the backward pass, of `cells` (0: none). */
static inline int64_t qkv_recurrence_gates(const qkv_recurrence *r) {
    return r->directions * qkv_recur_gates(r->cell) * r->units;
}
static inline int64_t qkv_recurrence_cells(const qkv_recurrence *r) {
    return r->cell < QKV_RECUR_LSTM ? 0 : r->directions * r->units;
}

/* The two ends of the sequences, each [n_seq, directions * units] in the order of the batch; of a matrix without columns there is
 * none. A sequence without rows has no part in it: its gradients are 0. */
typedef struct qkv_recur_ends {
    qkv_mat hidden, cells;   /* before the first step; cells of an LSTM alone, which has both or neither */
    qkv_mat dhidden, dcells; /* their gradients, overwritten by the backward pass; there where they are */
    qkv_mat dlast;           /* of an LSTM: gradient of the last c. (The last h is a row of `hidden`, and so is its gradient.) */
} qkv_recur_ends;

/* gates [N, directions * gates * units]: in what comes from below, out the values of the gates (of TANH and RELU: unchanged).
 * hidden [N, directions * units]: h of every row. cells: what the backward pass needs besides; p may be NULL in a run without one,
 * but for the LSTM. All three, and what `ends` has, must live until the backward pass. ends NULL: none. */
qkv_status qkv_recurrence_forward(qkv_exec *x, const qkv_recurrence *r, const qkv_batch *batch, const qkv_recur_ends *ends,
                                  qkv_mat gates, qkv_mat hidden, qkv_mat cells) QKV_MUST_USE;

/* Overwrites gates with the gradient of what came from below, and adds to the gradients of the parameters. */
qkv_status qkv_recurrence_backward(qkv_exec *x, const qkv_recurrence *r, const qkv_batch *batch, const qkv_recur_ends *ends,
                                   qkv_mat dhidden, qkv_mat gates, qkv_mat hidden, qkv_mat cells) QKV_MUST_USE;

/* The packed copy of recurrent weights of so many gates, and the reals it takes. */
int64_t qkv_recurrence_packed_size(int64_t gates, int64_t units);
void qkv_recurrence_pack(const qkv_ctx *ctx, const real *weight, int64_t gates, int64_t units, real *packed);

#endif
