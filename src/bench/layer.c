/* The multi-head attention layer: projections to q, k, v, attention, output projection; and with its backward pass. */
#include "bench/job.h"

#include <string.h>

#include "layers/attention_layer.h"

typedef struct layer {
    qkv_attention_layer attention;
    qkv_batch batch;
    qkv_mat in, out, dout, din;
    bool backward;
} layer;

static qkv_status make(qkv_bench_job *job) {
    layer *l = job->self;
    const qkv_bench_case *c = job->c;
    l->backward = strcmp(c->name, "layer.both") == 0;
    qkv_block_shape shape = {.dim = c->dim,
                             .heads = c->heads,
                             .kv_heads = c->kv_heads > 0 ? c->kv_heads : c->heads,
                             .head_dim = c->dim / c->heads,
                             .span = c->window,
                             .attention_dropout = c->dropout,
                             .layers = 1};
    QKV_TRY(qkv_attention_layer_declare(&l->attention, &job->reg, "", &shape, 0));
    QKV_TRY(qkv_bench_weights(job, l->backward));
    if (!l->backward) QKV_TRY(qkv_bench_pack(job));
    QKV_TRY(qkv_bench_batch(job, &l->batch));
    int64_t rows = l->batch.offset[l->batch.n_seq];
    QKV_TRY(qkv_bench_mat(job, rows, c->dim, QKV_BENCH_RANDOM, &l->in));
    QKV_TRY(qkv_bench_mat(job, rows, c->dim, QKV_BENCH_ZERO, &l->out));
    job->arithmetic = true;
    job->inside = qkv_bench_attention_flops(&l->batch, c->heads, shape.head_dim, shape.head_dim, c->window, false);
    if (l->backward)
        job->inside += qkv_bench_attention_flops(&l->batch, c->heads, shape.head_dim, shape.head_dim, c->window, true);
    job->x.train = l->backward;
    if (!l->backward) return QKV_OK;
    job->x.keep = true;
    QKV_TRY(qkv_bench_mat(job, rows, c->dim, QKV_BENCH_RANDOM, &l->dout));
    return qkv_bench_mat(job, rows, c->dim, QKV_BENCH_ZERO, &l->din);
}

static qkv_status pass(qkv_bench_job *job) {
    layer *l = job->self;
    qkv_exec *x = &job->x;
    qkv_attention_saved saved;
    size_t low = x->arena.low;
    x->pass = QKV_PASS_FORWARD;
    QKV_TRY(qkv_attention_layer_forward(x, &l->attention, &l->batch, l->in, l->out, &saved));
    if (!l->backward) return QKV_OK;
    x->pass = QKV_PASS_BACKWARD;
    QKV_TRY(qkv_attention_layer_backward(x, &l->attention, &l->batch, l->dout, l->din, &saved));
    qkv_arena_low_release(&x->arena, low);
    return QKV_OK;
}

static const qkv_bench_kind FORWARD = {"layer.forward", sizeof(layer), make, pass, NULL, NULL};
static const qkv_bench_kind TWO_WAYS = {"layer.both", sizeof(layer), make, pass, NULL, NULL};
const qkv_bench_kind *const qkv_bench_layer_kinds[] = {&FORWARD, &TWO_WAYS, NULL};
