/* The training loop on a toy. */
#include "loop_toy.h"

#include <unistd.h>

#include "data/batches.h"

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
    assert_int_equal(t.plan.bytes, 1000 + 4 * 16 * (int64_t)sizeof(real) + t.plan.activation_bytes + qkv_batches_peak(t.rows));
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

/* 32 rows of a batch, one after another: the same step, in the memory of one row. The gradient of the toy is a chain of sums, so
 * here even the bits are the same. */
static void pieces_are_the_same_step(void **state) {
    (void)state;
    real w[2][16];
    static toy t[2];
    for (int k = 0; k < 2; k++) {
        toy_start(&t[k], 40, 1);
        qkv_loop_options o = toy_options();
        o.epochs = 2;
        o.batch_tokens = 32;
        o.accumulate = 2;
        if (k) o.room = (qkv_room){.limit = 1, .pieces = true};
        qkv_loop_result r;
        assert_int_equal(toy_run(&t[k], &o, true, w[k], &r), QKV_OK);
        assert_int_equal(t[k].plan.piece_tokens, k);
        assert_int_equal(t[k].plan.limit, k);
        assert_int_equal(t[k].plan.recompute, 0);
    }
    assert_memory_equal(w[1], w[0], sizeof w[0]);
    assert_int_equal(t[1].steps_seen, t[0].steps_seen);
    for (int i = 0; i < t[0].steps_seen; i++) {
        assert_int_equal(t[1].step[i].rows, t[0].step[i].rows);
        assert_int_equal(t[1].step[i].tokens, t[0].step[i].tokens);
        assert_true(t[1].step[i].gradient_norm == t[0].step[i].gradient_norm && t[1].step[i].flops == t[0].step[i].flops);
    }
    assert_true(t[0].plan.activation_bytes >= 32 * WIDTH * (int64_t)sizeof(real));
    assert_true(t[1].plan.activation_bytes < 8 * WIDTH * (int64_t)sizeof(real));
    assert_true(t[1].plan.flops_per_step == t[0].plan.flops_per_step);
    toy_end(&t[0]);
    toy_end(&t[1]);
}

/* A run goes on in the pieces that it began with, or not at all. */
static void pieces_are_remembered(void **state) {
    (void)state;
    static toy t;
    char path[512];
    test_path("pieces.resume", path);
    json_t *identity = json_pack("{s:i}", "run", 1);
    for (int k = 0; k < 2; k++) {
        qkv_loop_options o = toy_options();
        real w[16];
        qkv_loop_result r;
        o.room = (qkv_room){.limit = 1, .pieces = true};
        toy_start(&t, 12, 1);
        t.stop_after = 3;
        t.checkpoint = path;
        t.identity = identity;
        assert_int_equal(toy_run(&t, &o, true, w, &r), QKV_STOPPED);
        toy_end(&t);
        toy_start(&t, 12, 1);
        if (k) o.room = (qkv_room){0};
        assert_int_equal(qkv_checkpoint_open(&t.ctx, path, identity, &t.from), QKV_OK);
        assert_int_equal(toy_run(&t, &o, true, w, &r), k ? QKV_BAD_ARGUMENT : QKV_OK);
        if (k) assert_non_null(strstr(t.ctx.message, "in pieces of 1 tokens, this one would in pieces of 0"));
        qkv_checkpoint_close(t.from);
        toy_end(&t);
    }
    json_decref(identity);
    unlink(path);
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
        cmocka_unit_test(pieces_are_the_same_step),
        cmocka_unit_test(pieces_are_remembered),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
