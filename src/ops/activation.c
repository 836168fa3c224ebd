#include "ops/activation.h"

#include "base/par.h"
#include "ops/around.h"
#include "ops/split.h"

typedef struct job {
    const qkv_kernels *kernels;
    qkv_act act;
    bool gated;
    qkv_mat in, out, din; /* out: y or dy */
    int64_t grain;
    bool around;
} job;

/* FLOPs an element, exp, erf and tanh counted as 1: gelu x*0.5*(1+erf(x/sqrt2)), gelu_tanh, relu, silu. */
static double cost_forward(qkv_act act) { return act == QKV_KERNEL_GELU ? 5 : act == QKV_KERNEL_GELU_TANH ? 9 : act == QKV_KERNEL_SILU ? 4 : 1; }
static double cost_backward(qkv_act act) { return act == QKV_KERNEL_GELU ? 11 : act == QKV_KERNEL_GELU_TANH ? 17 : act == QKV_KERNEL_SILU ? 8 : 1; }

double qkv_activation_flops(qkv_act act, bool backward) { return backward ? cost_backward(act) : cost_forward(act); }

static qkv_status check(const qkv_exec *x, bool gated, qkv_mat in, qkv_mat out) {
    QKV_TRY(qkv_exec_shape(x, "input of an activation", in, out.rows, gated ? 2 * out.cols : out.cols));
    return qkv_exec_shape(x, "output of an activation", out, in.rows, out.cols);
}

static void forward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->out.rows, j->grain, chunk);
    j->kernels->act_forward(j->act, j->gated, r.to - r.from, j->out.cols, j->in.p + r.from * j->in.ld, j->in.ld,
                            j->out.p + r.from * j->out.ld, j->out.ld, j->around);
}

qkv_status qkv_activation_forward(qkv_exec *x, qkv_act act, bool gated, qkv_mat in, qkv_mat out) {
    QKV_TRY(check(x, gated, in, out));
    double elements = (double)out.rows * (double)out.cols;
    qkv_exec_other(x, QKV_WORK_ACTIVATION, elements * (cost_forward(act) + gated), elements * (gated ? 3 : 2) * sizeof(real));
    if (x->plan || out.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .act = act, .gated = gated, .in = in, .out = out, .grain = qkv_row_grain(in.cols),
             .around = qkv_around(out, in.p, NULL)};
    qkv_par(x->ctx, qkv_chunks(out.rows, j.grain), forward_chunk, &j);
    return QKV_OK;
}

static void backward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    (void)thread;
    qkv_range r = qkv_chunk_range(j->out.rows, j->grain, chunk);
    j->kernels->act_backward(j->act, j->gated, r.to - r.from, j->out.cols, j->in.p + r.from * j->in.ld, j->in.ld,
                             j->out.p + r.from * j->out.ld, j->out.ld, j->din.p + r.from * j->din.ld, j->din.ld, j->around);
}

qkv_status qkv_activation_backward(qkv_exec *x, qkv_act act, bool gated, qkv_mat in, qkv_mat dout, qkv_mat din) {
    QKV_TRY(check(x, gated, in, dout));
    QKV_TRY(qkv_exec_shape(x, "input gradient of an activation", din, in.rows, in.cols));
    double elements = (double)dout.rows * (double)dout.cols;
    double gate = gated ? 2 + cost_forward(act) : 0;
    qkv_exec_other(x, QKV_WORK_ACTIVATION, elements * (cost_backward(act) + 1 + gate), elements * (gated ? 5 : 3) * sizeof(real));
    if (x->plan || dout.rows == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .act = act, .gated = gated, .in = in, .out = dout, .din = din,
             .grain = qkv_row_grain(in.cols), .around = qkv_around(din, in.p, dout.p)};
    qkv_par(x->ctx, qkv_chunks(dout.rows, j.grain), backward_chunk, &j);
    return QKV_OK;
}
