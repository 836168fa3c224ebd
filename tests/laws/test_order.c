/* Word order: without positions and with full attention, another order of the tokens gives the same prediction (to rounding),
 * and attention weights that are permuted along; with positions, or a causal span, it does not. */
#include "net.h"

enum { LENGTH = 19, CLASSES = 5 };

static void permuted(const net_rows *b, net_rows *other, const qkv_config *c, int64_t *order) {
    static const uint64_t who[] = {6};
    static const int64_t lengths[] = {LENGTH};
    *other = net_rows_make(c, 1, who, lengths);
    qkv_shuffle(4, LENGTH, order);
    for (int i = 0; i < LENGTH; i++) other->ids[i] = b->ids[order[i]];
}

/* The largest difference between the logits of a text and of the same text in another order. */
static double difference(const qkv_config *c) {
    static const uint64_t who[] = {6};
    static const int64_t lengths[] = {LENGTH};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, c, false, &net));
    real *w = net_weights(net, 2);
    int64_t order[LENGTH];
    net_rows a = net_rows_make(c, 1, who, lengths), b;
    permuted(&a, &b, c, order);
    net_result r1 = net_forward(&ctx, net, w, &a, &(net_options){0}), r2 = net_forward(&ctx, net, w, &b, &(net_options){0});
    double most = 0;
    for (int i = 0; i < CLASSES; i++) most = fmax(most, fabs((double)r1.logits[i] - (double)r2.logits[i]));
    net_result_free(&r1);
    net_result_free(&r2);
    net_rows_free(&a);
    net_rows_free(&b);
    free(w);
    qkv_classifier_free(net);
    return most;
}

static void predictions(void **state) {
    (void)state;
    for (int pooling = 0; pooling <= QKV_POOL_LAST; pooling++) {
        qkv_config c = net_config();
        c.pooling = (qkv_pooling)pooling;
        c.position = QKV_POSITION_NONE;
        if (c.pooling != QKV_POOL_FIRST && c.pooling != QKV_POOL_LAST) assert_true(difference(&c) < 2e-5);
        c.span = (qkv_span){-1, 0};
        assert_true(difference(&c) > 1e-3);
        c.span = (qkv_span){-1, -1};
        c.position = QKV_POSITION_SINUSOIDAL;
        assert_true(difference(&c) > 1e-3);
        c.position = QKV_POSITION_LEARNED;
        assert_true(difference(&c) > 1e-3);
    }
}

static void weights_move_along(void **state) {
    (void)state;
    static const uint64_t who[] = {6};
    static const int64_t lengths[] = {LENGTH};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    qkv_config c = net_config();
    c.position = QKV_POSITION_NONE;
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
    real *w = net_weights(net, 2);
    int64_t order[LENGTH];
    net_rows a = net_rows_make(&c, 1, who, lengths), b;
    permuted(&a, &b, &c, order);
    real maps[2][LENGTH * LENGTH];
    for (int64_t layer = 0; layer < c.layers; layer++)
        for (int64_t head = 0; head < c.heads; head++) {
            for (int k = 0; k < 2; k++) {
                const net_rows *rows = k ? &b : &a;
                qkv_exec x = net_exec(&ctx, net, &(net_options){0}, true);
                NET_OK(&ctx, qkv_classifier_weights(&x, net, &rows->batch, layer, head, NULL));
                size_t peak = x.arena.peak;
                x = net_exec(&ctx, net, &(net_options){0}, false);
                x.weights = w;
                NET_OK(&ctx, qkv_arena_create(&ctx, peak, &x.arena));
                NET_OK(&ctx, qkv_classifier_weights(&x, net, &rows->batch, layer, head, maps[k]));
                assert_int_equal(x.arena.peak, peak);
                qkv_arena_free(&ctx, &x.arena);
            }
            for (int i = 0; i < LENGTH; i++) {
                double sum = 0;
                for (int j = 0; j < LENGTH; j++) {
                    sum += (double)maps[1][i * LENGTH + j];
                    assert_true(fabs((double)maps[1][i * LENGTH + j] - (double)maps[0][order[i] * LENGTH + order[j]]) < 1e-5);
                }
                assert_true(fabs(sum - 1) < 1e-5);
            }
        }
    net_rows_free(&a);
    net_rows_free(&b);
    free(w);
    qkv_classifier_free(net);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(predictions), cmocka_unit_test(weights_move_along)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
