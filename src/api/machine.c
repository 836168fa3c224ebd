/* What this machine is and what it can reach. Measured with the kernels of the chosen table, on all threads of the
 * context at once. */
#include "qkv/machine.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/ctx.h"
#include "base/par.h"
#include "kernels/kernels.h"
#include "kernels/pick.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif
#ifdef NDEBUG
#define BUILD_KIND "release"
#else
#define BUILD_KIND "debug"
#endif

qkv_status qkv_machine_describe(qkv_ctx *ctx, qkv_machine *machine) {
    if (!ctx || !machine) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_machine: %s is NULL", ctx ? "machine" : "ctx");
    *machine = (qkv_machine){.threads = ctx->threads, .cores_allowed = qkv_cpu_cores_allowed()};
    qkv_cpu cpu;
    qkv_cpu_detect(&cpu);
    snprintf(machine->cpu, sizeof machine->cpu, "%s", cpu.name);
    snprintf(machine->isa, sizeof machine->isa, "%s", ctx->kernels->name);
    snprintf(machine->why, sizeof machine->why, "%s", ctx->isa_why);
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    for (int i = 0; i < n; i++) {
        size_t used = strlen(machine->present);
        snprintf(machine->present + used, sizeof machine->present - used, "%s%s", i ? " " : "", tables[i]->name);
    }
    snprintf(machine->build, sizeof machine->build, "%s, %s, f32, %s", COMPILER, BUILD_KIND, qkv_par_kind());
    return QKV_OK;
}

enum { PEAK_THREADS = 1024 };

typedef struct peak_run {
    const qkv_kernels *kernels;
    int64_t iterations;
    double seconds[PEAK_THREADS]; /* of each part by itself */
    int thread[PEAK_THREADS];     /* which did it */
    real sinks[PEAK_THREADS * 16];
} peak_run;

static void peak_chunk(void *arg, int64_t chunk, int thread) {
    peak_run *p = arg;
    double t = qkv_now();
    (void)p->kernels->fma_peak(p->iterations, &p->sinks[chunk * 16]);
    p->seconds[chunk] = qkv_now() - t;
    p->thread[chunk] = thread;
}

/* Iterations that take a thread about a millisecond: long enough to be timed, and short beside a time slice, so that some
 * rounds run undisturbed on a busy machine. Returns the operations of one iteration. */
static double calibrate(peak_run *run) {
    run->iterations = 1000;
    double per_iteration = run->kernels->fma_peak(run->iterations, run->sinks) / 1000;
    for (; run->iterations < INT64_C(1) << 40; run->iterations *= 2) {
        double least = 1e9;
        for (int i = 0; i < 3; i++) {
            peak_chunk(run, 0, 0);
            if (run->seconds[0] < least) least = run->seconds[0];
        }
        if (least > 0.001) break;
    }
    return per_iteration;
}

/* The sum of what each thread did while it ran: where other programs make threads wait, the time of the whole round would
 * measure them and not the machine. 0 where one thread was handed all the parts. */
static double round_gflops(const qkv_ctx *ctx, peak_run *run, int64_t threads, double per_iteration) {
    double sum = 0;
    bool shared = threads == 1;
    qkv_par(ctx, threads, peak_chunk, run);
    for (int64_t i = 0; i < threads; i++) {
        if (run->seconds[i] > 0) sum += 1e-9 * per_iteration * (double)run->iterations / run->seconds[i];
        shared |= run->thread[i] != run->thread[0];
    }
    return shared ? sum : 0;
}

/* The best of many short rounds: an interruption can only make a round slower. One thread and all of them take turns, so
 * both meet the same quiet moments. */
static void measure_fma(const qkv_ctx *ctx, peak_run *run, double seconds, qkv_machine *machine) {
    enum { LEAST_ROUNDS = 16 };
    int64_t threads = ctx->threads < PEAK_THREADS ? ctx->threads : PEAK_THREADS;
    double t0 = qkv_now(), per_iteration = calibrate(run), core = 0, all = 0;
    for (int round = 0; round < LEAST_ROUNDS || qkv_now() - t0 < seconds; round++) {
        double rate = round_gflops(ctx, run, 1, per_iteration);
        if (rate > core) core = rate;
        if (threads > 1) rate = round_gflops(ctx, run, threads, per_iteration);
        if (rate > all) all = rate;
    }
    /* Threads that share a core take turns there, each at its full rate. */
    double most = core * (double)(threads < machine->cores_allowed ? threads : machine->cores_allowed);
    machine->fma_gflops_core = core;
    machine->fma_gflops = all > most ? most : all < core ? core : all;
}

enum { STREAM_REALS = 1 << 24, STREAM_CHUNK = 1 << 18 }; /* 64 MiB an array: beyond the last cache of most machines */

typedef struct stream_run {
    const qkv_kernels *kernels;
    real *from, *to;
    double sums[STREAM_REALS / STREAM_CHUNK];
} stream_run;

static void read_chunk(void *arg, int64_t chunk, int thread) {
    (void)thread;
    stream_run *s = arg;
    s->sums[chunk] = s->kernels->read_sum(STREAM_CHUNK, s->from + chunk * STREAM_CHUNK);
}

static void copy_chunk(void *arg, int64_t chunk, int thread) {
    (void)thread;
    stream_run *s = arg;
    memcpy(s->to + chunk * STREAM_CHUNK, s->from + chunk * STREAM_CHUNK, STREAM_CHUNK * sizeof(real));
}

static double stream_rate(const qkv_ctx *ctx, stream_run *s, qkv_par_fn *fn, double bytes, double seconds) {
    double best = 0, t0 = qkv_now();
    do {
        double t = qkv_now();
        qkv_par(ctx, STREAM_REALS / STREAM_CHUNK, fn, s);
        double rate = bytes / (qkv_now() - t);
        if (rate > best) best = rate;
    } while (qkv_now() - t0 < seconds);
    return best * 1e-9;
}

static qkv_status measure_streams(qkv_ctx *ctx, double seconds, qkv_machine *machine) {
    stream_run *s = NULL;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *s, &s));
    s->kernels = ctx->kernels;
    qkv_status status = qkv_alloc_zero(ctx, STREAM_REALS, sizeof(real), &s->from);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, STREAM_REALS, sizeof(real), &s->to);
    if (status == QKV_OK) {
        double bytes = STREAM_REALS * sizeof(real);
        machine->read_gbs = stream_rate(ctx, s, read_chunk, bytes, seconds / 2);
        machine->copy_gbs = stream_rate(ctx, s, copy_chunk, 2 * bytes, seconds / 2);
    }
    qkv_free(ctx, s->from);
    qkv_free(ctx, s->to);
    qkv_free(ctx, s);
    return status;
}

qkv_status qkv_machine_measure(qkv_ctx *ctx, double seconds, int bandwidth, qkv_machine *machine) {
    QKV_TRY(qkv_machine_describe(ctx, machine));
    if (!(seconds >= 0.05)) seconds = 0.05;
    if (seconds > 10) seconds = 10;
    peak_run *run = NULL;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *run, &run));
    run->kernels = ctx->kernels;
    measure_fma(ctx, run, bandwidth ? seconds / 2 : seconds, machine);
    qkv_free(ctx, run);
    return bandwidth ? measure_streams(ctx, seconds / 2, machine) : QKV_OK;
}
