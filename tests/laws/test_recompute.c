/* What is computed again has the bits of what is kept: the same loss and gradients, with dropout on, for less memory; also with the
 * operations that are done again on a line of their own. */
#include "net.h"

static const uint64_t WHO[] = {5, 3, 9, 1, 7};
static const int64_t LENGTHS[] = {17, 0, 1, 33, 8};
enum { LAYERS = 3 };

static const struct way {
    const char *name;
    qkv_saving saving;
    bool blocks;    /* recurrent layers can do it, too */
    double forward; /* share of the layers' forward products that is done again; NaN: some of it */
} WAYS[] = {
    {"blocks", {.every = 1}, true, 2.0 / 3},
    {"two in a row", {.every = 2}, true, 2.0 / 3},
    {"all in a row", {.every = 9}, true, 0},
    {"pointwise", {.again = QKV_AGAIN_POINTWISE}, false, 0},
    {"attention", {.again = QKV_AGAIN_ATTENTION}, false, NAN},
    {"rows", {.ffn_rows = 16}, false, NAN},
    {"everything", {.again = QKV_AGAIN_ATTENTION, .every = 1, .ffn_rows = 16}, true, NAN},
};
enum { WAYS_COUNT = sizeof WAYS / sizeof *WAYS };

static void same_bits(const qkv_classifier *net, const char *name, const net_result *a, const net_result *b, int64_t sequences) {
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    net_same(name, a->losses, b->losses, sequences);
    net_same_grads(net, a->grads, b->grads);
    for (int k = 0; k < QKV_CLASSES; k++) {
        assert_true(a->tally.flops[QKV_PASS_FORWARD][k] == b->tally.flops[QKV_PASS_FORWARD][k]);
        assert_true(a->tally.flops[QKV_PASS_BACKWARD][k] == b->tally.flops[QKV_PASS_BACKWARD][k]);
    }
}

static void one(int grid) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    qkv_config c = net_grid(grid);
    c.layers = LAYERS;
    c.reversible = false; /* it has nothing that could be kept */
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    real *w = net_weights(net, 4);
    net_rows b = net_rows_make(&c, 5, WHO, LENGTHS);
    net_options o = {.train = true, .smoothing = 0.1, .scale = 0.25, .seed = 11, .step = 3};
    net_result keep = net_step(&ctx, net, w, &b, &o);
    size_t peak[WAYS_COUNT];
    double back;
    for (int k = 0; k < QKV_CLASSES; k++) assert_true(keep.tally.flops[QKV_PASS_RECOMPUTE][k] == 0);
    for (int i = 0; i < WAYS_COUNT; i++) {
        const struct way *way = &WAYS[i];
        qkv_classifier_set_saving(net, way->saving);
        net_result r = net_step(&ctx, net, w, &b, &o);
        same_bits(net, way->name, &keep, &r, 5);
        const double again = r.tally.flops[QKV_PASS_RECOMPUTE][QKV_CLASS_GEMM], layers = net_layers_flops(&c, &b, &back);
        const bool can = way->blocks || !qkv_config_recurrent(&c);
        const bool alike = c.segment == QKV_SEGMENT_NONE && !c.global_projection; /* all layers */
        if (isfinite(way->forward) && alike) assert_true(fabs(again - (can ? way->forward : 0) * layers) < 1e-6 * layers);
        else assert_true((can && way->forward != 0) == (again > 0));
        peak[i] = r.peak;
        assert_true(can && way->forward != 0 && way->saving.ffn_rows == 0 ? r.peak < keep.peak : r.peak <= keep.peak);
        net_result_free(&r);
    }
    /* of an encoder of segments the other one may have the peak */
    if (!qkv_config_recurrent(&c)) assert_true(peak[4] <= peak[3] && peak[3] < keep.peak && peak[6] < keep.peak);
    net_result_free(&keep);
    net_rows_free(&b);
    free(w);
    qkv_classifier_free(net);
    assert_int_equal(memory.blocks, 0);
}

static void grid(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) one(i);
}

/* Feed-forward layers in parts, over so many rows that parts are cut inside and at the ends of the blocks that gradients are summed
 * by, whatever is asked for. */
static void parts(void **state) {
    (void)state;
    enum { SEQUENCES = 44 };
    static const int64_t rows[] = {1, 64, 100, 700, 1008, 2100, 1 << 20};
    uint64_t who[SEQUENCES];
    int64_t lengths[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++) who[i] = (uint64_t)i, lengths[i] = 64 - i % 7;
    for (int g = 0; g < 6; g++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
        qkv_config c = net_grid(g);
        c.layers = 1;
        c.bf16 = g == 2;
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
        real *w = net_weights(net, 4);
        net_rows b = net_rows_make(&c, SEQUENCES, who, lengths);
        net_options o = {.train = true, .seed = 11, .step = 3};
        net_result keep = net_step(&ctx, net, w, &b, &o), whole = net_forward(&ctx, net, w, &b, &o);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            qkv_classifier_set_saving(net, (qkv_saving){.ffn_rows = rows[k]});
            net_result r = net_step(&ctx, net, w, &b, &o), f = net_forward(&ctx, net, w, &b, &o);
            same_bits(net, "parts", &keep, &r, SEQUENCES);
            net_same("logits", whole.logits, f.logits, SEQUENCES * c.classes);
            assert_true(f.peak <= whole.peak);
            assert_true(rows[k] > b.rows ? r.peak == keep.peak : c.reversible ? r.peak <= keep.peak : r.peak < keep.peak);
            net_result_free(&r);
            net_result_free(&f);
        }
        net_result_free(&keep);
        net_result_free(&whole);
        net_rows_free(&b);
        free(w);
        qkv_classifier_free(net);
    }
}

/* The dropout must be real: another step or seed gives another loss, evaluation a third one. */
static void dropout_is_on(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    qkv_config c = net_grid(0);
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, true, &net));
    real *w = net_weights(net, 4);
    net_rows b = net_rows_make(&c, 5, WHO, LENGTHS);
    net_options options[] = {{.train = true, .seed = 11, .step = 3}, {.train = true, .seed = 11, .step = 4}, {.train = true, .seed = 12, .step = 3},
                             {.train = false, .seed = 11, .step = 3}};
    double loss[4];
    for (int i = 0; i < 4; i++) {
        net_result r = net_step(&ctx, net, w, &b, &options[i]);
        loss[i] = r.loss;
        for (int j = 0; j < i; j++) assert_true(loss[i] != loss[j]);
        net_result_free(&r);
    }
    net_rows_free(&b);
    free(w);
    qkv_classifier_free(net);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(grid), cmocka_unit_test(parts), cmocka_unit_test(dropout_is_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
