/* Options that a search over trainings may change, and how it draws them. */
#ifndef QKV_TASKS_DRAWS_H
#define QKV_TASKS_DRAWS_H

#include <stdbool.h>

#include "tasks/classify.h"

enum { QKV_DRAW_AXES = 10 };

typedef struct qkv_draws {
    qkv_classify_options start;
    bool open[QKV_DRAW_AXES]; /* what may change */
    bool heads;               /* heads go with dim */
    double low[QKV_DRAW_AXES], high[QKV_DRAW_AXES];
} qkv_draws;

/* Around these options, but for what is named in fixed[count] or has no effect beside what they are. A name that no option has is
 * QKV_BAD_ARGUMENT. */
qkv_status qkv_draws_make(qkv_ctx *ctx, const qkv_classify_options *start, const char *const *fixed, int64_t count,
                          qkv_draws *draws) QKV_MUST_USE;

/* How many options may change. */
int qkv_draws_open(const qkv_draws *draws);

/* The options of trial `trial` (0: the start), when `best` are the best so far. A function of its arguments and the seed in the
 * options; numbers have two digits. */
void qkv_draw(const qkv_draws *draws, int64_t trial, const qkv_classify_options *best, qkv_classify_options *options);

#endif
