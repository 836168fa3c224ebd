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

typedef struct peak_run {
    const qkv_kernels *kernels;
    int64_t iterations;
    real sinks[1024 * 16];
} peak_run;

static void peak_chunk(void *arg, int64_t chunk, int thread) {
    (void)thread;
    peak_run *p = arg;
    (void)p->kernels->fma_peak(p->iterations, &p->sinks[(chunk % 1024) * 16]);
}

/* Best rate over rounds that fill `seconds`: an interruption can only make a round slower. */
static double fma_rate(const qkv_ctx *ctx, peak_run *run, int64_t threads, double seconds) {
    run->iterations = 1000;
    double per_round = run->kernels->fma_peak(run->iterations, run->sinks), best = 0, t0 = qkv_now();
    double flops_per_iteration = per_round / 1000;
    for (;;) { /* rounds of about 5 ms of work: timed on this thread, as a busy machine's barrier alone can take as long */
        double least = 1e9;
        for (int i = 0; i < 3; i++) {
            double t = qkv_now();
            (void)run->kernels->fma_peak(run->iterations, run->sinks);
            double took = qkv_now() - t;
            if (took < least) least = took;
        }
        if (least > 0.003) break;
        run->iterations *= 2;
    }
    do {
        double t = qkv_now();
        qkv_par(ctx, threads, peak_chunk, run);
        double rate = flops_per_iteration * (double)run->iterations * (double)threads / (qkv_now() - t);
        if (rate > best) best = rate;
    } while (qkv_now() - t0 < seconds);
    return best * 1e-9;
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
    double share = bandwidth ? seconds / 4 : seconds / 2;
    peak_run *run = NULL;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *run, &run));
    run->kernels = ctx->kernels;
    machine->fma_gflops_core = fma_rate(ctx, run, 1, share);
    machine->fma_gflops = ctx->threads > 1 ? fma_rate(ctx, run, ctx->threads, share) : machine->fma_gflops_core;
    qkv_free(ctx, run);
    return bandwidth ? measure_streams(ctx, seconds / 2, machine) : QKV_OK;
}
