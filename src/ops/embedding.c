#include "ops/embedding.h"

#include "base/par.h"
#include "ops/around.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_mat table, rows; /* rows: out or dout */
    const int32_t *ids;
    real scale;
    int64_t grain;
    int32_t parts; /* of the table, by the rows' numbers: each adds its own in order */
    bool around;
} job;

qkv_mat qkv_embedding_table(const qkv_exec *x, int64_t param) {
    const qkv_param *p = &x->reg->params[param];
    return (qkv_mat){(real *)qkv_weight(x, param), p->rows, p->cols, p->cols};
}

qkv_mat qkv_embedding_grad(const qkv_exec *x, int64_t param) {
    const qkv_param *p = &x->reg->params[param];
    return (qkv_mat){qkv_grad(x, param), p->rows, p->cols, p->cols};
}

static void gather_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->rows.rows, j->grain, chunk);
    j->kernels->gather(r.to - r.from, j->rows.cols, j->table.p, j->table.ld, j->ids + r.from, j->scale, j->rows.p + r.from * j->rows.ld,
                       j->rows.ld, j->around);
}

static qkv_status check(const qkv_exec *x, const char *what, qkv_mat table, const int32_t *ids, qkv_mat rows) {
    QKV_TRY(qkv_exec_shape(x, what, table, table.rows, rows.cols));
    QKV_TRY(qkv_exec_shape(x, "rows of a table", rows, rows.rows, table.cols));
    if (x->plan) return QKV_OK;
    if (!ids && rows.rows > 0) return qkv_fail(x->ctx, QKV_INTERNAL, "%s: no row numbers", what);
    for (int64_t r = 0; r < rows.rows; r++)
        if (ids[r] < 0 || ids[r] >= table.rows)
            return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "%s: row %lld asks for entry %d of 0..%lld", what, (long long)r, (int)ids[r],
                            (long long)table.rows - 1);
    return QKV_OK;
}

qkv_status qkv_embedding_forward(qkv_exec *x, const char *what, qkv_mat table, const int32_t *ids, double scale, qkv_mat out) {
    QKV_TRY(check(x, what, table, ids, out));
    double elements = (double)out.rows * (double)out.cols;
    qkv_exec_other(x, QKV_WORK_EMBEDDING, scale != 1 ? elements : 0, 2 * elements * sizeof(real));
    if (x->plan || out.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .table = table, .rows = out, .ids = ids, .scale = (real)scale,
             .grain = qkv_row_grain(out.cols), .around = qkv_around(out, NULL, NULL)};
    qkv_par(x->ctx, qkv_chunks(out.rows, j.grain), gather_chunk, &j);
    return QKV_OK;
}

/* Every part looks at all numbers. */
enum { MOST_PARTS = 8 };

static void scatter_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    j->kernels->scatter_add(j->rows.rows, j->rows.cols, (int32_t)chunk, j->parts, j->ids, j->scale, j->rows.p, j->rows.ld, j->table.p,
                            j->table.ld);
}

qkv_status qkv_embedding_backward(qkv_exec *x, qkv_mat dtable, const int32_t *ids, double scale, qkv_mat dout) {
    QKV_TRY(check(x, "gradient of a table", dtable, ids, dout));
    double elements = (double)dout.rows * (double)dout.cols;
    qkv_exec_other(x, QKV_WORK_EMBEDDING, elements * (scale != 1 ? 2 : 1), 3 * elements * sizeof(real));
    if (x->plan || dout.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .table = dtable, .rows = dout, .ids = ids, .scale = (real)scale, .parts = 1};
    while (j.parts < MOST_PARTS && elements >= 65536.0 * j.parts) j.parts *= 2;
    qkv_par(x->ctx, j.parts, scatter_chunk, &j);
    return QKV_OK;
}
