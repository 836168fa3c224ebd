/* Networks for the laws: a small classifier, batches that are a function of their rows' identities, and passes that are
 * planned, run in an arena of exactly the planned size, and held against the plan. */
#ifndef QKV_TESTS_NET_H
#define QKV_TESTS_NET_H

#include "support.h"

#include <math.h>

#include "kernels/pick.h"
#include "models/classifier.h"
#include "ops/recurrence.h"

#define NET_OK(ctx, expression)                                                                                             \
    do {                                                                                                                    \
        if ((expression) != QKV_OK) fail_msg("%s: %s", #expression, (ctx)->message);                                        \
    } while (0)

static inline qkv_config net_config(void) {
    return (qkv_config){.vocab = 29, .classes = 5, .layers = 2, .dim = 24, .heads = 4, .kv_heads = 4, .head_dim = 6, .ffn = 40,
                        .max_length = 64, .position = QKV_POSITION_LEARNED, .pooling = QKV_POOL_ATTENTION, .norm = QKV_NORM_LAYER,
                        .activation = QKV_ACT_GELU, .bias = true, .span = {-1, -1}, .norm_epsilon = 1e-5};
}

static inline qkv_ctx net_ctx(test_memory *memory, int threads, const qkv_kernels *kernels) {
    qkv_ctx ctx = test_ctx(memory);
    ctx.threads = threads;
    if (kernels) ctx.kernels = kernels, ctx.bf16 = qkv_kernels_bf16(kernels);
    else NET_OK(&ctx, qkv_kernels_pick(&ctx, getenv("QKV_ISA")));
    return ctx;
}

/* ---- batches ---- */

typedef struct net_rows {
    qkv_batch batch;
    int64_t rows;
    int64_t *offset;
    int32_t *ids, *target;
    uint64_t *seq_key, *row_key;
    int64_t *segments, *segment_at; /* of networks that read by segments */
    uint64_t *segment_key;
    int64_t *global_offset, *global_at; /* of networks whose global tokens are listed */
} net_rows;

/* Where segment i of a sequence of this identity ends that begins with token `from`. */
static inline int64_t net_segment_end(const qkv_config *c, uint64_t who, int64_t i, int64_t from, int64_t to) {
    const int64_t most = qkv_config_segment_length(c);
    const int64_t n = c->segment == QKV_SEGMENT_TOKENS ? most : 1 + (int64_t)qkv_below(qkv_key3(who, 3, (uint64_t)i), (uint64_t)most);
    return from + n < to ? from + n : to;
}

static inline void net_cut(const qkv_config *c, const uint64_t *who, net_rows *b) {
    const int64_t n_seq = b->batch.n_seq;
    int64_t n = 0;
    if (c->segment == QKV_SEGMENT_NONE) return;
    b->segments = calloc((size_t)n_seq + 1, sizeof *b->segments);
    b->segment_at = calloc((size_t)b->rows + 1, sizeof *b->segment_at);
    b->segment_key = calloc((size_t)b->rows + 1, sizeof *b->segment_key);
    for (int64_t s = 0; s < n_seq; s++) {
        for (int64_t at = b->offset[s], i = 0; at < b->offset[s + 1]; i++, n++) {
            at = net_segment_end(c, who[s], i, at, b->offset[s + 1]);
            b->segment_key[n] = qkv_key2(b->seq_key[s], (uint64_t)i);
            b->segment_at[n + 1] = at;
        }
        b->segments[s + 1] = n;
    }
    b->batch.segments = b->segments;
    b->batch.segment_at = b->segment_at;
    b->batch.segment_key = b->segment_key;
}

static inline void net_list_globals(const qkv_config *c, net_rows *b) {
    const qkv_global_rule rule = qkv_config_globals(c);
    const qkv_batch lower = qkv_batch_lower(&b->batch);
    if (!qkv_globals_listed(&rule)) return;
    b->global_offset = calloc((size_t)lower.n_seq + 1, sizeof *b->global_offset);
    b->global_at = calloc((size_t)b->rows + 1, sizeof *b->global_at);
    for (int64_t s = 0; s < lower.n_seq; s++) {
        const int64_t from = lower.offset[s], n = lower.offset[s + 1] - from;
        b->global_offset[s + 1] =
            b->global_offset[s] + qkv_globals_list(&rule, b->ids + from, n, b->global_at + b->global_offset[s]);
    }
    b->batch.global_offset = b->global_offset;
    b->batch.global_at = b->global_at;
}

/* What a plan knows of a batch. */
static inline qkv_batch net_shape(const net_rows *b) {
    return (qkv_batch){.n_seq = b->batch.n_seq,
                       .offset = b->offset,
                       .segments = b->segments,
                       .segment_at = b->segment_at,
                       .global_offset = b->global_offset,
                       .global_at = b->global_at};
}

/* Sequence s has identity who[s] and length lengths[s]; its tokens, target and keys depend on its identity only. */
static inline net_rows net_rows_make(const qkv_config *c, int64_t n_seq, const uint64_t *who, const int64_t *lengths) {
    net_rows b = {0};
    for (int64_t s = 0; s < n_seq; s++) b.rows += lengths[s];
    b.offset = calloc((size_t)n_seq + 1, sizeof *b.offset);
    b.ids = calloc((size_t)b.rows + 1, sizeof *b.ids);
    b.target = calloc((size_t)n_seq + 1, sizeof *b.target);
    b.seq_key = calloc((size_t)n_seq + 1, sizeof *b.seq_key);
    b.row_key = calloc((size_t)b.rows + 1, sizeof *b.row_key);
    for (int64_t s = 0; s < n_seq; s++) {
        b.offset[s + 1] = b.offset[s] + lengths[s];
        b.seq_key[s] = qkv_key2(77, who[s]);
        b.target[s] = (int32_t)qkv_below(qkv_key2(who[s], 1), (uint64_t)c->classes);
        for (int64_t i = 0; i < lengths[s]; i++) {
            b.ids[b.offset[s] + i] = (int32_t)qkv_below(qkv_key3(who[s], 2, (uint64_t)i), (uint64_t)c->vocab);
            b.row_key[b.offset[s] + i] = qkv_key2(b.seq_key[s], (uint64_t)i);
        }
    }
    b.batch = (qkv_batch){.n_seq = n_seq, .offset = b.offset, .ids = b.ids, .seq_key = b.seq_key, .row_key = b.row_key};
    net_cut(c, who, &b);
    net_list_globals(c, &b);
    return b;
}

static inline void net_rows_free(net_rows *b) {
    free(b->offset);
    free(b->ids);
    free(b->target);
    free(b->seq_key);
    free(b->row_key);
    free(b->segments);
    free(b->segment_at);
    free(b->segment_key);
    free(b->global_offset);
    free(b->global_at);
}

/* ---- weights: everywhere different from the initial values, so that no gradient is 0 by accident ---- */

static inline real *net_weights(const qkv_classifier *net, uint64_t seed) {
    const qkv_reg *reg = qkv_classifier_reg(net);
    real *w = calloc((size_t)reg->size, sizeof *w);
    qkv_reg_init(reg, seed, w);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        for (int64_t e = 0; e < p->rows * p->cols; e++)
            w[p->offset + e] += (real)(0.3 * qkv_normal(qkv_key4(seed, 99, (uint64_t)i, (uint64_t)e)));
    }
    return w;
}

/* ---- passes ---- */

typedef struct net_result {
    double loss;
    real *losses, *logits, *grads; /* [n_seq], [n_seq, classes], block */
    qkv_tally tally;
    qkv_ledger ledger; /* of the run */
    size_t peak;
} net_result;

static inline void net_result_free(net_result *r) {
    free(r->losses);
    free(r->logits);
    free(r->grads);
    free(r->ledger.entries);
}

enum { NET_PLACES = 32 };
static inline qkv_ledger net_ledger(void) { return (qkv_ledger){.entries = calloc(NET_PLACES, sizeof(qkv_ledger_entry)), .capacity = NET_PLACES}; }

typedef struct net_options {
    bool train;
    double smoothing, scale;
    uint64_t seed, step;
    const real *packed;
    const real *grads; /* gradients that are there already; NULL: 0 */
} net_options;

static inline qkv_exec net_exec(qkv_ctx *ctx, const qkv_classifier *net, const net_options *o, bool plan) {
    return (qkv_exec){.ctx = ctx, .plan = plan, .train = o->train, .reg = qkv_classifier_reg(net), .seed = o->seed, .step = o->step};
}

/* Plan, then run: the same bytes, the same operations, no allocation. */
static inline void net_compare(qkv_ctx *ctx, const qkv_exec *plan, const qkv_exec *run, int64_t calls) {
    test_memory *m = ctx->allocator_user;
    assert_int_equal(plan->arena.peak, run->arena.peak);
    assert_int_equal(plan->arena.low, 0);
    assert_int_equal(plan->arena.high, 0);
    assert_int_equal(run->arena.low, 0);
    assert_int_equal(run->arena.high, 0);
    assert_memory_equal(&plan->tally, &run->tally, sizeof plan->tally);
    assert_int_equal(m->calls, calls);
    if (!plan->ledger) return;
    assert_false(plan->ledger->overflow);
    assert_int_equal(plan->ledger->count, run->ledger->count);
    for (int64_t i = 0; i < run->ledger->count; i++)
        assert_memory_equal(plan->ledger->entries[i].of, run->ledger->entries[i].of, sizeof run->ledger->entries[i].of);
}

static inline net_result net_step(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const net_rows *b, const net_options *o) {
    const qkv_reg *reg = qkv_classifier_reg(net);
    net_result r = {.losses = calloc((size_t)b->batch.n_seq + 1, sizeof(real)), .grads = calloc((size_t)reg->size, sizeof(real))};
    if (o->grads) memcpy(r.grads, o->grads, (size_t)reg->size * sizeof(real));
    qkv_exec plan = net_exec(ctx, net, o, true), run = net_exec(ctx, net, o, false);
    qkv_ledger planned = net_ledger();
    r.ledger = net_ledger();
    plan.ledger = &planned;
    run.ledger = &r.ledger;
    qkv_batch shape = net_shape(b);
    double scale = o->scale != 0 ? o->scale : 1, none;
    NET_OK(ctx, qkv_classifier_step(&plan, net, &shape, NULL, o->smoothing, scale, &none, NULL));
    run.weights = weights;
    run.grads = r.grads;
    NET_OK(ctx, qkv_arena_create(ctx, plan.arena.peak, &run.arena));
    int64_t calls = ((test_memory *)ctx->allocator_user)->calls;
    NET_OK(ctx, qkv_classifier_step(&run, net, &b->batch, b->target, o->smoothing, scale, &r.loss, r.losses));
    net_compare(ctx, &plan, &run, calls);
    r.tally = run.tally;
    r.peak = run.arena.peak;
    free(planned.entries);
    qkv_arena_free(ctx, &run.arena);
    return r;
}

static inline net_result net_forward(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const net_rows *b, const net_options *o) {
    int64_t classes = qkv_classifier_config(net)->classes;
    net_result r = {.logits = calloc((size_t)(b->batch.n_seq * classes + 1), sizeof(real))};
    qkv_exec plan = net_exec(ctx, net, o, true), run = net_exec(ctx, net, o, false);
    qkv_ledger planned = net_ledger();
    r.ledger = net_ledger();
    plan.ledger = &planned;
    run.ledger = &r.ledger;
    qkv_batch shape = net_shape(b);
    if (o->packed) plan.packed = o->packed;
    NET_OK(ctx, qkv_classifier_forward(&plan, net, &shape, (qkv_mat){NULL, b->batch.n_seq, classes, classes}));
    run.weights = weights;
    run.packed = o->packed;
    NET_OK(ctx, qkv_arena_create(ctx, plan.arena.peak, &run.arena));
    int64_t calls = ((test_memory *)ctx->allocator_user)->calls;
    NET_OK(ctx, qkv_classifier_forward(&run, net, &b->batch, (qkv_mat){r.logits, b->batch.n_seq, classes, classes}));
    net_compare(ctx, &plan, &run, calls);
    r.tally = run.tally;
    r.peak = run.arena.peak;
    free(planned.entries);
    qkv_arena_free(ctx, &run.arena);
    return r;
}

/* Equal in every bit; says where not. */
static inline void net_same(const char *what, const real *a, const real *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0) fail_msg("%s: element %lld is %.17g and %.17g", what, (long long)i, (double)a[i], (double)b[i]);
}

static inline void net_same_grads(const qkv_classifier *net, const real *a, const real *b) {
    const qkv_reg *reg = qkv_classifier_reg(net);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        net_same(p->name, a + p->offset, b + p->offset, p->rows * p->cols);
    }
}

static inline double net_stack_flops(const qkv_config *c, const qkv_batch *batch, double *back);

/* Multiply-adds of the projections that global tokens have of their own, in one layer. */
static inline double net_global_macs(const qkv_config *c, const qkv_batch *batch) {
    double globals = c->global_projection && batch->global_offset ? (double)batch->global_offset[batch->n_seq] : 0;
    for (int64_t s = 0; c->global_projection && !batch->global_offset && s < batch->n_seq; s++)
        for (int64_t i = 0; i < batch->offset[s + 1] - batch->offset[s]; i++)
            globals += i < c->global_first || (c->global_every > 0 && i % c->global_every == 0);
    if (!c->global_projection) return 0;
    return (double)(c->dim * c->head_dim) * (globals * (double)c->heads + (double)(2 * c->kv_heads * batch->offset[batch->n_seq]));
}

/* Operations of the products in the layers of a network over these rows, forward, but for those along the steps of a recurrent
 * layer. *back: what the backward pass has beyond twice these, the gradient of the recurrent weights: a product over the rows that
 * have one before them, as each of the two passes along the steps is. */
static inline double net_layers_flops(const qkv_config *c, const net_rows *b, double *back) {
    const qkv_batch lower = qkv_batch_lower(&b->batch), upper = qkv_batch_upper(&b->batch);
    const qkv_config over = qkv_config_upper(c);
    double more = 0, flops = net_stack_flops(c, &lower, back);
    if (c->segment == QKV_SEGMENT_NONE) return flops;
    flops += net_stack_flops(&over, &upper, &more);
    *back += more;
    return flops;
}

/* Of one stack of layers. */
static inline double net_stack_flops(const qkv_config *c, const qkv_batch *batch, double *back) {
    double rows = batch->n_seq > 0 ? (double)batch->offset[batch->n_seq] : 0, steps = rows;
    for (int64_t s = 0; s < batch->n_seq; s++) steps -= batch->offset[s + 1] > batch->offset[s];
    const double dim = (double)c->dim, width = (double)(c->head_dim * (c->heads + 2 * c->kv_heads)), layers = (double)c->layers;
    const bool gated = c->activation == QKV_ACT_GEGLU || c->activation == QKV_ACT_SWIGLU;
    *back = 0;
    if (!qkv_config_recurrent(c))
        return 2 * layers * (rows * (dim * width + (double)(c->heads * c->head_dim) * dim + dim * (double)c->ffn * (gated ? 3 : 2)) +
                             net_global_macs(c, batch));
    const int kind = (int)(c->model - QKV_NETWORK_RNN) % 3, gates = kind == 0 ? 1 : kind == 1 ? 4 : 3, directions = qkv_config_directions(c);
    *back = 2 * steps * layers * gates * dim * dim / directions;
    return 2 * rows * layers * gates * dim * dim;
}

/* ---- the grid of configurations that the laws walk ---- */

/* First transformers, then every recurrent model and cell; the last four, and a bilstm after them, compute with bf16. */
static inline void net_pattern(qkv_config *c, int i);
enum { NET_TRANSFORMERS = 12, NET_F32_CONFIGS = 22, NET_CONFIGS = 27 };
static inline qkv_config net_grid(int i) {
    static const struct net_recurrent {
        qkv_network model;
        qkv_cell_kind cell;
    } recurrent[NET_F32_CONFIGS - NET_TRANSFORMERS] = {
        {QKV_NETWORK_RNN, QKV_CELL_PLAIN},      {QKV_NETWORK_LSTM, QKV_CELL_PLAIN},     {QKV_NETWORK_GRU, QKV_CELL_PLAIN},
        {QKV_NETWORK_BIRNN, QKV_CELL_PLAIN},    {QKV_NETWORK_BILSTM, QKV_CELL_PLAIN},   {QKV_NETWORK_BIGRU, QKV_CELL_PLAIN},
        {QKV_NETWORK_RNN, QKV_CELL_RELU}, {QKV_NETWORK_LSTM, QKV_CELL_PEEPHOLES}, {QKV_NETWORK_BIGRU, QKV_CELL_RESET_BEFORE},
        {QKV_NETWORK_BILSTM, QKV_CELL_PEEPHOLES}};
    qkv_config c = net_config();
    c.norm = i % 2 ? QKV_NORM_RMS : QKV_NORM_LAYER;
    c.activation = (qkv_activation)(i % 6);
    c.pooling = (qkv_pooling)((i + i / 5) % 5);
    c.position = i == 7 || i == 23 ? QKV_POSITION_ROPE : (qkv_position)(i % 7);
    c.position_layout = (qkv_position_layout)(i / 8 % 2);
    c.position_beyond = (qkv_position_beyond)(i % 4);
    c.position_reach = c.position == QKV_POSITION_SHAW ? 2 + i % 3 : i / 7 * 12;
    c.position_buckets = i / 7 * 8;
    c.rope_pairs = (qkv_rope_pairs)(i / 7 % 2);
    c.rope_part = i == 7 ? 0.8 : i == 23 ? 0.5 : 0;
    c.rope_stretch = i == 23 ? QKV_STRETCH_LINEAR : (qkv_rope_stretch)(i % 4);
    c.rope_factor = 2;
    c.norm_place = i == 7 || i == 24 ? QKV_NORM_SANDWICH : (qkv_norm_place)(i / 3 % 2);
    c.residual = i == 4 ? QKV_RESIDUAL_DEEPNORM : i == 8 || i == 10 ? QKV_RESIDUAL_NONE : QKV_RESIDUAL_PLAIN;
    c.qk_norm = i == 2 || i == 7 || i == 25;
    c.softcap = i == 1 || i == 5 || i == 22 ? 1.5 : 0;
    c.unscaled = i == 8;
    c.init = i % 4 == 2 ? QKV_INIT_PLAIN : (qkv_initial)(i % 4); /* what starts too large has no smooth differences */
    c.reversible = i == 1 || i == 6 || i == 7;
    c.bias = i / 2 % 2 == 0;
    c.kv_heads = i % 3 == 0 ? 4 : i % 3 == 1 ? 2 : 1;
    c.span = i % 5 == 1 ? (qkv_span){-1, 0} : i % 5 == 2 ? (qkv_span){3, 2} : i % 5 == 4 ? (qkv_span){0, -1} : (qkv_span){-1, -1};
    net_pattern(&c, i);
    c.head_dim = i % 4 == 3 ? 5 : 6;
    c.dropout = 0.2;
    c.attention_dropout = 0.1;
    c.embedding_dropout = 0.15;
    c.bf16 = i >= NET_F32_CONFIGS;
    c.segment = i == 3 || i == 17 ? QKV_SEGMENT_SENTENCES : i == 9 || i == 25 ? QKV_SEGMENT_TOKENS : i == 11 ? QKV_SEGMENT_WORDS : QKV_SEGMENT_NONE;
    c.segment_length = c.segment == QKV_SEGMENT_NONE ? 0 : i == 9 ? 7 : i == 11 ? 3 : 9;
    c.segment_layers = c.segment == QKV_SEGMENT_NONE ? 0 : 1 + i % 2;
    if (i >= NET_TRANSFORMERS && i < NET_F32_CONFIGS) {
        c.model = recurrent[i - NET_TRANSFORMERS].model;
        c.cell = recurrent[i - NET_TRANSFORMERS].cell;
    }
    if (i == NET_CONFIGS - 1) c.model = QKV_NETWORK_BILSTM;
    if (qkv_config_recurrent(&c) && c.pooling == QKV_POOL_FIRST) c.pooling = QKV_POOL_MEAN; /* on the first row nothing has gone far */
    qkv_config_settle(&c);
    return c;
}

/* What some of them see beside their windows. */
static inline void net_pattern(qkv_config *c, int i) {
    switch (i) {
    case 2:
        c->global_first = 1, c->global_every = 5;
        break;
    case 3:
        c->span = (qkv_span){2, 1}, c->global_first = 2;
        break;
    case 4:
        c->global_first = 2;
        break;
    case 5:
        c->span = (qkv_span){2, 1}, c->global_first = 1, c->global_every = 11, c->global_token = (qkv_numbers){3, {2, 4, 6}};
        break;
    case 6:
        c->span = (qkv_span){2, 2}, c->full_every = 2, c->local_rope_base = 50, c->global_every = 4;
        break;
    case 7:
        c->dilation = 3, c->global_at = (qkv_numbers){2, {1, 8}}, c->global_token = (qkv_numbers){1, {5}}, c->global_projection = true;
        break;
    case 9:
        c->random_blocks = 2, c->block = 3, c->global_token = (qkv_numbers){2, {3, 6}}, c->global_projection = true;
        break;
    case 10:
        c->span = (qkv_span){2, 1}, c->dilation = 2, c->global_every = 6, c->global_projection = true;
        break;
    case 11:
        c->span = (qkv_span){2, 0}, c->global_every = 3;
        break;
    case 22:
        c->global_first = 1, c->global_at = (qkv_numbers){1, {9}};
        break;
    default:
        break;
    }
}

#endif
