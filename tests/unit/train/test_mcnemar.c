/* McNemar's exact test beside SciPy 1.17: binomtest(min(a, b), a + b, 0.5).pvalue. */
#include "support.h"

#include <math.h>

#include "train/mcnemar.h"

static void like_scipy(void **state) {
    (void)state;
    static const struct {
        int64_t a, b;
        double p;
    } known[] = {
        {3, 10, 0.09228515625},
        {0, 6, 0.03125},
        {1, 9, 0.021484375},
        {120, 160, 0.019606727290281328},
        {9800, 10300, 0.0004318058325135585},
        {0, 30, 1.862645149230957e-09},
        {400, 700, 1.1735888055606002e-19},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double p = qkv_mcnemar(known[i].a, known[i].b);
        assert_true(fabs(p - known[i].p) <= 1e-10 * known[i].p);
        assert_true(qkv_mcnemar(known[i].b, known[i].a) == p);
    }
}

static void what_is_equal_is_not_different(void **state) {
    (void)state;
    assert_true(qkv_mcnemar(0, 0) == 1 && qkv_mcnemar(5, 5) == 1 && qkv_mcnemar(12, 13) == 1 && qkv_mcnemar(0, 1) == 1);
    assert_true(qkv_mcnemar(1000000, 0) == 0); /* too small for a double */
    for (int64_t few = 0; few < 50; few++)     /* the more uneven, the smaller */
        assert_true(qkv_mcnemar(few, 101 - few) < qkv_mcnemar(few + 1, 100 - few) || few == 49);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_scipy), cmocka_unit_test(what_is_equal_is_not_different)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
