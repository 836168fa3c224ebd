/* Keeps an eye on a training run: how attention, gradients and updates are, now and then, and what is wrong with them in words. It
 * changes nothing: what it does to weights and gradients is read them. Thresholds are in docs/training-stability.md. */
#ifndef QKV_TRAIN_MONITOR_H
#define QKV_TRAIN_MONITOR_H

#include "ops/attention_watch.h"
#include "qkv/classify.h"

enum { QKV_MONITOR_PROBE_ROWS = 8, QKV_MONITOR_PROBE_TOKENS = 1024 };

typedef struct qkv_monitor qkv_monitor;

/* layers, heads: of attention, in the order of a forward pass; 0 where there is none. */
qkv_status qkv_monitor_create(qkv_ctx *ctx, const qkv_reg *reg, int64_t layers, int64_t heads, qkv_monitor **monitor) QKV_MUST_USE;
void qkv_monitor_free(qkv_monitor *m); /* NULL is harmless */
int64_t qkv_monitor_bytes(const qkv_reg *reg, int64_t layers, int64_t heads);

/* Every step, with the norm of its gradient. */
void qkv_monitor_step(qkv_monitor *m, int64_t step, double gradient_norm, bool skipped);

/* Where a step is to be looked at: before its update, and after it. */
void qkv_monitor_before(qkv_monitor *m, const real *weights, const real *grads);
void qkv_monitor_after(qkv_monitor *m, const real *weights);
/* Emptied, for an exec that goes forward over some rows. */
qkv_watch *qkv_monitor_watch(qkv_monitor *m);
/* What was seen, and what is new and wrong. Valid until the next call with this monitor. */
qkv_train_monitor qkv_monitor_look(qkv_monitor *m);
/* Words that are new and wait for no look. */
qkv_train_monitor qkv_monitor_tell(qkv_monitor *m);
/* What the run came to. */
qkv_train_monitor qkv_monitor_end(qkv_monitor *m);
/* Are there such words? */
bool qkv_monitor_has_words(const qkv_monitor *m);

#endif
