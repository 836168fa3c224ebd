/* Confidence intervals of a test, and two tests side by side. */
#include <math.h>

#include "tasks/classify_exam.h"
#include "train/bootstrap.h"
#include "train/mcnemar.h"

static qkv_status check_resamples(qkv_ctx *ctx, int64_t resamples) {
    if (resamples >= QKV_LEAST_RESAMPLES && resamples <= QKV_MOST_RESAMPLES) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "resamples=%lld: expected %d to %d (fewer say nothing about the ends of an interval)",
                    (long long)resamples, QKV_LEAST_RESAMPLES, QKV_MOST_RESAMPLES);
}

qkv_status qkv_classify_resample(qkv_classify_report *r, int64_t resamples, uint64_t seed) {
    const qkv_tested *t = qkv_tested_of(r);
    double *scores;
    QKV_TRY(check_resamples(t->ctx, resamples));
    QKV_TRY(qkv_alloc(t->ctx, QKV_BOOT_SCORES * resamples, sizeof *scores, &scores));
    qkv_status status = qkv_bootstrap(t->ctx, &t->outcomes, resamples, seed, scores);
    if (status == QKV_OK) {
        r->resamples = resamples;
        r->seed = seed;
        r->accuracy_interval = qkv_bootstrap_interval(scores + QKV_BOOT_ACCURACY * resamples, resamples);
        r->macro_f1_interval = qkv_bootstrap_interval(scores + QKV_BOOT_MACRO_F1 * resamples, resamples);
        r->micro_f1_interval = qkv_bootstrap_interval(scores + QKV_BOOT_MICRO_F1 * resamples, resamples);
        r->weighted_f1_interval = qkv_bootstrap_interval(scores + QKV_BOOT_WEIGHTED_F1 * resamples, resamples);
    }
    qkv_free(t->ctx, scores);
    return status;
}

/* ---- two ---- */

static qkv_status check_pair(const qkv_tested *a, const qkv_tested *b) {
    if (a->report.multi_label != b->report.multi_label)
        return qkv_fail(a->ctx, QKV_BAD_ARGUMENT,
                        "the %s model gives one label to a text, the other any number: their scores do not compare",
                        a->report.multi_label ? "second" : "first");
    if (a->table.count != b->table.count)
        return qkv_fail(a->ctx, QKV_BAD_ARGUMENT, "the two tests have different rows: %lld and %lld of them",
                        (long long)a->table.count, (long long)b->table.count);
    if (a->table.hash != b->table.hash) return qkv_fail(a->ctx, QKV_BAD_ARGUMENT, "the two tests have different rows");
    return QKV_OK;
}

static void count_rows(const qkv_tested *a, const qkv_tested *b, qkv_comparison *c) {
    c->rows = a->table.count;
    for (int64_t i = 0; i < c->rows; i++) {
        bool x = qkv_outcome_right(&a->outcomes, i), y = qkv_outcome_right(&b->outcomes, i);
        c->both_right += x && y;
        c->only_a += x && !y;
        c->only_b += y && !x;
        c->neither += !x && !y;
    }
    c->mcnemar = qkv_mcnemar(c->only_a, c->only_b);
}

static qkv_score_pair pair_of(double a, double b) {
    const qkv_interval none = {(double)NAN, (double)NAN};
    return (qkv_score_pair){a, b, none, none, b - a, none, (double)NAN};
}

/* x, y: the resampled scores, which are sorted here. */
static void judge(double *x, double *y, double *differences, int64_t n, qkv_score_pair *pair) {
    for (int64_t i = 0; i < n; i++) differences[i] = y[i] - x[i];
    pair->a_interval = qkv_bootstrap_interval(x, n);
    pair->b_interval = qkv_bootstrap_interval(y, n);
    pair->interval = qkv_bootstrap_interval(differences, n);
    pair->p = qkv_bootstrap_p(differences, n);
}

static qkv_status resample_both(const qkv_tested *a, const qkv_tested *b, double *scores, qkv_comparison *c) {
    int64_t n = c->resamples;
    double *x = scores, *y = x + QKV_BOOT_SCORES * n, *differences = y + QKV_BOOT_SCORES * n;
    QKV_TRY(qkv_bootstrap(a->ctx, &a->outcomes, n, c->seed, x));
    QKV_TRY(qkv_bootstrap(a->ctx, &b->outcomes, n, c->seed, y));
    qkv_score_pair *const pairs[QKV_BOOT_SCORES] = {&c->accuracy, &c->macro_f1, &c->micro_f1, &c->weighted_f1};
    for (int i = 0; i < QKV_BOOT_SCORES; i++) judge(x + i * n, y + i * n, differences, n, pairs[i]);
    return QKV_OK;
}

qkv_status qkv_classify_pair(const qkv_classify_report *a, const qkv_classify_report *b, int64_t resamples, uint64_t seed,
                             qkv_comparison *c) {
    const qkv_tested *x = qkv_tested_of(a), *y = qkv_tested_of(b);
    *c = (qkv_comparison){.resamples = resamples, .seed = seed};
    if (resamples != 0) QKV_TRY(check_resamples(x->ctx, resamples));
    QKV_TRY(check_pair(x, y));
    count_rows(x, y, c);
    c->accuracy = pair_of(a->accuracy, b->accuracy);
    c->macro_f1 = pair_of(a->macro_f1, b->macro_f1);
    c->micro_f1 = pair_of(a->micro_f1, b->micro_f1);
    c->weighted_f1 = pair_of(a->weighted_f1, b->weighted_f1);
    if (resamples == 0) return QKV_OK;
    double *scores;
    QKV_TRY(qkv_alloc(x->ctx, (2 * QKV_BOOT_SCORES + 1) * resamples, sizeof *scores, &scores));
    qkv_status status = resample_both(x, y, scores, c);
    qkv_free(x->ctx, scores);
    return status;
}
