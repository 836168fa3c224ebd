/* Scores and thresholds where a row has any number of labels.
 *
 * A class is given to a row whose probability of it reaches the class's threshold. Gold labels that the model does not know can
 * only be missed: they count in every recall.
 *   micro   precision = hits / given, recall = hits / gold, over all (row, class) pairs; f1 = 2 hits / (given + gold)
 *   macro   mean of the f1 of each label that occurs in gold or was given; unknown labels have f1 = 0
 *   exact   share of the rows whose set of labels is right
 *   at k    of the k most probable classes of each row: precision = hits / (k rows), recall = hits / gold (as in fastText) */
#ifndef QKV_TRAIN_MULTI_H
#define QKV_TRAIN_MULTI_H

#include <stdbool.h>

#include "base/ctx.h"
#include "base/real.h"
#include "qkv/classify.h"

/* Thresholds are tried on a grid that is fine where probabilities are small: (k / 128)^2, k = 1 .. 127, all of them exact. */
enum { QKV_GRID = 128 };
static inline double qkv_grid(int k) { return (double)k * k / (QKV_GRID * QKV_GRID); }

/* Counts of probabilities by place in the grid: all that tuning needs. */
typedef struct qkv_tuner {
    int64_t classes, rows, unseen; /* unseen: mentions of labels that are no class */
    int64_t unseen_labels;         /* how many different ones */
    int64_t *all, *gold;           /* [classes][QKV_GRID] */
    double loss_sum;
} qkv_tuner;

qkv_status qkv_tuner_create(qkv_ctx *ctx, int64_t classes, qkv_tuner *t) QKV_MUST_USE;
void qkv_tuner_free(qkv_ctx *ctx, qkv_tuner *t);
void qkv_tuner_clear(qkv_tuner *t); /* unseen_labels stays */
void qkv_tuner_add(qkv_tuner *t, const real *p, const int32_t *gold, int64_t count, int64_t unseen, double loss);

typedef struct qkv_tuned {
    bool each; /* every class has a threshold of its own */
    double micro_f1, macro_f1; /* NaN without rows */
} qkv_tuned;

/* Finds the one threshold with the best micro-F1, and for each class that has at least 10 gold rows the one with the best F1 (the
 * other classes keep the common one); takes whichever of the two scores better by micro-F1 (by macro-F1 where `macro`), the single
 * one where they tie. thresholds[classes] may be NULL. */
void qkv_tune(const qkv_tuner *t, bool macro, double *thresholds, qkv_tuned *tuned);

enum { QKV_RANKS = 3 };
extern const int64_t qkv_ranks[QKV_RANKS]; /* 1, 3, 5 */

typedef struct qkv_multi_counts {
    int64_t classes, rows, exact, unseen, unseen_labels;
    int64_t *support, *predicted, *hits; /* [classes] each */
    int64_t rank_hits[QKV_RANKS];
    double loss_sum;
} qkv_multi_counts;

qkv_status qkv_multi_counts_create(qkv_ctx *ctx, int64_t classes, qkv_multi_counts *c) QKV_MUST_USE;
void qkv_multi_counts_free(qkv_ctx *ctx, qkv_multi_counts *c);
/* True if the row's set of labels is right. */
bool qkv_multi_counts_add(qkv_multi_counts *c, const real *p, const double *thresholds, const int32_t *gold, int64_t count,
                          int64_t unseen, double loss);

/* Fills the metrics of the report, scores[classes] included, where r->scores is there already. */
void qkv_multi_report(const qkv_multi_counts *c, qkv_classify_report *r);

#endif
