/* How a text falls into words. */
#include "support.h"

#include "text/words.h"

static int64_t words(const char *text, uint64_t *hash) {
    uint64_t beginning[256];
    int64_t beginnings;
    return qkv_words(text, (int64_t)strlen(text), hash, beginning, &beginnings);
}

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
    uint64_t x[16], y[16], beginning[16];
    int64_t beginnings;
    assert_int_equal(qkv_words("a\xFF""b", 3, x, beginning, &beginnings), 3);
    assert_int_equal(qkv_words("a \xEF\xBF\xBD b", 7, y, beginning, &beginnings), 3);
    assert_memory_equal(x, y, 3 * sizeof *x);
    assert_int_equal(qkv_words("a\0b", 3, x, beginning, &beginnings), 2);
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        assert_true(qkv_words(&byte, 1, x, beginning, &beginnings) <= 1);
    }
}

/* Both have the same beginnings, `count` of them. */
static void begin_alike(const char *a, const char *b, int64_t count) {
    uint64_t x[64], y[64], beginning[2][64];
    int64_t beginnings[2];
    qkv_words(a, (int64_t)strlen(a), x, beginning[0], &beginnings[0]);
    int64_t words = qkv_words(b, (int64_t)strlen(b), y, beginning[1], &beginnings[1]);
    assert_int_equal(beginnings[0], count);
    assert_int_equal(beginnings[1], count);
    assert_memory_equal(beginning[0], beginning[1], (size_t)count * sizeof *x);
    for (int64_t i = 0; i < words; i++)
        for (int64_t k = 0; k < count; k++) assert_true(y[i] != beginning[1][k]);
}

/* Of words of more than 4 letters 4, of more than 6 letters 6 too; letters, not bytes, and none of characters that are words. */
static void beginnings_of_words(void **state) {
    (void)state;
    begin_alike("film it", "a b", 0);
    begin_alike("Films, film filmed", "filmer film FILM'filmy", 2);
    begin_alike("wonder wonders Wonderful!", "wond wondxx wonderxyz wonderland", 5);
    begin_alike("a_b_c", "a_b_xy", 1);
    begin_alike("\xD0\x9C\xD0\xB8\xD1\x80\xD0\xBE\xD0\xB2", "\xD0\xBC\xD0\xB8\xD1\x80\xD0\xBE\xD0\xB9", 1); /* Миров, мирой */
    begin_alike("\xD0\x9C\xD0\xB8\xD1\x80", "abc", 0);
    begin_alike("\xE4\xB8\xAD\xE5\x9B\xBD\xE4\xBA\xBA\xE4\xB8\xAD\xE5\x9B\xBD\xE4\xBA\xBA", "", 0);
    begin_alike("aaaaa!bbbbb", "aaaab bbbba", 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_and_marks), cmocka_unit_test(other_scripts), cmocka_unit_test(any_bytes),
                                       cmocka_unit_test(beginnings_of_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
