/* The laws for the network of masked-token pretraining, over the grid of configurations: plan = run, to the byte and the operation;
 * the same bits for any number of threads, with recomputation, on every instruction set, with logits cut into chunks; batches add up;
 * gradients = finite differences (double build). */
#include "net.h"

#include "models/masked.h"

enum { SEQUENCES = 9, MOST = 200 };
static const uint64_t WHO[SEQUENCES] = {11, 12, 13, 14, 15, 16, 17, 18, 19};
static const int64_t LENGTHS[SEQUENCES] = {12, 0, 30, 1, 9, 0, 25, 64, 3};

/* Every third token of each sequence, but for the first, is hidden. */
typedef struct hidden {
    qkv_masks masks;
    int32_t row[MOST], target[MOST];
} hidden;

static void hide(const net_rows *b, hidden *h) {
    h->masks = (qkv_masks){.row = h->row, .target = h->target};
    for (int64_t s = 0; s < b->batch.n_seq; s++)
        for (int64_t i = b->offset[s] + 1; i < b->offset[s + 1]; i += 3) {
            h->row[h->masks.count] = (int32_t)i;
            h->target[h->masks.count++] = b->ids[i];
            b->ids[i] = 3;
        }
}

typedef struct result {
    double loss;
    int64_t count;
    real losses[MOST], *grads;
    qkv_tally tally;
    size_t peak;
} result;

static real *weights_of(const qkv_masked *net, uint64_t seed) {
    const qkv_reg *reg = qkv_masked_reg(net);
    real *w = calloc((size_t)reg->size, sizeof *w);
    qkv_reg_init(reg, seed, w);
    for (int64_t i = 0; i < reg->size; i++) w[i] += (real)(0.3 * qkv_normal(qkv_key3(seed, 98, (uint64_t)i)));
    return w;
}

/* Plans, then runs in an arena of exactly that size. learn false: the loss alone, without dropout. */
static result pass(qkv_ctx *ctx, const qkv_masked *net, const real *w, const net_rows *b, const hidden *h, double scale, const real *grads,
                   bool learn) {
    const qkv_reg *reg = qkv_masked_reg(net);
    result r = {.count = h->masks.count, .grads = calloc((size_t)reg->size, sizeof(real))};
    if (grads) memcpy(r.grads, grads, (size_t)reg->size * sizeof(real));
    qkv_exec run = {.ctx = ctx, .train = learn, .reg = reg, .seed = 7, .step = 2}, plan = run;
    const qkv_batch shape = net_shape(b);
    const qkv_masks count = {.count = h->masks.count};
    double none;
    plan.plan = true;
    if (learn) NET_OK(ctx, qkv_masked_learn(&plan, net, &shape, &count, scale, &none, NULL));
    else NET_OK(ctx, qkv_masked_loss(&plan, net, &shape, &count, &none, NULL));
    run.weights = w;
    run.grads = r.grads;
    NET_OK(ctx, qkv_arena_create(ctx, plan.arena.peak, &run.arena));
    int64_t calls = ((test_memory *)ctx->allocator_user)->calls;
    if (learn) NET_OK(ctx, qkv_masked_learn(&run, net, &b->batch, &h->masks, scale, &r.loss, r.losses));
    else NET_OK(ctx, qkv_masked_loss(&run, net, &b->batch, &h->masks, &r.loss, r.losses));
    net_compare(ctx, &plan, &run, calls);
    r.tally = run.tally;
    r.peak = run.arena.peak;
    qkv_arena_free(ctx, &run.arena);
    return r;
}

static void same(const qkv_masked *net, const result *a, const result *b) {
    const qkv_reg *reg = qkv_masked_reg(net);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_int_equal(a->count, b->count);
    net_same("losses", a->losses, b->losses, a->count);
    for (int64_t i = 0; i < reg->count; i++)
        net_same(reg->params[i].name, a->grads + reg->params[i].offset, b->grads + reg->params[i].offset,
                 reg->params[i].rows * reg->params[i].cols);
}

/* ---- plan, threads, recomputation ---- */

static void operations(const qkv_config *c, const net_rows *b, const hidden *h, const result *r) {
    double back;
    const qkv_batch lower = qkv_batch_lower(&b->batch); /* of segments, there is nothing above them */
    const double dim = (double)c->dim, blocks = net_stack_flops(c, &lower, &back);
    const double gemm = blocks + 2 * (double)h->masks.count * dim * (dim + (double)c->vocab);
    assert_true(r->tally.flops[QKV_PASS_FORWARD][QKV_CLASS_GEMM] == gemm);
    assert_true(r->tally.flops[QKV_PASS_BACKWARD][QKV_CLASS_GEMM] == 2 * gemm + back);
}

static void one(int grid) {
    static const int threads[] = {1, 2, 3, 8};
    qkv_config c = net_grid(grid);
    net_rows b = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
    hidden h;
    hide(&b, &h);
    result first = {0};
    for (int i = 0; i < 5; i++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, threads[i % 4], NULL);
        qkv_masked *net;
        NET_OK(&ctx, qkv_masked_create(&ctx, &c, i == 4, &net));
        real *w = weights_of(net, 6);
        result r = pass(&ctx, net, w, &b, &h, 0.25, NULL, true);
        if (i == 0) {
            operations(&c, &b, &h, &r);
            first = r;
        } else {
            same(net, &first, &r);
            if (i == 4) assert_true(r.peak <= first.peak && r.tally.flops[QKV_PASS_RECOMPUTE][QKV_CLASS_GEMM] > 0);
            free(r.grads);
        }
        free(w);
        qkv_masked_free(net);
        assert_int_equal(memory.blocks, 0);
    }
    free(first.grads);
    net_rows_free(&b);
}

static void grid(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) one(i);
}

/* ---- batches ---- */

/* A sequence alone has the losses it has in any batch, and the gradients of batches add up. */
static void batches(void **state) {
    (void)state;
    for (int grid = 0; grid < NET_CONFIGS; grid += 3) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
        qkv_config c = net_grid(grid);
        qkv_masked *net;
        NET_OK(&ctx, qkv_masked_create(&ctx, &c, false, &net));
        real *w = weights_of(net, 8);
        net_rows all = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
        hidden h;
        hide(&all, &h);
        result whole = pass(&ctx, net, w, &all, &h, 0.01, NULL, true), sum = {0};
        int64_t at = 0;
        double loss = 0;
        for (int s = 0; s < SEQUENCES; s++) {
            net_rows b = net_rows_make(&c, 1, WHO + s, LENGTHS + s);
            hidden part;
            hide(&b, &part);
            result r = pass(&ctx, net, w, &b, &part, 0.01, sum.grads, true);
            net_same("losses", whole.losses + at, r.losses, r.count);
            at += r.count;
            loss += r.loss;
            free(sum.grads);
            sum = r;
            net_rows_free(&b);
        }
        assert_int_equal(at, whole.count);
        assert_true(fabs(loss - whole.loss) < 1e-6 * whole.loss);
        double largest = 0, apart = 0;
        for (int64_t i = 0; i < qkv_masked_reg(net)->size; i++) {
            largest = fmax(largest, fabs((double)whole.grads[i]));
            apart = fmax(apart, fabs((double)whole.grads[i] - (double)sum.grads[i]));
        }
        assert_true(largest > 0 && apart < 5e-6 * largest);
        free(whole.grads);
        free(sum.grads);
        net_rows_free(&all);
        free(w);
        qkv_masked_free(net);
    }
}

/* No sequence, no token, and tokens none of which is hidden: a success with loss 0 and no gradient. */
static void nothing(void **state) {
    (void)state;
    static const int64_t none[2] = {0, 0}, some[2] = {5, 4};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    qkv_config c = net_grid(0);
    qkv_masked *net;
    NET_OK(&ctx, qkv_masked_create(&ctx, &c, false, &net));
    real *w = weights_of(net, 8);
    const hidden h = {0};
    for (int i = 0; i < 3; i++) {
        net_rows b = net_rows_make(&c, i == 0 ? 0 : 2, WHO, i == 1 ? none : some);
        result r = pass(&ctx, net, w, &b, &h, 1, NULL, true), e = pass(&ctx, net, w, &b, &h, 1, NULL, false);
        assert_true(r.loss == 0 && e.loss == 0);
        for (int64_t k = 0; k < qkv_masked_reg(net)->size; k++) assert_true(r.grads[k] == 0);
        free(r.grads);
        free(e.grads);
        net_rows_free(&b);
    }
    free(w);
    qkv_masked_free(net);
}

/* ---- instruction sets ---- */

static void isa(void **state) {
    (void)state;
    const qkv_kernels *tables[4];
    const int n = qkv_kernels_present(tables);
    for (int grid = 0; grid < NET_CONFIGS; grid++) {
        qkv_config c = net_grid(grid);
        net_rows b = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
        hidden h;
        hide(&b, &h);
        result first = {0};
        for (int i = 0; i < n; i++) {
            test_memory memory = {0};
            TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, tables[i]);
            qkv_masked *net;
            NET_OK(&ctx, qkv_masked_create(&ctx, &c, false, &net));
            real *w = weights_of(net, 6);
            result r = pass(&ctx, net, w, &b, &h, 1, NULL, true);
            if (i == 0) {
                first = r;
            } else {
                same(net, &first, &r);
                free(r.grads);
            }
            free(w);
            qkv_masked_free(net);
        }
        free(first.grads);
        net_rows_free(&b);
    }
}

/* ---- chunks ---- */

/* With so many tokens the logits of 60 masked rows are cut into four chunks; taken alone, each row has the loss it has there. */
static void chunks(void **state) {
    (void)state;
    static const uint64_t who[1] = {4};
    static const int64_t length[1] = {64};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    qkv_config c = net_config();
    c.vocab = 300000;
    c.dim = c.heads = c.kv_heads = 4;
    c.head_dim = 1;
    qkv_masked *net;
    NET_OK(&ctx, qkv_masked_create(&ctx, &c, false, &net));
    real *w = weights_of(net, 8);
    net_rows b = net_rows_make(&c, 1, who, length);
    hidden all = {.masks = {.count = 60, .row = all.row, .target = all.target}};
    for (int i = 0; i < 60; i++) {
        all.row[i] = i + 2;
        all.target[i] = b.ids[i + 2];
    }
    result whole = pass(&ctx, net, w, &b, &all, 1, NULL, true), e = pass(&ctx, net, w, &b, &all, 1, NULL, false);
    assert_true(whole.peak < 70 * (size_t)c.vocab * sizeof(real)); /* 60 rows, turned, and both packings would be over 140 */
    net_same("losses", whole.losses, e.losses, 60);
    for (int i = 0; i < 60; i += 7) {
        hidden one = {.masks = {.count = 1, .row = all.row + i, .target = all.target + i}};
        result r = pass(&ctx, net, w, &b, &one, 1, NULL, false);
        net_same("loss", whole.losses + i, r.losses, 1);
        free(r.grads);
    }
    free(whole.grads);
    free(e.grads);
    net_rows_free(&b);
    free(w);
    qkv_masked_free(net);
}

/* ---- what both networks share ---- */

/* The encoder lies at the start of a block of either, with the same initial values: what pretraining hands over. */
static void one_encoder(void **state) {
    (void)state;
    for (int grid = 0; grid < NET_F32_CONFIGS; grid++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
        qkv_config c = net_grid(grid);
        qkv_masked *masked;
        qkv_classifier *classifier;
        NET_OK(&ctx, qkv_masked_create(&ctx, &c, false, &masked));
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &classifier));
        const qkv_reg *a = qkv_masked_reg(masked), *b = qkv_classifier_reg(classifier);
        const int64_t size = qkv_masked_encoder_size(masked);
        int64_t shared = 0;
        for (; shared < a->count && a->params[shared].offset < size; shared++) {
            const qkv_param *p = &a->params[shared], *q = &b->params[shared];
            assert_string_equal(p->name, q->name);
            assert_true(p->offset == q->offset && p->rows == q->rows && p->cols == q->cols && p->init_std == q->init_std);
        }
        assert_string_equal(a->params[shared].name, "masked.dense.weight");
        assert_int_equal(b->params[shared].offset, size);
        assert_int_equal(qkv_classifier_encoder_size(classifier), size);
        qkv_masked_free(masked);
        qkv_classifier_free(classifier);
    }
}

/* ---- gradients ---- */

static void gradients(void **state) {
    (void)state;
    static const uint64_t who[] = {8, 2, 4, 6};
    static const int64_t lengths[] = {6, 0, 1, 9};
    if (sizeof(real) == sizeof(float)) skip();
    for (int grid = 0; grid < NET_F32_CONFIGS; grid++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
        qkv_config c = net_grid(grid);
        c.dim = 12;
        c.head_dim = 3;
        c.ffn = 10;
        c.vocab = 7;
        qkv_masked *net;
        NET_OK(&ctx, qkv_masked_create(&ctx, &c, grid % 4 == 0, &net));
        const qkv_reg *reg = qkv_masked_reg(net);
        real *w = weights_of(net, 21);
        net_rows b = net_rows_make(&c, 4, who, lengths);
        hidden h;
        hide(&b, &h);
        result r = pass(&ctx, net, w, &b, &h, 1, NULL, true);
        for (int64_t i = 0; i < reg->count; i++)
            for (int k = 0; k < 4; k++) {
                const qkv_param *p = &reg->params[i];
                const int64_t e = p->offset + (int64_t)qkv_below(qkv_key3((uint64_t)grid, (uint64_t)i, (uint64_t)k), (uint64_t)(p->rows * p->cols));
                const real old = w[e], step = (real)1e-5;
                w[e] = old + step;
                result up = pass(&ctx, net, w, &b, &h, 1, NULL, true);
                w[e] = old - step;
                result down = pass(&ctx, net, w, &b, &h, 1, NULL, true);
                w[e] = old;
                double seen = (up.loss - down.loss) / 2e-5;
                if (!(fabs(seen - (double)r.grads[e]) <= 1e-6 * fmax(1, fabs(seen))))
                    fail_msg("configuration %d, %s: the difference quotient is %.10g, the backward pass says %.10g", grid, p->name, seen,
                             (double)r.grads[e]);
                free(up.grads);
                free(down.grads);
            }
        free(r.grads);
        net_rows_free(&b);
        free(w);
        qkv_masked_free(net);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(grid),   cmocka_unit_test(batches),     cmocka_unit_test(nothing),  cmocka_unit_test(isa),
                                       cmocka_unit_test(chunks), cmocka_unit_test(one_encoder), cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
