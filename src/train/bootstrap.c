#include "train/bootstrap.h"

#include <stdlib.h>
#include <string.h>

#include "base/par.h"
#include "base/rng.h"
#include "train/metrics.h"

/* Between two looks at whether to stop: some hundredths of a second. */
enum { DRAWS_AT_ONCE = 1 << 24 };

typedef struct resampling {
    const qkv_outcomes *o;
    uint64_t seed;
    int64_t first, resamples;
    int32_t *times;  /* [threads][times_stride] how often a cell was drawn */
    int64_t *counts; /* [threads][counts_stride] support, predicted and hits of the labels */
    int64_t times_stride, counts_stride;
    double *scores;
} resampling;

/* Counters that two threads write must not share a cache line. */
static int64_t apart(int64_t count, size_t size) {
    enum { LINE = 128 };
    int64_t in_line = LINE / (int64_t)size;
    return (count + in_line - 1) / in_line * in_line + in_line;
}

static void draw(const qkv_outcomes *o, uint64_t key, int32_t *times) {
    const uint64_t rows = (uint64_t)o->rows;
    memset(times, 0, (size_t)o->cells * sizeof *times);
    for (uint64_t i = 0; i < rows; i++) times[o->cell[qkv_below(key + i * 0x9E3779B97F4A7C15u, rows)]]++;
}

static void count_cells(const qkv_outcomes *o, const int32_t *times, qkv_label_counts *c) {
    memset(c->support, 0, (size_t)o->labels * 3 * sizeof *c->support);
    for (int64_t i = 0; i < o->cells; i++) {
        int64_t n = times[i];
        if (n == 0) continue;
        c->right += o->right[i] ? n : 0;
        for (int64_t m = o->mark_at[i]; m < o->mark_at[i + 1]; m++) {
            uint32_t label = o->marks[m] / QKV_MARK_LABEL, bits = o->marks[m] % QKV_MARK_LABEL;
            c->support[label] += bits & QKV_GOLD ? n : 0;
            c->predicted[label] += bits & QKV_GIVEN ? n : 0;
            c->hits[label] += bits == (QKV_GOLD | QKV_GIVEN) ? n : 0;
        }
    }
}

static void resample(void *arg, int64_t chunk, int thread) {
    const resampling *b = arg;
    const qkv_outcomes *o = b->o;
    int64_t r = b->first + chunk, labels = o->labels, *counts = b->counts + b->counts_stride * thread;
    int32_t *times = b->times + b->times_stride * thread;
    qkv_label_counts c = {
        .labels = labels, .support = counts, .predicted = counts + labels, .hits = counts + 2 * labels, .rows = o->rows};
    draw(o, qkv_key3(b->seed, QKV_BOOTSTRAP_SITE, (uint64_t)r), times);
    count_cells(o, times, &c);
    qkv_scores s;
    qkv_label_scores(&c, &s);
    b->scores[QKV_BOOT_ACCURACY * b->resamples + r] = s.accuracy;
    b->scores[QKV_BOOT_MACRO_F1 * b->resamples + r] = s.macro_f1;
    b->scores[QKV_BOOT_MICRO_F1 * b->resamples + r] = s.micro_f1;
    b->scores[QKV_BOOT_WEIGHTED_F1 * b->resamples + r] = s.weighted_f1;
}

static qkv_status all_resamples(qkv_ctx *ctx, resampling *b) {
    b->times_stride = apart(b->o->cells, sizeof *b->times);
    b->counts_stride = apart(3 * b->o->labels, sizeof *b->counts);
    QKV_TRY(qkv_alloc(ctx, ctx->threads * b->times_stride, sizeof *b->times, &b->times));
    QKV_TRY(qkv_alloc(ctx, ctx->threads * b->counts_stride, sizeof *b->counts, &b->counts));
    int64_t at_once = DRAWS_AT_ONCE / b->o->rows + 1;
    for (; b->first < b->resamples; b->first += at_once) {
        int64_t left = b->resamples - b->first;
        if (qkv_stop_asked(ctx))
            return qkv_fail(ctx, QKV_STOPPED, "stopped on request after %lld of %lld resamples", (long long)b->first,
                            (long long)b->resamples);
        qkv_par(ctx, left < at_once ? left : at_once, resample, b);
    }
    return QKV_OK;
}

qkv_status qkv_bootstrap(qkv_ctx *ctx, const qkv_outcomes *o, int64_t resamples, uint64_t seed, double *scores) {
    resampling b = {.o = o, .seed = seed, .resamples = resamples, .scores = scores};
    qkv_status status = all_resamples(ctx, &b);
    qkv_free(ctx, b.times);
    qkv_free(ctx, b.counts);
    return status;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

qkv_interval qkv_bootstrap_interval(double *values, int64_t n) {
    int64_t k = (n + 1) / 40;
    qsort(values, (size_t)n, sizeof *values, ascending);
    return (qkv_interval){values[k - 1], values[n - k]};
}

double qkv_bootstrap_p(const double *differences, int64_t n) {
    int64_t below = 0, above = 0;
    for (int64_t i = 0; i < n; i++) {
        below += differences[i] <= 0;
        above += differences[i] >= 0;
    }
    double p = 2 * (double)(1 + (below < above ? below : above)) / (double)(n + 1);
    return p < 1 ? p : 1;
}
