/* Scores of a classifier from counts.
 *
 * Gold labels that the model does not know ("unseen") can only be wrong: they count in every denominator.
 *   precision  hits / predicted, 0 where nothing was predicted      recall  hits / support, 0 without support
 *   f1         2 * hits / (support + predicted), 0 where both are 0
 *   accuracy   right rows / rows
 *   micro-F1   the f1 of the sums over all labels; where a row has one gold and one predicted label, that is the accuracy
 *   macro-F1   mean of f1 over the labels that occur in gold or prediction, unseen gold labels included with f1 = 0
 *   weighted   mean of f1 weighted by support, unseen labels included with f1 = 0
 * The conventions are those of scikit-learn's f1_score with zero_division=0. Without rows there is nothing to score: NaN. */
#ifndef QKV_TRAIN_METRICS_H
#define QKV_TRAIN_METRICS_H

#include "base/ctx.h"
#include "qkv/classify.h"

typedef struct qkv_counts {
    int64_t classes;
    int64_t *support, *predicted, *hits; /* [classes] each */
    int64_t unseen_rows, unseen_labels;  /* rows whose gold label is no class; how many different such labels */
    double loss_sum;                     /* over the rows with a known label */
} qkv_counts;

qkv_status qkv_counts_create(qkv_ctx *ctx, int64_t classes, qkv_counts *c) QKV_MUST_USE;
void qkv_counts_free(qkv_ctx *ctx, qkv_counts *c);
void qkv_counts_clear(qkv_counts *c); /* unseen_labels stays */

/* gold -1: an unseen label; its loss is not counted. */
void qkv_counts_add(qkv_counts *c, int64_t gold, int64_t predicted, double loss);

/* The counts of a set of rows, whether a row has one label or any number. */
typedef struct qkv_label_counts {
    int64_t labels;
    int64_t *support, *predicted, *hits;   /* [labels] each */
    int64_t unseen_labels, unseen_support; /* gold labels that are not in the lists, and how often they are mentioned */
    int64_t rows, right;                   /* right: every label of the row, and no other */
} qkv_label_counts;

typedef struct qkv_scores {
    int64_t rows;
    double loss; /* mean over the rows with a known label; NaN if there are none */
    double accuracy, macro_f1, micro_f1, weighted_f1;
} qkv_scores;

/* The one place that knows the formulas above. The loss becomes NaN. */
void qkv_label_scores(const qkv_label_counts *c, qkv_scores *s);

void qkv_counts_scores(const qkv_counts *c, qkv_scores *s);
void qkv_counts_class(const qkv_counts *c, int64_t index, qkv_class_score *s);

#endif
