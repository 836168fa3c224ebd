#include "bench/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/par.h"
#include "kernels/cost.h"
#include "models/classifier.h"
#include "ops/reg.h"

/* ---- memory ---- */

static qkv_status hold(qkv_bench_job *job, void *block) {
    if (job->held < QKV_BENCH_BLOCKS) {
        job->blocks[job->held++] = block;
        return QKV_OK;
    }
    qkv_free(job->ctx, block);
    return qkv_fail(job->ctx, QKV_INTERNAL, "a case of more than %d buffers", QKV_BENCH_BLOCKS);
}

enum { FILL_GRAIN = 1 << 16 };
typedef struct fill_arg {
    real *p;
    int64_t count;
    uint64_t key;
    qkv_bench_fill fill;
} fill_arg;

static void fill_chunk(void *arg, int64_t chunk, int thread) {
    (void)thread;
    const fill_arg *f = arg;
    int64_t from = chunk * FILL_GRAIN, to = from + FILL_GRAIN < f->count ? from + FILL_GRAIN : f->count;
    for (int64_t i = from; i < to; i++) /* uniform in -sqrt(3) .. sqrt(3) */
        f->p[i] = f->fill == QKV_BENCH_ZERO ? 0 : (real)((qkv_uniform(f->key + (uint64_t)i) - 0.5) * 3.4641016);
}

static qkv_status take(qkv_bench_job *job, double count, qkv_bench_fill fill, real **p) {
    *p = NULL;
    job->memory += count * sizeof(real);
    if (job->memory > 0x1p55)
        return qkv_fail(job->ctx, QKV_NO_MEMORY, "%s of this size needs %.3g GB of memory", job->c->name, job->memory * 1e-9);
    if (job->plan) return QKV_OK;
    QKV_TRY(qkv_alloc(job->ctx, (int64_t)count, sizeof(real), p));
    QKV_TRY(hold(job, *p));
    fill_arg f = {*p, (int64_t)count, qkv_mix64((uint64_t)job->held), fill};
    qkv_par(job->ctx, (f.count + FILL_GRAIN - 1) / FILL_GRAIN, fill_chunk, &f);
    return QKV_OK;
}

qkv_status qkv_bench_mat(qkv_bench_job *job, int64_t rows, int64_t cols, qkv_bench_fill fill, qkv_mat *m) {
    *m = (qkv_mat){NULL, rows, cols, cols};
    return take(job, (double)rows * (double)cols, fill, &m->p);
}

qkv_status qkv_bench_array(qkv_bench_job *job, int64_t count, size_t size, void *pointer) {
    void *block;
    job->memory += (double)count * (double)size;
    QKV_TRY(qkv_alloc_zero(job->ctx, count, size, &block));
    QKV_TRY(hold(job, block));
    memcpy(pointer, &block, sizeof block);
    return QKV_OK;
}

/* Lengths of a ragged batch: uniform between the two limits, the last one cut to what is left. */
static int64_t ragged_lengths(const qkv_bench_case *c, int64_t *offset) {
    int64_t rows = 0, n = 0;
    while (rows < c->tokens) {
        int64_t length = c->shortest + (int64_t)qkv_below(qkv_key2(11, (uint64_t)n), (uint64_t)(c->n - c->shortest + 1));
        rows = rows + length < c->tokens ? rows + length : c->tokens;
        n++;
        if (offset) offset[n] = rows;
    }
    return n;
}

qkv_status qkv_bench_batch(qkv_bench_job *job, qkv_batch *batch) {
    const qkv_bench_case *c = job->c;
    bool ragged = c->tokens > 0;
    *batch = (qkv_batch){.n_seq = ragged ? ragged_lengths(c, NULL) : c->batch};
    int64_t *offset, rows;
    uint64_t *keys;
    QKV_TRY(qkv_bench_array(job, batch->n_seq + 1, sizeof *offset, &offset));
    if (ragged) ragged_lengths(c, offset);
    for (int64_t s = 0; !ragged && s <= batch->n_seq; s++) offset[s] = s * c->n;
    batch->offset = offset;
    rows = offset[batch->n_seq];
    job->items = (double)rows;
    if (!(c->dropout > 0)) return QKV_OK;
    job->memory += (double)rows * sizeof *keys;
    if (job->plan) return QKV_OK;
    QKV_TRY(qkv_alloc(job->ctx, rows, sizeof *keys, &keys));
    QKV_TRY(hold(job, keys));
    for (int64_t r = 0; r < rows; r++) keys[r] = qkv_key2(12, (uint64_t)r);
    batch->row_key = keys;
    return QKV_OK;
}

double qkv_bench_attention_flops(const qkv_batch *batch, int64_t heads, int64_t dim, int64_t value_dim, qkv_span window,
                                 bool backward) {
    double pairs = 0, d = (double)dim, dv = (double)value_dim;
    for (int64_t s = 0; s < batch->n_seq; s++) {
        int64_t n = batch->offset[s + 1] - batch->offset[s];
        pairs += (double)qkv_span_pairs(n, n, window.left, window.right);
    }
    return pairs * (double)heads * (backward ? 2 * (3 * d + 2 * dv) : 2 * (d + dv));
}

qkv_status qkv_bench_values(qkv_bench_job *job, const qkv_reg *reg, bool gradients) {
    real *weights, *grads = NULL;
    QKV_TRY(take(job, (double)reg->size, QKV_BENCH_ZERO, &weights));
    if (gradients) QKV_TRY(take(job, (double)reg->size, QKV_BENCH_ZERO, &grads));
    if (weights) qkv_reg_init(reg, 1, weights);
    job->x.reg = reg;
    job->x.weights = weights;
    job->x.grads = grads;
    return QKV_OK;
}

qkv_status qkv_bench_weights(qkv_bench_job *job, bool gradients) {
    return qkv_bench_values(job, &job->reg, gradients);
}

qkv_status qkv_bench_pack(qkv_bench_job *job) {
    static const real planned[1] = {0}; /* a plan must know that nothing will be packed in scratch */
    real *packed;
    QKV_TRY(take(job, (double)qkv_reg_packed_size(job->x.reg, job->x.bf16), QKV_BENCH_ZERO, &packed));
    if (packed) qkv_reg_pack(job->ctx, job->x.reg, job->x.bf16, job->x.weights, packed);
    job->x.packed = packed ? packed : planned;
    return QKV_OK;
}

qkv_status qkv_bench_fits(qkv_ctx *ctx, const qkv_bench_case *c, double bytes) {
    int64_t available = qkv_memory_available();
    if (available < 0 || bytes <= (double)available) return QKV_OK;
    return qkv_fail(ctx, QKV_NO_MEMORY, "%s%s%s of this size needs %.3g GB of memory, %.3g GB are free", c->name,
                    c->variant[0] ? ", " : "", c->variant, bytes * 1e-9, (double)available * 1e-9);
}

/* ---- repeats ---- */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Seconds that the bytes take at the ceilings. What is written goes with as much that is read: at the rate in place, or at that of
 * a copy, which has to fetch, or to write around, a buffer that was not read. */
static double bytes_time(const qkv_bench_sampler *s) {
    if (!s->look_at_bytes) return 0;
    if (s->own) return (s->read + s->written) / qkv_ceiling_reading(s->ceilings, s->own, s->own_count);
    double read = s->read, written = s->written, time = 0;
    double both = written > 0 ? (read < written ? read + written : 2 * written) : 0;
    if (both > 0) time += both / qkv_ceiling_bytes(s->ceilings, s->in_place ? QKV_STREAM_UPDATE : QKV_STREAM_COPY, s->working_set);
    if (read > written) time += (read - written) / qkv_ceiling_bytes(s->ceilings, QKV_STREAM_READ, s->working_set);
    return time;
}

static void look(qkv_bench_sampler *s, double *flops, double *seconds) {
    *flops = qkv_ceiling_flops(s->ceilings, s->dtype, s->threads);
    *seconds = bytes_time(s);
}

void qkv_bench_sample_begin(qkv_bench_sampler *s) {
    if (s->count == 0) s->begun = qkv_now();
    look(s, &s->flops_before, &s->seconds_before);
}

/* No room for more: every second one is as good a sample. */
static void thin_out(qkv_bench_sampler *s) {
    s->count /= 2;
    for (int i = 0; i < s->count; i++) {
        s->seconds[i] = s->seconds[2 * i];
        s->floor[i] = s->floor[2 * i];
        s->share[i] = s->share[2 * i];
        s->ceiling_flops[i] = s->ceiling_flops[2 * i];
        s->ceiling_bytes[i] = s->ceiling_bytes[2 * i];
        s->by_bytes[i] = s->by_bytes[2 * i];
    }
}

void qkv_bench_sample_end(qkv_bench_sampler *s, double seconds) {
    double flops, bytes_seconds;
    look(s, &flops, &bytes_seconds);
    double rate = (flops + s->flops_before) / 2, by_bytes = (bytes_seconds + s->seconds_before) / 2;
    double floor = larger(rate > 0 ? s->flops / rate : 0, by_bytes);
    s->flops_before = flops;
    s->seconds_before = bytes_seconds;
    if (s->count == QKV_BENCH_REPEATS) thin_out(s);
    if (s->repeats++ == 0 || seconds < s->least_seconds) s->least_seconds = seconds;
    if (seconds > s->most_seconds) s->most_seconds = seconds;
    int i = s->count++;
    s->seconds[i] = seconds;
    s->floor[i] = floor;
    s->share[i] = seconds > 0 ? floor / seconds : 0;
    s->ceiling_flops[i] = rate;
    s->ceiling_bytes[i] = by_bytes > 0 ? (s->read + s->written) / by_bytes : 0;
    s->by_bytes[i] = by_bytes > 0 && floor <= by_bytes;
}

bool qkv_bench_sample_enough(const qkv_bench_sampler *s) {
    double spent = qkv_now() - s->begun;
    if (s->count >= 7 && spent >= s->least) return true;
    int fewest = s->quick && spent > s->most ? 1 : 3;
    return s->count >= fewest && spent >= s->most;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double median(double *p, int n) {
    qsort(p, (size_t)n, sizeof *p, ascending);
    return n % 2 ? p[n / 2] : (p[n / 2 - 1] + p[n / 2]) / 2;
}

static void report(qkv_bench_sampler *s, qkv_bench_case *one) {
    int n = s->count;
    one->repeats = (int)s->repeats;
    one->median_s = median(s->seconds, n);
    one->min_s = s->least_seconds;
    one->max_s = s->most_seconds;
    one->floor_s = median(s->floor, n);
    one->share = median(s->share, n);
    one->ceiling_gflops = 1e-9 * median(s->ceiling_flops, n);
    one->ceiling_gbs = 1e-9 * median(s->ceiling_bytes, n);
    int by_bytes = 0;
    for (int i = 0; i < n; i++) by_bytes += s->by_bytes[i];
    one->by_bytes = 2 * by_bytes > n;
    one->gflops = one->median_s > 0 ? 1e-9 * one->flops / one->median_s : 0;
    one->gbs = one->median_s > 0 ? 1e-9 * one->bytes / one->median_s : 0;
}

/* ---- a case ---- */

static const qkv_bench_kind *find(const char *name) {
    const qkv_bench_kind *const *const lists[] = {qkv_bench_gemm_kinds,  qkv_bench_attention_kinds, qkv_bench_pointwise_kinds,
                                                  qkv_bench_layer_kinds, qkv_bench_recurrence_kinds, qkv_bench_train_kinds, qkv_bench_predict_kinds};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (const qkv_bench_kind *const *k = lists[l]; *k; k++)
            if (strcmp((*k)->name, name) == 0) return *k;
    return NULL;
}

static void drop(qkv_bench_job *job, const qkv_bench_kind *kind) {
    if (kind->drop && job->self) kind->drop(job);
    qkv_arena_free(job->ctx, &job->x.arena);
    qkv_reg_free(&job->reg);
    for (int i = 0; i < job->held; i++) qkv_free(job->ctx, job->blocks[i]);
}

/* Attention finds out by its shape. In a recurrent layer the steps are f32 whatever the projection is. */
static bool has_bf16(const char *name) {
    return strncmp(name, "pointwise.", 10) != 0 && strncmp(name, "recurrence.", 11) != 0;
}

static qkv_status start(qkv_bench_job *job, const qkv_bench_kind *kind, qkv_ctx *ctx, const qkv_bench_case *c, bool plan) {
    *job = (qkv_bench_job){.ctx = ctx, .c = c, .plan = plan, .reg.ctx = ctx};
    job->x = (qkv_exec){.ctx = ctx, .plan = plan, .reg = &job->reg, .bf16 = c->dtype == QKV_BENCH_BF16, .seed = 1, .step = 1};
    if (!has_bf16(kind->name)) job->x.bf16 = false;
    QKV_TRY(qkv_bench_array(job, 1, kind->self_size > 0 ? kind->self_size : 1, &job->self));
    return kind->make(job);
}

static double sum(const double of[QKV_PASSES][QKV_CLASSES], int from, int to) {
    double total = 0;
    for (int p = 0; p < QKV_PASSES; p++)
        for (int k = from; k < to; k++) total += of[p][k];
    return total;
}

/* Where there are fewer operations to a byte than this, some machine is held up by the bytes. */
static const double FEW_FLOPS = 32;

/* The plan: operations, bytes, memory. Nothing big is allocated. */
static qkv_status plan(qkv_ctx *ctx, const qkv_bench_kind *kind, qkv_bench_case *one, qkv_bench_sampler *s, size_t *arena) {
    qkv_bench_job job;
    qkv_status status = start(&job, kind, ctx, one, true);
    if (status == QKV_OK) status = kind->pass(&job);
    *arena = job.x.arena.peak;
    one->flops = sum(job.x.tally.flops, QKV_CLASS_GEMM, QKV_CLASS_GEMM + 1) + job.inside;
    if (!(one->flops > 0)) one->flops = sum(job.x.tally.flops, 0, QKV_CLASSES);
    one->bytes = sum(job.x.tally.bytes, 0, QKV_CLASSES);
    one->items = job.items;
    one->dtype = s->dtype = job.x.bf16 ? QKV_BENCH_BF16 : QKV_BENCH_F32;
    s->flops = one->flops;
    s->written = job.written < one->bytes ? job.written : one->bytes;
    s->in_place = job.in_place;
    s->read = one->bytes - s->written;
    s->look_at_bytes = !job.arithmetic && one->flops < FEW_FLOPS * one->bytes;
    double set = job.working_set > 0 ? job.working_set : one->bytes, most = (double)qkv_beyond_caches();
    s->working_set = s->look_at_bytes && job.own_count == 0 ? (int64_t)(set < most ? set : most) : 0;
    double memory = job.memory + (double)*arena + 2 * (double)s->working_set;
    one->memory = (int64_t)memory;
    drop(&job, kind);
    return status == QKV_OK ? qkv_bench_fits(ctx, one, memory) : status;
}

static double time_passes(qkv_bench_job *job, const qkv_bench_kind *kind, int64_t passes, qkv_status *status) {
    double begin = qkv_now();
    for (int64_t i = 0; i < passes && *status == QKV_OK; i++) *status = kind->pass(job);
    return (qkv_now() - begin) / (double)passes;
}

/* A repeat is as many passes as take some milliseconds: of a short one the clock would see little else. */
static qkv_status repeat(qkv_bench_job *job, const qkv_bench_kind *kind, qkv_bench_sampler *s, qkv_bench_case *one) {
    const double LEAST = s->quick ? 0.004 : 0.015;
    qkv_status status = QKV_OK;
    double once = time_passes(job, kind, 1, &status);
    if (once < LEAST) once = time_passes(job, kind, once > 0.001 ? 1 : 5, &status);
    one->passes = once > 0 && once < LEAST ? (int64_t)(LEAST / once) + 1 : 1;
    qkv_bench_sample_begin(s);
    while (status == QKV_OK && !qkv_bench_sample_enough(s)) {
        if (qkv_stop_asked(job->ctx)) return qkv_fail(job->ctx, QKV_STOPPED, "stopped on request in %s", job->c->name);
        double seconds = time_passes(job, kind, one->passes, &status);
        qkv_bench_sample_end(s, seconds);
    }
    return status;
}

static qkv_status run(qkv_bench_job *job, const qkv_bench_kind *kind, qkv_bench_sampler *s, qkv_bench_case *one, size_t arena) {
    QKV_TRY(qkv_arena_create(job->ctx, arena, &job->x.arena));
    QKV_TRY(qkv_ceilings_open(job->ctx, s->working_set, &s->ceilings));
    one->passes = 1;
    /* What models log as they are made, each anew (that bf16 is emulated), is nothing new to who measures. */
    void (*const log)(void *, const char *) = job->ctx->log;
    job->ctx->log = NULL;
    qkv_status status = kind->run ? kind->run(job, s) : repeat(job, kind, s, one);
    job->ctx->log = log;
    qkv_ceilings_close(s->ceilings);
    return status;
}

static qkv_status find_and_plan(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one, const qkv_bench_kind **kind,
                                qkv_bench_sampler *s, size_t *arena) {
    *kind = find(one->name);
    if (!*kind) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no case '%.31s'", one->name);
    QKV_TRY(qkv_bench_check_case(ctx, one));
    one->threads = ctx->threads;
    one->dtype = options->dtype;
    return plan(ctx, *kind, one, s, arena);
}

qkv_status qkv_bench_foresee(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) {
    const qkv_bench_kind *kind;
    qkv_bench_sampler s = {0};
    size_t arena;
    return find_and_plan(ctx, options, one, &kind, &s, &arena);
}

qkv_status qkv_bench_run(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) {
    const qkv_bench_kind *kind;
    qkv_bench_sampler s = {.threads = ctx->threads, .quick = options->quick};
    s.least = options->seconds > 0 ? options->seconds : options->quick ? 0.1 : 0.5;
    s.most = 6 * s.least;
    size_t arena;
    QKV_TRY(find_and_plan(ctx, options, one, &kind, &s, &arena));
    if (qkv_stop_asked(ctx)) return qkv_fail(ctx, QKV_STOPPED, "stopped on request before %s", one->name);
    qkv_bench_job job;
    qkv_status status = start(&job, kind, ctx, one, false);
    s.own = job.own;
    s.own_count = job.own_count;
    if (status == QKV_OK) status = run(&job, kind, &s, one, arena);
    drop(&job, kind);
    if (status == QKV_OK) report(&s, one);
    return status;
}
