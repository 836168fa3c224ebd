#include "bench/ceilings.h"

#include <string.h>

#include "base/cpu.h"
#include "base/par.h"
#include "kernels/bf16.h"
#include "kernels/kernels.h"

enum { MOST_THREADS = 1024, LINE = 16 /* reals */ };
/* Long enough to be timed, short beside a time slice, so that some rounds run undisturbed on a busy machine. */
static const double ROUND = 0.0004;
enum { ROUNDS = 3, ROUNDS_A_WAY = 2 };

struct qkv_ceilings {
    qkv_ctx *ctx;
    const qkv_kernels *kernels;
    int threads;
    /* arithmetic, by type */
    qkv_bench_dtype dtype;
    int64_t iterations[2];
    double flops[2]; /* of one iteration */
    /* bytes */
    int64_t room; /* reals in each buffer */
    real *from, *to;
    const real *source; /* what is read: `from`, or somebody's own */
    qkv_stream kind;
    int way;
    int64_t part, times, tuned_part; /* reals a thread; passes over them; what `times` was found for */
    qkv_stream tuned_kind;
    /* each part of a round */
    double begin[MOST_THREADS], end[MOST_THREADS];
    int thread[MOST_THREADS];
    real sinks[MOST_THREADS * LINE];
};

qkv_status qkv_ceilings_open(qkv_ctx *ctx, int64_t bytes, qkv_ceilings **out) {
    *out = NULL;
    qkv_ceilings *c;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *c, &c));
    c->ctx = ctx;
    c->kernels = ctx->kernels;
    c->threads = ctx->threads < MOST_THREADS ? ctx->threads : MOST_THREADS;
    c->room = bytes > 0 ? (bytes / (int64_t)sizeof(real) / LINE + c->threads) * LINE : 0;
    qkv_status status = QKV_OK;
    if (c->room > 0) status = qkv_alloc_zero(ctx, c->room, sizeof(real), &c->from);
    if (status == QKV_OK && c->room > 0) status = qkv_alloc_zero(ctx, c->room, sizeof(real), &c->to);
    if (status != QKV_OK) {
        qkv_ceilings_close(c);
        return status;
    }
    *out = c;
    return QKV_OK;
}

void qkv_ceilings_close(qkv_ceilings *c) {
    if (!c) return;
    qkv_ctx *ctx = c->ctx;
    qkv_free(ctx, c->from);
    qkv_free(ctx, c->to);
    qkv_free(ctx, c);
}

bool qkv_bench_native(const qkv_ctx *ctx, qkv_bench_dtype dtype) {
    return dtype == QKV_BENCH_F32 || (ctx->bf16 && ctx->bf16->native);
}

bool qkv_bench_has(const qkv_ctx *ctx, qkv_bench_dtype dtype, const char **why) {
    *why = dtype == QKV_BENCH_F32 || ctx->bf16 ? "" : "there are no kernels for it";
    return !**why;
}

int64_t qkv_beyond_caches(void) {
    const int64_t least = INT64_C(1) << 26, most = INT64_C(1) << 30;
    int64_t bytes = 4 * qkv_cpu_cache(3);
    return bytes < least ? least : bytes > most ? most : bytes;
}

/* True where every thread had a part of its own. */
static bool apart(const qkv_ceilings *c, int threads) {
    for (int i = 1; i < threads; i++)
        if (c->thread[i] == c->thread[0]) return false;
    return true;
}

/* ---- arithmetic ---- */

static double multiply(const qkv_ceilings *c, real *sink) {
    int64_t iterations = c->iterations[c->dtype];
    return c->dtype == QKV_BENCH_BF16 ? c->ctx->bf16->dot_peak(iterations, sink) : c->kernels->fma_peak(iterations, sink);
}

static void multiply_part(void *arg, int64_t part, int thread) {
    qkv_ceilings *c = arg;
    c->begin[part] = qkv_now();
    (void)multiply(c, &c->sinks[part * LINE]);
    c->end[part] = qkv_now();
    c->thread[part] = thread;
}

static void calibrate(qkv_ceilings *c) {
    int64_t *iterations = &c->iterations[c->dtype];
    *iterations = 1000;
    c->flops[c->dtype] = multiply(c, c->sinks) / 1000;
    for (; *iterations < INT64_C(1) << 40; *iterations *= 2) {
        double least = 1e9;
        for (int i = 0; i < 3; i++) {
            multiply_part(c, 0, 0);
            if (c->end[0] - c->begin[0] < least) least = c->end[0] - c->begin[0];
        }
        if (least > ROUND) return;
    }
}

/* The sum of what each thread did while it ran: where other programs make threads wait, the time of the whole round would
 * measure them and not the machine. 0 where one thread was handed several parts. */
static double multiply_round(qkv_ceilings *c, int threads) {
    double sum = 0;
    qkv_par(c->ctx, threads, multiply_part, c);
    for (int i = 0; i < threads; i++) {
        double seconds = c->end[i] - c->begin[i];
        if (seconds > 0) sum += c->flops[c->dtype] * (double)c->iterations[c->dtype] / seconds;
    }
    return apart(c, threads) ? sum : 0;
}

double qkv_ceiling_flops(qkv_ceilings *c, qkv_bench_dtype dtype, int threads) {
    c->dtype = dtype;
    if (c->iterations[dtype] == 0) calibrate(c);
    double best = 0;
    for (int i = 0; i < ROUNDS || (best == 0 && i < 4 * ROUNDS); i++) {
        double rate = multiply_round(c, threads < c->threads ? threads : c->threads);
        if (rate > best) best = rate;
    }
    return best > 0 ? best : multiply_round(c, 1); /* one thread does it all */
}

/* ---- bytes ---- */

static void update_range(const qkv_ceilings *c, int64_t n, real *p) {
    if (n > 0) c->kernels->axpby(1, n, (real)1.0000001, p, n, 0, p, n);
}

/* Four streams, a page of each in turn: they may draw more from memory than one. */
static void update_pages(const qkv_ceilings *c, real *p) {
    enum { PAGE = 1024 };
    const int64_t quarter = c->part / 4 / PAGE * PAGE;
    for (int64_t i = 0; i < quarter; i += PAGE)
        for (int k = 0; k < 4; k++) update_range(c, PAGE, p + k * quarter + i);
    update_range(c, c->part - 4 * quarter, p + 4 * quarter);
}

static void pass(const qkv_ceilings *c, int64_t at, double *sum) {
    if (c->kind == QKV_STREAM_READ)
        *sum += c->kernels->read_sum(c->part, c->source + at, (qkv_read_way)c->way);
    else if (c->kind == QKV_STREAM_COPY && c->way == 0)
        memcpy(c->to + at, c->from + at, (size_t)c->part * sizeof(real));
    else if (c->kind == QKV_STREAM_COPY)
        c->kernels->copy_around(c->part, c->from + at, c->to + at);
    else if (c->way == 0)
        update_range(c, c->part, c->from + at);
    else
        update_pages(c, c->from + at);
}

static void stream_part(void *arg, int64_t part, int thread) {
    qkv_ceilings *c = arg;
    double sum = 0;
    c->begin[part] = qkv_now();
    for (int64_t i = 0; i < c->times; i++) pass(c, part * c->part, &sum);
    c->end[part] = qkv_now();
    c->thread[part] = thread;
    c->sinks[part * LINE] = (real)sum;
}

/* From the first begin to the last end: whoever waits for memory waits for what the others take of it. */
static double stream_round(qkv_ceilings *c, double *seconds) {
    qkv_par(c->ctx, c->threads, stream_part, c);
    double begin = c->begin[0], end = c->end[0];
    for (int i = 1; i < c->threads; i++) {
        if (c->begin[i] < begin) begin = c->begin[i];
        if (c->end[i] > end) end = c->end[i];
    }
    *seconds = end - begin;
    double moved =
        (double)c->part * (double)c->threads * (double)c->times * (double)sizeof(real) * (c->kind == QKV_STREAM_READ ? 1 : 2);
    return *seconds > 0 ? moved / *seconds : 0;
}

/* The best of some rounds of each way. */
static double stream(qkv_ceilings *c, qkv_stream kind, int64_t part) {
    const int ways = kind == QKV_STREAM_READ ? QKV_READ_WAYS : 2;
    double seconds, best = 0;
    c->kind = kind;
    c->part = part;
    c->way = 0;
    if (c->tuned_part != part || c->tuned_kind != kind) {
        for (c->times = 1; c->times < INT64_C(1) << 40; c->times *= 2) {
            (void)stream_round(c, &seconds);
            if (seconds > ROUND) break;
        }
        c->tuned_part = part;
        c->tuned_kind = kind;
    }
    for (int i = 0; i < ROUNDS_A_WAY * ways; i++) {
        c->way = i % ways;
        double rate = stream_round(c, &seconds);
        if (rate > best) best = rate;
    }
    return best;
}

double qkv_ceiling_bytes(qkv_ceilings *c, qkv_stream kind, int64_t bytes) {
    int64_t lines = bytes / (int64_t)sizeof(real) / LINE / c->threads, most = c->room / c->threads / LINE;
    int64_t part = (lines > most ? most : lines > 0 ? lines : 1) * LINE;
    if (part <= 0 || part > c->room) return 0; /* nothing was opened */
    c->source = c->from;
    return stream(c, kind, part);
}

double qkv_ceiling_reading(qkv_ceilings *c, const real *from, int64_t count) {
    const int64_t part = count / c->threads;
    c->source = from;
    return part > 0 ? stream(c, QKV_STREAM_READ, part < LINE ? part : part / LINE * LINE) : 0;
}
