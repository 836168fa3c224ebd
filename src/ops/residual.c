#include "ops/residual.h"

#include <math.h>

#include "base/par.h"
#include "ops/around.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_mat base, in, out;
    qkv_dropout d;
    real a, b;
    int64_t grain;
    bool around;
} job;

static real *row(qkv_mat m, int64_t r) { return m.p ? m.p + r * m.ld : NULL; }

static void residual_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    qkv_dropout d = j->d;
    if (d.row_key) d.row_key += r.from;
    j->kernels->dropout(r.to - r.from, j->in.cols, row(j->base, r.from), j->base.ld, row(j->in, r.from), j->in.ld, row(j->out, r.from),
                        j->out.ld, d, j->around);
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
    j.around = qkv_around(out, in.p, j.base.p);
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

/* Of each chunk of rows the largest |again - was| and |was|. */
typedef struct far_job {
    qkv_mat again, was;
    int64_t grain;
    qkv_mat most; /* [chunks,2] */
} far_job;

static void far_chunk(void *arg, int64_t chunk, int thread) {
    const far_job *j = arg;
    (void)thread;
    const qkv_range r = qkv_chunk_range(j->was.rows, j->grain, chunk);
    real off = 0, size = 0;
    for (int64_t i = r.from; i < r.to; i++) {
        const real *again = row(j->again, i), *was = row(j->was, i);
        for (int64_t k = 0; k < j->was.cols; k++) {
            const real d = (real)fabs((double)(again[k] - was[k])), w = (real)fabs((double)was[k]);
            if (d > off || isnan(d)) off = d;
            if (w > size || isnan(w)) size = w;
        }
    }
    row(j->most, chunk)[0] = off;
    row(j->most, chunk)[1] = size;
}

qkv_status qkv_rebuilt(qkv_exec *x, qkv_mat again, qkv_mat was) {
    QKV_TRY(qkv_exec_shape(x, "rows that were rebuilt", again, was.rows, was.cols));
    const size_t mark = qkv_exec_mark(x);
    far_job j = {.again = again, .was = was, .grain = qkv_row_grain(was.cols)};
    const int64_t chunks = qkv_chunks(was.rows, j.grain);
    QKV_TRY(qkv_temp(x, chunks, 2, &j.most));
    qkv_exec_other(x, QKV_WORK_RESIDUAL, 0, 2 * (double)was.rows * (double)was.cols * sizeof(real));
    if (!x->plan && was.rows > 0) {
        double off = 0, size = 0;
        qkv_par(x->ctx, chunks, far_chunk, &j);
        for (int64_t c = 0; c < chunks; c++) {
            const real *m = row(j.most, c);
            if ((double)m[0] > off || isnan(m[0])) off = (double)m[0];
            if ((double)m[1] > size || isnan(m[1])) size = (double)m[1];
        }
        if (off > 0 && !(off / size <= x->rebuilt)) x->rebuilt = off / size;
        if (isnan(off)) x->rebuilt = off;
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}
