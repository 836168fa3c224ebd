/* Learning merges: the pair of neighbours that occurs most often becomes a piece, again and again. Ties go to the smaller
 * bytes of the merged piece, so the result depends on the counts only.
 *
 * All distinct words lie in one array of symbols, one place a byte: the id of a piece stands at its first and its last
 * byte, GAP inside it and between words. A pair of pieces can come about only at the moment the younger of the two does.
 * So its places are collected once, in one block, and its count can only fall from then on: it is kept exact in the pair
 * table, while the heap may hold an older, higher one, put right when it comes to the top. A merge that removes k symbols
 * costs k table look-ups; all of them together cannot remove more symbols than there are bytes. */
#include <string.h>

#include "base/rng.h"
#include "text/counts.h"
#include "text/vocab.h"

enum { GAP = -1, MIN_COUNT = 2, BLOCK_SHIFT = 6 };

typedef struct pair {
    int32_t left, right;
    int64_t weight;  /* occurrences, each word as often as it occurs */
    int32_t *places; /* where `left` started when the pair came about; ascending */
    int32_t count;   /* of places */
} pair;

typedef struct candidate {
    int64_t weight;
    uint64_t prefix; /* first eight bytes of the merged piece */
    int32_t pair;
} candidate;

typedef struct side { /* the new piece's neighbours, by their id */
    int64_t weight;
    int32_t count;
    int32_t *places; /* where to write the next place; NULL: the pair is too rare to be kept */
} side;

typedef struct trainer {
    qkv_tokenizer *t;
    qkv_ctx *ctx;

    int32_t *symbols;
    int64_t size;
    int32_t *word_start; /* [words + 1], places of the first symbols */
    int64_t *word_weight;
    int64_t words;
    int32_t *word_at; /* word in whose range place b << BLOCK_SHIFT lies */

    pair *pairs;
    int64_t pair_count, pair_capacity;
    int32_t *table; /* (left, right) -> pair; -1 free */
    int64_t slots;

    candidate *heap;
    int64_t heap_count, heap_capacity;

    int32_t **blocks; /* memory of the places: one block for each merge, and one for the start */
    int64_t block_count, block_capacity;

    side *sides[2]; /* before and after the new piece */
    int32_t *touched[2];
    int64_t touched_count[2], side_capacity;
} trainer;

static void trainer_free(trainer *r) {
    qkv_free(r->ctx, r->symbols);
    qkv_free(r->ctx, r->word_start);
    qkv_free(r->ctx, r->word_weight);
    qkv_free(r->ctx, r->word_at);
    qkv_free(r->ctx, r->pairs);
    qkv_free(r->ctx, r->table);
    qkv_free(r->ctx, r->heap);
    for (int64_t i = 0; i < r->block_count; i++) qkv_free(r->ctx, r->blocks[i]);
    qkv_free(r->ctx, r->blocks);
    for (int i = 0; i < 2; i++) {
        qkv_free(r->ctx, r->sides[i]);
        qkv_free(r->ctx, r->touched[i]);
    }
}

/* ---- words ---- */

static qkv_status lay_out(trainer *r, const qkv_piece_counts *c) {
    int64_t size = 1, words = 0;
    for (int64_t i = 0; i < c->count; i++)
        if (c->words[i].size > 1) size += c->words[i].size + 1, words++;
    if (size > INT32_MAX)
        return qkv_fail(r->ctx, QKV_BAD_DATA,
                        "the texts hold %lld bytes of different words; training a vocabulary takes at most %d: use a part of them",
                        (long long)size, INT32_MAX);
    QKV_TRY(qkv_alloc(r->ctx, size, sizeof *r->symbols, &r->symbols));
    QKV_TRY(qkv_alloc(r->ctx, words + 1, sizeof *r->word_start, &r->word_start));
    QKV_TRY(qkv_alloc(r->ctx, words, sizeof *r->word_weight, &r->word_weight));
    QKV_TRY(qkv_alloc(r->ctx, (size >> BLOCK_SHIFT) + 1, sizeof *r->word_at, &r->word_at));
    int64_t at = 0, word = 0, block = 0;
    r->symbols[at++] = GAP;
    for (int64_t i = 0; i < c->count; i++) {
        const qkv_counted *w = &c->words[i];
        if (w->size < 2) continue;
        r->word_start[word] = (int32_t)at;
        r->word_weight[word] = w->count;
        for (int64_t j = 0; j < w->size; j++) r->symbols[at++] = QKV_FIRST_BYTE + (unsigned char)c->bytes[w->offset + j];
        r->symbols[at++] = GAP;
        for (; block << BLOCK_SHIFT < at; block++) r->word_at[block] = (int32_t)word;
        word++;
    }
    r->word_start[word] = (int32_t)at;
    r->words = words, r->size = size;
    return QKV_OK;
}

static int64_t weight_at(const trainer *r, int32_t place) {
    int32_t word = r->word_at[place >> BLOCK_SHIFT];
    while (r->word_start[word + 1] <= place) word++;
    return r->word_weight[word];
}

/* ---- the pair table ---- */

static uint64_t slot_of(const trainer *r, int32_t left, int32_t right) {
    uint64_t mask = (uint64_t)r->slots - 1, at = qkv_mix64((uint64_t)left << 32 | (uint32_t)right) & mask;
    while (r->table[at] >= 0 && (r->pairs[r->table[at]].left != left || r->pairs[r->table[at]].right != right))
        at = (at + 1) & mask;
    return at;
}

static qkv_status reserve_pair(trainer *r) {
    if (r->pair_count == r->pair_capacity) {
        int64_t capacity = r->pair_capacity ? 2 * r->pair_capacity : 4096;
        QKV_TRY(qkv_grow(r->ctx, capacity, sizeof *r->pairs, &r->pairs));
        r->pair_capacity = capacity;
    }
    if (r->heap_count == r->heap_capacity) {
        int64_t capacity = r->heap_capacity ? 2 * r->heap_capacity : 4096;
        QKV_TRY(qkv_grow(r->ctx, capacity, sizeof *r->heap, &r->heap));
        r->heap_capacity = capacity;
    }
    if (2 * (r->pair_count + 1) > r->slots) {
        int64_t slots = r->slots ? 2 * r->slots : 8192;
        int32_t *table;
        QKV_TRY(qkv_alloc(r->ctx, slots, sizeof *table, &table));
        qkv_free(r->ctx, r->table);
        r->table = table, r->slots = slots;
        memset(table, 0xFF, (size_t)slots * sizeof *table);
        for (int64_t i = 0; i < r->pair_count; i++) table[slot_of(r, r->pairs[i].left, r->pairs[i].right)] = (int32_t)i;
    }
    return QKV_OK;
}

/* ---- the heap ---- */

static int64_t merged_bytes(const trainer *r, const pair *p, char out[2 * QKV_PIECE_BYTES]) {
    int64_t a = qkv_vocab_size_of(r->t, p->left), b = qkv_vocab_size_of(r->t, p->right);
    memcpy(out, qkv_vocab_bytes_of(r->t, p->left), (size_t)a);
    memcpy(out + a, qkv_vocab_bytes_of(r->t, p->right), (size_t)b);
    return a + b;
}

static uint64_t prefix_of(const trainer *r, const pair *p) {
    char bytes[2 * QKV_PIECE_BYTES];
    int64_t size = merged_bytes(r, p, bytes);
    uint64_t prefix = 0;
    for (int i = 0; i < 8; i++) prefix = prefix << 8 | (i < size ? (unsigned char)bytes[i] : 0);
    return prefix;
}

static bool before(const trainer *r, const candidate *x, const candidate *y) {
    if (x->weight != y->weight) return x->weight > y->weight;
    if (x->prefix != y->prefix) return x->prefix < y->prefix;
    char a[2 * QKV_PIECE_BYTES], b[2 * QKV_PIECE_BYTES];
    int64_t a_size = merged_bytes(r, &r->pairs[x->pair], a), b_size = merged_bytes(r, &r->pairs[y->pair], b);
    int order = memcmp(a, b, (size_t)(a_size < b_size ? a_size : b_size));
    if (order != 0) return order < 0;
    if (a_size != b_size) return a_size < b_size;
    return qkv_vocab_size_of(r->t, r->pairs[x->pair].left) < qkv_vocab_size_of(r->t, r->pairs[y->pair].left);
}

static void sift_down(trainer *r, int64_t at) {
    candidate value = r->heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= r->heap_count) break;
        if (child + 1 < r->heap_count && before(r, &r->heap[child + 1], &r->heap[child])) child++;
        if (!before(r, &r->heap[child], &value)) break;
        r->heap[at] = r->heap[child];
        at = child;
    }
    r->heap[at] = value;
}

static void heap_push(trainer *r, candidate value) {
    int64_t at = r->heap_count++;
    while (at > 0 && before(r, &value, &r->heap[(at - 1) / 2])) {
        r->heap[at] = r->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    r->heap[at] = value;
}

static void heap_drop_top(trainer *r) {
    r->heap[0] = r->heap[--r->heap_count];
    if (r->heap_count > 1) sift_down(r, 0);
}

/* A new pair with room for `count` places; the caller fills them. */
static qkv_status add_pair(trainer *r, int32_t left, int32_t right, int64_t weight, int32_t *places, int32_t count) {
    QKV_TRY(reserve_pair(r));
    int32_t index = (int32_t)r->pair_count;
    uint64_t slot = slot_of(r, left, right);
    r->pairs[r->pair_count++] = (pair){left, right, weight, places, count};
    r->table[slot] = index;
    heap_push(r, (candidate){weight, prefix_of(r, &r->pairs[index]), index});
    return QKV_OK;
}

static qkv_status add_block(trainer *r, int64_t count, int32_t **block) {
    if (r->block_count == r->block_capacity) {
        int64_t capacity = r->block_capacity ? 2 * r->block_capacity : 256;
        QKV_TRY(qkv_grow(r->ctx, capacity, sizeof *r->blocks, &r->blocks));
        r->block_capacity = capacity;
    }
    QKV_TRY(qkv_alloc(r->ctx, count, sizeof **block, block));
    r->blocks[r->block_count++] = *block;
    return QKV_OK;
}

/* ---- the first pairs: of bytes ---- */

static qkv_status first_pairs(trainer *r, side *seen) {
    int32_t *block;
    int64_t kept = 0;
    for (int64_t i = 1; i + 1 < r->size; i++) {
        if (r->symbols[i] == GAP || r->symbols[i + 1] == GAP) continue;
        side *s = &seen[(r->symbols[i] - QKV_FIRST_BYTE) << 8 | (r->symbols[i + 1] - QKV_FIRST_BYTE)];
        s->weight += weight_at(r, (int32_t)i);
        s->count++;
    }
    for (int i = 0; i < 65536; i++) kept += seen[i].weight >= MIN_COUNT ? seen[i].count : 0;
    QKV_TRY(add_block(r, kept, &block));
    for (int i = 0; i < 65536; i++) {
        if (seen[i].weight < MIN_COUNT) continue;
        seen[i].places = block;
        QKV_TRY(add_pair(r, QKV_FIRST_BYTE + (i >> 8), QKV_FIRST_BYTE + (i & 255), seen[i].weight, block, seen[i].count));
        block += seen[i].count;
    }
    for (int64_t i = 1; i + 1 < r->size; i++) {
        if (r->symbols[i] == GAP || r->symbols[i + 1] == GAP) continue;
        side *s = &seen[(r->symbols[i] - QKV_FIRST_BYTE) << 8 | (r->symbols[i + 1] - QKV_FIRST_BYTE)];
        if (s->places) *s->places++ = (int32_t)i;
    }
    return QKV_OK;
}

/* ---- one merge ---- */

static void lose(trainer *r, int32_t left, int32_t right, int64_t weight) {
    int32_t index = r->table[slot_of(r, left, right)];
    if (index >= 0) r->pairs[index].weight -= weight;
}

/* Replaces the pair by `made` wherever it still is, left to right, and takes away the pairs with the old neighbours.
 * The places of the new piece are left in p->places; returns their number. */
static int32_t replace(trainer *r, pair *p, int32_t made) {
    int32_t *x = r->symbols, found = 0;
    int32_t left_size = (int32_t)qkv_vocab_size_of(r->t, p->left), right_size = (int32_t)qkv_vocab_size_of(r->t, p->right);
    for (int32_t i = 0; i < p->count; i++) {
        int32_t at = p->places[i], middle = at + left_size;
        if (x[at] != p->left || x[middle] != p->right) continue;
        int32_t last = middle + right_size - 1, previous = x[at - 1], next = x[last + 1];
        int64_t weight = weight_at(r, at);
        if (previous != GAP && previous != made) lose(r, previous, p->left, weight);
        if (next != GAP) lose(r, p->right, next, weight);
        x[middle - 1] = x[middle] = GAP;
        x[at] = x[last] = made;
        p->places[found++] = at;
    }
    p->weight = 0;
    return found;
}

static void see(trainer *r, int which, int32_t neighbour, int64_t weight) {
    side *s = &r->sides[which][neighbour];
    if (s->count++ == 0) r->touched[which][r->touched_count[which]++] = neighbour;
    s->weight += weight;
}

/* A new piece beside another new one is counted once, as the one before. */
static void see_neighbours(trainer *r, const int32_t *places, int32_t count, int32_t made, int32_t size) {
    for (int32_t i = 0; i < count; i++) {
        int32_t previous = r->symbols[places[i] - 1], next = r->symbols[places[i] + size];
        int64_t weight = weight_at(r, places[i]);
        if (previous != GAP) see(r, 0, previous, weight);
        if (next != GAP && next != made) see(r, 1, next, weight);
    }
}

static void write_places(trainer *r, const int32_t *places, int32_t count, int32_t made, int32_t size) {
    for (int32_t i = 0; i < count; i++) {
        int32_t previous = r->symbols[places[i] - 1], next = r->symbols[places[i] + size];
        side *s = previous == GAP ? NULL : &r->sides[0][previous];
        if (s && s->places) *s->places++ = places[i] - (int32_t)qkv_vocab_size_of(r->t, previous);
        s = next == GAP || next == made ? NULL : &r->sides[1][next];
        if (s && s->places) *s->places++ = places[i];
    }
}

static qkv_status new_pairs(trainer *r, const int32_t *places, int32_t count, int32_t made) {
    int32_t size = (int32_t)qkv_vocab_size_of(r->t, made), *block;
    int64_t kept = 0;
    r->touched_count[0] = r->touched_count[1] = 0;
    see_neighbours(r, places, count, made, size);
    for (int which = 0; which < 2; which++)
        for (int64_t i = 0; i < r->touched_count[which]; i++) {
            const side *s = &r->sides[which][r->touched[which][i]];
            kept += s->weight >= MIN_COUNT ? s->count : 0;
        }
    if (kept > 0) {
        QKV_TRY(add_block(r, kept, &block));
        for (int which = 0; which < 2; which++)
            for (int64_t i = 0; i < r->touched_count[which]; i++) {
                int32_t other = r->touched[which][i];
                side *s = &r->sides[which][other];
                if (s->weight < MIN_COUNT) continue;
                s->places = block;
                block += s->count;
                QKV_TRY(add_pair(r, which ? made : other, which ? other : made, s->weight, s->places, s->count));
            }
        write_places(r, places, count, made, size);
    }
    for (int which = 0; which < 2; which++)
        for (int64_t i = 0; i < r->touched_count[which]; i++) r->sides[which][r->touched[which][i]] = (side){0, 0, NULL};
    return QKV_OK;
}

static qkv_status learn(trainer *r) {
    while (r->t->count < r->side_capacity && r->heap_count > 0) {
        candidate top = r->heap[0];
        pair *p = &r->pairs[top.pair];
        if (p->weight != top.weight) {
            r->heap[0].weight = p->weight;
            if (p->weight < MIN_COUNT)
                heap_drop_top(r);
            else
                sift_down(r, 0);
            continue;
        }
        heap_drop_top(r);
        QKV_TRY(qkv_vocab_poll(r->t, r->t->count));
        int32_t made;
        QKV_TRY(qkv_vocab_merge(r->t, p->left, p->right, &made));
        if (made < 0) continue;
        int32_t found = replace(r, p, made);
        QKV_TRY(new_pairs(r, p->places, found, made));
    }
    return QKV_OK;
}

qkv_status qkv_bpe_train(qkv_tokenizer *t, const qkv_piece_counts *counts) {
    trainer r = {.t = t, .ctx = t->ctx};
    side *seen = NULL;
    qkv_status status = lay_out(&r, counts);
    /* Each merge removes a symbol at least, so there cannot be more of them than symbols. */
    r.side_capacity = t->options.vocab < t->count + r.size ? t->options.vocab : t->count + r.size;
    for (int i = 0; i < 2 && status == QKV_OK; i++) {
        status = qkv_alloc_zero(r.ctx, r.side_capacity, sizeof *r.sides[i], &r.sides[i]);
        if (status == QKV_OK) status = qkv_alloc(r.ctx, r.side_capacity, sizeof *r.touched[i], &r.touched[i]);
    }
    if (status == QKV_OK) status = qkv_alloc_zero(r.ctx, 65536, sizeof *seen, &seen);
    if (status == QKV_OK && r.words > 0) status = first_pairs(&r, seen);
    qkv_free(r.ctx, seen);
    if (status == QKV_OK) status = learn(&r);
    trainer_free(&r);
    return status;
}
