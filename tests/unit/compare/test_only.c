/* Words in the names of measurements. */
#include "support.h"

#include "compare/only.h"

static void whole_words(void **state) {
    (void)state;
    const char *name = "window, first tokens global, 2048 tokens, fold 1 of 5, seed 10";
    assert_true(qkv_only_names("global", name));
    assert_true(qkv_only_names("GLOBAL, 2,048 tokens", name));
    assert_true(qkv_only_names("  fold\t1 of 5 ", name));
    assert_true(qkv_only_names("seed 10", name));
    assert_true(qkv_only_names(name, name));
    assert_true(qkv_only_names(",", name));
    assert_false(qkv_only_names("seed 1", name));
    assert_false(qkv_only_names("token", name));
    assert_false(qkv_only_names("48 tokens", name));
    assert_false(qkv_only_names("fold 1 of 5, seed 10, 3", name));
    assert_false(qkv_only_names("", name));
    assert_false(qkv_only_names(" \n", name));
    assert_true(qkv_only_names("seed 1", "seed 12, seed 1")); /* the second of two */
}

static void long_ones(void **state) {
    (void)state;
    char words[600];
    memset(words, 'a', sizeof words - 1);
    words[sizeof words - 1] = 0;
    assert_false(qkv_only_names(words, "aaa"));
    assert_false(qkv_only_names("aaa", words));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_words), cmocka_unit_test(long_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
