#include "support.h"

#include <unistd.h>
#include <zlib.h>

#include "qkv/data.h"

typedef struct expected {
    const char *text;
    int64_t length;
} expected;

static void expect_lines(const char *path, const expected *want, int64_t count) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_lines *lines;
    const char *text;
    int64_t length;
    assert_int_equal(qkv_lines_open(&ctx, path, &lines), QKV_OK);
    assert_int_equal(qkv_lines_number(lines), 0);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
        assert_non_null(text);
        assert_int_equal(length, want[i].length);
        assert_memory_equal(text, want[i].text, (size_t)length);
        assert_int_equal(text[length], 0);
        assert_int_equal(qkv_lines_number(lines), i + 1);
    }
    for (int again = 0; again < 2; again++) {
        assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
        assert_null(text);
        assert_int_equal(qkv_lines_number(lines), count);
    }
    qkv_lines_close(lines);
    assert_int_equal(memory.blocks, 0);
}

static void expect_file(const char *bytes, int64_t size, const expected *want, int64_t count) {
    char path[512];
    test_write_file(test_path("lines.txt", path), bytes, (size_t)size);
    expect_lines(path, want, count);
    gzFile gz = gzopen(test_path("lines.txt.bin", path), "wb"); /* by content, not by name */
    if (size > 0) assert_int_equal(gzwrite(gz, bytes, (unsigned)size), size);
    gzclose(gz);
    expect_lines(path, want, count);
    remove(path);
}

#define EXPECT(bytes, ...)                                                                                                         \
    expect_file(bytes, sizeof(bytes) - 1, (const expected[]){__VA_ARGS__},                                                         \
                (int64_t)(sizeof((const expected[]){__VA_ARGS__}) / sizeof(expected)))

static void line_breaks(void **state) {
    (void)state;
    expect_file("", 0, NULL, 0);
    EXPECT("a", {"a", 1});
    EXPECT("a\n", {"a", 1});
    EXPECT("a\nb", {"a", 1}, {"b", 1});
    EXPECT("a\r\nb\r\n", {"a", 1}, {"b", 1});
    EXPECT("\n\r\n\n", {"", 0}, {"", 0}, {"", 0});
    EXPECT("a\rb\r\r\n", {"a\rb\r", 4});
    EXPECT("a\0b\n\0\n", {"a\0b", 3}, {"\0", 1});
}

static void byte_order_mark(void **state) {
    (void)state;
    EXPECT("\xEF\xBB\xBF"
           "a\n\xEF\xBB\xBF"
           "b\n",
           {"a", 1},
           {"\xEF\xBB\xBF"
            "b",
            4});
    expect_file("\xEF\xBB\xBF", 3, NULL, 0);
    EXPECT("\xEF\xBB\xBF\n", {"", 0});
    EXPECT("\xEF\xBB", {"\xEF\xBB", 2});
    EXPECT("\xEF\n\xBB", {"\xEF", 1}, {"\xBB", 1});
}

/* Every size around the buffer's, so that breaks fall on every place of it. */
static void lines_of_any_length(void **state) {
    (void)state;
    enum { MOST = 300000 };
    char *bytes = malloc(2 * MOST + 16), *line = malloc(MOST);
    for (int i = 0; i < MOST; i++) line[i] = (char)('a' + i % 26);
    for (int64_t size = 65530; size < MOST; size = size < 65540 ? size + 1 : 2 * size - 3) {
        int64_t at = 0;
        memcpy(bytes, line, (size_t)size);
        at += size;
        memcpy(bytes + at, "\r\n\nx\n", 5);
        at += 5;
        memcpy(bytes + at, line, (size_t)size);
        at += size;
        expect_file(bytes, at, (const expected[]){{line, size}, {"", 0}, {"x", 1}, {line, size}}, 4);
    }
    free(bytes);
    free(line);
}

static void many_lines_in_little_memory(void **state) {
    (void)state;
    char path[512];
    FILE *f = fopen(test_path("many.txt", path), "wb");
    for (int i = 0; i < 200000; i++) fprintf(f, "line %d\n", i);
    fclose(f);
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_lines *lines;
    assert_int_equal(qkv_lines_open(&ctx, path, &lines), QKV_OK);
    for (int i = 0; i < 200000; i++) {
        const char *text;
        char want[32];
        int64_t length;
        assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
        assert_int_equal(length, snprintf(want, sizeof want, "line %d", i));
        assert_memory_equal(text, want, (size_t)length);
    }
    assert_true(memory.calls < 8);
    qkv_lines_close(lines);
    assert_int_equal(memory.blocks, 0);
    remove(path);
}

/* A line is there as soon as its break has come, and `ready` knows. */
static void a_pipe_is_not_read_ahead(void **state) {
    (void)state;
    int ends[2];
    char path[64];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_lines *lines;
    const char *text;
    int64_t length;
    assert_int_equal(qkv_lines_open(&ctx, path, &lines), QKV_OK);
    assert_int_equal(qkv_lines_ready(lines), 0);
    assert_int_equal(write(ends[1], "one\ntw", 6), 6);
    assert_int_equal(qkv_lines_ready(lines), 1);
    assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
    assert_string_equal(text, "one");
    assert_int_equal(qkv_lines_ready(lines), 0);
    assert_int_equal(write(ends[1], "o\n\n", 3), 3);
    assert_int_equal(qkv_lines_ready(lines), 1);
    assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
    assert_string_equal(text, "two");
    assert_int_equal(qkv_lines_ready(lines), 1);
    assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
    assert_int_equal(length, 0);
    assert_int_equal(qkv_lines_ready(lines), 0);
    assert_int_equal(write(ends[1], "end", 3), 3);
    close(ends[1]);
    assert_int_equal(qkv_lines_ready(lines), 1);
    assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
    assert_string_equal(text, "end");
    assert_int_equal(qkv_lines_ready(lines), 1);
    assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
    assert_null(text);
    qkv_lines_close(lines);
    close(ends[0]);
    assert_int_equal(memory.blocks, 0);
}

static void what_cannot_be_read_says_why(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_lines *lines;
    char path[512];
    assert_int_equal(qkv_lines_open(&ctx, "/nowhere/at/all.tsv", &lines), QKV_IO);
    assert_null(lines);
    assert_string_equal(ctx.message, "/nowhere/at/all.tsv: No such file or directory");
    assert_int_equal(qkv_lines_open(&ctx, "/tmp", &lines), QKV_IO);
    /* A gzip file that is cut off: the lines before the damage come, then the reason, found by `ready` or by `next`. */
    gzFile gz = gzopen(test_path("cut.gz", path), "wb");
    for (int i = 0; i < 20000; i++) gzprintf(gz, "line %d\n", i * 7919 % 10007);
    gzclose(gz);
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    size_t size = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    test_write_file(path, bytes, size / 2);
    free(bytes);
    for (int ask = 0; ask < 2; ask++) {
        const char *text;
        int64_t length, count = 0;
        qkv_status status;
        assert_int_equal(qkv_lines_open(&ctx, path, &lines), QKV_OK);
        do {
            if (ask) assert_int_equal(qkv_lines_ready(lines), 1);
            strcpy(ctx.message, "something else");
            status = qkv_lines_next(lines, &text, &length);
            count += status == QKV_OK;
        } while (status == QKV_OK && text);
        assert_int_equal(status, QKV_BAD_FORMAT);
        assert_non_null(strstr(ctx.message, "cut off"));
        assert_true(count > 1000);
        qkv_lines_close(lines);
    }
    qkv_lines_close(NULL);
    assert_int_equal(memory.blocks, 0);
    remove(path);
}

static void columns(void **state) {
    (void)state;
    const char line[] = "a\t\tb\0c\td";
    int64_t length = sizeof line - 1, n;
    assert_memory_equal(qkv_line_column(line, length, 1, &n), "a", 1);
    assert_int_equal(n, 1);
    assert_ptr_equal(qkv_line_column(line, length, 2, &n), line + 2);
    assert_int_equal(n, 0);
    assert_ptr_equal(qkv_line_column(line, length, 3, &n), line + 3);
    assert_int_equal(n, 3);
    assert_ptr_equal(qkv_line_column(line, length, 4, &n), line + 7);
    assert_int_equal(n, 1);
    assert_null(qkv_line_column(line, length, 5, &n));
    assert_int_equal(n, 0);
    assert_null(qkv_line_column(line, length, 0, &n));
    assert_null(qkv_line_column(NULL, 0, 1, &n));
    assert_non_null(qkv_line_column("", 0, 1, &n));
    assert_null(qkv_line_column("", 0, 2, &n));
    assert_ptr_equal(qkv_line_column("\t", 1, 3, &n), NULL);
}

static void every_failing_allocation_is_survived(void **state) {
    (void)state;
    char path[512], *bytes = malloc(300000);
    memset(bytes, 'a', 300000);
    bytes[1000] = '\n';
    test_write_file(test_path("oom.txt", path), bytes, 300000);
    free(bytes);
    int done = 0;
    for (int64_t k = 1; !done; k++) {
        test_memory memory = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        qkv_lines *lines = NULL;
        const char *text = "";
        int64_t length;
        qkv_status status = qkv_lines_open(&ctx, path, &lines);
        while (status == QKV_OK && text) status = qkv_lines_next(lines, &text, &length);
        done = memory.calls < k;
        assert_int_equal(status, done ? QKV_OK : QKV_NO_MEMORY);
        qkv_lines_close(lines);
        assert_int_equal(memory.blocks, 0);
    }
    remove(path);
}

static void arguments(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_lines *lines = (void *)&ctx;
    char path[512];
    const char *text;
    int64_t length;
    assert_int_equal(qkv_lines_open(&ctx, "", &lines), QKV_IO);
    assert_string_equal(ctx.message, "the path is empty");
    assert_null(lines);
    assert_int_equal(qkv_lines_open(&ctx, NULL, &lines), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "NULL"));
    ctx.message[0] = 0;
    assert_int_equal(qkv_lines_open(&ctx, "x", NULL), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "lines is NULL"));
    assert_int_equal(qkv_lines_open(NULL, "x", &lines), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_lines_next(NULL, &text, &length), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_lines_ready(NULL), 0);
    assert_int_equal(qkv_lines_number(NULL), 0);
    qkv_lines_close(NULL);
    assert_null(qkv_line_column(NULL, 0, 1, &length));
    assert_null(qkv_line_column("a", 1, 1, NULL));
    assert_null(qkv_line_column("a", -1, 1, &length));
    test_write_file(test_path("arguments.txt", path), "a\n", 2);
    assert_int_equal(qkv_lines_open(&ctx, path, &lines), QKV_OK);
    assert_int_equal(qkv_lines_next(lines, NULL, &length), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "text is NULL"));
    assert_int_equal(qkv_lines_next(lines, &text, NULL), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "length is NULL"));
    assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK); /* nothing was lost */
    assert_string_equal(text, "a");
    assert_int_equal(qkv_lines_next(lines, &text, &length), QKV_OK);
    assert_null(text);
    for (int i = 0; i < 2; i++) assert_int_equal(qkv_lines_ready(lines), 1); /* at the end */
    qkv_lines_close(lines);
    remove(path);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_breaks),
        cmocka_unit_test(byte_order_mark),
        cmocka_unit_test(lines_of_any_length),
        cmocka_unit_test(many_lines_in_little_memory),
        cmocka_unit_test(a_pipe_is_not_read_ahead),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(columns),
        cmocka_unit_test(arguments),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
