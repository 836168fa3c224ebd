/* cli_float9 against printf: every float it gives must be the text of "%.9g". */
#include <math.h>

#include "../../cli/cli.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static int differ(float x) {
    char mine[24], theirs[40];
    int n = cli_float9(x, mine);
    int m = snprintf(theirs, sizeof theirs, "%.9g", (double)x);
    if (n == m && !strcmp(mine, theirs)) return 0;
    print_error("%a: %s, printf says %s\n", (double)x, mine, theirs);
    return 1;
}

static float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void chosen_numbers(void **state) {
    (void)state;
    static const float chosen[] = {0.0f,        -0.0f,     1.0f,       -1.0f,         10.0f,       0.1f,       1e-4f,     9.9999e-5f,
                                   1e8f,        1e9f,      999999984.0f, 1000000064.0f, 16777.21875f, 0.5f,      2.5e-13f,  1e-13f,
                                   1e20f,       1e22f,     3.4e38f,    1e-45f,        1.1754944e-38f, 123456792.0f, INFINITY,  -INFINITY,
                                   99999.9921875f, 262144.015625f, 0.00012207031f, 4194304.5f, 8388607.5f};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) assert_int_equal(differ(chosen[i]), 0);
    /* around every power of ten and of two */
    for (int e = -44; e <= 38; e++) {
        float ten = (float)pow(10, e), near = ten;
        for (int i = 0; i < 20; i++, near = nextafterf(near, 0)) assert_int_equal(differ(near), 0);
        for (int i = 0; i < 20; i++, ten = nextafterf(ten, INFINITY)) assert_int_equal(differ(-ten), 0);
    }
    for (int e = -149; e <= 127; e++) assert_int_equal(differ(ldexpf(1, e)), 0);
}

/* Short binary fractions are where the tenth digit is a five and nothing follows. */
static void middles(void **state) {
    (void)state;
    for (int bits = 1; bits <= 12; bits++)
        for (uint32_t i = 0; i < 4000; i++) assert_int_equal(differ(ldexpf((float)(16000000 + 191 * i), -bits)), 0);
}

static void any_bits(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 300000; i++) {
        float x = of_bits(i * 2654435761u);
        if (!isnan(x)) assert_int_equal(differ(x), 0);
        x = of_bits(0x3f800000u - (uint32_t)(i % 24 << 23) + (i * 2654435761u >> 9)); /* sizes that vectors have */
        assert_int_equal(differ(x), 0);
        if (i % 8 == 0) {
            char text[24];
            cli_float9(x, text);
            assert_true(strtof(text, NULL) == x);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_numbers),
        cmocka_unit_test(middles),
        cmocka_unit_test(any_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
