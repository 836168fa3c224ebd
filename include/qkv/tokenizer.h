/* Tokenizers trained from the data: byte-level BPE, characters, bytes. */
#ifndef QKV_TOKENIZER_H
#define QKV_TOKENIZER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkv_tokenizer qkv_tokenizer;

/* The first ids are the same in every vocabulary. */
enum { QKV_TOKEN_UNK = 0, QKV_TOKEN_CLS = 1, QKV_TOKEN_SEP = 2, QKV_TOKEN_MASK = 3, QKV_TOKEN_SPECIALS = 4 };

/* BPE: pieces learned from the texts on top of the 256 bytes; never across words, digits and punctuation. CHAR: the code
 * points that occur at least twice, the most frequent first, the others UNK. BYTE: the 256 bytes. */
typedef enum qkv_tokenizer_kind { QKV_TOKENIZER_BPE, QKV_TOKENIZER_CHAR, QKV_TOKENIZER_BYTE } qkv_tokenizer_kind;

/* Unicode normalization before anything else: NFC composes (e + U+0301 becomes U+00E9); NFKC also replaces compatibility forms, as
 * full-width letters, ligatures and circled digits, by ordinary ones. Both read NUL and each invalid UTF-8 sequence as U+FFFD.
 * Neither maps traditional and simplified characters to each other. */
typedef enum qkv_normalization { QKV_NORMALIZE_NONE, QKV_NORMALIZE_NFC, QKV_NORMALIZE_NFKC } qkv_normalization;

typedef struct qkv_tokenizer_options {
    qkv_tokenizer_kind kind;
    int64_t vocab; /* largest vocabulary, specials included; BPE needs at least 260. Small texts give fewer */
    int lowercase; /* 1: map every code point to lower case first (offsets still refer to the original text) */
    int normalize; /* qkv_normalization; before the mapping to lower case, offsets as there */
} qkv_tokenizer_options;

/* One token. begin <= end are byte offsets into the text as it was given, whatever normalisation did. Tokens lie in
 * order and together cover every byte. Two tokens share a range only where lower-casing or normalization changed the length of a
 * code point (or of several that normalize together) and both stand for a part of it. */
typedef struct qkv_token {
    int32_t id;
    int64_t begin, end;
} qkv_token;

/* Trains on `count` texts of `lengths[i]` bytes (0..2^40; any bytes: NUL and invalid UTF-8 are legal). Zero texts give the
 * smallest vocabulary. The same texts in any order give the same tokenizer. QKV_STOPPED when the stop callback asks. */
QKV_API qkv_status qkv_tokenizer_train(qkv_ctx *ctx, const qkv_tokenizer_options *options, int64_t count, const char *const *texts,
                                       const int64_t *lengths, qkv_tokenizer **tokenizer) QKV_MUST_USE;
/* NULL is harmless. Only what qkv_tokenizer_train made; the tokenizer of a model is the model's. */
QKV_API void qkv_tokenizer_free(qkv_tokenizer *tokenizer);

QKV_API int64_t qkv_tokenizer_vocab(const qkv_tokenizer *tokenizer);

/* Encodes one text of `length` bytes (0..2^40): writes at most `capacity` tokens and returns in *count how many the whole
 * text has. Time n log n in the length of the longest piece. Empty text: 0 tokens. Special tokens are never produced from text, except UNK by the
 * character tokenizer. That one reads each invalid UTF-8 sequence as one U+FFFD; BPE and BYTE keep the bytes, unless
 * `normalize` says otherwise.
 * `tokens` may be NULL where `capacity` is 0, `text` where `length` is 0. */
QKV_API qkv_status qkv_tokenizer_encode(qkv_ctx *ctx, const qkv_tokenizer *tokenizer, const char *text, int64_t length,
                                        qkv_token *tokens, int64_t capacity, int64_t *count) QKV_MUST_USE;

/* The bytes of one token (not NUL-terminated, may be any bytes; specials give "<unk>" etc.). Valid while the tokenizer
 * lives. An id outside the vocabulary gives an empty slice. */
QKV_API const char *qkv_tokenizer_piece(const qkv_tokenizer *tokenizer, int32_t id, int64_t *length);

#ifdef __cplusplus
}
#endif
#endif
