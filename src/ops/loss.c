#include "ops/loss.h"

#include "base/par.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_mat logits, dlogits;
    const int32_t *target;
    real smoothing, scale;
    real *loss;
    int64_t grain;
} job;

static void loss_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->logits.rows, j->grain, chunk);
    j->kernels->cross_entropy(r.to - r.from, j->logits.cols, j->logits.p + r.from * j->logits.ld, j->logits.ld, j->target + r.from,
                              j->smoothing, j->scale, j->loss + r.from, j->dlogits.p ? j->dlogits.p + r.from * j->dlogits.ld : NULL, j->dlogits.ld);
}

qkv_status qkv_cross_entropy(qkv_exec *x, qkv_mat logits, const int32_t *target, double smoothing, double scale, real *loss,
                             qkv_mat dlogits) {
    QKV_TRY(qkv_exec_shape(x, "logits", logits, logits.rows, logits.cols));
    if (dlogits.p) QKV_TRY(qkv_exec_shape(x, "gradient of the logits", dlogits, logits.rows, logits.cols));
    if (logits.cols < 1 || !(smoothing >= 0 && smoothing <= 1))
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "cross-entropy over %lld classes with label smoothing %g", (long long)logits.cols, smoothing);
    double elements = (double)logits.rows * (double)logits.cols;
    qkv_exec_other(x, QKV_WORK_LOSS, 8 * elements, 2 * elements * sizeof(real));
    if (x->plan) return QKV_OK;
    for (int64_t r = 0; r < logits.rows; r++)
        if (target[r] < 0 || target[r] >= logits.cols)
            return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "row %lld has target %d; there are %lld classes", (long long)r, (int)target[r],
                            (long long)logits.cols);
    job j = {x->ctx->kernels, logits, dlogits, target, (real)smoothing, (real)scale, loss, qkv_row_grain(logits.cols)};
    qkv_par(x->ctx, qkv_chunks(logits.rows, j.grain), loss_chunk, &j);
    return QKV_OK;
}

/* ---- probabilities ---- */

typedef void rows_kernel(int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy);

typedef struct map_job {
    rows_kernel *kernel;
    qkv_mat in, out;
    int64_t grain;
} map_job;

static void map_chunk(void *arg, int64_t chunk, int thread) {
    const map_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->in.rows, j->grain, chunk);
    j->kernel(r.to - r.from, j->in.cols, j->in.p + r.from * j->in.ld, j->in.ld, j->out.p + r.from * j->out.ld, j->out.ld);
}

static qkv_status map_rows(qkv_exec *x, rows_kernel *kernel, double flops, qkv_mat in, qkv_mat out) {
    QKV_TRY(qkv_exec_shape(x, "logits", in, in.rows, in.cols));
    QKV_TRY(qkv_exec_shape(x, "probabilities", out, in.rows, in.cols));
    double elements = (double)in.rows * (double)in.cols;
    qkv_exec_other(x, QKV_WORK_LOSS, flops * elements, 2 * elements * sizeof(real));
    if (x->plan || in.cols == 0) return QKV_OK;
    map_job j = {kernel, in, out, qkv_row_grain(in.cols)};
    qkv_par(x->ctx, qkv_chunks(in.rows, j.grain), map_chunk, &j);
    return QKV_OK;
}

qkv_status qkv_softmax(qkv_exec *x, qkv_mat in, qkv_mat out) { return map_rows(x, x->ctx->kernels->softmax_rows, 5, in, out); }

qkv_status qkv_sigmoid(qkv_exec *x, qkv_mat in, qkv_mat out) { return map_rows(x, x->ctx->kernels->sigmoid_rows, 4, in, out); }
