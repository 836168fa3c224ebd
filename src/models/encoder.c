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
    return qkv_recurrent_forward(x, layer, batch, NULL, in, out, saved);
}

static qkv_status recurrent_backward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved) {
    return qkv_recurrent_backward(x, layer, batch, NULL, dout, din, saved);
}

static qkv_status block_couple(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat a, qkv_mat b) {
    return qkv_block_couple(x, layer, batch, a, b);
}

static qkv_status block_uncouple(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat a, qkv_mat b, qkv_mat da, qkv_mat db) {
    return qkv_block_uncouple(x, layer, batch, a, b, da, db);
}

static const qkv_segment_kind BLOCK = {"encoder", sizeof(qkv_block_saved), block_forward, block_backward, block_couple, block_uncouple, false};
static const qkv_segment_kind RECURRENT = {
    .name = "encoder", .saved_size = sizeof(qkv_recurrent_saved), .forward = recurrent_forward, .backward = recurrent_backward};
static const qkv_segment_kind NORM = {
    .name = "norm", .saved_size = sizeof(qkv_norm_saved), .forward = norm_forward, .backward = norm_backward, .single = true};

/* ---- building ---- */

qkv_block_shape qkv_encoder_shape(const qkv_config *g) {
    return (qkv_block_shape){.dim = g->dim,
                             .heads = g->heads,
                             .kv_heads = g->kv_heads,
                             .head_dim = g->head_dim,
                             .ffn = g->ffn,
                             .norm = g->norm,
                             .activation = g->activation,
                             .norm_place = g->norm_place,
                             .residual = g->residual,
                             .init = g->init,
                             .qk_norm = g->qk_norm,
                             .unscaled = g->unscaled,
                             .softcap = g->softcap,
                             .bias = g->bias,
                             .span = g->span,
                             .pattern = {.dilation = g->dilation,
                                         .global_first = g->global_first,
                                         .global_every = g->global_every,
                                         .random_blocks = g->random_blocks,
                                         .block = qkv_config_block(g)},
                             .global_lists = qkv_config_global_lists(g),
                             .global_projection = g->global_projection,
                             .norm_epsilon = g->norm_epsilon, .dropout = g->dropout, .attention_dropout = g->attention_dropout,
                             .layers = g->layers > 0 ? g->layers : 1};
}

qkv_position_shape qkv_encoder_positions(const qkv_config *g) {
    const double length = (double)(g->rope_length > 0 ? g->rope_length : g->max_length);
    return (qkv_position_shape){.kind = g->position,
                                .layout = g->position_layout,
                                .beyond = g->position_beyond,
                                .length = g->max_length,
                                .reach = qkv_config_reach(g),
                                .buckets = qkv_config_buckets(g),
                                .pairs = g->rope_pairs,
                                .part = g->rope_part > 0 ? g->rope_part : 1,
                                .rope = {.base = g->rope_base > 0 ? g->rope_base : 10000,
                                         .stretch = g->rope_stretch,
                                         .factor = g->rope_factor > 0 ? g->rope_factor : 1,
                                         .length = length},
                                .local_base = g->local_rope_base,
                                .causal = g->span.right == 0};
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

/* Which of two encoders in a network: the names of its layers, and the number of its first one, for the sites of dropout. */
typedef struct level {
    const char *name, *norm; /* the second is a prefix */
    int64_t first;
} level;

static qkv_status declare_recurrent(qkv_encoder *e, qkv_reg *reg, const qkv_config *g, level at) {
    const int directions = qkv_config_directions(g);
    QKV_TRY(qkv_alloc_zero(e->ctx, g->layers, sizeof *e->recurrent, &e->recurrent));
    for (int64_t i = 0; i < g->layers; i++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "%s.%lld.", at.name, (long long)i);
        const uint64_t site = (uint64_t)(at.first + i) * QKV_SITES_A_LAYER + QKV_SITE_RECURRENT_IN;
        const qkv_recurrent_shape shape = {.cell = qkv_encoder_cell(g),
                                           .in = g->dim,
                                           .units = g->dim / directions,
                                           .directions = directions,
                                           .peepholes = g->cell == QKV_CELL_PEEPHOLES,
                                           .forget = qkv_config_forget(g),
                                           .dropout = i > 0 ? g->dropout : 0};
        QKV_TRY(qkv_recurrent_declare(&e->recurrent[i], reg, prefix, &shape, site));
        QKV_TRY(qkv_net_add(&e->net, &RECURRENT, &e->recurrent[i], QKV_KEEP));
    }
    return QKV_OK;
}

/* Layers that see everything alternate with others; each draws random blocks of its own. */
static qkv_block_shape layer_shape(const qkv_config *g, const qkv_block_shape *all, int64_t i) {
    qkv_block_shape shape = *all;
    shape.pattern.seed = (uint64_t)i;
    if (!qkv_config_layer_full(g, i)) {
        shape.rope = g->local_rope_base > 0;
        return shape;
    }
    shape.span = (qkv_span){-1, g->span.right == 0 ? 0 : -1};
    shape.pattern = (qkv_pattern){0};
    shape.global_lists = shape.global_projection = false;
    return shape;
}

static qkv_status declare_blocks(qkv_encoder *e, qkv_reg *reg, const qkv_config *g, level at) {
    const qkv_position_shape positions = qkv_encoder_positions(g);
    qkv_block_shape shape = qkv_encoder_shape(g);
    QKV_TRY(qkv_alloc_zero(e->ctx, 1, sizeof *e->relative, &e->relative));
    QKV_TRY(qkv_relative_declare(e->relative, reg, at.norm, g->heads, g->head_dim, &positions));
    shape.relative = e->relative;
    QKV_TRY(qkv_alloc_zero(e->ctx, g->layers, sizeof *e->blocks, &e->blocks));
    for (int64_t i = 0; i < g->layers; i++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "%s.%lld.", at.name, (long long)i);
        const qkv_block_shape own = layer_shape(g, &shape, i);
        QKV_TRY(qkv_block_declare(&e->blocks[i], reg, prefix, &own, at.first + i));
        QKV_TRY(qkv_net_add(&e->net, &BLOCK, &e->blocks[i], g->reversible ? QKV_REVERSIBLE : QKV_KEEP));
    }
    if (g->norm_place != QKV_NORM_POST) {
        QKV_TRY(qkv_norm_declare(&e->norm, reg, at.norm, "norm", &shape));
        QKV_TRY(qkv_net_add(&e->net, &NORM, &e->norm, QKV_KEEP));
    }
    return QKV_OK;
}

qkv_status qkv_encoder_declare(qkv_encoder *e, qkv_reg *reg, const qkv_config *config, bool recompute) {
    const qkv_config lower = qkv_config_lower(config), *g = &lower;
    const level at = {.name = "encoder", .norm = ""};
    e->ctx = e->net.ctx = reg->ctx;
    const qkv_position_shape positions = qkv_encoder_positions(g);
    QKV_TRY(qkv_embedding_layer_declare(&e->embedding, reg, g->vocab, g->dim, &positions, g->embedding_dropout));
    QKV_TRY((qkv_config_recurrent(g) ? declare_recurrent : declare_blocks)(e, reg, g, at));
    e->size = reg->size;
    qkv_encoder_set_saving(e, (qkv_saving){.every = recompute});
    return QKV_OK;
}

qkv_status qkv_encoder_declare_upper(qkv_encoder *e, qkv_reg *reg, const qkv_config *config, bool recompute) {
    const qkv_config upper = qkv_config_upper(config), *g = &upper;
    const level at = {.name = "segments", .norm = "segments.", .first = config->layers};
    e->ctx = e->net.ctx = reg->ctx;
    e->net.name = at.name;
    const qkv_position_shape positions = qkv_encoder_positions(g);
    QKV_TRY(qkv_embedding_layer_declare_positions(&e->embedding, reg, at.norm, g->dim, &positions));
    QKV_TRY((qkv_config_recurrent(g) ? declare_recurrent : declare_blocks)(e, reg, g, at));
    qkv_encoder_set_saving(e, (qkv_saving){.every = recompute});
    return QKV_OK;
}

/* The last unit is not computed again: its backward pass comes next, so what would be let go would be made again at once. */
void qkv_encoder_set_saving(qkv_encoder *e, qkv_saving saving) {
    int64_t layers = 0;
    const int64_t every = saving.every;
    for (int64_t i = 0; i < e->net.count; i++) layers += e->net.segments[i].kind != &NORM;
    const int64_t again = every < 1 ? 0 : e->head_is_large ? layers : (layers - 1) / every * every;
    for (int64_t i = 0; i < e->net.count; i++)
        if (e->net.segments[i].policy != QKV_REVERSIBLE) e->net.segments[i].policy = i < again ? QKV_RECOMPUTE : QKV_KEEP;
    e->net.every = every;
    e->saving = saving;
}

void qkv_encoder_set_positions(qkv_encoder *e, const qkv_config *config) {
    const qkv_position_shape p = qkv_encoder_positions(config);
    e->embedding.position.beyond = p.beyond;
    for (int i = 0; e->relative && i < QKV_ROPE_TABLES; i++) {
        e->relative->rope[i].stretch = p.rope.stretch;
        e->relative->rope[i].factor = p.rope.factor;
        e->relative->rope[i].length = p.rope.length;
    }
}

void qkv_encoder_free(qkv_encoder *e) {
    if (!e->ctx) return;
    qkv_net_free(&e->net);
    qkv_free(e->ctx, e->blocks);
    qkv_free(e->ctx, e->relative);
    e->relative = NULL;
    qkv_free(e->ctx, e->recurrent);
    e->blocks = NULL;
    e->recurrent = NULL;
}

/* ---- passes ---- */

static const qkv_place EMBEDDING = {"embedding", -1, QKV_WORK_EMBEDDING};

static qkv_status check_segments(const qkv_exec *x, const qkv_config *config, const qkv_batch *batch) {
    const int64_t longest = qkv_config_segment_length(config);
    if (batch->n_seq == 0) return QKV_OK;
    if (!batch->segments || !batch->segment_at || batch->segments[0] != 0 || batch->segment_at[0] != 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "a batch without segments for a network that reads by segments");
    for (int64_t s = 0; s < batch->n_seq; s++) {
        const int64_t from = batch->segments[s], to = batch->segments[s + 1];
        bool whole = from <= to && batch->segment_at[to] == batch->offset[s + 1];
        for (int64_t i = from; whole && i < to; i++) {
            const int64_t n = batch->segment_at[i + 1] - batch->segment_at[i];
            whole = n >= 1 && n <= longest;
        }
        if (!whole)
            return qkv_fail(x->ctx, QKV_INTERNAL, "sequence %lld is not cut into segments of 1 to %lld tokens", (long long)s, (long long)longest);
    }
    return QKV_OK;
}

qkv_status qkv_encoder_check(const qkv_exec *x, const qkv_reg *reg, const qkv_config *config, const qkv_batch *batch, bool training) {
    if (x->reg != reg) return qkv_fail(x->ctx, QKV_INTERNAL, "a pass over another network's parameters");
    if (!x->plan && (!x->weights || (training && !x->grads))) return qkv_fail(x->ctx, QKV_INTERNAL, "a pass without weights or gradients");
    if (batch->n_seq < 0 || (batch->n_seq > 0 && (!batch->offset || batch->offset[0] != 0)))
        return qkv_fail(x->ctx, QKV_INTERNAL, "a batch of %lld sequences whose offsets do not start at 0", (long long)batch->n_seq);
    const int64_t longest = qkv_config_longest(config);
    for (int64_t s = 0; s < batch->n_seq; s++) {
        int64_t n = batch->offset[s + 1] - batch->offset[s];
        if (n < 0 || n > longest)
            return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "sequence %lld has %lld tokens; this network takes 0 to %lld%s", (long long)s, (long long)n,
                            (long long)longest, longest < QKV_LONGEST ? ": its table of positions ends there (position_beyond=error)" : "");
    }
    if (qkv_config_global_lists(config) && batch->n_seq > 0 && !batch->global_offset)
        return qkv_fail(x->ctx, QKV_INTERNAL, "a batch without lists of its global tokens for a network that needs them");
    return config->segment == QKV_SEGMENT_NONE ? QKV_OK : check_segments(x, config, batch);
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
    x->saving = e->saving;
    qkv_exec_at(x, EMBEDDING);
    if (e->relative) QKV_TRY(qkv_relative_begin(x, e->relative, batch));
    QKV_TRY(qkv_keep(x, qkv_batch_rows(batch), x->reg->params[e->embedding.weight].cols, &in));
    QKV_TRY(qkv_embedding_layer_forward(x, &e->embedding, batch, in));
    return qkv_net_forward(x, &e->net, segments, batch, in, out);
}

qkv_status qkv_encoder_forward_rows(qkv_exec *x, const qkv_encoder *e, int64_t segments, const qkv_batch *batch, qkv_mat in,
                                    qkv_mat *out) {
    x->saving = e->saving;
    if (e->relative) QKV_TRY(qkv_relative_begin(x, e->relative, batch));
    QKV_TRY(qkv_embedding_layer_forward(x, &e->embedding, batch, in));
    return qkv_net_forward(x, &e->net, segments, batch, in, out);
}

qkv_status qkv_encoder_backward_rows(qkv_exec *x, const qkv_encoder *e, const qkv_batch *batch, qkv_mat dout, qkv_mat spare,
                                     qkv_mat *din) {
    QKV_TRY(qkv_net_backward(x, &e->net, batch, dout, spare, din));
    return qkv_embedding_layer_backward(x, &e->embedding, batch, *din);
}

qkv_status qkv_encoder_backward(qkv_exec *x, const qkv_encoder *e, const qkv_batch *batch, qkv_mat dout, qkv_mat spare) {
    qkv_mat din;
    QKV_TRY(qkv_net_backward(x, &e->net, batch, dout, spare, &din));
    qkv_exec_at(x, EMBEDDING);
    return qkv_embedding_layer_backward(x, &e->embedding, batch, din);
}
