/* The public face: qkv/tokenizer.h. */
#include "text/tokenizer.h"

#include "text/counts.h"
#include "text/vocab.h"

qkv_status qkv_text_check(qkv_ctx *ctx, const char *what, int64_t index, const char *text, int64_t length) {
    if (length < 0 || length > QKV_TEXT_LIMIT)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s %lld has a length of %lld, which is not in 0..%lld", what, (long long)index,
                        (long long)length, (long long)QKV_TEXT_LIMIT);
    if (length > 0 && !text)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s %lld is NULL, with a length of %lld", what, (long long)index, (long long)length);
    return QKV_OK;
}

static qkv_status check_texts(qkv_ctx *ctx, int64_t count, const char *const *texts, const int64_t *lengths) {
    if (count < 0 || (count > 0 && (!texts || !lengths)))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%lld texts without texts or lengths", (long long)count);
    for (int64_t i = 0; i < count; i++) QKV_TRY(qkv_text_check(ctx, "text", i, texts[i], lengths[i]));
    return QKV_OK;
}

static qkv_status train_bpe(qkv_tokenizer *t, int64_t count, const char *const *texts, const int64_t *lengths) {
    qkv_piece_counts counts = {.ctx = t->ctx};
    qkv_status status = qkv_vocab_add_bytes(t);
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        qkv_folded n;
        if ((status = qkv_vocab_poll(t, i)) != QKV_OK) break;
        status = qkv_folded_make(t->ctx, (qkv_normalization)t->options.normalize, t->options.lowercase, texts[i], lengths[i], &n);
        if (status != QKV_OK) break;
        status = qkv_piece_counts_add(&counts, n.text, n.length);
        qkv_folded_free(&n);
    }
    if (status == QKV_OK) status = qkv_bpe_train(t, &counts);
    qkv_piece_counts_free(&counts);
    return status == QKV_OK ? qkv_vocab_finish(t) : status;
}

qkv_status qkv_tokenizer_train(qkv_ctx *ctx, const qkv_tokenizer_options *options, int64_t count, const char *const *texts,
                               const int64_t *lengths, qkv_tokenizer **tokenizer) {
    qkv_tokenizer *t;
    qkv_status status = QKV_OK;
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!tokenizer) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no place for the tokenizer: tokenizer is NULL");
    *tokenizer = NULL;
    if (!options) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "the tokenizer's options are NULL");
    QKV_TRY(qkv_vocab_check(ctx, options));
    QKV_TRY(check_texts(ctx, count, texts, lengths));
    QKV_TRY(qkv_vocab_create(ctx, options, &t));
    switch (options->kind) {
    case QKV_TOKENIZER_BPE:
        status = train_bpe(t, count, texts, lengths);
        break;
    case QKV_TOKENIZER_CHAR:
        status = qkv_chars_train(t, count, texts, lengths);
        break;
    case QKV_TOKENIZER_BYTE:
        status = qkv_vocab_add_bytes(t);
        break;
    }
    if (status != QKV_OK) {
        qkv_tokenizer_free(t);
        return status;
    }
    *tokenizer = t;
    return QKV_OK;
}

int64_t qkv_tokenizer_vocab(const qkv_tokenizer *t) {
    return t ? t->count : 0;
}
const qkv_tokenizer_options *qkv_tokenizer_options_of(const qkv_tokenizer *t) {
    return &t->options;
}

qkv_status qkv_tokenizer_encode(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text, int64_t length, qkv_token *tokens,
                                int64_t capacity, int64_t *count) {
    qkv_folded n;
    qkv_status status = QKV_OK;
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!count) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no place for the number of tokens: count is NULL");
    *count = 0;
    if (!t) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "the tokenizer is NULL");
    QKV_TRY(qkv_text_check(ctx, "text", 0, text, length));
    if (capacity < 0 || (capacity > 0 && !tokens))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "a buffer of %lld tokens is not there", (long long)capacity);
    QKV_TRY(qkv_folded_make(ctx, (qkv_normalization)t->options.normalize, t->options.lowercase, text, length, &n));
    qkv_sink sink = {.tokens = tokens, .capacity = capacity, .folded = &n};
    switch (t->options.kind) {
    case QKV_TOKENIZER_BPE:
        status = qkv_bpe_encode(ctx, t, &sink);
        break;
    case QKV_TOKENIZER_CHAR:
        qkv_chars_encode(t, &sink);
        break;
    case QKV_TOKENIZER_BYTE:
        for (int64_t i = 0; i < n.length; i++) qkv_sink_put(&sink, QKV_FIRST_BYTE + (unsigned char)n.text[i], i, i + 1);
        break;
    }
    qkv_folded_free(&n);
    if (status == QKV_OK) *count = sink.count;
    return status;
}

const char *qkv_tokenizer_piece(const qkv_tokenizer *t, int32_t id, int64_t *length) {
    if (!length) return "";
    *length = 0;
    if (!t || id < 0 || id >= t->count) return "";
    *length = qkv_vocab_size_of(t, id);
    return qkv_vocab_bytes_of(t, id);
}
