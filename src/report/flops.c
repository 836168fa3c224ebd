#include "report/flops.h"

#include "layers/attention_layer.h"
#include "layers/recurrent.h"
#include "models/classifier.h"
#include "models/encoder.h"
#include "models/globals.h"
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

/* Lists that were made elsewhere. */
static qkv_status check_lists(qkv_ctx *ctx, const qkv_flops_segments *g, const qkv_batch *lower) {
    if (!g->global_at || g->global_offset[0] != 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "global_offset does not begin at 0, or there is no global_at");
    for (int64_t s = 0; s < lower->n_seq; s++) {
        const int64_t from = g->global_offset[s], to = g->global_offset[s + 1], n = lower->offset[s + 1] - lower->offset[s];
        if (to < from || to - from > n)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "sequence %lld of %lld tokens has global tokens %lld to %lld", (long long)s,
                            (long long)n, (long long)from, (long long)to - 1);
        for (int64_t i = from; i < to; i++)
            if (g->global_at[i] < (i > from ? g->global_at[i - 1] + 1 : 0) || g->global_at[i] >= n)
                return qkv_fail(ctx, QKV_BAD_ARGUMENT, "global_at[%lld]=%lld: sequence %lld has %lld tokens, and places ascend",
                                (long long)i, (long long)g->global_at[i], (long long)s, (long long)n);
    }
    return QKV_OK;
}

qkv_status qkv_flops_list(qkv_flops_walk *w, const qkv_config *c, const qkv_flops_segments *segments) {
    const qkv_global_rule globals = qkv_config_globals(c);
    const qkv_batch lower = qkv_batch_lower(&w->batch);
    if (segments && segments->global_offset && qkv_globals_listed(&globals)) {
        QKV_TRY(check_lists(w->ctx, segments, &lower));
        w->batch.global_offset = segments->global_offset;
        w->batch.global_at = segments->global_at;
        return QKV_OK;
    }
    if (qkv_globals_read(&globals) && lower.n_seq > 0)
        return qkv_fail(w->ctx, QKV_BAD_ARGUMENT,
                        "which tokens are global this model tells by what they are, and lengths say nothing of that: "
                        "count the texts of a file (--data)");
    QKV_TRY(qkv_batch_list_globals(w->ctx, c, &w->batch));
    w->listed = (void *)w->batch.global_offset;
    return QKV_OK;
}

void qkv_flops_end(qkv_flops_walk *w) {
    qkv_free(w->ctx, (void *)w->batch.offset);
    qkv_free(w->ctx, (void *)w->batch.segments);
    w->batch.segments = NULL;
    qkv_free(w->ctx, w->listed);
    w->listed = NULL;
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
    const qkv_adamw_options any = {.lr = 1e-4,
                                   .embedding_lr = 1e-4,
                                   .beta1 = 0.9,
                                   .beta2 = 0.98,
                                   .epsilon = 1e-8,
                                   .grad_scale = 1,
                                   .lazy_embedding = true,
                                   .step = (int64_t)w->x.step};
    double norm;
    QKV_TRY(qkv_gradient_norm(&w->x, w->x.grads, &norm));
    return qkv_adamw_update(&w->x, &any, w->data.weights, w->x.grads, w->data.m, w->data.v);
}

/* The plan, and then, where it is asked for, real passes. */
static qkv_status count(qkv_flops_walk *w, qkv_flops_pass_fn *pass, const void *self, qkv_flops **out) {
    QKV_TRY(pass(w, self));
    QKV_TRY(qkv_flops_sums(w, out));
    if (!(w->measure > 0) || (*out)->total.total.macs == 0) return QKV_OK;
    const qkv_status status = qkv_flops_run(w, pass, self, *out);
    if (status == QKV_OK) return QKV_OK;
    qkv_free(w->ctx, *out);
    *out = NULL;
    return status;
}

/* ---- a network ---- */

static qkv_status pass_network(qkv_flops_walk *w, const void *self) {
    const qkv_classifier *net = self;
    const int64_t classes = qkv_classifier_config(net)->classes;
    const qkv_aims aims = {.target = w->data.targets, .label_at = w->data.label_at, .labels = w->data.targets};
    double loss;
    if (!w->train)
        return qkv_classifier_forward(&w->x, net, &w->batch, (qkv_mat){w->data.values, w->batch.n_seq, classes, classes});
    QKV_TRY(qkv_classifier_learn(&w->x, net, &w->batch, &aims, 1, &loss, NULL));
    return update(w);
}

qkv_status qkv_flops_network(qkv_flops_walk *w, const qkv_config *config, qkv_flops **out) {
    qkv_classifier *net;
    QKV_TRY(qkv_classifier_create(w->ctx, config, false, &net));
    qkv_classifier_set_saving(net, w->saving);
    start(w, qkv_classifier_reg(net), config->bf16);
    w->vocab = config->vocab;
    w->values = w->batch.n_seq * config->classes;
    const qkv_status status = count(w, pass_network, net, out);
    qkv_classifier_free(net);
    return status;
}

/* ---- a layer alone ---- */

static void start_alone(qkv_flops_walk *w, const qkv_reg *reg, const char *name, int64_t dim, bool bf16) {
    start(w, reg, bf16);
    w->dim = dim;
    w->values = (w->train ? 4 : 2) * (w->batch.n_seq > 0 ? w->batch.offset[w->batch.n_seq] : 0) * dim;
    w->rows = (double)w->values;
    w->x.keep = w->train;
    w->x.place = (qkv_place){.name = name, .index = -1};
}

/* Rows in, out, and the gradients of those that come out and of those that go in. */
static qkv_mat side(const qkv_flops_walk *w, int which) {
    const int64_t rows = w->batch.n_seq > 0 ? w->batch.offset[w->batch.n_seq] : 0;
    return (qkv_mat){w->data.values ? w->data.values + which * rows * w->dim : NULL, rows, w->dim, w->dim};
}

static qkv_status leave(qkv_flops_walk *w) {
    qkv_arena_low_release(&w->x.arena, 0);
    return w->train ? update(w) : QKV_OK;
}

static qkv_status pass_attention(qkv_flops_walk *w, const void *self) {
    const qkv_attention_layer *l = self;
    qkv_attention_saved saved;
    QKV_TRY(qkv_attention_layer_forward(&w->x, l, &w->batch, side(w, 0), side(w, 1), &saved));
    w->x.pass = QKV_PASS_BACKWARD;
    if (w->train) QKV_TRY(qkv_attention_layer_backward(&w->x, l, &w->batch, side(w, 2), side(w, 3), &saved));
    return leave(w);
}

qkv_status qkv_flops_attention(qkv_flops_walk *w, const qkv_block_shape *shape, qkv_flops **out) {
    qkv_reg reg = {.ctx = w->ctx};
    qkv_attention_layer l;
    qkv_status status = qkv_attention_layer_declare(&l, &reg, "", shape, 0);
    start_alone(w, &reg, "attention", shape->dim, w->x.bf16);
    if (status == QKV_OK) status = count(w, pass_attention, &l, out);
    qkv_reg_free(&reg);
    return status;
}

static qkv_status pass_recurrent(qkv_flops_walk *w, const void *self) {
    const qkv_recurrent *l = self;
    qkv_recurrent_saved saved;
    QKV_TRY(qkv_recurrent_forward(&w->x, l, &w->batch, NULL, side(w, 0), side(w, 1), &saved));
    w->x.pass = QKV_PASS_BACKWARD;
    if (w->train) QKV_TRY(qkv_recurrent_backward(&w->x, l, &w->batch, NULL, side(w, 2), side(w, 3), &saved));
    return leave(w);
}

qkv_status qkv_flops_recurrent(qkv_flops_walk *w, const qkv_config *c, qkv_flops **out) {
    const int directions = qkv_config_directions(c);
    const qkv_recurrent_shape shape = {.cell = qkv_encoder_cell(c),
                                       .in = c->dim,
                                       .units = c->dim / directions,
                                       .directions = directions,
                                       .peepholes = c->cell == QKV_CELL_PEEPHOLES,
                                       .forget = qkv_config_forget(c)};
    qkv_reg reg = {.ctx = w->ctx};
    qkv_recurrent l;
    qkv_status status = qkv_recurrent_declare(&l, &reg, "", &shape, 0);
    start_alone(w, &reg, "recurrence", c->dim, c->bf16);
    if (status == QKV_OK) status = count(w, pass_recurrent, &l, out);
    qkv_reg_free(&reg);
    return status;
}
