/* Cross-validation. */
#ifndef QKV_TASKS_FOLDS_H
#define QKV_TASKS_FOLDS_H

#include "tasks/classify.h"

/* See qkv_classify_folds; the arguments were checked. */
qkv_status qkv_folds_run(qkv_ctx *ctx, const qkv_classify_options *options, const char *train, const char *dev, int64_t folds,
                         const qkv_folds_callbacks *callbacks, qkv_folds *result) QKV_MUST_USE;

/* Sets mean and deviation from the folds that are done. */
void qkv_folds_settle(qkv_folds *result);

#endif
