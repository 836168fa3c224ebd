#include "train/loop.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/number.h"
#include "base/par.h"
#include "ops/optimizer.h"
#include "train/clip.h"
#include "train/loop_plan.h"
#include "train/monitor.h"

enum { GIVE_UP_AFTER = 5, FILL_GRAIN = 1 << 16 };

typedef struct loop {
    qkv_ctx *ctx;
    const qkv_task *task;
    qkv_loop_options options; /* a copy, as piece_tokens is set here */
    const qkv_loop_options *o;
    const qkv_train_callbacks *callbacks;
    qkv_loop_plan plan;
    qkv_schedule schedule;
    qkv_train_state s;
    qkv_exec x;
    double epoch;           /* done, as a fraction */
    double begun, step_seconds, written; /* when the last checkpoint was */
    int64_t tokens;
    int64_t bytes; /* of what does not depend on how it is run */
    bool stopped, out_of_patience;
    bool mean_kept; /* of the last evaluations' weights */
    qkv_monitor *monitor; /* NULL: nobody watches */
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

static qkv_status batch_gradients(loop *l, const int64_t *rows, int64_t count, double scale, double *sum) {
    for (int64_t from = 0, to; from < count; from = to) {
        double loss = 0;
        to = qkv_loop_piece(l->task, l->o, rows, from, count);
        ready(l, true, QKV_PASS_FORWARD);
        QKV_TRY(l->task->step(l->task->self, &l->x, rows + from, to - from, scale, &loss));
        *sum += loss;
    }
    return QKV_OK;
}

static qkv_status gradients(loop *l, const qkv_batches *b, int64_t first, int64_t last, qkv_train_step *report) {
    int64_t units = 0;
    for (int64_t i = first; i < last; i++) units += batch_units(l, b->order + b->first[i], b->first[i + 1] - b->first[i]);
    double scale = units > 0 ? 1 / (double)units : 0, sum = 0;
    clear_gradients(l);
    for (int64_t i = first; i < last; i++) {
        const int64_t *rows = b->order + b->first[i];
        int64_t count = b->first[i + 1] - b->first[i];
        QKV_TRY(batch_gradients(l, rows, count, scale, &sum));
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
    if (l->s.average) {
        a.average = l->s.average;
        a.average_decay = qkv_ema_decay(l->o->ema_decay, l->s.updates);
    }
    ready(l, true, QKV_PASS_OPTIMIZER);
    return qkv_adamw_update(&l->x, &a, l->s.weights, l->s.grads, l->s.m, l->s.v);
}

/* ---- the monitor ---- */

static void tell(const loop *l, qkv_train_monitor what) {
    qkv_train_event event = {.kind = QKV_TRAIN_MONITOR};
    event.u.monitor = what;
    emit(l, &event);
}

static bool look_due(const loop *l) { return l->monitor && (l->s.step % l->o->monitor == 0 || l->s.step + 1 == l->plan.steps); }

/* The rows are the same in every look. */
static qkv_status probe(loop *l) {
    int64_t rows[QKV_MONITOR_PROBE_ROWS];
    const int64_t count = qkv_loop_probe(l->task, l->o, rows);
    ready(l, false, QKV_PASS_FORWARD);
    l->x.watch = qkv_monitor_watch(l->monitor);
    const qkv_status status = l->task->probe && count > 0 ? l->task->probe(l->task->self, &l->x, rows, count) : QKV_OK;
    l->x.watch = NULL;
    return status;
}

static qkv_status monitor(loop *l, bool looks, const qkv_train_step *report) {
    if (!l->monitor) return QKV_OK;
    qkv_monitor_step(l->monitor, l->s.step, report->gradient_norm, report->skipped);
    if (looks) {
        QKV_TRY(probe(l));
        tell(l, qkv_monitor_look(l->monitor));
    } else if (qkv_monitor_has_words(l->monitor)) {
        tell(l, qkv_monitor_tell(l->monitor));
    }
    return QKV_OK;
}

static qkv_status diverged(const loop *l) {
    return qkv_fail(l->ctx, QKV_NUMERIC,
                    "training diverged: %d steps in a row, up to step %lld, gave a loss or gradient that is not finite; lower the "
                    "learning rate (lr=%s, embedding-lr=%s) or warm up longer",
                    GIVE_UP_AFTER, (long long)l->s.step, qkv_plain(l->o->lr).s, qkv_plain(l->o->embedding_lr).s);
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
    const bool looks = look_due(l);
    if (looks) qkv_monitor_before(l->monitor, l->s.weights, l->s.grads);
    if (!report->skipped) QKV_TRY(update(l, factor, report->gradient_norm));
    if (looks) qkv_monitor_after(l->monitor, l->s.weights);

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
    QKV_TRY(monitor(l, looks, report));
    return l->s.skipped_in_row >= GIVE_UP_AFTER ? diverged(l) : QKV_OK;
}

/* ---- evaluation ---- */

/* A metric that is not a number never beats a number. */
static bool better(const qkv_task_score *a, const qkv_task_score *b) {
    if (isnan(b->metric)) return !isnan(a->metric);
    return a->metric > b->metric || (a->metric == b->metric && a->loss < b->loss);
}

/* Scores `weights`, keeps them if they are the best so far, and tells. */
static qkv_status evaluate(loop *l, const real *weights, bool mean) {
    double begun = qkv_now();
    qkv_task_score score = {0};
    ready(l, false, QKV_PASS_FORWARD);
    l->x.weights = weights;
    l->x.step = (uint64_t)l->s.step; /* a resumed run may evaluate before its first step */
    qkv_status status = l->task->evaluate(l->task->self, &l->x, &score);
    l->x.weights = l->s.weights;
    QKV_TRY(status);
    bool finite = isfinite(score.loss) && isfinite(score.metric);
    bool best = score.blind || (finite && (l->s.best_step < 0 || better(&score, &l->s.best)));
    if (best) {
        l->s.best = score;
        l->s.best_step = l->s.step;
        memcpy(l->s.kept, weights, (size_t)l->s.blocks * sizeof(real));
        l->mean_kept = mean;
    }
    if (best || l->s.step == 0) l->s.since_best = 0;
    else if (!score.early) l->s.since_best++;
    qkv_train_event event = {.kind = QKV_TRAIN_EVALUATE};
    event.u.evaluation = (qkv_train_evaluation){
        .step = l->s.step,
        .epoch = l->epoch,
        .loss = score.loss,
        .accuracy = score.accuracy,
        .macro_f1 = score.macro_f1,
        .best = best,
        .seconds = qkv_now() - begun,
        .averaged = mean,
    };
    emit(l, &event);
    return QKV_OK;
}

/* What a step leaves behind to be used. */
static const real *outcome(const loop *l) { return l->s.average ? l->s.average : l->s.weights; }

/* The weights that a run begins with take part in the choice, but cost no patience: no step has had its chance yet. */
static qkv_status first_evaluation(loop *l) {
    if (!l->task->start_counts || !l->task->evaluate || l->s.step > 0) return QKV_OK;
    l->s.evaluated_at = 0;
    QKV_TRY(evaluate(l, outcome(l), false));
    l->stopped = qkv_stop_asked(l->ctx);
    return QKV_OK;
}

static qkv_status regular_evaluation(loop *l) {
    if (l->s.snapshots.slots > 0) qkv_snapshots_put(&l->s.snapshots, l->s.evaluations, l->s.weights);
    l->s.evaluated_at = l->s.step;
    l->s.evaluations++;
    return l->task->evaluate ? evaluate(l, outcome(l), false) : QKV_OK;
}

static bool evaluation_due(loop *l) {
    const double slack = 1e-9, every = l->o->evaluate;
    if (!(every > 0) || l->epoch < l->s.next_evaluation - slack) return false;
    if (every > slack) l->s.next_evaluation = every * (floor((l->epoch + slack) / every) + 1);
    return true; /* a shorter time than the slack is over after every step */
}

static bool out_of_patience(const loop *l) { return l->o->patience > 0 && l->s.since_best >= l->o->patience; }

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
    while (status == QKV_OK && l->s.window < windows && l->s.step < l->plan.steps && !l->stopped && !out_of_patience(l)) {
        status = one_step(l, &b, windows);
        if (status == QKV_OK && evaluation_due(l)) status = regular_evaluation(l);
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
    QKV_TRY(first_evaluation(l));
    while (l->s.step < l->plan.steps && !l->stopped && !out_of_patience(l)) QKV_TRY(one_epoch(l));
    l->out_of_patience = l->s.step < l->plan.steps && !l->stopped;
    return QKV_OK;
}

/* The last evaluation, where one is missing: at the end always; after a stop or a divergence only if there was none yet. */
static qkv_status last_evaluation(loop *l, qkv_status status) {
    if (l->s.evaluated_at == l->s.step) return QKV_OK;
    bool early = l->stopped || status == QKV_NUMERIC;
    if (early && l->s.evaluations > 0) return QKV_OK;
    if (status == QKV_NUMERIC && l->s.updates == 0) return QKV_OK;
    return regular_evaluation(l);
}

/* The mean over the last evaluations, of a run that came to its end. The gradients are done with: it is made in their place. */
static qkv_status mean_evaluation(loop *l, qkv_status status) {
    if (status != QKV_OK || l->stopped || qkv_snapshots_held(&l->s.snapshots, l->s.evaluations) < 2) return QKV_OK;
    ready(l, false, QKV_PASS_OPTIMIZER);
    QKV_TRY(qkv_snapshots_mean(&l->x, &l->s.snapshots, l->s.evaluations, l->s.grads));
    if (l->task->evaluate) return evaluate(l, l->s.grads, true);
    memcpy(l->s.weights, l->s.grads, (size_t)l->s.blocks * sizeof(real));
    l->mean_kept = true;
    return QKV_OK;
}

static void finish(loop *l, qkv_status status, qkv_loop_result *result) {
    const bool begun = l->s.step > 0 || !l->stopped; /* else there is nothing that is worth replacing a file */
    const real *kept = l->task->evaluate ? (l->s.best_step >= 0 ? l->s.kept : NULL) : l->s.average;
    if (kept) memcpy(l->s.weights, kept, (size_t)l->s.blocks * sizeof(real));
    *result = (qkv_loop_result){
        .usable = begun && (l->task->evaluate ? l->s.best_step >= 0 : status != QKV_NUMERIC),
        .steps = l->s.step,
        .skipped = l->s.skipped,
        .best_step = l->s.best_step,
        .best = l->s.best,
        .averaged = l->mean_kept || (l->s.average && l->s.best_step != 0),
        .out_of_patience = l->out_of_patience,
    };
    if (l->monitor) tell(l, qkv_monitor_end(l->monitor));
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
        .out_of_patience = l->out_of_patience,
        .averaged = result->averaged,
        .rebuilt = l->x.rebuilt,
    };
    emit(l, &event);
}

static qkv_status run(loop *l, qkv_loop_result *result) {
    qkv_status status = steps(l);
    if (status != QKV_OK && status != QKV_NUMERIC) return status;
    QKV_TRY(last_evaluation(l, status));
    QKV_TRY(mean_evaluation(l, status));
    if (status == QKV_OK && l->task->evaluate && l->s.best_step < 0)
        status =
            qkv_fail(l->ctx, QKV_NUMERIC,
                     "the loss on the dev set is not finite after %lld steps; lower the learning rate (lr=%s, embedding-lr=%s)",
                     (long long)l->s.step, qkv_plain(l->o->lr).s, qkv_plain(l->o->embedding_lr).s);
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

static bool watched(const loop *l) { return l->o->monitor > 0 && l->plan.steps > 0; }

static bool moving_average(const loop *l) { return l->o->average == QKV_AVERAGE_EMA && l->plan.steps > 0; }

/* No more than there will be evaluations; a mean of one would say nothing. */
static int64_t snapshot_slots(const loop *l) {
    if (l->o->average != QKV_AVERAGE_CHECKPOINTS || !(l->o->evaluate > 0) || l->plan.steps < 2) return 0;
    return l->o->average_last < l->plan.steps ? l->o->average_last : l->plan.steps;
}

/* grads, m, v, averages and, with a dev set, the kept weights */
static int64_t extra_blocks(const loop *l) {
    return (l->plan.steps > 0 ? 3 : 0) + (l->task->evaluate ? 1 : 0) + (moving_average(l) ? 1 : 0) + snapshot_slots(l);
}

/* The whole run's bytes; what it plans stays in l->plan. */
static qkv_status plan_way(void *self, qkv_way way, int64_t *bytes) {
    loop *l = self;
    int64_t own = 0;
    l->options.piece_tokens = l->s.piece_tokens = way.piece_tokens;
    if (l->task->choose) QKV_TRY(l->task->choose(l->task->self, way, &own));
    QKV_TRY(qkv_loop_plan_make(l->ctx, l->task, l->o, &l->plan));
    int64_t batches = l->plan.steps > 0 ? qkv_batches_peak(l->task->rows) : 0;
    if (watched(l)) own += qkv_monitor_bytes(l->task->reg, l->task->attention_layers, l->task->attention_heads);
    *bytes = l->bytes + own + extra_blocks(l) * l->s.blocks * (int64_t)sizeof(real) + (int64_t)l->plan.arena + batches;
    return QKV_OK;
}

static qkv_status choose_way(loop *l, qkv_choice *choice) {
    const qkv_budget budget = {l->o->room, l->o->batch_tokens, qkv_longest_row(l->task->offset, l->task->rows), plan_way, l};
    return qkv_budget_choose(&budget, choice);
}

static qkv_train_plan announce(const loop *l, const qkv_choice *choice) {
    qkv_train_event event = {.kind = QKV_TRAIN_PLAN};
    event.u.plan = (qkv_train_plan){
        .network = l->task->network,
        .parameters = parameters(l->task->reg),
        .embedding_parameters = embedding_parameters(l->task->reg),
        .bytes = choice->bytes,
        .before_bytes = l->o->before_bytes,
        .activation_bytes = (int64_t)l->plan.arena,
        .steps = l->plan.steps,
        .batches_per_epoch = l->plan.batches_per_epoch,
        .epochs = l->o->steps > 0 ? 0 : l->o->epochs,
        .flops_per_step = l->plan.flops_per_step,
        .limit = l->o->room.limit,
        .recompute = qkv_saving_any(choice->way.saving),
        .recompute_part = (int)choice->way.saving.again,
        .recompute_every = choice->way.saving.every,
        .ffn_chunk = choice->way.saving.ffn_rows,
        .recompute_share = l->plan.recompute_share,
        .piece_tokens = choice->way.piece_tokens,
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
    if (moving_average(l)) {
        QKV_TRY(qkv_alloc(l->ctx, l->s.blocks, sizeof(real), &l->s.average));
        memcpy(l->s.average, l->s.weights, (size_t)l->s.blocks * sizeof(real));
    }
    if (watched(l))
        QKV_TRY(qkv_monitor_create(l->ctx, l->task->reg, l->task->attention_layers, l->task->attention_heads, &l->monitor));
    l->s.snapshots = (qkv_snapshots){.slots = snapshot_slots(l), .size = l->s.blocks};
    if (l->s.snapshots.slots > 0) QKV_TRY(qkv_alloc(l->ctx, l->s.snapshots.slots * l->s.blocks, sizeof(real), &l->s.snapshots.blocks));
    QKV_TRY(qkv_arena_create(l->ctx, l->plan.arena, &l->x.arena));
    l->x.weights = l->s.weights;
    l->x.grads = l->s.grads;
    return QKV_OK;
}

static qkv_status restore(loop *l) {
    const int64_t pieces = l->s.piece_tokens;
    if (!l->task->restore) return QKV_OK;
    QKV_TRY(l->task->restore(l->task->self, &l->s));
    if (l->s.piece_tokens == pieces) return QKV_OK;
    return qkv_fail(l->ctx, QKV_BAD_ARGUMENT,
                    "the interrupted run walked its batches in pieces of %lld tokens, this one would in pieces of %lld (0: as a whole)",
                    (long long)l->s.piece_tokens, (long long)pieces);
}

static qkv_status plan_and_run(loop *l, qkv_loop_result *result) {
    qkv_choice choice;
    QKV_TRY(choose_way(l, &choice));
    l->schedule = (qkv_schedule){l->o->schedule, qkv_warmup_steps(l->o->warmup, l->plan.steps), l->plan.steps};
    qkv_train_plan plan = announce(l, &choice);
    if (qkv_stop_asked(l->ctx)) return qkv_fail(l->ctx, QKV_STOPPED, "stopped on request before the first step");
    if (l->task->allocate) QKV_TRY(l->task->allocate(l->task->self, &plan, &l->s.weights));
    QKV_TRY(memory(l));
    QKV_TRY(restore(l));
    return run(l, result);
}

qkv_status qkv_loop_run(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options, const qkv_train_callbacks *callbacks,
                        int64_t bytes, real *weights, qkv_loop_result *result) {
    loop l = {.ctx = ctx, .task = task, .options = *options, .bytes = bytes, .callbacks = callbacks};
    l.begun = l.written = qkv_now();
    l.o = &l.options;
    const qkv_task_score none = {.loss = NAN, .accuracy = NAN, .macro_f1 = NAN, .metric = NAN};
    l.s = (qkv_train_state){.evaluated_at = -1, .best_step = -1, .best = none, .next_evaluation = options->evaluate};
    l.s.blocks = task->reg->size;
    l.s.weights = weights;
    l.x = (qkv_exec){.ctx = ctx, .reg = task->reg, .seed = options->seed};
    *result = (qkv_loop_result){.best_step = -1, .best = none};
    qkv_status status = plan_and_run(&l, result);
    qkv_free(ctx, l.s.grads);
    qkv_free(ctx, l.s.m);
    qkv_free(ctx, l.s.v);
    qkv_free(ctx, l.s.kept);
    qkv_free(ctx, l.s.average);
    qkv_free(ctx, l.s.snapshots.blocks);
    qkv_monitor_free(l.monitor);
    qkv_arena_free(ctx, &l.x.arena);
    return status;
}

qkv_status qkv_loop_need(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options, int64_t bytes, qkv_way way,
                         int64_t *need) {
    loop l = {.ctx = ctx, .task = task, .options = *options, .bytes = bytes};
    l.o = &l.options;
    l.s.blocks = task->reg->size;
    return plan_way(&l, way, need);
}
