/* Byte-level BPE (Sennrich et al. 2016): among all neighbours that form a merge, the one learned first is applied, the
 * leftmost first, until none is left. Short pieces by looking at all of them each time, long ones with a linked list and a
 * heap, so that the time is n log n. */
#include <string.h>

#include "base/rng.h"
#include "text/pieces.h"
#include "text/vocab.h"

enum { SHORT = 32, NONE = INT32_MAX };

static inline int32_t merge_of(const qkv_tokenizer *t, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)left << 32 | (uint32_t)right, mask = (uint64_t)t->merge_slots - 1;
    for (uint64_t at = qkv_mix64(key) & mask;; at = (at + 1) & mask) {
        if (t->merge_table[at].key == key) return t->merge_table[at].made;
        if (t->merge_table[at].key == UINT64_MAX) return NONE;
    }
}

/* Ids of merges ascend with their rank, so the id made is the rank. */
int qkv_bpe_short(const qkv_tokenizer *t, const char *bytes, int size, int32_t *ids) {
    int32_t made[QKV_PIECE_BYTES]; /* made[i]: what ids[i] and ids[i+1] make */
    int n = size;
    for (int i = 0; i < n; i++) ids[i] = QKV_FIRST_BYTE + (unsigned char)bytes[i];
    for (int i = 0; i + 1 < n; i++) made[i] = merge_of(t, ids[i], ids[i + 1]);
    while (n > 1) {
        int best = 0;
        for (int i = 1; i + 1 < n; i++)
            if (made[i] < made[best]) best = i;
        if (made[best] == NONE) break;
        ids[best] = made[best];
        n--;
        for (int i = best + 1; i < n; i++) ids[i] = ids[i + 1], made[i - 1] = made[i];
        if (best + 1 < n) made[best] = merge_of(t, ids[best], ids[best + 1]);
        if (best > 0) made[best - 1] = merge_of(t, ids[best - 1], ids[best]);
    }
    return n;
}

/* ---- long pieces ---- */

typedef struct symbol {
    int32_t id, previous, next, made; /* made: with the next one; NONE too where the symbol is gone */
} symbol;

typedef struct scratch {
    qkv_ctx *ctx;
    symbol *symbols;
    uint64_t *heap; /* rank << 32 | position: the smallest is next */
    int64_t capacity, heap_capacity, heap_count;
} scratch;

static void scratch_free(scratch *s) {
    qkv_free(s->ctx, s->symbols);
    qkv_free(s->ctx, s->heap);
}

/* Every merge removes a symbol and pushes at most two entries: 3n are enough. */
static qkv_status scratch_reserve(scratch *s, int64_t size) {
    if (size <= s->capacity) return QKV_OK;
    int64_t capacity = size < 1024 ? 1024 : size;
    qkv_free(s->ctx, s->symbols);
    qkv_free(s->ctx, s->heap);
    s->symbols = NULL, s->heap = NULL, s->capacity = 0;
    QKV_TRY(qkv_alloc(s->ctx, capacity, sizeof *s->symbols, &s->symbols));
    QKV_TRY(qkv_alloc(s->ctx, 3 * capacity, sizeof *s->heap, &s->heap));
    s->capacity = capacity;
    return QKV_OK;
}

static void sift_down(uint64_t *heap, int64_t count, int64_t at) {
    uint64_t value = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (value <= heap[child]) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

static void heap_push(scratch *s, uint64_t value) {
    int64_t at = s->heap_count++;
    while (at > 0 && value < s->heap[(at - 1) / 2]) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = value;
}

static uint64_t heap_pop(scratch *s) {
    uint64_t top = s->heap[0];
    s->heap[0] = s->heap[--s->heap_count];
    if (s->heap_count > 1) sift_down(s->heap, s->heap_count, 0);
    return top;
}

static inline uint64_t entry(int32_t rank, int32_t position) {
    return (uint64_t)rank << 32 | (uint32_t)position;
}

/* Looks anew at what the symbol makes with its right neighbour. */
static void renew(scratch *s, const qkv_tokenizer *t, int32_t at) {
    symbol *x = &s->symbols[at];
    x->made = x->next < 0 ? NONE : merge_of(t, x->id, s->symbols[x->next].id);
    if (x->made != NONE) heap_push(s, entry(x->made, at));
}

static void merge_all(scratch *s, const qkv_tokenizer *t) {
    symbol *x = s->symbols;
    while (s->heap_count > 0) {
        uint64_t top = heap_pop(s);
        int32_t at = (int32_t)(top & 0xFFFFFFFFu), made = (int32_t)(top >> 32);
        if (x[at].made != made) continue; /* one of the two has changed since */
        int32_t gone = x[at].next;
        x[at].id = made;
        x[at].next = x[gone].next;
        x[gone].made = NONE;
        if (x[at].next >= 0) x[x[at].next].previous = at;
        renew(s, t, at);
        if (x[at].previous >= 0) renew(s, t, x[at].previous);
    }
}

static qkv_status encode_long(scratch *s, const qkv_tokenizer *t, qkv_sink *sink, int64_t begin, int64_t size) {
    const char *bytes = sink->folded->text + begin;
    QKV_TRY(scratch_reserve(s, size));
    symbol *x = s->symbols;
    for (int64_t i = 0; i < size; i++)
        x[i] = (symbol){QKV_FIRST_BYTE + (unsigned char)bytes[i], (int32_t)i - 1, i + 1 < size ? (int32_t)i + 1 : -1, NONE};
    s->heap_count = 0;
    for (int64_t i = 0; i + 1 < size; i++) {
        x[i].made = merge_of(t, x[i].id, x[i + 1].id);
        if (x[i].made != NONE) s->heap[s->heap_count++] = entry(x[i].made, (int32_t)i);
    }
    for (int64_t i = s->heap_count / 2 - 1; i >= 0; i--) sift_down(s->heap, s->heap_count, i);
    merge_all(s, t);
    for (int32_t at = 0; at >= 0; at = x[at].next) {
        int64_t from = begin + at;
        qkv_sink_put(sink, x[at].id, from, from + qkv_vocab_size_of(t, x[at].id));
    }
    return QKV_OK;
}

static void encode_short(const qkv_tokenizer *t, qkv_sink *sink, int64_t begin, int size) {
    int32_t ids[SHORT];
    int n = qkv_bpe_short(t, sink->folded->text + begin, size, ids);
    for (int i = 0; i < n; i++) {
        int64_t end = begin + qkv_vocab_size_of(t, ids[i]);
        qkv_sink_put(sink, ids[i], begin, end);
        begin = end;
    }
}

qkv_status qkv_bpe_encode(qkv_ctx *ctx, const qkv_tokenizer *t, qkv_sink *sink) {
    const qkv_folded *n = sink->folded;
    scratch s = {.ctx = ctx};
    qkv_status status = QKV_OK;
    for (int64_t begin = 0, end; begin < n->length && status == QKV_OK; begin = end) {
        end = qkv_piece_end(n->text, n->length, begin);
        int64_t size = end - begin;
        int32_t id = size <= QKV_PIECE_BYTES ? qkv_vocab_find(t, n->text + begin, size) : -1;
        if (id >= 0 && t->whole[id])
            qkv_sink_put(sink, id, begin, end);
        else if (size <= SHORT)
            encode_short(t, sink, begin, (int)size);
        else
            status = encode_long(&s, t, sink, begin, size);
    }
    scratch_free(&s);
    return status;
}
