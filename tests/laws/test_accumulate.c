/* One batch of 32 rows == 4 accumulated batches of 8, with dropout on: the loss is a sum over rows and every gradient is
 * scaled by 1/32 of the whole, so uneven batches weigh as they should. The order of the rows in the sums is the same, but
 * pooling and norms gather per batch: equal within a few units in the last place of the largest element. */
#include "net.h"

enum { ROWS = 32 };

static void one(int grid, const int *sizes) {
    uint64_t who[ROWS];
    int64_t lengths[ROWS];
    for (int s = 0; s < ROWS; s++) {
        who[s] = (uint64_t)(900 + s);
        lengths[s] = (int64_t)qkv_below(qkv_key2(5, (uint64_t)s), 40);
    }
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
    qkv_config c = net_grid(grid);
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, grid % 2, &net));
    const qkv_reg *reg = qkv_classifier_reg(net);
    real *w = net_weights(net, 31);
    net_options o = {.train = true, .smoothing = 0.1, .scale = 1.0 / ROWS, .seed = 2, .step = 8};
    net_rows whole = net_rows_make(&c, ROWS, who, lengths);
    net_result one_batch = net_step(&ctx, net, w, &whole, &o), sum = {0};
    double loss = 0;
    for (int first = 0; first < ROWS; first += *sizes++) {
        net_rows part = net_rows_make(&c, *sizes, who + first, lengths + first);
        o.grads = sum.grads;
        net_result r = net_step(&ctx, net, w, &part, &o);
        net_same("loss", one_batch.losses + first, r.losses, *sizes);
        loss += r.loss;
        net_result_free(&sum);
        sum = r;
        net_rows_free(&part);
    }
    assert_true(fabs(loss - one_batch.loss) < 1e-6 * one_batch.loss);
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        double largest = 0, apart = 0;
        for (int64_t e = p->offset; e < p->offset + p->rows * p->cols; e++) {
            largest = fmax(largest, fabs((double)one_batch.grads[e]));
            apart = fmax(apart, fabs((double)one_batch.grads[e] - (double)sum.grads[e]));
        }
        if (!(largest > 0)) fail_msg("configuration %d: no gradient of %s", grid, p->name);
        if (apart > 2e-6 * largest) fail_msg("configuration %d: %s: gradients of %g are %g apart", grid, p->name, largest, apart);
    }
    net_result_free(&one_batch);
    net_result_free(&sum);
    net_rows_free(&whole);
    free(w);
    qkv_classifier_free(net);
}

static void even(void **state) {
    (void)state;
    static const int sizes[] = {8, 8, 8, 8};
    for (int i = 0; i < NET_CONFIGS; i++) one(i, sizes);
}

static void uneven(void **state) {
    (void)state;
    static const int sizes[] = {1, 20, 0, 11};
    for (int i = 0; i < NET_CONFIGS; i++) one(i, sizes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(even), cmocka_unit_test(uneven)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
