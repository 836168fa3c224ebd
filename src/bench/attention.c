/* Attention alone: q, k and v are column ranges of one fused buffer, as in an attention layer. */
#include "bench/job.h"

#include <math.h>
#include <string.h>

#include "ops/attention.h"
#include "ops/position.h"

typedef struct attend {
    qkv_batch batch;
    qkv_attention_shape shape;
    qkv_heads q, k, v, o, d_o, dq, dk, dv;
    real *lse;
} attend;

static bool is(const qkv_bench_case *c, const char *variant) {
    return strcmp(c->variant, variant) == 0;
}

static qkv_status slopes(qkv_bench_job *job, attend *a) {
    float *slope;
    QKV_TRY(qkv_bench_array(job, job->c->heads, sizeof *slope, &slope));
    qkv_alibi_slopes(job->c->heads, slope);
    a->shape.alibi = slope;
    return QKV_OK;
}

/* In a plan there is no memory; what the op asks is whether there would be. */
static real *said(const qkv_bench_job *job, real *p) {
    static const real there = 0;
    return job->plan ? (real *)(uintptr_t)&there : p;
}

/* A learned bias by distance, as T5 has it. */
static qkv_status biases(qkv_bench_job *job, attend *a, bool backward) {
    enum { REACH = 128 };
    qkv_mat bias, grad;
    a->shape.bias_reach = REACH;
    QKV_TRY(qkv_bench_mat(job, job->c->heads, 2 * REACH + 1, QKV_BENCH_RANDOM, &bias));
    a->shape.bias = said(job, bias.p);
    if (!backward) return QKV_OK;
    QKV_TRY(qkv_bench_mat(job, job->c->heads, 2 * REACH + 1, QKV_BENCH_ZERO, &grad));
    a->shape.bias_grad = said(job, grad.p);
    return QKV_OK;
}

/* Vectors by distance beside keys and values (Shaw et al. 2018). */
static qkv_status vectors(qkv_bench_job *job, attend *a, bool backward) {
    enum { REACH = 16, COUNT = 2 * REACH + 1 };
    qkv_attention_shape *s = &a->shape;
    qkv_mat keys, values;
    s->shaw_reach = REACH;
    QKV_TRY(qkv_bench_mat(job, COUNT, s->dim, QKV_BENCH_RANDOM, &keys));
    QKV_TRY(qkv_bench_mat(job, COUNT, s->value_dim, QKV_BENCH_RANDOM, &values));
    s->shaw_keys = said(job, keys.p);
    s->shaw_values = said(job, values.p);
    if (!backward) return QKV_OK;
    QKV_TRY(qkv_bench_mat(job, COUNT, s->dim, QKV_BENCH_ZERO, &keys));
    QKV_TRY(qkv_bench_mat(job, COUNT, s->value_dim, QKV_BENCH_ZERO, &values));
    s->shaw_dkeys = said(job, keys.p);
    s->shaw_dvalues = said(job, values.p);
    return QKV_OK;
}

/* Queries and keys are turned as they are read (Su et al. 2021). */
static qkv_status rotations(qkv_bench_job *job, attend *a) {
    int64_t n = job->c->n, half = job->c->dim / 2;
    qkv_mat c, s;
    QKV_TRY(qkv_bench_mat(job, n, half, QKV_BENCH_ZERO, &c));
    QKV_TRY(qkv_bench_mat(job, n, half, QKV_BENCH_ZERO, &s));
    for (int64_t p = 0; !job->plan && p < n; p++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)p * pow(10000, -(double)i / (double)half);
            c.p[p * half + i] = (real)cos(angle);
            s.p[p * half + i] = (real)sin(angle);
        }
    a->shape.rope_cos = said(job, c.p);
    a->shape.rope_sin = said(job, s.p);
    a->shape.rope_dim = 2 * half;
    return QKV_OK;
}

static qkv_status describe(qkv_bench_job *job, attend *a) {
    const qkv_bench_case *c = job->c;
    QKV_TRY(qkv_bench_batch(job, &a->batch));
    a->shape = (qkv_attention_shape){.sequences = a->batch.n_seq,
                                     .q_offset = a->batch.offset,
                                     .k_offset = a->batch.offset,
                                     .heads = c->heads,
                                     .kv_heads = c->kv_heads > 0 ? c->kv_heads : c->heads,
                                     .dim = c->dim,
                                     .value_dim = c->value_dim > 0 ? c->value_dim : c->dim,
                                     .scale = (real)(1 / sqrt((double)c->dim)),
                                     .left = c->window.left,
                                     .right = c->window.right};
    if (c->dropout > 0) a->shape.dropout = (qkv_dropout){.p = (real)c->dropout, .key = 13, .row_key = a->batch.row_key};
    if (is(c, "softcap")) a->shape.softcap = 30;
    a->shape.pattern = (qkv_pattern){.global_first = c->global_first,
                                     .global_every = c->global_every,
                                     .random_blocks = c->random_blocks,
                                     .block = c->block,
                                     .dilation = is(c, "dilated") ? 2 : 0};
    qkv_status status = QKV_OK;
    if (is(c, "bias")) status = biases(job, a, strcmp(c->name, "attention.backward") == 0);
    if (is(c, "shaw")) status = vectors(job, a, strcmp(c->name, "attention.backward") == 0);
    if (is(c, "rope")) status = rotations(job, a);
    if (is(c, "alibi")) status = slopes(job, a);
    if (strcmp(c->name, "attention.decode") == 0) a->shape.q_offset = NULL;
    job->x.bf16 = qkv_attend_takes_bf16(&job->x, &a->shape);
    return status;
}

/* The three column ranges of a fused matrix of `rows` rows. */
static qkv_status fused(qkv_bench_job *job, const attend *a, int64_t rows, qkv_bench_fill fill, qkv_heads *q, qkv_heads *k,
                        qkv_heads *v) {
    const qkv_attention_shape *s = &a->shape;
    int64_t queries = s->heads * s->dim, keys = s->kv_heads * s->dim, values = s->kv_heads * s->value_dim;
    qkv_mat m;
    QKV_TRY(qkv_bench_mat(job, rows, queries + keys + values, fill, &m));
    *q = qkv_heads_of(qkv_mat_cols(m, 0, queries), s->dim);
    *k = qkv_heads_of(qkv_mat_cols(m, queries, keys), s->dim);
    *v = qkv_heads_of(qkv_mat_cols(m, queries + keys, values), s->value_dim);
    return QKV_OK;
}

static qkv_status one(qkv_bench_job *job, const attend *a, int64_t rows, qkv_bench_fill fill, qkv_heads *h) {
    qkv_mat m;
    QKV_TRY(qkv_bench_mat(job, rows, a->shape.heads * a->shape.value_dim, fill, &m));
    *h = qkv_heads_of(m, a->shape.value_dim);
    return QKV_OK;
}

/* Of the products. */
static double operations(const attend *a, bool backward) {
    const qkv_attention_shape *s = &a->shape;
    const double d = (double)s->dim, dv = (double)s->value_dim;
    double pairs = 0;
    for (int64_t i = 0; i < s->sequences; i++) {
        const qkv_seen seen = qkv_attention_seen(s, i);
        pairs += (double)qkv_pattern_pairs(&seen);
    }
    return pairs * (double)s->heads * (backward ? 2 * (3 * d + 2 * dv) : 2 * (d + dv));
}

static qkv_status make_forward(qkv_bench_job *job) {
    attend *a = job->self;
    qkv_mat lse;
    QKV_TRY(describe(job, a));
    int64_t rows = a->batch.offset[a->batch.n_seq];
    QKV_TRY(fused(job, a, rows, QKV_BENCH_RANDOM, &a->q, &a->k, &a->v));
    QKV_TRY(one(job, a, rows, QKV_BENCH_ZERO, &a->o));
    QKV_TRY(qkv_bench_mat(job, a->shape.heads, rows, QKV_BENCH_ZERO, &lse));
    a->lse = lse.p;
    job->written = (double)rows * (double)(a->shape.heads * (a->shape.value_dim + 1)) * sizeof(real);
    job->inside = operations(a, false);
    return QKV_OK;
}

static qkv_status forward(qkv_bench_job *job) {
    attend *a = job->self;
    return qkv_attend_forward(&job->x, &a->shape, a->q, a->k, a->v, a->o, a->lse);
}

/* With what a forward pass left: the true output and log-sum-exp. */
static qkv_status make_backward(qkv_bench_job *job) {
    attend *a = job->self;
    QKV_TRY(make_forward(job));
    const qkv_attention_shape *s = &a->shape;
    int64_t rows = a->batch.offset[a->batch.n_seq];
    QKV_TRY(one(job, a, rows, QKV_BENCH_RANDOM, &a->d_o));
    QKV_TRY(fused(job, a, rows, QKV_BENCH_ZERO, &a->dq, &a->dk, &a->dv));
    job->written = (double)rows * (double)(s->heads * s->dim + s->kv_heads * (s->dim + s->value_dim)) * sizeof(real);
    job->inside = operations(a, true);
    if (job->plan) return QKV_OK;
    qkv_exec plan = job->x, run = job->x;
    plan.plan = true;
    QKV_TRY(qkv_attend_forward(&plan, s, a->q, a->k, a->v, a->o, a->lse));
    QKV_TRY(qkv_arena_create(job->ctx, plan.arena.peak, &run.arena));
    qkv_status status = qkv_attend_forward(&run, s, a->q, a->k, a->v, a->o, a->lse);
    qkv_arena_free(job->ctx, &run.arena);
    return status;
}

static qkv_status backward(qkv_bench_job *job) {
    attend *a = job->self;
    return qkv_attend_backward(&job->x, &a->shape, a->q, a->k, a->v, a->o, a->lse, a->d_o, a->dq, a->dk, a->dv);
}

/* Keys and values of `rows` rows: of all heads side by side, or all rows of a head one after another. */
static qkv_status cache(qkv_bench_job *job, attend *a, int64_t rows) {
    const int64_t d = a->shape.dim, dv = a->shape.value_dim, keys = a->shape.kv_heads * d, values = a->shape.kv_heads * dv;
    qkv_mat kv;
    QKV_TRY(qkv_bench_mat(job, rows, keys + values, QKV_BENCH_RANDOM, &kv));
    job->own = kv.p;
    job->own_count = rows * (keys + values);
    a->k = qkv_heads_of(qkv_mat_cols(kv, 0, keys), d);
    a->v = qkv_heads_of(qkv_mat_cols(kv, keys, values), dv);
    if (job->c->layout != QKV_BENCH_HEADS) return QKV_OK;
    a->k = (qkv_heads){kv.p, d, rows * d};
    a->v = (qkv_heads){kv.p ? kv.p + rows * keys : NULL, dv, rows * dv};
    return QKV_OK;
}

/* One query a sequence against the keys and values of n rows before it. */
static qkv_status make_decode(qkv_bench_job *job) {
    attend *a = job->self;
    QKV_TRY(describe(job, a));
    int64_t rows = a->batch.offset[a->batch.n_seq];
    qkv_mat q;
    QKV_TRY(cache(job, a, rows));
    QKV_TRY(qkv_bench_mat(job, a->batch.n_seq, a->shape.heads * a->shape.dim, QKV_BENCH_RANDOM, &q));
    a->q = qkv_heads_of(q, a->shape.dim);
    QKV_TRY(one(job, a, a->batch.n_seq, QKV_BENCH_ZERO, &a->o));
    job->written = (double)a->batch.n_seq * (double)(a->shape.heads * a->shape.value_dim) * sizeof(real);
    job->items = (double)a->batch.n_seq;
    job->inside = (double)rows * (double)(a->shape.heads * 2 * (a->shape.dim + a->shape.value_dim));
    return QKV_OK;
}

static const qkv_bench_kind FORWARD = {"attention.forward", sizeof(attend), make_forward, forward, NULL, NULL};
static const qkv_bench_kind BACKWARD = {"attention.backward", sizeof(attend), make_backward, backward, NULL, NULL};
static const qkv_bench_kind DECODE = {"attention.decode", sizeof(attend), make_decode, forward, NULL, NULL};
const qkv_bench_kind *const qkv_bench_attention_kinds[] = {&FORWARD, &BACKWARD, &DECODE, NULL};
