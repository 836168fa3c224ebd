/* Whether a training run fits into memory, and what would. */
#ifndef QKV_TASKS_CLASSIFY_MEMORY_H
#define QKV_TASKS_CLASSIFY_MEMORY_H

#include "data/batches.h"
#include "qkv/classify.h"
#include "train/budget.h"

/* What a process has beside what is planned: code, libraries, stacks, the pieces of a vocabulary. Measured, rounded up. */
enum { QKV_MEMORY_OF_PROGRAM = 12 << 20 };

/* From here on whatever the run asks for is refused beyond options->memory, planned or not; returns what was set before, to be
 * set again afterwards. */
int64_t qkv_classify_wall(qkv_ctx *ctx, const qkv_classify_options *options);

/* The most that a run, which began with `used` bytes of the context in use and `held` of its own among them, has come to so far. */
int64_t qkv_classify_reached(const qkv_ctx *ctx, int64_t used, int64_t held);

/* QKV_NO_MEMORY, after a block was refused there while the run was `doing` this, which takes `least` bytes or more: how much it
 * would have to be, for that and for the training, which will take from so many to so many bytes, by vocabulary and linear model
 * (0: not known). */
qkv_status qkv_classify_walled(qkv_ctx *ctx, const qkv_classify_options *options, const char *doing, int64_t least,
                               const int64_t training[2]) QKV_MUST_USE;

/* `held`: bytes of the plan that are allocated already. */
qkv_room qkv_classify_room(const qkv_classify_options *options, int64_t held);

typedef struct qkv_memory_ask {
    const qkv_classify_options *options;
    const qkv_ragged *train, *dev;
    int64_t held;
    /* The bytes of a run with these options over rows of these lengths. */
    qkv_status (*need)(void *self, const qkv_classify_options *options, const qkv_ragged *train, const qkv_ragged *dev, qkv_way way,
                       int64_t *bytes);
    void *self; /* NULL: what would fit is not looked for */
} qkv_memory_ask;

/* QKV_NO_MEMORY where the plan needs more than it may: with what it needs, what the least way of it needs, and what would fit. */
qkv_status qkv_classify_refuse(qkv_ctx *ctx, const qkv_memory_ask *ask, const qkv_train_plan *plan) QKV_MUST_USE;

#endif
