#include "samples.h"

#include "text/folded.h"
#include "text/pieces.h"

/* The pieces of a text, with | between them. */
static void expect_pieces(const char *text, const char *expected) {
    char joined[1024];
    int64_t length = (int64_t)strlen(text), at = 0;
    for (int64_t begin = 0, end; begin < length; begin = end) {
        end = qkv_piece_end(text, length, begin);
        assert_true(end > begin && end <= length);
        if (begin > 0) joined[at++] = '|';
        memcpy(joined + at, text + begin, (size_t)(end - begin));
        at += end - begin;
    }
    joined[at] = 0;
    assert_string_equal(joined, expected);
}

static void words_take_one_space(void **state) {
    (void)state;
    expect_pieces("Hello world", "Hello| world");
    expect_pieces("a  b", "a| | b");
    expect_pieces("a \t b ", "a| \t| b| ");
    expect_pieces("a\tb\nc", "a|\t|b|\n|c");
    expect_pieces("a\u3000b\u00A0c", "a|\u3000|b|\u00A0|c");
    expect_pieces(" ", " ");
    expect_pieces("   ", "   ");
}

static void digits_go_by_three(void **state) {
    (void)state;
    expect_pieces("1234567", "123|456|7");
    expect_pieces("in 1984.", "in| 198|4|.");
    expect_pieces("\u0967\u0968\u0969\u096A", "\u0967\u0968\u0969|\u096A");
    expect_pieces("1\uFE0F\u20E3x", "1\uFE0F\u20E3|x");
}

static void apostrophes_inside_words_belong_to_them(void **state) {
    (void)state;
    expect_pieces("don't \u2018it\u2019s\u2019 'tis", "don't| \u2018|it\u2019s|\u2019| '|tis");
    expect_pieces("o'1 a''b a'", "o|'|1| a|''|b| a|'");
}

static void marks_and_joiners_do_not_split(void **state) {
    (void)state;
    expect_pieces("nai\u0308ve", "nai\u0308ve");
    expect_pieces("\u0928\u092E\u0938\u094D\u0924\u0947", "\u0928\u092E\u0938\u094D\u0924\u0947");
    expect_pieces("\U0001F469\u200D\U0001F4BB!x", "\U0001F469\u200D\U0001F4BB!|x");
    expect_pieces("\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645", "\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645");
}

static void other_scripts_are_letters(void **state) {
    (void)state;
    expect_pieces("\u4F60\u597D\uFF0C\u4E16\u754C", "\u4F60\u597D|\uFF0C|\u4E16\u754C");
    expect_pieces("\u3070\u3067abc", "\u3070\u3067abc");
    expect_pieces("\xFF\xFE"
                  "a",
                  "\xFF\xFE|a");
}

static void pieces_cover_any_bytes(void **state) {
    (void)state;
    samples s = samples_make(7, 3000);
    for (int64_t i = 0; i < s.count; i++)
        for (int64_t begin = 0, end; begin < s.lengths[i]; begin = end) {
            end = qkv_piece_end(s.texts[i], s.lengths[i], begin);
            assert_true(end > begin && end <= s.lengths[i]);
        }
    samples_free(&s);
}

static void long_runs_are_cut(void **state) {
    (void)state;
    int64_t length = 3 * (int64_t)QKV_PIECE_LIMIT;
    char *text = malloc((size_t)length);
    for (int64_t i = 0; i < length; i += 3) memcpy(text + i, "\u4F60", 3);
    int64_t count = 0;
    for (int64_t begin = 0, end; begin < length; begin = end, count++) {
        end = qkv_piece_end(text, length, begin);
        assert_true(end - begin < QKV_PIECE_LIMIT + 3 && end % 3 == 0);
    }
    assert_int_equal(count, 3);
    memset(text, ' ', (size_t)length);
    assert_int_equal(qkv_piece_end(text, length, 0), QKV_PIECE_LIMIT);
    free(text);
}

static void lower_case_keeps_its_origin(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_folded f;
    const char *text = "A\u0130\u212Ab\xFF\u00C9\u1E9E\u023A."; /* 1 + 2 + 3 + 1 + 1 + 2 + 3 + 2 + 1 bytes */
    assert_int_equal(qkv_folded_make(&ctx, QKV_NORMALIZE_NONE, true, text, 16, &f), QKV_OK);
    const char *lower = "ai\u0307kb\xFF\u00E9\u00DF\u2C65."; /* 1 + 3 + 1 + 1 + 1 + 2 + 2 + 3 + 1 bytes */
    assert_int_equal(f.length, 15);
    assert_memory_equal(f.text, lower, 15);
    const int64_t begins[] = {0, 1, 1, 1, 3, 6, 7, 8, 9, 10, 10, 13, 13, 13, 15};
    const int64_t ends[] = {1, 3, 3, 3, 6, 7, 8, 9, 10, 13, 13, 15, 15, 15, 16};
    int64_t b = 0, e = 0;
    for (int64_t i = 0; i < 15; i++) {
        assert_int_equal(qkv_folded_begin(&f, &b, i), begins[i]);
        assert_int_equal(qkv_folded_end(&f, &e, i + 1), ends[i]);
    }
    qkv_folded_free(&f);
    assert_int_equal(memory.blocks, 0);
}

/* The folding buffer has room for half as much again. */
static void lower_case_never_grows_by_more_than_half(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (int32_t cp = 0; cp <= 0x10FFFF; cp++) {
        if (cp == 0xD800) cp = 0xE000;
        char text[4];
        int size = qkv_utf8_put(cp, text);
        qkv_folded f;
        assert_int_equal(qkv_folded_make(&ctx, QKV_NORMALIZE_NONE, true, text, size, &f), QKV_OK);
        assert_true(2 * f.length <= 3 * size);
        assert_int_equal(qkv_utf8_faults(f.text, f.length), cp == 0);
        qkv_folded_free(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_take_one_space),
        cmocka_unit_test(digits_go_by_three),
        cmocka_unit_test(apostrophes_inside_words_belong_to_them),
        cmocka_unit_test(marks_and_joiners_do_not_split),
        cmocka_unit_test(other_scripts_are_letters),
        cmocka_unit_test(pieces_cover_any_bytes),
        cmocka_unit_test(long_runs_are_cut),
        cmocka_unit_test(lower_case_keeps_its_origin),
        cmocka_unit_test(lower_case_never_grows_by_more_than_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
