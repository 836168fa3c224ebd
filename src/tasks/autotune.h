/* A search for options by trials on the dev rows. */
#ifndef QKV_TASKS_AUTOTUNE_H
#define QKV_TASKS_AUTOTUNE_H

#include "tasks/classify.h"

/* Makes what goes into the training record as "options"; the caller's reference. */
typedef qkv_status qkv_options_recorder(qkv_ctx *ctx, const qkv_classify_options *options, json_t **record);

/* See qkv_classify_autotune; the arguments were checked. */
qkv_status qkv_autotune_run(qkv_ctx *ctx, const qkv_classify_options *options, const qkv_autotune_options *how,
                            qkv_options_recorder *recorder, const char *train, const char *dev,
                            const qkv_autotune_callbacks *callbacks, qkv_classify_options *best, qkv_model **model) QKV_MUST_USE;

#endif
