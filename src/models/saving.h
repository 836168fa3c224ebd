/* What is computed again in the backward pass of a training step instead of being kept, as it is asked for. */
#ifndef QKV_MODELS_SAVING_H
#define QKV_MODELS_SAVING_H

#include "ops/exec.h"

/* The order is the order of the names in the option tables. */
typedef enum qkv_recompute_policy {
    QKV_RECOMPUTE_NONE,
    QKV_RECOMPUTE_BLOCKS,
    QKV_RECOMPUTE_SQRT, /* units of about sqrt(layers) blocks (Chen et al. 2016) */
    QKV_RECOMPUTE_ATTENTION,
    QKV_RECOMPUTE_POINTWISE,
    QKV_RECOMPUTE_AUTO
} qkv_recompute_policy;

/* `every` is of BLOCKS (0: 1), `ffn_rows` of all (0: feed-forward layers go over all rows at once). AUTO begins as NONE. */
qkv_saving qkv_saving_of(qkv_recompute_policy policy, int64_t every, int64_t ffn_rows, int64_t layers);

/* Is anything computed again? */
static inline bool qkv_saving_any(qkv_saving s) { return s.again != QKV_AGAIN_NOTHING || s.every > 0 || s.ffn_rows > 0; }

#endif
