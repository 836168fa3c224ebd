/* Tokenizer state to and from JSON, for the model file; training and encoding are declared in qkv/tokenizer.h. */
#ifndef QKV_TEXT_TOKENIZER_H
#define QKV_TEXT_TOKENIZER_H

#include <jansson.h>

#include "base/ctx.h"
#include "qkv/tokenizer.h"

/* New reference. Pieces may hold any bytes: they are written in the byte-to-unicode alphabet of GPT-2 so that the JSON is
 * valid UTF-8. */
qkv_status qkv_tokenizer_to_json(qkv_ctx *ctx, const qkv_tokenizer *t, json_t **json) QKV_MUST_USE;
/* Everything is checked: sizes, merges that refer to known pieces, duplicates. */
qkv_status qkv_tokenizer_from_json(qkv_ctx *ctx, const json_t *json, qkv_tokenizer **t) QKV_MUST_USE;

/* Longer texts are mistakes, and below this no sum of lengths and rooms overflows. */
#define QKV_TEXT_LIMIT ((int64_t)1 << 40)
/* QKV_BAD_ARGUMENT unless `text` may be `length` bytes: 0..QKV_TEXT_LIMIT, and there if it has any. */
qkv_status qkv_text_check(qkv_ctx *ctx, const char *what, int64_t index, const char *text, int64_t length) QKV_MUST_USE;

const qkv_tokenizer_options *qkv_tokenizer_options_of(const qkv_tokenizer *t);

#endif
