/* Everything that is neither a product nor attention, against the bytes it must move. Rows are more than any cache holds. */
#include "bench/job.h"

#include <string.h>

#include "ops/activation.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/reg.h"
#include "ops/residual.h"

enum { VOCABULARY = 16000 };

typedef struct point {
    qkv_mat in, out, other, back; /* `other`: a second operand; `back`: what a backward pass writes */
    qkv_norm_op norm;
    qkv_norm_saved saved;
    int64_t table;
    int32_t *ids;
    qkv_batch batch;
    real *loss, *sum, *m, *v;
} point;

static qkv_status in_and_out(qkv_bench_job *job, point *p, int64_t in_cols, int64_t out_cols) {
    QKV_TRY(qkv_bench_mat(job, job->c->n, in_cols, QKV_BENCH_RANDOM, &p->in));
    QKV_TRY(qkv_bench_mat(job, job->c->n, out_cols, QKV_BENCH_RANDOM, &p->out));
    job->written = (double)job->c->n * (double)out_cols * sizeof(real);
    return QKV_OK;
}

/* `back` is written, `in` and `out` are read. */
static qkv_status with_back(qkv_bench_job *job, point *p, int64_t cols) {
    QKV_TRY(qkv_bench_mat(job, job->c->n, cols, QKV_BENCH_RANDOM, &p->back));
    job->written = (double)job->c->n * (double)cols * sizeof(real);
    return QKV_OK;
}

/* ---- norm ---- */

static qkv_status norm_make(qkv_bench_job *job) {
    point *p = job->self;
    p->norm = (qkv_norm_op){.bias = -1, .rms = strncmp(job->c->name, "pointwise.rms", 13) == 0, .epsilon = 1e-5};
    qkv_param_kind gain = {.value = 1, .vector = true}, bias = {.vector = true};
    QKV_TRY(qkv_reg_add(&job->reg, "", "gain", 1, job->c->dim, gain, &p->norm.gain));
    if (!p->norm.rms) QKV_TRY(qkv_reg_add(&job->reg, "", "bias", 1, job->c->dim, bias, &p->norm.bias));
    QKV_TRY(qkv_bench_weights(job, true));
    return in_and_out(job, p, job->c->dim, job->c->dim);
}

static qkv_status norm_pass(qkv_bench_job *job) {
    point *p = job->self;
    size_t mark = qkv_exec_mark(&job->x);
    qkv_norm_saved saved;
    QKV_TRY(qkv_norm_forward(&job->x, &p->norm, p->in, p->out, &saved));
    qkv_exec_release(&job->x, mark);
    return QKV_OK;
}

static qkv_status norm_backward_make(qkv_bench_job *job) {
    point *p = job->self;
    QKV_TRY(norm_make(job));
    QKV_TRY(qkv_bench_mat(job, job->c->n, 1, QKV_BENCH_ZERO, &p->saved.mean));
    QKV_TRY(qkv_bench_mat(job, job->c->n, 1, QKV_BENCH_ZERO, &p->saved.rstd));
    if (p->norm.rms) p->saved.mean.p = NULL;
    for (int64_t r = 0; p->saved.rstd.p && r < job->c->n; r++) p->saved.rstd.p[r] = 1; /* what rows of deviation 1 have */
    p->saved.in = p->in;
    return with_back(job, p, job->c->dim);
}

static qkv_status norm_backward_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_norm_backward(&job->x, &p->norm, p->out, p->back, &p->saved);
}

/* ---- activation ---- */

static bool gated(const qkv_bench_job *job) {
    return strncmp(job->c->name, "pointwise.swiglu", 16) == 0;
}
static qkv_act act(const qkv_bench_job *job) {
    return gated(job) ? QKV_KERNEL_SILU : QKV_KERNEL_GELU;
}

static qkv_status act_make(qkv_bench_job *job) {
    return in_and_out(job, job->self, job->c->dim * (gated(job) ? 2 : 1), job->c->dim);
}

static qkv_status act_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_activation_forward(&job->x, act(job), gated(job), p->in, p->out);
}

static qkv_status act_backward_make(qkv_bench_job *job) {
    QKV_TRY(act_make(job));
    return with_back(job, job->self, job->c->dim * (gated(job) ? 2 : 1));
}

static qkv_status act_backward_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_activation_backward(&job->x, act(job), gated(job), p->in, p->out, p->back);
}

/* ---- residual, with dropout or without ---- */

static qkv_status residual_make(qkv_bench_job *job) {
    point *p = job->self;
    qkv_bench_case rows = *job->c;
    const qkv_bench_case *before = job->c;
    rows.batch = 1;
    job->c = &rows;
    qkv_status status = qkv_bench_batch(job, &p->batch);
    job->c = before;
    QKV_TRY(status);
    QKV_TRY(qkv_bench_mat(job, job->c->n, job->c->dim, QKV_BENCH_RANDOM, &p->other));
    return in_and_out(job, p, job->c->dim, job->c->dim);
}

static qkv_status residual_pass(qkv_bench_job *job) {
    point *p = job->self;
    qkv_dropout d = {.p = (real)job->c->dropout, .key = 3, .row_key = p->batch.row_key};
    return qkv_residual(&job->x, &p->other, p->in, p->out, d);
}

/* ---- embedding ---- */

static qkv_status embedding_make(qkv_bench_job *job) {
    point *p = job->self;
    qkv_param_kind kind = {.std = 1, .embedding = true};
    QKV_TRY(qkv_reg_add(&job->reg, "", "table", VOCABULARY, job->c->dim, kind, &p->table));
    QKV_TRY(qkv_bench_weights(job, true));
    QKV_TRY(qkv_bench_array(job, job->c->n, sizeof *p->ids, &p->ids));
    for (int64_t i = 0; i < job->c->n; i++) p->ids[i] = (int32_t)qkv_below(qkv_key2(5, (uint64_t)i), VOCABULARY);
    QKV_TRY(qkv_bench_mat(job, job->c->n, job->c->dim, QKV_BENCH_RANDOM, &p->out));
    job->written = (double)job->c->n * (double)job->c->dim * sizeof(real);
    return QKV_OK;
}

/* The table's gradient is added to. */
static qkv_status embedding_backward_make(qkv_bench_job *job) {
    job->in_place = true;
    return embedding_make(job);
}

static qkv_status embedding_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_embedding_forward(&job->x, "row", qkv_embedding_table(&job->x, p->table), job->plan ? NULL : p->ids, 1, p->out);
}

static qkv_status embedding_backward_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_embedding_backward(&job->x, qkv_embedding_grad(&job->x, p->table), job->plan ? NULL : p->ids, 1, p->out);
}

/* ---- sums, loss ---- */

static qkv_status sum_make(qkv_bench_job *job) {
    point *p = job->self;
    qkv_mat sum;
    QKV_TRY(qkv_bench_mat(job, 1, job->c->dim, QKV_BENCH_ZERO, &sum));
    p->sum = sum.p;
    return qkv_bench_mat(job, job->c->n, job->c->dim, QKV_BENCH_RANDOM, &p->in);
}

static qkv_status sum_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_column_sum(&job->x, QKV_WORK_OTHER, p->in, p->sum);
}

static qkv_status loss_make(qkv_bench_job *job) {
    point *p = job->self;
    qkv_mat loss;
    QKV_TRY(in_and_out(job, p, job->c->dim, job->c->dim));
    QKV_TRY(qkv_bench_mat(job, job->c->n, 1, QKV_BENCH_ZERO, &loss));
    p->loss = loss.p;
    QKV_TRY(qkv_bench_array(job, job->c->n, sizeof *p->ids, &p->ids));
    for (int64_t i = 0; i < job->c->n; i++) p->ids[i] = (int32_t)qkv_below(qkv_key2(6, (uint64_t)i), (uint64_t)job->c->dim);
    return QKV_OK;
}

static qkv_status loss_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_cross_entropy(&job->x, p->in, job->plan ? NULL : p->ids, 0.1, 1, p->loss, p->out);
}

static qkv_status softmax_pass(qkv_bench_job *job) {
    point *p = job->self;
    return qkv_softmax(&job->x, p->in, p->out);
}

static qkv_status softmax_make(qkv_bench_job *job) {
    return in_and_out(job, job->self, job->c->dim, job->c->dim);
}

/* ---- optimizer ---- */

static qkv_status adamw_make(qkv_bench_job *job) {
    point *p = job->self;
    const qkv_bench_case *c = job->c;
    qkv_param_kind kind = {.std = 1, .decay = true};
    qkv_mat m, v;
    QKV_TRY(qkv_reg_add(&job->reg, "", "weight", c->n, c->dim, kind, &p->table));
    QKV_TRY(qkv_bench_weights(job, true));
    QKV_TRY(qkv_bench_mat(job, 1, job->reg.size, QKV_BENCH_ZERO, &m));
    QKV_TRY(qkv_bench_mat(job, 1, job->reg.size, QKV_BENCH_ZERO, &v));
    p->m = m.p;
    p->v = v.p;
    job->written = 3.0 * (double)job->reg.size * sizeof(real);
    job->in_place = true;
    return QKV_OK;
}

static qkv_status adamw_pass(qkv_bench_job *job) {
    point *p = job->self;
    qkv_adamw_options o = {
        .lr = 1e-4, .embedding_lr = 1e-4, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .decay = 0.01, .grad_scale = 1, .step = 1};
    return qkv_adamw_update(&job->x, &o, (real *)job->x.weights, job->x.grads, p->m, p->v);
}

static qkv_status gradient_norm_make(qkv_bench_job *job) {
    point *p = job->self;
    qkv_param_kind kind = {.std = 1};
    QKV_TRY(qkv_reg_add(&job->reg, "", "weight", job->c->n, job->c->dim, kind, &p->table));
    return qkv_bench_weights(job, true);
}

static qkv_status gradient_norm_pass(qkv_bench_job *job) {
    double norm;
    return qkv_gradient_norm(&job->x, job->x.grads, &norm);
}

#define KIND(id, name, make, pass) static const qkv_bench_kind id = {"pointwise." name, sizeof(point), make, pass, NULL, NULL};
KIND(NORM, "norm", norm_make, norm_pass)
KIND(NORM_BACKWARD, "norm-backward", norm_backward_make, norm_backward_pass)
KIND(RMS, "rms-norm", norm_make, norm_pass)
KIND(RMS_BACKWARD, "rms-norm-backward", norm_backward_make, norm_backward_pass)
KIND(GELU, "gelu", act_make, act_pass)
KIND(GELU_BACKWARD, "gelu-backward", act_backward_make, act_backward_pass)
KIND(SWIGLU, "swiglu", act_make, act_pass)
KIND(SWIGLU_BACKWARD, "swiglu-backward", act_backward_make, act_backward_pass)
KIND(RESIDUAL, "residual", residual_make, residual_pass)
KIND(EMBEDDING, "embedding", embedding_make, embedding_pass)
KIND(EMBEDDING_BACKWARD, "embedding-backward", embedding_backward_make, embedding_backward_pass)
KIND(COLUMN_SUM, "column-sum", sum_make, sum_pass)
KIND(LOSS, "loss", loss_make, loss_pass)
KIND(SOFTMAX, "softmax", softmax_make, softmax_pass)
KIND(GRADIENT_NORM, "gradient-norm", gradient_norm_make, gradient_norm_pass)
KIND(ADAMW, "adamw", adamw_make, adamw_pass)

const qkv_bench_kind *const qkv_bench_pointwise_kinds[] = {&NORM,
                                                           &NORM_BACKWARD,
                                                           &RMS,
                                                           &RMS_BACKWARD,
                                                           &GELU,
                                                           &GELU_BACKWARD,
                                                           &SWIGLU,
                                                           &SWIGLU_BACKWARD,
                                                           &RESIDUAL,
                                                           &EMBEDDING,
                                                           &EMBEDDING_BACKWARD,
                                                           &COLUMN_SUM,
                                                           &LOSS,
                                                           &SOFTMAX,
                                                           &GRADIENT_NORM,
                                                           &ADAMW,
                                                           NULL};
