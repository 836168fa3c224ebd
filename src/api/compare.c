/* The public side of experiments: arguments are checked, src/compare does the work. */
#include "qkv/compare.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "compare/list.h"
#include "qkv/machine.h"
#include "qkv/output.h"
#include "report/page.h"

enum { MOST_SEEDS = 100 };

void qkv_compare_init(qkv_compare_options *o) {
    if (o) *o = (qkv_compare_options){.struct_size = sizeof *o, .seed = 1};
}

static int64_t experiments(void) {
    int64_t n = 0;
    while (qkv_experiments[n]) n++;
    return n;
}

const char *qkv_compare_name(int64_t index) {
    return index >= 0 && index < experiments() ? qkv_experiments[index]->name : NULL;
}

const char *qkv_compare_summary(int64_t index) {
    return index >= 0 && index < experiments() ? qkv_experiments[index]->summary : NULL;
}

static qkv_status find(qkv_ctx *ctx, const char *what, const qkv_experiment **experiment) {
    char names[256] = "";
    if (!what) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_compare_run: what is NULL");
    for (int64_t i = 0; qkv_experiments[i]; i++) {
        *experiment = qkv_experiments[i];
        if (strcmp(what, (*experiment)->name) == 0) return QKV_OK;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", (*experiment)->name);
    }
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no experiment '%.40s'; there is: %s", what, names);
}

static qkv_status check(qkv_ctx *ctx, const qkv_compare_options *o, const qkv_experiment **experiment) {
    if (!o) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_compare_run: options is NULL");
    if (o->struct_size != sizeof *o)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_compare_run: struct_size=%zu, expected %zu (qkv_compare_init sets it)",
                        o->struct_size, sizeof *o);
    if (o->seeds < 0 || o->seeds > MOST_SEEDS)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "seeds=%lld is not in 0..%d", (long long)o->seeds, MOST_SEEDS);
    if (o->seed > UINT64_MAX - MOST_SEEDS)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "seed=%llu: those that follow it would begin again at 0", (unsigned long long)o->seed);
    QKV_TRY(find(ctx, o->what, experiment));
    if (o->data && !(*experiment)->takes_data) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "data: '%s' reads no data", o->what);
    return QKV_OK;
}

qkv_status qkv_compare_run(qkv_ctx *ctx, const qkv_compare_options *o, const qkv_compare_callbacks *callbacks,
                           qkv_compare_result **result) {
    const qkv_experiment *experiment = NULL;
    qkv_machine m;
    char machine[192];
    if (result) *result = NULL;
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!result) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_compare_run: result is NULL");
    QKV_TRY(check(ctx, o, &experiment));
    QKV_TRY(qkv_machine_describe(ctx, &m));
    snprintf(machine, sizeof machine, "%s, %s, %d thread%s", m.cpu[0] ? m.cpu : "unknown CPU", m.isa, m.threads,
             m.threads == 1 ? "" : "s");
    return qkv_experiment_run(ctx, experiment, o, machine, callbacks, result);
}

void qkv_compare_free(qkv_ctx *ctx, qkv_compare_result *result) {
    (void)ctx;
    if (result) qkv_outcome_free(qkv_outcome_of(result));
}

static qkv_status write_page(qkv_ctx *ctx, const char *path, const qkv_buf *page) {
    qkv_output *output;
    QKV_TRY(qkv_output_open(ctx, path, &output));
    qkv_status status = qkv_output_write(output, page->p, page->size);
    if (status == QKV_OK) return qkv_output_commit(output);
    qkv_output_discard(output);
    return status;
}

qkv_status qkv_compare_write_page(qkv_ctx *ctx, const qkv_compare_result *result, const char *path) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!result || !path) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_compare_write_page: %s is NULL", result ? "path" : "result");
    qkv_buf page = {.ctx = ctx};
    qkv_status status = qkv_page_print(result, &page);
    if (status == QKV_OK) status = write_page(ctx, path, &page);
    qkv_buf_free(&page);
    return status;
}
