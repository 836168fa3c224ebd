#include "ops/linear.h"

#include "base/par.h"
#include "kernels/cost.h"
#include "ops/split.h"

/* ---- packing ---- */

typedef struct pack_job {
    const qkv_kernels *kernels;
    int64_t k, n, grain;
    const real *b;
    int64_t b_row, b_col;
    real *packed;
} pack_job;

static void pack_chunk(void *arg, int64_t chunk, int thread) {
    const pack_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->n, j->grain, chunk);
    j->kernels->gemm_pack(j->k, j->n, r.from, r.to, j->b, j->b_row, j->b_col, j->packed);
}

static void pack(const qkv_ctx *ctx, int64_t k, int64_t n, const real *b, int64_t b_row, int64_t b_col, real *packed) {
    pack_job j = {ctx->kernels, k, n, qkv_col_grain(k), b, b_row, b_col, packed};
    qkv_par(ctx, qkv_chunks(n, j.grain), pack_chunk, &j);
}

void qkv_linear_pack(const qkv_ctx *ctx, const real *weight, int64_t out, int64_t in, real *packed) {
    pack(ctx, in, out, weight, 1, in, packed);
}

/* ---- product ---- */

typedef struct gemm_job {
    const qkv_kernels *kernels;
    qkv_gemm g;      /* the whole product */
    int64_t n;       /* its columns */
    int64_t bm, bn;  /* rows and columns of a chunk */
    int64_t columns; /* chunks side by side */
} gemm_job;

static void gemm_chunk(void *arg, int64_t chunk, int thread) {
    const gemm_job *j = arg;
    (void)thread;
    qkv_range rows = qkv_chunk_range(j->g.m, j->bm, chunk / j->columns);
    qkv_range cols = qkv_chunk_range(j->n, j->bn, chunk % j->columns);
    qkv_gemm g = j->g;
    g.m = rows.to - rows.from;
    g.n0 = cols.from;
    g.n1 = cols.to;
    g.a += rows.from * g.a_row;
    g.c += rows.from * g.ldc;
    j->kernels->gemm(&g);
}

/* Width of n columns cut into that many blocks, in whole panels. */
static int64_t even_columns(int64_t n, int64_t blocks) { return qkv_chunks(qkv_chunks(n, blocks), QKV_PANEL) * QKV_PANEL; }

/* Blocks of about 4 million multiply-adds, 96 rows high unless that leaves too few of them to share out. A product below
 * SMALL stays whole, and no block is cut below half of it: waking a thread must cost less than it brings. Heights are
 * multiples of 12, so that register tiles of 4 and 6 rows come out even. */
static void gemm_blocks(gemm_job *j) {
    const double SMALL = 1e6, k = (double)(j->g.k > 0 ? j->g.k : 1);
    j->bm = j->g.m > 0 ? j->g.m : 1;
    j->bn = j->n > 0 ? (j->n + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL : QKV_PANEL;
    if ((double)j->g.m * (double)j->n * k >= SMALL) {
        double wide = 4e6 / (96 * k) / QKV_PANEL;
        int64_t bn = wide > 4 ? (wide < 64 ? (int64_t)wide : 64) * QKV_PANEL : 4 * QKV_PANEL;
        j->bm = 96;
        if (bn < j->bn) j->bn = even_columns(j->n, qkv_chunks(j->n, bn));
        while (j->bm > 12 && qkv_chunks(j->g.m, j->bm) * qkv_chunks(j->n, j->bn) < 16 && (double)(j->bm * j->bn) * k > SMALL)
            j->bm = j->bm > 24 ? j->bm / 2 : 12;
        while (j->bn > 4 * QKV_PANEL && qkv_chunks(j->g.m, j->bm) * qkv_chunks(j->n, j->bn) < 8 && (double)(j->bm * j->bn) * k > SMALL)
            j->bn = (j->bn / 2 + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL;
    }
    j->columns = qkv_chunks(j->n, j->bn);
}

static void product(const qkv_exec *x, const qkv_gemm *g, int64_t n) {
    gemm_job j = {x->ctx->kernels, *g, n, 0, 0, 0};
    gemm_blocks(&j);
    qkv_par(x->ctx, qkv_chunks(g->m, j.bm) * j.columns, gemm_chunk, &j);
}

static void book(qkv_exec *x, int64_t m, int64_t n, int64_t k, bool read_c) {
    double elements = (double)m * (double)k + (double)k * (double)n + (double)m * (double)n * (read_c ? 2 : 1);
    qkv_exec_book(x, QKV_CLASS_GEMM, qkv_cost_gemm(m, n, k).flops, elements * sizeof(real));
}

/* ---- the op ---- */

static qkv_status check(const qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat out) {
    const qkv_param *w = &x->reg->params[l.weight];
    if (in.cols != w->cols || out.cols != w->rows || in.rows != out.rows)
        return qkv_fail(x->ctx, QKV_INTERNAL, "%s is %lld x %lld: cannot map %lld x %lld to %lld x %lld", w->name, (long long)w->rows,
                        (long long)w->cols, (long long)in.rows, (long long)in.cols, (long long)out.rows, (long long)out.cols);
    if (l.bias >= 0 && x->reg->params[l.bias].cols != w->rows)
        return qkv_fail(x->ctx, QKV_INTERNAL, "%s has %lld numbers, %s has %lld rows", x->reg->params[l.bias].name,
                        (long long)x->reg->params[l.bias].cols, w->name, (long long)w->rows);
    QKV_TRY(qkv_exec_shape(x, "input of a linear map", in, in.rows, w->cols));
    return qkv_exec_shape(x, "output of a linear map", out, in.rows, w->rows);
}

qkv_status qkv_linear_forward(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat out) {
    QKV_TRY(check(x, l, in, out));
    const qkv_param *w = &x->reg->params[l.weight];
    size_t mark = qkv_exec_mark(x);
    qkv_mat scratch = {0};
    bool frozen = x->packed && w->packed_offset >= 0;
    if (!frozen) QKV_TRY(qkv_temp(x, 1, qkv_packed_size(w->cols, w->rows), &scratch));
    book(x, in.rows, w->rows, w->cols, false);
    if (!x->plan && in.rows > 0) {
        const real *packed = frozen ? x->packed + w->packed_offset : scratch.p;
        if (!frozen) qkv_linear_pack(x->ctx, qkv_weight(x, l.weight), w->rows, w->cols, scratch.p);
        qkv_gemm g = {.m = in.rows, .k = w->cols, .a = in.p, .a_row = in.ld, .a_col = 1, .packed = packed, .c = out.p, .ldc = out.ld,
                      .bias = l.bias >= 0 ? qkv_weight(x, l.bias) : NULL};
        product(x, &g, w->rows);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* din = dout W */
static qkv_status backward_input(qkv_exec *x, const qkv_linear l, qkv_mat dout, qkv_mat din) {
    const qkv_param *w = &x->reg->params[l.weight];
    size_t mark = qkv_exec_mark(x);
    qkv_mat packed;
    QKV_TRY(qkv_temp(x, 1, qkv_packed_size(w->rows, w->cols), &packed));
    book(x, dout.rows, w->cols, w->rows, false);
    if (!x->plan && dout.rows > 0) {
        pack(x->ctx, w->rows, w->cols, qkv_weight(x, l.weight), w->cols, 1, packed.p);
        qkv_gemm g = {.m = dout.rows, .k = w->rows, .a = dout.p, .a_row = dout.ld, .a_col = 1, .packed = packed.p, .c = din.p, .ldc = din.ld};
        product(x, &g, w->cols);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* dW += dout' in: the rows of the batch are the chain, in order, so accumulated batches continue it. */
static qkv_status backward_weight(qkv_exec *x, const qkv_linear l, qkv_mat in, qkv_mat dout) {
    const qkv_param *w = &x->reg->params[l.weight];
    size_t mark = qkv_exec_mark(x);
    qkv_mat packed;
    QKV_TRY(qkv_temp(x, 1, qkv_packed_size(in.rows, w->cols), &packed));
    book(x, w->rows, w->cols, in.rows, true);
    if (!x->plan && in.rows > 0) {
        pack(x->ctx, in.rows, w->cols, in.p, in.ld, 1, packed.p);
        qkv_gemm g = {.m = w->rows, .k = in.rows, .a = dout.p, .a_row = 1, .a_col = dout.ld, .packed = packed.p,
                      .c = qkv_grad(x, l.weight), .ldc = w->cols, .accumulate = true};
        product(x, &g, w->cols);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

typedef struct sum_job {
    const qkv_kernels *kernels;
    qkv_mat rows;
    int64_t grain;
    real *sum;
} sum_job;

static void sum_chunk(void *arg, int64_t chunk, int thread) {
    const sum_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->rows.cols, j->grain, chunk);
    j->kernels->column_sum(j->rows.rows, r.from, r.to, j->rows.p, j->rows.ld, j->sum);
}

qkv_status qkv_column_sum(qkv_exec *x, qkv_mat rows, real *sum) {
    QKV_TRY(qkv_exec_shape(x, "rows to sum", rows, rows.rows, rows.cols));
    double elements = (double)rows.rows * (double)rows.cols;
    qkv_exec_book(x, QKV_CLASS_OTHER, elements, (elements + 2 * (double)rows.cols) * sizeof(real));
    if (x->plan || rows.rows == 0) return QKV_OK;
    sum_job j = {x->ctx->kernels, rows, qkv_col_grain(rows.rows), sum};
    qkv_par(x->ctx, qkv_chunks(rows.cols, j.grain), sum_chunk, &j);
    return QKV_OK;
}

qkv_status qkv_linear_backward(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat dout, const qkv_mat *din) {
    QKV_TRY(check(x, l, in, dout));
    if (din) {
        QKV_TRY(qkv_exec_shape(x, "input gradient of a linear map", *din, in.rows, in.cols));
        QKV_TRY(backward_input(x, l, dout, *din));
    }
    QKV_TRY(backward_weight(x, l, in, dout));
    return l.bias >= 0 ? qkv_column_sum(x, dout, qkv_grad(x, l.bias)) : QKV_OK;
}
