/* Logistic regression on rows that are sets of features, one class against the rest, by dual coordinate descent (Yu, Huang and
 * Lin 2011): no rate to choose, and the same bits for any number of threads.
 *
 * A feature counts for a class by its naive Bayes log-count ratio (Wang and Manning 2012): with p_f the rows of the class that have
 * feature f, and q_f the others, r_f = log((p_f + 1) / sum (p + 1)) - log((q_f + 1) / sum (q + 1)). Weights of r_f x_f are learned,
 *
 *     min over w, b of  1/2 (|w|^2 + b^2) + c * sum over rows of log(1 + exp(-y (w . (r x) + b))),   y = +-1
 *
 * and handed out multiplied by r_f. */
#ifndef QKV_TRAIN_LOGISTIC_H
#define QKV_TRAIN_LOGISTIC_H

#include <stdbool.h>

#include "base/ctx.h"
#include "base/real.h"

/* Row i has the features index[offset[i]] .. index[offset[i+1]-1], ascending and each once. */
typedef struct qkv_feature_rows {
    int64_t rows, features;
    const int64_t *offset; /* [rows + 1] */
    const int32_t *index;
} qkv_feature_rows;

typedef struct qkv_logistic_problem {
    qkv_feature_rows x;
    int64_t classes;
    const int32_t *target;   /* [rows], 0 .. classes-1; or, where a row has any number of classes, NULL and */
    const int64_t *label_at; /* [rows + 1]: those of row i are labels[label_at[i]] .. labels[label_at[i+1]-1] */
    const int32_t *labels;
    const real *weight; /* [classes] of the rows of a class (any number: of the terms of a label); NULL: 1 */
    double cost;        /* c */
    double tolerance;   /* of the logit of a row, at which it is left alone */
    int passes;         /* over the rows, at most */
    uint64_t seed;
} qkv_logistic_problem;

typedef struct qkv_logistic_result {
    real *weight; /* [features][classes] */
    real *bias;   /* [classes] */
} qkv_logistic_result;

/* Where each row has one of two classes one is learned, and the scores are -s/2 and s/2. Allocates the result's arrays
 * (qkv_logistic_free). QKV_STOPPED when the stop callback asks for it. */
qkv_status qkv_logistic_fit(qkv_ctx *ctx, const qkv_logistic_problem *problem, qkv_logistic_result *result) QKV_MUST_USE;
void qkv_logistic_free(qkv_ctx *ctx, qkv_logistic_result *result);

#endif
