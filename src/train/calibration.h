/* Do probabilities mean what they say? (Guo, Pleiss, Sun & Weinberger 2017, "On calibration of modern neural networks", section 2.)
 *
 * Probabilities fall into 15 bins of equal width, bin m = ((m - 1) / 15, m / 15], 0 in the first one.
 *   ece    expected calibration error: mean over rows of |accuracy - mean probability| of the row's bin
 *   mce    the largest of these differences over the bins that have rows
 *   brier  (Brier 1950) mean of the squared distance between probabilities and truth
 * Where a row has one label, a row counts once, with the probability of the label it got, which is the largest; accuracy is the
 * share of rows that got the right one. Brier sums over the classes, (p - 1)^2 for the gold one and p^2 for the others: from 0 to
 * 2; a gold label that the model does not know has p = 0. Where a row has any number, every decision counts: each class of each
 * row, with its probability as it is; "accuracy" is the share of rows that have the label, and Brier the mean over decisions, from
 * 0 to 1. Labels that the model does not know are not decided on. A probability that is not a number is in no bin, and makes all
 * three NaN. */
#ifndef QKV_TRAIN_CALIBRATION_H
#define QKV_TRAIN_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"
#include "qkv/classify.h"

enum { QKV_BINS = 15 };

typedef struct qkv_calibration {
    int64_t count; /* rows, or decisions */
    int64_t rows[QKV_BINS], right[QKV_BINS];
    double confidence[QKV_BINS]; /* sums */
    double squares;
} qkv_calibration;

int qkv_calibration_bin(double p); /* of a p that is a number */

/* gold -1: a label that the model does not know. */
void qkv_calibration_row(qkv_calibration *c, const real *p, int64_t classes, int64_t gold, int64_t predicted);
/* gold[count]: classes, ascending. */
void qkv_calibration_decisions(qkv_calibration *c, const real *p, int64_t classes, const int32_t *gold, int64_t count);

/* Fills the calibration of the report; reliability[QKV_BINS] must be there. */
void qkv_calibration_report(const qkv_calibration *c, qkv_classify_report *r);

#endif
