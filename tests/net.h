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
} net_rows;

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
    b.batch = (qkv_batch){n_seq, b.offset, b.ids, b.seq_key, b.row_key};
    return b;
}

static inline void net_rows_free(net_rows *b) {
    free(b->offset);
    free(b->ids);
    free(b->target);
    free(b->seq_key);
    free(b->row_key);
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
    qkv_batch shape = {.n_seq = b->batch.n_seq, .offset = b->batch.offset};
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
    qkv_batch shape = {.n_seq = b->batch.n_seq, .offset = b->batch.offset};
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

/* Operations of the products in the layers of a network over these rows, forward, but for those along the steps of a recurrent
 * layer. *back: what the backward pass has beyond twice these, the gradient of the recurrent weights: a product over the rows that
 * have one before them, as each of the two passes along the steps is. */
static inline double net_layers_flops(const qkv_config *c, const net_rows *b, double *back) {
    double rows = (double)b->rows, steps = rows;
    for (int64_t s = 0; s < b->batch.n_seq; s++) steps -= b->batch.offset[s + 1] > b->batch.offset[s];
    const double dim = (double)c->dim, width = (double)(c->head_dim * (c->heads + 2 * c->kv_heads)), layers = (double)c->layers;
    const bool gated = c->activation == QKV_ACT_GEGLU || c->activation == QKV_ACT_SWIGLU;
    *back = 0;
    if (!qkv_config_recurrent(c))
        return 2 * rows * layers * (dim * width + (double)(c->heads * c->head_dim) * dim + dim * (double)c->ffn * (gated ? 3 : 2));
    const int kind = (int)(c->model - QKV_NETWORK_RNN) % 3, gates = kind == 0 ? 1 : kind == 1 ? 4 : 3, directions = qkv_config_directions(c);
    *back = 2 * steps * layers * gates * dim * dim / directions;
    return 2 * rows * layers * gates * dim * dim;
}

/* ---- the grid of configurations that the laws walk ---- */

/* First transformers, then every recurrent model and cell; the last four, and a bilstm after them, compute with bf16. */
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
    c.pooling = (qkv_pooling)((i + i / 4) % 4);
    c.position = (qkv_position)(i % 3);
    c.post_norm = i / 3 % 2 == 1;
    c.bias = i / 2 % 2 == 0;
    c.kv_heads = i % 3 == 0 ? 4 : i % 3 == 1 ? 2 : 1;
    c.span = i % 5 == 1 ? (qkv_span){-1, 0} : i % 5 == 2 ? (qkv_span){3, 2} : i % 5 == 4 ? (qkv_span){0, -1} : (qkv_span){-1, -1};
    c.head_dim = i % 4 == 3 ? 5 : 6;
    c.dropout = 0.2;
    c.attention_dropout = 0.1;
    c.embedding_dropout = 0.15;
    c.bf16 = i >= NET_F32_CONFIGS;
    if (i >= NET_TRANSFORMERS && i < NET_F32_CONFIGS) {
        c.model = recurrent[i - NET_TRANSFORMERS].model;
        c.cell = recurrent[i - NET_TRANSFORMERS].cell;
    }
    if (i == NET_CONFIGS - 1) c.model = QKV_NETWORK_BILSTM;
    if (qkv_config_recurrent(&c) && c.pooling == QKV_POOL_FIRST) c.pooling = QKV_POOL_MEAN; /* on the first row nothing has gone far */
    qkv_config_settle(&c);
    return c;
}

#endif
