/* Law: the same bits on every instruction set. */
#include "unit/kernels/kernel_test.h"

#include "unit/kernels/kernel_fuzz.h"

static void the_same_bits_on_every_table(void **state) {
    (void)state;
    FOR_EACH_TABLE(t)
        for (int f = 0; f < FUZZ_KERNELS; f++)
            if (t != &qkv_kernels_scalar) assert_true(fuzz_same(&qkv_kernels_scalar, t, &fuzz_kernels[f], 120));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_bits_on_every_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
