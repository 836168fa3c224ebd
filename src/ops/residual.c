#include "ops/residual.h"

#include "base/par.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_mat base, in, out;
    qkv_dropout d;
    real a, b;
    int64_t grain;
} job;

static real *row(qkv_mat m, int64_t r) { return m.p ? m.p + r * m.ld : NULL; }

static void residual_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    qkv_dropout d = j->d;
    if (d.row_key) d.row_key += r.from;
    j->kernels->dropout(r.to - r.from, j->in.cols, row(j->base, r.from), j->base.ld, row(j->in, r.from), j->in.ld, row(j->out, r.from),
                        j->out.ld, d);
}

qkv_status qkv_residual_check(const qkv_exec *x, qkv_dropout d, int64_t rows) {
    if (!(d.p >= 0 && d.p < 1) || (!x->plan && d.p > 0 && !d.row_key && rows > 0))
        return qkv_fail(x->ctx, QKV_INTERNAL, "dropout of %g %s row keys", (double)d.p, d.row_key ? "with" : "without");
    return QKV_OK;
}

qkv_status qkv_residual(qkv_exec *x, const qkv_mat *base, qkv_mat in, qkv_mat out, qkv_dropout d) {
    QKV_TRY(qkv_exec_shape(x, "input of a residual sum", in, in.rows, in.cols));
    QKV_TRY(qkv_exec_shape(x, "output of a residual sum", out, in.rows, in.cols));
    if (base) QKV_TRY(qkv_exec_shape(x, "base of a residual sum", *base, in.rows, in.cols));
    QKV_TRY(qkv_residual_check(x, d, in.rows));
    double elements = (double)in.rows * (double)in.cols;
    qkv_exec_other(x, QKV_WORK_RESIDUAL, elements * ((base ? 1 : 0) + (d.p > 0 ? 1 : 0)), elements * (base ? 3 : 2) * sizeof(real));
    if (x->plan || in.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .in = in, .out = out, .d = d, .grain = qkv_row_grain(in.cols)};
    if (base) j.base = *base;
    if (d.p == 0) j.d.row_key = NULL;
    qkv_par(x->ctx, qkv_chunks(in.rows, j.grain), residual_chunk, &j);
    return QKV_OK;
}

static void sum_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    j->kernels->axpby(r.to - r.from, j->in.cols, j->a, row(j->in, r.from), j->in.ld, j->b, row(j->out, r.from), j->out.ld);
}

qkv_status qkv_scaled_sum(qkv_exec *x, qkv_work work, real a, qkv_mat in, real b, qkv_mat out) {
    QKV_TRY(qkv_exec_shape(x, "input of a sum", in, in.rows, in.cols));
    QKV_TRY(qkv_exec_shape(x, "output of a sum", out, in.rows, in.cols));
    double elements = (double)in.rows * (double)in.cols;
    qkv_exec_other(x, work, elements * ((a != 1) + (b != 0 ? 1 + (b != 1) : 0)), elements * (b != 0 ? 3 : 2) * sizeof(real));
    if (x->plan || in.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .in = in, .out = out, .a = a, .b = b, .grain = qkv_row_grain(in.cols)};
    qkv_par(x->ctx, qkv_chunks(in.rows, j.grain), sum_chunk, &j);
    return QKV_OK;
}
