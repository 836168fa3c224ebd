/* Where a text is cut into segments. */
#include "support.h"

#include "text/segments.h"
#include "text/tokenizer.h"

enum { ROOM = 256 };

/* Cuts a text whose tokens are its bytes, and returns it with a bar at each cut. */
static const char *cut(qkv_segmentation kind, int64_t limit, const char *text) {
    static char out[2 * ROOM];
    qkv_token tokens[ROOM];
    int32_t sizes[ROOM];
    const int64_t length = (int64_t)strlen(text);
    assert_true(length <= ROOM);
    for (int64_t i = 0; i < length; i++) tokens[i] = (qkv_token){7, i, i + 1};
    const int64_t segments = qkv_segments_of(kind, limit, text, length, tokens, length, sizes);
    int64_t at = 0;
    char *to = out;
    for (int64_t s = 0; s < segments; s++) {
        assert_true(sizes[s] >= 1 && sizes[s] <= limit);
        if (s > 0) *to++ = '|';
        memcpy(to, text + at, (size_t)sizes[s]);
        to += sizes[s];
        at += sizes[s];
    }
    assert_int_equal(at, length);
    *to = 0;
    return out;
}

static void fixed(void **state) {
    (void)state;
    assert_string_equal(cut(QKV_SEGMENT_TOKENS, 4, "abcdefghij"), "abcd|efgh|ij");
    assert_string_equal(cut(QKV_SEGMENT_TOKENS, 4, "a. b"), "a. b");
    assert_string_equal(cut(QKV_SEGMENT_TOKENS, 1, "abc"), "a|b|c");
    assert_string_equal(cut(QKV_SEGMENT_TOKENS, 4, ""), "");
}

static void sentences(void **state) {
    (void)state;
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "One. Two! Three? Four"), "One.| Two!| Three?| Four");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "One."), "One.");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "One.  "), "One.  ");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "3.14 at example.org, e.g.x"), "3.14 at example.org, e.g.x");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "Mr. Smith"), "Mr.| Smith");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "So?! \"Yes.\" (No.) x"), "So?!| \"Yes.\"| (No.)| x");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "a line\nand\r\n\r\n another"), "a line|\nand|\r\n\r\n another");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "first\tsecond"), "first|\tsecond");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "\n\n x. y"), "\n\n x.| y");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 4, "abcdefg. h"), "abcd|efg.| h");
}

/* U+3002, U+FF01 and U+FF1F end a sentence wherever they stand; U+300D closes a quotation. */
static void wide_sentences(void **state) {
    (void)state;
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "\xE4\xB8\xAD\xE3\x80\x82\xE5\x9B\xBD"),
                        "\xE4\xB8\xAD\xE3\x80\x82|\xE5\x9B\xBD");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99,
                            "a\xEF\xBC\x81\xEF\xBC\x9F\xE3\x80\x8D"
                            "b"),
                        "a\xEF\xBC\x81\xEF\xBC\x9F\xE3\x80\x8D|b");
    assert_string_equal(cut(QKV_SEGMENT_SENTENCES, 99, "a\xE3\x80\x82 b"), "a\xE3\x80\x82| b");
}

static void words(void **state) {
    (void)state;
    assert_string_equal(cut(QKV_SEGMENT_WORDS, 9, "The cat, it's"), "The| cat,| it's");
    assert_string_equal(cut(QKV_SEGMENT_WORDS, 9, "  a \n\t b "), "  a| \n\t b ");
    assert_string_equal(cut(QKV_SEGMENT_WORDS, 3, "a hundred"), "a| hu|ndr|ed");
    /* Han characters, with and without space before them, and letters between */
    assert_string_equal(cut(QKV_SEGMENT_WORDS, 9, "\xE4\xB8\xAD\xE5\x9B\xBD"), "\xE4\xB8\xAD|\xE5\x9B\xBD");
    assert_string_equal(cut(QKV_SEGMENT_WORDS, 9,
                            "ab\xE4\xB8\xAD \xE5\x9B\xBD"
                            "cd"),
                        "ab|\xE4\xB8\xAD| \xE5\x9B\xBD|cd");
}

/* A token that reaches over a cut is not cut; what follows it begins a segment. A token of no bytes stands with what comes next. */
static void whole_tokens(void **state) {
    (void)state;
    int32_t sizes[8];
    const char *text = "\xE4\xB8\xAD\xE5\x9B\xBD\xE4\xBA\xBA x";
    const qkv_token tokens[] = {{1, 0, 0}, {9, 0, 6}, {9, 6, 9}, {9, 9, 11}};
    assert_int_equal(qkv_segments_of(QKV_SEGMENT_WORDS, 9, text, 11, tokens, 4, sizes), 3);
    assert_int_equal(sizes[0], 2);
    assert_int_equal(sizes[1], 1);
    assert_int_equal(sizes[2], 1);
    /* a text that was cut has fewer tokens than bytes */
    assert_int_equal(qkv_segments_of(QKV_SEGMENT_WORDS, 9, text, 11, tokens, 2, sizes), 1);
    assert_int_equal(qkv_segments_of(QKV_SEGMENT_SENTENCES, 9, text, 11, tokens, 0, sizes), 0);
}

/* Any bytes, by every tokenizer: each token is in one segment. */
static void any_bytes(void **state) {
    (void)state;
    qkv_ctx ctx = test_ctx(&(test_memory){0});
    static const char text[] = "One. \xFF\xFE two\0three.\n\xE3\x80\x82\xE4\xB8\xAD ? ! x\xCC\x81.\" y";
    const char *texts[] = {text};
    const int64_t lengths[] = {sizeof text - 1};
    for (int kind = 0; kind < 3; kind++) {
        const qkv_tokenizer_options options = {(qkv_tokenizer_kind)kind, 300, 1, QKV_NORMALIZE_NFKC};
        qkv_tokenizer *t;
        qkv_token tokens[ROOM];
        int32_t sizes[ROOM];
        int64_t count;
        assert_int_equal(qkv_tokenizer_train(&ctx, &options, 1, texts, lengths, &t), QKV_OK);
        assert_int_equal(qkv_tokenizer_encode(&ctx, t, text, lengths[0], tokens, ROOM, &count), QKV_OK);
        for (int k = QKV_SEGMENT_WORDS; k <= QKV_SEGMENT_TOKENS; k++)
            for (int64_t limit = 1; limit < 12; limit += 5) {
                const int64_t n = qkv_segments_of((qkv_segmentation)k, limit, text, lengths[0], tokens, count, sizes);
                int64_t all = 0;
                for (int64_t i = 0; i < n; i++) {
                    assert_true(sizes[i] >= 1 && sizes[i] <= limit);
                    all += sizes[i];
                }
                assert_int_equal(all, count);
            }
        qkv_tokenizer_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fixed), cmocka_unit_test(sentences),    cmocka_unit_test(wide_sentences),
                                       cmocka_unit_test(words), cmocka_unit_test(whole_tokens), cmocka_unit_test(any_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
