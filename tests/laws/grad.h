/* Gradients by central differences, in the double build. A case has parameters (of its registry) and inputs, a function from
 * them to outputs, and that function's backward pass. The loss is a fixed random combination of the outputs. */
#ifndef QKV_TESTS_LAWS_GRAD_H
#define QKV_TESTS_LAWS_GRAD_H

#include "net.h"
#include "ops/reg.h"

enum { GRAD_INPUTS = 8, GRAD_PROBES = 40, GRAD_ARENA = 8 << 20 };

typedef struct grad_buffer {
    const char *name;
    int64_t n;
    real *value, *grad;
} grad_buffer;

typedef struct grad_case {
    test_memory memory;
    qkv_ctx ctx;
    qkv_reg reg;
    real *weights, *grads;
    grad_buffer in[GRAD_INPUTS];
    int inputs;
    qkv_mat out, dout; /* dout: coefficients of the loss */
    qkv_exec x;
    const void *user;
} grad_case;

/* Fills g->out from the inputs and parameters; if `backward`, also all gradients from g->dout (parameters: added). */
typedef void grad_run(grad_case *g, bool backward);

static inline void grad_start(grad_case *g) {
    *g = (grad_case){0};
    g->ctx = net_ctx(&g->memory, 2, NULL);
    g->ctx.allocator_user = &g->memory;
    g->reg.ctx = &g->ctx;
}

static inline void grad_random(real *p, int64_t n, uint64_t key, double size) {
    for (int64_t i = 0; i < n; i++) p[i] = (real)(size * qkv_normal(qkv_key2(key, (uint64_t)i)));
}

static inline qkv_mat grad_mat(real *p, int64_t rows, int64_t cols) { return (qkv_mat){p, rows, cols, cols}; }

/* Another input of n values; returns its number. */
static inline int grad_input(grad_case *g, const char *name, int64_t n) {
    grad_buffer *b = &g->in[g->inputs];
    *b = (grad_buffer){name, n, calloc((size_t)n + 1, sizeof(real)), calloc((size_t)n + 1, sizeof(real))};
    grad_random(b->value, n, qkv_key2(500, (uint64_t)g->inputs), 1);
    return g->inputs++;
}

/* After the parameters were declared: memory and values for them, the output, the exec. */
static inline void grad_ready(grad_case *g, int64_t rows, int64_t cols) {
    g->weights = calloc((size_t)g->reg.size + 1, sizeof(real));
    g->grads = calloc((size_t)g->reg.size + 1, sizeof(real));
    grad_random(g->weights, g->reg.size, 900, 0.5);
    g->out = grad_mat(calloc((size_t)(rows * cols) + 1, sizeof(real)), rows, cols);
    g->dout = grad_mat(calloc((size_t)(rows * cols) + 1, sizeof(real)), rows, cols);
    grad_random(g->dout.p, rows * cols, 901, 1);
    g->x = (qkv_exec){.ctx = &g->ctx, .keep = true, .train = true, .reg = &g->reg, .weights = g->weights, .grads = g->grads, .seed = 5, .step = 2};
    NET_OK(&g->ctx, qkv_arena_create(&g->ctx, GRAD_ARENA, &g->x.arena));
}

static inline void grad_reset(grad_case *g) {
    qkv_arena_low_release(&g->x.arena, 0);
    qkv_arena_high_release(&g->x.arena, 0);
}

static inline double grad_loss(grad_case *g, grad_run *run) {
    double sum = 0;
    run(g, false);
    grad_reset(g);
    for (int64_t i = 0; i < g->out.rows * g->out.cols; i++) sum += (double)g->out.p[i] * (double)g->dout.p[i];
    return sum;
}

/* The error of a central difference here is about h^2 of third derivatives plus 1e-16/h of rounding, each near 1e-10. */
static inline void grad_probe(grad_case *g, grad_run *run, const char *name, real *value, const real *grad, int64_t n) {
    const double h = 1e-5;
    int64_t probes = n < GRAD_PROBES ? n : GRAD_PROBES;
    bool some = false;
    for (int64_t k = 0; k < probes; k++) {
        int64_t i = n <= GRAD_PROBES ? k : (int64_t)qkv_below(qkv_key2(33, (uint64_t)k), (uint64_t)n);
        real old = value[i];
        value[i] = old + (real)h;
        double up = grad_loss(g, run);
        value[i] = old - (real)h;
        double down = grad_loss(g, run);
        value[i] = old;
        double seen = (up - down) / (2 * h), said = (double)grad[i], size = fmax(1, fmax(fabs(seen), fabs(said)));
        if (!(fabs(seen - said) <= 2e-7 * size))
            fail_msg("%s[%lld]: the difference quotient is %.10g, the backward pass says %.10g", name, (long long)i, seen, said);
        some = some || said != 0;
    }
    if (probes > 0 && !some) fail_msg("%s: no gradient at all", name);
}

/* The law: every input and every parameter. */
static inline void grad_check(grad_case *g, grad_run *run) {
    run(g, true);
    grad_reset(g);
    for (int i = 0; i < g->inputs; i++) grad_probe(g, run, g->in[i].name, g->in[i].value, g->in[i].grad, g->in[i].n);
    for (int64_t i = 0; i < g->reg.count; i++) {
        const qkv_param *p = &g->reg.params[i];
        grad_probe(g, run, p->name, g->weights + p->offset, g->grads + p->offset, p->rows * p->cols);
    }
}

static inline void grad_end(grad_case *g) {
    qkv_arena_free(&g->ctx, &g->x.arena);
    qkv_reg_free(&g->reg);
    for (int i = 0; i < g->inputs; i++) {
        free(g->in[i].value);
        free(g->in[i].grad);
    }
    free(g->weights);
    free(g->grads);
    free(g->out.p);
    free(g->dout.p);
    qkv_par_close(&g->ctx);
    assert_int_equal(g->memory.blocks, 0);
}

/* Ragged rows for the cases that see sequences: 3, 0, 1, 5 rows. */
enum { GRAD_SEQUENCES = 4, GRAD_ROWS = 9 };
static const int64_t GRAD_OFFSET[GRAD_SEQUENCES + 1] = {0, 3, 3, 4, 9};
static const uint64_t GRAD_KEYS[GRAD_ROWS] = {101, 102, 103, 104, 105, 106, 107, 108, 109};
static const int32_t GRAD_IDS[GRAD_ROWS] = {1, 0, 3, 3, 2, 3, 6, 1, 1};
static inline qkv_batch grad_batch(void) {
    return (qkv_batch){.n_seq = GRAD_SEQUENCES, .offset = GRAD_OFFSET, .ids = GRAD_IDS, .seq_key = GRAD_KEYS, .row_key = GRAD_KEYS};
}

#endif
