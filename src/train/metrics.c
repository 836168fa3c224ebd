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

void qkv_counts_scores(const qkv_counts *c, qkv_scores *s) {
    int64_t known = 0, hits = 0, labels = c->unseen_labels;
    double f1 = 0, weighted = 0;
    for (int64_t i = 0; i < c->classes; i++) {
        qkv_class_score one;
        qkv_counts_class(c, i, &one);
        known += one.support;
        hits += c->hits[i];
        labels += one.support + one.predicted > 0;
        f1 += one.f1;
        weighted += one.f1 * (double)one.support;
    }
    int64_t rows = known + c->unseen_rows;
    double accuracy = mean((double)hits, (double)rows);
    *s = (qkv_scores){
        .rows = rows,
        .loss = mean(c->loss_sum, (double)known),
        .accuracy = accuracy,
        .macro_f1 = rows > 0 ? ratio(f1, (double)labels) : (double)NAN,
        .micro_f1 = accuracy,
        .weighted_f1 = mean(weighted, (double)rows),
    };
}
