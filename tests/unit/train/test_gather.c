/* Rows side by side, and token dropout that depends on nothing but seed, step, data row and position. */
#include "support.h"

#include "qkv/tokenizer.h"
#include "train/gather.h"

enum { ROWS = 6 };
static int64_t offset[ROWS + 1] = {0, 3, 3, 7, 8, 12, 200};
static int32_t ids[200], target[ROWS] = {0, 1, 2, 1, 0, 2};
static const qkv_ragged data = {.count = ROWS, .offset = offset, .ids = ids, .target = target};

static void fill(void) {
    for (int i = 0; i < 200; i++) ids[i] = 100 + i;
}

static void rows_lie_side_by_side(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_gather g;
    qkv_batch b;
    fill();
    assert_int_equal(qkv_gather_create(&ctx, &data, 16, 4, &g), QKV_OK);
    const int64_t rows[] = {2, 1, 0, 3};
    qkv_gather_rows(&g, &data, rows, 4, false, &b);
    assert_int_equal(b.n_seq, 4);
    const int64_t expected[] = {0, 4, 4, 7, 8};
    assert_memory_equal(b.offset, expected, sizeof expected);
    assert_int_equal(b.ids[0], 103);
    assert_int_equal(b.ids[4], 100);
    assert_int_equal(b.ids[7], 107);
    for (int s = 0; s < 4; s++) assert_int_equal(g.target[s], target[rows[s]]);
    for (int s = 0; s < 4; s++)
        for (int64_t i = b.offset[s]; i < b.offset[s + 1]; i++)
            assert_true(b.row_key[i] == qkv_key2(b.seq_key[s], (uint64_t)(i - b.offset[s])));
    qkv_gather_rows(&g, &data, (const int64_t[]){5}, 1, false, &b); /* a row above the budget */
    assert_int_equal(b.offset[1], 188);
    assert_int_equal(b.ids[187], 299);
    qkv_gather_rows(&g, &data, rows, 4, true, &b);
    assert_null(b.ids);
    assert_memory_equal(b.offset, expected, sizeof expected);
    qkv_gather_free(&ctx, &g);
    assert_int_equal(memory.blocks, 0);
}

static void segments_lie_side_by_side(void **state) {
    (void)state;
    static int64_t at[ROWS + 1] = {0, 2, 2, 3, 4, 8, 9};
    static int32_t size[] = {1, 2, 4, 1, 1, 1, 1, 1, 188};
    qkv_ragged cut = data;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_gather g, plain;
    qkv_batch b;
    fill();
    cut.segment_at = at, cut.segment_size = size;
    assert_int_equal(qkv_gather_create(&ctx, &cut, 16, 4, &g), QKV_OK);
    assert_int_equal(qkv_gather_create(&ctx, &data, 16, 4, &plain), QKV_OK);
    assert_true(g.max_segments == 9 && qkv_gather_bytes(&g) > qkv_gather_bytes(&plain));
    for (int plan = 0; plan < 2; plan++) {
        qkv_gather_rows(&g, &cut, (const int64_t[]){4, 1, 0, 2}, 4, plan, &b);
        static const int64_t segments[] = {0, 4, 4, 6, 7}, ends[] = {0, 1, 2, 3, 4, 5, 7, 11};
        assert_memory_equal(b.segments, segments, sizeof segments);
        assert_memory_equal(b.segment_at, ends, sizeof ends);
        for (int s = 0; s < 4 && !plan; s++)
            for (int64_t i = b.segments[s]; i < b.segments[s + 1]; i++)
                assert_true(b.segment_key[i] == qkv_key2(b.seq_key[s], (uint64_t)(i - b.segments[s])));
    }
    const qkv_batch lower = qkv_batch_lower(&b), upper = qkv_batch_upper(&b);
    assert_true(lower.n_seq == 7 && lower.offset == b.segment_at && upper.n_seq == 4 && upper.offset == b.segments && !upper.ids);
    qkv_gather_rows(&plain, &data, (const int64_t[]){4, 1}, 2, false, &b);
    assert_true(!b.segments && qkv_batch_lower(&b).n_seq == 2 && qkv_batch_upper(&b).row_key == b.row_key);
    qkv_gather_free(&ctx, &g);
    qkv_gather_free(&ctx, &plain);
    assert_int_equal(memory.blocks, 0);
}

/* Each row's, and in segments each segment's, in a plan too; what is dropped later changes nothing. */
static void global_tokens_are_listed(void **state) {
    (void)state;
    static int64_t at[ROWS + 1] = {0, 2, 2, 3, 4, 8, 9};
    static int32_t size[] = {1, 2, 4, 1, 1, 1, 1, 1, 188};
    const int64_t rows[] = {4, 1, 0, 2};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    fill();
    for (int cut = 0; cut < 2; cut++) {
        static const int64_t whole[] = {0, 2, 2, 4, 5}, whole_at[] = {0, 3, 0, 2, 0};
        static const int64_t parts[] = {0, 1, 2, 3, 4, 5, 7, 8}, parts_at[] = {0, 0, 0, 0, 0, 0, 1, 0};
        qkv_ragged marked = data;
        qkv_gather g, plain;
        marked.globals = (qkv_global_rule){.first = 1, .tokens = {2, {102, 111}}};
        if (cut) marked.segment_at = at, marked.segment_size = size;
        qkv_ragged unmarked = marked;
        unmarked.globals = (qkv_global_rule){.first = 1};
        assert_int_equal(qkv_gather_create(&ctx, &marked, 16, 4, &g), QKV_OK);
        assert_int_equal(qkv_gather_create(&ctx, &unmarked, 16, 4, &plain), QKV_OK);
        assert_true(qkv_gather_bytes(&g) > qkv_gather_bytes(&plain) && !plain.global_offset);
        for (int plan = 0; plan < 2; plan++) {
            qkv_batch b;
            qkv_gather_rows(&g, &marked, rows, 4, plan, &b);
            if (!plan) qkv_gather_drop(&g, &b, 1, QKV_TOKEN_UNK, 1, 1);
            assert_memory_equal(b.global_offset, cut ? parts : whole, cut ? sizeof parts : sizeof whole);
            assert_memory_equal(b.global_at, cut ? parts_at : whole_at, cut ? sizeof parts_at : sizeof whole_at);
        }
        /* before there are tokens, those that are told by their places */
        static const int64_t first[] = {0, 1, 1, 2, 3}, firsts[] = {0, 1, 2, 3, 4, 5, 6, 7}, none[7] = {0};
        qkv_batch b;
        marked.ids = NULL;
        qkv_gather_rows(&g, &marked, rows, 4, true, &b);
        assert_memory_equal(b.global_offset, cut ? firsts : first, cut ? sizeof firsts : sizeof first);
        assert_memory_equal(b.global_at, none, (cut ? 7 : 3) * sizeof *none);
        qkv_gather_free(&ctx, &g);
        qkv_gather_free(&ctx, &plain);
    }
    assert_int_equal(memory.blocks, 0);
}

static void dropout_follows_the_row(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_gather g;
    qkv_batch b;
    fill();
    assert_int_equal(qkv_gather_create(&ctx, &data, 300, 6, &g), QKV_OK);
    qkv_gather_rows(&g, &data, (const int64_t[]){5}, 1, false, &b);
    qkv_gather_drop(&g, &b, 0.3, 0, 1, 1);
    int32_t alone[188], dropped = 0;
    memcpy(alone, b.ids, sizeof alone);
    for (int i = 0; i < 188; i++) {
        dropped += alone[i] == 0;
        assert_true(alone[i] == 0 || alone[i] == 112 + i);
    }
    assert_true(dropped > 30 && dropped < 85); /* 56 expected, standard deviation 6.3 */
    /* in company, at another place: the same */
    qkv_gather_rows(&g, &data, (const int64_t[]){4, 0, 5}, 3, false, &b);
    qkv_gather_drop(&g, &b, 0.3, 0, 1, 1);
    assert_memory_equal(alone, b.ids + 7, sizeof alone);
    /* another step, another seed: not the same; p = 0: nothing */
    for (uint64_t k = 0; k < 2; k++) {
        qkv_gather_rows(&g, &data, (const int64_t[]){5}, 1, false, &b);
        qkv_gather_drop(&g, &b, 0.3, 0, 1 + k, 2 - k);
        assert_memory_not_equal(alone, b.ids, sizeof alone);
    }
    qkv_gather_rows(&g, &data, (const int64_t[]){5}, 1, false, &b);
    for (int i = 0; i < 188; i++) g.ids[i] = QKV_TOKEN_SEP; /* what parts two texts stays */
    qkv_gather_drop(&g, &b, 0.95, 0, 1, 1);
    for (int i = 0; i < 188; i++) assert_int_equal(g.ids[i], QKV_TOKEN_SEP);
    qkv_gather_rows(&g, &data, (const int64_t[]){5}, 1, false, &b);
    qkv_gather_drop(&g, &b, 0, 0, 1, 1);
    assert_memory_equal(b.ids, ids + 12, sizeof alone);
    qkv_gather_free(&ctx, &g);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_lie_side_by_side),
        cmocka_unit_test(segments_lie_side_by_side), cmocka_unit_test(global_tokens_are_listed),
        cmocka_unit_test(dropout_follows_the_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
