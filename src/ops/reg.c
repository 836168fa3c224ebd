#include "ops/reg.h"

#include <stdio.h>
#include <string.h>

#include "kernels/bf16.h"

/* Padding between parameters, in reals: a cache line of floats. */
enum { ALIGN = 16 };

int64_t qkv_param_packed_size(const qkv_param *p, bool bf16) {
    if (p->gates > 0) return qkv_recur_packed_size(p->gates, p->cols);
    return bf16 ? qkv_bf16_packed_size(p->cols, p->rows) : qkv_packed_size(p->cols, p->rows);
}

static void place_packed(const qkv_reg *reg, qkv_param *new) {
    new->packed_offset = new->pairs_offset = 0;
    for (int64_t i = reg->count - 1; i >= 0; i--) {
        const qkv_param *p = &reg->params[i];
        if (p->packed_offset < 0) continue;
        new->packed_offset = p->packed_offset + qkv_param_packed_size(p, false);
        new->pairs_offset = p->pairs_offset + qkv_param_packed_size(p, true);
        return;
    }
}

qkv_status qkv_reg_add(qkv_reg *reg, const char *prefix, const char *name, int64_t rows, int64_t cols, qkv_param_kind kind,
                       int64_t *index) {
    int64_t size;
    if (rows < 1 || cols < 1 || __builtin_mul_overflow(rows, cols, &size) || size > INT64_MAX / 64 - reg->size)
        return qkv_fail(reg->ctx, QKV_BAD_CONFIG, "parameter %s%s of %lld x %lld numbers is too large", prefix, name, (long long)rows, (long long)cols);
    if (reg->count == reg->capacity) {
        int64_t capacity = reg->capacity > 0 ? 2 * reg->capacity : 32;
        QKV_TRY(qkv_grow(reg->ctx, capacity, sizeof *reg->params, &reg->params));
        reg->capacity = capacity;
    }
    qkv_param p = {.rows = rows, .cols = cols, .offset = reg->size, .init_std = (real)kind.std, .init_value = (real)kind.value,
                   .decay = kind.decay, .vector = kind.vector, .embedding = kind.embedding, .packed_offset = -1, .pairs_offset = -1, .gates = kind.gates,
                   .init_period = kind.period, .init_from = kind.from, .init_to = kind.to,
                   .init_last = kind.last_rows, .init_last_std = (real)kind.last_std};
    int length = snprintf(p.name, sizeof p.name, "%s%s", prefix, name);
    if (length < 0 || (size_t)length >= sizeof p.name) return qkv_fail(reg->ctx, QKV_INTERNAL, "parameter name %s%s is too long", prefix, name);
    if (kind.matrix) place_packed(reg, &p);
    *index = reg->count;
    reg->params[reg->count++] = p;
    reg->size += (size + ALIGN - 1) / ALIGN * ALIGN;
    return QKV_OK;
}

void qkv_reg_free(qkv_reg *reg) {
    qkv_free(reg->ctx, reg->params);
    *reg = (qkv_reg){.ctx = reg->ctx};
}
