/* Runs a classifier over encoded rows without training: batches by token budget, longest rows last, each row's answer
 * independent of the others. The one path behind dev evaluation, prediction and testing. */
#ifndef QKV_TASKS_SCORER_H
#define QKV_TASKS_SCORER_H

#include "data/batches.h"
#include "models/classifier.h"
#include "train/gather.h"

typedef struct qkv_scorer {
    qkv_ctx *ctx;
    const qkv_classifier *net;
    const qkv_ragged *rows;
    qkv_batches batches;
    qkv_gather gather;
    enum { QKV_SCORE_PROBABILITIES, QKV_SCORE_LOGITS, QKV_SCORE_VECTORS } what; /* is asked for: see qkv_scored */
} qkv_scorer;

/* All memory of a run but the arena. `tokens` (0: no limit but the usual one) of a batch at most, to use less: the answers and
 * their order are the same. */
qkv_status qkv_scorer_create(qkv_ctx *ctx, const qkv_classifier *net, const qkv_ragged *rows, int64_t tokens,
                             qkv_scorer *scorer) QKV_MUST_USE;
void qkv_scorer_free(qkv_scorer *scorer);

/* Called for every row, in the order of the batches: with its probabilities, what a bag says of the rows included; with the logits of the
 * network alone; or with the pooled vector [dim]. `loss` is that of the probabilities, 0 where the row has no target. */
typedef void qkv_scored(void *user, int64_t row, const real *values, int64_t width, double loss);

/* x->weights and x->packed are used; keep and train must be off. Allocates nothing. In a plan, `scored` is not called. */
qkv_status qkv_scorer_run(qkv_scorer *scorer, qkv_exec *x, qkv_scored *scored, void *user) QKV_MUST_USE;

/* Plan, allocate the arena, run, free it. */
qkv_status qkv_scorer_alone(qkv_scorer *scorer, const real *weights, const real *packed, qkv_scored *scored,
                            void *user) QKV_MUST_USE;

/* The same, with a scorer of its own. */
qkv_status qkv_scorer_once(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const real *packed, const qkv_ragged *rows,
                           qkv_scored *scored, void *user) QKV_MUST_USE;

/* The same with pooled vectors [dim] in place of the probabilities. */
qkv_status qkv_scorer_vectors(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const real *packed, const qkv_ragged *rows,
                              qkv_scored *scored, void *user) QKV_MUST_USE;

/* The first of the largest probabilities. */
int64_t qkv_argmax(const real *probabilities, int64_t classes);

#endif
