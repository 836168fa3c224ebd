/* The training loop on a toy: one vector w, and the loss of row i is |w - x_i|^2 / 2. */
#include "support.h"

#include <math.h>

#include "kernels/pick.h"
#include "ops/reg.h"
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
    int nan_metric_until; /* evaluations */
    int stop_now, allocations;
    real *to_allocate;
    qkv_train_plan plan;
    qkv_train_step step[MAX_EVENTS];
    qkv_train_end end;
    int64_t calls_at[MAX_EVENTS];
    test_memory memory;
    qkv_ctx ctx;
} toy;

static double distance2(const real *w, const real *x) {
    double sum = 0;
    for (int c = 0; c < WIDTH; c++) sum += ((double)w[c] - (double)x[c]) * ((double)w[c] - (double)x[c]);
    return sum / 2;
}

static qkv_status toy_step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
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

static qkv_status toy_evaluate(void *self, qkv_exec *x, qkv_task_score *score) {
    toy *t = self;
    if (x->plan) return QKV_OK;
    assert_false(x->keep);
    assert_false(x->train);
    double loss = 0;
    for (int64_t i = 0; i < t->rows; i++) loss += distance2(x->weights, t->x[i]);
    loss /= (double)t->rows;
    *score = (qkv_task_score){.loss = t->dev_is_nan ? NAN : loss, .metric = t->metric_sign * loss, .blind = t->blind};
    if (t->evaluations < t->nan_metric_until) score->metric = NAN;
    return QKV_OK;
}

static void on_event(void *user, const qkv_train_event *e) {
    toy *t = user;
    if (e->kind == QKV_TRAIN_PLAN) t->plan = e->u.plan, t->plans++;
    if (e->kind == QKV_TRAIN_STEP) {
        t->step[t->steps_seen] = e->u.step;
        t->calls_at[t->steps_seen++] = t->memory.calls;
    }
    if (e->kind == QKV_TRAIN_EVALUATE) t->evaluations++, t->bests += e->u.evaluation.best;
    if (e->kind == QKV_TRAIN_END) t->end = e->u.end, t->ends++;
}

static int on_stop(void *user) {
    toy *t = user;
    return t->stop_now || (t->stop_after > 0 && t->steps_seen >= t->stop_after);
}

static void toy_start(toy *t, int64_t rows, int threads) {
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

static void toy_end(toy *t) {
    qkv_reg_free(&t->reg);
    qkv_par_close(&t->ctx);
    assert_int_equal(t->memory.blocks, 0);
}

static qkv_loop_options toy_options(void) {
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

static qkv_status toy_allocate(void *self, const qkv_train_plan *plan, real **weights) {
    toy *t = self;
    assert_int_equal(t->plans, 1);
    assert_int_equal(plan->bytes, t->plan.bytes);
    t->allocations++;
    *weights = t->to_allocate;
    return t->to_allocate ? QKV_OK : qkv_fail(&t->ctx, QKV_NO_MEMORY, "too little memory");
}

static qkv_status toy_run(toy *t, const qkv_loop_options *o, bool dev, real w[16], qkv_loop_result *result) {
    qkv_task task = {
        .self = t, .reg = &t->reg, .rows = t->rows, .offset = t->offset, .step = toy_step, .evaluate = dev ? toy_evaluate : NULL};
    qkv_train_callbacks callbacks = {on_event, t};
    memset(w, 0, 16 * sizeof *w);
    t->weights = w;
    return qkv_loop_run(&t->ctx, &task, o, &callbacks, 1000, w, result);
}

static void finds_the_mean(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 6, 1);
    qkv_loop_options o = toy_options();
    real w[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
    assert_true(r.usable);
    /* the mean has the least loss; Adam walks about it, in steps of batches of 4 and of 2 rows */
    real mean[WIDTH] = {0};
    double least = 0, found = 0;
    for (int i = 0; i < 6; i++)
        for (int c = 0; c < WIDTH; c++) mean[c] += t.x[i][c] / 6;
    for (int i = 0; i < 6; i++) least += distance2(mean, t.x[i]), found += distance2(w, t.x[i]);
    assert_true(found < 1.05 * least); /* the run began at more than 50 times the least */
    /* 6 rows in batches of 4 and 2: two steps an epoch */
    assert_int_equal(t.plan.steps, 100);
    assert_int_equal(t.plan.batches_per_epoch, 2);
    assert_int_equal(t.plan.parameters, WIDTH);
    assert_int_equal(t.steps_seen, 100);
    assert_int_equal(t.evaluations, 50);
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.end.best_step, r.best_step);
    assert_true(t.step[99].epoch == 50);
    assert_true(fabs(t.step[0].lr - 0.2 / 10) < 1e-12);
    assert_int_equal(t.plan.bytes, 1000 + 4 * 16 * (int64_t)sizeof(real) + t.plan.activation_bytes);
    toy_end(&t);
}

/* The counters of the allocator stand still inside an epoch. */
static void allocates_nothing_in_a_step(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 40, 2);
    qkv_loop_options o = toy_options();
    o.epochs = 2;
    real w[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
    assert_int_equal(t.steps_seen, 20);
    for (int i = 1; i < 20; i++) {
        if (i != 10) assert_int_equal(t.calls_at[i], t.calls_at[i - 1]);
    }
    toy_end(&t);
}

/* 32 rows at once, and as 4 batches of 8. */
static void accumulation_is_one_large_batch(void **state) {
    (void)state;
    real w[2][16];
    for (int k = 0; k < 2; k++) {
        static toy t;
        toy_start(&t, 32, 1);
        qkv_loop_options o = toy_options();
        o.epochs = 10;
        o.batch_tokens = k ? 8 : 32;
        o.accumulate = k ? 4 : 1;
        qkv_loop_result r;
        assert_int_equal(toy_run(&t, &o, true, w[k], &r), QKV_OK);
        assert_int_equal(t.steps_seen, 10);
        assert_true(t.loss_scale == 1.0 / 32);
        toy_end(&t);
    }
    for (int c = 0; c < WIDTH; c++) assert_true(fabs((double)w[0][c] - (double)w[1][c]) < 1e-5 * fabs((double)w[0][c]));
}

/* 10 rows, batches of 4, two a step: windows of 8 and of 2 rows, each a mean over its own rows. */
static void a_partial_window_is_applied(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 10, 1);
    qkv_loop_options o = toy_options();
    o.epochs = 3;
    o.accumulate = 2;
    real w[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
    assert_int_equal(t.steps_seen, 6);
    for (int e = 0; e < 3; e++) {
        int64_t a = t.step[2 * e].rows, b = t.step[2 * e + 1].rows;
        assert_int_equal(a + b, 10);
        assert_true((a == 8 && b == 2) || (a == 6 && b == 4));
    }
    assert_true(t.loss_scale == 1.0 / (double)t.step[5].rows);
    toy_end(&t);
}

static void fractions_and_step_counts(void **state) {
    (void)state;
    static toy t;
    real w[16];
    qkv_loop_result r;
    const struct {
        double epochs;
        int64_t steps, expected;
    } cases[] = {{0.3, 0, 3}, {1.05, 0, 11}, {0.001, 0, 1}, {4, 7, 7}, {0.1, 23, 23}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy_start(&t, 40, 1);
        qkv_loop_options o = toy_options();
        o.epochs = cases[i].epochs;
        o.steps = cases[i].steps;
        o.evaluate = 0;
        assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
        assert_int_equal(t.steps_seen, cases[i].expected);
        assert_int_equal(t.plan.steps, cases[i].expected);
        assert_int_equal(t.evaluations, 1);
        assert_int_equal(t.end.steps, cases[i].expected);
        toy_end(&t);
    }
}

static void a_bad_step_is_skipped(void **state) {
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        static toy t;
        toy_start(&t, 6, 1);
        t.poison_from = 3;
        t.poison_to = 6;
        t.poison_gradient = gradient;
        qkv_loop_options o = toy_options();
        real w[16];
        qkv_loop_result r;
        assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
        assert_int_equal(r.skipped, 4);
        assert_int_equal(r.steps, 100);
        assert_true(r.usable);
        for (int i = 0; i < 100; i++) assert_int_equal(t.step[i].skipped, i >= 2 && i <= 5);
        assert_int_equal(t.step[99].skipped_total, 4);
        for (int c = 0; c < WIDTH; c++) assert_true(isfinite((double)w[c]));
        toy_end(&t);
    }
}

/* Five in a row end it. The weights left are the best that were evaluated before. */
static void five_bad_steps_end_it(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 6, 1);
    t.poison_from = 8;
    t.poison_to = 1000;
    qkv_loop_options o = toy_options();
    real w[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_NUMERIC);
    assert_true(r.usable);
    assert_int_equal(r.steps, 12);
    assert_int_equal(t.steps_seen, 12);
    assert_int_equal(t.ends, 0);
    assert_non_null(strstr(t.ctx.message, "learning rate"));
    assert_non_null(strstr(t.ctx.message, "lr=0.2"));
    /* evaluated after steps 2, 4, 6 (the best: the loss falls) and the skipped ones that follow */
    assert_true(r.best_step >= 6 && r.best_step <= 8);
    assert_true(w[1] > 0);
    toy_end(&t);
}

static void divergence_before_any_evaluation(void **state) {
    (void)state;
    static toy t;
    real w[16];
    qkv_loop_result r;
    /* after three good steps: they are evaluated and kept */
    toy_start(&t, 6, 1);
    t.poison_from = 4;
    t.poison_to = 1000;
    qkv_loop_options o = toy_options();
    o.evaluate = 0;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_NUMERIC);
    assert_true(r.usable);
    assert_int_equal(t.evaluations, 1);
    toy_end(&t);
    /* from the first step on: nothing was learnt, nothing is kept */
    toy_start(&t, 6, 1);
    t.poison_to = 1000;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_NUMERIC);
    assert_false(r.usable);
    toy_end(&t);
    /* the weights that diverged are no good themselves */
    toy_start(&t, 6, 1);
    t.poison_from = 4;
    t.poison_to = 1000;
    t.dev_is_nan = 1;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_NUMERIC);
    assert_false(r.usable);
    toy_end(&t);
}

static void a_dev_loss_that_is_not_finite_is_never_best(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 6, 1);
    t.dev_is_nan = 1;
    qkv_loop_options o = toy_options();
    real w[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_NUMERIC);
    assert_false(r.usable);
    assert_int_equal(t.bests, 0);
    toy_end(&t);
}

static void keeps_the_best_weights(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 6, 1);
    t.metric_sign = 1; /* the larger the loss the better: the first evaluation wins */
    qkv_loop_options o = toy_options();
    real w[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
    assert_int_equal(r.best_step, 2);
    assert_int_equal(t.bests, 1);
    double loss = 0;
    for (int i = 0; i < 6; i++) loss += distance2(w, t.x[i]) / 6;
    assert_true(fabs(loss - r.best.loss) < 1e-9 * loss);
    toy_end(&t);
}

/* Where no dev label is known the loss is NaN: that is no divergence, and the last weights are kept. */
static void a_blind_dev_set_keeps_the_last_weights(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 6, 1);
    t.dev_is_nan = t.blind = 1;
    qkv_loop_options o = toy_options();
    real w[16], last[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
    assert_true(r.usable && r.best_step == 100 && isnan(r.best.loss) && isnan(t.end.loss));
    toy_end(&t);
    toy_start(&t, 6, 1);
    assert_int_equal(toy_run(&t, &o, false, last, &r), QKV_OK);
    assert_memory_equal(w, last, sizeof w);
    /* no dev set: there is nothing to report */
    assert_true(r.best_step == -1 && isnan(r.best.accuracy) && isnan(t.end.loss) && isnan(t.end.accuracy) && isnan(t.end.macro_f1));
    assert_int_equal(t.end.best_step, 100);
    toy_end(&t);
}

static void a_metric_that_is_nan_never_beats_a_number(void **state) {
    (void)state;
    static toy t;
    toy_start(&t, 6, 1);
    t.nan_metric_until = 3;
    t.metric_sign = 1; /* the first number wins */
    qkv_loop_options o = toy_options();
    real w[16];
    qkv_loop_result r;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
    assert_int_equal(r.best_step, 8);
    assert_int_equal(t.bests, 1);
    toy_end(&t);
}

/* However often they are asked for, evaluations happen once a step; and the usual times are met to the step. */
static void evaluations_are_at_most_one_a_step(void **state) {
    (void)state;
    static const struct {
        double every;
        int count;
    } cases[] = {{1e-17, 8}, {1e-300, 8}, {1e-9, 8}, {1e-6, 8}, {0.1, 8}, {0.5, 8}, {0.75, 5}, {1, 4}, {1.5, 3}, {4, 1}, {100, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static toy t;
        toy_start(&t, 6, 1);
        qkv_loop_options o = toy_options();
        o.epochs = 4; /* two steps each */
        o.evaluate = cases[i].every;
        real w[16];
        qkv_loop_result r;
        assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_OK);
        assert_int_equal(t.steps_seen, 8);
        assert_int_equal(t.evaluations, cases[i].count);
        toy_end(&t);
    }
}

/* The plan comes before anything big: nothing was allocated when the task says no, and a stop leaves nothing behind. */
static void the_plan_comes_first(void **state) {
    (void)state;
    static toy t;
    qkv_loop_options o = toy_options();
    qkv_loop_result r;
    real w[16] = {0}, same[16];
    qkv_task task = {.self = &t, .reg = &t.reg, .offset = t.offset, .rows = 6, .step = toy_step};
    task.evaluate = toy_evaluate;
    task.allocate = toy_allocate;
    qkv_train_callbacks callbacks = {on_event, &t};
    toy_start(&t, 6, 1);
    assert_int_equal(qkv_loop_run(&t.ctx, &task, &o, &callbacks, 1000, NULL, &r), QKV_NO_MEMORY);
    assert_true(t.plans == 1 && t.allocations == 1 && t.steps_seen == 0 && t.ends == 0 && !r.usable);
    toy_end(&t);
    toy_start(&t, 6, 1);
    t.to_allocate = w;
    assert_int_equal(qkv_loop_run(&t.ctx, &task, &o, &callbacks, 1000, NULL, &r), QKV_OK);
    assert_true(t.allocations == 1 && r.usable);
    toy_end(&t);
    toy_start(&t, 6, 1);
    assert_int_equal(toy_run(&t, &o, true, same, &r), QKV_OK);
    assert_memory_equal(same, w, sizeof w);
    toy_end(&t);
    toy_start(&t, 6, 1);
    t.stop_now = 1;
    assert_int_equal(qkv_loop_run(&t.ctx, &task, &o, &callbacks, 1000, NULL, &r), QKV_STOPPED);
    assert_true(!r.usable && t.allocations == 0 && t.evaluations == 0 && t.steps_seen == 0);
    toy_end(&t);
}

static void stops_when_asked(void **state) {
    (void)state;
    static toy t;
    real w[16];
    qkv_loop_result r;
    qkv_loop_options o = toy_options();
    /* before the first evaluation: one is made */
    o.evaluate = 10;
    toy_start(&t, 6, 1);
    t.stop_after = 3;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_STOPPED);
    assert_int_equal(t.steps_seen, 3);
    assert_int_equal(t.evaluations, 1);
    assert_int_equal(r.best_step, 3);
    assert_int_equal(t.end.stopped, 1);
    assert_true(r.usable);
    toy_end(&t);
    /* after one: none is made */
    o.evaluate = 1;
    toy_start(&t, 6, 1);
    t.stop_after = 3;
    assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_STOPPED);
    assert_int_equal(t.evaluations, 1);
    assert_int_equal(r.best_step, 2);
    toy_end(&t);
    /* without a dev set the last weights stay */
    toy_start(&t, 6, 1);
    t.stop_after = 3;
    assert_int_equal(toy_run(&t, &o, false, w, &r), QKV_STOPPED);
    assert_int_equal(t.evaluations, 0);
    assert_true(r.usable);
    assert_true(w[1] > 0);
    toy_end(&t);
}

static void same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    real w[3][16];
    for (int k = 0; k < 3; k++) {
        static toy t;
        toy_start(&t, 23, k + 1);
        qkv_loop_options o = toy_options();
        o.clip = 0.5;
        qkv_loop_result r;
        assert_int_equal(toy_run(&t, &o, true, w[k], &r), QKV_OK);
        toy_end(&t);
        assert_memory_equal(w[k], w[0], sizeof w[0]);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int64_t k = 1;; k++) {
        static toy t;
        toy_start(&t, 6, 1);
        t.memory.calls = 0;
        t.memory.fail_at = k;
        qkv_loop_options o = toy_options();
        o.epochs = 2;
        real w[16];
        qkv_loop_result r;
        qkv_status status = toy_run(&t, &o, true, w, &r);
        bool failed = t.memory.calls >= k;
        assert_int_equal(status, failed ? QKV_NO_MEMORY : QKV_OK);
        toy_end(&t);
        if (!failed) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_mean),
        cmocka_unit_test(allocates_nothing_in_a_step),
        cmocka_unit_test(accumulation_is_one_large_batch),
        cmocka_unit_test(a_partial_window_is_applied),
        cmocka_unit_test(fractions_and_step_counts),
        cmocka_unit_test(a_bad_step_is_skipped),
        cmocka_unit_test(five_bad_steps_end_it),
        cmocka_unit_test(divergence_before_any_evaluation),
        cmocka_unit_test(a_dev_loss_that_is_not_finite_is_never_best),
        cmocka_unit_test(keeps_the_best_weights),
        cmocka_unit_test(a_blind_dev_set_keeps_the_last_weights),
        cmocka_unit_test(a_metric_that_is_nan_never_beats_a_number),
        cmocka_unit_test(evaluations_are_at_most_one_a_step),
        cmocka_unit_test(the_plan_comes_first),
        cmocka_unit_test(stops_when_asked),
        cmocka_unit_test(same_bits_for_any_number_of_threads),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
