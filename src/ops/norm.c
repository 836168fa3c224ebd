#include "ops/norm.h"

#include <string.h>

#include "base/par.h"
#include "ops/around.h"
#include "ops/residual.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_mat in, out, dout, din, base, dropped;
    qkv_dropout dropout;
    qkv_mat partial; /* a row a chunk: what it adds to the gradients of gain and bias */
    const real *gain, *bias;
    real *mean, *rstd;
    real epsilon;
    int64_t grain;
    bool around;
} job;

static qkv_status check(const qkv_exec *x, const qkv_norm_op *n, qkv_mat in, qkv_mat out) {
    const qkv_param *gain = &x->reg->params[n->gain];
    if (gain->cols != in.cols || (n->bias >= 0 && x->reg->params[n->bias].cols != in.cols))
        return qkv_fail(x->ctx, QKV_INTERNAL, "%s has %lld numbers for rows of %lld", gain->name, (long long)gain->cols, (long long)in.cols);
    QKV_TRY(qkv_exec_shape(x, "input of a norm", in, in.rows, in.cols));
    return qkv_exec_shape(x, "output of a norm", out, in.rows, in.cols);
}

static void forward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    j->kernels->norm_forward(r.to - r.from, j->in.cols, j->in.p + r.from * j->in.ld, j->in.ld, j->gain, j->bias, j->epsilon,
                             j->out.p + r.from * j->out.ld, j->out.ld, j->mean ? j->mean + r.from : NULL, j->rstd + r.from,
                             j->around);
}

qkv_status qkv_norm_forward(qkv_exec *x, const qkv_norm_op *n, qkv_mat in, qkv_mat out, qkv_norm_saved *saved) {
    QKV_TRY(check(x, n, in, out));
    *saved = (qkv_norm_saved){.in = in};
    if (!n->rms) QKV_TRY(qkv_keep(x, in.rows, 1, &saved->mean));
    QKV_TRY(qkv_keep(x, in.rows, 1, &saved->rstd));
    double elements = (double)in.rows * (double)in.cols;
    qkv_exec_other(x, QKV_WORK_NORM, elements * (n->rms ? 4 : 7), (2 * elements + 2 * (double)in.cols) * sizeof(real));
    if (x->plan || in.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .in = in, .out = out, .gain = qkv_weight(x, n->gain),
             .bias = n->bias >= 0 ? qkv_weight(x, n->bias) : NULL, .mean = saved->mean.p, .rstd = saved->rstd.p,
             .epsilon = (real)n->epsilon, .grain = qkv_row_grain(in.cols), .around = qkv_around(out, in.p, NULL)};
    qkv_par(x->ctx, qkv_chunks(in.rows, j.grain), forward_chunk, &j);
    return QKV_OK;
}

static const real *row(qkv_mat m, int64_t r) { return m.p ? m.p + r * m.ld : NULL; }

static void backward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    real *sums = j->partial.p + chunk * j->partial.ld, *din = j->din.p + r.from * j->din.ld;
    memset(sums, 0, (size_t)j->partial.cols * sizeof(real));
    j->kernels->norm_backward(r.to - r.from, j->in.cols, row(j->in, r.from), j->in.ld, j->gain, j->mean ? j->mean + r.from : NULL,
                              j->rstd + r.from, row(j->dout, r.from), j->dout.ld, row(j->base, r.from), j->base.ld, din, j->din.ld,
                              sums, j->partial.cols > j->in.cols ? sums + j->in.cols : NULL, j->around && !j->dropped.p);
    if (!j->dropped.p) return;
    qkv_dropout d = j->dropout;
    if (d.row_key) d.row_key += r.from;
    j->kernels->dropout(r.to - r.from, j->in.cols, NULL, 0, din, j->din.ld, j->dropped.p + r.from * j->dropped.ld, j->dropped.ld, d,
                        j->around);
}

static qkv_status check_backward(const qkv_exec *x, const qkv_norm_op *n, qkv_mat in, qkv_mat dout, const qkv_mat *base, qkv_mat din,
                                 const qkv_mat *dropped, qkv_dropout d) {
    QKV_TRY(check(x, n, in, dout));
    QKV_TRY(qkv_exec_shape(x, "input gradient of a norm", din, in.rows, in.cols));
    if (base) QKV_TRY(qkv_exec_shape(x, "gradient past a norm", *base, in.rows, in.cols));
    if (!dropped) return QKV_OK;
    QKV_TRY(qkv_exec_shape(x, "dropped gradient of a norm", *dropped, in.rows, in.cols));
    return qkv_residual_check(x, d, in.rows);
}

qkv_status qkv_norm_backward_sum(qkv_exec *x, const qkv_norm_op *n, qkv_mat dout, const qkv_mat *base, qkv_mat din,
                                 const qkv_mat *dropped, qkv_dropout d, const qkv_norm_saved *saved) {
    qkv_mat in = saved->in;
    QKV_TRY(check_backward(x, n, in, dout, base, din, dropped, d));
    const int64_t grain = qkv_row_grain(in.cols), chunks = qkv_chunks(in.rows, grain), sums = n->bias >= 0 ? 2 : 1;
    const size_t mark = qkv_exec_mark(x);
    job j = {.kernels = x->ctx->kernels, .in = in, .dout = dout, .din = din, .dropout = d, .gain = qkv_weight(x, n->gain),
             .mean = saved->mean.p, .rstd = saved->rstd.p, .grain = grain};
    QKV_TRY(qkv_temp(x, chunks, sums * in.cols, &j.partial));
    double elements = (double)in.rows * (double)in.cols;
    qkv_exec_other(x, QKV_WORK_NORM, elements * ((n->rms ? 12 : 15) + (base != NULL) + (dropped && d.p > 0)),
                  (elements * (3 + (base != NULL) + (dropped != NULL)) + 4 * (double)in.cols) * sizeof(real));
    if (!x->plan && in.rows > 0) {
        if (base) j.base = *base;
        if (dropped) j.dropped = *dropped;
        j.around = qkv_around(dropped ? *dropped : din, dout.p, j.base.p); /* dropping reads din at once */
        qkv_par(x->ctx, chunks, backward_chunk, &j);
        j.kernels->column_sum(chunks, 0, in.cols, j.partial.p, j.partial.ld, qkv_grad(x, n->gain));
        if (n->bias >= 0) j.kernels->column_sum(chunks, 0, in.cols, j.partial.p + in.cols, j.partial.ld, qkv_grad(x, n->bias));
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_norm_backward(qkv_exec *x, const qkv_norm_op *n, qkv_mat dout, qkv_mat din, const qkv_norm_saved *saved) {
    return qkv_norm_backward_sum(x, n, dout, NULL, din, NULL, (qkv_dropout){0}, saved);
}
