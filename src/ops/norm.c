#include "ops/norm.h"

#include "base/par.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_mat in, out, dout, din;
    const real *gain, *bias;
    real *dgain, *dbias, *mean, *rstd;
    real epsilon;
    int64_t grain;
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
                             j->out.p + r.from * j->out.ld, j->out.ld, j->mean ? j->mean + r.from : NULL, j->rstd + r.from);
}

qkv_status qkv_norm_forward(qkv_exec *x, const qkv_norm_op *n, qkv_mat in, qkv_mat out, qkv_norm_saved *saved) {
    QKV_TRY(check(x, n, in, out));
    *saved = (qkv_norm_saved){.in = in};
    if (!n->rms) QKV_TRY(qkv_keep(x, in.rows, 1, &saved->mean));
    QKV_TRY(qkv_keep(x, in.rows, 1, &saved->rstd));
    double elements = (double)in.rows * (double)in.cols;
    qkv_exec_book(x, QKV_CLASS_OTHER, elements * (n->rms ? 4 : 7), (2 * elements + 2 * (double)in.cols) * sizeof(real));
    if (x->plan || in.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .in = in, .out = out, .gain = qkv_weight(x, n->gain),
             .bias = n->bias >= 0 ? qkv_weight(x, n->bias) : NULL, .mean = saved->mean.p, .rstd = saved->rstd.p,
             .epsilon = (real)n->epsilon, .grain = qkv_row_grain(in.cols)};
    qkv_par(x->ctx, qkv_chunks(in.rows, j.grain), forward_chunk, &j);
    return QKV_OK;
}

static void param_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.cols, j->grain, chunk);
    j->kernels->norm_param_grad(j->in.rows, r.from, r.to, j->in.p, j->in.ld, j->mean, j->rstd, j->dout.p, j->dout.ld, j->dgain, j->dbias);
}

static void input_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    j->kernels->norm_backward(r.to - r.from, j->in.cols, j->in.p + r.from * j->in.ld, j->in.ld, j->gain, j->mean ? j->mean + r.from : NULL,
                              j->rstd + r.from, j->dout.p + r.from * j->dout.ld, j->dout.ld, j->din.p + r.from * j->din.ld, j->din.ld);
}

qkv_status qkv_norm_backward(qkv_exec *x, const qkv_norm_op *n, qkv_mat dout, qkv_mat din, const qkv_norm_saved *saved) {
    qkv_mat in = saved->in;
    QKV_TRY(check(x, n, in, dout));
    QKV_TRY(qkv_exec_shape(x, "input gradient of a norm", din, in.rows, in.cols));
    double elements = (double)in.rows * (double)in.cols;
    qkv_exec_book(x, QKV_CLASS_OTHER, elements * (n->rms ? 12 : 15), (3 * elements + 4 * (double)in.cols) * sizeof(real));
    if (x->plan || in.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .in = in, .dout = dout, .din = din, .gain = qkv_weight(x, n->gain), .dgain = qkv_grad(x, n->gain),
             .dbias = n->bias >= 0 ? qkv_grad(x, n->bias) : NULL, .mean = saved->mean.p, .rstd = saved->rstd.p};
    /* first the parameters: they read dout, which din may overwrite */
    j.grain = qkv_col_grain(in.rows);
    qkv_par(x->ctx, qkv_chunks(in.cols, j.grain), param_chunk, &j);
    j.grain = qkv_row_grain(in.cols);
    qkv_par(x->ctx, qkv_chunks(in.rows, j.grain), input_chunk, &j);
    return QKV_OK;
}
