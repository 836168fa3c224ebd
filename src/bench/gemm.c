/* Products of matrices, C[m,n] = A[m,k] B[k,n], as linear layers have them. */
#include "bench/job.h"

#include <string.h>

#include "ops/linear.h"
#include "ops/reg.h"

typedef struct product {
    qkv_linear linear;
    qkv_mat in, out, din;
} product;

static qkv_status weight(qkv_bench_job *job, product *p, int64_t rows, int64_t cols, bool gradient) {
    const qkv_param_kind kind = {.std = 0.05, .matrix = true};
    p->linear.bias = -1;
    QKV_TRY(qkv_reg_add(&job->reg, "", "weight", rows, cols, kind, &p->linear.weight));
    return qkv_bench_weights(job, gradient);
}

/* nt: out[m,n] = in[m,k] W', W [n,k], packed beforehand as in a frozen model, or in every pass. */
static qkv_status nt_make(qkv_bench_job *job) {
    product *p = job->self;
    const qkv_bench_case *c = job->c;
    QKV_TRY(weight(job, p, c->n, c->k, false));
    if (strcmp(c->variant, "packing included") != 0) QKV_TRY(qkv_bench_pack(job));
    QKV_TRY(qkv_bench_mat(job, c->m, c->k, QKV_BENCH_RANDOM, &p->in));
    QKV_TRY(qkv_bench_mat(job, c->m, c->n, QKV_BENCH_ZERO, &p->out));
    job->written = (double)c->m * (double)c->n * sizeof(real);
    return QKV_OK;
}

static qkv_status nt_pass(qkv_bench_job *job) {
    product *p = job->self;
    return qkv_linear_forward(&job->x, p->linear, p->in, p->out);
}

/* nn: the gradient of an input, din[m,n] = dout[m,k] W, W [k,n]. Packed in the first pass, which is not timed. */
static qkv_status nn_make(qkv_bench_job *job) {
    product *p = job->self;
    const qkv_bench_case *c = job->c;
    QKV_TRY(weight(job, p, c->k, c->n, false));
    QKV_TRY(qkv_bench_mat(job, c->m, c->k, QKV_BENCH_RANDOM, &p->out));
    QKV_TRY(qkv_bench_mat(job, c->m, c->n, QKV_BENCH_ZERO, &p->din));
    job->written = (double)c->m * (double)c->n * sizeof(real);
    return QKV_OK;
}

static qkv_status nn_pass(qkv_bench_job *job) {
    product *p = job->self;
    if (!p->linear.ready) QKV_TRY(qkv_linear_ready(&job->x, &p->linear, true));
    return qkv_linear_backward_input(&job->x, p->linear, p->out, p->din);
}

/* tn: W [m,n] += dout' in, dout [k,m], in [k,n]: the gradient of a weight, packing included. backward: that, and the gradient of
 * the input, din [k,n] = dout W. */
static qkv_status tn_make(qkv_bench_job *job) {
    product *p = job->self;
    const qkv_bench_case *c = job->c;
    QKV_TRY(weight(job, p, c->m, c->n, true));
    QKV_TRY(qkv_bench_mat(job, c->k, c->n, QKV_BENCH_RANDOM, &p->in));
    QKV_TRY(qkv_bench_mat(job, c->k, c->m, QKV_BENCH_RANDOM, &p->out));
    job->written = (double)c->m * (double)c->n * sizeof(real);
    return QKV_OK;
}

static qkv_status tn_pass(qkv_bench_job *job) {
    product *p = job->self;
    return qkv_linear_backward(&job->x, p->linear, p->in, p->out, NULL);
}

static qkv_status backward_make(qkv_bench_job *job) {
    product *p = job->self;
    QKV_TRY(tn_make(job));
    QKV_TRY(qkv_bench_mat(job, job->c->k, job->c->n, QKV_BENCH_ZERO, &p->din));
    job->written += (double)job->c->k * (double)job->c->n * sizeof(real);
    return QKV_OK;
}

static qkv_status backward_pass(qkv_bench_job *job) {
    product *p = job->self;
    return qkv_linear_backward(&job->x, p->linear, p->in, p->out, &p->din);
}

static const qkv_bench_kind NT = {"gemm.nt", sizeof(product), nt_make, nt_pass, NULL, NULL};
static const qkv_bench_kind NN = {"gemm.nn", sizeof(product), nn_make, nn_pass, NULL, NULL};
static const qkv_bench_kind TN = {"gemm.tn", sizeof(product), tn_make, tn_pass, NULL, NULL};
static const qkv_bench_kind BACKWARD = {"gemm.backward", sizeof(product), backward_make, backward_pass, NULL, NULL};
const qkv_bench_kind *const qkv_bench_gemm_kinds[] = {&NT, &NN, &TN, &BACKWARD, NULL};
