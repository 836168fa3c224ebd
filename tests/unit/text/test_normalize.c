/* Unicode normalization beside utf8proc's own of whole texts, and where its bytes come from. */
#include "support.h"

#include <utf8proc.h>

#include "base/rng.h"
#include "qkv/tokenizer.h"
#include "text/folded.h"
#include "text/utf8.h"

static void expect_folded(qkv_normalization form, bool lowercase, const char *text, int64_t size, const char *expected) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_folded f;
    assert_int_equal(qkv_folded_make(&ctx, form, lowercase, text, size, &f), QKV_OK);
    assert_int_equal(f.length, strlen(expected));
    assert_memory_equal(f.text, expected, (size_t)f.length);
    qkv_folded_free(&f);
    assert_int_equal(memory.blocks, 0);
}

#define FOLD(form, lowercase, text, expected) expect_folded(form, lowercase, text, sizeof(text) - 1, expected)

static void forms(void **state) {
    (void)state;
    FOLD(QKV_NORMALIZE_NFC, false, "e\u0301 \uFF21\uFF42 \uFB01", "\u00e9 \uFF21\uFF42 \uFB01");
    FOLD(QKV_NORMALIZE_NFKC, false, "e\u0301 \uFF21\uFF42\uFF11\uFF0C \uFB01 \u2460 \u3000.", "\u00e9 Ab1, fi 1  .");
    FOLD(QKV_NORMALIZE_NFKC, true, "\uFF21\uFF22\u0130", "abi\u0307");
    FOLD(QKV_NORMALIZE_NFKC, false, "\uFF76\uFF9E \u304B\u3099",
         "\u30AC \u304C");                                          /* a half-width voiced mark joins what is before it */
    FOLD(QKV_NORMALIZE_NFC, false, "\u1100\u1161\u11A8", "\uAC01"); /* Hangul */
    FOLD(QKV_NORMALIZE_NFC, false, "a\u0323\u0307 a\u0307\u0323", "\u1EA1\u0307 \u1EA1\u0307");
    /* Traditional and simplified characters stay what they are. */
    FOLD(QKV_NORMALIZE_NFKC, true, "\u6F22\u5B57 \u6C49\u5B57 \u9AD4\u4F53", "\u6F22\u5B57 \u6C49\u5B57 \u9AD4\u4F53");
    /* What is no text becomes U+FFFD, one for each bad sequence. */
    FOLD(QKV_NORMALIZE_NFC, false, "a\xFF\xE4\xBD z\0.", "a\uFFFD\uFFFD z\uFFFD.");
    FOLD(QKV_NORMALIZE_NFC, false, "", "");
    FOLD(QKV_NORMALIZE_NONE, false, "e\u0301\xFF", "e\u0301\xFF");
}

/* Pieces with and without marks, from scripts that compose. */
static const char *const pieces[] = {"a",      "e",      "\u0301",     "\u0327",     "\u0323",    "\u1100", "\u1161", "\u11A8",
                                     "\uAC00", "\u304B", "\u3099",     "\uFF76",     "\uFF9E",    "\uFFA1", "\uFFC2", "\uFB01",
                                     "\uFDFA", "\u597D", "\U0001D15E", "\u09C7",     "\u09BE",    "\u212B", "\uFF21", " ",
                                     "Z",      "\u0130", "\u2126",     "\U00011131", "\U00011127"};
enum { PIECES = sizeof pieces / sizeof *pieces };

static void the_same_as_of_the_whole_text(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (uint64_t seed = 0; seed < 3000; seed++) {
        char text[256] = "";
        for (uint64_t i = 0, n = 1 + qkv_below(qkv_key2(seed, 99), 12); i < n; i++)
            strcat(text, pieces[qkv_below(qkv_key2(seed, i), PIECES)]);
        for (int form = QKV_NORMALIZE_NFC; form <= QKV_NORMALIZE_NFKC; form++) {
            utf8proc_uint8_t *whole = form == QKV_NORMALIZE_NFC ? utf8proc_NFC((const utf8proc_uint8_t *)text)
                                                                : utf8proc_NFKC((const utf8proc_uint8_t *)text);
            qkv_folded f;
            assert_int_equal(qkv_folded_make(&ctx, (qkv_normalization)form, false, text, (int64_t)strlen(text), &f), QKV_OK);
            assert_int_equal(f.length, strlen((const char *)whole));
            assert_memory_equal(f.text, whole, (size_t)f.length);
            qkv_folded_free(&f);
            free(whole);
        }
    }
    assert_int_equal(memory.blocks, 0);
}

/* Tokens refer to the text as it was given: in order, every byte covered, none cut inside a code point's bytes. */
static void tokens_cover_the_original(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const char *train[] = {"fi \u00e9a \u30AC\u304C z1", "\uAC01 fi fi ab"};
    int64_t lengths[] = {(int64_t)strlen(train[0]), (int64_t)strlen(train[1])};
    for (int kind = QKV_TOKENIZER_BPE; kind <= QKV_TOKENIZER_BYTE; kind++)
        for (int form = QKV_NORMALIZE_NFC; form <= QKV_NORMALIZE_NFKC; form++) {
            qkv_tokenizer *t;
            qkv_tokenizer_options o = {(qkv_tokenizer_kind)kind, 300, form & 1, form};
            assert_int_equal(qkv_tokenizer_train(&ctx, &o, 2, train, lengths, &t), QKV_OK);
            for (uint64_t seed = 0; seed < 200; seed++) {
                char text[256] = "";
                qkv_token tokens[1024];
                int64_t count, at = 0, size;
                for (uint64_t i = 0; i < 8; i++) strcat(text, i == 5 ? "\xE4\xBD" : pieces[qkv_below(qkv_key2(seed, i), PIECES)]);
                size = (int64_t)strlen(text);
                assert_int_equal(qkv_tokenizer_encode(&ctx, t, text, size, tokens, 1024, &count), QKV_OK);
                assert_true(count > 0 && count <= 1024);
                for (int64_t i = 0; i < count; i++) {
                    assert_true(tokens[i].begin >= 0 && tokens[i].begin <= tokens[i].end && tokens[i].end <= size);
                    assert_true(tokens[i].begin <= at && (i == 0 || tokens[i].begin >= tokens[i - 1].begin));
                    assert_true(tokens[i].end >= at || tokens[i].begin == tokens[i - 1].begin);
                    if (tokens[i].end > at) at = tokens[i].end;
                }
                assert_int_equal(at, size);
            }
            qkv_tokenizer_free(t);
        }
    assert_int_equal(memory.blocks, 0);
}

/* Full-width and ordinary letters are the same tokens under NFKC, and only there. */
static void full_width_letters(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const char *train[] = {"abc abc abc 12"};
    int64_t lengths[] = {14};
    for (int form = QKV_NORMALIZE_NONE; form <= QKV_NORMALIZE_NFKC; form++) {
        qkv_tokenizer *t;
        qkv_token wide[16], plain[16];
        int64_t n, m;
        qkv_tokenizer_options o = {QKV_TOKENIZER_BPE, 300, 1, form};
        assert_int_equal(qkv_tokenizer_train(&ctx, &o, 1, train, lengths, &t), QKV_OK);
        assert_int_equal(qkv_tokenizer_encode(&ctx, t, "\uFF21\uFF42\uFF23", 9, wide, 16, &n), QKV_OK);
        assert_int_equal(qkv_tokenizer_encode(&ctx, t, "AbC", 3, plain, 16, &m), QKV_OK);
        bool same = n == m;
        for (int64_t i = 0; same && i < n; i++) same = wide[i].id == plain[i].id;
        assert_int_equal(same, form == QKV_NORMALIZE_NFKC);
        if (same) assert_true(wide[n - 1].end == 9 && plain[m - 1].end == 3);
        qkv_tokenizer_free(t);
    }
    qkv_tokenizer *t;
    qkv_tokenizer_options bad = {QKV_TOKENIZER_BPE, 300, 1, 7};
    assert_int_equal(qkv_tokenizer_train(&ctx, &bad, 1, train, lengths, &t), QKV_BAD_ARGUMENT);
    assert_int_equal(memory.blocks, 0);
}

/* A megabyte of marks on one letter takes a moment, not a day. */
static void a_heap_of_marks(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    enum { MARKS = 1 << 19 };
    char *text = malloc(2 * MARKS + 1);
    text[0] = 'a';
    for (int i = 0; i < MARKS; i++) memcpy(text + 1 + 2 * i, i & 1 ? "\u0301" : "\u0323", 2);
    qkv_folded f;
    assert_int_equal(qkv_folded_make(&ctx, QKV_NORMALIZE_NFKC, true, text, 2 * MARKS + 1, &f), QKV_OK);
    assert_true(f.length > MARKS);
    qkv_folded_free(&f);
    free(text);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(the_same_as_of_the_whole_text),
        cmocka_unit_test(tokens_cover_the_original),
        cmocka_unit_test(full_width_letters),
        cmocka_unit_test(a_heap_of_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
