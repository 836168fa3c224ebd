/* 1, 2, 3 and 8 threads: the same bits forward and backward. The batch is large enough that every op is cut into chunks. */
#include "net.h"

enum { SEQUENCES = 24 };

/* One sequence of `longest` tokens, the others of `most` at most. */
static void one(int grid, const qkv_config *config, int64_t longest, int64_t most) {
    static const int threads[] = {1, 2, 3, 8};
    uint64_t who[SEQUENCES];
    int64_t lengths[SEQUENCES];
    for (int s = 0; s < SEQUENCES; s++) {
        who[s] = (uint64_t)(100 + s);
        lengths[s] = s == 0 ? longest : (int64_t)qkv_below(qkv_key2(3, (uint64_t)s), (uint64_t)most + 1);
    }
    net_rows b = net_rows_make(config, SEQUENCES, who, lengths);
    net_options o = {.train = true, .smoothing = 0.1, .seed = 7, .step = 1};
    net_result first = {0}, answer = {0};
    for (int i = 0; i < 4; i++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, threads[i], NULL);
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, config, grid % 2, &net));
        real *w = net_weights(net, 6);
        net_result r = net_step(&ctx, net, w, &b, &o), f = net_forward(&ctx, net, w, &b, &o);
        if (i == 0) {
            first = r;
            answer = f;
        } else {
            assert_memory_equal(&first.loss, &r.loss, sizeof r.loss);
            net_same("loss", first.losses, r.losses, SEQUENCES);
            net_same("logits", answer.logits, f.logits, SEQUENCES * config->classes);
            net_same_grads(net, first.grads, r.grads);
            assert_memory_equal(&first.tally, &r.tally, sizeof r.tally);
            net_result_free(&r);
            net_result_free(&f);
        }
        free(w);
        qkv_classifier_free(net);
    }
    net_result_free(&first);
    net_result_free(&answer);
    net_rows_free(&b);
}

static void small(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) {
        qkv_config c = net_grid(i);
        one(i, &c, 64, 64);
    }
}

static void wide(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        qkv_config c = net_grid(i);
        c.dim = 72;
        c.heads = 6;
        c.kv_heads = i == 1 ? 2 : 6;
        c.head_dim = 12;
        c.ffn = 150;
        c.vocab = 500;
        c.max_length = 600;
        c.layers = 1;
        one(i, &c, 600, 120);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small), cmocka_unit_test(wide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
