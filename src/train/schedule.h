/* Learning-rate schedules. */
#ifndef QKV_TRAIN_SCHEDULE_H
#define QKV_TRAIN_SCHEDULE_H

#include <stdint.h>

/* The order is the order of the names in the option table. */
typedef enum qkv_schedule_kind {
    QKV_SCHEDULE_LINEAR,
    QKV_SCHEDULE_COSINE,
    QKV_SCHEDULE_CONSTANT,
    QKV_SCHEDULE_INVERSE_SQRT
} qkv_schedule_kind;

typedef struct qkv_schedule {
    qkv_schedule_kind kind;
    int64_t warmup; /* W steps, 0 .. total */
    int64_t total;  /* T steps of the whole run */
} qkv_schedule;

/* Warm-up as a person gives it: below 1 a share of the steps (rounded to the nearest), from 1 a number of steps; never more
 * than `total`. */
int64_t qkv_warmup_steps(double warmup, int64_t total);

/* What the peak rate is multiplied by at `step` (from 1), in 0 .. 1.
 *   step <= W     step / W, so the first step has 1/W and step W the peak
 *   after that, with done = (step - 1 - W) / (T - W):
 *     linear        1 - done: the peak at step W + 1, 1 / (T - W) at step T, 0 beyond
 *     cosine        (1 + cos(pi * done)) / 2, 0 beyond T
 *     constant      1
 *     inverse-sqrt  sqrt(max(W, 1) / step)
 * W = 0, W = 1, W = T and T = 0 are legal: nothing is divided by zero. */
double qkv_schedule_factor(const qkv_schedule *s, int64_t step);

#endif
