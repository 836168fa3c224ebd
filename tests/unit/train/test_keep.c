/* Which weights a run leaves behind, and when it ends by itself: patience, averages, the start as a candidate. */
#include "loop_toy.h"

#include <unistd.h>

static toy the_toy, *const t = &the_toy;
static real w[16];
static qkv_loop_result r;

static double loss_of(const real *weights) {
    double loss = 0;
    for (int64_t i = 0; i < t->rows; i++) loss += distance2(weights, t->x[i]) / (double)t->rows;
    return loss;
}

static void near(const real *got, const double *expected) {
    for (int c = 0; c < WIDTH; c++) {
        if (fabs((double)got[c] - expected[c]) > 1e-6 * (1 + fabs(expected[c])))
            fail_msg("element %d is %.9g, not %.9g", c, (double)got[c], expected[c]);
    }
}

/* ---- patience ---- */

static void patience_runs_out(void **state) {
    (void)state;
    qkv_loop_options o = toy_options();
    toy_start(t, 6, 1); /* two steps an epoch, evaluated after each second one */
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_true(!r.out_of_patience && !t->end.out_of_patience);
    qkv_train_step whole[8];
    memcpy(whole, t->step, sizeof whole);
    toy_end(t);

    o.patience = 3;
    toy_start(t, 6, 1);
    t->metric_sign = 1; /* nothing is ever better than the first */
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_int_equal(t->evaluations, 4);
    assert_int_equal(t->steps_seen, 8);
    assert_true(r.usable && r.best_step == 2 && r.steps == 8 && r.out_of_patience);
    assert_true(t->ends == 1 && t->end.out_of_patience && !t->end.stopped && t->end.steps == 8 && t->end.best_step == 2);
    assert_true(fabs(loss_of(w) - r.best.loss) < 1e-9 * r.best.loss);
    for (int i = 0; i < 8; i++) assert_true(t->step[i].lr == whole[i].lr && t->step[i].steps == 100); /* the rate does not know */
    toy_end(t);

    toy_start(t, 6, 1); /* evaluations in which nothing of the weights shows cost nothing */
    t->metric_sign = 1;
    t->early_until = 5;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_int_equal(t->evaluations, 8);
    assert_true(r.out_of_patience && r.best_step == 2);
    toy_end(t);
}

static void patience_that_lasts(void **state) {
    (void)state;
    static const struct {
        int64_t patience;
        double epochs, sign;
        bool dev, blind;
        int64_t steps;
        bool out;
    } cases[] = {
        {0, 50, 1, true, false, 100, false},   {49, 50, 1, true, false, 100, false}, /* runs out at the end: nothing was cut */
        {48, 50, 1, true, false, 98, true},    {1, 4, -1, true, false, 8, false},    /* every one is better */
        {1, 4, 1, false, false, 8, false},     {1, 4, 1, true, true, 8, false},      /* nothing to measure by */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_loop_options o = toy_options();
        o.epochs = cases[i].epochs;
        o.patience = cases[i].patience;
        toy_start(t, 6, 1);
        t->metric_sign = cases[i].sign;
        t->blind = t->dev_is_nan = cases[i].blind;
        assert_int_equal(toy_run(t, &o, cases[i].dev, w, &r), QKV_OK);
        assert_int_equal(r.steps, cases[i].steps);
        assert_int_equal(r.out_of_patience, cases[i].out);
        assert_int_equal(t->end.out_of_patience, cases[i].out);
        toy_end(t);
    }
}

/* ---- the moving average ---- */

static void reference_average(double decay, int64_t steps, double average[WIDTH]) {
    int64_t updates = 0;
    for (int c = 0; c < WIDTH; c++) average[c] = 0; /* where training started */
    for (int64_t i = 0; i < steps; i++) {
        if (t->step[i].skipped) continue;
        updates++;
        double d = fmin(decay, (1 + (double)updates) / (10 + (double)updates));
        for (int c = 0; c < WIDTH; c++) average[c] = d * average[c] + (1 - d) * (double)t->after[i][c];
    }
}

static void the_moving_average_is_scored_and_kept(void **state) {
    (void)state;
    for (int dev = 0; dev < 2; dev++)
        for (int k = 0; k < 3; k++) {
            qkv_loop_options o = toy_options();
            o.average = QKV_AVERAGE_EMA;
            o.ema_decay = k == 0 ? 0.9 : 0.999;
            o.schedule = QKV_SCHEDULE_CONSTANT;
            toy_start(t, 6, 1);
            if (k == 2) t->poison_from = 31, t->poison_to = 33; /* those steps do not enter */
            assert_int_equal(toy_run(t, &o, dev, w, &r), QKV_OK);
            assert_int_equal(t->steps_seen, 100);
            assert_true(r.averaged && t->end.averaged);
            double expected[WIDTH];
            for (int e = 0; e < t->evaluations; e++) {
                reference_average(o.ema_decay, t->evaluation[e].step, expected);
                near(t->scored[e], expected);
                assert_int_equal(t->evaluation[e].averaged, 0); /* that tells of the mean of evaluations */
            }
            reference_average(o.ema_decay, dev ? r.best_step : 100, expected);
            near(w, expected);
            toy_end(t);
        }
}

/* Steps that waver have a mean that does not. */
static void the_moving_average_is_calmer(void **state) {
    (void)state;
    double loss[2];
    for (int k = 0; k < 2; k++) {
        qkv_loop_options o = toy_options();
        o.schedule = QKV_SCHEDULE_CONSTANT;
        o.average = k ? QKV_AVERAGE_EMA : QKV_AVERAGE_NONE;
        o.ema_decay = 0.95;
        toy_start(t, 23, 1);
        assert_int_equal(toy_run(t, &o, false, w, &r), QKV_OK);
        loss[k] = loss_of(w);
        toy_end(t);
    }
    assert_true(loss[1] < loss[0]);
}

/* ---- the mean of the last evaluations ---- */

static void reference_mean(int64_t last, int64_t every, int64_t count, double mean[WIDTH]) {
    for (int c = 0; c < WIDTH; c++) mean[c] = 0;
    for (int64_t k = 0; k < count; k++)
        for (int c = 0; c < WIDTH; c++) mean[c] += (double)t->after[last - 1 - k * every][c] / (double)count;
}

static void the_mean_of_the_last_evaluations(void **state) {
    (void)state;
    for (int dev = 0; dev < 2; dev++)
        for (int64_t n = 2; n < 8; n++) {
            qkv_loop_options o = toy_options();
            o.epochs = 6;
            o.average = QKV_AVERAGE_CHECKPOINTS;
            o.average_last = n;
            toy_start(t, 6, 1);
            assert_int_equal(toy_run(t, &o, dev, w, &r), QKV_OK);
            double expected[WIDTH];
            reference_mean(12, 2, n < 6 ? n : 6, expected);
            assert_int_equal(t->evaluations, dev ? 7 : 0);
            if (dev) {
                near(t->scored[6], expected);
                for (int e = 0; e < 7; e++) assert_int_equal(t->evaluation[e].averaged, e == 6);
                assert_int_equal(t->evaluation[6].step, 12);
                assert_int_equal(r.averaged, t->evaluation[6].best);
                double best = INFINITY;
                for (int e = 0; e < 7; e++) best = fmin(best, t->evaluation[e].loss);
                assert_true(r.best.loss == best && fabs(loss_of(w) - best) < 1e-9 * best);
            } else {
                near(w, expected);
            }
            assert_int_equal(t->end.averaged, r.averaged);
            if (!dev) assert_true(r.averaged);
            toy_end(t);
        }
}

/* Near the minimum, at a constant rate, the mean of what wavers about it is better: kept. While the loss still falls, or where the
 * first evaluation is the best by decree, it is not. */
static void the_mean_is_kept_where_it_is_the_best(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        qkv_loop_options o = toy_options();
        o.schedule = QKV_SCHEDULE_CONSTANT;
        o.average = QKV_AVERAGE_CHECKPOINTS;
        o.average_last = 20;
        if (k == 1) o.lr = o.embedding_lr = 1e-4;
        toy_start(t, 23, 1);
        if (k == 2) t->metric_sign = 1;
        assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
        assert_int_equal(r.averaged, k == 0);
        assert_int_equal(t->end.averaged, k == 0);
        assert_int_equal(t->end.best_step, k == 2 ? 6 : 300);
        assert_true(fabs(loss_of(w) - r.best.loss) < 1e-9 * r.best.loss);
        toy_end(t);
    }
}

static void no_mean_without_an_end(void **state) {
    (void)state;
    qkv_loop_options o = toy_options();
    o.average = QKV_AVERAGE_CHECKPOINTS;
    o.average_last = 3;
    toy_start(t, 6, 1); /* stopped */
    t->stop_after = 9;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_STOPPED);
    assert_true(t->evaluations == 4 && !r.averaged);
    toy_end(t);
    toy_start(t, 6, 1); /* diverged */
    t->poison_from = 9, t->poison_to = 1000;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_NUMERIC);
    assert_true(r.usable && !r.averaged);
    toy_end(t);
    o.patience = 3; /* out of patience: that is an end */
    toy_start(t, 6, 1);
    t->metric_sign = 1;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_true(t->evaluations == 5 && t->evaluation[4].averaged && r.out_of_patience && r.best_step == 2);
    toy_end(t);
    o.evaluate = 0; /* one evaluation has no mean */
    toy_start(t, 6, 1);
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_true(t->evaluations == 1 && !r.averaged);
    toy_end(t);
}

/* ---- the start ---- */

static void the_start_takes_part(void **state) {
    (void)state;
    qkv_loop_options o = toy_options();
    for (int k = 0; k < 4; k++) {
        toy_start(t, 6, 1);
        t->start_counts = true;
        t->metric_sign = k % 2 ? 1 : -1; /* at the start the loss is largest */
        o.average = k / 2 ? QKV_AVERAGE_EMA : QKV_AVERAGE_NONE;
        o.ema_decay = 0.9;
        assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
        assert_int_equal(t->evaluations, 51);
        assert_true(t->evaluation[0].step == 0 && t->evaluation[0].epoch == 0 && t->evaluation[0].best);
        for (int c = 0; c < WIDTH; c++) assert_true(t->scored[0][c] == 0);
        if (k % 2) {
            assert_true(r.usable && r.best_step == 0 && t->end.best_step == 0 && t->bests == 1 && !r.averaged);
            for (int c = 0; c < WIDTH; c++) assert_true(w[c] == 0);
        } else {
            assert_true(r.best_step > 0 && t->bests > 10);
        }
        toy_end(t);
    }
}

/* It costs no patience, is not put into the mean, and does not stand for the evaluation that a run stopped early is owed. */
static void the_start_is_no_step(void **state) {
    (void)state;
    qkv_loop_options o = toy_options();
    o.patience = 2;
    toy_start(t, 6, 1);
    t->start_counts = true;
    t->metric_sign = 1;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_true(r.steps == 4 && r.best_step == 0 && r.out_of_patience);
    toy_end(t);
    toy_start(t, 6, 1);
    t->start_counts = true;
    t->nan_metric_until = 1; /* the start's */
    o.patience = 1;
    o.epochs = 4;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_true(r.steps == 8 && r.best_step > 0);
    toy_end(t);

    o = toy_options();
    o.average = QKV_AVERAGE_CHECKPOINTS;
    o.average_last = 5;
    o.epochs = 3;
    toy_start(t, 6, 1);
    t->start_counts = true;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    double expected[WIDTH];
    reference_mean(6, 2, 3, expected);
    assert_int_equal(t->evaluations, 5);
    near(t->scored[4], expected);
    toy_end(t);

    o = toy_options();
    o.evaluate = 10;
    toy_start(t, 6, 1);
    t->start_counts = true;
    t->stop_after = 3;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_STOPPED);
    assert_true(t->evaluations == 2 && t->evaluation[1].step == 3 && r.best_step == 3);
    toy_end(t);
}

static int stop_at_once(void *user) {
    const toy *each = user;
    return each->evaluations > 0;
}

static void the_start_alone(void **state) {
    (void)state;
    qkv_loop_options o = toy_options();
    toy_start(t, 6, 1); /* stopped right after it: nothing is worth replacing a file */
    t->start_counts = true;
    t->ctx.stop = stop_at_once;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_STOPPED);
    assert_true(!r.usable && r.best_step == 0 && t->steps_seen == 0 && t->evaluations == 1 && t->end.stopped);
    toy_end(t);
    toy_start(t, 6, 1); /* diverged from the first step on */
    t->start_counts = true;
    t->poison_to = 1000;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_NUMERIC);
    assert_true(r.usable && r.best_step == 0);
    toy_end(t);
    o.epochs = 0; /* no step at all: still one evaluation */
    o.average = QKV_AVERAGE_EMA;
    toy_start(t, 6, 1);
    t->start_counts = true;
    assert_int_equal(toy_run(t, &o, true, w, &r), QKV_OK);
    assert_true(r.usable && r.best_step == 0 && t->evaluations == 1 && !r.averaged && !r.out_of_patience);
    toy_end(t);
    toy_start(t, 6, 1); /* nothing to score it by */
    t->start_counts = true;
    assert_int_equal(toy_run(t, &o, false, w, &r), QKV_OK);
    assert_int_equal(t->evaluations, 0);
    toy_end(t);
}

/* ---- all of them ---- */

typedef struct variant {
    qkv_average_kind average;
    int64_t patience, blocks; /* that the average takes */
    bool dev, start;
    double sign;
} variant;

static const variant variants[] = {
    {QKV_AVERAGE_NONE, 0, 0, true, true, -1},        {QKV_AVERAGE_NONE, 4, 0, true, true, 1},
    {QKV_AVERAGE_EMA, 0, 1, true, true, -1},         {QKV_AVERAGE_EMA, 0, 1, false, false, -1},
    {QKV_AVERAGE_CHECKPOINTS, 0, 3, true, true, -1}, {QKV_AVERAGE_CHECKPOINTS, 0, 3, false, false, -1},
    {QKV_AVERAGE_CHECKPOINTS, 5, 3, true, false, 1},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static qkv_loop_options variant_options(const variant *v) {
    qkv_loop_options o = toy_options();
    o.epochs = 6;
    o.evaluate = 0.3;
    o.average = v->average;
    o.ema_decay = 0.9;
    o.average_last = 3;
    o.patience = v->patience;
    return o;
}

static void variant_start(const variant *v, int threads) {
    toy_start(t, 23, threads);
    t->start_counts = v->start;
    t->metric_sign = v->sign;
    t->poison_from = t->poison_to = 4;
}

static void the_plan_knows_them(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        const variant *v = &variants[i];
        int64_t bytes[2];
        for (int k = 0; k < 2; k++) {
            qkv_loop_options o = variant_options(v);
            o.batch_tokens = 23; /* one batch an epoch: all steps are the same */
            o.evaluate = 1;
            if (k == 0) o.average = QKV_AVERAGE_NONE;
            variant_start(v, 1);
            assert_int_equal(toy_run(t, &o, v->dev, w, &r), QKV_OK);
            assert_true(t->step[0].flops == t->plan.flops_per_step);
            bytes[k] = t->plan.bytes;
            toy_end(t);
        }
        assert_int_equal(bytes[1] - bytes[0], v->blocks * 16 * (int64_t)sizeof(real));
    }
}

static void threads_and_no_allocation(void **state) {
    (void)state;
    real got[3][16];
    for (int i = 0; i < VARIANTS; i++)
        for (int k = 0; k < 3; k++) {
            qkv_loop_options o = variant_options(&variants[i]);
            variant_start(&variants[i], k + 1);
            assert_int_equal(toy_run(t, &o, variants[i].dev, got[k], &r), QKV_OK);
            assert_memory_equal(got[k], got[0], sizeof got[0]);
            for (int s = 1; s < t->steps_seen; s++)
                if (s % 6) assert_int_equal(t->calls_at[s], t->calls_at[s - 1]);
            toy_end(t);
        }
}

/* Stopped after any step, written down, and gone on with: as if nothing had happened. */
static void resumed(void **state) {
    (void)state;
    char path[512];
    test_path("keep.resume", path);
    json_t *identity = json_pack("{s:i}", "run", 1);
    for (int i = 0; i < VARIANTS; i++) {
        const variant *v = &variants[i];
        qkv_loop_options o = variant_options(v);
        variant_start(v, 1);
        real whole[16];
        qkv_loop_result all;
        assert_int_equal(toy_run(t, &o, v->dev, whole, &all), QKV_OK);
        int64_t evaluations = t->evaluations, count = t->steps_seen;
        assert_int_equal(all.out_of_patience, v->patience > 0);
        assert_int_equal(all.skipped, 1);
        toy_end(t);
        for (int64_t at = 1; at < count; at++) {
            variant_start(v, 1);
            t->stop_after = (int)at;
            t->checkpoint = path;
            t->identity = identity;
            assert_int_equal(toy_run(t, &o, v->dev, w, &r), QKV_STOPPED);
            /* one that nobody would have made but for the stop */
            int64_t made = t->evaluations - (t->evaluations > 0 && t->evaluation[t->evaluations - 1].step == at && v->dev && at == 1);
            toy_end(t);
            variant_start(v, 2);
            t->identity = identity;
            assert_int_equal(qkv_checkpoint_open(&t->ctx, path, identity, &t->from), QKV_OK);
            assert_int_equal(toy_run(t, &o, v->dev, w, &r), QKV_OK);
            qkv_checkpoint_close(t->from);
            assert_memory_equal(w, whole, sizeof whole);
            assert_int_equal(made + t->evaluations, evaluations);
            assert_true(r.steps == all.steps && r.best_step == all.best_step && r.averaged == all.averaged);
            assert_true(r.out_of_patience == all.out_of_patience && r.skipped == all.skipped);
            assert_true(v->dev ? r.best.loss == all.best.loss : isnan(r.best.loss));
            toy_end(t);
        }
    }
    json_decref(identity);
    unlink(path);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++)
        for (int64_t k = 1;; k++) {
            qkv_loop_options o = variant_options(&variants[i]);
            variant_start(&variants[i], 1);
            t->memory.calls = 0;
            t->memory.fail_at = k;
            qkv_status status = toy_run(t, &o, variants[i].dev, w, &r);
            bool failed = t->memory.calls >= k;
            assert_int_equal(status, failed ? QKV_NO_MEMORY : QKV_OK);
            toy_end(t);
            if (!failed) break;
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_runs_out),
        cmocka_unit_test(patience_that_lasts),
        cmocka_unit_test(the_moving_average_is_scored_and_kept),
        cmocka_unit_test(the_moving_average_is_calmer),
        cmocka_unit_test(the_mean_of_the_last_evaluations),
        cmocka_unit_test(the_mean_is_kept_where_it_is_the_best),
        cmocka_unit_test(no_mean_without_an_end),
        cmocka_unit_test(the_start_takes_part),
        cmocka_unit_test(the_start_is_no_step),
        cmocka_unit_test(the_start_alone),
        cmocka_unit_test(the_plan_knows_them),
        cmocka_unit_test(threads_and_no_allocation),
        cmocka_unit_test(resumed),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
