#include "support.h"

#include "text/bytemap.h"
#include "text/utf8.h"

static void check(const char *bytes, int64_t length, int expect_size, int32_t expect_cp) {
    int32_t cp = -1;
    assert_int_equal(qkv_utf8_next(bytes, length, &cp), expect_size);
    assert_int_equal(cp, expect_cp);
}

static void every_code_point_reads_back(void **state) {
    (void)state;
    for (int32_t cp = 0; cp <= 0x10FFFF; cp++) {
        if (cp == 0xD800) cp = 0xE000;
        char bytes[4];
        int size = qkv_utf8_put(cp, bytes), expect = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
        assert_int_equal(size, expect);
        check(bytes, size, size, cp);
        if (size > 1) check(bytes, size - 1, -(size - 1), 0xFFFD); /* cut short: all of it is one bad sequence */
    }
}

static void what_is_not_a_code_point_is_replaced(void **state) {
    (void)state;
    char bytes[4];
    const int32_t bad[] = {-1, 0xD800, 0xDFFF, 0x110000, INT32_MAX};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(qkv_utf8_put(bad[i], bytes), 3);
        assert_memory_equal(bytes, "\xEF\xBF\xBD", 3);
    }
}

/* Unicode 15, section 3.9, tables 3-8 to 3-11. */
static void bad_sequences_are_maximal_subparts(void **state) {
    (void)state;
    check("\x80", 1, -1, 0xFFFD);
    check("\xC0\xAF", 2, -1, 0xFFFD);
    check("\xC1\xBF", 2, -1, 0xFFFD);
    check("\xE0\x80\xAF", 3, -1, 0xFFFD);
    check("\xE0\x9F\xBF", 3, -1, 0xFFFD);
    check("\xED\xA0\x80", 3, -1, 0xFFFD);
    check("\xED\x9F\xBF", 3, 3, 0xD7FF);
    check("\xF0\x8F\xBF\xBF", 4, -1, 0xFFFD);
    check("\xF4\x90\x80\x80", 4, -1, 0xFFFD);
    check("\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF);
    check("\xF5\x80\x80\x80", 4, -1, 0xFFFD);
    check("\xFF", 1, -1, 0xFFFD);
    check("\xE1\x80\xE2", 3, -2, 0xFFFD);
    check("\xF0\x91\x92", 3, -3, 0xFFFD);
    check("\xF1\xBF"
          "A",
          3, -2, 0xFFFD);
    check("\xC3"
          "A",
          2, -1, 0xFFFD);
}

static void faults_count_bad_sequences_and_nul(void **state) {
    (void)state;
    assert_int_equal(qkv_utf8_faults("", 0), 0);
    assert_int_equal(qkv_utf8_faults("plain \xE4\xBD\xA0 \xF0\x9F\x98\x80", 14), 0);
    assert_int_equal(qkv_utf8_faults("a\0b\0", 4), 2);
    assert_int_equal(qkv_utf8_faults("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                                     "A",
                                     9),
                     4);
    assert_int_equal(qkv_utf8_faults("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                                     "A",
                                     9),
                     8);
}

static void every_byte_has_a_letter(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_buf b = {.ctx = &ctx};
    char bytes[256], back[600];
    for (int i = 0; i < 256; i++) bytes[i] = (char)i;
    assert_int_equal(qkv_bytemap_put(&b, bytes, 256), QKV_OK);
    assert_int_equal(qkv_utf8_faults(b.p, b.size), 0);
    for (int64_t i = 0; i < b.size; i++) assert_true((unsigned char)b.p[i] > 32 && b.p[i] != 127);
    assert_int_equal(qkv_bytemap_get(b.p, b.size, back), 256);
    assert_memory_equal(back, bytes, 256);
    qkv_buf_free(&b);

    assert_int_equal(qkv_bytemap_put(&b, " \nA\xAD", 4), QKV_OK); /* as GPT-2 writes them */
    assert_string_equal(b.p, "\u0120\u010A"
                             "A\u0143");
    qkv_buf_free(&b);
    assert_int_equal(memory.blocks, 0);

    assert_int_equal(qkv_bytemap_get(" ", 1, back), -1);
    assert_int_equal(qkv_bytemap_get("\u0144", 2, back), -1);
    assert_int_equal(qkv_bytemap_get("\u00AD", 2, back), -1);
    assert_int_equal(qkv_bytemap_get("\xC4", 1, back), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_reads_back),
        cmocka_unit_test(what_is_not_a_code_point_is_replaced),
        cmocka_unit_test(bad_sequences_are_maximal_subparts),
        cmocka_unit_test(faults_count_bad_sequences_and_nul),
        cmocka_unit_test(every_byte_has_a_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
