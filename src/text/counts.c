#include "text/counts.h"

#include <string.h>

#include "base/hash.h"
#include "text/pieces.h"

static qkv_status table_grow(qkv_piece_counts *c) {
    int64_t slots = c->slots ? 2 * c->slots : 4096, *table;
    QKV_TRY(qkv_alloc(c->ctx, slots, sizeof *table, &table));
    memset(table, 0xFF, (size_t)slots * sizeof *table);
    qkv_free(c->ctx, c->table);
    c->table = table, c->slots = slots;
    for (int64_t i = 0; i < c->count; i++) {
        uint64_t at = c->words[i].hash & (uint64_t)(slots - 1);
        while (table[at] >= 0) at = (at + 1) & (uint64_t)(slots - 1);
        table[at] = i;
    }
    return QKV_OK;
}

static qkv_status insert(qkv_piece_counts *c, uint64_t at, uint64_t hash, const char *piece, int64_t size) {
    if (c->count == c->capacity) {
        int64_t capacity = c->capacity ? 2 * c->capacity : 2048;
        QKV_TRY(qkv_grow(c->ctx, capacity, sizeof *c->words, &c->words));
        c->capacity = capacity;
    }
    if (c->size + size > c->bytes_capacity) {
        int64_t capacity = 2 * (c->size + size) + 4096;
        QKV_TRY(qkv_grow(c->ctx, capacity, 1, &c->bytes));
        c->bytes_capacity = capacity;
    }
    memcpy(c->bytes + c->size, piece, (size_t)size);
    c->words[c->count] = (qkv_counted){c->size, size, 1, hash};
    c->table[at] = c->count++;
    c->size += size;
    return QKV_OK;
}

qkv_status qkv_piece_counts_add(qkv_piece_counts *c, const char *text, int64_t length) {
    for (int64_t begin = 0, end; begin < length; begin = end) {
        end = qkv_piece_end(text, length, begin);
        if (2 * (c->count + 1) > c->slots) QKV_TRY(table_grow(c));
        int64_t size = end - begin;
        uint64_t hash = qkv_hash64(text + begin, (size_t)size, 0), mask = (uint64_t)c->slots - 1, at = hash & mask;
        for (; c->table[at] >= 0; at = (at + 1) & mask) {
            qkv_counted *w = &c->words[c->table[at]];
            if (w->hash == hash && w->size == size && memcmp(c->bytes + w->offset, text + begin, (size_t)size) == 0) {
                w->count++;
                break;
            }
        }
        if (c->table[at] < 0) QKV_TRY(insert(c, at, hash, text + begin, size));
    }
    return QKV_OK;
}

void qkv_piece_counts_free(qkv_piece_counts *c) {
    qkv_free(c->ctx, c->words);
    qkv_free(c->ctx, c->bytes);
    qkv_free(c->ctx, c->table);
    *c = (qkv_piece_counts){.ctx = c->ctx};
}
