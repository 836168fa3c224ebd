/* AdamW over a registry whose parameters straddle the chunks, and the gradient norm. */
#include "ops.h"

#include "ops/optimizer.h"

static void declare(ops_bench *bench) {
    int64_t unused;
    OPS_OK(qkv_reg_add(&bench->reg, "", "embedding", 700, 37, (qkv_param_kind){.embedding = true}, &unused));
    OPS_OK(qkv_reg_add(&bench->reg, "", "bias", 1, 3, (qkv_param_kind){0}, &unused));
    OPS_OK(qkv_reg_add(&bench->reg, "", "weight", 100, 129, (qkv_param_kind){.decay = true}, &unused));
    OPS_OK(qkv_reg_add(&bench->reg, "", "last", 1, 1, (qkv_param_kind){.decay = true}, &unused));
}

static void adamw(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 3);
    declare(bench);
    ops_ready(bench, 64);
    int64_t size = bench->reg.size;
    double *w = calloc((size_t)size, sizeof *w), *m1 = calloc((size_t)size, sizeof *m1), *v1 = calloc((size_t)size, sizeof *v1);
    real *m = calloc((size_t)size, sizeof *m), *v = calloc((size_t)size, sizeof *v), *start = calloc((size_t)size, sizeof *start);
    for (int64_t i = 0; i < size; i++) w[i] = (double)(start[i] = bench->weights[i]);
    for (int t = 1; t <= 4; t++) {
        ops_random(bench->grads, size, (uint64_t)t);
        qkv_adamw_options o = {.lr = 1e-3, .embedding_lr = 5e-3, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .decay = 0.1, .grad_scale = 0.7, .step = t};
        OPS_OK(qkv_adamw_update(&bench->x, &o, bench->weights, bench->grads, m, v));
        for (int64_t i = 0; i < bench->reg.count; i++) {
            const qkv_param *p = &bench->reg.params[i];
            double lr = p->embedding ? 5e-3 : 1e-3;
            for (int64_t e = p->offset; e < p->offset + p->rows * p->cols; e++) {
                double g = 0.7 * (double)bench->grads[e];
                m1[e] = 0.9 * m1[e] + 0.1 * g;
                v1[e] = 0.98 * v1[e] + 0.02 * g * g;
                w[e] -= lr * (p->decay ? 0.1 : 0) * w[e] + lr * m1[e] / (1 - pow(0.9, t)) / (sqrt(v1[e] / (1 - pow(0.98, t))) + 1e-8);
                ops_near("weight", (double)bench->weights[e], w[e], 2e-6);
            }
        }
    }
    /* the padding between parameters is nobody's */
    for (int64_t i = 0, at = 0; i < bench->reg.count; i++) {
        const qkv_param *p = &bench->reg.params[i];
        for (; at < p->offset; at++) assert_true(bench->weights[at] == start[at] && m[at] == 0);
        at = p->offset + p->rows * p->cols;
    }
    double count = 700 * 37 + 3 + 100 * 129 + 1;
    assert_true(bench->x.tally.flops[QKV_PASS_OPTIMIZER][QKV_CLASS_OTHER] == 4 * 17 * count);
    assert_true(qkv_tally_flops(&bench->x.tally) == 4 * 17 * count);
    qkv_adamw_options zero = {.step = 0};
    assert_int_equal(qkv_adamw_update(&bench->x, &zero, bench->weights, bench->grads, m, v), QKV_INTERNAL);
    free(w);
    free(m1);
    free(v1);
    free(m);
    free(v);
    free(start);
    ops_end(bench);
}

/* Rows without a gradient stay, the others move as in the dense update, also where a chunk ends inside a row. */
static void lazy(void **state) {
    (void)state;
    ops_bench both[2];
    real *m[2], *v[2], *start = NULL;
    for (int b = 0; b < 2; b++) {
        ops_bench *bench = &both[b];
        ops_start(bench, 2);
        declare(bench);
        ops_ready(bench, 64);
        size_t size = (size_t)bench->reg.size;
        m[b] = calloc(size, sizeof(real));
        v[b] = calloc(size, sizeof(real));
        for (size_t i = 0; i < size; i++) m[b][i] = (real)0.01, v[b][i] = (real)0.001;
        ops_random(bench->grads, (int64_t)size, 7);
        if (b == 0) {
            start = calloc(size, sizeof(real));
            memcpy(start, bench->weights, size * sizeof(real));
        }
        memcpy(bench->weights, start, size * sizeof(real));
        for (int64_t r = 0; r < 700; r += 3) memset(bench->grads + bench->reg.params[0].offset + r * 37, 0, 37 * sizeof(real));
        qkv_adamw_options o = {.lr = 1e-3, .embedding_lr = 5e-3, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .decay = 0.1, .grad_scale = 1,
                               .lazy_embedding = b == 1, .step = 1};
        OPS_OK(qkv_adamw_update(&bench->x, &o, bench->weights, bench->grads, m[b], v[b]));
    }
    int64_t first = both[0].reg.params[0].offset;
    for (int64_t i = 0; i < both[0].reg.size; i++) {
        bool still = i >= first && i < first + 700 * 37 && (i - first) / 37 % 3 == 0;
        const real *expected = still ? start : both[0].weights;
        assert_true(both[1].weights[i] == expected[i]);
        if (still) assert_true(m[1][i] == (real)0.01 && both[0].weights[i] != start[i]);
        else assert_true(m[1][i] == m[0][i] && v[1][i] == v[0][i]);
    }
    free(start);
    for (int b = 0; b < 2; b++) {
        free(m[b]);
        free(v[b]);
        ops_end(&both[b]);
    }
}

/* The average goes along in the same pass: the same new weights, every element of the block, booked; same bits for any threads. */
static void average(void **state) {
    (void)state;
    ops_bench both[2];
    real *m[2], *v[2], *mean[2];
    double flops[2];
    for (int b = 0; b < 2; b++) {
        ops_bench *bench = &both[b];
        ops_start(bench, b ? 3 : 1);
        declare(bench);
        ops_ready(bench, 64);
        size_t size = (size_t)bench->reg.size;
        m[b] = calloc(size, sizeof(real)), v[b] = calloc(size, sizeof(real)), mean[b] = calloc(size, sizeof(real));
        ops_random(bench->weights, (int64_t)size, 5);
        double *expected = calloc(size, sizeof *expected);
        for (int t = 1; t <= 4; t++) {
            ops_random(bench->grads, (int64_t)size, (uint64_t)t);
            for (int64_t r = 0; r < 700; r += 3) memset(bench->grads + bench->reg.params[0].offset + r * 37, 0, 37 * sizeof(real));
            qkv_adamw_options o = {.lr = 1e-3, .embedding_lr = 5e-3, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-8, .decay = 0.1, .grad_scale = 1,
                                   .lazy_embedding = true, .step = t, .average_decay = 0.9, .average = mean[b]};
            OPS_OK(qkv_adamw_update(&bench->x, &o, bench->weights, bench->grads, m[b], v[b]));
            for (size_t i = 0; i < size; i++) {
                expected[i] = 0.9 * expected[i] + 0.1 * (double)bench->weights[i];
                ops_near("average", (double)mean[b][i], expected[i], 1e-6);
            }
        }
        flops[b] = qkv_tally_flops(&bench->x.tally);
        assert_true(flops[b] == 4 * (17 * (700 * 37 + 3 + 100 * 129 + 1) + 3 * (double)size));
        free(expected);
    }
    assert_memory_equal(mean[0], mean[1], (size_t)both[0].reg.size * sizeof(real));
    for (int b = 0; b < 2; b++) {
        free(m[b]);
        free(v[b]);
        free(mean[b]);
        ops_end(&both[b]);
    }
}

static void norm(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 2);
    declare(bench);
    int64_t unused;
    OPS_OK(qkv_reg_add(&bench->reg, "", "more", 3000, 64, (qkv_param_kind){0}, &unused));
    ops_ready(bench, 4096);
    double expected = 0, got;
    for (int64_t i = 0; i < bench->reg.size; i++) expected += (double)bench->grads[i] * (double)bench->grads[i];
    OPS_OK(qkv_gradient_norm(&bench->x, bench->grads, &got));
    ops_near("norm", got, sqrt(expected), 1e-5);
    bench->grads[5] = INFINITY;
    OPS_OK(qkv_gradient_norm(&bench->x, bench->grads, &got));
    assert_true(isinf(got));
    bench->grads[77] = NAN;
    OPS_OK(qkv_gradient_norm(&bench->x, bench->grads, &got));
    assert_true(isnan(got));
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(adamw), cmocka_unit_test(lazy), cmocka_unit_test(average), cmocka_unit_test(norm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
