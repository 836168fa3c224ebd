#include "ops/optimizer.h"

#include <math.h>

#include "base/par.h"
#include "ops/split.h"

enum { UPDATE_GRAIN = 16384, NORM_GRAIN = 65536 };

typedef struct update_job {
    const qkv_kernels *kernels;
    const qkv_reg *reg;
    qkv_adamw base;
    const qkv_adamw_options *o;
    real *weights, *m, *v;
    const real *grads;
    real stay; /* of the average */
} update_job;

static int64_t size_of(const qkv_param *p) { return p->rows * p->cols; }

/* The last parameter that starts at or before `offset`. Parameters lie in ascending order. */
static int64_t param_at(const qkv_reg *reg, int64_t offset) {
    int64_t low = 0, high = reg->count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (reg->params[middle].offset <= offset) low = middle;
        else high = middle - 1;
    }
    return low;
}

/* Elements from..to-1 of the block, row by row. Whether a row is updated depends on all of it, also where the chunk holds a
 * part of the row. */
static void update_rows(const update_job *j, const qkv_param *p, int64_t from, int64_t to, const qkv_adamw *a) {
    for (int64_t r = (from - p->offset) / p->cols; p->offset + r * p->cols < to; r++) {
        int64_t first = p->offset + r * p->cols, last = first + p->cols;
        if (j->kernels->sum_squares(p->cols, j->grads + first) == 0) continue;
        if (first < from) first = from;
        if (last > to) last = to;
        j->kernels->adamw(last - first, j->weights + first, j->grads + first, j->m + first, j->v + first, a);
    }
}

/* A chunk is a range of the block; it meets parts of one or several parameters. */
static void update_chunk(void *arg, int64_t chunk, int thread) {
    const update_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->reg->size, UPDATE_GRAIN, chunk);
    for (int64_t i = param_at(j->reg, r.from); i < j->reg->count && j->reg->params[i].offset < r.to; i++) {
        const qkv_param *p = &j->reg->params[i];
        int64_t from = p->offset > r.from ? p->offset : r.from, end = p->offset + size_of(p);
        int64_t to = end < r.to ? end : r.to;
        if (from >= to) continue;
        qkv_adamw a = j->base;
        a.lr = (real)(p->embedding ? j->o->embedding_lr : j->o->lr);
        a.decay = p->decay ? a.decay : 0;
        if (p->embedding && j->o->lazy_embedding) update_rows(j, p, from, to, &a);
        else j->kernels->adamw(to - from, j->weights + from, j->grads + from, j->m + from, j->v + from, &a);
    }
    if (j->stay > 0) j->kernels->axpby(1, r.to - r.from, 1 - j->stay, j->weights + r.from, 0, j->stay, j->o->average + r.from, 0);
}

static void book(qkv_exec *x, double flops, double bytes) {
    const qkv_pass pass = x->pass;
    const qkv_place place = qkv_exec_at(x, (qkv_place){"optimizer", -1, QKV_WORK_OPTIMIZER});
    x->pass = QKV_PASS_OPTIMIZER;
    qkv_exec_other(x, QKV_WORK_OPTIMIZER, flops, bytes);
    x->pass = pass;
    x->place = place;
}

qkv_status qkv_adamw_update(qkv_exec *x, const qkv_adamw_options *o, real *weights, const real *grads, real *m, real *v) {
    if (o->step < 1) return qkv_fail(x->ctx, QKV_INTERNAL, "AdamW step %lld: steps count from 1", (long long)o->step);
    double elements = 0;
    for (int64_t i = 0; i < x->reg->count; i++) elements += (double)size_of(&x->reg->params[i]);
    book(x, 17 * elements, 7 * elements * sizeof(real));
    if (o->average_decay > 0) book(x, 3 * (double)x->reg->size, 2 * (double)x->reg->size * sizeof(real));
    if (x->plan || x->reg->count == 0) return QKV_OK;
    update_job j = {.kernels = x->ctx->kernels, .reg = x->reg, .o = o, .weights = weights, .m = m, .v = v, .grads = grads,
                    .stay = (real)o->average_decay};
    j.base = (qkv_adamw){.beta1 = (real)o->beta1, .beta2 = (real)o->beta2, .epsilon = (real)o->epsilon, .decay = (real)o->decay,
                         .correct1 = (real)(1 - pow(o->beta1, (double)o->step)), .correct2 = (real)(1 - pow(o->beta2, (double)o->step)),
                         .grad_scale = (real)o->grad_scale};
    qkv_par(x->ctx, qkv_chunks(x->reg->size, UPDATE_GRAIN), update_chunk, &j);
    return QKV_OK;
}

typedef struct norm_job {
    const qkv_kernels *kernels;
    const real *grads;
    int64_t size;
    double *partial;
} norm_job;

static void norm_chunk(void *arg, int64_t chunk, int thread) {
    const norm_job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->size, NORM_GRAIN, chunk);
    j->partial[chunk] = j->kernels->sum_squares(r.to - r.from, j->grads + r.from);
}

qkv_status qkv_gradient_norm(qkv_exec *x, const real *grads, double *norm) {
    size_t mark = qkv_exec_mark(x);
    double *partial;
    int64_t chunks = qkv_chunks(x->reg->size, NORM_GRAIN);
    QKV_TRY(qkv_temp_array(x, chunks, sizeof(double), &partial));
    book(x, 2 * (double)x->reg->size, (double)x->reg->size * sizeof(real));
    double sum = 0;
    if (!x->plan) {
        norm_job j = {x->ctx->kernels, grads, x->reg->size, partial};
        qkv_par(x->ctx, chunks, norm_chunk, &j);
        for (int64_t c = 0; c < chunks; c++) sum += partial[c];
    }
    *norm = sqrt(sum);
    qkv_exec_release(x, mark);
    return QKV_OK;
}
