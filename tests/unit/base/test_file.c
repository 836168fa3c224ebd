/* Reading (plain, gzip, pipes) and atomic writing. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

static char *read_all(qkv_ctx *ctx, const char *path, int64_t step, int64_t *size, qkv_status *status) {
    qkv_input *in;
    *size = 0;
    *status = qkv_input_open(ctx, path, &in);
    if (*status != QKV_OK) return NULL;
    char *data = malloc(1 << 20);
    for (int64_t got = 1; got > 0 && *status == QKV_OK; *size += got) {
        assert_true(*size + step <= 1 << 20);
        *status = qkv_input_read(in, data + *size, step, &got);
    }
    qkv_input_close(in);
    return data;
}

static void gzip_file(const char *path, const char *mode, const void *data, unsigned size) {
    gzFile f = gzopen(path, mode);
    assert_non_null(f);
    assert_int_equal(gzwrite(f, data, size), size);
    assert_int_equal(gzclose(f), Z_OK);
}

static void plain_and_gzip_read_alike(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    static char text[300000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)((i * i >> 5) % 251);
    char path[512];
    static const int64_t steps[] = {1000, 4096, 70001};
    for (int kind = 0; kind < 3; kind++) {
        test_path(kind ? "file.gz" : "file.txt", path);
        if (kind == 0) test_write_file(path, text, sizeof text);
        if (kind == 1) gzip_file(path, "wb9", text, sizeof text);
        if (kind == 2) { /* two members */
            gzip_file(path, "wb1", text, 1234);
            gzip_file(path, "ab1", text + 1234, sizeof text - 1234);
        }
        for (int i = 0; i < 3; i++) {
            int64_t size;
            qkv_status status;
            char *data = read_all(&ctx, path, steps[i], &size, &status);
            assert_int_equal(status, QKV_OK);
            assert_int_equal(size, sizeof text);
            assert_memory_equal(data, text, sizeof text);
            free(data);
        }
    }
    assert_int_equal(memory.blocks, 0);
}

static void keep_line(void *user, const char *line) {
    snprintf(user, 256, "%s", line);
}

static void append_bytes(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Zero padding is silent, anything else warns; neither changes what is read. */
static void bytes_behind_a_gzip_stream_are_ignored(void **state) {
    (void)state;
    static char zeros[200000], text[70000];
    static const struct {
        const char *bytes;
        size_t size;
        int warned;
    } tails[] = {{"", 0, 0},  {"garbage", 7, 1}, {"\x1f", 1, 1},   {"\x1f\x8c and more", 11, 1},
                 {"x", 1, 1}, {"\0\0\0", 3, 0},  {"\0\0x", 3, 1}, {"\0\x1f\x8b", 3, 1}};
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 2654435761u >> 24);
    for (size_t i = 0; i < sizeof tails / sizeof *tails + 2; i++)
        for (int members = 1; members < 3; members++) {
            test_memory memory = {0};
            TEST_CTX qkv_ctx ctx = test_ctx(&memory);
            char path[512], line[256] = "";
            ctx.log = keep_line;
            ctx.log_user = line;
            /* the member's end at every place about the end of the input buffer, too */
            unsigned first = i < 8 ? 1234 : (unsigned)(65536 - 100 + 7 * i);
            gzip_file(test_path("tail.gz", path), "wb0", text, first);
            if (members == 2) gzip_file(path, "ab9", text + first, sizeof text - first);
            int warned = i < 8 ? tails[i].warned : i == 9;
            if (i < 8) append_bytes(path, tails[i].bytes, tails[i].size);
            else append_bytes(path, zeros, sizeof zeros);
            if (i == 9) append_bytes(path, "end", 3);
            int64_t size;
            qkv_status status;
            char *data = read_all(&ctx, path, 5000, &size, &status);
            assert_int_equal(status, QKV_OK);
            assert_int_equal(size, members == 2 ? sizeof text : first);
            assert_memory_equal(data, text, (size_t)size);
            assert_int_equal(warned, line[0] != 0);
            if (warned) assert_non_null(strstr(line, "tail.gz: the bytes behind the end of the gzip stream are ignored"));
            free(data);
            assert_int_equal(memory.blocks, 0);
        }
}

/* Two members whose border lies at every place about the end of the input buffer. */
static void a_member_may_start_anywhere(void **state) {
    (void)state;
    static char text[70000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 2654435761u >> 24);
    for (unsigned first = 65536 - 60; first < 65536 + 4; first++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        char path[512];
        gzip_file(test_path("border.gz", path), "wb0", text, first);
        gzip_file(path, "ab9", text + first, sizeof text - first);
        int64_t size;
        qkv_status status;
        char *data = read_all(&ctx, path, 100000, &size, &status);
        assert_int_equal(status, QKV_OK);
        assert_int_equal(size, sizeof text);
        assert_memory_equal(data, text, sizeof text);
        free(data);
        assert_int_equal(memory.blocks, 0);
    }
}

static void damaged_input_is_named(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char path[512], data[2000];
    for (int i = 0; i < 2000; i++) data[i] = (char)(i * 7919 >> 3);
    gzip_file(test_path("cut.gz", path), "wb9", data, sizeof data);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size / 2), 0);
    int64_t size;
    qkv_status status;
    free(read_all(&ctx, path, 4096, &size, &status));
    assert_int_equal(status, QKV_BAD_FORMAT);
    assert_non_null(strstr(ctx.message, "cut.gz: the gzip stream is cut off"));
    test_write_file(path, "\x1f\x8bgarbage garbage garbage", 25);
    free(read_all(&ctx, path, 4096, &size, &status));
    assert_int_equal(status, QKV_BAD_FORMAT);
    assert_non_null(strstr(ctx.message, "damaged"));
    free(read_all(&ctx, "/no/such/file", 4096, &size, &status));
    assert_int_equal(status, QKV_IO);
    assert_string_equal(ctx.message, "/no/such/file: No such file or directory");
    free(read_all(&ctx, "/", 4096, &size, &status));
    assert_int_equal(status, QKV_IO);
    char *whole;
    test_write_file(test_path("small", path), "hello", 5);
    assert_int_equal(qkv_file_read(&ctx, path, 4, &whole, &size), QKV_BAD_FORMAT);
    assert_int_equal(qkv_file_read(&ctx, path, 5, &whole, &size), QKV_OK);
    assert_int_equal(size, 5);
    assert_string_equal(whole, "hello");
    qkv_free(&ctx, whole);
    assert_int_equal(memory.blocks, 0);
}

static int files_in(const char *folder) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int fail_nth(void *user, const char *what) {
    (void)what;
    int *left = user;
    if (*left > 0 && --*left == 0) return ENOSPC;
    if (*left < 0 && ++*left == 0) return -1; /* killed */
    return 0;
}

static qkv_status write_new(qkv_ctx *ctx, const char *path, char fill, size_t size) {
    qkv_output *o;
    QKV_TRY(qkv_output_open(ctx, path, &o));
    char block[1000];
    memset(block, fill, sizeof block);
    for (size_t done = 0; done < size; done += sizeof block) {
        qkv_status status = qkv_output_write(o, block, sizeof block);
        if (status != QKV_OK) {
            qkv_output_discard(o);
            return status;
        }
    }
    return qkv_output_commit(o);
}

static void assert_whole(qkv_ctx *ctx, const char *path, const char *allowed) {
    char *data;
    int64_t size;
    assert_int_equal(qkv_file_read(ctx, path, 1 << 20, &data, &size), QKV_OK);
    assert_int_equal(size, 200000);
    assert_non_null(strchr(allowed, data[0]));
    for (int64_t i = 0; i < size; i++) assert_int_equal(data[i], data[0]);
    qkv_free(ctx, data);
}

/* Whatever write fails, and wherever the process is killed, the name holds the old file or the new one, whole. */
static void the_old_file_or_the_new_one(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char folder[512], path[600];
    test_path("atomic.XXXXXX", folder);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model", folder);
    assert_int_equal(write_new(&ctx, path, 'o', 200000), QKV_OK);
    int failed = 0, at;
    for (at = 1; at < 100; at++) {
        int left = at;
        ctx.fault = fail_nth;
        ctx.fault_user = &left;
        qkv_status status = write_new(&ctx, path, 'n', 200000);
        ctx.fault = NULL;
        assert_int_equal(files_in(folder), 1);
        if (status == QKV_OK) break;
        failed++;
        assert_int_equal(status, QKV_IO);
        assert_non_null(strstr(ctx.message, "No space left on device"));
        assert_whole(&ctx, path, strstr(ctx.message, "folder") ? "n" : "o");
        assert_int_equal(write_new(&ctx, path, 'o', 200000), QKV_OK);
    }
    assert_true(failed >= 7); /* open, four writes, fsync, close, rename, folder */
    for (int kill_at = 1; kill_at < at; kill_at++) {
        assert_int_equal(write_new(&ctx, path, 'o', 200000), QKV_OK);
        pid_t child = fork();
        if (child == 0) {
            int left = -kill_at;
            ctx.fault = fail_nth;
            ctx.fault_user = &left;
            (void)write_new(&ctx, path, 'n', 200000);
            _exit(0);
        }
        int code;
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFSIGNALED(code));
        assert_whole(&ctx, path, "on");
    }
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(memory.blocks, 0);
}

static void output_refuses_and_follows(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_output *o;
    assert_int_equal(qkv_output_open(&ctx, "/no/such/folder/model", &o), QKV_IO);
    assert_non_null(strstr(ctx.message, "No such file or directory"));
    assert_int_equal(qkv_output_open(&ctx, "/", &o), QKV_IO);
    assert_int_equal(qkv_output_open(&ctx, "/dev/null", &o), QKV_IO);
    assert_null(o);
    char path[512], link[512];
    test_path("linked", path);
    test_path("link", link);
    unlink(link);
    assert_int_equal(write_new(&ctx, path, 'a', 200000), QKV_OK);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(write_new(&ctx, link, 'b', 200000), QKV_OK);
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_whole(&ctx, path, "b");
    unlink(link);
    assert_int_equal(memory.blocks, 0);
}

static void what_was_written_can_be_overwritten(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char path[512], block[1000], *data;
    int64_t size;
    test_path("rewritten", path);
    memset(block, '.', sizeof block);
    qkv_output *o;
    assert_int_equal(qkv_output_open(&ctx, path, &o), QKV_OK);
    for (int i = 0; i < 100; i++) assert_int_equal(qkv_output_write(o, block, sizeof block), QKV_OK);
    assert_int_equal(qkv_output_rewrite(o, 0, "front", 5), QKV_OK);
    assert_int_equal(qkv_output_rewrite(o, 99995, "tail!", 5), QKV_OK); /* from the buffer */
    assert_int_equal(qkv_output_write(o, "more", 4), QKV_OK);
    assert_int_equal(qkv_output_rewrite(o, 100000, "MORE", 4), QKV_OK);
    assert_int_equal(qkv_output_rewrite(o, 100001, "MORE", 4), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "bytes 100001..100004 are not among the 100004 written"));
    assert_int_equal(qkv_output_rewrite(o, -1, "x", 1), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_output_write(o, NULL, 1), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_output_write(o, NULL, 0), QKV_OK);
    assert_int_equal(qkv_output_commit(o), QKV_OK);
    assert_int_equal(qkv_file_read(&ctx, path, 1 << 20, &data, &size), QKV_OK);
    assert_int_equal(size, 100004);
    assert_memory_equal(data, "front...", 8);
    assert_memory_equal(data + 99990, ".....tail!MORE", 14);
    qkv_free(&ctx, data);
    assert_int_equal(qkv_output_write(NULL, "x", 1), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_output_commit(NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_output_open(&ctx, NULL, &o), QKV_BAD_ARGUMENT);
    unlink(path);
    assert_int_equal(memory.blocks, 0);
}

/* A file with a hole where a write failed is never made visible, even if nobody looked at the failure. */
static void a_failed_write_is_not_forgotten(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char path[512];
    static char block[100000];
    int left = 2; /* the open, then the first write */
    test_path("broken", path);
    unlink(path);
    qkv_output *o;
    ctx.fault = fail_nth;
    ctx.fault_user = &left;
    assert_int_equal(qkv_output_open(&ctx, path, &o), QKV_OK);
    assert_int_equal(qkv_output_write(o, block, sizeof block), QKV_IO);
    assert_int_equal(qkv_output_write(o, "more", 4), QKV_IO);
    assert_int_equal(qkv_output_commit(o), QKV_IO);
    assert_non_null(strstr(ctx.message, "a write has failed before"));
    assert_int_equal(access(path, F_OK), -1);
    ctx.fault = NULL;
    assert_int_equal(memory.blocks, 0);
}

static void a_folder_is_locked_by_one(void **state) {
    (void)state;
    char path[512];
    assert_int_equal(qkv_folder_lock("/nowhere/file"), -1);
    int lock = qkv_folder_lock(test_path("locked", path));
    assert_true(lock >= 0);
    const pid_t child = fork(); /* waits until the lock is free */
    if (child == 0) _exit(qkv_folder_lock(path) >= 0 ? 0 : 1);
    usleep(20000);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    qkv_folder_unlock(lock);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    lock = qkv_folder_lock(path);
    assert_true(lock >= 0);
    qkv_folder_unlock(lock);
    qkv_folder_unlock(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_gzip_read_alike),
        cmocka_unit_test(bytes_behind_a_gzip_stream_are_ignored),
        cmocka_unit_test(a_member_may_start_anywhere),
        cmocka_unit_test(damaged_input_is_named),
        cmocka_unit_test(the_old_file_or_the_new_one),
        cmocka_unit_test(output_refuses_and_follows),
        cmocka_unit_test(what_was_written_can_be_overwritten),
        cmocka_unit_test(a_failed_write_is_not_forgotten),
        cmocka_unit_test(a_folder_is_locked_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
