#include "compare/timing.h"

#include "layers/attention_layer.h"
#include "ops/reg.h"

qkv_status qkv_timing_measure(qkv_run *run, const qkv_bench_case *one, double seconds, json_t *values) {
    const qkv_bench_options o = {.struct_size = sizeof o, .dtype = QKV_BENCH_F32, .quick = 1, .seconds = seconds};
    qkv_bench_case c = *one;
    qkv_status status = qkv_bench_run(run->ctx, &o, &c);
    if (status == QKV_NO_MEMORY) {
        json_object_set_new(values, "why", json_string(run->ctx->message));
        return QKV_OK;
    }
    QKV_TRY(status);
    json_object_set_new(values, "seconds", json_real(c.median_s));
    json_object_set_new(values, "share", json_real(c.share));
    json_object_set_new(values, "flops", json_real(c.flops));
    json_object_set_new(values, "bytes", json_real((double)c.memory));
    return QKV_OK;
}

bool qkv_timing_whole(const json_t *values) {
    static const char *const times[] = {"seconds", NULL}, *const counts[] = {"flops", "bytes", NULL},
                             *const shares[] = {"share", NULL};
    if (json_is_string(json_object_get(values, "why"))) return true;
    return qkv_values_within(values, times, 1e-12, 1e9) && qkv_values_within(values, counts, 0, 1e30) &&
           qkv_values_within(values, shares, 0, 10);
}

static qkv_status plan(qkv_exec *x, const qkv_attention_layer *l, const qkv_batch *batch, int64_t rows, int64_t dim) {
    const qkv_mat m = {NULL, rows, dim, dim};
    qkv_attention_saved saved;
    return qkv_attention_layer_forward(x, l, batch, m, m, &saved);
}

qkv_status qkv_layer_plan(qkv_ctx *ctx, int64_t dim, int64_t heads, bool output_projection, int64_t n, int64_t batch,
                          qkv_layer_cost *cost) {
    const qkv_block_shape shape = {.dim = dim,
                                   .heads = heads,
                                   .kv_heads = heads,
                                   .head_dim = dim / heads,
                                   .span = {-1, -1},
                                   .layers = 1,
                                   .no_output = !output_projection};
    qkv_reg reg = {.ctx = ctx};
    qkv_attention_layer layer;
    qkv_ledger_entry entries[2] = {0};
    qkv_ledger ledger = {.entries = entries, .capacity = 2};
    qkv_exec x = {.ctx = ctx, .plan = true, .reg = &reg, .ledger = &ledger};
    qkv_batch b = {.n_seq = batch};
    int64_t *offset;
    QKV_TRY(qkv_alloc(ctx, batch + 1, sizeof *offset, &offset));
    for (int64_t s = 0; s <= batch; s++) offset[s] = s * n;
    b.offset = offset;
    qkv_status status = qkv_attention_layer_declare(&layer, &reg, "", &shape, 0);
    if (status == QKV_OK) status = plan(&x, &layer, &b, batch * n, dim);
    *cost = (qkv_layer_cost){0};
    for (int64_t e = 0; e < ledger.count; e++)
        for (int w = 0; w < QKV_WORKS; w++) cost->macs += entries[e].of[QKV_PASS_FORWARD][w].macs;
    for (int64_t i = 0; i < reg.count; i++) cost->parameters += (double)(reg.params[i].rows * reg.params[i].cols);
    qkv_reg_free(&reg);
    qkv_free(ctx, offset);
    return status;
}
