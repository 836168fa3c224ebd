#include "train/metrics.h"

#include <math.h>
#include <string.h>

qkv_status qkv_counts_create(qkv_ctx *ctx, int64_t classes, qkv_counts *c) {
    *c = (qkv_counts){.classes = classes};
    QKV_TRY(qkv_alloc_zero(ctx, 3 * classes, sizeof(int64_t), &c->support));
    c->predicted = c->support + classes;
    c->hits = c->predicted + classes;
    return QKV_OK;
}

void qkv_counts_free(qkv_ctx *ctx, qkv_counts *c) {
    qkv_free(ctx, c->support);
    *c = (qkv_counts){0};
}

void qkv_counts_clear(qkv_counts *c) {
    if (c->classes > 0) memset(c->support, 0, (size_t)c->classes * 3 * sizeof(int64_t));
    c->unseen_rows = 0;
    c->loss_sum = 0;
}

void qkv_counts_add(qkv_counts *c, int64_t gold, int64_t predicted, double loss) {
    c->predicted[predicted]++;
    if (gold < 0) {
        c->unseen_rows++;
        return;
    }
    c->support[gold]++;
    c->hits[gold] += gold == predicted;
    c->loss_sum += loss;
}

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

/* Of nothing there is no mean. */
static double mean(double sum, double count) {
    return count > 0 ? sum / count : (double)NAN;
}

void qkv_counts_class(const qkv_counts *c, int64_t i, qkv_class_score *s) {
    double hits = (double)c->hits[i];
    *s = (qkv_class_score){
        .precision = ratio(hits, (double)c->predicted[i]),
        .recall = ratio(hits, (double)c->support[i]),
        .f1 = ratio(2 * hits, (double)(c->support[i] + c->predicted[i])),
        .support = c->support[i],
        .predicted = c->predicted[i],
    };
}

void qkv_label_scores(const qkv_label_counts *c, qkv_scores *s) {
    double hits = 0, given = 0, gold = (double)c->unseen_support, f1 = 0, weighted = 0;
    int64_t labels = c->unseen_labels;
    for (int64_t i = 0; i < c->labels; i++) {
        int64_t both = c->support[i] + c->predicted[i];
        double one = ratio(2 * (double)c->hits[i], (double)both);
        hits += (double)c->hits[i];
        given += (double)c->predicted[i];
        gold += (double)c->support[i];
        labels += both > 0;
        f1 += one;
        weighted += one * (double)c->support[i];
    }
    const double none = (double)NAN;
    bool some = c->rows > 0;
    *s = (qkv_scores){
        .rows = c->rows,
        .loss = none,
        .accuracy = some ? (double)c->right / (double)c->rows : none,
        .macro_f1 = some ? ratio(f1, (double)labels) : none,
        .micro_f1 = some ? ratio(2 * hits, given + gold) : none,
        .weighted_f1 = some ? ratio(weighted, gold) : none,
    };
}

void qkv_counts_scores(const qkv_counts *c, qkv_scores *s) {
    int64_t known = 0, hits = 0;
    for (int64_t i = 0; i < c->classes; i++) {
        known += c->support[i];
        hits += c->hits[i];
    }
    qkv_label_scores(&(qkv_label_counts){c->classes, c->support, c->predicted, c->hits, c->unseen_labels, c->unseen_rows,
                                         known + c->unseen_rows, hits},
                     s);
    s->loss = mean(c->loss_sum, (double)known);
}
