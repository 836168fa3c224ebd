/* A registry, an exec with an arena, random matrices: what the tests of ops stand on. */
#ifndef QKV_TESTS_UNIT_OPS_OPS_H
#define QKV_TESTS_UNIT_OPS_OPS_H

#include "support.h"

#include <math.h>

#include "kernels/pick.h"
#include "ops/exec.h"
#include "ops/reg.h"

#define OPS_OK(expression)                                                                                                  \
    do {                                                                                                                    \
        if ((expression) != QKV_OK) fail_msg("%s: %s", #expression, bench->ctx.message);                                    \
    } while (0)

typedef struct ops_bench {
    test_memory memory;
    qkv_ctx ctx;
    qkv_reg reg;
    real *weights, *grads;
    qkv_exec x;
} ops_bench;

static inline void ops_start(ops_bench *bench, int threads) {
    memset(bench, 0, sizeof *bench);
    bench->ctx = test_ctx(&bench->memory);
    bench->ctx.threads = threads;
    OPS_OK(qkv_kernels_pick(&bench->ctx, getenv("QKV_ISA")));
    bench->reg.ctx = &bench->ctx;
}

static inline void ops_random(real *p, int64_t n, uint64_t key) {
    for (int64_t i = 0; i < n; i++) p[i] = (real)qkv_normal(qkv_key2(key, (uint64_t)i));
}

/* A matrix with a stride of its own; `ld` >= cols. What lies between the rows must not be touched: 12345 everywhere. */
static inline qkv_mat ops_mat(int64_t rows, int64_t cols, int64_t ld, uint64_t key) {
    qkv_mat m = {aligned_alloc(64, ((size_t)(rows * ld + 16) * sizeof(real) + 63) / 64 * 64), rows, cols, ld};
    for (int64_t i = 0; i < rows * ld + 16; i++) m.p[i] = 12345;
    for (int64_t r = 0; r < rows; r++) ops_random(m.p + r * ld, cols, qkv_key2(key, (uint64_t)r));
    return m;
}

static inline void ops_untouched(qkv_mat m) {
    for (int64_t r = 0; r < m.rows; r++)
        for (int64_t c = m.cols; c < m.ld; c++) assert_true(m.p[r * m.ld + c] == 12345);
    for (int64_t i = 0; i < 16; i++) assert_true(m.p[m.rows * m.ld + i] == 12345);
}

static inline real ops_at(qkv_mat m, int64_t r, int64_t c) { return m.p[r * m.ld + c]; }

static inline void ops_near(const char *what, double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * fmax(1, fabs(expected)))) fail_msg("%s: %.9g, expected %.9g", what, got, expected);
}

/* After the parameters were declared. */
static inline void ops_ready(ops_bench *bench, size_t arena) {
    bench->weights = calloc((size_t)bench->reg.size + 1, sizeof(real));
    bench->grads = calloc((size_t)bench->reg.size + 1, sizeof(real));
    ops_random(bench->weights, bench->reg.size, 1);
    ops_random(bench->grads, bench->reg.size, 2); /* gradients are added to what is there */
    bench->x = (qkv_exec){.ctx = &bench->ctx, .keep = true, .train = true, .reg = &bench->reg, .weights = bench->weights, .grads = bench->grads};
    OPS_OK(qkv_arena_create(&bench->ctx, arena, &bench->x.arena));
}

static inline void ops_end(ops_bench *bench) {
    assert_int_equal(bench->x.arena.high, 0);
    qkv_arena_free(&bench->ctx, &bench->x.arena);
    qkv_reg_free(&bench->reg);
    free(bench->weights);
    free(bench->grads);
    qkv_par_close(&bench->ctx);
    assert_int_equal(bench->memory.blocks, 0);
}

#endif
