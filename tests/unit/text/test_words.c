/* How a text falls into words. */
#include "support.h"

#include "text/words.h"

static int64_t words(const char *text, uint64_t *hash) { return qkv_words(text, (int64_t)strlen(text), hash); }

/* Both texts have the same words, `count` of them. */
static void alike(const char *a, const char *b, int64_t count) {
    uint64_t x[256], y[256];
    assert_int_equal(words(a, x), count);
    assert_int_equal(words(b, y), count);
    assert_memory_equal(x, y, (size_t)count * sizeof *x);
}

static void words_and_marks(void **state) {
    (void)state;
    alike("The cat sat.", "the  CAT\tsat .", 4);
    alike("don't", "don ' t", 3);
    alike("snake_case x2", "Snake_Case X2", 2);
    alike("", " \n\r\t\v", 0);
    alike("a!!", "a ! !", 3);
}

static void other_scripts(void **state) {
    (void)state;
    alike("\xE4\xB8\xAD\xE5\x9B\xBD\xE4\xBA\xBA", "\xE4\xB8\xAD \xE5\x9B\xBD \xE4\xBA\xBA", 3); /* three Han characters */
    uint64_t kinds[4];
    assert_int_equal(words("ab \xE4\xB8\xAD \xE5\x9B\xBD !", kinds), 4);
    for (int i = 0; i < 4; i++) assert_int_equal(qkv_word_is_character(kinds[i]), i == 1 || i == 2);
    alike("abc\xE4\xB8\xAD""def", "abc \xE4\xB8\xAD def", 3);
    alike("\xC3\x89""COLE", "\xC3\xA9""cole", 1);                                             /* É, é */
    alike("\xD0\x9C\xD0\xB8\xD1\x80", "\xD0\xBC\xD0\xB8\xD1\x80", 1);                         /* Мир, мир */
    alike("a\xC2\xA0""b", "a b", 2);                                                            /* no-break space */
    alike("\xE2\x80\x9Cx\xE2\x80\x9D", "\xE2\x80\x9C x \xE2\x80\x9D", 3);                       /* curly quotes */
}

/* Any bytes are legal; a bad sequence is U+FFFD, a word of its own; NUL separates. */
static void any_bytes(void **state) {
    (void)state;
    uint64_t x[16], y[16];
    assert_int_equal(qkv_words("a\xFF""b", 3, x), 3);
    assert_int_equal(qkv_words("a \xEF\xBF\xBD b", 7, y), 3);
    assert_memory_equal(x, y, 3 * sizeof *x);
    assert_int_equal(qkv_words("a\0b", 3, x), 2);
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        assert_true(qkv_words(&byte, 1, x) <= 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_and_marks), cmocka_unit_test(other_scripts), cmocka_unit_test(any_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
