/* Any bytes as valid UTF-8 without spaces or control characters: the byte-to-unicode alphabet of GPT-2. Bytes 33..126,
 * 161..172 and 174..255 stand for the code points of the same number, the others for U+0100 and up in order, so a space is
 * U+0120. */
#ifndef QKV_TEXT_BYTEMAP_H
#define QKV_TEXT_BYTEMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Adds `size` bytes in the alphabet to `b` (at most two bytes each). */
qkv_status qkv_bytemap_put(qkv_buf *b, const char *bytes, int64_t size) QKV_MUST_USE;

/* The bytes that text[0..length-1] stands for; `bytes` has room for `length`. Returns their number, or -1 where a code
 * point is not of the alphabet or the UTF-8 is broken. */
int64_t qkv_bytemap_get(const char *text, int64_t length, char *bytes);

#endif
