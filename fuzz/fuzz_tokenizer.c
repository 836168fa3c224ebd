/* Tokenizers: first byte 'J': the rest is the JSON of a tokenizer; else it chooses the kind, and the rest is text to train on
 * (lines) and to encode. */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds) abort();
}

static void check_tokens(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text, int64_t length) {
    int64_t count, again, end = 0, bytes = 0;
    const qkv_tokenizer_options *o = qkv_tokenizer_options_of(t);
    require(qkv_tokenizer_encode(ctx, t, text, length, NULL, 0, &count) == QKV_OK);
    qkv_token *tokens = malloc((size_t)(count + 1) * sizeof *tokens);
    require(qkv_tokenizer_encode(ctx, t, text, length, tokens, count, &again) == QKV_OK && again == count);
    for (int64_t i = 0; i < count; i++) {
        int64_t piece_size;
        const char *piece = qkv_tokenizer_piece(t, tokens[i].id, &piece_size);
        require(tokens[i].id >= 0 && tokens[i].id < qkv_tokenizer_vocab(t) && piece_size > 0);
        require(tokens[i].begin >= 0 && tokens[i].begin <= end && tokens[i].begin < tokens[i].end && tokens[i].end >= end);
        require(tokens[i].id >= QKV_TOKEN_SPECIALS || (tokens[i].id == QKV_TOKEN_UNK && o->kind == QKV_TOKENIZER_CHAR));
        if (!o->lowercase && o->kind != QKV_TOKENIZER_CHAR) require(memcmp(piece, text + bytes, (size_t)piece_size) == 0);
        bytes += piece_size;
        end = tokens[i].end;
    }
    require(end == length);
    if (!o->lowercase && o->kind != QKV_TOKENIZER_CHAR) require(bytes == length);
    free(tokens);
}

/* What it writes reads back, and writes the same again. */
static void check_json(qkv_ctx *ctx, const qkv_tokenizer *t) {
    json_t *json, *again;
    qkv_tokenizer *copy;
    require(qkv_tokenizer_to_json(ctx, t, &json) == QKV_OK);
    require(qkv_tokenizer_from_json(ctx, json, &copy) == QKV_OK);
    require(qkv_tokenizer_to_json(ctx, copy, &again) == QKV_OK);
    require(json_equal(json, again));
    json_decref(json);
    json_decref(again);
    qkv_tokenizer_free(copy);
}

static void from_json(qkv_ctx *ctx, const char *text, size_t size) {
    qkv_tokenizer *t;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (!json) return;
    if (qkv_tokenizer_from_json(ctx, json, &t) == QKV_OK) {
        check_tokens(ctx, t, text, (int64_t)size);
        check_json(ctx, t);
        qkv_tokenizer_free(t);
    } else {
        require(t == NULL && ctx->message[0] != 0);
    }
    json_decref(json);
}

static void from_text(qkv_ctx *ctx, int choice, const char *text, size_t size) {
    enum { TEXTS = 64 };
    const char *texts[TEXTS];
    int64_t lengths[TEXTS], count = 0;
    size_t at = 0;
    while (at < size && count < TEXTS) {
        const char *end = memchr(text + at, '\n', size - at);
        lengths[count] = end && count + 1 < TEXTS ? end - text - (int64_t)at : (int64_t)(size - at);
        texts[count] = text + at;
        at += (size_t)lengths[count++] + 1;
    }
    qkv_tokenizer_options o = {.kind = (qkv_tokenizer_kind)(choice % 3), .vocab = 260 + choice / 6, .lowercase = choice / 3 % 2};
    qkv_tokenizer *t;
    require(qkv_tokenizer_train(ctx, &o, count, texts, lengths, &t) == QKV_OK);
    require(qkv_tokenizer_vocab(t) <= o.vocab || o.kind == QKV_TOKENIZER_BYTE);
    check_tokens(ctx, t, text, (int64_t)size);
    check_json(ctx, t);
    qkv_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qkv_ctx ctx = {0};
    qkv_ctx_setup(&ctx, NULL);
    if (size == 0) return 0;
    if (data[0] == 'J')
        from_json(&ctx, (const char *)data + 1, size - 1);
    else
        from_text(&ctx, data[0], (const char *)data + 1, size - 1);
    return 0;
}
