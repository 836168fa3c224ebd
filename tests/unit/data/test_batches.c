#include "support.h"

#include "base/rng.h"
#include "data/batches.h"

static int64_t length_of(const int64_t *offset, int64_t row) {
    return offset[row + 1] - offset[row];
}

/* Each row once, no empty batch, no budget exceeded except by a row alone. */
static void check(const int64_t *offset, int64_t rows, int64_t tokens, int64_t max_rows, const qkv_batches *b) {
    char *seen = calloc((size_t)rows + 1, 1);
    assert_int_equal(b->first[0], 0);
    assert_int_equal(b->first[b->count], rows);
    for (int64_t i = 0; i < b->count; i++) {
        int64_t sum = 0, size = b->first[i + 1] - b->first[i];
        assert_true(size >= 1);
        for (int64_t j = b->first[i]; j < b->first[i + 1]; j++) {
            int64_t row = b->order[j];
            assert_true(row >= 0 && row < rows && !seen[row]);
            seen[row] = 1;
            sum += length_of(offset, row);
        }
        assert_true(size == 1 || sum <= tokens);
        assert_true(max_rows < 1 || size <= max_rows);
    }
    free(seen);
}

static void fill(int64_t *offset, int64_t rows, uint64_t seed, int64_t longest) {
    offset[0] = 0;
    for (int64_t i = 0; i < rows; i++) {
        uint64_t key = qkv_key2(seed, (uint64_t)i);
        int64_t length = (int64_t)qkv_below(key, (uint64_t)longest + 1);
        if (qkv_below(qkv_key2(key, 1), 20) == 0) length = 0;
        if (qkv_below(qkv_key2(key, 2), 500) == 0) length = 5000;
        offset[i + 1] = offset[i] + length;
    }
}

static void each_row_once_within_the_budget(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    int64_t offset[3001];
    const int64_t sizes[] = {0, 1, 2, 17, 500, 3000}, budgets[] = {1, 64, 1000, 4096, INT64_MAX},
                  limits[] = {0, 1, 7, 64, INT64_MAX};
    for (int s = 0; s < 6; s++)
        for (int t = 0; t < 5; t++)
            for (int m = 0; m < 5; m++)
                for (int64_t epoch = -1; epoch < 2; epoch++) {
                    qkv_batches b;
                    fill(offset, sizes[s], 5, 300);
                    assert_int_equal(qkv_batches_make(&ctx, offset, sizes[s], budgets[t], limits[m], 1, epoch, &b), QKV_OK);
                    check(offset, sizes[s], budgets[t], limits[m], &b);
                    qkv_batches_free(&ctx, &b);
                }
    assert_int_equal(memory.blocks, 0);
}

static void evaluation_is_sorted_by_length(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    int64_t offset[2001];
    qkv_batches b;
    fill(offset, 2000, 6, 100);
    assert_int_equal(qkv_batches_make(&ctx, offset, 2000, 1024, 64, 99, -1, &b), QKV_OK);
    for (int64_t i = 1; i < 2000; i++) {
        int64_t x = b.order[i - 1], y = b.order[i];
        assert_true(length_of(offset, x) < length_of(offset, y) || (length_of(offset, x) == length_of(offset, y) && x < y));
    }
    qkv_batches_free(&ctx, &b);
}

static void seed_and_epoch_decide(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    int64_t offset[2001];
    qkv_batches a, same, epoch, seed;
    fill(offset, 2000, 7, 100);
    assert_int_equal(qkv_batches_make(&ctx, offset, 2000, 1024, 64, 3, 0, &a), QKV_OK);
    assert_int_equal(qkv_batches_make(&ctx, offset, 2000, 1024, 64, 3, 0, &same), QKV_OK);
    assert_int_equal(qkv_batches_make(&ctx, offset, 2000, 1024, 64, 3, 1, &epoch), QKV_OK);
    assert_int_equal(qkv_batches_make(&ctx, offset, 2000, 1024, 64, 4, 0, &seed), QKV_OK);
    assert_int_equal(a.count, same.count);
    assert_memory_equal(a.order, same.order, 2000 * sizeof *a.order);
    assert_memory_equal(a.first, same.first, (size_t)(a.count + 1) * sizeof *a.first);
    assert_memory_not_equal(a.order, epoch.order, 2000 * sizeof *a.order);
    assert_memory_not_equal(a.order, seed.order, 2000 * sizeof *a.order);
    qkv_batches_free(&ctx, &a);
    qkv_batches_free(&ctx, &same);
    qkv_batches_free(&ctx, &epoch);
    qkv_batches_free(&ctx, &seed);
}

/* Like lengths meet, the batches do not come in order of length, and nearly all of the budget is used. */
static void batches_are_even_and_mixed(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    enum { ROWS = 20000 };
    int64_t *offset = malloc((ROWS + 1) * sizeof *offset), spread = 0, falls = 0, last = 0;
    qkv_batches b;
    offset[0] = 0;
    for (int64_t i = 0; i < ROWS; i++) offset[i + 1] = offset[i] + 1 + (int64_t)qkv_below(qkv_mix64((uint64_t)i), 200);
    assert_int_equal(qkv_batches_make(&ctx, offset, ROWS, 4096, ROWS, 3, 0, &b), QKV_OK);
    for (int64_t i = 0; i < b.count; i++) {
        int64_t low = INT64_MAX, high = 0;
        for (int64_t j = b.first[i]; j < b.first[i + 1]; j++) {
            int64_t length = length_of(offset, b.order[j]);
            if (length < low) low = length;
            if (length > high) high = length;
        }
        spread += high - low;
        falls += low < last;
        last = low;
    }
    assert_true(spread / b.count < 20);
    assert_true(falls > b.count / 3);
    assert_true(b.count * 4096 < offset[ROWS] * 11 / 10);
    qkv_batches_free(&ctx, &b);
    free(offset);
}

static void impossible_budgets_are_refused(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_batches b;
    int64_t offset[2] = {0, 3};
    assert_int_equal(qkv_batches_make(&ctx, offset, 1, 0, 1, 1, 0, &b), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_batches_make(&ctx, offset, -1, 10, 1, 1, 0, &b), QKV_BAD_ARGUMENT);
    qkv_batches_free(&ctx, &b);
    qkv_ragged r = {0};
    qkv_ragged_free(&ctx, &r);
}

static void every_failing_allocation_is_survived(void **state) {
    (void)state;
    int64_t offset[501];
    int done = 0;
    fill(offset, 500, 8, 50);
    for (int64_t k = 1; !done; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        qkv_batches b;
        qkv_status status = qkv_batches_make(&ctx, offset, 500, 256, 32, 1, 2, &b);
        done = memory.calls < k;
        assert_int_equal(status, done ? QKV_OK : QKV_NO_MEMORY);
        qkv_batches_free(&ctx, &b);
        assert_int_equal(memory.blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_once_within_the_budget), cmocka_unit_test(evaluation_is_sorted_by_length),
        cmocka_unit_test(seed_and_epoch_decide),           cmocka_unit_test(batches_are_even_and_mixed),
        cmocka_unit_test(impossible_budgets_are_refused),  cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
