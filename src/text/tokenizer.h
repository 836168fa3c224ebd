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

const qkv_tokenizer_options *qkv_tokenizer_options_of(const qkv_tokenizer *t);

#endif
