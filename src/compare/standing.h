/* What trainings on the folds of a course say: the answers to all rows that were asked, put together from the folds, by seed;
 * accuracy and macro-F1 of these, and how they differ between two arms on the same rows. */
#ifndef QKV_COMPARE_STANDING_H
#define QKV_COMPARE_STANDING_H

#include "compare/course.h"

enum { QKV_STANDING_RESAMPLES = 1000 };

typedef enum qkv_mark { QKV_MARK_ACCURACY, QKV_MARK_MACRO_F1, QKV_MARKS } qkv_mark;

typedef struct qkv_standing {
    qkv_ctx *ctx;
    int64_t seeds;                     /* all folds of which are done; 0: nothing is known */
    double of[QKV_MARKS][QKV_SAMPLES]; /* [seeds] */
    double *resampled[QKV_MARKS];      /* [QKV_STANDING_RESAMPLES] of the rows, mean over the seeds */
} qkv_standing;

/* Of the trials at these places, of which `fold` and `turn` tell fold and seed apart. Their values have "given": the class of each
 * test row of the fold, in the order of the table. */
qkv_status qkv_standing_make(const qkv_run *run, const qkv_course *course, const int64_t at[QKV_TRIAL_PLACES], int fold, int turn,
                             qkv_standing *standing) QKV_MUST_USE;
void qkv_standing_free(qkv_standing *standing);

/* The mean over seeds. All intervals are of seeds and of so many rows together; of one seed, of the rows alone. */
qkv_estimate qkv_standing_mean(const qkv_standing *s, qkv_mark mark);
/* That of b less that of a. */
qkv_estimate qkv_standing_gain(const qkv_standing *a, const qkv_standing *b, qkv_mark mark);
/* How much of a's is gone with b: 1 - b / a. */
qkv_estimate qkv_standing_fall(const qkv_standing *a, const qkv_standing *b, qkv_mark mark);

/* A list of classes as a value of a cell, and whether it is one for `rows` rows. */
json_t *qkv_given_json(const int32_t *given, int64_t rows);
bool qkv_given_whole(const json_t *given, int64_t rows, int64_t classes);

#endif
