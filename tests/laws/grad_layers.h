/* Gradient cases of the layers, one function case_<name> for each name of QKV_LAYER_LIST. All with dropout on. */
#ifndef QKV_TESTS_LAWS_GRAD_LAYERS_H
#define QKV_TESTS_LAWS_GRAD_LAYERS_H

#include "grad_ops.h"
#include "layers/block.h"
#include "layers/embedding_layer.h"
#include "layers/head.h"
#include "layers/masked_head.h"
#include "layers/pooling_layer.h"
#include "layers/recurrent.h"

enum { GRAD_DIM = 8 };

static qkv_block_shape grad_shape(int i) {
    return (qkv_block_shape){.dim = GRAD_DIM, .heads = 4, .kv_heads = i % 3 == 0 ? 4 : i % 3 == 1 ? 2 : 1, .head_dim = i % 2 ? 3 : 2, .ffn = 11,
                             .norm = i % 2 ? QKV_NORM_RMS : QKV_NORM_LAYER, .activation = (qkv_activation)(i % 6), .post_norm = i / 2 % 2,
                             .bias = i % 4 < 2, .span = i % 3 == 1 ? (qkv_span){1, 2} : (qkv_span){-1, -1}, .norm_epsilon = 1e-5,
                             .dropout = 0.3, .attention_dropout = 0.2, .layers = 2};
}

static void run_attention_layer(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_attention_saved saved;
    GRAD_OK(qkv_attention_layer_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward)
        GRAD_OK(qkv_attention_layer_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_attention_layer(void) {
    for (int i = 0; i < 8; i++) {
        grad_case g;
        grad_start(&g);
        qkv_attention_layer l;
        qkv_block_shape shape = grad_shape(i);
        shape.no_output = i >= 6;
        if (shape.no_output) shape.head_dim = GRAD_DIM / shape.heads;
        NET_OK(&g.ctx, qkv_attention_layer_declare(&l, &g.reg, "", &shape, 0));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_ROWS, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_attention_layer);
        grad_end(&g);
    }
}

static void run_ffn(grad_case *g, bool backward) {
    qkv_ffn_saved saved;
    GRAD_OK(qkv_ffn_forward(&g->x, g->user, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_ffn_backward(&g->x, g->user, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_ffn(void) {
    for (int i = 0; i < 6; i++) {
        grad_case g;
        grad_start(&g);
        qkv_ffn l;
        qkv_block_shape shape = grad_shape(i);
        NET_OK(&g.ctx, qkv_ffn_declare(&l, &g.reg, "", &shape));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_ROWS, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_ffn);
        grad_end(&g);
    }
}

static void run_block(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_block_saved saved;
    GRAD_OK(qkv_block_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_block_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_block(void) {
    for (int i = 0; i < 12; i++) {
        grad_case g;
        grad_start(&g);
        qkv_block l;
        qkv_block_shape shape = grad_shape(i);
        NET_OK(&g.ctx, qkv_block_declare(&l, &g.reg, "", &shape, 1));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_ROWS, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_block);
        grad_end(&g);
    }
}

static void run_embedding_layer(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    GRAD_OK(qkv_embedding_layer_forward(&g->x, g->user, &batch, g->out));
    if (backward) GRAD_OK(qkv_embedding_layer_backward(&g->x, g->user, &batch, g->dout));
}

static void case_embedding_layer(void) {
    for (int i = 0; i < 3; i++) {
        grad_case g;
        grad_start(&g);
        qkv_embedding_layer l;
        NET_OK(&g.ctx, qkv_embedding_layer_declare(&l, &g.reg, 7, 5, 6, (qkv_position)i, 0.3));
        grad_ready(&g, GRAD_ROWS, 5);
        g.user = &l;
        grad_check(&g, run_embedding_layer);
        grad_end(&g);
    }
}

static void run_pooling_layer(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_pooling_saved saved;
    GRAD_OK(qkv_pooling_layer_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_pooling_layer_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM), &saved));
}

static void case_pooling_layer(void) {
    for (int i = 0; i < 4; i++) {
        grad_case g;
        grad_start(&g);
        qkv_pooling_layer l;
        NET_OK(&g.ctx, qkv_pooling_layer_declare(&l, &g.reg, (qkv_pooling)i, GRAD_DIM, 4));
        grad_input(&g, "in", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, GRAD_SEQUENCES, GRAD_DIM);
        g.user = &l;
        grad_check(&g, run_pooling_layer);
        grad_end(&g);
    }
}

static void run_head(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_head_saved saved;
    GRAD_OK(qkv_head_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_SEQUENCES, GRAD_DIM), g->out, &saved));
    if (backward) GRAD_OK(qkv_head_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_SEQUENCES, GRAD_DIM), &saved));
}

static void case_head(void) {
    grad_case g;
    grad_start(&g);
    qkv_head l;
    NET_OK(&g.ctx, qkv_head_declare(&l, &g.reg, GRAD_DIM, 3, 0.4));
    grad_input(&g, "in", GRAD_SEQUENCES * GRAD_DIM);
    grad_ready(&g, GRAD_SEQUENCES, 3);
    g.user = &l;
    grad_check(&g, run_head);
    grad_end(&g);
}

static void run_masked_head(grad_case *g, bool backward) {
    static const int32_t row[] = {1, 3, 8}, target[] = {6, 0, 6};
    const qkv_masks masks = {3, row, target};
    qkv_mat rows = grad_mat(g->in[0].value, GRAD_ROWS, GRAD_DIM);
    if (backward) GRAD_OK(qkv_masked_head_learn(&g->x, g->user, &masks, rows, 0.5, g->out.p, grad_mat(g->in[0].grad, GRAD_ROWS, GRAD_DIM)));
    else GRAD_OK(qkv_masked_head_loss(&g->x, g->user, &masks, rows, g->out.p));
}

static void case_masked_head(void) {
    for (int i = 0; i < 3; i++) {
        grad_case g;
        grad_start(&g);
        qkv_masked_head l;
        int64_t table;
        qkv_block_shape shape = grad_shape(i);
        NET_OK(&g.ctx, qkv_reg_add(&g.reg, "", "table", 7, GRAD_DIM, (qkv_param_kind){.embedding = true}, &table));
        NET_OK(&g.ctx, qkv_masked_head_declare(&l, &g.reg, table, &shape));
        grad_input(&g, "rows", GRAD_ROWS * GRAD_DIM);
        grad_ready(&g, 3, 1);
        for (int r = 0; r < 3; r++) g.dout.p[r] = (real)0.5;
        g.user = &l;
        grad_check(&g, run_masked_head);
        grad_end(&g);
    }
}

static void run_recurrent(grad_case *g, bool backward) {
    qkv_batch batch = grad_batch();
    qkv_recurrent_saved saved;
    GRAD_OK(qkv_recurrent_forward(&g->x, g->user, &batch, grad_mat(g->in[0].value, GRAD_ROWS, 5), g->out, &saved));
    if (backward) GRAD_OK(qkv_recurrent_backward(&g->x, g->user, &batch, g->dout, grad_mat(g->in[0].grad, GRAD_ROWS, 5), &saved));
}

static void case_recurrent(void) {
    for (int i = 0; i < 12; i++) {
        grad_case g;
        grad_start(&g);
        qkv_recurrent l;
        const qkv_recurrent_shape shape = {.cell = (qkv_recur_cell)(i % 5), .in = 5, .units = 4, .directions = 1 + i / 5 % 2, .peepholes = i >= 5,
                                           .forget = 1, .dropout = i % 2 ? 0.3 : 0};
        NET_OK(&g.ctx, qkv_recurrent_declare(&l, &g.reg, "", &shape, 3));
        grad_input(&g, "in", GRAD_ROWS * 5);
        grad_ready(&g, GRAD_ROWS, shape.directions * 4);
        g.user = &l;
        grad_check(&g, run_recurrent);
        grad_end(&g);
    }
}

#endif
