/* The plan of a run against brute force: a real network, ragged rows, every batch of every epoch planned on its own. */
#include "support.h"

#include "models/classifier.h"
#include "train/gather.h"
#include "train/loop_plan.h"
#include "kernels/pick.h"

enum { ROWS = 300, EPOCHS = 3, LONGEST = 700 };

typedef struct fixture {
    test_memory memory;
    qkv_ctx ctx;
    qkv_classifier *net;
    qkv_ragged data;
    int64_t offset[ROWS + 1];
    int32_t ids[ROWS * LONGEST];
    qkv_gather gather;
    int64_t planned; /* calls of step */
    bool by_units;   /* a step needs memory for its units, which are not a matter of tokens and rows */
} fixture;

static int64_t units(void *self, const int64_t *rows, int64_t count) {
    int64_t n = 0;
    (void)self;
    for (int64_t i = 0; i < count; i++) n += rows[i] * 37 % 11;
    return n;
}

static qkv_status step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
    fixture *f = self;
    qkv_batch batch;
    assert_true(x->plan);
    f->planned++;
    qkv_gather_rows(&f->gather, &f->data, rows, count, true, &batch);
    if (f->by_units) {
        const size_t mark = qkv_exec_mark(x);
        void *unused;
        QKV_TRY(qkv_temp_array(x, units(f, rows, count), 1 << 20, &unused));
        qkv_exec_release(x, mark);
    }
    return qkv_classifier_step(x, f->net, &batch, NULL, 0.1, loss_scale, loss_sum, NULL);
}

typedef enum network { PLAIN, UNEVEN_HEADS, UNEVEN_BIAS, UNEVEN_GLOBALS, UNEVEN_TOKENS } network;

static void start(fixture *f, int threads, const qkv_loop_options *o, network kind) {
    *f = (fixture){0};
    f->ctx = test_ctx(&f->memory);
    f->ctx.threads = threads;
    assert_int_equal(qkv_kernels_pick(&f->ctx, NULL), QKV_OK);
    qkv_config c = {.vocab = 50,
                    .classes = 3,
                    .layers = 2,
                    .dim = 16,
                    .heads = 2,
                    .kv_heads = 1,
                    .head_dim = 8,
                    .ffn = 24,
                    .max_length = 128,
                    .position = QKV_POSITION_LEARNED,
                    .pooling = QKV_POOL_ATTENTION,
                    .activation = QKV_ACT_GEGLU,
                    .bias = true,
                    .span = {-1, -1},
                    .norm_epsilon = 1e-5,
                    .dropout = 0.1,
                    .attention_dropout = 0.1,
                    .embedding_dropout = 0.1};
    if (kind != PLAIN)
        c.max_length = LONGEST, c.pooling = QKV_POOL_MEAN, c.position = QKV_POSITION_NONE, c.activation = QKV_ACT_GELU;
    if (kind == UNEVEN_BIAS) c.position = QKV_POSITION_T5, c.heads = c.kv_heads = 8, c.head_dim = 2;
    if (kind == UNEVEN_TOKENS) c.span = (qkv_span){8, 8}, c.global_token = (qkv_numbers){2, {1, 3}};
    if (kind == UNEVEN_GLOBALS) {
        c.span = (qkv_span){8, 8};
        c.global_first = 64;
        c.global_projection = true;
    }
    assert_true(qkv_config_uneven(&c) == (kind != PLAIN));
    assert_int_equal(qkv_classifier_create(&f->ctx, &c, false, &f->net), QKV_OK);
    for (uint64_t i = 0; i < ROWS; i++) {
        /* Many short rows, some empty, a few long. */
        int64_t n = (int64_t)qkv_below(qkv_key2(5, i), i % 20 == 0 || kind != PLAIN ? (uint64_t)c.max_length : 20);
        f->offset[i + 1] = f->offset[i] + n;
    }
    for (int64_t i = 0; i < f->offset[ROWS]; i++) f->ids[i] = (int32_t)qkv_below(qkv_key2(6, (uint64_t)i), (uint64_t)c.vocab);
    f->data = (qkv_ragged){.count = ROWS, .offset = f->offset, .ids = f->ids, .globals = qkv_config_globals(&c)};
    assert_int_equal(qkv_gather_create(&f->ctx, &f->data, o->batch_tokens, o->batch_rows, &f->gather), QKV_OK);
}

static void finish(fixture *f) {
    qkv_gather_free(&f->ctx, &f->gather);
    qkv_classifier_free(f->net);
    qkv_par_close(&f->ctx);
    assert_int_equal(f->memory.blocks, 0);
}

static void the_arena_is_the_exact_maximum(void **state) {
    (void)state;
    const struct {
        int threads;
        int64_t tokens, rows;
        bool by_units;
        network kind;
    } cases[] = {{1, 64, 8, false, PLAIN},          {2, 100, 100, false, PLAIN},      {3, 1000, 16, false, PLAIN},
                 {2, 1, 4, false, PLAIN},           {2, 100, 100, true, PLAIN},       {2, 64, 8, true, PLAIN},
                 {1, 1001, 3, false, UNEVEN_HEADS}, {1, 1001, 3, false, UNEVEN_BIAS}, {1, 1001, 3, false, UNEVEN_GLOBALS},
                 {1, 1001, 3, false, UNEVEN_TOKENS}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static fixture f;
        qkv_loop_options o = {
            .epochs = EPOCHS, .batch_tokens = cases[i].tokens, .batch_rows = cases[i].rows, .accumulate = 3, .seed = 11};
        start(&f, cases[i].threads, &o, cases[i].kind);
        f.by_units = cases[i].by_units;
        qkv_task task = {.self = &f, .units = f.by_units ? units : NULL, .reg = qkv_classifier_reg(f.net), .rows = ROWS, .offset = f.offset,
                         .step = step, .uneven = cases[i].kind != PLAIN};
        qkv_loop_plan plan = {0};
        assert_int_equal(qkv_loop_plan_make(&f.ctx, &task, &o, &plan), QKV_OK);
        int64_t planned = f.planned, batches = 0, windows = 0;
        size_t peak = 0;
        double flops = 0;
        for (int64_t e = 0; e < EPOCHS; e++) {
            qkv_batches b;
            assert_int_equal(qkv_loop_batches(&f.ctx, &task, &o, e, &b), QKV_OK);
            for (int64_t k = 0; k < b.count; k++) {
                qkv_exec x = {.ctx = &f.ctx, .plan = true, .keep = true, .train = true, .reg = task.reg};
                double loss;
                assert_int_equal(step(&f, &x, b.order + b.first[k], b.first[k + 1] - b.first[k], 1, &loss), QKV_OK);
                if (x.arena.peak > peak) peak = x.arena.peak;
                if (e == 0) flops += qkv_tally_flops(&x.tally);
            }
            batches += b.count;
            windows += qkv_loop_windows(b.count, 3);
            if (e == 0) {
                assert_int_equal(plan.batches_per_epoch, b.count);
                flops /= (double)qkv_loop_windows(b.count, 3);
            }
            qkv_batches_free(&f.ctx, &b);
        }
        assert_int_equal(plan.arena, peak);
        assert_int_equal(plan.steps, windows);
        assert_true(plan.flops_per_step > flops && plan.flops_per_step < flops * 1.5); /* and the optimizer */
        /* Later epochs are mostly covered by what was planned; but in uneven networks no batch is covered by another. */
        assert_true(task.uneven ? planned >= batches : planned < batches);
        finish(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_arena_is_the_exact_maximum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
