/* Cells that are timings, measured by the cases of src/bench beside the machine's ceilings. */
#ifndef QKV_COMPARE_TIMING_H
#define QKV_COMPARE_TIMING_H

#include "bench/job.h"
#include "compare/run.h"

/* Measures one case for about so many seconds, or once where that takes longer. Values: seconds (median), share (of the floor),
 * flops, bytes (of memory planned). Where it does not fit into memory: none but "why". */
qkv_status qkv_timing_measure(qkv_run *run, const qkv_bench_case *one, double seconds, json_t *values) QKV_MUST_USE;

bool qkv_timing_whole(const json_t *values);

/* Multiply-adds and parameters of an attention layer without biases over `batch` sequences of n tokens, forward, by its plan. */
typedef struct qkv_layer_cost {
    double macs, parameters;
} qkv_layer_cost;
qkv_status qkv_layer_plan(qkv_ctx *ctx, int64_t dim, int64_t heads, bool output_projection, int64_t n, int64_t batch,
                          qkv_layer_cost *cost) QKV_MUST_USE;

#endif
