#include "train/average.h"

#include <string.h>

#include "ops/residual.h"

double qkv_ema_decay(double decay, int64_t t) {
    double young = (1 + (double)t) / (10 + (double)t);
    return young < decay ? young : decay;
}

static real *slot(const qkv_snapshots *s, int64_t k) { return s->blocks + k % s->slots * s->size; }

void qkv_snapshots_put(const qkv_snapshots *s, int64_t taken, const real *weights) {
    memcpy(slot(s, taken), weights, (size_t)s->size * sizeof(real));
}

/* As rows of 16, so that threads have something to share. */
static qkv_mat rows_of(real *p, int64_t size) { return (qkv_mat){.p = p, .rows = size / 16, .cols = 16, .ld = 16}; }

qkv_status qkv_snapshots_mean(qkv_exec *x, const qkv_snapshots *s, int64_t taken, real *mean) {
    int64_t held = qkv_snapshots_held(s, taken);
    for (int64_t k = 0; k < held; k++) {
        double share = 1 / (double)(k + 1);
        QKV_TRY(qkv_scaled_sum(x, QKV_WORK_RESIDUAL, (real)share, rows_of(slot(s, taken - held + k), s->size), (real)(1 - share), rows_of(mean, s->size)));
    }
    return QKV_OK;
}
