#include "text/vocab.h"

#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "text/utf8.h"

static const char *const special_names[QKV_TOKEN_SPECIALS] = {"<unk>", "<cls>", "<sep>", "<mask>"};

qkv_status qkv_vocab_check(qkv_ctx *ctx, const qkv_tokenizer_options *o) {
    if ((int)o->kind < QKV_TOKENIZER_BPE || (int)o->kind > QKV_TOKENIZER_BYTE)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "tokenizer kind %d is unknown", (int)o->kind);
    if (o->normalize < QKV_NORMALIZE_NONE || o->normalize > QKV_NORMALIZE_NFKC)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "normalization %d is unknown", o->normalize);
    if (o->kind == QKV_TOKENIZER_BYTE) return QKV_OK;
    if (o->vocab > QKV_VOCAB_LIMIT)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "vocab=%lld is over the limit of %d", (long long)o->vocab, (int)QKV_VOCAB_LIMIT);
    if (o->kind == QKV_TOKENIZER_BPE && o->vocab < QKV_FIRST_MERGE)
        return qkv_fail(ctx, QKV_BAD_CONFIG,
                        "vocab=%lld is too small for byte-level BPE: it needs at least %d (%d special tokens and 256 bytes)",
                        (long long)o->vocab, (int)QKV_FIRST_MERGE, (int)QKV_TOKEN_SPECIALS);
    if (o->kind == QKV_TOKENIZER_CHAR && o->vocab < QKV_TOKEN_SPECIALS)
        return qkv_fail(ctx, QKV_BAD_CONFIG, "vocab=%lld is too small: %d special tokens are always there", (long long)o->vocab,
                        (int)QKV_TOKEN_SPECIALS);
    return QKV_OK;
}

void qkv_tokenizer_free(qkv_tokenizer *t) {
    if (!t) return;
    qkv_ctx *ctx = t->ctx;
    qkv_free(ctx, t->start);
    qkv_free(ctx, t->bytes);
    qkv_free(ctx, t->piece_table);
    qkv_free(ctx, t->merges);
    qkv_free(ctx, t->merge_table);
    qkv_free(ctx, t->whole);
    qkv_free(ctx, t->cps);
    qkv_free(ctx, t->cp_ids);
    qkv_free(ctx, t);
}

/* ---- pieces ---- */

static void table_put(qkv_tokenizer *t, int32_t id) {
    uint64_t at = qkv_hash64(qkv_vocab_bytes_of(t, id), (size_t)qkv_vocab_size_of(t, id), 0);
    for (at &= (uint64_t)t->piece_slots - 1; t->piece_table[at] >= 0;) at = (at + 1) & ((uint64_t)t->piece_slots - 1);
    t->piece_table[at] = id;
}

static qkv_status table_grow(qkv_tokenizer *t) {
    int64_t slots = t->piece_slots ? 2 * t->piece_slots : 1024;
    int32_t *table;
    QKV_TRY(qkv_alloc(t->ctx, slots, sizeof *table, &table));
    memset(table, 0xFF, (size_t)slots * sizeof *table);
    qkv_free(t->ctx, t->piece_table);
    t->piece_table = table, t->piece_slots = slots;
    for (int32_t id = QKV_TOKEN_SPECIALS; id < t->count; id++) table_put(t, id);
    return QKV_OK;
}

int32_t qkv_vocab_find(const qkv_tokenizer *t, const char *bytes, int64_t size) {
    if (t->piece_slots == 0) return -1;
    uint64_t mask = (uint64_t)t->piece_slots - 1, at = qkv_hash64(bytes, (size_t)size, 0) & mask;
    for (; t->piece_table[at] >= 0; at = (at + 1) & mask) {
        int32_t id = t->piece_table[at];
        if (qkv_vocab_size_of(t, id) == size && memcmp(qkv_vocab_bytes_of(t, id), bytes, (size_t)size) == 0) return id;
    }
    return -1;
}

qkv_status qkv_vocab_add(qkv_tokenizer *t, const char *bytes, int64_t size) {
    if (t->count + 2 > t->start_capacity) {
        int64_t capacity = t->start_capacity ? 2 * t->start_capacity : 512;
        QKV_TRY(qkv_grow(t->ctx, capacity, sizeof *t->start, &t->start));
        t->start_capacity = capacity;
    }
    if (t->count == 0) t->start[0] = 0;
    int64_t used = t->start[t->count];
    if (used + size > t->bytes_capacity) {
        int64_t capacity = 2 * (used + size) + 1024;
        QKV_TRY(qkv_grow(t->ctx, capacity, 1, &t->bytes));
        t->bytes_capacity = capacity;
    }
    if (2 * ((int64_t)t->count + 1) > t->piece_slots) QKV_TRY(table_grow(t));
    memcpy(t->bytes + used, bytes, (size_t)size);
    int32_t id = t->count++;
    t->start[t->count] = used + size;
    if (id >= QKV_TOKEN_SPECIALS) table_put(t, id);
    return QKV_OK;
}

qkv_status qkv_vocab_add_bytes(qkv_tokenizer *t) {
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        QKV_TRY(qkv_vocab_add(t, &byte, 1));
    }
    return QKV_OK;
}

qkv_status qkv_vocab_create(qkv_ctx *ctx, const qkv_tokenizer_options *options, qkv_tokenizer **out) {
    qkv_tokenizer *t;
    *out = NULL;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *t, &t));
    t->ctx = ctx;
    t->options = *options;
    t->options.lowercase = options->lowercase != 0;
    if (options->kind == QKV_TOKENIZER_BYTE) t->options.vocab = QKV_FIRST_MERGE;
    for (int i = 0; i < QKV_TOKEN_SPECIALS; i++) {
        qkv_status status = qkv_vocab_add(t, special_names[i], (int64_t)strlen(special_names[i]));
        if (status != QKV_OK) {
            qkv_tokenizer_free(t);
            return status;
        }
    }
    *out = t;
    return QKV_OK;
}

/* ---- merges ---- */

/* A piece is made of whole code points, or is a part of one: nobody wants half a Han character glued to a word. */
static bool is_sound(const char *piece, int64_t size) {
    int32_t cp;
    int64_t at = 0;
    for (int step = 0; at < size; at += step) {
        step = qkv_utf8_next(piece + at, size - at, &cp);
        if (step < 0 && at == 0 && -step == size) return true; /* the start of a code point */
        if (step < 0) break;
    }
    if (at == size) return true;
    for (int64_t i = 0; i < size; i++)
        if (((unsigned char)piece[i] & 0xC0) != 0x80) return false;
    return size <= 3; /* the rest of one */
}

qkv_status qkv_vocab_merge(qkv_tokenizer *t, int32_t left, int32_t right, int32_t *made) {
    char piece[QKV_PIECE_BYTES];
    int64_t left_size = qkv_vocab_size_of(t, left), size = left_size + qkv_vocab_size_of(t, right);
    *made = -1;
    if (size > QKV_PIECE_BYTES) return QKV_OK;
    memcpy(piece, qkv_vocab_bytes_of(t, left), (size_t)left_size);
    memcpy(piece + left_size, qkv_vocab_bytes_of(t, right), (size_t)(size - left_size));
    if (!is_sound(piece, size) || qkv_vocab_find(t, piece, size) >= 0) return QKV_OK;
    if (t->merge_count == t->merge_capacity) {
        int64_t capacity = t->merge_capacity ? 2 * t->merge_capacity : 256;
        QKV_TRY(qkv_grow(t->ctx, capacity, sizeof *t->merges, &t->merges));
        t->merge_capacity = capacity;
    }
    QKV_TRY(qkv_vocab_add(t, piece, size));
    t->merges[t->merge_count++] = (qkv_merge){left, right};
    *made = t->count - 1;
    return QKV_OK;
}

qkv_status qkv_vocab_finish(qkv_tokenizer *t) {
    int64_t slots = 256;
    while (slots < 2 * t->merge_count + 2) slots *= 2;
    QKV_TRY(qkv_alloc(t->ctx, slots, sizeof *t->merge_table, &t->merge_table));
    t->merge_slots = slots;
    for (int64_t i = 0; i < slots; i++) t->merge_table[i] = (qkv_merge_slot){UINT64_MAX, -1};
    for (int64_t i = 0; i < t->merge_count; i++) {
        uint64_t key = (uint64_t)t->merges[i].left << 32 | (uint32_t)t->merges[i].right;
        uint64_t at = qkv_mix64(key) & (uint64_t)(slots - 1);
        while (t->merge_table[at].key != UINT64_MAX) at = (at + 1) & (uint64_t)(slots - 1);
        t->merge_table[at] = (qkv_merge_slot){key, (int32_t)(QKV_FIRST_MERGE + i)};
    }
    QKV_TRY(qkv_alloc_zero(t->ctx, t->count, 1, &t->whole));
    for (int32_t id = QKV_FIRST_BYTE; id < t->count; id++) {
        int32_t ids[QKV_PIECE_BYTES];
        t->whole[id] = qkv_bpe_short(t, qkv_vocab_bytes_of(t, id), (int)qkv_vocab_size_of(t, id), ids) == 1;
    }
    return QKV_OK;
}
