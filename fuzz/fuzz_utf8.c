/* UTF-8, lower-casing, pre-tokenisation and the byte alphabet on any bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/bytemap.h"
#include "text/folded.h"
#include "text/pieces.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds) abort();
}

static void decode(const char *text, int64_t length) {
    int64_t faults = 0;
    for (int64_t i = 0; i < length;) {
        int32_t cp;
        char back[4];
        int step = qkv_utf8_next(text + i, length - i, &cp);
        require(step != 0 && (step > 0 ? step : -step) <= length - i && step >= -3 && step <= 4);
        require(cp >= 0 && cp <= 0x10FFFF && !(cp >= 0xD800 && cp <= 0xDFFF));
        if (step > 0) require(qkv_utf8_put(cp, back) == step && memcmp(back, text + i, (size_t)step) == 0);
        if (step < 0) require(cp == 0xFFFD);
        faults += step < 0 || cp == 0;
        i += step < 0 ? -step : step;
    }
    require(qkv_utf8_faults(text, length) == faults);
}

static void fold(qkv_ctx *ctx, const char *text, int64_t length) {
    qkv_folded f;
    int64_t begin_cursor = 0, end_cursor = 0, last = 0;
    require(qkv_folded_make(ctx, QKV_NORMALIZE_NONE, true, text, length, &f) == QKV_OK);
    for (int64_t i = 0; i < f.length; i++) {
        int64_t begin = qkv_folded_begin(&f, &begin_cursor, i), end = qkv_folded_end(&f, &end_cursor, i + 1);
        require(begin >= 0 && begin <= last && begin < end && end >= last && end <= length);
        last = end;
    }
    require(last == length);
    qkv_folded_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    int64_t length = (int64_t)size;
    qkv_ctx ctx = {0};
    qkv_ctx_setup(&ctx, NULL);
    decode(text, length);
    fold(&ctx, text, length);
    for (int64_t begin = 0, end; begin < length; begin = end) {
        end = qkv_piece_end(text, length, begin);
        require(end > begin && end <= length);
    }
    qkv_buf b = {.ctx = &ctx};
    require(qkv_bytemap_put(&b, text, length) == QKV_OK);
    char *back = malloc(2 * size + 1);
    require(qkv_utf8_faults(b.p, b.size) == 0);
    require(qkv_bytemap_get(b.p, b.size, back) == length && (size == 0 || memcmp(back, text, size) == 0));
    qkv_bytemap_get(text, length, back);
    free(back);
    qkv_buf_free(&b);
    return 0;
}
