/* Every kernel table that can run here gives the same bits of logits, losses and gradients of whole networks. The scalar one
 * is the reference. */
#include "net.h"

enum { SEQUENCES = 6 };

static void one(int grid) {
    static const uint64_t who[SEQUENCES] = {1, 2, 3, 4, 5, 6};
    static const int64_t lengths[SEQUENCES] = {31, 0, 64, 1, 16, 7};
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    assert_string_equal(tables[n - 1]->name, "scalar");
    qkv_config c = net_grid(grid);
    net_rows b = net_rows_make(&c, SEQUENCES, who, lengths);
    net_options o = {.train = true, .smoothing = 0.1, .seed = 1, .step = 2};
    net_result step = {0}, answer = {0};
    for (int i = n - 1; i >= 0; i--) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, tables[i]);
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
        real *w = net_weights(net, 14);
        net_result r = net_step(&ctx, net, w, &b, &o), f = net_forward(&ctx, net, w, &b, &o);
        if (i == n - 1) {
            step = r;
            answer = f;
        } else {
            net_same(tables[i]->name, answer.logits, f.logits, SEQUENCES * c.classes);
            net_same(tables[i]->name, step.losses, r.losses, SEQUENCES);
            net_same_grads(net, step.grads, r.grads);
            net_result_free(&r);
            net_result_free(&f);
        }
        free(w);
        qkv_classifier_free(net);
    }
    net_result_free(&step);
    net_result_free(&answer);
    net_rows_free(&b);
}

static void grid(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) one(i);
}

int main(void) {
    const qkv_kernels *tables[4];
    if (qkv_kernels_present(tables) < 2) return 77; /* nothing to compare with */
    const struct CMUnitTest tests[] = {cmocka_unit_test(grid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
