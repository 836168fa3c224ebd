/* Scores of a single-label classifier from counts.
 *
 * A row has one gold label and one predicted class. Gold labels that the model does not know ("unseen") can only be wrong:
 * their rows count in every denominator.
 *   precision  hits / predicted, 0 where nothing was predicted      recall  hits / support, 0 without support
 *   f1         2 * hits / (support + predicted), 0 where both are 0
 *   accuracy   hits / rows        micro-F1  the same number: every row has one gold and one predicted label
 *   macro-F1   mean of f1 over the labels that occur in gold or prediction, unseen gold labels included with f1 = 0
 *   weighted   mean of f1 weighted by support, unseen rows included with f1 = 0
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

typedef struct qkv_scores {
    int64_t rows;
    double loss; /* mean over the rows with a known label; NaN if there are none */
    double accuracy, macro_f1, micro_f1, weighted_f1;
} qkv_scores;

void qkv_counts_scores(const qkv_counts *c, qkv_scores *s);
void qkv_counts_class(const qkv_counts *c, int64_t index, qkv_class_score *s);

#endif
