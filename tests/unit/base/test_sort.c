#include "support.h"

#include "base/rng.h"
#include "base/sort.h"

static void ascending_and_stable(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const uint64_t ranges[] = {1, 2, 10, 3000, 1u << 22, UINT64_MAX};
    for (int64_t count = 0; count < 5000; count = 3 * count + 1)
        for (int range = 0; range < 6; range++) {
            qkv_sort_item *items = malloc((size_t)(count + 1) * sizeof *items);
            uint64_t sum = 0, after = 0;
            for (int64_t i = 0; i < count; i++) {
                items[i] = (qkv_sort_item){qkv_mix64((uint64_t)i) % ranges[range], i};
                sum += qkv_mix64(items[i].key ^ (uint64_t)i);
            }
            assert_int_equal(qkv_sort(&ctx, items, count), QKV_OK);
            for (int64_t i = 0; i < count; i++) {
                after += qkv_mix64(items[i].key ^ (uint64_t)items[i].value);
                if (i == 0) continue;
                assert_true(items[i - 1].key <= items[i].key);
                if (items[i - 1].key == items[i].key) assert_true(items[i - 1].value < items[i].value);
            }
            assert_true(sum == after);
            free(items);
        }
    assert_int_equal(memory.blocks, 0);
    memory = (test_memory){.fail_at = 1};
    qkv_sort_item two[2] = {{2, 0}, {1, 1}};
    assert_int_equal(qkv_sort(&ctx, two, 2), QKV_NO_MEMORY);
    assert_true(two[0].key == 2 && two[1].key == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ascending_and_stable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
