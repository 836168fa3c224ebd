/* Long documents, of which there are few: dealt to folds, learned from without one of them and asked about that one. The texts stay
 * at hand, as each arm of an experiment reads them in its own way. */
#ifndef QKV_COMPARE_CROSSVAL_H
#define QKV_COMPARE_CROSSVAL_H

#include "compare/dataset.h"
#include "data/table.h"
#include "tasks/classify_data.h"

enum { QKV_CROSSVAL_FOLDS = 5 };

typedef struct qkv_crossval {
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
} qkv_crossval;

/* Zeroed before; to be freed also after a failure. */
qkv_status qkv_crossval_read(qkv_ctx *ctx, const char *path, qkv_crossval *crossval) QKV_MUST_USE;
/* Made: texts of sentences of some of 400 words; of which of four kinds a text is shows in words that are rare, wherever they are.
 */
qkv_status qkv_crossval_make(qkv_ctx *ctx, int64_t rows, int64_t words, uint64_t seed, qkv_crossval *crossval) QKV_MUST_USE;
void qkv_crossval_free(qkv_crossval *crossval);
void qkv_crossval_ask(qkv_crossval *crossval, int64_t folds);    /* only so many folds are held out */
double qkv_crossval_most_frequent(const qkv_crossval *crossval); /* share of the rows that have the most frequent label */

/* The fold as this network reads it (max_length, segments), with a tokenizer of the rows that are learned from. `ends`: of a text
 * that is too long the beginning and the end, half of max_length each, instead of the beginning. Rows come in the order of the
 * table. */
qkv_status qkv_crossval_dataset(qkv_crossval *crossval, int64_t fold, const qkv_config *config, bool ends,
                             qkv_dataset *dataset) QKV_MUST_USE;

/* What the linear model over runs of up to two words answers, learned from the same rows: given[test rows] (qkv_free). */
qkv_status qkv_crossval_linear(qkv_crossval *crossval, int64_t fold, int32_t **given, double *bytes) QKV_MUST_USE;

#endif
