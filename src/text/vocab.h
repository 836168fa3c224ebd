/* The tables of a tokenizer; private to this folder. */
#ifndef QKV_TEXT_VOCAB_H
#define QKV_TEXT_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "qkv/tokenizer.h"
#include "text/folded.h"

enum {
    QKV_FIRST_BYTE = QKV_TOKEN_SPECIALS,        /* id of byte 0 in the BPE and byte vocabularies */
    QKV_FIRST_MERGE = QKV_TOKEN_SPECIALS + 256, /* id of what the first merge makes */
    QKV_VOCAB_LIMIT = 1 << 24,
    QKV_PIECE_BYTES = 128 /* no merge makes a longer piece: a vocabulary stays small, whatever a file says */
};

typedef struct qkv_merge {
    int32_t left, right; /* merge i makes piece QKV_FIRST_MERGE + i; the order is the rank */
} qkv_merge;

typedef struct qkv_merge_slot {
    uint64_t key; /* left << 32 | right; UINT64_MAX: free */
    int32_t made;
} qkv_merge_slot;

struct qkv_tokenizer {
    qkv_ctx *ctx;
    qkv_tokenizer_options options;

    /* Piece i is bytes[start[i] .. start[i+1]-1]. */
    int32_t count;
    int64_t *start;
    int64_t start_capacity;
    char *bytes;
    int64_t bytes_capacity;

    /* Bytes -> id, without the specials; open addressing, -1 free, a power of two above twice the count. */
    int32_t *piece_table;
    int64_t piece_slots;

    /* BPE */
    int64_t merge_count, merge_capacity;
    qkv_merge *merges;
    qkv_merge_slot *merge_table;
    int64_t merge_slots;
    uint8_t *whole; /* [count] 1: encoding the bytes of this piece gives this one piece */

    /* Characters: ids QKV_TOKEN_SPECIALS + i. Both sorted by code point. */
    int32_t *cps, *cp_ids;
};

/* An empty tokenizer with the specials; *t is NULL on failure. The options must be legal. */
qkv_status qkv_vocab_create(qkv_ctx *ctx, const qkv_tokenizer_options *options, qkv_tokenizer **t) QKV_MUST_USE;
qkv_status qkv_vocab_check(qkv_ctx *ctx, const qkv_tokenizer_options *options) QKV_MUST_USE;

/* Appends a piece; its id is the old count. It must not be there yet. */
qkv_status qkv_vocab_add(qkv_tokenizer *t, const char *bytes, int64_t size) QKV_MUST_USE;
qkv_status qkv_vocab_add_bytes(qkv_tokenizer *t) QKV_MUST_USE; /* the 256 */
/* Id of a piece that is no special, or -1. */
int32_t qkv_vocab_find(const qkv_tokenizer *t, const char *bytes, int64_t size);

static inline int64_t qkv_vocab_size_of(const qkv_tokenizer *t, int32_t id) {
    return t->start[id + 1] - t->start[id];
}
static inline const char *qkv_vocab_bytes_of(const qkv_tokenizer *t, int32_t id) {
    return t->bytes + t->start[id];
}

/* Appends merge and piece. *made is the new id, or -1 where nothing was done: because the piece would be too long, because
 * it would hold a part of a code point beside anything else, or because it is there already (every piece has one id and comes
 * about in one way). */
qkv_status qkv_vocab_merge(qkv_tokenizer *t, int32_t left, int32_t right, int32_t *made) QKV_MUST_USE;
/* After the last merge: the tables for encoding. */
qkv_status qkv_vocab_finish(qkv_tokenizer *t) QKV_MUST_USE;

/* Where encoders put tokens. */
typedef struct qkv_sink {
    qkv_token *tokens;
    int64_t capacity, count;
    const qkv_folded *folded;
    int64_t begin_cursor, end_cursor;
} qkv_sink;

static inline void qkv_sink_put(qkv_sink *s, int32_t id, int64_t begin, int64_t end) {
    if (s->count < s->capacity)
        s->tokens[s->count] =
            (qkv_token){id, qkv_folded_begin(s->folded, &s->begin_cursor, begin), qkv_folded_end(s->folded, &s->end_cursor, end)};
    s->count++;
}

/* bpe_encode.c: text of s->folded. */
qkv_status qkv_bpe_encode(qkv_ctx *ctx, const qkv_tokenizer *t, qkv_sink *s) QKV_MUST_USE;
/* The ids of a short text (at most QKV_PIECE_BYTES) by merging alone; returns their number. */
int qkv_bpe_short(const qkv_tokenizer *t, const char *bytes, int size, int32_t *ids);

/* characters.c */
qkv_status qkv_chars_train(qkv_tokenizer *t, int64_t count, const char *const *texts, const int64_t *lengths) QKV_MUST_USE;
/* `cps` in id order; they must differ from each other. */
qkv_status qkv_chars_set(qkv_tokenizer *t, const int32_t *cps, int64_t count) QKV_MUST_USE;
void qkv_chars_encode(const qkv_tokenizer *t, qkv_sink *s);

/* Asks the stop callback at every 1024th `turn` of training: QKV_STOPPED if it says so. */
static inline qkv_status qkv_vocab_poll(const qkv_tokenizer *t, int64_t turn) {
    if (turn % 1024 != 0 || !qkv_stop_asked(t->ctx)) return QKV_OK;
    return qkv_fail(t->ctx, QKV_STOPPED, "stopped on request while the tokenizer was trained");
}

/* bpe_train.c */
struct qkv_piece_counts;
qkv_status qkv_bpe_train(qkv_tokenizer *t, const struct qkv_piece_counts *counts) QKV_MUST_USE;

#endif
