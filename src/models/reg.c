/* Initial values, and packing of a whole block.
 *
 * How a network starts:
 *   embedding.weight, position.weight,
 *   ngram.weight                         normal(0, 0.01). Trained at their own, larger rate: with Adam a row moves by about the
 *                                        rate at each use, so a small start lets the data take over within a few uses.
 *   weights                              normal(0, 1/sqrt(fan_in)): a row of unit variance in gives unit variance out.
 *   *.attention.out.weight,              the same times 1/sqrt(2 layers): the residual stream is a sum of 2 layers
 *   *.ffn.out.weight                     branches, and so starts with a variance that does not grow with depth
 *                                        (Radford et al. 2019, section 2.3).
 *   the same with other choices of       layers/layers.h
 *   `init` and `residual`
 *   norm gains                           1
 *   biases                               0
 *   pool.query                           0: attention pooling starts as the mean.
 *   head.weight                          normal(0, 0.02): the first predictions are close to uniform.
 * Weight decay applies to the matrices only: not to embeddings, norms, biases and the pooling query.
 * Element e of parameter i is qkv_normal(key(seed, i, e)) * std: a function of its place, whatever else there is. */
#include <string.h>

#include "models/classifier.h"
#include "ops/linear.h"
#include "ops/recurrence.h"
#include "ops/reg.h"

/* Keeps the keys of initial values apart from those of shuffling and dropout under the same seed. */
static const uint64_t INIT_DOMAIN = 0x696e6974;

static real constant(const qkv_param *p, int64_t e) {
    if (p->init_period == 0) return p->init_value;
    const int64_t at = e % p->init_period;
    return at >= p->init_from && at < p->init_to ? p->init_value : 0;
}

void qkv_reg_init(const qkv_reg *reg, uint64_t seed, real *weights) {
    memset(weights, 0, (size_t)reg->size * sizeof(real));
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        real *w = weights + p->offset;
        uint64_t key = qkv_key3(seed, INIT_DOMAIN, (uint64_t)i);
        for (int64_t e = 0; e < p->rows * p->cols; e++) {
            const real std = e < (p->rows - p->init_last) * p->cols ? p->init_std : p->init_last_std;
            w[e] = std > 0 ? (real)(qkv_normal(qkv_key2(key, (uint64_t)e)) * (double)std) : constant(p, e);
        }
    }
}

int64_t qkv_reg_packed_size(const qkv_reg *reg, bool bf16) {
    int64_t end = 0;
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        int64_t here = p->packed_offset < 0 ? 0 : (bf16 ? p->pairs_offset : p->packed_offset) + qkv_param_packed_size(p, bf16);
        if (here > end) end = here;
    }
    return end;
}

void qkv_reg_pack(const qkv_ctx *ctx, const qkv_reg *reg, bool bf16, const real *weights, real *packed) {
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        if (p->packed_offset < 0) continue;
        real *to = packed + (bf16 ? p->pairs_offset : p->packed_offset);
        if (p->gates > 0) qkv_recurrence_pack(ctx, weights + p->offset, p->gates, p->cols, to);
        else qkv_linear_pack(ctx, bf16, weights + p->offset, p->rows, p->cols, to);
    }
}
