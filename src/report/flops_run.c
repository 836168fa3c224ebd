/* What was planned, run for real: the same walk with memory under it. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/par.h"
#include "models/classifier.h"
#include "qkv/tokenizer.h"
#include "report/flops.h"

enum { LEAST = 3, MOST = 999, GRAIN = 1 << 16 };

static int64_t rows_of(const qkv_batch *b) {
    return b->n_seq > 0 ? b->offset[b->n_seq] : 0;
}

static int64_t segments_of(const qkv_batch *b) {
    return b->segments && b->n_seq > 0 ? b->segments[b->n_seq] : 0;
}

static qkv_status fits(const qkv_flops_walk *w, const qkv_flops *f) {
    const double logits = w->rows > 0 ? 0 : sizeof(real) * (double)w->values; /* the rows of a layer alone are in the peak */
    const double needed = f->peak_bytes + 12 * (double)rows_of(&w->batch) + logits;
    const int64_t available = qkv_memory_available();
    if (available < 0 || needed <= (double)available) return QKV_OK;
    return qkv_fail(w->ctx, QKV_NO_MEMORY, "a pass of this size needs %.3g GB of memory, %.3g GB are free", needed * 1e-9,
                    (double)available * 1e-9);
}

static qkv_status take_weights(qkv_flops_walk *w) {
    const qkv_reg *reg = w->x.reg;
    qkv_flops_data *d = &w->data;
    QKV_TRY(qkv_alloc(w->ctx, reg->size, sizeof *d->weights, &d->weights));
    qkv_reg_init(reg, 1, d->weights);
    w->x.weights = d->weights;
    if (!w->train) {
        QKV_TRY(qkv_alloc_zero(w->ctx, qkv_reg_packed_size(reg, w->x.bf16), sizeof *d->packed, &d->packed));
        qkv_reg_pack(w->ctx, reg, w->x.bf16, d->weights, d->packed);
        w->x.packed = d->packed;
        return QKV_OK;
    }
    QKV_TRY(qkv_alloc_zero(w->ctx, reg->size, sizeof *d->grads, &d->grads));
    QKV_TRY(qkv_alloc_zero(w->ctx, reg->size, sizeof *d->m, &d->m));
    w->x.grads = d->grads;
    return qkv_alloc_zero(w->ctx, reg->size, sizeof *d->v, &d->v);
}

/* Tokens from all over the vocabulary, one class for all: what they are costs no time. */
static qkv_status take_batch(qkv_flops_walk *w) {
    const int64_t rows = rows_of(&w->batch), n = w->batch.n_seq, segments = segments_of(&w->batch);
    const int64_t first = w->vocab > QKV_TOKEN_SPECIALS ? QKV_TOKEN_SPECIALS : 0;
    qkv_flops_data *d = &w->data;
    QKV_TRY(qkv_alloc(w->ctx, w->values, sizeof *d->values, &d->values));
    QKV_TRY(qkv_alloc(w->ctx, rows, sizeof *d->ids, &d->ids));
    QKV_TRY(qkv_alloc(w->ctx, rows + n + segments, sizeof *d->keys, &d->keys));
    QKV_TRY(qkv_alloc_zero(w->ctx, n, sizeof *d->targets, &d->targets));
    QKV_TRY(qkv_alloc_zero(w->ctx, n + 1, sizeof *d->label_at, &d->label_at));
    for (int64_t i = 0; i < w->values; i++) d->values[i] = (real)(2 * qkv_uniform((uint64_t)i) - 1);
    const uint64_t choice = (uint64_t)(w->vocab > 0 ? w->vocab - first : 1);
    for (int64_t i = 0; i < rows; i++) d->ids[i] = (int32_t)(first + (int64_t)qkv_below((uint64_t)i, choice));
    for (int64_t i = 0; i < rows + n + segments; i++) d->keys[i] = qkv_key2(1, (uint64_t)i);
    w->batch.ids = d->ids;
    w->batch.row_key = d->keys;
    w->batch.seq_key = d->keys + rows;
    w->batch.segment_key = d->keys + rows + n;
    return QKV_OK;
}

static void clear(void *arg, int64_t chunk, int thread) {
    const qkv_flops_walk *w = arg;
    const int64_t from = chunk * GRAIN, rest = w->x.reg->size - from;
    (void)thread;
    memset(w->data.grads + from, 0, (size_t)(rest < GRAIN ? rest : GRAIN) * sizeof(real));
}

static qkv_status once(qkv_flops_walk *w, qkv_flops_pass_fn *pass, const void *self, double *seconds) {
    const double begun = qkv_now();
    w->x.pass = QKV_PASS_FORWARD;
    if (w->train) qkv_par(w->ctx, (w->x.reg->size + GRAIN - 1) / GRAIN, clear, w);
    QKV_TRY(pass(w, self));
    w->x.step++;
    *seconds = qkv_now() - begun;
    return qkv_stop_asked(w->ctx) ? qkv_fail(w->ctx, QKV_STOPPED, "stopped on request while passes were timed") : QKV_OK;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first pass meets cold memory and is not counted. */
static qkv_status repeat(qkv_flops_walk *w, qkv_flops_pass_fn *pass, const void *self, qkv_flops *f) {
    double seconds[MOST], sum = 0;
    int n = 0;
    QKV_TRY(once(w, pass, self, &seconds[0]));
    for (; n < LEAST || (sum < w->measure && n < MOST); n++) {
        QKV_TRY(once(w, pass, self, &seconds[n]));
        sum += seconds[n];
    }
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    f->pass_s = seconds[n / 2];
    f->passes = n;
    return QKV_OK;
}

qkv_status qkv_flops_run(qkv_flops_walk *w, qkv_flops_pass_fn *pass, const void *self, qkv_flops *flops) {
    const size_t peak = w->x.arena.peak;
    qkv_flops_data *d = &w->data;
    QKV_TRY(fits(w, flops));
    w->x.plan = false;
    w->x.ledger = NULL;
    qkv_status status = take_weights(w);
    if (status == QKV_OK) status = take_batch(w);
    if (status == QKV_OK) status = qkv_arena_create(w->ctx, peak, &w->x.arena);
    if (status == QKV_OK) status = repeat(w, pass, self, flops);
    qkv_arena_free(w->ctx, &w->x.arena);
    void *const blocks[] = {d->weights, d->grads, d->m, d->v, d->packed, d->values, d->ids, d->targets, d->keys, d->label_at};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) qkv_free(w->ctx, blocks[i]);
    *d = (qkv_flops_data){0};
    w->batch.ids = NULL;
    w->batch.row_key = w->batch.seq_key = w->batch.segment_key = NULL;
    return status;
}
