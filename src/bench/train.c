/* Whole training steps, by the loop that `qkv train` runs: gather, forward, loss, backward, norm of the gradients, AdamW. */
#include "bench/job.h"

#include <string.h>

#include "base/cpu.h"
#include "models/classifier.h"
#include "train/gather.h"
#include "train/loop.h"

enum { VOCABULARY = 16000, CLASSES = 8 };

typedef struct training {
    qkv_bench_job *job;
    qkv_classifier *net;
    qkv_ragged data; /* one batch */
    qkv_gather gather;
    int64_t *order;
    /* while it runs */
    qkv_bench_sampler *sampler;
    int64_t steps;
    int (*stop)(void *user);
    void *stop_user;
} training;

qkv_config qkv_bench_config(const qkv_bench_case *c, int64_t vocab, int64_t classes) {
    return (qkv_config){.vocab = vocab,
                        .classes = classes,
                        .layers = c->layers,
                        .dim = c->dim,
                        .heads = c->heads,
                        .kv_heads = c->kv_heads > 0 ? c->kv_heads : c->heads,
                        .head_dim = c->dim / c->heads,
                        .ffn = c->ffn,
                        .max_length = c->n,
                        .position = QKV_POSITION_LEARNED,
                        .pooling = QKV_POOL_MEAN,
                        .norm = QKV_NORM_LAYER,
                        .activation = QKV_ACT_GELU,
                        .bias = true,
                        .bf16 = c->dtype == QKV_BENCH_BF16,
                        .span = c->window,
                        .norm_epsilon = 1e-5,
                        .dropout = c->dropout,
                        .attention_dropout = c->dropout,
                        .embedding_dropout = c->dropout};
}

static qkv_status make(qkv_bench_job *job) {
    training *t = job->self;
    t->job = job;
    qkv_config config = qkv_bench_config(job->c, VOCABULARY, CLASSES);
    QKV_TRY(qkv_classifier_create(job->ctx, &config, false, &t->net));
    qkv_batch batch;
    QKV_TRY(qkv_bench_batch(job, &batch));
    t->data.count = batch.n_seq;
    QKV_TRY(qkv_bench_array(job, batch.n_seq + 1, sizeof *t->data.offset, &t->data.offset));
    memcpy(t->data.offset, batch.offset, ((size_t)batch.n_seq + 1) * sizeof *t->data.offset);
    int64_t tokens = batch.offset[batch.n_seq];
    QKV_TRY(qkv_bench_array(job, tokens, sizeof *t->data.ids, &t->data.ids));
    QKV_TRY(qkv_bench_array(job, batch.n_seq, sizeof *t->data.target, &t->data.target));
    QKV_TRY(qkv_bench_array(job, batch.n_seq, sizeof *t->order, &t->order));
    for (int64_t i = 0; i < tokens; i++) t->data.ids[i] = (int32_t)qkv_below(qkv_key2(7, (uint64_t)i), VOCABULARY);
    for (int64_t i = 0; i < batch.n_seq; i++) {
        t->data.target[i] = (int32_t)qkv_below(qkv_key2(8, (uint64_t)i), CLASSES);
        t->order[i] = i;
    }
    QKV_TRY(qkv_gather_create(job->ctx, &t->data, tokens, batch.n_seq, &t->gather));
    job->x.reg = qkv_classifier_reg(t->net);
    job->memory += 4.0 * (double)job->x.reg->size * sizeof(real); /* weights, gradients, moments: of the loop */
    job->arithmetic = true;
    for (int backward = 0; backward < 2; backward++)
        job->inside += (double)config.layers * qkv_bench_attention_flops(&batch, config.heads, config.head_dim, config.head_dim,
                                                                            config.span, backward == 1);
    job->items = (double)tokens;
    return QKV_OK;
}

static qkv_status step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
    training *t = self;
    qkv_batch batch;
    qkv_gather_rows(&t->gather, &t->data, rows, count, x->plan, &batch);
    return qkv_classifier_step(x, t->net, &batch, x->plan ? NULL : t->gather.target, 0.1, loss_scale, loss_sum, NULL);
}

/* In the plan: the operations of a step. The update is not among what counts, and its memory is counted in make. */
static qkv_status pass(qkv_bench_job *job) {
    training *t = job->self;
    double loss;
    job->x.keep = job->x.train = true;
    return step(t, &job->x, t->order, t->data.count, 1, &loss);
}

/* ---- the run: the loop calls back after each step ---- */

static int enough(void *user) {
    training *t = user;
    return qkv_bench_sample_enough(t->sampler) || (t->stop && t->stop(t->stop_user));
}

/* The first step is the warm-up. */
static void on_event(void *user, const qkv_train_event *event) {
    training *t = user;
    if (event->kind != QKV_TRAIN_STEP) return;
    if (t->steps++ == 0)
        qkv_bench_sample_begin(t->sampler);
    else
        qkv_bench_sample_end(t->sampler, event->u.step.seconds);
}

static qkv_status loop(training *t, real *weights) {
    qkv_bench_job *job = t->job;
    qkv_task task = {.self = t, .reg = qkv_classifier_reg(t->net), .rows = t->data.count, .offset = t->data.offset, .step = step};
    qkv_loop_options o = {.steps = 4000,
                          .batch_tokens = t->data.offset[t->data.count],
                          .accumulate = 1,
                          .schedule = QKV_SCHEDULE_CONSTANT,
                          .lr = 1e-5,
                          .embedding_lr = 1e-5,
                          .weight_decay = 0.01,
                          .beta1 = 0.9,
                          .beta2 = 0.98,
                          .epsilon = 1e-8,
                          .lazy_embedding = true,
                          .clip = 1,
                          .seed = 1};
    const qkv_train_callbacks callbacks = {on_event, t};
    qkv_loop_result result;
    qkv_arena_free(job->ctx, &job->x.arena); /* the loop has one of its own */
    job->x.arena = (qkv_arena){0};
    t->stop = job->ctx->stop;
    t->stop_user = job->ctx->stop_user;
    job->ctx->stop = enough;
    job->ctx->stop_user = t;
    qkv_status status = qkv_loop_run(job->ctx, &task, &o, &callbacks, 0, weights, &result);
    job->ctx->stop = t->stop;
    job->ctx->stop_user = t->stop_user;
    return status;
}

static qkv_status run(qkv_bench_job *job, qkv_bench_sampler *s) {
    training *t = job->self;
    t->sampler = s;
    /* Not counted as finished before the first sample, however long the warm-up took. */
    s->begun = qkv_now();
    real *weights;
    QKV_TRY(qkv_alloc(job->ctx, job->x.reg->size, sizeof *weights, &weights));
    qkv_reg_init(job->x.reg, 1, weights);
    qkv_status status = loop(t, weights);
    qkv_free(job->ctx, weights);
    if (status == QKV_STOPPED && qkv_stop_asked(job->ctx))
        return qkv_fail(job->ctx, QKV_STOPPED, "stopped on request in %s", job->c->name);
    return status == QKV_STOPPED ? QKV_OK : status;
}

static void drop(qkv_bench_job *job) {
    training *t = job->self;
    qkv_gather_free(job->ctx, &t->gather);
    qkv_classifier_free(t->net);
}

static const qkv_bench_kind STEP = {"train.step", sizeof(training), make, pass, drop, run};
const qkv_bench_kind *const qkv_bench_train_kinds[] = {&STEP, NULL};
