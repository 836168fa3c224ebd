/* A growing byte buffer. */
#ifndef QKV_BASE_BUF_H
#define QKV_BASE_BUF_H

#include <stdint.h>

#include "ctx.h"

typedef struct qkv_buf {
    qkv_ctx *ctx;
    char *p; /* NUL-terminated once anything was added; NULL before */
    int64_t size, capacity;
} qkv_buf;

qkv_status qkv_buf_add(qkv_buf *b, const void *data, int64_t size) QKV_MUST_USE;
qkv_status qkv_buf_addf(qkv_buf *b, const char *format, ...) QKV_MUST_USE __attribute__((format(printf, 2, 3)));
void qkv_buf_free(qkv_buf *b);

#endif
