#include "models/encoder.h"

#include <stdio.h>

/* ---- segments ---- */

static qkv_status block_forward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat in, qkv_mat out, void *saved) {
    return qkv_block_forward(x, layer, batch, in, out, saved);
}

static qkv_status block_backward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved) {
    return qkv_block_backward(x, layer, batch, dout, din, saved);
}

static qkv_status norm_forward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat in, qkv_mat out, void *saved) {
    size_t mark = qkv_exec_mark(x);
    (void)batch;
    QKV_TRY(qkv_norm_forward(x, layer, in, out, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status norm_backward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved) {
    (void)batch;
    return qkv_norm_backward(x, layer, dout, din, saved);
}

static qkv_status recurrent_forward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat in, qkv_mat out, void *saved) {
    return qkv_recurrent_forward(x, layer, batch, in, out, saved);
}

static qkv_status recurrent_backward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved) {
    return qkv_recurrent_backward(x, layer, batch, dout, din, saved);
}

static const qkv_segment_kind BLOCK = {"encoder", sizeof(qkv_block_saved), block_forward, block_backward, false};
static const qkv_segment_kind RECURRENT = {"encoder", sizeof(qkv_recurrent_saved), recurrent_forward, recurrent_backward, false};
static const qkv_segment_kind NORM = {"norm", sizeof(qkv_norm_saved), norm_forward, norm_backward, true};

/* ---- building ---- */

qkv_block_shape qkv_encoder_shape(const qkv_config *g) {
    return (qkv_block_shape){.dim = g->dim, .heads = g->heads, .kv_heads = g->kv_heads, .head_dim = g->head_dim, .ffn = g->ffn,
                             .norm = g->norm, .activation = g->activation, .post_norm = g->post_norm, .bias = g->bias, .span = g->span,
                             .norm_epsilon = g->norm_epsilon, .dropout = g->dropout, .attention_dropout = g->attention_dropout,
                             .layers = g->layers > 0 ? g->layers : 1};
}

qkv_recur_cell qkv_encoder_cell(const qkv_config *g) {
    switch (g->model) {
    case QKV_NETWORK_LSTM:
    case QKV_NETWORK_BILSTM: return QKV_RECUR_LSTM;
    case QKV_NETWORK_GRU:
    case QKV_NETWORK_BIGRU: return g->cell == QKV_CELL_RESET_BEFORE ? QKV_RECUR_GRU_BEFORE : QKV_RECUR_GRU;
    default: return g->cell == QKV_CELL_RELU ? QKV_RECUR_RELU : QKV_RECUR_TANH;
    }
}

static qkv_status declare_recurrent(qkv_encoder *e, qkv_reg *reg, const qkv_config *g, bool recompute) {
    const int directions = qkv_config_directions(g);
    QKV_TRY(qkv_alloc_zero(e->ctx, g->layers, sizeof *e->recurrent, &e->recurrent));
    for (int64_t i = 0; i < g->layers; i++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "encoder.%lld.", (long long)i);
        const qkv_recurrent_shape shape = {.cell = qkv_encoder_cell(g), .in = g->dim, .units = g->dim / directions, .directions = directions,
                                           .peepholes = g->cell == QKV_CELL_PEEPHOLES, .forget = 1, .dropout = i > 0 ? g->dropout : 0};
        QKV_TRY(qkv_recurrent_declare(&e->recurrent[i], reg, prefix, &shape, (uint64_t)i * QKV_SITES_A_LAYER + QKV_SITE_RECURRENT_IN));
        QKV_TRY(qkv_net_add(&e->net, &RECURRENT, &e->recurrent[i], recompute ? QKV_RECOMPUTE : QKV_KEEP));
    }
    return QKV_OK;
}

static qkv_status declare_blocks(qkv_encoder *e, qkv_reg *reg, const qkv_config *g, bool recompute) {
    const qkv_block_shape shape = qkv_encoder_shape(g);
    QKV_TRY(qkv_alloc_zero(e->ctx, g->layers, sizeof *e->blocks, &e->blocks));
    for (int64_t i = 0; i < g->layers; i++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "encoder.%lld.", (long long)i);
        QKV_TRY(qkv_block_declare(&e->blocks[i], reg, prefix, &shape, i));
        QKV_TRY(qkv_net_add(&e->net, &BLOCK, &e->blocks[i], recompute ? QKV_RECOMPUTE : QKV_KEEP));
    }
    if (!g->post_norm) {
        QKV_TRY(qkv_norm_declare(&e->norm, reg, "", "norm", &shape));
        QKV_TRY(qkv_net_add(&e->net, &NORM, &e->norm, QKV_KEEP));
    }
    return QKV_OK;
}

qkv_status qkv_encoder_declare(qkv_encoder *e, qkv_reg *reg, const qkv_config *g, bool recompute) {
    e->ctx = e->net.ctx = reg->ctx;
    QKV_TRY(qkv_embedding_layer_declare(&e->embedding, reg, g->vocab, g->dim, g->max_length, g->position, g->embedding_dropout));
    QKV_TRY((qkv_config_recurrent(g) ? declare_recurrent : declare_blocks)(e, reg, g, recompute));
    e->size = reg->size;
    return QKV_OK;
}

void qkv_encoder_set_recompute(qkv_encoder *e, bool recompute) {
    for (int64_t i = 0; i < e->net.count; i++) {
        if (e->net.segments[i].kind != &NORM) e->net.segments[i].policy = recompute ? QKV_RECOMPUTE : QKV_KEEP;
    }
}

void qkv_encoder_free(qkv_encoder *e) {
    if (!e->ctx) return;
    qkv_net_free(&e->net);
    qkv_free(e->ctx, e->blocks);
    qkv_free(e->ctx, e->recurrent);
    e->blocks = NULL;
    e->recurrent = NULL;
}

/* ---- passes ---- */

static const qkv_place EMBEDDING = {"embedding", -1, QKV_WORK_EMBEDDING};

qkv_status qkv_encoder_check(const qkv_exec *x, const qkv_reg *reg, const qkv_config *config, const qkv_batch *batch, bool training) {
    if (x->reg != reg) return qkv_fail(x->ctx, QKV_INTERNAL, "a pass over another network's parameters");
    if (!x->plan && (!x->weights || (training && !x->grads))) return qkv_fail(x->ctx, QKV_INTERNAL, "a pass without weights or gradients");
    if (batch->n_seq < 0 || (batch->n_seq > 0 && (!batch->offset || batch->offset[0] != 0)))
        return qkv_fail(x->ctx, QKV_INTERNAL, "a batch of %lld sequences whose offsets do not start at 0", (long long)batch->n_seq);
    for (int64_t s = 0; s < batch->n_seq; s++) {
        int64_t n = batch->offset[s + 1] - batch->offset[s];
        if (n < 0 || n > config->max_length)
            return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "sequence %lld has %lld tokens; this network takes 0 to %lld", (long long)s, (long long)n,
                            (long long)config->max_length);
    }
    return QKV_OK;
}

qkv_frame qkv_frame_enter(qkv_exec *x, bool keep, bool bf16) {
    qkv_frame f = {x->arena.low, x->arena.high, x->keep, x->bf16, x->pass, x->place};
    x->keep = keep;
    x->bf16 = bf16;
    x->pass = QKV_PASS_FORWARD;
    return f;
}

qkv_status qkv_frame_leave(qkv_exec *x, qkv_frame f, qkv_status status) {
    if (status == QKV_OK && x->arena.low != f.low)
        status = qkv_fail(x->ctx, QKV_INTERNAL, "%zu kept bytes were not popped", x->arena.low - f.low);
    qkv_arena_low_release(&x->arena, f.low);
    qkv_arena_high_release(&x->arena, f.high);
    x->keep = f.keep;
    x->bf16 = f.bf16;
    x->pass = f.pass;
    x->place = f.place;
    return status;
}

qkv_status qkv_encoder_forward(qkv_exec *x, const qkv_encoder *e, int64_t segments, const qkv_batch *batch, qkv_mat *out) {
    qkv_mat in;
    qkv_exec_at(x, EMBEDDING);
    QKV_TRY(qkv_keep(x, qkv_batch_rows(batch), x->reg->params[e->embedding.weight].cols, &in));
    QKV_TRY(qkv_embedding_layer_forward(x, &e->embedding, batch, in));
    return qkv_net_forward(x, &e->net, segments, batch, in, out);
}

qkv_status qkv_encoder_backward(qkv_exec *x, const qkv_encoder *e, const qkv_batch *batch, qkv_mat dout, qkv_mat spare) {
    qkv_mat din;
    QKV_TRY(qkv_net_backward(x, &e->net, batch, dout, spare, &din));
    qkv_exec_at(x, EMBEDDING);
    return qkv_embedding_layer_backward(x, &e->embedding, batch, din);
}
