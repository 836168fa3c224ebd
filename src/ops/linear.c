#include "ops/linear.h"

#include <string.h>

#include "base/par.h"
#include "kernels/bf16.h"
#include "kernels/cost.h"
#include "ops/activation.h"
#include "ops/residual.h"
#include "ops/split.h"

/* ---- packing ---- */

typedef struct pack_job {
    const qkv_kernels *kernels;
    const qkv_bf16_kernels *bf16; /* to pairs; NULL: to reals */
    int64_t k, n, grain;
    const real *b;
    int64_t b_row, b_col;
    real *packed;
} pack_job;

/* bf16 kernels read and write pairs where reals were allocated. */
static uint32_t *pairs_at(real *packed) { return (uint32_t *)(void *)packed; }
static const uint32_t *pairs_of(const real *packed) { return (const uint32_t *)(const void *)packed; }

static void pack_part(const pack_job *j, int64_t k0, int64_t k1, int64_t n0, int64_t n1) {
    if (j->bf16) j->bf16->gemm_pack(j->k, j->n, k0, k1, n0, n1, j->b, j->b_row, j->b_col, pairs_at(j->packed));
    else j->kernels->gemm_pack(j->k, j->n, k0, k1, n0, n1, j->b, j->b_row, j->b_col, j->packed);
}

static void pack_chunk(void *arg, int64_t chunk, int thread) {
    const pack_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->n, j->grain, chunk);
    pack_part(j, 0, j->k, r.from, r.to);
}

/* Rows that lie along the columns are long and far apart: chunks are then some rows of all columns. */
static void pack_rows_chunk(void *arg, int64_t chunk, int thread) {
    const pack_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->k, j->grain, chunk);
    pack_part(j, r.from, r.to, 0, j->n);
}

static void pack(const qkv_ctx *ctx, bool bf16, int64_t k, int64_t n, const real *b, int64_t b_row, int64_t b_col, real *packed) {
    pack_job j = {ctx->kernels, bf16 ? ctx->bf16 : NULL, k, n, qkv_col_grain(k), b, b_row, b_col, packed};
    if (b_col == 1) {
        j.grain = qkv_row_grain(n) > 16 ? qkv_row_grain(n) / 16 * 16 : 16; /* even: pairs are not cut */
        qkv_par(ctx, qkv_chunks(k, j.grain), pack_rows_chunk, &j);
        return;
    }
    qkv_par(ctx, qkv_chunks(n, j.grain), pack_chunk, &j);
}

int64_t qkv_linear_packed_size(bool bf16, int64_t out, int64_t in) {
    return bf16 ? qkv_bf16_packed_size(in, out) : qkv_packed_size(in, out);
}

void qkv_linear_pack(const qkv_ctx *ctx, bool bf16, const real *weight, int64_t out, int64_t in, real *packed) {
    pack(ctx, bf16, in, out, weight, 1, in, packed);
}

/* ---- product ---- */

typedef struct gemm_job {
    const qkv_kernels *kernels;
    const qkv_bf16_kernels *bf16; /* g.packed holds pairs; NULL: it does not */
    qkv_gemm g;      /* the whole product */
    int64_t n;       /* its columns */
    int64_t bm, bn;  /* rows and columns of a chunk */
    int64_t columns; /* chunks side by side */
    qkv_linear_then then;
} gemm_job;

static void then_block(const gemm_job *j, qkv_range rows, qkv_range cols) {
    const qkv_linear_then *t = &j->then;
    if (t->kind == QKV_THEN_NOTHING) return;
    const int64_t m = rows.to - rows.from, n = cols.to - cols.from, ldc = j->g.ldc, ld = t->other.ld;
    real *c = j->g.c + rows.from * ldc + cols.from, *other = t->other.p + rows.from * ld + cols.from;
    qkv_dropout d = t->dropout;
    switch (t->kind) {
    case QKV_THEN_NOTHING: break;
    case QKV_THEN_ACT: j->kernels->act_forward(t->act, false, m, n, c, ldc, other, ld, false); break;
    case QKV_THEN_SLOPE: j->kernels->act_backward(t->act, false, m, n, other, ld, c, ldc, c, ldc, false); break;
    case QKV_THEN_RESIDUAL:
        d.column = (uint32_t)cols.from;
        if (d.row_key) d.row_key += rows.from;
        j->kernels->dropout(m, n, other, ld, c, ldc, c, ldc, d, false);
        break;
    }
}

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
    if (j->bf16) j->bf16->gemm(&g, pairs_of(g.packed));
    else j->kernels->gemm(&g);
    then_block(j, rows, cols);
}

enum { STRIP = 4 * QKV_PANEL }; /* columns of a register tile */

/* Whole strips, in about equal blocks of at most `most` columns. */
static int64_t even_columns(int64_t n, int64_t most) {
    int64_t strips = qkv_chunks(n, STRIP), blocks = qkv_chunks(n, most);
    return qkv_chunks(strips, blocks > 0 ? blocks : 1) * STRIP;
}

/* Blocks of 96 rows by up to 512 columns, so that what is read of A is used often; smaller while there are too few of them to
 * share out evenly, but no block below half of SMALL: waking a thread must cost less than it brings, and where two cores share no
 * cache each line handed over costs as much as two thousand multiply-adds. So a product below SMALL is cut into two blocks of whole
 * rows at most, which stay where they are from one product to the next, and below TINY it stays whole. Few rows wait for their weights: they
 * are cut into two blocks of columns where these are large. Heights are multiples of 12, so that register tiles of 4 and 6 rows come out
 * even. */
static void gemm_blocks(gemm_job *j) {
    const double TINY = 1e6, SMALL = 4e6, k = (double)(j->g.k > 0 ? j->g.k : 1), work = (double)j->g.m * (double)j->n * k;
    const double LARGE = 5e5; /* weights */
    const int64_t MANY = 32, FEW = 24;
    j->bm = j->g.m > 0 ? j->g.m : 1;
    j->bn = j->n > 0 ? qkv_chunks(j->n, QKV_PANEL) * QKV_PANEL : QKV_PANEL;
    if (work >= TINY && work < SMALL && j->g.m >= FEW) j->bm = qkv_chunks(qkv_chunks(j->g.m, 2), 12) * 12;
    if (work < SMALL && j->g.m < FEW && (double)j->n * k >= LARGE) j->bn = even_columns(j->n, qkv_chunks(j->n, 2));
    if (work >= SMALL) {
        j->bm = 96;
        for (int64_t most = 512; most >= STRIP; most /= 2) {
            j->bn = even_columns(j->n, most);
            if (qkv_chunks(j->g.m, j->bm) * qkv_chunks(j->n, j->bn) >= MANY || (double)(j->bm * j->bn) * k <= SMALL) break;
        }
        while (j->bm > 12 && qkv_chunks(j->g.m, j->bm) * qkv_chunks(j->n, j->bn) < MANY / 2 && (double)(j->bm * j->bn) * k > SMALL)
            j->bm = j->bm > 24 ? j->bm / 2 : 12;
    }
    j->columns = qkv_chunks(j->n, j->bn);
}

static void product(const qkv_exec *x, const qkv_gemm *g, int64_t n, const qkv_linear_then *then) {
    gemm_job j = {.kernels = x->ctx->kernels, .bf16 = x->bf16 ? x->ctx->bf16 : NULL, .g = *g, .n = n};
    if (then) j.then = *then;
    gemm_blocks(&j);
    qkv_par(x->ctx, qkv_chunks(g->m, j.bm) * j.columns, gemm_chunk, &j);
}

/* `idle` of the k multiply-adds of an element have a factor that is known to be 0. */
static void book(qkv_exec *x, qkv_work work, int64_t m, int64_t n, int64_t k, int64_t idle, bool read_c) {
    const double elements = (double)m * (double)k + (double)k * (double)n + (double)m * (double)n * (read_c ? 2 : 1);
    const qkv_cost cost = qkv_cost_gemm(m, n, k);
    const double executed = x->bf16 ? qkv_executed_bf16_gemm(m, n, k) : cost.executed;
    const double flops = qkv_cost_gemm(m, n, k - idle).flops;
    qkv_exec_charge(x, QKV_CLASS_GEMM, work, (qkv_charge){flops / 2, flops, executed / 2, elements * sizeof(real)});
}

/* ---- what follows a product ---- */

static qkv_status check_then(const qkv_exec *x, const qkv_linear_then *t, qkv_mat out) {
    if (!t || t->kind == QKV_THEN_NOTHING) return QKV_OK;
    QKV_TRY(qkv_exec_shape(x, "second operand of what follows a linear map", t->other, out.rows, out.cols));
    return t->kind == QKV_THEN_RESIDUAL ? qkv_residual_check(x, t->dropout, out.rows) : QKV_OK;
}

/* The operations of the op alone; of its bytes, those that are not the product's own. */
static void book_then(qkv_exec *x, const qkv_linear_then *t, qkv_mat out) {
    if (!t || t->kind == QKV_THEN_NOTHING) return;
    const double elements = (double)out.rows * (double)out.cols;
    double flops = 1 + (t->dropout.p > 0);
    if (t->kind == QKV_THEN_ACT) flops = qkv_activation_flops(t->act, false);
    if (t->kind == QKV_THEN_SLOPE) flops = qkv_activation_flops(t->act, true) + 1;
    qkv_exec_other(x, t->kind == QKV_THEN_RESIDUAL ? QKV_WORK_RESIDUAL : QKV_WORK_ACTIVATION, elements * flops, elements * sizeof(real));
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

qkv_status qkv_linear_ready(qkv_exec *x, qkv_linear *l, bool backward) {
    const qkv_param *w = &x->reg->params[l->weight];
    qkv_mat forth, back;
    QKV_TRY(qkv_temp(x, 1, qkv_linear_packed_size(x->bf16, w->rows, w->cols), &forth));
    if (!x->plan) qkv_linear_pack(x->ctx, x->bf16, qkv_weight(x, l->weight), w->rows, w->cols, forth.p);
    l->ready = true;
    l->ready_forward = forth.p;
    if (!backward) return QKV_OK;
    QKV_TRY(qkv_temp(x, 1, qkv_linear_packed_size(x->bf16, w->cols, w->rows), &back));
    if (!x->plan) pack(x->ctx, x->bf16, w->rows, w->cols, qkv_weight(x, l->weight), w->cols, 1, back.p);
    l->ready_backward = back.p;
    return QKV_OK;
}

qkv_status qkv_linear_forward_then(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat out, const qkv_linear_then *then) {
    QKV_TRY(check(x, l, in, out));
    QKV_TRY(check_then(x, then, out));
    const qkv_param *w = &x->reg->params[l.weight];
    size_t mark = qkv_exec_mark(x);
    qkv_mat scratch = {0};
    bool frozen = x->packed && w->packed_offset >= 0;
    if (!frozen && !l.ready) QKV_TRY(qkv_temp(x, 1, qkv_linear_packed_size(x->bf16, w->rows, w->cols), &scratch));
    book(x, l.work, in.rows, w->rows, w->cols, 0, false);
    book_then(x, then, out);
    if (!x->plan && in.rows > 0) {
        const real *packed = frozen    ? x->packed + (x->bf16 ? w->pairs_offset : w->packed_offset)
                             : l.ready ? l.ready_forward
                                       : scratch.p;
        if (!frozen && !l.ready) qkv_linear_pack(x->ctx, x->bf16, qkv_weight(x, l.weight), w->rows, w->cols, scratch.p);
        qkv_gemm g = {.m = in.rows, .k = w->cols, .a = in.p, .a_row = in.ld, .a_col = 1, .packed = packed, .c = out.p, .ldc = out.ld,
                      .bias = l.bias >= 0 ? qkv_weight(x, l.bias) : NULL};
        product(x, &g, w->rows, then);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* din = dout W */
static qkv_status backward_input(qkv_exec *x, const qkv_linear l, qkv_mat dout, qkv_mat din, const qkv_linear_then *then) {
    const qkv_param *w = &x->reg->params[l.weight];
    size_t mark = qkv_exec_mark(x);
    qkv_mat scratch = {0};
    if (!l.ready) QKV_TRY(qkv_temp(x, 1, qkv_linear_packed_size(x->bf16, w->cols, w->rows), &scratch));
    book(x, l.work, dout.rows, w->cols, w->rows, 0, false);
    book_then(x, then, din);
    if (!x->plan && dout.rows > 0) {
        if (!l.ready) pack(x->ctx, x->bf16, w->rows, w->cols, qkv_weight(x, l.weight), w->cols, 1, scratch.p);
        qkv_gemm g = {.m = dout.rows, .k = w->rows, .a = dout.p, .a_row = dout.ld, .a_col = 1,
                      .packed = l.ready ? l.ready_backward : scratch.p, .c = din.p, .ldc = din.ld};
        product(x, &g, w->cols, then);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

typedef struct turn_job {
    const qkv_kernels *kernels;
    qkv_mat rows, to, sums; /* sums: a row a chunk; p NULL: none are wanted */
} turn_job;

enum { TURN_ROWS = 64 };

static void turn_chunk(void *arg, int64_t chunk, int thread) {
    const turn_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->rows.rows, TURN_ROWS, chunk);
    real *sums = j->sums.p ? j->sums.p + chunk * j->sums.ld : NULL;
    if (sums) memset(sums, 0, (size_t)j->sums.cols * sizeof(real));
    j->kernels->gemm_turn(r.to - r.from, j->rows.cols, j->rows.p + r.from * j->rows.ld, j->rows.ld, j->to.p + r.from, j->to.ld, sums);
}

/* Rows of a batch that are turned and packed at a time: what is made of them is read again before it leaves the cache. An odd
 * number of lines, so that neighbours in the other direction do not fall on each other in a cache. */
enum { WEIGHT_ROWS = 63 * QKV_PANEL };

/* At whole blocks of WEIGHT_ROWS, or within one at whole chunks of TURN_ROWS, where a sum of its own begins. */
int64_t qkv_linear_cut(int64_t from, int64_t most, int64_t rows) {
    const int64_t next = (from / WEIGHT_ROWS + 1) * WEIGHT_ROWS, chunks = most / TURN_ROWS > 0 ? most / TURN_ROWS : 1;
    int64_t to = from + chunks * TURN_ROWS;
    if (to > next) to = next + (most > next - from ? (most - (next - from)) / WEIGHT_ROWS * WEIGHT_ROWS : 0);
    return to < rows ? to : rows;
}

/* Some rows: dW += dout' in, and the sums of dout, chunk by chunk, to db. */
static void weight_part(qkv_exec *x, const qkv_linear l, qkv_mat in, qkv_mat dout, qkv_mat packed, qkv_mat turned, qkv_mat sums) {
    const qkv_param *w = &x->reg->params[l.weight];
    const int64_t chunks = qkv_chunks(dout.rows, TURN_ROWS);
    turn_job t = {x->ctx->kernels, dout, turned, sums};
    qkv_par(x->ctx, chunks, turn_chunk, &t);
    if (sums.p) t.kernels->column_sum(chunks, 0, sums.cols, sums.p, sums.ld, qkv_grad(x, l.bias));
    pack(x->ctx, x->bf16, in.rows, w->cols, in.p, in.ld, 1, packed.p);
    qkv_gemm g = {.m = w->rows, .k = in.rows, .a = turned.p, .a_row = turned.ld, .a_col = 1, .packed = packed.p,
                  .c = qkv_grad(x, l.weight), .ldc = w->cols, .accumulate = true};
    product(x, &g, w->cols, NULL);
}

/* dW += dout' in: the rows of the batch are the chain, in order, so accumulated batches continue it. db += the sum of the
 * rows of dout. */
static qkv_status backward_weight(qkv_exec *x, const qkv_linear l, qkv_mat in, qkv_mat dout) {
    const qkv_param *w = &x->reg->params[l.weight];
    const int64_t most = in.rows < WEIGHT_ROWS ? in.rows : WEIGHT_ROWS;
    size_t mark = qkv_exec_mark(x);
    qkv_mat packed, turned, sums = {0};
    QKV_TRY(qkv_temp(x, 1, qkv_linear_packed_size(x->bf16, w->cols, most), &packed));
    QKV_TRY(qkv_temp(x, w->rows, (qkv_chunks(most, QKV_PANEL) | 1) * QKV_PANEL, &turned));
    if (l.bias >= 0) QKV_TRY(qkv_temp(x, qkv_chunks(most, TURN_ROWS), w->rows, &sums));
    book(x, l.work, w->rows, w->cols, in.rows, l.idle, true);
    if (l.bias >= 0) qkv_exec_other(x, l.work, (double)dout.rows * (double)dout.cols, 2 * (double)dout.cols * sizeof(real));
    for (int64_t r = 0; !x->plan && r < in.rows; r += most) {
        const int64_t rows = in.rows - r < most ? in.rows - r : most;
        weight_part(x, l, qkv_mat_rows(in, r, rows), qkv_mat_rows(dout, r, rows), packed, turned, sums);
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

qkv_status qkv_column_sum(qkv_exec *x, qkv_work work, qkv_mat rows, real *sum) {
    QKV_TRY(qkv_exec_shape(x, "rows to sum", rows, rows.rows, rows.cols));
    double elements = (double)rows.rows * (double)rows.cols;
    qkv_exec_other(x, work, elements, (elements + 2 * (double)rows.cols) * sizeof(real));
    if (x->plan || rows.rows == 0) return QKV_OK;
    sum_job j = {x->ctx->kernels, rows, qkv_wide_grain(rows.rows), sum};
    qkv_par(x->ctx, qkv_chunks(rows.cols, j.grain), sum_chunk, &j);
    return QKV_OK;
}

qkv_status qkv_linear_backward_then(qkv_exec *x, qkv_linear l, qkv_mat in, qkv_mat dout, const qkv_mat *din,
                                    const qkv_linear_then *then) {
    QKV_TRY(check(x, l, in, dout));
    if (din) {
        QKV_TRY(qkv_exec_shape(x, "input gradient of a linear map", *din, in.rows, in.cols));
        QKV_TRY(check_then(x, then, *din));
        QKV_TRY(backward_input(x, l, dout, *din, then));
    }
    return backward_weight(x, l, in, dout);
}

qkv_status qkv_linear_backward_input(qkv_exec *x, qkv_linear l, qkv_mat dout, qkv_mat din) {
    QKV_TRY(check(x, l, din, dout));
    return backward_input(x, l, dout, din, NULL);
}
