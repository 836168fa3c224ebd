/* Averages of the weights along a run.
 *
 * ema: an exponential moving average, one step after another (Polyak & Juditsky 1992 for the mean of all steps; that recent ones
 * weigh more, and that the decay starts low, is TensorFlow's ExponentialMovingAverage with num_updates, and Marian's smoothing).
 * checkpoints: the plain mean of the weights at the last few evaluations (Vaswani et al. 2017, section 6.1). */
#ifndef QKV_TRAIN_AVERAGE_H
#define QKV_TRAIN_AVERAGE_H

#include "ops/exec.h"

/* The order is the order of the names in the option table. */
typedef enum qkv_average_kind { QKV_AVERAGE_NONE, QKV_AVERAGE_EMA, QKV_AVERAGE_CHECKPOINTS } qkv_average_kind;

/* The decay at update t (from 1): min(decay, (1 + t) / (10 + t)), so that the initial weights are soon forgotten. */
double qkv_ema_decay(double decay, int64_t t);

/* The last weights that were put down: a ring of `slots` blocks of `size` reals each; the k-th (from 0) is in slot k mod slots. */
typedef struct qkv_snapshots {
    int64_t slots, size;
    real *blocks; /* [slots][size] */
} qkv_snapshots;

static inline int64_t qkv_snapshots_held(const qkv_snapshots *s, int64_t taken) { return taken < s->slots ? taken : s->slots; }
void qkv_snapshots_put(const qkv_snapshots *s, int64_t taken, const real *weights);
/* Their mean, the oldest first; `size` is a multiple of 16 and `taken` at least 1. */
qkv_status qkv_snapshots_mean(qkv_exec *x, const qkv_snapshots *s, int64_t taken, real *mean) QKV_MUST_USE;

#endif
