/* What this machine is and what it can reach. */
#include "qkv/machine.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/ctx.h"
#include "base/par.h"
#include "bench/ceilings.h"
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

/* The best of many short looks: an interruption can only make one slower. One thread and all of them take turns, so both
 * meet the same quiet moments. */
static void measure_arithmetic(const qkv_ctx *ctx, qkv_ceilings *c, double seconds, qkv_machine *machine) {
    enum { LEAST_LOOKS = 4 };
    bool bf16 = qkv_bench_native(ctx, QKV_BENCH_BF16);
    double t0 = qkv_now(), core = 0, all = 0;
    for (int look = 0; look < LEAST_LOOKS || qkv_now() - t0 < seconds; look++) {
        double rate = 1e-9 * qkv_ceiling_flops(c, QKV_BENCH_F32, 1);
        if (rate > core) core = rate;
        if (ctx->threads > 1) rate = 1e-9 * qkv_ceiling_flops(c, QKV_BENCH_F32, ctx->threads);
        if (rate > all) all = rate;
        rate = bf16 ? 1e-9 * qkv_ceiling_flops(c, QKV_BENCH_BF16, ctx->threads) : 0;
        if (rate > machine->bf16_gflops) machine->bf16_gflops = rate;
    }
    /* Threads that share a core take turns there, each at its full rate. */
    double most = core * (double)(ctx->threads < machine->cores_allowed ? ctx->threads : machine->cores_allowed);
    machine->fma_gflops_core = core;
    machine->fma_gflops = all > most ? most : all < core ? core : all;
}

static double best(const qkv_ctx *ctx, qkv_ceilings *c, qkv_stream kind, int64_t bytes, double seconds) {
    double most = 0, t0 = qkv_now();
    do {
        double rate = 1e-9 * qkv_ceiling_bytes(c, kind, bytes);
        if (rate > most) most = rate;
    } while (qkv_now() - t0 < seconds && !qkv_stop_asked(ctx));
    return most;
}

/* A copy goes round in two buffers. */
static void measure_bytes(const qkv_ctx *ctx, qkv_ceilings *c, int64_t working_set, double seconds, qkv_bandwidth *b) {
    b->read_gbs = best(ctx, c, QKV_STREAM_READ, working_set, seconds / 3);
    b->copy_gbs = best(ctx, c, QKV_STREAM_COPY, working_set / 2, seconds / 3);
    b->update_gbs = best(ctx, c, QKV_STREAM_UPDATE, working_set, seconds / 3);
}

static void measure_bandwidths(const qkv_ctx *ctx, qkv_ceilings *c, double seconds, qkv_machine *machine) {
    for (int i = 0; i < 3 && !qkv_stop_asked(ctx); i++) {
        int64_t bytes = machine->cache[i].bytes, cores = ctx->threads;
        if (bytes == 0) continue;
        /* Half of it, beside what else is there. The first two levels belong to a core each, the third to all of them. */
        measure_bytes(ctx, c, i < 2 ? bytes / 2 * cores : bytes / 2, seconds / 4, &machine->cache[i]);
    }
    measure_bytes(ctx, c, machine->memory.bytes, seconds / 4, &machine->memory);
}

qkv_status qkv_machine_measure(qkv_ctx *ctx, double seconds, int bandwidth, qkv_machine *machine) {
    QKV_TRY(qkv_machine_describe(ctx, machine));
    if (!(seconds >= 0.05)) seconds = 0.05;
    if (seconds > 10) seconds = 10;
    qkv_ceilings *c;
    machine->memory.bytes = bandwidth ? qkv_beyond_caches() : 0;
    QKV_TRY(qkv_ceilings_open(ctx, machine->memory.bytes, &c));
    for (int i = 0; bandwidth && i < 3; i++) machine->cache[i].bytes = qkv_cpu_cache(i + 1);
    measure_arithmetic(ctx, c, bandwidth ? seconds / 2 : seconds, machine);
    if (bandwidth && !qkv_stop_asked(ctx)) measure_bandwidths(ctx, c, seconds / 2, machine);
    qkv_ceilings_close(c);
    return qkv_stop_asked(ctx) ? qkv_fail(ctx, QKV_STOPPED, "stopped while the machine was measured") : QKV_OK;
}
