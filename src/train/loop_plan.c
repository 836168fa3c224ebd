#include "train/loop_plan.h"

#include <math.h>

#include "base/cpu.h"
#include "ops/optimizer.h"
#include "train/monitor.h"

static const double LONG = 2; /* seconds of planning that are said */

/* What the memory of a batch depends on, each of them only upwards: a batch that is no larger than one already planned in
 * any of these needs no plan of its own. */
typedef struct shape {
    int64_t tokens, rows, longest, units;
    int64_t segments, most_segments, longest_segment; /* of all rows, of one, and in tokens */
} shape;

typedef struct planner {
    qkv_ctx *ctx;
    const qkv_task *task;
    const qkv_loop_options *o;
    qkv_exec x;
    shape *front; /* planned shapes that no other one covers */
    int64_t count, capacity;
} planner;

static void clear_arena(qkv_arena *a) {
    qkv_arena_low_release(a, 0);
    qkv_arena_high_release(a, 0);
}

static bool covers(shape a, shape b) {
    return a.tokens >= b.tokens && a.rows >= b.rows && a.longest >= b.longest && a.units >= b.units && a.segments >= b.segments &&
           a.most_segments >= b.most_segments && a.longest_segment >= b.longest_segment;
}

static bool planned(const planner *p, shape s) {
    for (int64_t i = 0; i < p->count; i++) {
        if (covers(p->front[i], s)) return true;
    }
    return false;
}

static qkv_status remember(planner *p, shape s) {
    int64_t kept = 0;
    for (int64_t i = 0; i < p->count; i++) {
        if (!covers(s, p->front[i])) p->front[kept++] = p->front[i];
    }
    p->count = kept;
    if (p->count == p->capacity) {
        QKV_TRY(qkv_grow(p->ctx, 2 * p->capacity + 8, sizeof *p->front, &p->front));
        p->capacity = 2 * p->capacity + 8;
    }
    p->front[p->count++] = s;
    return QKV_OK;
}

static void measure_segments(const qkv_task *t, int64_t row, shape *s) {
    if (!t->segment_at) return;
    const int64_t from = t->segment_at[row], to = t->segment_at[row + 1];
    s->segments += to - from;
    if (to - from > s->most_segments) s->most_segments = to - from;
    for (int64_t i = from; i < to; i++)
        if (t->segment_size[i] > s->longest_segment) s->longest_segment = t->segment_size[i];
}

static qkv_status plan_piece(planner *p, const int64_t *rows, int64_t count, bool always) {
    shape s = {.rows = count, .units = p->task->units ? p->task->units(p->task->self, rows, count) : count};
    for (int64_t i = 0; i < count; i++) {
        int64_t n = p->task->offset[rows[i] + 1] - p->task->offset[rows[i]];
        s.tokens += n;
        if (n > s.longest) s.longest = n;
        measure_segments(p->task, rows[i], &s);
    }
    const bool known = !p->task->uneven && planned(p, s);
    if (known && !always) return QKV_OK;
    clear_arena(&p->x.arena);
    double loss = 0;
    QKV_TRY(p->task->step(p->task->self, &p->x, rows, count, 1, &loss));
    return known || p->task->uneven ? QKV_OK : remember(p, s);
}

int64_t qkv_loop_piece(const qkv_task *task, const qkv_loop_options *o, const int64_t *rows, int64_t from, int64_t count) {
    int64_t to = from, tokens = 0;
    if (o->piece_tokens <= 0) return count;
    for (; to < count; to++) {
        tokens += task->offset[rows[to] + 1] - task->offset[rows[to]];
        if (to > from && tokens > o->piece_tokens) break;
    }
    return to;
}

int64_t qkv_loop_probe(const qkv_task *task, const qkv_loop_options *o, int64_t *rows) {
    const int64_t piece = o->piece_tokens > 0 ? o->piece_tokens : o->batch_tokens;
    const int64_t most = piece < QKV_MONITOR_PROBE_TOKENS ? piece : QKV_MONITOR_PROBE_TOKENS;
    int64_t want = task->rows < QKV_MONITOR_PROBE_ROWS ? task->rows : QKV_MONITOR_PROBE_ROWS, tokens = 0, count = 0;
    if (o->batch_rows > 0 && o->batch_rows < want) want = o->batch_rows;
    for (int64_t i = 0; i < want; i++) {
        const int64_t row = i * task->rows / want;
        tokens += task->offset[row + 1] - task->offset[row];
        if (count > 0 && tokens > most) break;
        rows[count++] = row;
    }
    return count;
}

static qkv_status plan_batch(planner *p, const int64_t *rows, int64_t count, bool always) {
    for (int64_t from = 0, to; from < count; from = to) {
        to = qkv_loop_piece(p->task, p->o, rows, from, count);
        QKV_TRY(plan_piece(p, rows + from, to - from, always));
    }
    return QKV_OK;
}

/* How many windows of epoch `epoch`, which has `windows`, are run when `steps` were counted before it. */
static int64_t windows_taken(const qkv_loop_options *o, int64_t epoch, int64_t windows, int64_t steps) {
    if (o->steps > 0) return o->steps - steps < windows ? o->steps - steps : windows;
    double left = o->epochs - (double)epoch;
    if (left >= 1) return windows;
    int64_t taken = (int64_t)ceil(left * (double)windows - 1e-9);
    return taken < 1 ? 1 : taken;
}

static bool more_epochs(const qkv_loop_options *o, int64_t epoch, int64_t steps) {
    return o->steps > 0 ? steps < o->steps : (double)epoch < o->epochs - 1e-9;
}

qkv_status qkv_loop_batches(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *o, int64_t epoch, qkv_batches *batches) {
    int64_t max_rows = o->batch_rows > 0 ? o->batch_rows : o->batch_tokens;
    return qkv_batches_make(ctx, task->offset, task->rows, o->batch_tokens, max_rows, o->seed, epoch, batches);
}

static double share_again(const qkv_tally *t) {
    double again = 0;
    for (int k = 0; k < QKV_CLASSES; k++) again += t->flops[QKV_PASS_RECOMPUTE][k];
    const double others = qkv_tally_flops(t) - again;
    return others > 0 ? again / others : 0;
}

static qkv_status plan_epoch(planner *p, int64_t epoch, qkv_loop_plan *plan) {
    qkv_batches b;
    QKV_TRY(qkv_loop_batches(p->ctx, p->task, p->o, epoch, &b));
    int64_t windows = windows_taken(p->o, epoch, qkv_loop_windows(b.count, p->o->accumulate), plan->steps);
    int64_t count = windows * p->o->accumulate < b.count ? windows * p->o->accumulate : b.count;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        status = plan_batch(p, b.order + b.first[i], b.first[i + 1] - b.first[i], epoch == 0);
    }
    if (epoch == 0) {
        plan->batches_per_epoch = b.count;
        plan->flops_per_step = qkv_tally_flops(&p->x.tally) / (double)windows;
        plan->recompute_share = share_again(&p->x.tally);
    }
    plan->steps += windows;
    qkv_batches_free(p->ctx, &b);
    return status;
}

static qkv_status plan_update(planner *p, qkv_loop_plan *plan) {
    p->x.tally = (qkv_tally){0};
    p->x.pass = QKV_PASS_OPTIMIZER;
    clear_arena(&p->x.arena);
    double norm;
    QKV_TRY(qkv_gradient_norm(&p->x, NULL, &norm));
    qkv_adamw_options any = {.step = 1, .average_decay = p->o->average == QKV_AVERAGE_EMA ? qkv_ema_decay(p->o->ema_decay, 1) : 0};
    QKV_TRY(qkv_adamw_update(&p->x, &any, NULL, NULL, NULL, NULL));
    plan->flops_per_step += qkv_tally_flops(&p->x.tally);
    return QKV_OK;
}

static qkv_status plan_evaluation(planner *p) {
    p->x.keep = p->x.train = false;
    p->x.pass = QKV_PASS_FORWARD;
    clear_arena(&p->x.arena);
    qkv_task_score score;
    return p->task->evaluate(p->task->self, &p->x, &score);
}

static qkv_status plan_probe(planner *p) {
    int64_t rows[QKV_MONITOR_PROBE_ROWS];
    qkv_watch watch = {.layers = p->task->attention_layers, .heads = p->task->attention_heads};
    const int64_t count = qkv_loop_probe(p->task, p->o, rows);
    if (!p->task->probe || p->o->monitor <= 0 || count == 0) return QKV_OK;
    p->x.keep = p->x.train = false;
    p->x.pass = QKV_PASS_FORWARD;
    clear_arena(&p->x.arena);
    p->x.watch = &watch;
    const qkv_status status = p->task->probe(p->task->self, &p->x, rows, count);
    p->x.watch = NULL;
    return status;
}

/* Every batch of every epoch is looked at: the memory of a run is that of its largest one. */
static void tell_if_long(const planner *p, double begun, int64_t epoch, qkv_loop_plan *plan) {
    const double seconds = qkv_now() - begun, epochs = p->o->steps > 0 ? (double)p->o->steps / (double)plan->steps * (double)(epoch + 1) : p->o->epochs;
    if (plan->told || seconds < LONG) return;
    qkv_log(p->ctx, "%.0f epochs are planned batch by batch before they begin, which takes about %.0f s; fewer of them are planned sooner", epochs,
            seconds / (double)(epoch + 1) * epochs);
    plan->told = true;
}

static qkv_status plan_all(planner *p, qkv_loop_plan *plan) {
    const double begun = qkv_now();
    for (int64_t epoch = 0; p->task->rows > 0 && more_epochs(p->o, epoch, plan->steps); epoch++) {
        if (qkv_stop_asked(p->ctx)) return qkv_fail(p->ctx, QKV_STOPPED, "stopped on request while the steps were planned");
        QKV_TRY(plan_epoch(p, epoch, plan));
        tell_if_long(p, begun, epoch, plan);
    }
    if (plan->steps > 0) QKV_TRY(plan_update(p, plan));
    if (plan->steps > 0) QKV_TRY(plan_probe(p));
    if (p->task->evaluate) QKV_TRY(plan_evaluation(p));
    plan->arena = p->x.arena.peak;
    return QKV_OK;
}

qkv_status qkv_loop_plan_make(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options, qkv_loop_plan *plan) {
    *plan = (qkv_loop_plan){.told = plan->told};
    planner p = {.ctx = ctx, .task = task, .o = options};
    p.x = (qkv_exec){.ctx = ctx, .plan = true, .keep = true, .train = true, .reg = task->reg, .seed = options->seed, .step = 1};
    qkv_status status = plan_all(&p, plan);
    qkv_free(ctx, p.front);
    return status;
}
