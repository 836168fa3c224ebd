/* A ragged batch and an exec for the tests of layers. */
#ifndef QKV_TESTS_UNIT_LAYERS_LAYERS_BENCH_H
#define QKV_TESTS_UNIT_LAYERS_LAYERS_BENCH_H

#include "unit/ops/ops.h"

#include "layers/layers.h"

enum { LB_SEQUENCES = 4, LB_ROWS = 21, LB_DIM = 12 };
static const int64_t LB_OFFSET[LB_SEQUENCES + 1] = {0, 7, 7, 8, 21};

typedef struct layers_batch {
    qkv_batch batch;
    int32_t ids[LB_ROWS];
    uint64_t row_key[LB_ROWS], seq_key[LB_SEQUENCES];
} layers_batch;

static inline void lb_batch(layers_batch *b) {
    for (int s = 0; s < LB_SEQUENCES; s++) b->seq_key[s] = qkv_key2(4, (uint64_t)s);
    for (int r = 0; r < LB_ROWS; r++) {
        b->row_key[r] = qkv_key2(5, (uint64_t)r);
        b->ids[r] = (int32_t)qkv_below(b->row_key[r], 9);
    }
    b->batch = (qkv_batch){.n_seq = LB_SEQUENCES, .offset = LB_OFFSET, .ids = b->ids, .seq_key = b->seq_key, .row_key = b->row_key};
}

static inline qkv_block_shape lb_shape(int i) {
    return (qkv_block_shape){.dim = LB_DIM, .heads = 4, .kv_heads = i % 2 ? 2 : 4, .head_dim = 3, .ffn = 20, .norm = (qkv_norm)(i % 2),
                             .activation = (qkv_activation)(i % 6), .norm_place = i / 2 % 2, .bias = i / 4 % 2 == 0, .span = {-1, -1},
                             .norm_epsilon = 1e-5, .dropout = 0.2, .attention_dropout = 0.1, .layers = 3};
}

static inline int64_t lb_find(const qkv_reg *reg, const char *name) {
    for (int64_t i = 0; i < reg->count; i++)
        if (strcmp(reg->params[i].name, name) == 0) return i;
    fail_msg("no parameter %s", name);
    return -1;
}

static inline void lb_param(const qkv_reg *reg, const char *name, int64_t rows, int64_t cols, bool decay) {
    const qkv_param *p = &reg->params[lb_find(reg, name)];
    assert_int_equal(p->rows, rows);
    assert_int_equal(p->cols, cols);
    assert_int_equal(p->decay, decay);
    assert_int_equal(p->packed_offset >= 0, decay); /* what is multiplied by decays, and nothing else does */
}

#endif
