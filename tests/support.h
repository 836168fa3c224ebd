/* What every unit test needs: cmocka in the order it wants, and a context over the C library's allocator that counts. */
#ifndef QKV_TESTS_SUPPORT_H
#define QKV_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/par.h"

/* 1: times and bytes are the sanitizer's, too. */
#if defined(__has_feature)
#define SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

typedef struct test_memory {
    int64_t blocks;  /* living */
    int64_t calls;   /* allocations so far */
    int64_t fail_at; /* this one fails (from 1), 0: none */
} test_memory;

static inline void *test_allocate(void *user, size_t bytes) {
    test_memory *m = user;
    if (++m->calls == m->fail_at) return NULL;
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (p) m->blocks++;
    return p;
}

static inline void test_release(void *user, void *pointer, size_t bytes) {
    (void)bytes;
    test_memory *m = user;
    if (pointer) m->blocks--;
    free(pointer);
}

/* Before a context on the stack: its threads end with it. */
#define TEST_CTX __attribute__((cleanup(qkv_par_close)))

/* A context without kernels, for the floors that need none. */
static inline qkv_ctx test_ctx(test_memory *memory) {
    qkv_ctx ctx = {0};
    qkv_ctx_setup(&ctx, &(qkv_ctx_options){.struct_size = sizeof(qkv_ctx_options), .threads = 2, .allocate = test_allocate,
                                           .release = test_release, .allocator_user = memory});
    return ctx;
}

/* A path in the test's scratch folder. */
static inline const char *test_path(const char *name, char path[512]) {
    const char *folder = getenv("QKV_TEST_TMP");
    snprintf(path, 512, "%s/%s", folder ? folder : "/tmp", name);
    return path;
}

static inline void test_write_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

#endif
