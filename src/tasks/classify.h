/* Text classification: data, model and metrics put together. The public functions of qkv/classify.h are these, checked. */
#ifndef QKV_TASKS_CLASSIFY_H
#define QKV_TASKS_CLASSIFY_H

#include <jansson.h>

#include "models/model.h"
#include "qkv/classify.h"

extern const qkv_option_table qkv_classify_table;

/* An embedding_lr of 0 means this many times lr. */
enum { QKV_CLASSIFY_EMBEDDING_RATE = 6 };

/* Refuses options that lie outside the ranges of the table or contradict each other: QKV_BAD_CONFIG. */
qkv_status qkv_classify_check(qkv_ctx *ctx, const qkv_classify_options *options) QKV_MUST_USE;
qkv_status qkv_classify_size(qkv_ctx *ctx, qkv_classify_options *options, const char *size) QKV_MUST_USE;
qkv_status qkv_classify_model(qkv_ctx *ctx, qkv_classify_options *options, const char *model) QKV_MUST_USE;

/* The network's configuration; qkv_config_check has the last word on it (heads that do not divide dim, ...). Which tokens are
 * global by what they are only a tokenizer can tell (models/globals.h): one stands for them. */
qkv_config qkv_classify_config(const qkv_classify_options *options, int64_t vocab, int64_t classes);

struct qkv_table;

/* Where the rows of a run come from. */
/* Whether there is a linear model beside the network: not where there is no choice. */
static inline bool qkv_classify_has_bag(const qkv_classify_options *o, int64_t classes) {
    return o->ngrams > 0 && (classes != 1 || o->multi_label);
}

typedef struct qkv_classify_source {
    const char *train, *dev; /* files; dev NULL: one row in ten of the training rows */
    /* Instead of the files: rows that are in memory, of which a run takes what it needs and changes nothing. */
    const struct qkv_table *train_rows, *dev_rows;
    int64_t held; /* bytes that stay in memory beside the run */
} qkv_classify_source;

/* See qkv_classify_train. `recorded` goes into the training record as "options" (borrowed; may be NULL). */
qkv_status qkv_classify_fit(qkv_ctx *ctx, const qkv_classify_options *options, json_t *recorded, const char *train, const char *dev,
                            const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks, qkv_model **model) QKV_MUST_USE;
qkv_status qkv_classify_fit_rows(qkv_ctx *ctx, const qkv_classify_options *options, json_t *recorded, const qkv_classify_source *source,
                                 const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks,
                                 qkv_model **model) QKV_MUST_USE;

/* See qkv_classify_predict. */
qkv_status qkv_classify_apply(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths,
                              float *probabilities, int64_t *dropped) QKV_MUST_USE;

/* See qkv_classify_embed. */
qkv_status qkv_classify_vectors(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths, float *vectors,
                                int64_t *dropped) QKV_MUST_USE;

/* See qkv_classify_test and qkv_classify_report_free. */
qkv_status qkv_classify_score(const qkv_model *model, const char *path, const qkv_data_options *data,
                              void (*progress)(void *user, int64_t rows), void *user, qkv_classify_report **report) QKV_MUST_USE;
void qkv_classify_score_free(qkv_ctx *ctx, qkv_classify_report *report);

/* See qkv_classify_intervals, qkv_classify_compare, qkv_classify_write_errors, qkv_classify_write_confusion. */
qkv_status qkv_classify_resample(qkv_classify_report *report, int64_t resamples, uint64_t seed) QKV_MUST_USE;
qkv_status qkv_classify_pair(const qkv_classify_report *a, const qkv_classify_report *b, int64_t resamples, uint64_t seed,
                             qkv_comparison *comparison) QKV_MUST_USE;
qkv_status qkv_classify_errors(const qkv_classify_report *report, const char *path, int64_t limit) QKV_MUST_USE;
qkv_status qkv_classify_confusion(const qkv_classify_report *report, const char *path) QKV_MUST_USE;

#endif
