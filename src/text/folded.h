/* Normalised and lower-cased text that knows where each of its bytes came from. */
#ifndef QKV_TEXT_FOLDED_H
#define QKV_TEXT_FOLDED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "qkv/tokenizer.h"

/* Bytes begin..end-1 of the normalised text stand for bytes from..to-1 of the original. Kept only for code points whose
 * length changed and for those that normalization changed together; between them the two texts run in step. */
typedef struct qkv_shift {
    int64_t begin, end, from, to;
} qkv_shift;

typedef struct qkv_folded {
    qkv_ctx *ctx;
    const char *text; /* the original itself where nothing is to be done */
    int64_t length;
    char *own; /* or NULL */
    int64_t capacity; /* of own */
    qkv_shift *shifts;
    int64_t shift_count, shift_capacity;
} qkv_folded;

/* Normalises to NFC or NFKC where it is asked for; then NUL and invalid bytes become U+FFFD. (No more than 64 code points are
 * taken together: a longer heap of marks is cut.) Then lower-cases code point by code point, by Unicode's unconditional mappings
 * (so a final sigma is an ordinary one, and U+0130 becomes i and a dot above). Without normalization invalid bytes stay as they
 * are. */
qkv_status qkv_folded_make(qkv_ctx *ctx, qkv_normalization normalize, bool lowercase, const char *text, int64_t length,
                           qkv_folded *n) QKV_MUST_USE;
void qkv_folded_free(qkv_folded *n);

/* Original offset of the begin (of the end) of a range that starts (ends) at `position`. A part of a code point whose
 * length changed stands for the whole of it. *cursor starts at 0; positions must ascend from call to call. */
int64_t qkv_folded_begin(const qkv_folded *n, int64_t *cursor, int64_t position);
int64_t qkv_folded_end(const qkv_folded *n, int64_t *cursor, int64_t position);

#endif
