/* Groups of queries of a pattern: the random blocks that each is given, and the residue classes of dilation. */
#include "ops.h"

#include "ops/attention.h"

static void random_blocks(void **state) {
    (void)state;
    const qkv_pattern p = {.random_blocks = 3, .block = 16, .seed = 4}, q = {.random_blocks = 3, .block = 16, .seed = 5};
    int64_t differ = 0, drawn[64] = {0};
    for (int64_t n = 1; n < 700; n += 37) {
        const qkv_seen seen = {&p, 0, n, n, 10, 10}, moved = {&p, 9, n, n, 10, 10}, other = {&q, 0, n, n, 10, 10};
        for (int64_t g = 0; g < qkv_groups(&seen); g++) {
            const qkv_group group = qkv_group_of(&seen, g);
            int32_t list[64], again[64], different[64];
            const int64_t keys = qkv_group_list(&seen, &group, list), b0 = group.first / 16;
            assert_int_equal(keys, qkv_group_keys(&seen, &group));
            assert_int_equal(keys, qkv_group_list(&moved, &group, again)); /* where in the batch does not matter */
            assert_memory_equal(list, again, (size_t)keys * sizeof *list);
            for (int64_t i = 0; i < keys; i++) {
                assert_true(list[i] >= 0 && list[i] < n && (i == 0 || list[i] > list[i - 1]));
                assert_true(llabs(list[i] / 16 - b0) > 1); /* the window of a block reaches its neighbours */
                drawn[list[i] / 16]++;
            }
            int64_t blocks = (n + 15) / 16, near = 1 + (b0 > 0) + (b0 + 1 < blocks), wanted = blocks - near < 3 ? blocks - near : 3;
            if (blocks - near < 0) wanted = 0;
            int64_t whole = 0;
            for (int64_t i = 0; i < keys; i++) whole += i == 0 || list[i] / 16 != list[i - 1] / 16;
            assert_int_equal(whole, wanted);
            qkv_group_list(&other, &group, different);
            differ += keys > 0 && memcmp(list, different, (size_t)keys * sizeof *list) != 0;
        }
    }
    assert_true(differ > 100);
    for (int i = 0; i < 40; i++) assert_true(drawn[i] > 0);
}

/* What is computed of classes and groups, against counting: short and long, with the queries at the end of the keys or before them.
 */
static void classes(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 2, 7, 50, 1999, 4100};
    for (int64_t step = 1; step < 9; step += step == 4 ? 3 : 1)
        for (size_t a = 0; a < sizeof lengths / sizeof *lengths; a++)
            for (size_t b = 0; b < sizeof lengths / sizeof *lengths; b++) {
                const qkv_pattern p = {.dilation = step, .global_first = 1};
                const qkv_seen s = {.pattern = &p, .n_q = lengths[a], .n_k = lengths[b], .left = 1, .right = 1};
                int64_t queries = 0, group = 0;
                for (int64_t c = 0; c < step; c++) {
                    assert_int_equal(qkv_residues_below(&s, c), queries);
                    const qkv_residue r = qkv_residue_of(&s, c);
                    for (int64_t from = 0; from < r.n_q && s.n_k > 0; from += 960, group++) {
                        const qkv_group g = qkv_group_of(&s, group);
                        assert_true(g.class == c && g.step == step && g.first == r.first + from * step &&
                                    g.rows == (r.n_q - from < 960 ? r.n_q - from : 960));
                    }
                    queries += r.n_q;
                }
                assert_int_equal(queries, s.n_q);
                assert_int_equal(qkv_groups(&s), group);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_blocks), cmocka_unit_test(classes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
