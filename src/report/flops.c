#include "report/flops.h"

#include "layers/attention_layer.h"
#include "layers/recurrent.h"
#include "models/classifier.h"
#include "models/encoder.h"
#include "models/hierarchy.h"
#include "ops/optimizer.h"
#include "ops/reg.h"

/* Besides blocks: embedding, norm, pooling (of segments, too, with their positions and norm), head, loss, optimizer, and where nobody said. */
enum { OTHER_PLACES = 15 };

qkv_status qkv_flops_begin(qkv_flops_walk *w, qkv_ctx *ctx, const int64_t *lengths, int64_t sequences, int64_t layers) {
    int64_t *offset;
    w->ctx = ctx;
    QKV_TRY(qkv_alloc(ctx, sequences + 1, sizeof *offset, &offset));
    w->batch = (qkv_batch){.n_seq = sequences, .offset = offset};
    offset[0] = 0;
    for (int64_t i = 0; i < sequences; i++) offset[i + 1] = offset[i] + lengths[i];
    w->ledger.capacity = layers + OTHER_PLACES;
    return qkv_alloc_zero(ctx, w->ledger.capacity, sizeof *w->ledger.entries, &w->ledger.entries);
}

static qkv_status check_segments(qkv_ctx *ctx, const qkv_flops_segments *g, const qkv_batch *b) {
    if (!g->size || g->at[0] < 0) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "segments begin at %lld, or have no sizes", (long long)g->at[0]);
    for (int64_t s = 0; s < b->n_seq; s++) {
        const int64_t length = b->offset[s + 1] - b->offset[s];
        int64_t tokens = 0;
        if (g->at[s + 1] < g->at[s] || g->at[s + 1] - g->at[s] > length)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "sequence %lld of %lld tokens has segments %lld to %lld", (long long)s, (long long)length,
                            (long long)g->at[s], (long long)g->at[s + 1] - 1);
        for (int64_t i = g->at[s]; i < g->at[s + 1]; i++) {
            if (g->size[i] < 1) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "segment %lld has %d tokens", (long long)i, (int)g->size[i]);
            tokens += g->size[i];
        }
        if (tokens != length)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "sequence %lld has %lld tokens, its segments %lld", (long long)s, (long long)length,
                            (long long)tokens);
    }
    return QKV_OK;
}

qkv_status qkv_flops_cut(qkv_flops_walk *w, const qkv_config *c, const qkv_flops_segments *segments) {
    if (c->segment == QKV_SEGMENT_NONE) return QKV_OK;
    if (segments && segments->at) {
        QKV_TRY(check_segments(w->ctx, segments, &w->batch));
        return qkv_hierarchy_cut(w->ctx, segments->at, segments->size, &w->batch);
    }
    return qkv_hierarchy_assume(w->ctx, qkv_config_segment_length(c), &w->batch);
}

void qkv_flops_end(qkv_flops_walk *w) {
    qkv_free(w->ctx, (void *)w->batch.offset);
    qkv_free(w->ctx, (void *)w->batch.segments);
    w->batch.segments = NULL;
    qkv_free(w->ctx, w->ledger.entries);
    w->batch.offset = NULL;
    w->ledger.entries = NULL;
}

static void start(qkv_flops_walk *w, const qkv_reg *reg, bool bf16) {
    static const real planned[1] = {0}; /* a plan must know that nothing will be packed in scratch */
    w->x = (qkv_exec){
        .ctx = w->ctx, .plan = true, .train = w->train, .bf16 = bf16, .reg = reg, .seed = 1, .step = 1, .ledger = &w->ledger};
    w->weights = (double)reg->size;
    if (w->train) return;
    w->x.packed = planned;
    w->packed = (double)qkv_reg_packed_size(reg, bf16);
}

static qkv_status update(qkv_flops_walk *w) {
    const qkv_adamw_options any = {.step = 1};
    double norm;
    QKV_TRY(qkv_gradient_norm(&w->x, NULL, &norm));
    return qkv_adamw_update(&w->x, &any, NULL, NULL, NULL, NULL);
}

/* ---- a network ---- */

static qkv_status walk_network(qkv_flops_walk *w, const qkv_classifier *net) {
    const int64_t classes = qkv_classifier_config(net)->classes;
    const qkv_aims aims = {0};
    double loss;
    if (!w->train) return qkv_classifier_forward(&w->x, net, &w->batch, (qkv_mat){NULL, w->batch.n_seq, classes, classes});
    QKV_TRY(qkv_classifier_learn(&w->x, net, &w->batch, &aims, 1, &loss, NULL));
    return update(w);
}

qkv_status qkv_flops_network(qkv_flops_walk *w, const qkv_config *config, qkv_flops **out) {
    qkv_classifier *net;
    QKV_TRY(qkv_classifier_create(w->ctx, config, w->recompute, &net));
    start(w, qkv_classifier_reg(net), config->bf16);
    qkv_status status = walk_network(w, net);
    if (status == QKV_OK) status = qkv_flops_sums(w, out);
    qkv_classifier_free(net);
    return status;
}

/* ---- a layer alone ---- */

typedef struct alone {
    qkv_flops_walk *w;
    qkv_mat any; /* rows in and out, and their gradients */
    size_t low;
} alone;

static alone enter(qkv_flops_walk *w, const qkv_reg *reg, const char *name, int64_t dim, bool bf16) {
    const int64_t rows = w->batch.n_seq > 0 ? w->batch.offset[w->batch.n_seq] : 0;
    start(w, reg, bf16);
    w->rows = (w->train ? 4 : 2) * (double)rows * (double)dim;
    w->x.keep = w->train;
    w->x.place = (qkv_place){.name = name, .index = -1};
    return (alone){w, {NULL, rows, dim, dim}, w->x.arena.low};
}

static qkv_status leave(const alone *a) {
    qkv_arena_low_release(&a->w->x.arena, a->low);
    return a->w->train ? update(a->w) : QKV_OK;
}

static qkv_status walk_attention(qkv_flops_walk *w, const qkv_reg *reg, const qkv_attention_layer *l,
                                 const qkv_block_shape *shape) {
    const alone a = enter(w, reg, "attention", shape->dim, w->x.bf16);
    qkv_attention_saved saved;
    QKV_TRY(qkv_attention_layer_forward(&w->x, l, &w->batch, a.any, a.any, &saved));
    w->x.pass = QKV_PASS_BACKWARD;
    if (w->train) QKV_TRY(qkv_attention_layer_backward(&w->x, l, &w->batch, a.any, a.any, &saved));
    return leave(&a);
}

qkv_status qkv_flops_attention(qkv_flops_walk *w, const qkv_block_shape *shape, qkv_flops **out) {
    qkv_reg reg = {.ctx = w->ctx};
    qkv_attention_layer l;
    qkv_status status = qkv_attention_layer_declare(&l, &reg, "", shape, 0);
    if (status == QKV_OK) status = walk_attention(w, &reg, &l, shape);
    if (status == QKV_OK) status = qkv_flops_sums(w, out);
    qkv_reg_free(&reg);
    return status;
}

static qkv_status walk_recurrent(qkv_flops_walk *w, const qkv_reg *reg, const qkv_recurrent *l, const qkv_config *c) {
    const alone a = enter(w, reg, "recurrence", c->dim, c->bf16);
    qkv_recurrent_saved saved;
    QKV_TRY(qkv_recurrent_forward(&w->x, l, &w->batch, NULL, a.any, a.any, &saved));
    w->x.pass = QKV_PASS_BACKWARD;
    if (w->train) QKV_TRY(qkv_recurrent_backward(&w->x, l, &w->batch, NULL, a.any, a.any, &saved));
    return leave(&a);
}

qkv_status qkv_flops_recurrent(qkv_flops_walk *w, const qkv_config *c, qkv_flops **out) {
    const int directions = qkv_config_directions(c);
    const qkv_recurrent_shape shape = {.cell = qkv_encoder_cell(c),
                                       .in = c->dim,
                                       .units = c->dim / directions,
                                       .directions = directions,
                                       .peepholes = c->cell == QKV_CELL_PEEPHOLES,
                                       .forget = 1};
    qkv_reg reg = {.ctx = w->ctx};
    qkv_recurrent l;
    qkv_status status = qkv_recurrent_declare(&l, &reg, "", &shape, 0);
    if (status == QKV_OK) status = walk_recurrent(w, &reg, &l, c);
    if (status == QKV_OK) status = qkv_flops_sums(w, out);
    qkv_reg_free(&reg);
    return status;
}
