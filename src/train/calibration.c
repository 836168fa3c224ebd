#include "train/calibration.h"

#include <math.h>

int qkv_calibration_bin(double p) {
    double at = ceil(p * QKV_BINS) - 1;
    return at < 0 ? 0 : at < QKV_BINS ? (int)at : QKV_BINS - 1;
}

static void add(qkv_calibration *c, double p, bool right) {
    c->count++;
    if (isnan(p)) return;
    int bin = qkv_calibration_bin(p);
    c->rows[bin]++;
    c->right[bin] += right;
    c->confidence[bin] += p;
}

void qkv_calibration_row(qkv_calibration *c, const real *p, int64_t classes, int64_t gold, int64_t predicted) {
    add(c, (double)p[predicted], gold == predicted);
    double sum = gold < 0 ? 1 : 0;
    for (int64_t i = 0; i < classes; i++) {
        double off = (double)p[i] - (i == gold);
        sum += off * off;
    }
    c->squares += sum;
}

void qkv_calibration_decisions(qkv_calibration *c, const real *p, int64_t classes, const int32_t *gold, int64_t count) {
    for (int64_t i = 0, g = 0; i < classes; i++) {
        bool has = g < count && gold[g] == i;
        double off = (double)p[i] - has;
        g += has;
        add(c, (double)p[i], has);
        c->squares += off * off;
    }
}

void qkv_calibration_report(const qkv_calibration *c, qkv_classify_report *r) {
    int64_t counted = 0;
    double ece = 0, mce = 0, confidence = 0;
    r->bins = QKV_BINS;
    for (int i = 0; i < QKV_BINS; i++) {
        double rows = (double)c->rows[i];
        qkv_reliability *bin = &r->reliability[i];
        *bin = (qkv_reliability){(double)i / QKV_BINS, (double)(i + 1) / QKV_BINS, c->rows[i], (double)NAN, (double)NAN};
        if (c->rows[i] == 0) continue;
        bin->confidence = c->confidence[i] / rows;
        bin->accuracy = (double)c->right[i] / rows;
        double gap = fabs(bin->accuracy - bin->confidence);
        counted += c->rows[i];
        confidence += c->confidence[i];
        ece += gap * rows / (double)c->count;
        mce = gap > mce ? gap : mce;
    }
    bool whole = counted == c->count && counted > 0;
    r->ece = whole ? ece : (double)NAN;
    r->mce = whole ? mce : (double)NAN;
    r->brier = whole ? c->squares / (double)c->count : (double)NAN;
    r->confidence = whole ? confidence / (double)c->count : (double)NAN;
}
