#include "ops/head_norm.h"

#include <string.h>

#include "base/par.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    int64_t heads, width, grain;
    qkv_mat in, out, dout, din, rstd, partial; /* partial: a row a chunk and head, what they add to the gradient of the gain */
    const real *gain;
    real epsilon;
} job;

static qkv_status check(const qkv_exec *x, const qkv_norm_op *n, int64_t heads, qkv_mat in, qkv_mat out, qkv_mat rstd) {
    const qkv_param *gain = &x->reg->params[n->gain];
    if (heads < 1 || gain->cols * heads != in.cols)
        return qkv_fail(x->ctx, QKV_INTERNAL, "%s has %lld numbers for %lld heads in rows of %lld", gain->name,
                        (long long)gain->cols, (long long)heads, (long long)in.cols);
    QKV_TRY(qkv_exec_shape(x, "deviations of heads", rstd, heads, in.rows));
    QKV_TRY(qkv_exec_shape(x, "input of a norm of heads", in, in.rows, in.cols));
    return qkv_exec_shape(x, "output of a norm of heads", out, in.rows, in.cols);
}

static void forward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    const qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    for (int64_t h = 0; h < j->heads; h++)
        j->kernels->norm_forward(r.to - r.from, j->width, j->in.p + r.from * j->in.ld + h * j->width, j->in.ld, j->gain, NULL,
                                 j->epsilon, j->out.p + r.from * j->out.ld + h * j->width, j->out.ld, NULL,
                                 j->rstd.p + h * j->rstd.ld + r.from, false);
}

qkv_status qkv_head_norm_forward(qkv_exec *x, const qkv_norm_op *n, int64_t heads, qkv_mat in, qkv_mat out, qkv_mat rstd) {
    QKV_TRY(check(x, n, heads, in, out, rstd));
    const double elements = (double)in.rows * (double)in.cols;
    qkv_exec_other(x, QKV_WORK_NORM, elements * 4, (2 * elements + (double)x->reg->params[n->gain].cols) * sizeof(real));
    if (x->plan || in.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels,
             .heads = heads,
             .width = in.cols / heads,
             .grain = qkv_row_grain(in.cols),
             .in = in,
             .out = out,
             .rstd = rstd,
             .gain = qkv_weight(x, n->gain),
             .epsilon = (real)n->epsilon};
    qkv_par(x->ctx, qkv_chunks(in.rows, j.grain), forward_chunk, &j);
    return QKV_OK;
}

static void backward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    const qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    for (int64_t h = 0; h < j->heads; h++) {
        real *sums = j->partial.p + (chunk * j->heads + h) * j->partial.ld;
        memset(sums, 0, (size_t)j->width * sizeof(real));
        j->kernels->norm_backward(r.to - r.from, j->width, j->in.p + r.from * j->in.ld + h * j->width, j->in.ld, j->gain, NULL,
                                  j->rstd.p + h * j->rstd.ld + r.from, j->dout.p + r.from * j->dout.ld + h * j->width, j->dout.ld,
                                  NULL, 0, j->din.p + r.from * j->din.ld + h * j->width, j->din.ld, sums, NULL, false);
    }
}

qkv_status qkv_head_norm_backward(qkv_exec *x, const qkv_norm_op *n, int64_t heads, qkv_mat in, qkv_mat rstd, qkv_mat dout,
                                  qkv_mat din) {
    QKV_TRY(check(x, n, heads, in, dout, rstd));
    QKV_TRY(qkv_exec_shape(x, "input gradient of a norm of heads", din, in.rows, in.cols));
    const int64_t grain = qkv_row_grain(in.cols), chunks = qkv_chunks(in.rows, grain), width = in.cols / heads;
    const double elements = (double)in.rows * (double)in.cols;
    const size_t mark = qkv_exec_mark(x);
    job j = {.kernels = x->ctx->kernels,
             .heads = heads,
             .width = width,
             .grain = grain,
             .in = in,
             .dout = dout,
             .din = din,
             .rstd = rstd,
             .gain = qkv_weight(x, n->gain)};
    QKV_TRY(qkv_temp(x, chunks * heads, width, &j.partial));
    qkv_exec_other(x, QKV_WORK_NORM, elements * 12, (3 * elements + 2 * (double)width) * sizeof(real));
    if (!x->plan && in.rows > 0) {
        qkv_par(x->ctx, chunks, backward_chunk, &j);
        j.kernels->column_sum(chunks * heads, 0, width, j.partial.p, j.partial.ld, qkv_grad(x, n->gain));
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}
