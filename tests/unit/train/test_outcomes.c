/* Which labels a row has and which it was given, in cells. */
#include "support.h"

#include "base/rng.h"
#include "train/outcomes.h"

static uint32_t mark(int label, uint32_t bits) {
    return (uint32_t)label * QKV_MARK_LABEL + bits;
}

static void pairs_that_are_alike_share_a_cell(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const int32_t gold[] = {1, 0, 1, 2, 1}, given[] = {1, 0, 0, 0, 1};
    qkv_outcomes o;
    assert_int_equal(qkv_outcomes_pairs(&ctx, 5, 3, gold, given, &o), QKV_OK);
    assert_true(o.rows == 5 && o.labels == 3 && o.cells == 4);
    const int32_t cell[] = {2, 0, 1, 3, 2};
    assert_memory_equal(o.cell, cell, sizeof cell);
    const int64_t at[] = {0, 1, 3, 4, 6};
    assert_memory_equal(o.mark_at, at, sizeof at);
    const uint32_t marks[] = {mark(0, QKV_GOLD | QKV_GIVEN), mark(0, QKV_GIVEN), mark(1, QKV_GOLD),
                              mark(1, QKV_GOLD | QKV_GIVEN), mark(0, QKV_GIVEN), mark(2, QKV_GOLD)};
    assert_memory_equal(o.marks, marks, sizeof marks);
    assert_true(o.right[0] && !o.right[1] && o.right[2] && !o.right[3]);
    assert_true(qkv_outcome_right(&o, 4) && !qkv_outcome_right(&o, 3));
    qkv_outcomes_free(&ctx, &o);
    assert_int_equal(memory.blocks, 0);
}

static void sets_are_merged(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const int64_t gold_at[] = {0, 2, 2, 3, 4}, given_at[] = {0, 2, 2, 3, 3};
    const int32_t gold[] = {0, 3, 2, 1}, given[] = {1, 3, 2};
    qkv_outcomes o;
    assert_int_equal(qkv_outcomes_sets(&ctx, 4, 4, gold_at, gold, given_at, given, &o), QKV_OK);
    const int64_t at[] = {0, 3, 3, 4, 5};
    assert_memory_equal(o.mark_at, at, sizeof at);
    const uint32_t marks[] = {mark(0, QKV_GOLD), mark(1, QKV_GIVEN), mark(3, QKV_GOLD | QKV_GIVEN), mark(2, QKV_GOLD | QKV_GIVEN),
                              mark(1, QKV_GOLD)};
    assert_memory_equal(o.marks, marks, sizeof marks);
    assert_true(!o.right[0] && o.right[1] && o.right[2] && !o.right[3]); /* nothing to give and nothing given is right */
    qkv_outcomes_free(&ctx, &o);
    assert_int_equal(memory.blocks, 0);
}

static void memory_may_fail(void **state) {
    (void)state;
    const int32_t label[] = {0, 1, 1};
    const int64_t at[] = {0, 1, 2, 3};
    for (int sets = 0; sets < 2; sets++) {
        for (int64_t k = 1;; k++) {
            test_memory memory = {.fail_at = k};
            TEST_CTX qkv_ctx ctx = test_ctx(&memory);
            qkv_outcomes o;
            qkv_status status =
                sets ? qkv_outcomes_sets(&ctx, 3, 2, at, label, at, label, &o) : qkv_outcomes_pairs(&ctx, 3, 2, label, label, &o);
            bool reached = memory.calls >= k;
            assert_int_equal(status, reached ? QKV_NO_MEMORY : QKV_OK);
            if (!reached) qkv_outcomes_free(&ctx, &o);
            assert_int_equal(memory.blocks, 0);
            if (!reached) break;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_that_are_alike_share_a_cell),
        cmocka_unit_test(sets_are_merged),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
