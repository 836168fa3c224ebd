/* What trainings on the folds of a cross-validation say: the answers to all rows that were asked, put together from the folds, by
 * seed; accuracy and macro-F1 of these, and how they differ between two arms on the same rows. */
#ifndef QKV_COMPARE_FOLD_SCORES_H
#define QKV_COMPARE_FOLD_SCORES_H

#include "compare/crossval.h"

enum { QKV_FOLD_SCORES_RESAMPLES = 1000 };

typedef enum qkv_mark { QKV_MARK_ACCURACY, QKV_MARK_MACRO_F1, QKV_MARKS } qkv_mark;

typedef struct qkv_fold_scores {
    qkv_ctx *ctx;
    uint32_t mask; /* the folds, bit by bit, that it is of */
    int64_t seeds; /* of which all these are done; 0: nothing is known */
    bool fixed;    /* there is nothing but one: a model that has no seed */
    int64_t rows, folds;
    int64_t missing;                   /* trainings that are not there yet */
    int64_t seed[QKV_SAMPLES + 1];     /* [seeds] which of all they are */
    double of[QKV_MARKS][QKV_SAMPLES]; /* [seeds] */
    /* Means over the seeds: of all rows but those of a fold, and of the rows drawn anew so many times. */
    double without[QKV_MARKS][QKV_CROSSVAL_FOLDS], *resampled[QKV_MARKS]; /* [QKV_FOLD_SCORES_RESAMPLES] */
} qkv_fold_scores;

/* Trials of which two places tell fold and seed apart; the others are alike. Their values have "given": the class of each test row of
 * the fold, in the order of the table. */
typedef struct qkv_fold_trials {
    const qkv_run *run;
    const qkv_crossval *crossval;
    const int64_t *at; /* [QKV_TRIAL_PLACES] */
    int fold, turn;
} qkv_fold_trials;

/* The folds that are there: all, if all of one seed are, else those of the seed that has most. */
uint32_t qkv_fold_scores_there(const qkv_fold_trials *trials);
/* Of these folds alone. */
qkv_status qkv_fold_scores_make(const qkv_fold_trials *trials, uint32_t mask, qkv_fold_scores *fold_scores) QKV_MUST_USE;
void qkv_fold_scores_free(qkv_fold_scores *fold_scores);

/* The mean over seeds. Intervals are of seeds and of so many rows together. Of one seed each fold, of which there must be three, is
 * a training of its own: the interval is that of Student's t over the folds (by what each of them changes in the whole: the
 * jackknife), and no narrower than that of the rows. Of one seed and one fold there is none. */
qkv_estimate qkv_fold_scores_mean(const qkv_fold_scores *s, qkv_mark mark);
/* That of b less that of a, which are of the same folds. */
qkv_estimate qkv_fold_scores_gain(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark mark);
/* How much of a's is gone with b: 1 - b / a. */
qkv_estimate qkv_fold_scores_fall(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark mark);

/* A list of classes as a value of a cell, and whether it is one for `rows` rows. */
json_t *qkv_given_json(const int32_t *given, int64_t rows);
bool qkv_given_whole(const json_t *given, int64_t rows, int64_t classes);

#endif
