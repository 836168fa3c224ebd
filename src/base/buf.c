#include "base/buf.h"

#include <stdio.h>
#include <string.h>

static qkv_status reserve(qkv_buf *b, int64_t more) {
    if (more < 0 || more > INT64_MAX / 4 - b->size)
        return qkv_fail(b->ctx, QKV_NO_MEMORY, "out of memory: a buffer of %lld + %lld bytes", (long long)b->size, (long long)more);
    int64_t need = b->size + more + 1;
    if (need <= b->capacity) return QKV_OK;
    int64_t capacity = b->capacity + b->capacity / 2 + 64;
    if (capacity < need) capacity = need;
    QKV_TRY(qkv_grow(b->ctx, capacity, 1, &b->p));
    b->capacity = capacity;
    return QKV_OK;
}

qkv_status qkv_buf_add(qkv_buf *b, const void *data, int64_t size) {
    QKV_TRY(reserve(b, size));
    if (size) memcpy(b->p + b->size, data, (size_t)size);
    b->size += size;
    b->p[b->size] = 0;
    return QKV_OK;
}

qkv_status qkv_buf_addf(qkv_buf *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    qkv_status status = n < 0 ? qkv_fail(b->ctx, QKV_INTERNAL, "a text could not be formatted") : reserve(b, n);
    if (status == QKV_OK) {
        vsnprintf(b->p + b->size, (size_t)n + 1, format, again);
        b->size += n;
    }
    va_end(again);
    return status;
}

void qkv_buf_free(qkv_buf *b) {
    qkv_free(b->ctx, b->p);
    b->p = NULL;
    b->size = b->capacity = 0;
}
