/* The gradient of the whole classifier equals its difference quotient, in the double build, over a grid of configurations
 * with dropout on; sequences of length 0 and 1 are in the batch. */
#include "net.h"

enum { PROBES = 12 };

static double loss_of(qkv_exec *x, const qkv_classifier *net, const net_rows *b, const net_options *o) {
    double loss;
    NET_OK(x->ctx, qkv_classifier_step(x, net, &b->batch, b->target, o->smoothing, 1, &loss, NULL));
    return loss;
}

static void probe(qkv_exec *x, const qkv_classifier *net, real *w, const real *grads, const net_rows *b, const net_options *o, int grid) {
    const qkv_reg *reg = qkv_classifier_reg(net);
    const double h = 1e-5;
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        int64_t n = p->rows * p->cols;
        for (int k = 0; k < PROBES; k++) {
            int64_t e = (int64_t)qkv_below(qkv_key3((uint64_t)grid, (uint64_t)i, (uint64_t)k), (uint64_t)n);
            real *at = w + p->offset + e, old = *at;
            *at = old + (real)h;
            double up = loss_of(x, net, b, o);
            *at = old - (real)h;
            double down = loss_of(x, net, b, o);
            *at = old;
            double seen = (up - down) / (2 * h), said = (double)grads[p->offset + e];
            if (!(fabs(seen - said) <= 1e-6 * fmax(1, fabs(seen))))
                fail_msg("configuration %d, %s[%lld]: the difference quotient is %.10g, the backward pass says %.10g", grid, p->name,
                         (long long)e, seen, said);
        }
    }
}

static void one(int grid, bool recompute) {
    static const uint64_t who[] = {8, 2, 4, 6};
    static const int64_t lengths[] = {6, 0, 1, 9};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, NULL);
    qkv_config c = net_grid(grid);
    c.dim = 12;
    c.head_dim = grid % 4 == 3 ? 2 : 3;
    c.ffn = 10;
    c.vocab = 7;
    qkv_classifier *net;
    NET_OK(&ctx, qkv_classifier_create(&ctx, &c, recompute, &net));
    real *w = net_weights(net, 21);
    net_rows b = net_rows_make(&c, 4, who, lengths);
    net_options o = {.train = true, .smoothing = 0.1, .seed = 3, .step = 9};
    net_result r = net_step(&ctx, net, w, &b, &o);
    qkv_exec x = net_exec(&ctx, net, &o, false);
    real *unused = calloc((size_t)qkv_classifier_reg(net)->size, sizeof *unused);
    x.weights = w;
    x.grads = unused;
    NET_OK(&ctx, qkv_arena_create(&ctx, r.peak, &x.arena));
    probe(&x, net, w, r.grads, &b, &o, grid);
    qkv_arena_free(&ctx, &x.arena);
    free(unused);
    free(w);
    net_result_free(&r);
    net_rows_free(&b);
    qkv_classifier_free(net);
    assert_int_equal(memory.blocks, 0);
}

static void grid(void **state) {
    (void)state;
    for (int i = 0; i < NET_F32_CONFIGS; i++) one(i, i % 4 == 0);
}

int main(void) {
    if (sizeof(real) == sizeof(float)) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(grid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
