/* AdamW against algorithm 2 of Loshchilov & Hutter 2019, step by step in double. */
#include "unit/kernels/kernel_test.h"

static void steps_against_double(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 16, 37};
    FOR_EACH_TABLE(t)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            enum { MOST = 37 };
            int64_t n = sizes[j];
            dice d = {j, 0};
            real *p = random_reals(&d, n, 1), *m = random_reals(&d, n, 0), *v = random_reals(&d, n, 0);
            double q[MOST], qm[MOST] = {0}, qv[MOST] = {0};
            for (int64_t i = 0; i < n; i++) q[i] = p[i];
            qkv_adamw o = {.lr = (real)0.01, .beta1 = (real)0.9, .beta2 = (real)0.98, .epsilon = (real)1e-8, .decay = (real)0.1, .grad_scale = (real)0.5};
            double b1 = o.beta1, b2 = o.beta2;
            for (int step = 1; step <= 20; step++) {
                real *g = random_reals(&d, n, step == 7 ? 100 : 1);
                o.correct1 = (real)(1 - pow(b1, step)), o.correct2 = (real)(1 - pow(b2, step));
                t->adamw(n, p, g, m, v, &o);
                for (int64_t i = 0; i < n; i++) {
                    double grad = 0.5 * g[i];
                    qm[i] = b1 * qm[i] + (1 - b1) * grad;
                    qv[i] = b2 * qv[i] + (1 - b2) * grad * grad;
                    double hat_m = qm[i] / (1 - pow(b1, step)), hat_v = qv[i] / (1 - pow(b2, step));
                    q[i] -= (double)o.lr * (hat_m / (sqrt(hat_v) + (double)o.epsilon) + (double)o.decay * q[i]);
                    check_near(m[i], qm[i], 16 * EPSILON * 100, t, "m", i);
                    check_near(v[i], qv[i], 32 * EPSILON * (qv[i] + 1e-3), t, "v", i);
                    check_near(p[i], q[i], 16 * EPSILON * step, t, "p", i);
                }
                free(g);
            }
            free(p), free(m), free(v);
        }
}

/* Decay is decoupled: with no gradient at all the weight shrinks by lr * decay and the moments stay 0. */
static void decay_alone(void **state) {
    (void)state;
    FOR_EACH_TABLE(t) {
        real p[3] = {1, -2, 4}, g[3] = {0}, m[3] = {0}, v[3] = {0};
        qkv_adamw o = {(real)0.5, (real)0.9, (real)0.999, (real)1e-8, (real)0.25, (real)0.1, (real)0.001, 1};
        t->adamw(3, p, g, m, v, &o);
        assert_true(p[0] == (real)0.875 && p[1] == (real)-1.75 && p[2] == (real)3.5);
        for (int i = 0; i < 3; i++) assert_true(m[i] == 0 && v[i] == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_against_double), cmocka_unit_test(decay_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
