/* Long documents, of which there are few: dealt to folds, learned from without one of them and asked about that one. The texts stay
 * at hand, as each arm of an experiment reads them in its own way. */
#ifndef QKV_COMPARE_COURSE_H
#define QKV_COMPARE_COURSE_H

#include "compare/lesson.h"
#include "data/table.h"
#include "tasks/classify_data.h"

enum { QKV_COURSE_FOLDS = 5 };

typedef struct qkv_course {
    qkv_ctx *ctx;
    char name[256]; /* for people, and for keys of cells */
    qkv_table table;
    qkv_labels labels;
    int32_t *target, *fold; /* [table.count] */
    int64_t asked;          /* folds that are held out, one after the other: all where there are few rows, else the first */
    int64_t test_rows;      /* of these folds */
    int64_t words;          /* median of a text, as white space parts them */
    int64_t at;             /* the fold at hand, -1: none */
    qkv_table train, test;  /* views of it */
    qkv_tokenizer *tokenizer;
} qkv_course;

/* Zeroed before; to be freed also after a failure. */
qkv_status qkv_course_read(qkv_ctx *ctx, const char *path, qkv_course *course) QKV_MUST_USE;
/* Made: texts of sentences of some of 400 words; of which of four kinds a text is shows in words that are rare, wherever they are.
 */
qkv_status qkv_course_make(qkv_ctx *ctx, int64_t rows, int64_t words, uint64_t seed, qkv_course *course) QKV_MUST_USE;
void qkv_course_free(qkv_course *course);
void qkv_course_ask(qkv_course *course, int64_t folds);    /* only so many folds are held out */
double qkv_course_most_frequent(const qkv_course *course); /* share of the rows that have the most frequent label */

/* The fold as this network reads it (max_length, segments), with a tokenizer of the rows that are learned from. `ends`: of a text
 * that is too long the beginning and the end, half of max_length each, instead of the beginning. Rows come in the order of the
 * table. */
qkv_status qkv_course_lesson(qkv_course *course, int64_t fold, const qkv_config *config, bool ends,
                             qkv_lesson *lesson) QKV_MUST_USE;

/* What the linear model over runs of up to two words answers, learned from the same rows: given[test rows] (qkv_free). */
qkv_status qkv_course_linear(qkv_course *course, int64_t fold, int32_t **given, double *bytes) QKV_MUST_USE;

#endif
