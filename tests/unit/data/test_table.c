#include "support.h"

#include <zlib.h>

#include "base/hash.h"
#include "data/table.h"

static qkv_status read_bytes(qkv_ctx *ctx, const char *bytes, int64_t size, qkv_table *t) {
    char path[512];
    test_write_file(test_path("t.tsv", path), bytes, (size_t)size);
    qkv_status status = qkv_table_read(ctx, path, NULL, QKV_WANT_LABEL, false, t);
    remove(path);
    return status;
}

/* The message, without the folder. */
static void expect_bad(const char *bytes, int64_t size, const char *sentence) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_table t;
    assert_int_equal(read_bytes(&ctx, bytes, size, &t), QKV_BAD_DATA);
    const char *said = strstr(ctx.message, "t.tsv");
    assert_non_null(said);
    assert_string_equal(said, sentence);
    qkv_table_free(&t);
    assert_int_equal(memory.blocks, 0);
}

#define BAD(bytes, sentence) expect_bad(bytes, sizeof(bytes) - 1, sentence)

static void expect_row(const qkv_table *t, int64_t i, const char *label, const char *text, int64_t size, int64_t line) {
    assert_string_equal(t->rows[i].label, label);
    assert_int_equal(t->rows[i].label_size, strlen(label));
    assert_int_equal(t->rows[i].text_size, size);
    assert_memory_equal(t->rows[i].text, text, (size_t)size);
    assert_int_equal(t->rows[i].text[size], 0);
    assert_int_equal(t->rows[i].line, line);
}

static void rows_are_label_tab_text(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_table t;
    const char bytes[] = "\xEF\xBB\xBFvery good\tfine\tfilm\r\nbad\t\nbad\ta\0b\n\u597D\t\u4F60\xFF\u597D\ngood\t last \n\n\r\n";
    assert_int_equal(read_bytes(&ctx, bytes, sizeof bytes - 1, &t), QKV_OK);
    assert_int_equal(t.count, 5);
    expect_row(&t, 0, "very good", "fine\tfilm", 9, 1);
    expect_row(&t, 1, "bad", "", 0, 2);
    expect_row(&t, 2, "bad", "a\0b", 3, 3);
    expect_row(&t, 3, "\u597D", "\u4F60\xFF\u597D", 7, 4);
    expect_row(&t, 4, "good", " last ", 6, 5);
    assert_int_equal(t.empty_rows, 1);
    assert_int_equal(t.repaired_rows, 2);
    qkv_table_free(&t);
    assert_int_equal(memory.blocks, 0);
}

/* CRLF, the last line break, the mark and the compression do not matter; the order does. */
static void the_hash_is_of_the_rows(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const char *same[] = {"a\tb\nc\td\n", "a\tb\r\nc\td",
                          ("\xEF\xBB\xBF"
                           "a\tb\nc\td\r\n")},
               *other[] = {"c\td\na\tb\n", "a\tb\nc\te\n", "a\tbc\nc\td\n"};
    qkv_table t;
    uint64_t hash = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_bytes(&ctx, same[i], (int64_t)strlen(same[i]), &t), QKV_OK);
        if (i == 0) hash = t.hash;
        assert_true(t.hash == hash);
        qkv_table_free(&t);
        assert_int_equal(read_bytes(&ctx, other[i], (int64_t)strlen(other[i]), &t), QKV_OK);
        assert_true(t.hash != hash);
        qkv_table_free(&t);
    }
    char path[512];
    gzFile gz = gzopen(test_path("t.gz", path), "wb");
    gzputs(gz, same[0]);
    gzclose(gz);
    assert_int_equal(qkv_table_read(&ctx, path, NULL, QKV_WANT_LABEL, false, &t), QKV_OK);
    assert_true(t.hash == hash);
    qkv_table_free(&t);
    remove(path);
}

static void bad_rows_are_named_with_their_line(void **state) {
    (void)state;
    BAD("", "t.tsv: no rows, the file is empty");
    BAD("\n\r\n\n", "t.tsv: no rows, the file is empty");
    BAD("a\tb\nno tab here\n", "t.tsv:2: 1 column, expected 2 (label<TAB>text)");
    BAD("a\tb\r\n\ttext\r\n", "t.tsv:2: the label before the tab is empty");
    BAD("a\tb\n\n\nc\td\n", "t.tsv:2: empty line, expected 2 columns (label<TAB>text)");
    BAD("a\tb\na\0b\tc\n", "t.tsv:2: the label holds a NUL byte");
}

static void other_kinds_of_files_are_named(void **state) {
    (void)state;
    const char *u16 = "t.tsv: this is UTF-16 text (little-endian): convert it with iconv -f UTF-16LE -t UTF-8; expected UTF-8 "
                      "lines label<TAB>text";
    BAD("\xFF\xFE"
        "a\0\t\0b\0\n\0",
        u16);
    BAD("a\0b\0c\0\t\0d\0\n\0e\0\t\0f\0\n\0", u16);
    BAD("\0a\0b\0c\0\t\0d\0\n",
        "t.tsv: this is UTF-16 text (big-endian): convert it with iconv -f UTF-16BE -t UTF-8; expected UTF-8 lines label<TAB>text");
    BAD("\xFE\xFF\0a\0\t\0b\0\n",
        "t.tsv: this is UTF-16 text (big-endian): convert it with iconv -f UTF-16BE -t UTF-8; expected UTF-8 lines label<TAB>text");
    BAD("PK\x03\x04\x14\0\0\0\x08\0", "t.tsv: this is a zip archive (or an office document); expected UTF-8 lines label<TAB>text");
    BAD("\x7F"
        "ELF\2\1\1\0\0\0\0\0\0\0\0\0",
        "t.tsv: this is an ELF program; expected UTF-8 lines label<TAB>text");
    BAD("%PDF-1.4\n%\xE2\xE3\xCF\xD3\n", "t.tsv: this is a PDF document; expected UTF-8 lines label<TAB>text");
    BAD("\x48\0\0\0\0\0\0\0{\"__metadata__\":{}}",
        "t.tsv: this is a safetensors file (a model?); expected UTF-8 lines label<TAB>text");
    BAD("\1\2\3\4\5\6x\x80\x81\x82\x83y",
        "t.tsv: this is binary data (6 control characters in the first 12 bytes); expected UTF-8 lines label<TAB>text");
}

static void gzip_inside_gzip_is_named(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char inner[512], outer[512], bytes[4096];
    gzFile gz = gzopen(test_path("inner.gz", inner), "wb");
    gzputs(gz, "label\ttext\n");
    gzclose(gz);
    FILE *f = fopen(inner, "rb");
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    gz = gzopen(test_path("outer.gz", outer), "wb");
    assert_int_equal(gzwrite(gz, bytes, (unsigned)size), size);
    gzclose(gz);
    qkv_table t;
    assert_int_equal(qkv_table_read(&ctx, inner, NULL, QKV_WANT_LABEL, false, &t), QKV_OK);
    qkv_table_free(&t);
    assert_int_equal(qkv_table_read(&ctx, outer, NULL, QKV_WANT_LABEL, false, &t), QKV_BAD_DATA);
    assert_non_null(strstr(ctx.message, "outer.gz: this is gzip inside gzip"));
    remove(inner);
    remove(outer);
    assert_int_equal(memory.blocks, 0);
}

static int stop_at(void *user) {
    int *calls = user;
    return --*calls < 0;
}

static void reading_stops_when_asked(void **state) {
    (void)state;
    char *bytes = malloc(1 << 20);
    int64_t size = 0;
    for (int i = 0; i < 20000; i++) size += sprintf(bytes + size, "l%d\ttext %d\n", i % 3, i);
    for (int polls = 0; polls < 5; polls++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        int left = polls;
        ctx.stop = stop_at;
        ctx.stop_user = &left;
        qkv_table t;
        assert_int_equal(read_bytes(&ctx, bytes, size, &t), QKV_STOPPED);
        assert_non_null(strstr(ctx.message, "t.tsv: stopped on request at line "));
        assert_int_equal(memory.blocks, 0);
    }
    free(bytes);
}

/* What looks odd but is a row. */
static void odd_rows_are_rows(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    static const char *const texts[] = {"%PDF-1.4\tis a label", "BZh\tso is this", "spam\t\1\2\3\4\5\6\7", "a\t\xFF\xFE",
                                        "\u00FF\u00FE\tx"};
    qkv_table t;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(read_bytes(&ctx, texts[i], (int64_t)strlen(texts[i]), &t), QKV_OK);
        assert_int_equal(t.count, 1);
        qkv_table_free(&t);
    }
    assert_int_equal(read_bytes(&ctx, "a\t\0\0\0\0\0\0\0\0\n", 11, &t), QKV_OK);
    assert_int_equal(t.repaired_rows, 1);
    qkv_table_free(&t);
}

static void what_cannot_be_opened_says_why(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_table t;
    assert_int_equal(qkv_table_read(&ctx, "/nowhere/train.tsv", NULL, QKV_WANT_LABEL, false, &t), QKV_IO);
    assert_string_equal(ctx.message, "/nowhere/train.tsv: No such file or directory");
    assert_int_equal(qkv_table_read(&ctx, "/tmp", NULL, QKV_WANT_LABEL, false, &t), QKV_IO);
    char path[600] = "/nowhere/";
    memset(path + 9, 'x', 500);
    assert_int_equal(qkv_table_read(&ctx, path, NULL, QKV_WANT_LABEL, false, &t), QKV_IO);
    assert_true(strlen(t.name) < sizeof t.name);
    qkv_table_free(&t);
    assert_int_equal(memory.blocks, 0);
}

/* A megabyte in one row, and a hundred thousand rows: pointers stay right while the pool grows. */
static void rows_large_and_many(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_table t;
    int64_t size = 0;
    char *bytes = malloc(4 << 20);
    size += sprintf(bytes, "long\t");
    memset(bytes + size, 'z', 1 << 20);
    size += 1 << 20;
    for (int i = 0; i < 100000; i++) size += sprintf(bytes + size, "\nl%d\ttext %d", i % 7, i);
    assert_int_equal(read_bytes(&ctx, bytes, size, &t), QKV_OK);
    assert_int_equal(t.count, 100001);
    assert_int_equal(t.rows[0].text_size, 1 << 20);
    for (int i = 0; i < 100000; i++) {
        char label[16], text[32];
        sprintf(label, "l%d", i % 7);
        sprintf(text, "text %d", i);
        expect_row(&t, i + 1, label, text, (int64_t)strlen(text), i + 2);
    }
    free(bytes);
    qkv_table_free(&t);
    assert_int_equal(memory.blocks, 0);
}

static void one_row_in_ten_is_held_out(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_table t, held;
    char *bytes = malloc(1 << 20);
    int64_t size = 0, copies = 0;
    for (int i = 0; i < 20000; i++) size += sprintf(bytes + size, "l%d\t%s %d\n", i % 3, i % 100 ? "text" : "", i / 2 * 2 % 15000);
    bytes[size - 2] = 0;
    assert_int_equal(read_bytes(&ctx, bytes, size, &t), QKV_OK);
    int64_t empty = t.empty_rows, repaired = t.repaired_rows;
    assert_int_equal(qkv_table_hold_out(&t, &held), QKV_OK);
    assert_int_equal(t.count + held.count, 20000);
    assert_in_range(held.count, 1700, 2300);
    assert_int_equal(t.empty_rows + held.empty_rows, empty);
    assert_int_equal(t.repaired_rows + held.repaired_rows, repaired);
    for (int64_t i = 1; i < t.count; i++) assert_true(t.rows[i].line > t.rows[i - 1].line);
    for (int64_t i = 1; i < held.count; i++) assert_true(held.rows[i].line > held.rows[i - 1].line);
    /* The same row is never on both sides; what is held out outlives the table. */
    for (int64_t i = 0; i < held.count; i += 50)
        for (int64_t j = 0; j < t.count; j++)
            copies += t.rows[j].text_size == held.rows[i].text_size && strcmp(t.rows[j].label, held.rows[i].label) == 0 &&
                      memcmp(t.rows[j].text, held.rows[i].text, (size_t)held.rows[i].text_size) == 0;
    assert_int_equal(copies, 0);
    /* The hash is what reading only these rows gives. */
    uint64_t hash = 0;
    for (int64_t i = 0; i < t.count; i++)
        hash = qkv_hash64(t.rows[i].text, (size_t)t.rows[i].text_size,
                          qkv_hash64(t.rows[i].label, (size_t)t.rows[i].label_size, hash));
    assert_true(hash == t.hash && hash != held.hash);
    qkv_table_free(&t);
    int64_t sum = 0;
    for (int64_t i = 0; i < held.count; i++) sum += (int64_t)strlen(held.rows[i].label);
    assert_int_equal(sum, 2 * held.count);
    qkv_table_free(&held);
    free(bytes);
    assert_int_equal(memory.blocks, 0);
}

static void neither_side_is_left_empty(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (int rows = 1; rows < 12; rows++)
        for (int salt = 0; salt < 60; salt++) {
            char bytes[1024];
            int64_t size = 0;
            qkv_table t, held;
            for (int i = 0; i < rows; i++)
                size += sprintf(bytes + size, "a\t%d\n", salt < 30 ? salt : 100 * salt + i); /* also all the same */
            assert_int_equal(read_bytes(&ctx, bytes, size, &t), QKV_OK);
            assert_int_equal(qkv_table_hold_out(&t, &held), QKV_OK);
            assert_int_equal(t.count + held.count, rows);
            assert_true(t.count >= 1);
            assert_true(rows < 2 ? held.count == 0 : held.count >= 1);
            qkv_table_free(&t);
            qkv_table_free(&held);
        }
    assert_int_equal(memory.blocks, 0);
}

static int64_t rows_with(const qkv_table *t, const char *label) {
    int64_t n = 0;
    for (int64_t i = 0; i < t->count; i++) n += strcmp(t->rows[i].label, label) == 0;
    return n;
}

/* Every label keeps a training row, whatever the hash says; only the first of a vanishing one comes back. */
static void no_label_vanishes(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    int empty = 0, shared = 0;
    for (int labels = 2; labels < 7; labels++)
        for (int each = 1; each < 4; each++)
            for (int salt = 0; salt < 40; salt++) {
                char bytes[2048];
                int64_t size = 0;
                qkv_table t, held;
                for (int i = 0; i < labels * each; i++)
                    size += sprintf(bytes + size, "%.*s\t%d\n", 1 + i % labels, "aaaaaaaa", salt % 2 ? 1000 * salt + i : salt);
                assert_int_equal(read_bytes(&ctx, bytes, size, &t), QKV_OK);
                assert_int_equal(qkv_table_hold_out(&t, &held), QKV_OK);
                assert_int_equal(t.count + held.count, labels * each);
                for (int l = 0; l < labels; l++) {
                    char label[16];
                    snprintf(label, sizeof label, "%.*s", 1 + l, "aaaaaaaa");
                    assert_true(rows_with(&t, label) >= 1);
                    /* rows that are all alike go by the same hash: all of them but the first */
                    if (salt % 2 == 0 && rows_with(&held, label) > 1) assert_int_equal(rows_with(&t, label), 1), shared++;
                }
                if (each == 1) assert_int_equal(held.count, 0);
                empty += held.count == 0;
                for (int64_t i = 1; i < t.count; i++) assert_true(t.rows[i].line > t.rows[i - 1].line);
                qkv_table_free(&t);
                qkv_table_free(&held);
            }
    assert_true(empty > 0 && shared > 0);
    assert_int_equal(memory.blocks, 0);
}

/* ---- texts alone ---- */

static qkv_status read_texts(qkv_ctx *ctx, const char *bytes, int64_t size, qkv_table *t) {
    char path[512];
    test_write_file(test_path("texts", path), bytes, (size_t)size);
    qkv_status status = qkv_table_read_texts(ctx, path, NULL, false, t);
    remove(path);
    return status;
}

static void texts_without_labels(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *format;
        const char *texts[3];
    } files[] = {{"one\ntwo words\n\n", "plain text, guessed from line 1", {"one", "two words", ""}},
                 {"one\ntwo\twith a tab\nthree\n", "plain text, guessed from line 1", {"one", "two\twith a tab", "three"}},
                 {"label\tone\n\ttwo\n", "TSV, guessed from line 1", {"one", "two"}},
                 {"__label__a one\ntwo\n", "fastText, guessed from line 1", {"one", "two"}},
                 {"{\"text\": \"one\"}\n{\"text\": \"two\", \"label\": [3]}\n", "JSON lines, guessed from line 1", {"one", "two"}},
                 {"label,text\na,one\n,two\n", "CSV, separator comma, guessed from line 1", {"one", "two"}}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        qkv_table t;
        if (read_texts(&ctx, files[i].bytes, (int64_t)strlen(files[i].bytes), &t) != QKV_OK) fail_msg("file %d: %s", (int)i, ctx.message);
        assert_string_equal(t.format, files[i].format);
        int64_t n = 0;
        while (n < 3 && files[i].texts[n]) n++;
        assert_int_equal(t.count, n);
        for (int64_t k = 0; k < n; k++) assert_string_equal(t.rows[k].text, files[i].texts[k]);
        qkv_table_free(&t);
        assert_int_equal(memory.blocks, 0);
    }
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_table t;
    assert_int_equal(read_texts(&ctx, "\x7f\x45LF\x02\x01\x01\0\0\0", 10, &t), QKV_BAD_DATA); /* a program */
    assert_int_equal(read_texts(&ctx, "", 0, &t), QKV_BAD_DATA);
    assert_int_equal(memory.blocks, 0);
}

static void every_failing_allocation_is_survived(void **state) {
    (void)state;
    char *bytes = malloc(1 << 20);
    int64_t size = 0;
    int done = 0;
    for (int i = 0; i < 6000; i++) size += sprintf(bytes + size, "label\tsome text that is long enough %d\n", i);
    for (int64_t k = 1; !done; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        qkv_table t = {0}, held = {0};
        qkv_status status = read_bytes(&ctx, bytes, size, &t);
        int64_t before = t.count;
        uint64_t hash = t.hash;
        if (status == QKV_OK) {
            status = qkv_table_hold_out(&t, &held);
            if (status != QKV_OK) assert_true(t.count == before && t.hash == hash && held.count == 0);
        }
        done = memory.calls < k;
        assert_int_equal(status, done ? QKV_OK : QKV_NO_MEMORY);
        qkv_table_free(&t);
        qkv_table_free(&held);
        assert_int_equal(memory.blocks, 0);
    }
    free(bytes);
}

/* Nothing grows where the size of the file says how much there is, with the last line break or without it. */
static void a_plain_file_is_read_into_its_size(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    enum { ROWS = 5000 };
    static char bytes[ROWS * 40];
    int64_t size = 0;
    for (int i = 0; i < ROWS; i++) size += snprintf(bytes + size, sizeof bytes - (size_t)size, "label%d\ttext number %d%s", i % 7, i, i + 1 < ROWS ? "\n" : "");
    for (int end = 0; end < 2; end++) {
        qkv_table t;
        if (end) bytes[size++] = '\n';
        assert_int_equal(read_bytes(&ctx, bytes, size, &t), QKV_OK);
        assert_int_equal(t.count, ROWS);
        assert_int_equal(t.pool_capacity, size + 2);
        assert_in_range(t.pool_size, size, size + 2);
        expect_row(&t, ROWS - 1, "label1", "text number 4999", 16, ROWS);
        qkv_table_free(&t);
    }
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_label_tab_text),
        cmocka_unit_test(the_hash_is_of_the_rows),
        cmocka_unit_test(bad_rows_are_named_with_their_line),
        cmocka_unit_test(other_kinds_of_files_are_named),
        cmocka_unit_test(odd_rows_are_rows),
        cmocka_unit_test(gzip_inside_gzip_is_named),
        cmocka_unit_test(reading_stops_when_asked),
        cmocka_unit_test(what_cannot_be_opened_says_why),
        cmocka_unit_test(rows_large_and_many),
        cmocka_unit_test(one_row_in_ten_is_held_out),
        cmocka_unit_test(neither_side_is_left_empty),
        cmocka_unit_test(no_label_vanishes),
        cmocka_unit_test(texts_without_labels),
        cmocka_unit_test(a_plain_file_is_read_into_its_size),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
