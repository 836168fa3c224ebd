/* A context of the public interface over counted memory; finish() finds what was not given back. */
#ifndef QKV_TESTS_API_FIXTURE_H
#define QKV_TESTS_API_FIXTURE_H

#include <qkv.h>

#include "support.h"

typedef struct fixture {
    test_memory memory;
    qkv_ctx *ctx;
} fixture;

static inline void start(fixture *f) {
    *f = (fixture){0};
    qkv_ctx_options o = {
        .struct_size = sizeof o, .threads = 2, .allocate = test_allocate, .release = test_release, .allocator_user = &f->memory};
    char message[256];
    assert_int_equal(qkv_ctx_create(&o, &f->ctx, message, sizeof message), QKV_OK);
}

static inline void finish(fixture *f) {
    qkv_ctx_free(f->ctx);
    assert_int_equal(f->memory.blocks, 0);
}

#endif
