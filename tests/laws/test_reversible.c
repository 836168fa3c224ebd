/* Reversible blocks rebuild what they began with but for rounding, and their gradients are those of blocks that begin with exactly what
 * forward had. That they are the same for any number of threads, any batch, instruction set and resume is tested with the other networks. */
#include "net.h"

#include "layers/block.h"
#include "models/encoder.h"
#include "ops/reg.h"

enum { LAYERS = 12, SEQUENCES = 5, DIM = 24 };
static const uint64_t WHO[SEQUENCES] = {5, 3, 9, 1, 7};
static const int64_t LENGTHS[SEQUENCES] = {17, 0, 1, 33, 8};

typedef struct stack {
    qkv_ctx *ctx;
    qkv_reg reg;
    qkv_block block[LAYERS];
    net_rows rows;
    real *weights;
    real *at[LAYERS + 1]; /* both streams before each block, and at the end */
} stack;

static qkv_mat stream(real *p, const stack *s, int which) { return (qkv_mat){p ? p + which * s->rows.rows * DIM : NULL, s->rows.rows, DIM, DIM}; }

static real *copy(const stack *s, const real *p) {
    real *c = malloc((size_t)(2 * s->rows.rows * DIM) * sizeof *c);
    memcpy(c, p, (size_t)(2 * s->rows.rows * DIM) * sizeof *c);
    return c;
}

static qkv_exec pass(stack *s, real *grads, bool plan) {
    return (qkv_exec){.ctx = s->ctx, .plan = plan, .keep = true, .train = true, .reg = &s->reg, .weights = s->weights, .grads = grads, .seed = 1, .step = 1};
}

/* A pass of its size: back through one block where d is there, else forward. */
static void walk(stack *s, int layer, real *p, real *d, real *grads) {
    qkv_exec plan = pass(s, NULL, true), run = pass(s, grads, false);
    const qkv_batch shape = {.n_seq = SEQUENCES, .offset = s->rows.offset};
    qkv_mat none = stream(NULL, s, 0);
    plan.pass = run.pass = d ? QKV_PASS_BACKWARD : QKV_PASS_FORWARD;
    if (d) NET_OK(s->ctx, qkv_block_uncouple(&plan, &s->block[layer], &shape, none, none, none, none));
    else NET_OK(s->ctx, qkv_block_couple(&plan, &s->block[layer], &shape, none, none));
    NET_OK(s->ctx, qkv_arena_create(s->ctx, plan.arena.peak, &run.arena));
    if (d)
        NET_OK(s->ctx, qkv_block_uncouple(&run, &s->block[layer], &s->rows.batch, stream(p, s, 0), stream(p, s, 1), stream(d, s, 0), stream(d, s, 1)));
    else NET_OK(s->ctx, qkv_block_couple(&run, &s->block[layer], &s->rows.batch, stream(p, s, 0), stream(p, s, 1)));
    assert_int_equal(run.arena.peak, plan.arena.peak);
    assert_int_equal(run.arena.low, 0);
    assert_memory_equal(&run.tally, &plan.tally, sizeof run.tally);
    qkv_arena_free(s->ctx, &run.arena);
}

static double farthest(const real *a, const real *b, int64_t n, double *size) {
    double off = 0;
    *size = 0;
    for (int64_t i = 0; i < n; i++) {
        off = fmax(off, fabs((double)a[i] - (double)b[i]));
        *size = fmax(*size, fabs((double)b[i]));
    }
    return off;
}

static void make(stack *s, qkv_ctx *ctx, qkv_norm_place place) {
    qkv_config c = net_config();
    c.layers = LAYERS;
    c.norm_place = place;
    c.dropout = c.attention_dropout = 0.1;
    const qkv_block_shape shape = qkv_encoder_shape(&c);
    *s = (stack){.ctx = ctx, .reg.ctx = ctx, .rows = net_rows_make(&c, SEQUENCES, WHO, LENGTHS)};
    for (int i = 0; i < LAYERS; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "encoder.%d.", i);
        NET_OK(ctx, qkv_block_declare(&s->block[i], &s->reg, prefix, &shape, i));
    }
    s->weights = calloc((size_t)s->reg.size, sizeof(real));
    qkv_reg_init(&s->reg, 5, s->weights);
    real *p = malloc((size_t)(2 * s->rows.rows * DIM) * sizeof *p);
    for (int64_t i = 0; i < 2 * s->rows.rows * DIM; i++) p[i] = (real)qkv_normal(qkv_key2(3, (uint64_t)i));
    for (int i = 0; i < LAYERS; i++) {
        s->at[i] = copy(s, p);
        walk(s, i, p, NULL, NULL);
    }
    s->at[LAYERS] = p;
}

static void drop(stack *s) {
    for (int i = 0; i <= LAYERS; i++) free(s->at[i]);
    free(s->weights);
    net_rows_free(&s->rows);
    qkv_reg_free(&s->reg);
}

static void rebuilt(void **state) {
    (void)state;
    for (int place = QKV_NORM_PRE; place <= QKV_NORM_SANDWICH; place += QKV_NORM_SANDWICH - QKV_NORM_PRE) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
        stack s;
        make(&s, &ctx, (qkv_norm_place)place);
        const int64_t n = 2 * s.rows.rows * DIM;
        real *chain = copy(&s, s.at[LAYERS]), *d[2] = {malloc((size_t)n * sizeof(real)), NULL}, *grads[2];
        for (int64_t i = 0; i < n; i++) d[0][i] = (real)qkv_normal(qkv_key2(4, (uint64_t)i));
        d[1] = copy(&s, d[0]);
        for (int k = 0; k < 2; k++) grads[k] = calloc((size_t)s.reg.size, sizeof(real));
        double size, off;
        for (int i = LAYERS - 1; i >= 0; i--) {
            real *exact = copy(&s, s.at[i + 1]);
            walk(&s, i, chain, d[0], grads[0]);
            walk(&s, i, exact, d[1], grads[1]);
            off = farthest(exact, s.at[i], n, &size);
            assert_true(off < 4e-6 * size); /* one block */
            free(exact);
        }
        off = farthest(chain, s.at[0], n, &size);
        assert_true(off > 0 && off < 2e-5 * size); /* all of them */
        off = farthest(grads[0], grads[1], s.reg.size, &size);
        assert_true(size > 0 && off < 1e-4 * size);
        off = farthest(d[0], d[1], n, &size);
        assert_true(size > 0 && off < 1e-4 * size);
        for (int k = 0; k < 2; k++) free(grads[k]), free(d[k]);
        free(chain);
        drop(&s);
        assert_int_equal(memory.blocks, 0);
    }
}

/* Memory of training does not grow with the layers, and what was rebuilt is told. */
static void depth(void **state) {
    (void)state;
    size_t peak[2];
    for (int deep = 0; deep < 2; deep++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
        qkv_config c = net_config();
        c.reversible = true;
        c.layers = deep ? 20 : 2;
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, false, &net));
        real *w = net_weights(net, 3), *g = calloc((size_t)qkv_classifier_reg(net)->size, sizeof *g);
        net_rows b = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
        const net_options o = {.train = true, .seed = 1};
        net_result r = net_step(&ctx, net, w, &b, &o);
        peak[deep] = r.peak;
        qkv_exec x = net_exec(&ctx, net, &o, false);
        x.weights = w;
        x.grads = g;
        NET_OK(&ctx, qkv_arena_create(&ctx, r.peak, &x.arena));
        double loss;
        NET_OK(&ctx, qkv_classifier_step(&x, net, &b.batch, b.target, 0, 1, &loss, NULL));
        assert_true(x.rebuilt > 0 && x.rebuilt < 1e-3); /* large weights: what the blocks add is large beside what they begin with */
        qkv_arena_free(&ctx, &x.arena);
        net_result_free(&r);
        net_rows_free(&b);
        free(w);
        free(g);
        qkv_classifier_free(net);
    }
    assert_int_equal(peak[0], peak[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rebuilt), cmocka_unit_test(depth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
