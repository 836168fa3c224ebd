/* What the system says about memory: the text of its files, control groups in folders made here, and this machine. */
#include "support.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"

static void fields_are_found_by_their_whole_name(void **state) {
    (void)state;
    const char *text = "MemTotal:       16315412 kB\nMemFree:          204812 kB\nMemAvailable:    9315412 kB\n"
                       "inactive_file 5\nactive_file 7\n";
    int64_t v = -1;
    assert_true(qkv_memory_field(text, "MemAvailable:", &v) && v == 9315412);
    assert_true(qkv_memory_field(text, "MemTotal:", &v) && v == 16315412);
    assert_true(qkv_memory_field(text, "active_file", &v) && v == 7);
    assert_false(qkv_memory_field(text, "Available:", &v));
    assert_false(qkv_memory_field(text, "Mem", &v));
    assert_false(qkv_memory_field("MemAvailable: none\n", "MemAvailable:", &v));
    assert_false(qkv_memory_field("", "MemAvailable:", &v));
}

static void put(const char *folder, const char *file, const char *text) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    test_write_file(path, text, strlen(text));
}

static void group(const char *folder, bool version_2, const char *limit, const char *used, const char *stat) {
    assert_int_equal(mkdir(folder, 0755), 0);
    put(folder, version_2 ? "memory.max" : "memory.limit_in_bytes", limit);
    put(folder, version_2 ? "memory.current" : "memory.usage_in_bytes", used);
    put(folder, "memory.stat", stat);
}

static void remove_group(const char *folder) {
    static const char *const files[] = {"memory.max", "memory.current", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "memory.stat"};
    for (int i = 0; i < 5; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* The tightest of the groups above counts; file caches can be given back. */
static void the_tightest_group_counts(void **state) {
    (void)state;
    char root[512], a[520], b[530];
    snprintf(a, sizeof a, "%s/a", test_path("groups", root));
    snprintf(b, sizeof b, "%s/b", a);
    for (int v2 = 0; v2 < 2; v2++) {
        remove_group(b), remove_group(a), remove_group(root);
        const char *none = v2 ? "max\n" : "9223372036854771712\n";
        group(root, v2, none, "123\n", "");
        const char *caches = v2 ? "anon 1\ninactive_file 100\nactive_file 50\n" : "total_inactive_file 100\ntotal_active_file 50\n";
        group(a, v2, "1000\n", "700\n", caches);
        group(b, v2, "5000\n", "10\n", "");
        assert_int_equal(qkv_memory_group_left(root, "/a/b", v2), 450);
        assert_int_equal(qkv_memory_group_left(root, "/a", v2), 450);
        assert_int_equal(qkv_memory_group_left(root, "/a/not/there", v2), 450);
        assert_int_equal(qkv_memory_group_left(root, "", v2), -1);
        assert_int_equal(qkv_memory_group_left(root, "/elsewhere", v2), -1);
        assert_int_equal(qkv_memory_group_left(root, "/a/b", !v2), -1);
        put(a, v2 ? "memory.current" : "memory.usage_in_bytes", "2000\n"); /* above a limit that was lowered */
        assert_int_equal(qkv_memory_group_left(root, "/a/b", v2), 0);
        put(b, v2 ? "memory.max" : "memory.limit_in_bytes", "11\n");
        put(a, v2 ? "memory.max" : "memory.limit_in_bytes", none);
        assert_int_equal(qkv_memory_group_left(root, "/a/b", v2), 1);
    }
    remove_group(b), remove_group(a), remove_group(root);
    char longest[600];
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/', longest[sizeof longest - 1] = 0;
    assert_int_equal(qkv_memory_group_left(root, longest, true), -1);
}

static void this_machine_has_memory(void **state) {
    (void)state;
    int64_t available = qkv_memory_available(), total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (access("/proc/meminfo", R_OK) != 0) skip();
    assert_true(available > 1 << 20);
    assert_true(available <= total);
}

/* The peak is of what was there since it was forgotten, not of what is there now. */
static void peaks(void **state) {
    (void)state;
    enum { BYTES = 32 << 20 };
    if (SANITIZED || !qkv_memory_forget_peak()) {
        print_message("no count of the peak that begins anew, or a sanitizer's memory in it\n");
        skip();
    }
    const int64_t before = qkv_memory_resident();
    /* straight from the system: what allocators keep is not in question */
    char *block = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(block != MAP_FAILED);
    memset(block, 1, BYTES);
    assert_int_equal(block[BYTES - 1], 1);
    assert_int_equal(munmap(block, BYTES), 0);
    const int64_t peak = qkv_memory_peak();
    assert_true(peak - before > BYTES - (1 << 20) && peak - before < BYTES + (4 << 20));
    assert_true(qkv_memory_forget_peak() && qkv_memory_peak() < peak - BYTES / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_by_their_whole_name),
        cmocka_unit_test(the_tightest_group_counts),
        cmocka_unit_test(this_machine_has_memory),
        cmocka_unit_test(peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
