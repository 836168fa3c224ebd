/* Something small to train: one vector w, and the loss of row i is |w - x_i|^2 / 2. */
#ifndef QKV_TESTS_LOOP_TOY_H
#define QKV_TESTS_LOOP_TOY_H

#include "support.h"

#include <math.h>

#include "kernels/pick.h"
#include "ops/reg.h"
#include "train/checkpoint.h"
#include "train/loop.h"

enum { WIDTH = 5, MAX_ROWS = 40, MAX_EVENTS = 400 };

typedef struct toy {
    qkv_reg reg;
    int64_t rows, offset[MAX_ROWS + 1];
    real x[MAX_ROWS][WIDTH];
    int64_t poison_from, poison_to; /* steps whose loss is infinite */
    int poison_gradient;            /* 1: the loss is fine, the gradient is not */
    int stop_after;                 /* steps; 0: never */
    int steps_seen, evaluations, bests, ends, plans;
    double loss_scale; /* of the last step */
    double metric_sign;
    const real *weights;
    int dev_is_nan, blind;
    int early_until, nan_metric_until; /* evaluations */
    int stop_now, allocations;
    real *to_allocate;
    qkv_train_plan plan;
    qkv_train_step step[MAX_EVENTS];
    qkv_train_end end;
    int64_t calls_at[MAX_EVENTS];
    bool start_counts;
    real after[MAX_EVENTS][WIDTH];  /* the weights after each step of this run */
    real scored[MAX_EVENTS][WIDTH]; /* what each evaluation looked at */
    qkv_train_evaluation evaluation[MAX_EVENTS];
    const char *checkpoint; /* a file; written when stopped */
    json_t *identity;
    qkv_checkpoint *from; /* to be resumed */
    test_memory memory;
    qkv_ctx ctx;
} toy;

static inline double distance2(const real *w, const real *x) {
    double sum = 0;
    for (int c = 0; c < WIDTH; c++) sum += ((double)w[c] - (double)x[c]) * ((double)w[c] - (double)x[c]);
    return sum / 2;
}

static inline qkv_status toy_step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
    toy *t = self;
    qkv_mat scratch;
    QKV_TRY(qkv_keep(x, count, WIDTH, &scratch));
    if (x->plan) return QKV_OK;
    t->loss_scale = loss_scale;
    for (int64_t i = 0; i < count; i++) {
        *loss_sum += distance2(x->weights, t->x[rows[i]]);
        for (int c = 0; c < WIDTH; c++) x->grads[c] += (real)loss_scale * (x->weights[c] - t->x[rows[i]][c]);
    }
    bool poison = (int64_t)x->step >= t->poison_from && (int64_t)x->step <= t->poison_to;
    if (poison && t->poison_gradient) x->grads[1] = (real)NAN;
    if (poison && !t->poison_gradient) *loss_sum = INFINITY;
    return QKV_OK;
}

static inline qkv_status toy_evaluate(void *self, qkv_exec *x, qkv_task_score *score) {
    toy *t = self;
    if (x->plan) return QKV_OK;
    assert_false(x->keep);
    assert_false(x->train);
    double loss = 0;
    for (int64_t i = 0; i < t->rows; i++) loss += distance2(x->weights, t->x[i]);
    loss /= (double)t->rows;
    *score = (qkv_task_score){.loss = t->dev_is_nan ? NAN : loss, .metric = t->metric_sign * loss, .blind = t->blind};
    score->early = t->evaluations < t->early_until;
    if (t->evaluations < t->nan_metric_until) score->metric = NAN;
    for (int c = 0; c < WIDTH; c++) t->scored[t->evaluations][c] = x->weights[c];
    return QKV_OK;
}

static inline void on_event(void *user, const qkv_train_event *e) {
    toy *t = user;
    if (e->kind == QKV_TRAIN_PLAN) t->plan = e->u.plan, t->plans++;
    if (e->kind == QKV_TRAIN_STEP) {
        t->step[t->steps_seen] = e->u.step;
        for (int c = 0; t->weights && c < WIDTH; c++) t->after[t->steps_seen][c] = t->weights[c];
        t->calls_at[t->steps_seen++] = t->memory.calls;
    }
    if (e->kind == QKV_TRAIN_EVALUATE) {
        t->evaluation[t->evaluations++] = e->u.evaluation;
        t->bests += e->u.evaluation.best;
    }
    if (e->kind == QKV_TRAIN_END) t->end = e->u.end, t->ends++;
}

static inline int on_stop(void *user) {
    toy *t = user;
    return t->stop_now || (t->stop_after > 0 && t->steps_seen >= t->stop_after);
}

static inline void toy_start(toy *t, int64_t rows, int threads) {
    *t = (toy){.rows = rows, .metric_sign = -1, .poison_from = 1, .poison_to = 0};
    t->ctx = test_ctx(&t->memory);
    t->ctx.threads = threads;
    t->ctx.stop = on_stop;
    t->ctx.stop_user = t;
    assert_int_equal(qkv_kernels_pick(&t->ctx, NULL), QKV_OK);
    t->reg.ctx = &t->ctx;
    int64_t index;
    qkv_param_kind kind = {.value = 0, .vector = true};
    assert_int_equal(qkv_reg_add(&t->reg, "toy.", "w", 1, WIDTH, kind, &index), QKV_OK);
    for (int64_t i = 0; i < rows; i++) {
        t->offset[i + 1] = t->offset[i] + 1; /* every row has one token */
        for (int c = 0; c < WIDTH; c++) t->x[i][c] = (real)(qkv_uniform(qkv_key2((uint64_t)i, (uint64_t)c)) + c);
    }
}

static inline void toy_end(toy *t) {
    qkv_reg_free(&t->reg);
    qkv_par_close(&t->ctx);
    assert_int_equal(t->memory.blocks, 0);
}

static inline qkv_loop_options toy_options(void) {
    return (qkv_loop_options){.epochs = 50,
                              .batch_tokens = 4,
                              .accumulate = 1,
                              .schedule = QKV_SCHEDULE_LINEAR,
                              .warmup = 0.1,
                              .lr = 0.2,
                              .embedding_lr = 0.2,
                              .beta1 = 0.9,
                              .beta2 = 0.98,
                              .epsilon = 1e-8,
                              .evaluate = 1,
                              .seed = 7};
}

static inline qkv_status toy_allocate(void *self, const qkv_train_plan *plan, real **weights) {
    toy *t = self;
    assert_int_equal(t->plans, 1);
    assert_int_equal(plan->bytes, t->plan.bytes);
    t->allocations++;
    *weights = t->to_allocate;
    return t->to_allocate ? QKV_OK : qkv_fail(&t->ctx, QKV_NO_MEMORY, "too little memory");
}

static inline qkv_status toy_checkpoint(void *self, const qkv_train_state *state) {
    toy *t = self;
    return qkv_checkpoint_save(&t->ctx, t->checkpoint, t->identity, NULL, state);
}

static inline qkv_status toy_restore(void *self, qkv_train_state *state) {
    toy *t = self;
    return qkv_checkpoint_restore(t->from, state);
}

static inline qkv_status toy_run(toy *t, const qkv_loop_options *o, bool dev, real w[16], qkv_loop_result *result) {
    qkv_task task = {
        .self = t, .reg = &t->reg, .rows = t->rows, .offset = t->offset, .step = toy_step, .evaluate = dev ? toy_evaluate : NULL};
    task.start_counts = t->start_counts;
    if (t->checkpoint) task.checkpoint = toy_checkpoint;
    if (t->from) task.restore = toy_restore;
    qkv_train_callbacks callbacks = {on_event, t};
    memset(w, 0, 16 * sizeof *w);
    t->weights = w;
    return qkv_loop_run(&t->ctx, &task, o, &callbacks, 1000, w, result);
}

#endif
