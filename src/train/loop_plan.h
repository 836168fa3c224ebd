/* The plan of a training run: steps, arena, operations; made by walking PLAN over the batches. */
#ifndef QKV_TRAIN_LOOP_PLAN_H
#define QKV_TRAIN_LOOP_PLAN_H

#include "data/batches.h"
#include "train/loop.h"

typedef struct qkv_loop_plan {
    int64_t steps;             /* of the whole run */
    int64_t batches_per_epoch; /* of the first epoch */
    size_t arena;              /* bytes; the exact maximum over all batches and the evaluation */
    double flops_per_step;     /* mean over the first epoch */
    double recompute_share;    /* operations done again, of one of all others in these steps, the update not counted */
    bool told;                 /* that it takes long; kept from one plan of a run to the next */
} qkv_loop_plan;

qkv_status qkv_loop_plan_make(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options,
                              qkv_loop_plan *plan) QKV_MUST_USE;

/* The batches of one epoch: the same for the plan and the run. */
qkv_status qkv_loop_batches(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options, int64_t epoch,
                            qkv_batches *batches) QKV_MUST_USE;

/* The training rows that the monitor looks at, evenly spread, QKV_MONITOR_PROBE_ROWS at most. */
int64_t qkv_loop_probe(const qkv_task *task, const qkv_loop_options *options, int64_t *rows);

/* End of the piece that begins with rows[from] of a batch of `count` rows. */
int64_t qkv_loop_piece(const qkv_task *task, const qkv_loop_options *options, const int64_t *rows, int64_t from, int64_t count);

static inline int64_t qkv_loop_windows(int64_t batches, int64_t accumulate) {
    return (batches + accumulate - 1) / accumulate;
}

#endif
