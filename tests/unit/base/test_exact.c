/* exp and log of plain operations against the C library. */
#include "support.h"

#include <math.h>

#include "base/exact.h"
#include "base/rng.h"

static void close_to_the_library(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        double x = (qkv_uniform(qkv_key2(1, i)) - 0.5) * (i % 2 ? 1400 : 4), y = exp(x);
        if (y > 0 && y < 1e308 && y > 1e-300) assert_true(fabs(qkv_exact_exp(x) - y) <= 2e-15 * y);
        double p = exp(x / 2), l = log(p);
        assert_true(fabs(qkv_exact_log(p) - l) <= 2e-15 * fabs(l) + 2e-16);
    }
}

static void ends(void **state) {
    (void)state;
    assert_true(qkv_exact_exp(0) == 1);
    assert_true(qkv_exact_exp(1000) == (double)INFINITY);
    assert_true(qkv_exact_exp(-1000) == 0);
    assert_true(isnan(qkv_exact_exp((double)NAN)));
    assert_true(qkv_exact_log(1) == 0);
}

static void sigmoid_and_softplus(void **state) {
    (void)state;
    for (double t = -40; t <= 40; t += 0.37) {
        assert_true(fabs(qkv_exact_sigmoid(t) - 1 / (1 + exp(-t))) < 1e-15);
        assert_true(fabs(qkv_exact_softplus(t) - (t > 0 ? t + log1p(exp(-t)) : log1p(exp(t)))) < 1e-13);
    }
    assert_true(qkv_exact_sigmoid(-1000) == 0 && qkv_exact_sigmoid(1000) == 1);
    assert_true(qkv_exact_softplus(-1000) == 0 && qkv_exact_softplus(1000) == 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sigmoid_and_softplus), cmocka_unit_test(close_to_the_library), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
