#include "ops/recurrence.h"

#include <string.h>

#include "base/par.h"
#include "kernels/cost.h"
#include "ops/linear.h"
#include "ops/split.h"

/* ---- packing ---- */

int64_t qkv_recurrence_packed_size(int64_t gates, int64_t units) {
    return qkv_recur_packed_size(gates, units);
}

typedef struct pack_job {
    const qkv_kernels *kernels;
    int64_t gates, units;
    bool transposed;
    const real *weight;
    real *packed;
} pack_job;

enum { PACK_UNITS = 64 };

static void pack_chunk(void *arg, int64_t chunk, int thread) {
    const pack_job *j = arg;
    (void)thread;
    const qkv_range u = qkv_chunk_range(j->units, PACK_UNITS, chunk);
    const int64_t k = j->gates * j->units;
    if (j->transposed)
        j->kernels->gemm_pack(k, j->units, 0, k, u.from, u.to, j->weight, j->units, 1, j->packed);
    else
        j->kernels->recur_pack(j->gates, j->units, u.from, u.to, j->weight, j->packed);
}

static void pack(const qkv_ctx *ctx, bool transposed, const real *weight, int64_t gates, int64_t units, real *packed) {
    pack_job j = {ctx->kernels, gates, units, transposed, weight, packed};
    qkv_par(ctx, qkv_chunks(units, PACK_UNITS), pack_chunk, &j);
}

void qkv_recurrence_pack(const qkv_ctx *ctx, const real *weight, int64_t gates, int64_t units, real *packed) {
    pack(ctx, false, weight, gates, units, packed);
}

/* ---- the walk ---- */

enum { PHASES = 2 };

/* Steps, each cut into lanes (a direction of a group of sequences) and columns (ranges of units). A chunk is one column of one
 * phase of one step of one lane and waits for all columns of what came before in its lane; where a step is too small for
 * that, a chunk is all steps of a lane. */
typedef struct walk {
    const qkv_kernels *kernels;
    const qkv_recurrence *r;
    bool backward;
    int64_t sequences, steps; /* that have rows; of the longest */
    int64_t rows, products;
    int64_t group, groups;   /* sequences of a group */
    int64_t column, columns; /* units of a column */
    int phases;
    int64_t *first[2];     /* row of the first step of each sequence, longest sequence first */
    int64_t *running;      /* [steps + 1] sequences that run at a step */
    int64_t *starts;       /* [steps + 1] the first chunk of each step, in the order of the walk */
    qkv_par_counter *done; /* [lanes][columns] steps and phases that are done; each on a line of its own */
    qkv_mat gates, hidden, cells, dhidden, drecur;
    real *state[2], *carry; /* dense; a row a sequence and direction. state[phase] of two, in turn, where there is one phase */
    int64_t ld_state[2];
    const real *packed[2][PHASES], *vector[2];
    const qkv_recur_ends *ends; /* or NULL */
    bool started, carried;      /* something stands before the first step; a gradient of c comes from behind the last */
    int64_t *who;               /* where there are ends: the sequences, the longest first */
    real *hidden0, *cells0;     /* dense */
} walk;

enum { COUNTER_LINE = 64 / sizeof(qkv_par_counter) };

/* Units of a column and sequences of a group: of the problem alone. A column should be worth several microseconds, and a group be
 * small enough that its state stays in the cache. Few rows cost about as much as four: the weights have to be read. */
static void cut(walk *w) {
    const double WORTH = 2e6;
    const int64_t MOST_ROWS = 96, LEAST_ROWS = 6, GROUPS = 8;
    const int64_t units = w->r->units, n = w->sequences > 0 ? w->sequences : 1;
    const int64_t strip = qkv_chunks(units, 64) * 64 == units ? 64 : QKV_PANEL, strips = qkv_chunks(units, strip);
    const double row = 2.0 * (double)qkv_recur_gates(w->r->cell) * (double)units * (double)units;
    w->groups = qkv_chunks(n, MOST_ROWS);
    w->group = qkv_chunks(n, w->groups);
    int64_t columns = (int64_t)((double)(w->group > 4 ? w->group : 4) * row / WORTH);
    if (columns > strips) columns = strips;
    if (columns < 2) {
        columns = 1;
        w->group = qkv_chunks(qkv_chunks(n, GROUPS), LEAST_ROWS) * LEAST_ROWS;
        if (w->group > MOST_ROWS) w->group = MOST_ROWS;
    }
    w->groups = qkv_chunks(n, w->group);
    w->column = qkv_chunks(strips, columns) * strip;
    w->columns = qkv_chunks(units, w->column);
}

static int64_t lanes_of(const walk *w) {
    return w->groups * w->r->directions;
}

/* Sequences of a group that run at a step. */
static int64_t running(const walk *w, int64_t group, int64_t step) {
    int64_t n = (step < w->steps ? w->running[step] : 0) - group * w->group;
    return n < 0 ? 0 : n < w->group ? n : w->group;
}

/* One column of one phase of one step of one lane. */
static void step(const walk *w, int64_t at, int phase, int64_t lane, int64_t column) {
    const qkv_recurrence *r = w->r;
    const int64_t direction = lane % r->directions, group = lane / r->directions, d = r->units, sign = direction ? -1 : 1;
    const int64_t dense = direction * w->sequences + group * w->group, gates = qkv_recur_gates(r->cell);
    const bool two = w->phases == 2;
    const qkv_range u = qkv_chunk_range(d, w->column, column);
    qkv_recur s = {.cell = r->cell,
                   .phase = phase,
                   .units = d,
                   .u0 = u.from,
                   .u1 = u.to,
                   .rows = running(w, group, at),
                   .start = at == 0,
                   .first = w->first[direction] + group * w->group,
                   .at = sign * at,
                   .before = sign * (at - 1),
                   .packed = w->packed[direction][phase],
                   .vector = w->vector[direction],
                   .hidden0 = w->hidden0 ? w->hidden0 + dense * d : NULL,
                   .cells0 = w->cells0 ? w->cells0 + dense * d : NULL,
                   .gates = w->gates.p + direction * gates * d,
                   .ld_gates = w->gates.ld,
                   .hidden = w->hidden.p + direction * d,
                   .ld_hidden = w->hidden.ld,
                   .cells = w->cells.p ? w->cells.p + direction * d : NULL,
                   .ld_cells = w->cells.ld};
    /* One phase: what it reads and what it writes change places from step to step. Two: each reads what the other wrote. */
    const int reads = two ? phase : (int)(at & 1), writes = two ? 1 - phase : 1 - (int)(at & 1);
    s.state = w->state[reads] + dense * w->ld_state[reads];
    s.next = w->state[writes] + dense * w->ld_state[writes];
    s.ld_state = w->ld_state[reads];
    s.ld_next = w->ld_state[writes];
    if (!w->backward) {
        s.going = at > 0 || w->started ? s.rows : 0;
        w->kernels->recur_forward(&s);
        return;
    }
    s.going = phase == 0 ? running(w, group, at + 1) : at > 0 || w->started ? s.rows : 0;
    s.carried = w->carried;
    s.dhidden = w->dhidden.p + direction * d;
    s.ld_dhidden = w->dhidden.ld;
    s.carry = w->carry + dense * d;
    s.drecur = w->drecur.p ? w->drecur.p + direction * gates * d : NULL;
    s.ld_drecur = w->drecur.ld;
    w->kernels->recur_backward(&s);
}

/* The step that comes as number `turn`. */
static int64_t step_of(const walk *w, int64_t turn) {
    return w->backward ? w->steps - 1 - turn : turn;
}

static int64_t lanes_running(const walk *w, int64_t at) {
    return qkv_chunks(w->running[at], w->group) * w->r->directions;
}

static void lane_chunk(void *arg, int64_t chunk, int thread) {
    const walk *w = arg;
    (void)thread;
    for (int64_t turn = 0; turn < w->steps; turn++)
        for (int phase = 0; phase < w->phases && chunk < lanes_running(w, step_of(w, turn)); phase++)
            for (int64_t c = 0; c < w->columns; c++) step(w, step_of(w, turn), phase, chunk, c);
}

static void step_chunk(void *arg, int64_t chunk, int thread) {
    const walk *w = arg;
    (void)thread;
    int64_t turn = 0;
    for (int64_t more = w->steps; more > 1;) { /* the last turn whose first chunk is not beyond this one */
        const int64_t half = more / 2;
        if (w->starts[turn + half] <= chunk)
            turn += half, more -= half;
        else
            more = half;
    }
    const int64_t at = step_of(w, turn), lanes = lanes_running(w, at), rest = chunk - w->starts[turn];
    const int64_t column = rest % w->columns, lane = rest / w->columns % lanes, phase = rest / w->columns / lanes,
                  now = turn * w->phases + phase;
    qkv_par_counter *done = w->done + lane * w->columns * COUNTER_LINE;
    for (int64_t c = 0; c < w->columns; c++) qkv_par_wait(done + c * COUNTER_LINE, now);
    step(w, at, (int)phase, lane, column);
    qkv_par_post(done + column * COUNTER_LINE, now + 1);
}

/* The first turn of each lane. */
static void set_counters(const walk *w) {
    int64_t lanes = 0;
    for (int64_t turn = 0; turn < w->steps; turn++)
        for (const int64_t now = lanes_running(w, step_of(w, turn)); lanes < now; lanes++)
            for (int64_t c = 0; c < w->columns; c++) w->done[(lanes * w->columns + c) * COUNTER_LINE].value = turn * w->phases;
}

static void run(const qkv_ctx *ctx, walk *w) {
    if (w->columns == 1) {
        qkv_par(ctx, lanes_of(w), lane_chunk, w);
        return;
    }
    w->starts[0] = 0;
    for (int64_t turn = 0; turn < w->steps; turn++)
        w->starts[turn + 1] = w->starts[turn] + lanes_running(w, step_of(w, turn)) * w->columns * w->phases;
    set_counters(w);
    qkv_par_in_order(ctx, w->starts[w->steps], step_chunk, w);
}

/* ---- the order of the sequences ---- */

/* Sequences by length, the longest first, those of one length as they come: a merge from runs of 1 on. */
static const int64_t *sort(const int64_t *offset, int64_t n, int64_t *order, int64_t *spare) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t from = 0; from < n; from += 2 * run) {
            const int64_t middle = from + run < n ? from + run : n, end = from + 2 * run < n ? from + 2 * run : n;
            for (int64_t a = from, b = middle, to = from; to < end; to++) {
                const bool left =
                    b >= end || (a < middle && offset[order[a] + 1] - offset[order[a]] >= offset[order[b] + 1] - offset[order[b]]);
                spare[to] = order[left ? a++ : b++];
            }
        }
        int64_t *done = spare;
        spare = order;
        order = done;
    }
    return order;
}

/* In a plan, too: what memory is needed depends on the longest sequence. */
static void measure(walk *w, const qkv_batch *batch) {
    for (int64_t s = 0; s < batch->n_seq; s++) {
        const int64_t n = batch->offset[s + 1] - batch->offset[s];
        w->sequences += n > 0;
        w->rows += n;
        if (n > w->steps) w->steps = n;
    }
    w->products = w->started ? w->rows : w->rows - w->sequences;
}

static void fill_order(walk *w, const qkv_batch *batch, int64_t *order, int64_t *spare) {
    const int64_t *sorted = sort(batch->offset, batch->n_seq, order, spare);
    for (int64_t i = 0; i < w->sequences; i++) {
        w->first[0][i] = batch->offset[sorted[i]];
        if (w->r->directions == 2) w->first[1][i] = batch->offset[sorted[i] + 1] - 1;
        if (w->who) w->who[i] = sorted[i];
    }
    int64_t n = w->sequences;
    for (int64_t t = 0; t < w->steps; t++) {
        while (n > 0 && batch->offset[sorted[n - 1] + 1] - batch->offset[sorted[n - 1]] <= t) n--;
        w->running[t] = n;
    }
}

static qkv_status prepare_order(qkv_exec *x, walk *w, const qkv_batch *batch) {
    int64_t *order, *spare;
    for (int i = 0; i < w->r->directions; i++) QKV_TRY(qkv_temp_array(x, w->sequences, sizeof(int64_t), &w->first[i]));
    QKV_TRY(qkv_temp_array(x, w->steps, sizeof(int64_t), &w->running));
    QKV_TRY(qkv_temp_array(x, w->steps + 1, sizeof(int64_t), &w->starts));
    QKV_TRY(qkv_temp_array(x, lanes_of(w) * w->columns * COUNTER_LINE, sizeof *w->done, &w->done));
    if (w->ends) QKV_TRY(qkv_temp_array(x, w->sequences, sizeof(int64_t), &w->who));
    QKV_TRY(qkv_temp_array(x, batch->n_seq, sizeof(int64_t), &order));
    QKV_TRY(qkv_temp_array(x, batch->n_seq, sizeof(int64_t), &spare));
    if (!x->plan) fill_order(w, batch, order, spare);
    return QKV_OK;
}

/* ---- memory ---- */

static int phase_gates(const qkv_recurrence *r, int phase) {
    return r->cell != QKV_RECUR_GRU_BEFORE ? qkv_recur_gates(r->cell) : phase == 0 ? 2 : 1;
}

/* Between the rows of a matrix in the order of the batch and dense ones, a direction after the other. */
static void gather(const walk *w, qkv_mat from, real *dense) {
    const int64_t d = w->r->units;
    for (int i = 0; i < w->r->directions; i++)
        for (int64_t s = 0; s < w->sequences; s++)
            memcpy(dense + (i * w->sequences + s) * d, from.p + w->who[s] * from.ld + i * d, (size_t)d * sizeof(real));
}
static void scatter(const walk *w, const real *dense, qkv_mat to) {
    const int64_t d = w->r->units;
    for (int64_t s = 0; s < to.rows; s++) memset(to.p + s * to.ld, 0, (size_t)to.cols * sizeof(real));
    for (int i = 0; i < w->r->directions; i++)
        for (int64_t s = 0; s < w->sequences; s++)
            memcpy(to.p + w->who[s] * to.ld + i * d, dense + (i * w->sequences + s) * d, (size_t)d * sizeof(real));
}

static qkv_status prepare_ends(qkv_exec *x, walk *w) {
    const int64_t rows = w->r->directions * w->sequences;
    qkv_mat hidden = {0}, cells = {0};
    if (w->started) QKV_TRY(qkv_temp(x, rows, w->r->units, &hidden));
    if (w->started && w->r->cell == QKV_RECUR_LSTM) QKV_TRY(qkv_temp(x, rows, w->r->units, &cells));
    if (x->plan || w->rows == 0) return QKV_OK;
    w->hidden0 = hidden.p;
    w->cells0 = cells.p;
    if (hidden.p) gather(w, w->ends->hidden, hidden.p);
    if (cells.p) gather(w, w->ends->cells, cells.p);
    if (hidden.p && !w->backward) memcpy(w->state[0], hidden.p, (size_t)(rows * w->r->units) * sizeof(real));
    if (w->carried) gather(w, w->ends->dlast, w->carry);
    return QKV_OK;
}

static qkv_status prepare_state(qkv_exec *x, walk *w) {
    for (int i = 0; i < 2; i++) {
        qkv_mat m;
        const int64_t most = phase_gates(w->r, w->phases == 2 ? i : 0);
        w->ld_state[i] = w->backward ? most * w->r->units : w->r->units;
        QKV_TRY(qkv_temp(x, w->r->directions * w->sequences, w->ld_state[i], &m));
        w->state[i] = m.p;
    }
    qkv_mat carry = {0};
    if (w->backward && w->r->cell >= QKV_RECUR_LSTM) QKV_TRY(qkv_temp(x, w->r->directions * w->sequences, w->r->units, &carry));
    w->carry = carry.p;
    return prepare_ends(x, w);
}

static qkv_status prepare_weight(qkv_exec *x, walk *w, int direction, int phase) {
    const qkv_recur_params *of = &w->r->of[direction];
    const int64_t param = phase == 0 ? of->weight : of->candidate, gates = phase_gates(w->r, phase), units = w->r->units;
    const qkv_param *p = &x->reg->params[param];
    if (!w->backward && x->packed && p->packed_offset >= 0) {
        w->packed[direction][phase] = x->packed + (x->bf16 ? p->pairs_offset : p->packed_offset);
        return QKV_OK;
    }
    qkv_mat packed;
    const int64_t size = w->backward ? qkv_packed_size(gates * units, units) : qkv_recur_packed_size(gates, units);
    QKV_TRY(qkv_temp(x, 1, size, &packed));
    if (!x->plan && w->products > 0) pack(x->ctx, w->backward, qkv_weight(x, param), gates, units, packed.p);
    w->packed[direction][phase] = packed.p;
    return QKV_OK;
}

static qkv_status prepare(qkv_exec *x, walk *w, const qkv_recurrence *r, const qkv_batch *batch, const qkv_recur_ends *ends) {
    w->kernels = x->ctx->kernels;
    w->r = r;
    w->ends = ends;
    w->started = ends && ends->hidden.cols > 0;
    w->carried = w->backward && ends && ends->dlast.cols > 0;
    w->phases = r->cell == QKV_RECUR_GRU_BEFORE ? 2 : 1;
    measure(w, batch);
    cut(w);
    QKV_TRY(prepare_order(x, w, batch));
    QKV_TRY(prepare_state(x, w));
    for (int i = 0; i < r->directions; i++) {
        for (int phase = 0; phase < w->phases; phase++) QKV_TRY(prepare_weight(x, w, i, phase));
        if (r->of[i].vector >= 0) w->vector[i] = qkv_weight(x, r->of[i].vector);
    }
    return QKV_OK;
}

/* ---- checks and costs ---- */

static qkv_status check_param(const qkv_exec *x, int64_t param, int64_t rows, int64_t cols) {
    const qkv_param *p = param >= 0 && param < x->reg->count ? &x->reg->params[param] : NULL;
    if (p && p->rows == rows && p->cols == cols) return QKV_OK;
    return qkv_fail(x->ctx, QKV_INTERNAL, "%s is %lld x %lld, a recurrence expected %lld x %lld",
                    p ? p->name : "a parameter that is not there", (long long)(p ? p->rows : 0), (long long)(p ? p->cols : 0),
                    (long long)rows, (long long)cols);
}

static qkv_status check_end(const qkv_exec *x, const qkv_recurrence *r, const qkv_batch *batch, const char *what, qkv_mat m) {
    return qkv_exec_shape(x, what, m, batch->n_seq, r->directions * r->units);
}

static qkv_status check_ends(const qkv_exec *x, const qkv_recurrence *r, const qkv_batch *batch, const qkv_recur_ends *e,
                             bool backward) {
    const bool started = e->hidden.cols > 0, lstm = r->cell == QKV_RECUR_LSTM;
    if ((e->cells.cols > 0) != (started && lstm))
        return qkv_fail(x->ctx, QKV_INTERNAL, "h and c before the first step: an LSTM has both or neither, others have no c");
    if (e->dlast.cols > 0 && !lstm) return qkv_fail(x->ctx, QKV_INTERNAL, "a gradient of the last c, but no LSTM");
    if (started) QKV_TRY(check_end(x, r, batch, "h before the first step", e->hidden));
    if (started && lstm) QKV_TRY(check_end(x, r, batch, "c before the first step", e->cells));
    if (!backward) return QKV_OK;
    if (started) QKV_TRY(check_end(x, r, batch, "gradient of h before the first step", e->dhidden));
    if (started && lstm) QKV_TRY(check_end(x, r, batch, "gradient of c before the first step", e->dcells));
    return e->dlast.cols > 0 ? check_end(x, r, batch, "gradient of the last c", e->dlast) : QKV_OK;
}

static qkv_status check(const qkv_exec *x, const qkv_recurrence *r, const qkv_batch *batch, qkv_mat gates, qkv_mat hidden,
                        qkv_mat cells) {
    if (r->units < 1 || (r->directions != 1 && r->directions != 2))
        return qkv_fail(x->ctx, QKV_INTERNAL, "a recurrence of %lld units in %d directions", (long long)r->units, r->directions);
    for (int i = 0; i < r->directions; i++) {
        const qkv_recur_params *of = &r->of[i];
        QKV_TRY(check_param(x, of->weight, phase_gates(r, 0) * r->units, r->units));
        if (r->cell == QKV_RECUR_GRU_BEFORE) QKV_TRY(check_param(x, of->candidate, r->units, r->units));
        if (r->cell == QKV_RECUR_GRU) QKV_TRY(check_param(x, of->vector, 1, r->units));
        if (r->cell == QKV_RECUR_LSTM && of->vector >= 0) QKV_TRY(check_param(x, of->vector, 1, 3 * r->units));
    }
    const int64_t rows = batch->n_seq > 0 ? batch->offset[batch->n_seq] : 0;
    QKV_TRY(qkv_exec_shape(x, "gates of a recurrence", gates, rows, qkv_recurrence_gates(r)));
    QKV_TRY(qkv_exec_shape(x, "hidden rows of a recurrence", hidden, rows, r->directions * r->units));
    if (r->cell == QKV_RECUR_LSTM || (cells.p && qkv_recurrence_cells(r) > 0))
        QKV_TRY(qkv_exec_shape(x, "cells of a recurrence", cells, rows, qkv_recurrence_cells(r)));
    return QKV_OK;
}

/* Each step is a product of its own and reads the weights; of every row gates in and out, hidden and cells, and backward what comes
 * from above. */
static void book(qkv_exec *x, const walk *w) {
    const qkv_recurrence *r = w->r;
    const double units = (double)r->units, gates = qkv_recur_gates(r->cell), directions = r->directions;
    const double states = r->cell >= QKV_RECUR_LSTM ? 2 : 1, steps = (double)(w->steps - (w->steps > 0 && !w->started));
    const double bytes =
        directions * units * (steps * gates * units + (double)w->rows * (2 * gates + states + w->backward)) * sizeof(real);
    const bool peepholes = r->cell == QKV_RECUR_LSTM && r->of[0].vector >= 0;
    const qkv_cost c =
        (w->backward ? qkv_cost_recur_backward : qkv_cost_recur_forward)(r->cell, peepholes, w->rows, w->products, r->units);
    const double macs = (double)w->products * gates * units * units;
    qkv_exec_charge(x, QKV_CLASS_RECURRENCE, QKV_WORK_RECURRENCE,
                    (qkv_charge){directions * macs, directions * c.flops, directions * c.executed / 2, bytes});
}

/* ---- forward ---- */

qkv_status qkv_recurrence_forward(qkv_exec *x, const qkv_recurrence *r, const qkv_batch *batch, const qkv_recur_ends *ends,
                                  qkv_mat gates, qkv_mat hidden, qkv_mat cells) {
    QKV_TRY(check(x, r, batch, gates, hidden, cells));
    if (ends) QKV_TRY(check_ends(x, r, batch, ends, false));
    const size_t mark = qkv_exec_mark(x);
    walk w = {.gates = gates, .hidden = hidden, .cells = cells};
    QKV_TRY(prepare(x, &w, r, batch, ends));
    book(x, &w);
    if (!x->plan && w.rows > 0) run(x->ctx, &w);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* ---- backward ---- */

typedef struct shift_job {
    const qkv_batch *batch;
    qkv_mat from, to, start; /* start.p NULL: 0 */
    int64_t grain;
    bool back;
} shift_job;

static void shift_chunk(void *arg, int64_t chunk, int thread) {
    const shift_job *j = arg;
    (void)thread;
    const qkv_range range = qkv_chunk_range(j->batch->n_seq, j->grain, chunk);
    const size_t width = (size_t)j->to.cols * sizeof(real);
    for (int64_t s = range.from; s < range.to; s++) {
        const int64_t first = j->batch->offset[s], end = j->batch->offset[s + 1], edge = j->back ? end - 1 : first;
        for (int64_t row = first; row < end; row++) {
            real *to = j->to.p + row * j->to.ld;
            if (row == edge && j->start.p)
                memcpy(to, j->start.p + s * j->start.ld, width);
            else if (row == edge)
                memset(to, 0, width);
            else
                memcpy(to, j->from.p + (row + (j->back ? 1 : -1)) * j->from.ld, width);
        }
    }
}

/* Rows of the step before each; `start` (of both directions) or 0 where there is none. */
static qkv_status steps_before(qkv_exec *x, const walk *w, const qkv_batch *batch, qkv_mat rows, qkv_mat start, int direction,
                               qkv_mat *out) {
    QKV_TRY(qkv_temp(x, rows.rows, rows.cols, out));
    if (x->plan || w->rows == 0) return QKV_OK;
    const int64_t average = w->rows * rows.cols / batch->n_seq, few = 32768 / (average > 0 ? average : 1);
    if (w->started) start = qkv_mat_cols(start, direction * w->r->units, w->r->units);
    shift_job j = {batch, rows, *out, start, few > 1 ? few : 1, direction == 1};
    qkv_par(x->ctx, qkv_chunks(batch->n_seq, j.grain), shift_chunk, &j);
    return QKV_OK;
}

typedef struct dot_job {
    const qkv_kernels *kernels;
    int64_t units;
    qkv_mat gates, before, cells; /* of one direction */
    real *sum;
} dot_job;

static void dot_chunk(void *arg, int64_t chunk, int thread) {
    const dot_job *j = arg;
    (void)thread;
    const int64_t d = j->units, c0 = chunk * QKV_PANEL, c1 = c0 + QKV_PANEL < d ? c0 + QKV_PANEL : d;
    const int64_t rows = j->gates.rows;
    j->kernels->column_dot(rows, c0, c1, j->gates.p, j->gates.ld, j->before.p, j->before.ld, j->sum);
    j->kernels->column_dot(rows, c0, c1, j->gates.p + d, j->gates.ld, j->before.p, j->before.ld, j->sum + d);
    j->kernels->column_dot(rows, c0, c1, j->gates.p + 3 * d, j->gates.ld, j->cells.p, j->cells.ld, j->sum + 2 * d);
}

/* d pi += sum di c', d pf += sum df c', d po += sum do c */
static qkv_status peepholes(qkv_exec *x, const walk *w, const qkv_batch *batch, int direction, qkv_mat gates, qkv_mat cells) {
    qkv_mat before;
    const double elements = (double)w->rows * (double)w->r->units;
    QKV_TRY(steps_before(x, w, batch, cells, w->started ? w->ends->cells : (qkv_mat){0}, direction, &before));
    qkv_exec_charge(x, QKV_CLASS_RECURRENCE, QKV_WORK_RECURRENCE,
                    (qkv_charge){.flops = 6 * elements, .bytes = 5 * elements * sizeof(real)});
    if (x->plan || w->rows == 0) return QKV_OK;
    dot_job j = {w->kernels, w->r->units, gates, before, cells, qkv_grad(x, w->r->of[direction].vector)};
    qkv_par(x->ctx, qkv_chunks(w->r->units, QKV_PANEL), dot_chunk, &j);
    return QKV_OK;
}

/* Gradients of the parameters of one direction: one product over the rows of all steps. First steps have nothing before them: their
 * rows are 0, computed all the same, unless something was given. */
static qkv_status weights_back(qkv_exec *x, const walk *w, const qkv_batch *batch, int direction) {
    const qkv_recurrence *r = w->r;
    const qkv_recur_params *of = &r->of[direction];
    const int64_t d = r->units, width = qkv_recur_gates(r->cell) * d;
    const size_t mark = qkv_exec_mark(x);
    const qkv_linear weight = {.weight = of->weight, .bias = -1, .work = QKV_WORK_RECURRENCE, .idle = w->started ? 0 : w->sequences};
    qkv_mat gates = qkv_mat_cols(r->cell == QKV_RECUR_GRU ? w->drecur : w->gates, direction * width, width), before;
    QKV_TRY(steps_before(x, w, batch, qkv_mat_cols(w->hidden, direction * d, d), w->started ? w->ends->hidden : (qkv_mat){0},
                         direction, &before));
    if (r->cell == QKV_RECUR_GRU_BEFORE) {
        qkv_linear candidate = weight;
        candidate.weight = of->candidate;
        QKV_TRY(qkv_linear_backward(x, candidate, qkv_mat_cols(w->cells, direction * d, d), qkv_mat_cols(gates, 2 * d, d), NULL));
        QKV_TRY(qkv_linear_backward(x, weight, before, qkv_mat_cols(gates, 0, 2 * d), NULL));
    } else {
        QKV_TRY(qkv_linear_backward(x, weight, before, gates, NULL));
    }
    if (r->cell == QKV_RECUR_GRU)
        QKV_TRY(qkv_column_sum(x, QKV_WORK_RECURRENCE, qkv_mat_cols(gates, 2 * d, d), qkv_grad(x, of->vector)));
    if (r->cell == QKV_RECUR_LSTM && of->vector >= 0)
        QKV_TRY(peepholes(x, w, batch, direction, gates, qkv_mat_cols(w->cells, direction * d, d)));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

typedef struct start_job {
    const walk *w;
    real *dhidden; /* dense */
} start_job;

enum { START_ROWS = 48 };

/* What the chains start from is what went past the product (of a GRU); then the product that a step before would have had. */
static void start_chunk(void *arg, int64_t chunk, int thread) {
    const start_job *j = arg;
    const walk *w = j->w;
    (void)thread;
    const int64_t d = w->r->units, n = w->sequences, chunks = qkv_chunks(n, START_ROWS), direction = chunk / chunks;
    const qkv_range s = qkv_chunk_range(n, START_ROWS, chunk % chunks);
    const int64_t dense = direction * n + s.from, from = w->phases == 2 ? 0 : 1; /* where the first step wrote */
    real *to = j->dhidden + dense * d;
    if (w->r->cell > QKV_RECUR_LSTM)
        memcpy(to, w->carry + dense * d, (size_t)((s.to - s.from) * d) * sizeof(real));
    else
        memset(to, 0, (size_t)((s.to - s.from) * d) * sizeof(real));
    w->kernels->gemm(&(qkv_gemm){.m = s.to - s.from,
                                 .k = w->ld_state[from],
                                 .n1 = d,
                                 .a = w->state[from] + dense * w->ld_state[from],
                                 .a_row = w->ld_state[from],
                                 .a_col = 1,
                                 .packed = w->packed[direction][0],
                                 .c = to,
                                 .ldc = d,
                                 .accumulate = true});
}

/* Gradients of what stood before the first step. Booked with the walk. */
static qkv_status starts_back(qkv_exec *x, const walk *w) {
    qkv_mat dense;
    QKV_TRY(qkv_temp(x, w->r->directions * w->sequences, w->r->units, &dense));
    if (x->plan) return QKV_OK;
    start_job j = {w, dense.p};
    qkv_par(x->ctx, qkv_chunks(w->sequences, START_ROWS) * w->r->directions, start_chunk, &j);
    scatter(w, dense.p, w->ends->dhidden);
    if (w->r->cell == QKV_RECUR_LSTM) scatter(w, w->carry, w->ends->dcells);
    return QKV_OK;
}

qkv_status qkv_recurrence_backward(qkv_exec *x, const qkv_recurrence *r, const qkv_batch *batch, const qkv_recur_ends *ends,
                                   qkv_mat dhidden, qkv_mat gates, qkv_mat hidden, qkv_mat cells) {
    QKV_TRY(check(x, r, batch, gates, hidden, cells));
    if (ends) QKV_TRY(check_ends(x, r, batch, ends, true));
    if (qkv_recurrence_cells(r) > 0)
        QKV_TRY(qkv_exec_shape(x, "cells of a recurrence", cells, gates.rows, qkv_recurrence_cells(r)));
    QKV_TRY(qkv_exec_shape(x, "gradient of a recurrence", dhidden, hidden.rows, hidden.cols));
    const size_t mark = qkv_exec_mark(x);
    walk w = {.backward = true, .gates = gates, .hidden = hidden, .cells = cells, .dhidden = dhidden};
    if (r->cell == QKV_RECUR_GRU) QKV_TRY(qkv_temp(x, gates.rows, gates.cols, &w.drecur));
    const size_t walking = qkv_exec_mark(x);
    QKV_TRY(prepare(x, &w, r, batch, ends));
    book(x, &w);
    if (!x->plan && w.rows > 0) run(x->ctx, &w);
    if (w.started) QKV_TRY(starts_back(x, &w));
    qkv_exec_release(x, walking);
    for (int i = 0; i < r->directions; i++) QKV_TRY(weights_back(x, &w, batch, i));
    qkv_exec_release(x, mark);
    return QKV_OK;
}
