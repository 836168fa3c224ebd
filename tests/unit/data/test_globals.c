/* Which tokens are global: rules, one by one and together, and lists of numbers. */
#include "support.h"

#include "data/globals.h"
#include "qkv/tokenizer.h"

enum { N = 12 };
static const int32_t ids[N] = {QKV_TOKEN_CLS, 7, 9, QKV_TOKEN_SEP, 5, 9, 9, 8, QKV_TOKEN_SEP, 7, 7, 5};

/* The places of these tokens, as "0 3 8 ". */
static void listed(const qkv_global_rule *g, const int32_t *of, int64_t n, const char *expected) {
    int64_t list[N];
    char text[64] = "";
    const int64_t count = qkv_globals_list(g, of, n, list);
    for (int64_t i = 0; i < count; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "%lld ", (long long)list[i]);
    assert_string_equal(text, expected);
}

static void rules(void **state) {
    (void)state;
    listed(&(qkv_global_rule){.first = 2}, ids, N, "0 1 ");
    listed(&(qkv_global_rule){.first = 20}, ids, 3, "0 1 2 ");
    listed(&(qkv_global_rule){.every = 5}, ids, N, "0 5 10 ");
    listed(&(qkv_global_rule){.places = {2, {3, 200}}}, ids, N, "3 ");
    listed(&(qkv_global_rule){.tokens = {2, {5, 9}}}, ids, N, "2 4 5 6 11 ");
    listed(&(qkv_global_rule){.tokens = {1, {QKV_TOKEN_SEP}}}, ids, N, "3 8 ");
    listed(&(qkv_global_rule){.question = true}, ids, N, "0 1 2 3 "); /* up to the first SEP */
    listed(&(qkv_global_rule){.question = true}, ids + 4, 4, "");     /* there is none */
    listed(&(qkv_global_rule){.first = 1, .every = 6, .places = {1, {2}}, .tokens = {1, {7}}, .question = true}, ids, N,
           "0 1 2 3 6 9 10 ");
    listed(&(qkv_global_rule){.tokens = {1, {7}}}, ids, 0, "");
    /* of what they are nothing is known */
    listed(&(qkv_global_rule){.places = {1, {2}}, .tokens = {1, {7}}, .question = true}, NULL, N, "2 ");
}

static void kinds_of_rules(void **state) {
    (void)state;
    const qkv_global_rule by_place = {.first = 1, .every = 2}, at = {.places = {1, {4}}}, of = {.tokens = {1, {4}}},
                          question = {.question = true};
    assert_false(qkv_globals_listed(&by_place) || qkv_globals_read(&by_place));
    assert_true(qkv_globals_listed(&at) && !qkv_globals_read(&at));
    assert_true(qkv_globals_listed(&of) && qkv_globals_read(&of));
    assert_true(qkv_globals_listed(&question) && qkv_globals_read(&question));
}

static void numbers(void **state) {
    (void)state;
    qkv_numbers n = {0};
    assert_true(qkv_numbers_parse("17,0,5,5", 17, &n));
    assert_true(n.count == 3 && n.at[0] == 0 && n.at[1] == 5 && n.at[2] == 17);
    assert_true(qkv_numbers_parse("", 17, &n) && n.count == 0);
    static const char *const wrong[] = {"18", "-1", "1,", ",1", "1,,2", "x", "1 2", "1.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(qkv_numbers_parse(wrong[i], 17, &n));
    n.count = 0;
    for (int64_t i = 0; i < QKV_NUMBERS_MOST; i++) assert_true(qkv_numbers_add(&n, 2 * (QKV_NUMBERS_MOST - i)));
    assert_true(qkv_numbers_add(&n, 4)); /* is there */
    assert_false(qkv_numbers_add(&n, 5));
    assert_true(n.count == QKV_NUMBERS_MOST && n.at[0] == 2 && n.at[15] == 32);
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    assert_int_equal(qkv_numbers_check(&ctx, "global-at", "1,2", 9), QKV_OK);
    assert_int_equal(qkv_numbers_check(&ctx, "global-at", "1,x", 9), QKV_BAD_CONFIG);
    assert_string_equal(ctx.message, "global-at=1,x: expected up to 16 whole numbers from 0 to 9, with commas between");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules), cmocka_unit_test(kinds_of_rules), cmocka_unit_test(numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
