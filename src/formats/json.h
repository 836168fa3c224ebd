/* JSON text to and from jansson values, with one strictness for every file: duplicate keys, NUL and invalid UTF-8 are refused,
 * nesting is limited before anything recurses. */
#ifndef QKV_FORMATS_JSON_H
#define QKV_FORMATS_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ctx.h"

/* New reference. `what` names the text in messages ("model.safetensors: header"). More than `depth` open brackets at once,
 * duplicate keys, anything but white space after the value: QKV_BAD_FORMAT with line and column. The value may be of any
 * type. */
qkv_status qkv_json_parse(qkv_ctx *ctx, const char *what, const char *text, int64_t size, int depth, json_t **json) QKV_MUST_USE;

/* The same for a row of a user's data, of one line, which `what` names; a string may hold NUL (\u0000). */
qkv_status qkv_json_parse_row(qkv_ctx *ctx, const char *what, const char *text, int64_t size, int depth, json_t **json) QKV_MUST_USE;

/* Adds the text of `json` to `out`: compact, keys in the order they have, reals in the shortest form that reads back to the
 * same value, whatever the locale. */
qkv_status qkv_json_print(const json_t *json, qkv_buf *out) QKV_MUST_USE;

#endif
