/* AdamW over the whole registry, and the norm of all gradients. Both are booked under the optimizer pass. */
#ifndef QKV_OPS_OPTIMIZER_H
#define QKV_OPS_OPTIMIZER_H

#include "ops/exec.h"

typedef struct qkv_adamw_options {
    double lr, embedding_lr; /* parameters flagged `embedding` move at their own rate */
    double beta1, beta2, epsilon;
    double decay;      /* decoupled, of parameters flagged `decay` */
    double grad_scale; /* clipping: the gradient is multiplied by it first */
    /* A row of a parameter flagged `embedding` whose gradient is all zero is left alone, moments too. Dense AdamW moves the
     * row of a rare token for many steps after it was seen, about 1/(1 - beta1) times as far. */
    bool lazy_embedding;
    int64_t step; /* from 1 */
    /* average = average_decay * average + (1 - average_decay) * the new weights, in the same pass. 0: no average; else below 1 */
    double average_decay;
    real *average; /* NULL in a plan */
} qkv_adamw_options;

/* One step (Loshchilov & Hutter 2019, algorithm 2). Blocks of x->reg's layout; NULL in a plan. Booked as if every row were
 * updated, as a plan cannot know which tokens come. */
qkv_status qkv_adamw_update(qkv_exec *x, const qkv_adamw_options *o, real *weights, const real *grads, real *m, real *v) QKV_MUST_USE;

/* Euclidean norm of a whole block: partial sums of fixed chunks, folded in order in double. */
qkv_status qkv_gradient_norm(qkv_exec *x, const real *grads, double *norm) QKV_MUST_USE;

#endif
