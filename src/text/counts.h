/* Distinct pieces and how often each occurs. */
#ifndef QKV_TEXT_COUNTS_H
#define QKV_TEXT_COUNTS_H

#include <stdint.h>

#include "base/ctx.h"

typedef struct qkv_counted {
    int64_t offset, size; /* in `bytes` */
    int64_t count;
    uint64_t hash;
} qkv_counted;

typedef struct qkv_piece_counts {
    qkv_ctx *ctx;
    qkv_counted *words;
    int64_t count, capacity;
    char *bytes;
    int64_t size, bytes_capacity;
    int64_t *table; /* index of a word, -1 free */
    int64_t slots;
} qkv_piece_counts;

/* Counts the pieces of a (normalised) text. */
qkv_status qkv_piece_counts_add(qkv_piece_counts *c, const char *text, int64_t length) QKV_MUST_USE;
void qkv_piece_counts_free(qkv_piece_counts *c);

#endif
