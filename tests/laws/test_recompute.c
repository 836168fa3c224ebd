/* RECOMPUTE == KEEP: the same bits of loss and gradients, with dropout on, for less memory; also with the recomputed
 * operations on a line of their own. */
#include "net.h"

static const uint64_t WHO[] = {5, 3, 9, 1, 7};
static const int64_t LENGTHS[] = {17, 0, 1, 33, 8};

static void one(int grid) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    qkv_config c = net_grid(grid);
    c.layers = 3;
    qkv_classifier *keep, *again;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &keep));
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, true, &again));
    real *w = net_weights(keep, 4);
    net_rows b = net_rows_make(&c, 5, WHO, LENGTHS);
    net_options o = {.train = true, .smoothing = 0.1, .scale = 0.25, .seed = 11, .step = 3};
    net_result r1 = net_step(&ctx, keep, w, &b, &o), r2 = net_step(&ctx, again, w, &b, &o);
    assert_memory_equal(&r1.loss, &r2.loss, sizeof r1.loss);
    net_same("loss", r1.losses, r2.losses, 5);
    net_same_grads(keep, r1.grads, r2.grads);
    assert_true(r2.peak < r1.peak);
    for (int k = 0; k < QKV_CLASSES; k++) {
        assert_true(r1.tally.flops[QKV_PASS_RECOMPUTE][k] == 0);
        assert_true(r1.tally.flops[QKV_PASS_FORWARD][k] == r2.tally.flops[QKV_PASS_FORWARD][k]);
        assert_true(r1.tally.flops[QKV_PASS_BACKWARD][k] == r2.tally.flops[QKV_PASS_BACKWARD][k]);
    }
    /* what is recomputed is the layers: all attention but that of the pooling, all recurrence */
    const bool recurrent = qkv_config_recurrent(&c);
    assert_true(r2.tally.flops[QKV_PASS_RECOMPUTE][recurrent ? QKV_CLASS_RECURRENCE : QKV_CLASS_ATTENTION] > 0);
    if (recurrent) assert_true(r2.tally.flops[QKV_PASS_RECOMPUTE][QKV_CLASS_RECURRENCE] == r2.tally.flops[QKV_PASS_FORWARD][QKV_CLASS_RECURRENCE]);
    assert_true(r2.tally.flops[QKV_PASS_RECOMPUTE][QKV_CLASS_GEMM] < r2.tally.flops[QKV_PASS_FORWARD][QKV_CLASS_GEMM]);
    net_result_free(&r1);
    net_result_free(&r2);
    net_rows_free(&b);
    free(w);
    qkv_classifier_free(keep);
    qkv_classifier_free(again);
    assert_int_equal(memory.blocks, 0);
}

static void grid(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) one(i);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(grid), cmocka_unit_test(dropout_is_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
