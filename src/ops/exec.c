#include "ops/exec.h"

#include <string.h>

#include "kernels/bf16.h"

typedef qkv_status arena_fn(qkv_ctx *ctx, qkv_arena *a, size_t bytes, void **pointer);

static qkv_status take(qkv_exec *x, arena_fn *end, int64_t count, int64_t size, void *pointer) {
    int64_t bytes;
    void *p = NULL;
    if (count < 0 || size < 0 || __builtin_mul_overflow(count, size, &bytes))
        return qkv_fail(x->ctx, QKV_INTERNAL, "a buffer of %lld elements of %lld bytes was asked for", (long long)count, (long long)size);
    QKV_TRY(end(x->ctx, &x->arena, (size_t)bytes, &p));
    memcpy(pointer, &p, sizeof p);
    return QKV_OK;
}

static qkv_status take_mat(qkv_exec *x, arena_fn *end, int64_t rows, int64_t cols, qkv_mat *m) {
    int64_t width;
    real *p;
    if (rows < 0 || cols < 0 || __builtin_mul_overflow(cols, (int64_t)sizeof(real), &width))
        return qkv_fail(x->ctx, QKV_INTERNAL, "a buffer of %lld x %lld numbers was asked for", (long long)rows, (long long)cols);
    QKV_TRY(take(x, end, rows, width, &p));
    *m = (qkv_mat){p, rows, cols, cols};
    return QKV_OK;
}

qkv_status qkv_keep(qkv_exec *x, int64_t rows, int64_t cols, qkv_mat *m) {
    return take_mat(x, x->keep ? qkv_arena_low : qkv_arena_high, rows, cols, m);
}

qkv_status qkv_temp(qkv_exec *x, int64_t rows, int64_t cols, qkv_mat *m) { return take_mat(x, qkv_arena_high, rows, cols, m); }

qkv_status qkv_keep_array(qkv_exec *x, int64_t count, size_t size, void *pointer) {
    return take(x, x->keep ? qkv_arena_low : qkv_arena_high, count, (int64_t)size, pointer);
}

qkv_status qkv_temp_array(qkv_exec *x, int64_t count, size_t size, void *pointer) {
    return take(x, qkv_arena_high, count, (int64_t)size, pointer);
}

void qkv_bf16_note(const qkv_ctx *ctx) {
    if (!ctx->bf16->native) qkv_log(ctx, "bf16 emulated here (%s kernels): slower than f32", ctx->kernels->name);
}

const char *qkv_bf16_name(const qkv_ctx *ctx) { return ctx->bf16->name; }

/* ---- bookkeeping ---- */

static bool same_place(qkv_place a, qkv_place b) {
    if (a.index != b.index || a.work != b.work) return false;
    return a.name == b.name || (a.name && b.name && strcmp(a.name, b.name) == 0);
}

static qkv_ledger_entry *entry_at(qkv_ledger *l, qkv_place place) {
    if (l->last < l->count && same_place(l->entries[l->last].place, place)) return &l->entries[l->last];
    for (l->last = 0; l->last < l->count; l->last++)
        if (same_place(l->entries[l->last].place, place)) return &l->entries[l->last];
    if (l->count == l->capacity) {
        l->overflow = true;
        return NULL;
    }
    l->entries[l->count] = (qkv_ledger_entry){.place = place};
    return &l->entries[l->count++];
}

static void enter(qkv_ledger *l, qkv_pass pass, qkv_place place, qkv_work work, qkv_charge a) {
    qkv_ledger_entry *e = entry_at(l, place);
    if (!e) return;
    qkv_charge *sum = &e->of[pass][place.work != QKV_WORK_LINEAR ? place.work : work];
    sum->macs += a.macs;
    sum->flops += a.flops;
    sum->executed += a.executed;
    sum->bytes += a.bytes;
}

void qkv_exec_charge(qkv_exec *x, qkv_class c, qkv_work work, qkv_charge a) {
    x->tally.flops[x->pass][c] += a.flops;
    x->tally.bytes[x->pass][c] += a.bytes;
    if (x->ledger) enter(x->ledger, x->pass, x->place, work, a);
}

void qkv_exec_other(qkv_exec *x, qkv_work work, double flops, double bytes) {
    qkv_exec_charge(x, QKV_CLASS_OTHER, work, (qkv_charge){.flops = flops, .bytes = bytes});
}

void qkv_exec_book(qkv_exec *x, qkv_class c, double flops, double bytes) {
    static const qkv_work of[QKV_CLASSES] = {QKV_WORK_LINEAR, QKV_WORK_SCORES, QKV_WORK_RECURRENCE, QKV_WORK_OTHER};
    const double macs = c == QKV_CLASS_GEMM || c == QKV_CLASS_ATTENTION ? flops / 2 : 0;
    qkv_exec_charge(x, c, of[c], (qkv_charge){macs, flops, macs, bytes});
}

double qkv_tally_flops(const qkv_tally *t) {
    double sum = 0;
    for (int p = 0; p < QKV_PASSES; p++)
        for (int c = 0; c < QKV_CLASSES; c++) sum += t->flops[p][c];
    return sum;
}

qkv_dropout qkv_exec_dropout(const qkv_exec *x, double p, uint64_t site, const uint64_t *row_key) {
    return (qkv_dropout){.p = x->train ? (real)p : 0, .key = qkv_key3(x->seed, x->step, site), .row_key = row_key};
}

qkv_status qkv_exec_shape(const qkv_exec *x, const char *what, qkv_mat m, int64_t rows, int64_t cols) {
    if (m.rows != rows || m.cols != cols || (m.ld < cols && rows > 1))
        return qkv_fail(x->ctx, QKV_INTERNAL, "%s is %lld x %lld (stride %lld), expected %lld x %lld", what, (long long)m.rows,
                        (long long)m.cols, (long long)m.ld, (long long)rows, (long long)cols);
    if (!x->plan && !m.p && rows > 0 && cols > 0) return qkv_fail(x->ctx, QKV_INTERNAL, "%s has no memory", what);
    return QKV_OK;
}
