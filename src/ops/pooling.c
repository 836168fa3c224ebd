#include "ops/pooling.h"

#include <string.h>

#include "base/par.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_pool kind;
    const qkv_batch *batch;
    qkv_mat rows, pooled;
    int32_t *which;
    int64_t grain;
} job;

static qkv_status check(const qkv_exec *x, qkv_pool kind, const qkv_batch *batch, qkv_mat rows, qkv_mat pooled, const int32_t *which) {
    int64_t n = batch->n_seq > 0 ? batch->offset[batch->n_seq] : 0;
    QKV_TRY(qkv_exec_shape(x, "rows to pool", rows, n, rows.cols));
    QKV_TRY(qkv_exec_shape(x, "pooled rows", pooled, batch->n_seq, rows.cols));
    if (kind == QKV_POOL_OP_MAX && !which && !x->plan && batch->n_seq > 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "max pooling without a place for its choices");
    if (kind == QKV_POOL_OP_ENDS && rows.cols % 2 != 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "both ends of rows of %lld columns", (long long)rows.cols);
    return QKV_OK;
}

/* Sequences a chunk: about 32,768 elements of an average sequence. */
static int64_t grain(const qkv_batch *batch, qkv_mat rows) {
    int64_t average = batch->n_seq > 0 ? rows.rows * rows.cols / batch->n_seq : 0;
    int64_t g = 32768 / (average > 0 ? average : 1);
    return g > 1 ? g : 1;
}

static void zero_rows(qkv_mat m, int64_t from, int64_t to) {
    for (int64_t r = from; r < to; r++) memset(m.p + r * m.ld, 0, (size_t)m.cols * sizeof(real));
}

/* The row of a sequence of n rows whose columns from `c` on a kind takes as they are, up to *end; -1: it takes no row so. */
static int64_t row_taken(qkv_pool kind, int64_t n, int64_t c, int64_t cols, int64_t *end) {
    *end = kind == QKV_POOL_OP_ENDS && c < cols / 2 ? cols / 2 : cols;
    switch (kind) {
    case QKV_POOL_OP_FIRST: return 0;
    case QKV_POOL_OP_LAST: return n - 1;
    case QKV_POOL_OP_ENDS: return c < cols / 2 ? n - 1 : 0;
    default: return -1;
    }
}

static void forward_one(const job *j, int64_t s) {
    int64_t first = j->batch->offset[s], n = j->batch->offset[s + 1] - first, cols = j->rows.cols;
    const real *in = j->rows.p + first * j->rows.ld;
    real *out = j->pooled.p + s * j->pooled.ld;
    if (n == 0 || j->kind == QKV_POOL_OP_MEAN) zero_rows(j->pooled, s, s + 1);
    if (n == 0) {
        if (j->which) memset(j->which + s * cols, 0, (size_t)cols * sizeof(int32_t));
        return;
    }
    switch (j->kind) {
    case QKV_POOL_OP_MEAN:
        j->kernels->column_sum(n, 0, cols, in, j->rows.ld, out);
        j->kernels->axpby(1, cols, (real)(1.0 / (double)n), out, cols, 0, out, cols);
        break;
    case QKV_POOL_OP_MAX: j->kernels->column_max(n, cols, in, j->rows.ld, out, j->which + s * cols); break;
    default:
        for (int64_t c = 0, end; c < cols; c = end) {
            const int64_t row = row_taken(j->kind, n, c, cols, &end);
            memcpy(out + c, in + row * j->rows.ld + c, (size_t)(end - c) * sizeof(real));
        }
    }
}

static void forward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->batch->n_seq, j->grain, chunk);
    for (int64_t s = r.from; s < r.to; s++) forward_one(j, s);
}

qkv_status qkv_pool_forward(qkv_exec *x, qkv_pool kind, const qkv_batch *batch, qkv_mat in, qkv_mat out, int32_t *which) {
    QKV_TRY(check(x, kind, batch, in, out, which));
    double elements = (double)in.rows * (double)in.cols, pooled = (double)out.rows * (double)out.cols;
    const bool taken = kind != QKV_POOL_OP_MEAN && kind != QKV_POOL_OP_MAX;
    qkv_exec_other(x, QKV_WORK_POOLING, taken ? 0 : elements + (kind == QKV_POOL_OP_MEAN ? pooled : 0),
                   ((taken ? pooled : elements) + pooled) * sizeof(real));
    if (x->plan) return QKV_OK;
    job j = {x->ctx->kernels, kind, batch, in, out, which, grain(batch, in)};
    qkv_par(x->ctx, qkv_chunks(batch->n_seq, j.grain), forward_chunk, &j);
    return QKV_OK;
}

static void backward_one(const job *j, int64_t s) {
    int64_t first = j->batch->offset[s], n = j->batch->offset[s + 1] - first, cols = j->rows.cols;
    const real *dout = j->pooled.p + s * j->pooled.ld;
    real *din = j->rows.p + first * j->rows.ld;
    if (n == 0) return;
    if (j->kind == QKV_POOL_OP_MEAN) {
        /* a stride of 0 gives every row the same gradient */
        j->kernels->axpby(n, cols, (real)(1.0 / (double)n), dout, 0, 0, din, j->rows.ld);
        return;
    }
    zero_rows(j->rows, first, first + n);
    if (j->kind == QKV_POOL_OP_MAX)
        for (int64_t c = 0; c < cols; c++) din[j->which[s * cols + c] * j->rows.ld + c] = dout[c];
    else
        for (int64_t c = 0, end; c < cols; c = end) {
            const int64_t row = row_taken(j->kind, n, c, cols, &end);
            memcpy(din + row * j->rows.ld + c, dout + c, (size_t)(end - c) * sizeof(real));
        }
}

static void backward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->batch->n_seq, j->grain, chunk);
    for (int64_t s = r.from; s < r.to; s++) backward_one(j, s);
}

qkv_status qkv_pool_backward(qkv_exec *x, qkv_pool kind, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const int32_t *which) {
    QKV_TRY(check(x, kind, batch, din, dout, which));
    double elements = (double)din.rows * (double)din.cols, pooled = (double)dout.rows * (double)dout.cols;
    qkv_exec_other(x, QKV_WORK_POOLING, kind == QKV_POOL_OP_MEAN ? elements : 0, (elements + pooled) * sizeof(real));
    if (x->plan) return QKV_OK;
    job j = {x->ctx->kernels, kind, batch, din, dout, (int32_t *)which, grain(batch, din)};
    qkv_par(x->ctx, qkv_chunks(batch->n_seq, j.grain), backward_chunk, &j);
    return QKV_OK;
}
