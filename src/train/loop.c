#include "train/loop.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/par.h"
#include "ops/optimizer.h"
#include "train/clip.h"
#include "train/loop_plan.h"

enum { GIVE_UP_AFTER = 5, FILL_GRAIN = 1 << 16 };

typedef struct loop {
    qkv_ctx *ctx;
    const qkv_task *task;
    const qkv_loop_options *o;
    const qkv_train_callbacks *callbacks;
    qkv_loop_plan plan;
    qkv_schedule schedule;
    qkv_train_state s;
    qkv_exec x;
    double epoch;           /* done, as a fraction */
    double begun, step_seconds, written; /* when the last checkpoint was */
    int64_t tokens;
    bool stopped;
} loop;

static void emit(const loop *l, const qkv_train_event *event) {
    if (l->callbacks && l->callbacks->event) l->callbacks->event(l->callbacks->user, event);
}

typedef struct fill_arg {
    real *p;
    int64_t size;
} fill_arg;

static void zero_chunk(void *arg, int64_t chunk, int thread) {
    (void)thread;
    const fill_arg *f = arg;
    int64_t from = chunk * FILL_GRAIN, n = f->size - from < FILL_GRAIN ? f->size - from : FILL_GRAIN;
    memset(f->p + from, 0, (size_t)n * sizeof(real));
}

static void clear_gradients(const loop *l) {
    fill_arg f = {l->s.grads, l->s.blocks};
    qkv_par(l->ctx, (f.size + FILL_GRAIN - 1) / FILL_GRAIN, zero_chunk, &f);
}

static void ready(loop *l, bool train, qkv_pass pass) {
    l->x.keep = l->x.train = train;
    l->x.pass = pass;
    qkv_arena_low_release(&l->x.arena, 0);
    qkv_arena_high_release(&l->x.arena, 0);
}

/* ---- one step ---- */

static int64_t batch_units(const loop *l, const int64_t *rows, int64_t count) {
    return l->task->units ? l->task->units(l->task->self, rows, count) : count;
}

static int64_t batch_tokens(const loop *l, const int64_t *rows, int64_t count) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) n += l->task->offset[rows[i] + 1] - l->task->offset[rows[i]];
    return n;
}

static qkv_status gradients(loop *l, const qkv_batches *b, int64_t first, int64_t last, qkv_train_step *report) {
    int64_t units = 0;
    for (int64_t i = first; i < last; i++) units += batch_units(l, b->order + b->first[i], b->first[i + 1] - b->first[i]);
    double scale = units > 0 ? 1 / (double)units : 0, sum = 0;
    clear_gradients(l);
    for (int64_t i = first; i < last; i++) {
        const int64_t *rows = b->order + b->first[i];
        int64_t count = b->first[i + 1] - b->first[i];
        double loss = 0;
        ready(l, true, QKV_PASS_FORWARD);
        QKV_TRY(l->task->step(l->task->self, &l->x, rows, count, scale, &loss));
        sum += loss;
        report->rows += count;
        report->tokens += batch_tokens(l, rows, count);
    }
    report->loss = sum * scale;
    ready(l, true, QKV_PASS_OPTIMIZER);
    return qkv_gradient_norm(&l->x, l->s.grads, &report->gradient_norm);
}

static qkv_status update(loop *l, double factor, double norm) {
    qkv_adamw_options a = {
        .lr = l->o->lr * factor,
        .embedding_lr = l->o->embedding_lr * factor,
        .beta1 = l->o->beta1,
        .beta2 = l->o->beta2,
        .epsilon = l->o->epsilon,
        .decay = l->o->weight_decay,
        .grad_scale = qkv_clip_factor(norm, l->o->clip),
        .lazy_embedding = l->o->lazy_embedding,
        .step = ++l->s.updates,
    };
    ready(l, true, QKV_PASS_OPTIMIZER);
    return qkv_adamw_update(&l->x, &a, l->s.weights, l->s.grads, l->s.m, l->s.v);
}

static qkv_status diverged(const loop *l) {
    return qkv_fail(l->ctx, QKV_NUMERIC,
                    "training diverged: %d steps in a row, up to step %lld, gave a loss or gradient that is not finite; lower the "
                    "learning rate (lr=%g, embedding-lr=%g) or warm up longer",
                    GIVE_UP_AFTER, (long long)l->s.step, l->o->lr, l->o->embedding_lr);
}

static qkv_status one_step(loop *l, const qkv_batches *b, int64_t windows) {
    int64_t first = l->s.window * l->o->accumulate,
            last = first + l->o->accumulate < b->count ? first + l->o->accumulate : b->count;
    double begun = qkv_now(), factor = qkv_schedule_factor(&l->schedule, l->s.step + 1);
    qkv_train_event event = {.kind = QKV_TRAIN_STEP};
    qkv_train_step *report = &event.u.step;

    l->x.tally = (qkv_tally){0};
    l->x.step = (uint64_t)l->s.step + 1;
    QKV_TRY(gradients(l, b, first, last, report));
    report->skipped = !isfinite(report->loss) || !isfinite(report->gradient_norm);
    if (!report->skipped) QKV_TRY(update(l, factor, report->gradient_norm));

    l->s.step++;
    l->s.window++;
    l->s.skipped += report->skipped;
    l->s.skipped_in_row = report->skipped ? l->s.skipped_in_row + 1 : 0;
    l->epoch = (double)l->s.epoch + (double)l->s.window / (double)windows;
    l->tokens += report->tokens;

    report->step = l->s.step;
    report->steps = l->plan.steps;
    report->epoch = l->epoch;
    report->lr = l->o->lr * factor;
    report->seconds = qkv_now() - begun;
    report->flops = qkv_tally_flops(&l->x.tally);
    report->skipped_total = l->s.skipped;
    l->step_seconds += report->seconds;
    emit(l, &event);
    return l->s.skipped_in_row >= GIVE_UP_AFTER ? diverged(l) : QKV_OK;
}

/* ---- evaluation ---- */

/* A metric that is not a number never beats a number. */
static bool better(const qkv_task_score *a, const qkv_task_score *b) {
    if (isnan(b->metric)) return !isnan(a->metric);
    return a->metric > b->metric || (a->metric == b->metric && a->loss < b->loss);
}

static qkv_status evaluate(loop *l) {
    double begun = qkv_now();
    qkv_task_score score = {0};
    ready(l, false, QKV_PASS_FORWARD);
    QKV_TRY(l->task->evaluate(l->task->self, &l->x, &score));
    bool finite = isfinite(score.loss) && isfinite(score.metric);
    bool best = score.blind || (finite && (l->s.best_step < 0 || better(&score, &l->s.best)));
    if (best) {
        l->s.best = score;
        l->s.best_step = l->s.step;
        memcpy(l->s.kept, l->s.weights, (size_t)l->s.blocks * sizeof(real));
    }
    l->s.evaluated_at = l->s.step;
    l->s.evaluations++;
    qkv_train_event event = {.kind = QKV_TRAIN_EVALUATE};
    event.u.evaluation = (qkv_train_evaluation){
        .step = l->s.step,
        .epoch = l->epoch,
        .loss = score.loss,
        .accuracy = score.accuracy,
        .macro_f1 = score.macro_f1,
        .best = best,
        .seconds = qkv_now() - begun,
    };
    emit(l, &event);
    return QKV_OK;
}

static bool evaluation_due(loop *l) {
    const double slack = 1e-9, every = l->o->evaluate;
    if (!l->task->evaluate || !(every > 0) || l->epoch < l->s.next_evaluation - slack) return false;
    if (every > slack) l->s.next_evaluation = every * (floor((l->epoch + slack) / every) + 1);
    return true; /* a shorter time than the slack is over after every step */
}

/* ---- the run ---- */

/* A run is worth more than its checkpoint. */
static void checkpoint(loop *l) {
    if (!l->task->checkpoint || l->s.step == 0) return;
    if (!l->stopped && (!(l->o->checkpoint > 0) || qkv_now() - l->written < l->o->checkpoint)) return;
    if (l->task->checkpoint(l->task->self, &l->s) != QKV_OK) qkv_log(l->ctx, "no checkpoint was written: %s", l->ctx->message);
    l->written = qkv_now();
}

static qkv_status one_epoch(loop *l) {
    qkv_batches b;
    QKV_TRY(qkv_loop_batches(l->ctx, l->task, l->o, l->s.epoch, &b));
    int64_t windows = qkv_loop_windows(b.count, l->o->accumulate);
    qkv_status status = QKV_OK;
    while (status == QKV_OK && l->s.window < windows && l->s.step < l->plan.steps && !l->stopped) {
        status = one_step(l, &b, windows);
        if (status == QKV_OK && evaluation_due(l)) status = evaluate(l);
        if (status == QKV_OK) l->stopped = qkv_stop_asked(l->ctx);
        if (status == QKV_OK) checkpoint(l);
    }
    if (l->s.window >= windows) { /* a damaged checkpoint may name one beyond */
        l->s.window = 0;
        l->s.epoch++;
    }
    qkv_batches_free(l->ctx, &b);
    return status;
}

static qkv_status steps(loop *l) {
    while (l->s.step < l->plan.steps && !l->stopped) QKV_TRY(one_epoch(l));
    return QKV_OK;
}

/* The last evaluation, where one is missing: at the end always; after a stop or a divergence only if there was none yet. */
static qkv_status last_evaluation(loop *l, qkv_status status) {
    if (!l->task->evaluate || l->s.evaluated_at == l->s.step) return QKV_OK;
    bool early = l->stopped || status == QKV_NUMERIC;
    if (early && l->s.evaluations > 0) return QKV_OK;
    if (status == QKV_NUMERIC && l->s.updates == 0) return QKV_OK;
    return evaluate(l);
}

static void finish(loop *l, qkv_status status, qkv_loop_result *result) {
    if (l->task->evaluate && l->s.best_step >= 0) memcpy(l->s.weights, l->s.kept, (size_t)l->s.blocks * sizeof(real));
    *result = (qkv_loop_result){
        .usable = l->task->evaluate ? l->s.best_step >= 0 : status != QKV_NUMERIC,
        .steps = l->s.step,
        .skipped = l->s.skipped,
        .best_step = l->s.best_step,
        .best = l->s.best,
    };
    if (status == QKV_NUMERIC) return;
    qkv_train_event event = {.kind = QKV_TRAIN_END};
    event.u.end = (qkv_train_end){
        .steps = l->s.step,
        .best_step = l->task->evaluate ? l->s.best_step : l->s.step,
        .seconds = qkv_now() - l->begun,
        .tokens_per_second = l->step_seconds > 0 ? (double)l->tokens / l->step_seconds : 0,
        .accuracy = l->s.best.accuracy,
        .macro_f1 = l->s.best.macro_f1,
        .loss = l->s.best.loss,
        .stopped = l->stopped,
    };
    emit(l, &event);
}

static qkv_status run(loop *l, qkv_loop_result *result) {
    qkv_status status = steps(l);
    if (status != QKV_OK && status != QKV_NUMERIC) return status;
    QKV_TRY(last_evaluation(l, status));
    if (status == QKV_OK && l->task->evaluate && l->s.best_step < 0)
        status =
            qkv_fail(l->ctx, QKV_NUMERIC,
                     "the loss on the dev set is not finite after %lld steps; lower the learning rate (lr=%g, embedding-lr=%g)",
                     (long long)l->s.step, l->o->lr, l->o->embedding_lr);
    finish(l, status, result);
    return status == QKV_OK && l->stopped ? qkv_fail(l->ctx, QKV_STOPPED, "stopped on request after step %lld of %lld",
                                                     (long long)l->s.step, (long long)l->plan.steps)
                                          : status;
}

static int64_t embedding_parameters(const qkv_reg *reg) {
    int64_t n = 0;
    for (int64_t i = 0; i < reg->count; i++) n += reg->params[i].embedding ? reg->params[i].rows * reg->params[i].cols : 0;
    return n;
}

static int64_t parameters(const qkv_reg *reg) {
    int64_t n = 0;
    for (int64_t i = 0; i < reg->count; i++) n += reg->params[i].rows * reg->params[i].cols;
    return n;
}

/* grads, m, v and, with a dev set, the kept weights */
static int64_t extra_blocks(const loop *l) {
    return (l->plan.steps > 0 ? 3 : 0) + (l->task->evaluate ? 1 : 0);
}

static qkv_train_plan announce(const loop *l, int64_t bytes) {
    qkv_train_event event = {.kind = QKV_TRAIN_PLAN};
    event.u.plan = (qkv_train_plan){
        .parameters = parameters(l->task->reg),
        .embedding_parameters = embedding_parameters(l->task->reg),
        .bytes = bytes + extra_blocks(l) * l->s.blocks * (int64_t)sizeof(real) + (int64_t)l->plan.arena,
        .activation_bytes = (int64_t)l->plan.arena,
        .steps = l->plan.steps,
        .batches_per_epoch = l->plan.batches_per_epoch,
        .flops_per_step = l->plan.flops_per_step,
    };
    emit(l, &event);
    return event.u.plan;
}

static qkv_status memory(loop *l) {
    if (l->plan.steps > 0) {
        QKV_TRY(qkv_alloc(l->ctx, l->s.blocks, sizeof(real), &l->s.grads));
        QKV_TRY(qkv_alloc_zero(l->ctx, l->s.blocks, sizeof(real), &l->s.m));
        QKV_TRY(qkv_alloc_zero(l->ctx, l->s.blocks, sizeof(real), &l->s.v));
    }
    if (l->task->evaluate) QKV_TRY(qkv_alloc(l->ctx, l->s.blocks, sizeof(real), &l->s.kept));
    QKV_TRY(qkv_arena_create(l->ctx, l->plan.arena, &l->x.arena));
    l->x.weights = l->s.weights;
    l->x.grads = l->s.grads;
    return QKV_OK;
}

static qkv_status plan_and_run(loop *l, int64_t bytes, qkv_loop_result *result) {
    QKV_TRY(qkv_loop_plan_make(l->ctx, l->task, l->o, &l->plan));
    l->schedule = (qkv_schedule){l->o->schedule, qkv_warmup_steps(l->o->warmup, l->plan.steps), l->plan.steps};
    qkv_train_plan plan = announce(l, bytes);
    if (qkv_stop_asked(l->ctx)) return qkv_fail(l->ctx, QKV_STOPPED, "stopped on request before the first step");
    if (l->task->allocate) QKV_TRY(l->task->allocate(l->task->self, &plan, &l->s.weights));
    QKV_TRY(memory(l));
    if (l->task->restore) QKV_TRY(l->task->restore(l->task->self, &l->s));
    return run(l, result);
}

qkv_status qkv_loop_run(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options, const qkv_train_callbacks *callbacks,
                        int64_t bytes, real *weights, qkv_loop_result *result) {
    loop l = {.ctx = ctx, .task = task, .o = options, .callbacks = callbacks, .begun = qkv_now(), .written = qkv_now()};
    const qkv_task_score none = {.loss = NAN, .accuracy = NAN, .macro_f1 = NAN, .metric = NAN};
    l.s = (qkv_train_state){.evaluated_at = -1, .best_step = -1, .best = none, .next_evaluation = options->evaluate};
    l.s.blocks = task->reg->size;
    l.s.weights = weights;
    l.x = (qkv_exec){.ctx = ctx, .reg = task->reg, .seed = options->seed};
    *result = (qkv_loop_result){.best_step = -1, .best = none};
    qkv_status status = plan_and_run(&l, bytes, result);
    qkv_free(ctx, l.s.grads);
    qkv_free(ctx, l.s.m);
    qkv_free(ctx, l.s.v);
    qkv_free(ctx, l.s.kept);
    qkv_arena_free(ctx, &l.x.arena);
    return status;
}
