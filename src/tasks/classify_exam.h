/* What the files behind `qkv test` share: what is known of the rows while they are scored (classify_test.c), and what a report
 * keeps of them (classify_report.c makes it; classify_errors.c and classify_compare.c use it). */
#ifndef QKV_TASKS_CLASSIFY_EXAM_H
#define QKV_TASKS_CLASSIFY_EXAM_H

#include "tasks/classify.h"
#include "tasks/classify_data.h"
#include "train/calibration.h"
#include "train/metrics.h"
#include "train/multi.h"
#include "train/outcomes.h"

enum { QKV_EXAM_LENGTHS = 6 };
/* Tokens before the cut, inclusive; the last has no end. */
extern const int64_t qkv_exam_length_ends[QKV_EXAM_LENGTHS];

/* Lists of label numbers, the rows in any order. */
typedef struct qkv_given {
    int64_t *first, *count; /* [rows] */
    int32_t *labels;
    int64_t size, capacity;
} qkv_given;

typedef struct qkv_exam {
    qkv_ctx *ctx;
    const qkv_model *model;
    qkv_table table;
    qkv_counts counts;
    qkv_multi_counts multi; /* instead of counts, where the model is one of any number of labels */
    qkv_calibration calibration;
    int32_t *gold, *predicted;           /* [rows] one label a row; gold -1: the model does not know it */
    qkv_given given;                     /* instead of the two */
    real *confidence, *gold_probability; /* [rows] as in the file of errors; gold_probability -1: there is no gold label */
    int64_t rows[QKV_EXAM_LENGTHS], hits[QKV_EXAM_LENGTHS];
    int64_t cut_rows, cut_tokens;
    char separator[QKV_OPTION_TEXT_SIZE]; /* between several labels */
} qkv_exam;

typedef struct qkv_tested {
    qkv_classify_report report; /* what the caller sees */
    qkv_ctx *ctx;
    const qkv_model *model;
    qkv_table table;
    qkv_outcomes outcomes;
    real *confidence, *gold_probability;
    char separator[QKV_OPTION_TEXT_SIZE];
} qkv_tested;

static inline const qkv_tested *qkv_tested_of(const qkv_classify_report *report) {
    return (const qkv_tested *)(const void *)report;
}

/* The report of rows that are in memory; the table is the report's from now on. */
qkv_status qkv_classify_score_table(const qkv_model *model, qkv_table *table, qkv_classify_report **report) QKV_MUST_USE;

/* Takes over what the report needs of the exam. */
qkv_status qkv_exam_report(qkv_exam *exam, qkv_classify_report **report) QKV_MUST_USE;

/* The text of a label by its number in the outcomes. */
const char *qkv_tested_label(const qkv_tested *t, int64_t number);

#endif
