#include "text/bytemap.h"

#include "text/utf8.h"

static int32_t letter_of(unsigned byte) {
    if (byte <= 32) return 256 + (int32_t)byte;
    if (byte >= 127 && byte <= 160) return 256 + 33 + (int32_t)byte - 127;
    if (byte == 173) return 256 + 33 + 34;
    return (int32_t)byte;
}

static int byte_of(int32_t cp) {
    if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255)) return (int)cp;
    if (cp >= 256 && cp <= 256 + 32) return (int)cp - 256;
    if (cp > 256 + 32 && cp < 256 + 67) return (int)cp - (256 + 33) + 127;
    return cp == 256 + 67 ? 173 : -1;
}

qkv_status qkv_bytemap_put(qkv_buf *b, const char *bytes, int64_t size) {
    for (int64_t i = 0; i < size; i++) {
        char out[4];
        int n = qkv_utf8_put(letter_of((unsigned char)bytes[i]), out);
        QKV_TRY(qkv_buf_add(b, out, n));
    }
    return QKV_OK;
}

int64_t qkv_bytemap_get(const char *text, int64_t length, char *bytes) {
    int64_t count = 0;
    for (int64_t i = 0; i < length;) {
        int32_t cp;
        int size = qkv_utf8_next(text + i, length - i, &cp);
        int byte = size < 0 ? -1 : byte_of(cp);
        if (byte < 0) return -1;
        bytes[count++] = (char)byte;
        i += size;
    }
    return count;
}
