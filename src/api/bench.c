/* The public side of measuring: arguments are checked, src/bench does the work. */
#include "qkv/bench.h"

#include "base/ctx.h"
#include "bench/job.h"

void qkv_bench_init(qkv_bench_options *o) {
    if (!o) return;
    *o = (qkv_bench_options){.struct_size = sizeof *o,
                             .m = -1,
                             .n = -1,
                             .k = -1,
                             .dim = -1,
                             .value_dim = -1,
                             .heads = -1,
                             .kv_heads = -1,
                             .batch = -1,
                             .layers = -1,
                             .ffn = -1,
                             .global_first = -1,
                             .global_every = -1,
                             .random_blocks = -1,
                             .block = -1,
                             .window = {-2, -1},
                             .dropout = -1,
                             .layout = -1};
}

static qkv_status check(qkv_ctx *ctx, const qkv_bench_options *o, const char *call) {
    if (!o) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s: options is NULL", call);
    if (o->struct_size != sizeof *o)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s: struct_size=%zu, expected %zu (qkv_bench_init sets it)", call, o->struct_size,
                        sizeof *o);
    return QKV_OK;
}

qkv_status qkv_bench_list(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case **cases, int64_t *count) {
    if (cases) *cases = NULL;
    if (count) *count = 0;
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!cases || !count) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_bench_list: %s is NULL", cases ? "count" : "cases");
    QKV_TRY(check(ctx, options, "qkv_bench_list"));
    return qkv_bench_cases(ctx, options, cases, count);
}

qkv_status qkv_bench_plan(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!one) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_bench_plan: the case is NULL");
    QKV_TRY(check(ctx, options, "qkv_bench_plan"));
    return qkv_bench_foresee(ctx, options, one);
}

qkv_status qkv_bench_measure(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!one) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_bench_measure: the case is NULL");
    QKV_TRY(check(ctx, options, "qkv_bench_measure"));
    return qkv_bench_run(ctx, options, one);
}
