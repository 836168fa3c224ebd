/* PLAN == RUN: the same peak of the arena to the byte and the same operations, and no allocation inside a pass (net_compare,
 * called by every law). Here: the numbers themselves against formulas written out by hand, and an arena that is one line too
 * small. */
#include "net.h"

enum { SEQUENCES = 5 };
static const uint64_t WHO[SEQUENCES] = {1, 2, 3, 4, 5};
static const int64_t LENGTHS[SEQUENCES] = {12, 0, 30, 1, 9};

/* Multiply-adds of the projections: twice per row and weight. Backward does it again for rows and for weights. */
static void operations(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
        qkv_config c = net_grid(i);
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, i % 2, &net));
        real *w = net_weights(net, 3);
        net_rows b = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
        net_options o = {.train = true, .seed = 1};
        net_result r = net_step(&ctx, net, w, &b, &o), f = net_forward(&ctx, net, w, &b, &o);
        double cells, rows = (double)b.rows, dim = (double)c.dim, blocks = net_layers_flops(&c, &b, &cells);
        double gemm = blocks + 2.0 * SEQUENCES * dim * (double)c.classes;
        assert_true(r.tally.flops[QKV_PASS_FORWARD][QKV_CLASS_GEMM] == gemm);
        assert_true(f.tally.flops[QKV_PASS_FORWARD][QKV_CLASS_GEMM] == gemm);
        assert_true(r.tally.flops[QKV_PASS_BACKWARD][QKV_CLASS_GEMM] == 2 * gemm + cells);
        /* the last block of 2 is kept; of reversible ones none is */
        const double again = c.reversible ? blocks : i % 2 ? blocks / (double)c.layers : 0;
        if (c.segment == QKV_SEGMENT_NONE) assert_true(r.tally.flops[QKV_PASS_RECOMPUTE][QKV_CLASS_GEMM] == again);
        for (int pass = QKV_PASS_FORWARD; pass <= QKV_PASS_BACKWARD; pass++) {
            const double recurrence = r.tally.flops[pass][QKV_CLASS_RECURRENCE], per_row = 40 * rows * (double)c.layers * dim;
            if (cells > 0) assert_true(recurrence > cells && recurrence < cells + per_row);
            else assert_true(recurrence == 0 && r.tally.flops[pass][QKV_CLASS_ATTENTION] > 0);
        }
        assert_true(qkv_tally_flops(&r.tally) > 3 * gemm && f.peak < r.peak);
        net_result_free(&r);
        net_result_free(&f);
        net_rows_free(&b);
        free(w);
        qkv_classifier_free(net);
    }
}

/* Scores and weighted values of the blocks: at least 4 d multiply-add operations for every pair that sees each other. */
static void attention_pairs(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    double flops[3];
    const qkv_span spans[3] = {{-1, -1}, {-1, 0}, {2, 2}};
    for (int i = 0; i < 3; i++) {
        qkv_config c = net_config();
        c.pooling = QKV_POOL_MEAN;
        c.span = spans[i];
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
        real *w = net_weights(net, 3);
        net_rows b = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
        net_result f = net_forward(&ctx, net, w, &b, &(net_options){0});
        double pairs = 0;
        for (int s = 0; s < SEQUENCES; s++)
            for (int64_t q = 0; q < LENGTHS[s]; q++)
                for (int64_t k = 0; k < LENGTHS[s]; k++)
                    pairs += (c.span.left < 0 || q - k <= c.span.left) && (c.span.right < 0 || k - q <= c.span.right);
        flops[i] = f.tally.flops[QKV_PASS_FORWARD][QKV_CLASS_ATTENTION];
        double products = pairs * 4 * (double)(c.head_dim * c.heads * c.layers);
        assert_true(flops[i] >= products && flops[i] < 1.5 * products + 1e4);
        net_result_free(&f);
        net_rows_free(&b);
        free(w);
        qkv_classifier_free(net);
    }
    assert_true(flops[1] < flops[0] && flops[2] < flops[1]);
}

/* Memory does not grow with the square of the length, and inference does not grow with the number of layers. */
static void bytes(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    size_t peak[2][3];
    for (int train = 0; train < 2; train++)
        for (int i = 0; i < 3; i++) {
            qkv_config c = net_config();
            c.layers = i == 2 ? 12 : 3;
            c.max_length = 20000;
            qkv_classifier *net;
            NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
            int64_t offset[2] = {0, i == 1 ? 20000 : 10000};
            qkv_batch shape = {.n_seq = 1, .offset = offset};
            qkv_exec plan = net_exec(&ctx, net, &(net_options){.train = train}, true);
            double none;
            if (train) NET_OK(&ctx, qkv_classifier_step(&plan, net, &shape, NULL, 0, 1, &none, NULL));
            else NET_OK(&ctx, qkv_classifier_forward(&plan, net, &shape, (qkv_mat){NULL, 1, c.classes, c.classes}));
            peak[train][i] = plan.arena.peak;
            qkv_classifier_free(net);
        }
    for (int train = 0; train < 2; train++) assert_true(peak[train][1] < 2 * peak[train][0] + 65536 && peak[train][1] > 1.9 * (double)peak[train][0]);
    assert_true(peak[0][2] == peak[0][0]);
    assert_true(peak[1][2] > 3 * peak[1][0]);
}

/* With one cache line less than planned a pass ends in a status, and leaves the arena empty. */
static void too_small(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
        qkv_config c = net_grid(i);
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, i % 2, &net));
        real *w = net_weights(net, 3), *g = calloc((size_t)qkv_classifier_reg(net)->size, sizeof *g);
        net_rows b = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
        net_options o = {.train = true, .seed = 1};
        net_result r = net_step(&ctx, net, w, &b, &o);
        qkv_exec x = net_exec(&ctx, net, &o, false);
        x.weights = w;
        x.grads = g;
        NET_OK(&ctx, qkv_arena_create(&ctx, r.peak - 64, &x.arena));
        double loss;
        assert_int_equal(qkv_classifier_step(&x, net, &b.batch, b.target, 0, 1, &loss, NULL), QKV_INTERNAL);
        assert_non_null(strstr(ctx.message, "too small"));
        assert_int_equal(x.arena.low, 0);
        assert_int_equal(x.arena.high, 0);
        qkv_arena_free(&ctx, &x.arena);
        net_result_free(&r);
        net_rows_free(&b);
        free(w);
        free(g);
        qkv_classifier_free(net);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations), cmocka_unit_test(attention_pairs), cmocka_unit_test(bytes),
                                       cmocka_unit_test(too_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
