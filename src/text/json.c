/* {"kind": "bpe", "lowercase": true, "vocab": 8000, "merges": ["Ġ t", "h e", ...]}     merges in order of rank
 * {"kind": "char", "lowercase": false, "vocab": 4000, "code_points": [32, 101, ...]}   in order of id
 * {"kind": "byte", "lowercase": false}
 * "normalize": "nfc" or "nfkc" stands in it where the text is normalised first. "vocab" is the largest vocabulary that was asked
 * for. The special tokens and the bytes come first and are not listed. */
#include "text/tokenizer.h"

#include <string.h>

#include "base/buf.h"
#include "text/bytemap.h"
#include "text/vocab.h"

static const char *const kind_names[] = {"bpe", "char", "byte"};
static const char *const form_names[] = {"none", "nfc", "nfkc"}; /* the first is never written */

/* ---- writing ---- */

static qkv_status set(qkv_ctx *ctx, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) /* takes `value`, NULL too */
        return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory: the tokenizer's JSON");
    return QKV_OK;
}

static qkv_status append(qkv_ctx *ctx, json_t *array, json_t *value) {
    if (json_array_append_new(array, value) != 0) return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory: the tokenizer's JSON");
    return QKV_OK;
}

static qkv_status put_merges(qkv_ctx *ctx, const qkv_tokenizer *t, json_t *array) {
    qkv_buf b = {.ctx = ctx};
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < t->merge_count && status == QKV_OK; i++) {
        qkv_merge m = t->merges[i];
        b.size = 0;
        status = qkv_bytemap_put(&b, qkv_vocab_bytes_of(t, m.left), qkv_vocab_size_of(t, m.left));
        if (status == QKV_OK) status = qkv_buf_add(&b, " ", 1);
        if (status == QKV_OK) status = qkv_bytemap_put(&b, qkv_vocab_bytes_of(t, m.right), qkv_vocab_size_of(t, m.right));
        if (status == QKV_OK) status = append(ctx, array, json_stringn(b.p, (size_t)b.size));
    }
    qkv_buf_free(&b);
    return status;
}

static qkv_status put_code_points(qkv_ctx *ctx, const qkv_tokenizer *t, json_t *array) {
    int64_t count = t->count - QKV_TOKEN_SPECIALS;
    int32_t *by_id;
    QKV_TRY(qkv_alloc(ctx, count, sizeof *by_id, &by_id));
    for (int64_t i = 0; i < count; i++) by_id[t->cp_ids[i] - QKV_TOKEN_SPECIALS] = t->cps[i];
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count && status == QKV_OK; i++) status = append(ctx, array, json_integer(by_id[i]));
    qkv_free(ctx, by_id);
    return status;
}

static qkv_status fill(qkv_ctx *ctx, const qkv_tokenizer *t, json_t *object) {
    QKV_TRY(set(ctx, object, "kind", json_string(kind_names[t->options.kind])));
    QKV_TRY(set(ctx, object, "lowercase", json_boolean(t->options.lowercase)));
    if (t->options.normalize) QKV_TRY(set(ctx, object, "normalize", json_string(form_names[t->options.normalize])));
    if (t->options.kind == QKV_TOKENIZER_BYTE) return QKV_OK;
    QKV_TRY(set(ctx, object, "vocab", json_integer(t->options.vocab)));
    json_t *array = json_array();
    bool bpe = t->options.kind == QKV_TOKENIZER_BPE;
    QKV_TRY(set(ctx, object, bpe ? "merges" : "code_points", array));
    return bpe ? put_merges(ctx, t, array) : put_code_points(ctx, t, array);
}

qkv_status qkv_tokenizer_to_json(qkv_ctx *ctx, const qkv_tokenizer *t, json_t **json) {
    *json = json_object();
    if (!*json) return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory: the tokenizer's JSON");
    qkv_status status = fill(ctx, t, *json);
    if (status != QKV_OK) {
        json_decref(*json);
        *json = NULL;
    }
    return status;
}

/* ---- reading ---- */

static qkv_status read_form(qkv_ctx *ctx, const json_t *json, qkv_tokenizer_options *o) {
    const json_t *form = json_object_get(json, "normalize");
    o->normalize = QKV_NORMALIZE_NONE;
    if (!form) return QKV_OK;
    for (int i = QKV_NORMALIZE_NFC; i <= QKV_NORMALIZE_NFKC; i++)
        if (json_is_string(form) && strcmp(json_string_value(form), form_names[i]) == 0) o->normalize = i;
    return o->normalize ? QKV_OK : qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: \"normalize\" is not one of nfc, nfkc");
}

static qkv_status read_options(qkv_ctx *ctx, const json_t *json, qkv_tokenizer_options *o) {
    if (!json_is_object(json)) return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: not a JSON object");
    const json_t *kind = json_object_get(json, "kind"), *lowercase = json_object_get(json, "lowercase"),
                 *vocab = json_object_get(json, "vocab");
    int found = -1;
    for (int i = 0; i < 3; i++)
        if (json_is_string(kind) && strcmp(json_string_value(kind), kind_names[i]) == 0) found = i;
    if (found < 0) return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: \"kind\" is not one of bpe, char, byte");
    if (!json_is_boolean(lowercase)) return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: \"lowercase\" is not true or false");
    o->kind = (qkv_tokenizer_kind)found;
    o->lowercase = json_is_true(lowercase);
    o->vocab = QKV_FIRST_MERGE;
    QKV_TRY(read_form(ctx, json, o));
    const char *list = o->kind == QKV_TOKENIZER_BPE ? "merges" : "code_points";
    if (o->kind != QKV_TOKENIZER_BYTE) {
        if (!json_is_integer(vocab)) return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: \"vocab\" is not a whole number");
        if (!json_is_array(json_object_get(json, list)))
            return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: \"%s\" is not a list", list);
        o->vocab = json_integer_value(vocab);
    }
    size_t entries = (o->kind == QKV_TOKENIZER_BYTE ? 2u : 4u) + (o->normalize != QKV_NORMALIZE_NONE);
    if (json_object_size(json) != entries)
        return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: %zu entries, expected %zu", json_object_size(json), entries);
    /* The limits are those of training, but here it is the file that is wrong. */
    return qkv_vocab_check(ctx, o) == QKV_OK ? QKV_OK : qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: %s", ctx->message);
}

static int32_t read_piece(const qkv_tokenizer *t, const char *text, size_t length) {
    char bytes[2 * QKV_PIECE_BYTES];
    if (length == 0 || length > sizeof bytes) return -1;
    int64_t size = qkv_bytemap_get(text, (int64_t)length, bytes);
    return size <= 0 ? -1 : qkv_vocab_find(t, bytes, size);
}

static qkv_status read_merge(qkv_ctx *ctx, qkv_tokenizer *t, size_t index, const json_t *item) {
    const char *text = json_string_value(item); /* NULL if it is no string */
    size_t length = json_string_length(item);
    const char *space = text ? memchr(text, ' ', length) : NULL;
    if (!space) return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: merge %zu is not two pieces with a space between", index);
    size_t left_length = (size_t)(space - text);
    int32_t left = read_piece(t, text, left_length), right = read_piece(t, space + 1, length - left_length - 1), made;
    if (left < 0 || right < 0)
        return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: merge %zu (%.40s) joins pieces that no earlier merge makes", index, text);
    QKV_TRY(qkv_vocab_merge(t, left, right, &made));
    if (made < 0)
        return qkv_fail(ctx, QKV_BAD_FORMAT,
                        "tokenizer: merge %zu (%.40s) makes a piece that is there already, is over %d bytes or cuts a code point",
                        index, text, (int)QKV_PIECE_BYTES);
    return QKV_OK;
}

static qkv_status read_merges(qkv_ctx *ctx, qkv_tokenizer *t, const json_t *list) {
    size_t count = json_array_size(list);
    if (count > (size_t)(t->options.vocab - QKV_FIRST_MERGE))
        return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: %zu merges do not fit a vocabulary of %lld", count,
                        (long long)t->options.vocab);
    QKV_TRY(qkv_vocab_add_bytes(t));
    for (size_t i = 0; i < count; i++) QKV_TRY(read_merge(ctx, t, i, json_array_get(list, i)));
    return qkv_vocab_finish(t);
}

static qkv_status check_code_points(qkv_ctx *ctx, const json_t *list, int32_t *cps, uint8_t *seen) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t cp = json_is_integer(item) ? json_integer_value(item) : -1;
        if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
            return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: entry %zu is no Unicode code point", i);
        if (seen[cp >> 3] >> (cp & 7) & 1)
            return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: code point %lld is there twice", (long long)cp);
        seen[cp >> 3] = (uint8_t)(seen[cp >> 3] | 1 << (cp & 7));
        cps[i] = (int32_t)cp;
    }
    return QKV_OK;
}

static qkv_status read_code_points(qkv_ctx *ctx, qkv_tokenizer *t, const json_t *list) {
    size_t count = json_array_size(list);
    int32_t *cps = NULL;
    uint8_t *seen = NULL;
    if (count > (size_t)(t->options.vocab - QKV_TOKEN_SPECIALS))
        return qkv_fail(ctx, QKV_BAD_FORMAT, "tokenizer: %zu code points do not fit a vocabulary of %lld", count,
                        (long long)t->options.vocab);
    qkv_status status = qkv_alloc(ctx, (int64_t)count, sizeof *cps, &cps);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, 0x110000 / 8, 1, &seen);
    if (status == QKV_OK) status = check_code_points(ctx, list, cps, seen);
    if (status == QKV_OK) status = qkv_chars_set(t, cps, (int64_t)count);
    qkv_free(ctx, cps);
    qkv_free(ctx, seen);
    return status;
}

qkv_status qkv_tokenizer_from_json(qkv_ctx *ctx, const json_t *json, qkv_tokenizer **out) {
    qkv_tokenizer_options options;
    qkv_tokenizer *t;
    qkv_status status = QKV_OK;
    *out = NULL;
    QKV_TRY(read_options(ctx, json, &options));
    QKV_TRY(qkv_vocab_create(ctx, &options, &t));
    switch (options.kind) {
    case QKV_TOKENIZER_BPE:
        status = read_merges(ctx, t, json_object_get(json, "merges"));
        break;
    case QKV_TOKENIZER_CHAR:
        status = read_code_points(ctx, t, json_object_get(json, "code_points"));
        break;
    case QKV_TOKENIZER_BYTE:
        status = qkv_vocab_add_bytes(t);
        break;
    }
    if (status != QKV_OK) {
        qkv_tokenizer_free(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}
