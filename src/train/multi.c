#include "train/multi.h"

#include <math.h>
#include <string.h>

#include "train/metrics.h"

/* Fewer gold rows than that say nothing about a class of their own: tuned on them, its threshold fits what is chance in them, as rare
 * classes are known to (Yang 2001, "A study of thresholding strategies for text categorization"). */
enum { LEAST_ROWS = 10 };

static double f1_of(double hits, double both) {
    return both > 0 ? 2 * hits / both : 0;
}

/* ---- tuning ---- */

qkv_status qkv_tuner_create(qkv_ctx *ctx, int64_t classes, qkv_tuner *t) {
    *t = (qkv_tuner){.classes = classes};
    QKV_TRY(qkv_alloc_zero(ctx, 2 * classes * QKV_GRID, sizeof *t->all, &t->all));
    t->gold = t->all + classes * QKV_GRID;
    return QKV_OK;
}

void qkv_tuner_free(qkv_ctx *ctx, qkv_tuner *t) {
    qkv_free(ctx, t->all);
    *t = (qkv_tuner){0};
}

void qkv_tuner_clear(qkv_tuner *t) {
    memset(t->all, 0, (size_t)t->classes * 2 * QKV_GRID * sizeof *t->all);
    t->rows = t->unseen = 0;
    t->loss_sum = 0;
}

/* The largest k with (k/128)^2 <= p; 0 for what is no probability. */
static int place(real p) {
    if (!(p > 0)) return 0;
    int k = p >= 1 ? QKV_GRID - 1 : (int)(QKV_GRID * sqrt((double)p));
    return k < QKV_GRID ? k : QKV_GRID - 1;
}

void qkv_tuner_add(qkv_tuner *t, const real *p, const int32_t *gold, int64_t count, int64_t unseen, double loss) {
    for (int64_t c = 0; c < t->classes; c++) t->all[c * QKV_GRID + place(p[c])]++;
    for (int64_t i = 0; i < count; i++) t->gold[gold[i] * QKV_GRID + place(p[gold[i]])]++;
    t->rows++;
    t->unseen += unseen;
    t->loss_sum += loss;
}

/* given[k], hits[k]: from place k upwards. */
static void from_above(const int64_t *counts, int64_t sums[QKV_GRID]) {
    int64_t sum = 0;
    for (int k = QKV_GRID - 1; k >= 0; k--) sums[k] = sum += counts[k];
}

/* The k of the best F1; among equals the one nearest to `near`. */
static int best_place(const int64_t *given, const int64_t *hits, int64_t gold, int near) {
    int best = near;
    double most = f1_of((double)hits[near], (double)(given[near] + gold));
    for (int k = 1; k < QKV_GRID; k++) {
        double f1 = f1_of((double)hits[k], (double)(given[k] + gold));
        int farther = (k > near ? k - near : near - k) - (best > near ? best - near : near - best);
        if (f1 > most || (f1 == most && farther < 0)) most = f1, best = k;
    }
    return best;
}

enum { HALF = 91 }; /* the place of about 0.5 */

static int common_place(const qkv_tuner *t) {
    int64_t all[QKV_GRID] = {0}, gold[QKV_GRID] = {0}, given[QKV_GRID], hits[QKV_GRID];
    for (int64_t c = 0; c < t->classes; c++)
        for (int k = 0; k < QKV_GRID; k++) all[k] += t->all[c * QKV_GRID + k], gold[k] += t->gold[c * QKV_GRID + k];
    from_above(all, given);
    from_above(gold, hits);
    return best_place(given, hits, hits[0] + t->unseen, HALF);
}

/* With the common place for all classes, or the best one for each. */
static qkv_tuned judge(const qkv_tuner *t, int common, bool each, double *thresholds) {
    double hit = 0, both = (double)t->unseen, f1 = 0;
    int64_t labels = t->unseen_labels;
    for (int64_t c = 0; c < t->classes; c++) {
        int64_t given[QKV_GRID], hits[QKV_GRID];
        from_above(t->all + c * QKV_GRID, given);
        from_above(t->gold + c * QKV_GRID, hits);
        int k = each && hits[0] >= LEAST_ROWS ? best_place(given, hits, hits[0], common) : common;
        int64_t sum = given[k] + hits[0];
        hit += (double)hits[k];
        both += (double)sum;
        labels += sum > 0;
        f1 += f1_of((double)hits[k], (double)sum);
        if (thresholds) thresholds[c] = qkv_grid(k);
    }
    return (qkv_tuned){
        .each = each,
        .micro_f1 = t->rows > 0 ? f1_of(hit, both) : (double)NAN,
        .macro_f1 = t->rows == 0 ? (double)NAN
                    : labels > 0 ? f1 / (double)labels
                                 : 0,
    };
}

void qkv_tune(const qkv_tuner *t, bool macro, double *thresholds, qkv_tuned *tuned) {
    int common = t->rows > 0 ? common_place(t) : HALF;
    qkv_tuned one = judge(t, common, false, NULL), each = judge(t, common, true, NULL);
    bool better = macro ? each.macro_f1 > one.macro_f1 : each.micro_f1 > one.micro_f1;
    *tuned = judge(t, common, better, thresholds);
}

/* ---- scores ---- */

const int64_t qkv_ranks[QKV_RANKS] = {1, 3, 5};
enum { MOST_RANK = 5 };

qkv_status qkv_multi_counts_create(qkv_ctx *ctx, int64_t classes, qkv_multi_counts *c) {
    *c = (qkv_multi_counts){.classes = classes};
    QKV_TRY(qkv_alloc_zero(ctx, 3 * classes, sizeof *c->support, &c->support));
    c->predicted = c->support + classes;
    c->hits = c->predicted + classes;
    return QKV_OK;
}

void qkv_multi_counts_free(qkv_ctx *ctx, qkv_multi_counts *c) {
    qkv_free(ctx, c->support);
    *c = (qkv_multi_counts){0};
}

/* How many classes stand before this one when the most probable come first. Stops counting at MOST_RANK. */
static int64_t rank_of(const real *p, int64_t classes, int64_t which) {
    int64_t before = 0;
    for (int64_t c = 0; c < classes && before < MOST_RANK; c++) before += p[c] > p[which] || (p[c] == p[which] && c < which);
    return before;
}

bool qkv_multi_counts_add(qkv_multi_counts *c, const real *p, const double *thresholds, const int32_t *gold, int64_t count,
                          int64_t unseen, double loss) {
    int64_t given = 0, hits = 0;
    for (int64_t i = 0; i < c->classes; i++) {
        bool got = (double)p[i] >= thresholds[i];
        c->predicted[i] += got;
        given += got;
    }
    for (int64_t i = 0; i < count; i++) {
        bool got = (double)p[gold[i]] >= thresholds[gold[i]];
        c->support[gold[i]]++;
        c->hits[gold[i]] += got;
        hits += got;
        int64_t rank = rank_of(p, c->classes, gold[i]);
        for (int k = 0; k < QKV_RANKS; k++) c->rank_hits[k] += rank < qkv_ranks[k];
    }
    bool exact = given == count && hits == count && unseen == 0;
    c->rows++;
    c->exact += exact;
    c->unseen += unseen;
    c->loss_sum += loss;
    return exact;
}

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

static void report_class(const qkv_multi_counts *c, int64_t i, qkv_class_score *s) {
    double hits = (double)c->hits[i];
    *s = (qkv_class_score){
        .precision = ratio(hits, (double)c->predicted[i]),
        .recall = ratio(hits, (double)c->support[i]),
        .f1 = f1_of(hits, (double)(c->support[i] + c->predicted[i])),
        .support = c->support[i],
        .predicted = c->predicted[i],
    };
}

void qkv_multi_report(const qkv_multi_counts *c, qkv_classify_report *r) {
    double hits = 0, given = 0, gold = (double)c->unseen;
    for (int64_t i = 0; i < c->classes; i++) {
        report_class(c, i, &r->scores[i]);
        hits += (double)c->hits[i];
        given += (double)c->predicted[i];
        gold += (double)c->support[i];
    }
    qkv_scores s;
    qkv_label_scores(
        &(qkv_label_counts){c->classes, c->support, c->predicted, c->hits, c->unseen_labels, c->unseen, c->rows, c->exact}, &s);
    r->multi_label = 1;
    r->rows = c->rows;
    r->loss = c->rows > 0 ? c->loss_sum / (double)c->rows : (double)NAN;
    r->accuracy = s.accuracy;
    r->micro_precision = ratio(hits, given);
    r->micro_recall = ratio(hits, gold);
    r->micro_f1 = s.micro_f1;
    r->macro_f1 = s.macro_f1;
    r->weighted_f1 = s.weighted_f1;
    r->ranks = 0;
    for (int k = 0; k < QKV_RANKS; k++) {
        if (k > 0 && qkv_ranks[k] > c->classes) break;
        r->by_rank[r->ranks++] = (qkv_rank_score){
            .k = qkv_ranks[k],
            .precision = ratio((double)c->rank_hits[k], (double)(qkv_ranks[k] * c->rows)),
            .recall = ratio((double)c->rank_hits[k], gold),
        };
    }
}
