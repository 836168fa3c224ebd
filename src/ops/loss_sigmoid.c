#include "ops/loss_sigmoid.h"

#include "base/par.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_mat logits, dlogits;
    const int64_t *at;
    const int32_t *labels;
    const real *weight;
    real smoothing, scale;
    real *loss;
    int64_t grain;
} job;

static void loss_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->logits.rows, j->grain, chunk);
    j->kernels->sigmoid_loss(r.to - r.from, j->logits.cols, j->logits.p + r.from * j->logits.ld, j->logits.ld, j->at + r.from, j->labels, j->weight,
                             j->smoothing, j->scale, j->loss + r.from, j->dlogits.p ? j->dlogits.p + r.from * j->dlogits.ld : NULL, j->dlogits.ld);
}

static qkv_status check_labels(qkv_exec *x, int64_t rows, int64_t classes, const int64_t *at, const int32_t *labels) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = at[r]; i < at[r + 1]; i++) {
            if (labels[i] < 0 || labels[i] >= classes)
                return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "row %lld has label %d; there are %lld classes", (long long)r,
                                (int)labels[i], (long long)classes);
            if (i > at[r] && labels[i] <= labels[i - 1])
                return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "row %lld has label %d behind label %d", (long long)r, (int)labels[i],
                                (int)labels[i - 1]);
        }
    return QKV_OK;
}

qkv_status qkv_sigmoid_loss(qkv_exec *x, qkv_mat logits, const int64_t *at, const int32_t *labels, const real *weight,
                            double smoothing, double scale, real *loss, qkv_mat dlogits) {
    QKV_TRY(qkv_exec_shape(x, "logits", logits, logits.rows, logits.cols));
    if (dlogits.p) QKV_TRY(qkv_exec_shape(x, "gradient of the logits", dlogits, logits.rows, logits.cols));
    if (logits.cols < 1 || !(smoothing >= 0 && smoothing <= 1))
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "binary cross-entropy over %lld classes with label smoothing %g",
                        (long long)logits.cols, smoothing);
    double elements = (double)logits.rows * (double)logits.cols;
    qkv_exec_other(x, QKV_WORK_LOSS, 12 * elements, 2 * elements * sizeof(real));
    if (x->plan) return QKV_OK;
    QKV_TRY(check_labels(x, logits.rows, logits.cols, at, labels));
    job j = {x->ctx->kernels, logits, dlogits, at, labels, weight, (real)smoothing, (real)scale, loss, qkv_row_grain(logits.cols)};
    qkv_par(x->ctx, qkv_chunks(logits.rows, j.grain), loss_chunk, &j);
    return QKV_OK;
}

/* A batch has few rows and this is a small part of a step: no chunks. */
qkv_status qkv_loss_weigh(qkv_exec *x, const int32_t *target, const real *weight, real *loss, qkv_mat dlogits) {
    double elements = (double)dlogits.rows * (double)dlogits.cols;
    qkv_exec_other(x, QKV_WORK_LOSS, elements, 2 * elements * sizeof(real));
    if (x->plan) return QKV_OK;
    for (int64_t r = 0; r < dlogits.rows; r++) {
        real w = weight[target[r]], *d = dlogits.p + r * dlogits.ld;
        x->ctx->kernels->axpby(1, dlogits.cols, w, d, dlogits.ld, 0, d, dlogits.ld);
        loss[r] *= w;
    }
    return QKV_OK;
}
