/* A sequence alone == the same sequence in any batch, in any order, with packed weights or not: the same bits of its logits
 * and of its loss, with dropout on. Empty sequences are in the batch. */
#include "net.h"

enum { SEQUENCES = 7 };
static const uint64_t WHO[SEQUENCES] = {11, 12, 13, 14, 15, 16, 17};
static const int64_t LENGTHS[SEQUENCES] = {5, 0, 64, 1, 0, 23, 16};

/* Runs the sequences in this order, in batches of these sizes, and files their logits and losses under their number. */
static void run(qkv_ctx *ctx, const qkv_classifier *net, const real *w, const real *packed, const int *order, const int *sizes, real *logits,
                real *losses) {
    const qkv_config *c = qkv_classifier_config(net);
    net_options infer = {.packed = packed}, train = {.train = true, .smoothing = 0.1, .seed = 2, .step = 5};
    for (int first = 0; first < SEQUENCES; first += *sizes++) {
        uint64_t who[SEQUENCES];
        int64_t lengths[SEQUENCES];
        for (int i = 0; i < *sizes; i++) {
            who[i] = WHO[order[first + i]];
            lengths[i] = LENGTHS[order[first + i]];
        }
        net_rows b = net_rows_make(c, *sizes, who, lengths);
        net_result r = net_forward(ctx, net, w, &b, &infer), t = net_step(ctx, net, w, &b, &train);
        for (int i = 0; i < *sizes; i++) {
            memcpy(logits + order[first + i] * c->classes, r.logits + i * c->classes, (size_t)c->classes * sizeof *logits);
            losses[order[first + i]] = t.losses[i];
        }
        net_result_free(&r);
        net_result_free(&t);
        net_rows_free(&b);
    }
}

static void one(int grid) {
    static const int order[3][SEQUENCES] = {{0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {4, 2, 6, 1, 0, 3, 5}};
    static const int sizes[3][SEQUENCES] = {{1, 1, 1, 1, 1, 1, 1}, {7}, {1, 4, 2}};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    qkv_config c = net_grid(grid);
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    const qkv_reg *reg = qkv_classifier_reg(net);
    real *w = net_weights(net, 8), *packed = aligned_alloc(64, ((size_t)qkv_reg_packed_size(reg, c.bf16) * sizeof(real) + 63) / 64 * 64);
    qkv_reg_pack(&ctx, reg, c.bf16, w, packed);
    real logits[3][SEQUENCES * 5], losses[3][SEQUENCES];
    assert_int_equal(c.classes, 5);
    for (int k = 0; k < 3; k++) {
        run(&ctx, net, w, k == 1 ? packed : NULL, order[k], sizes[k], logits[k], losses[k]);
        net_same("logits", logits[0], logits[k], SEQUENCES * 5);
        net_same("losses", losses[0], losses[k], SEQUENCES);
    }
    /* both empty sequences get the same answer: that of the head to 0 */
    net_same("empty sequences", logits[0] + 1 * 5, logits[0] + 4 * 5, 5);
    const qkv_param *bias = &reg->params[reg->count - 1];
    assert_string_equal(bias->name, "head.bias");
    net_same("the answer to nothing", logits[0] + 1 * 5, w + bias->offset, 5);
    for (int i = 0; i < SEQUENCES * 5; i++) assert_true(isfinite((double)logits[0][i]));
    free(packed);
    free(w);
    qkv_classifier_free(net);
    assert_int_equal(memory.blocks, 0);
}

static void grid(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) one(i);
}

/* A batch of no sequences is a success that does nothing. */
static void nothing(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    for (int i = 0; i < NET_CONFIGS; i++) {
        qkv_config c = net_grid(i);
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, i % 2, &net));
        real *w = net_weights(net, 8);
        static const int64_t none[2] = {0, 0};
        net_rows b = net_rows_make(&c, 0, WHO, LENGTHS), empty = net_rows_make(&c, 2, WHO, none);
        net_options o = {.train = true, .seed = 1};
        net_result r = net_step(&ctx, net, w, &b, &o), f = net_forward(&ctx, net, w, &b, &o), e = net_step(&ctx, net, w, &empty, &o);
        assert_true(r.loss == 0 && isfinite(e.loss));
        for (int64_t k = 0; k < qkv_classifier_reg(net)->size; k++) assert_true(r.grads[k] == 0 && isfinite((double)e.grads[k]));
        net_result_free(&r);
        net_result_free(&f);
        net_result_free(&e);
        net_rows_free(&b);
        net_rows_free(&empty);
        free(w);
        qkv_classifier_free(net);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(grid), cmocka_unit_test(nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
