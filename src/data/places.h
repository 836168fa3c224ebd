/* Made rows with exact answers that hang on where tokens stand to each other, at any place of a row of any length: among filler
 * stands one token of each of two kinds, A and B. Rows are a function of task, seed and number.
 *
 *   ORDER  which of them stands first, at whatever distance. (What sees distances but not sides cannot tell.)
 *   NEAR   whether they stand within `reach` of each other, on whatever side; else they are more than twice as far apart. (What
 *          sees sides but not distances cannot tell.)
 *
 * Both classes are equally frequent, and without positions they look the same. */
#ifndef QKV_DATA_PLACES_H
#define QKV_DATA_PLACES_H

#include "data/batches.h"

typedef enum qkv_places_kind { QKV_PLACES_ORDER, QKV_PLACES_NEAR } qkv_places_kind;
enum { QKV_PLACES_CLASSES = 2 };

typedef struct qkv_places {
    qkv_places_kind kind;
    int64_t filler;            /* different ones, at least one */
    int64_t reach;             /* of NEAR, at least 1 */
    int64_t shortest, longest; /* tokens of a row, uniform between; at least 2, of NEAR 2 reach + 2 */
} qkv_places;

int64_t qkv_places_vocab(const qkv_places *task); /* special tokens, filler, A, B */

/* Rows first .. first + count - 1. QKV_BAD_ARGUMENT for a task that cannot be. */
qkv_status qkv_places_make(qkv_ctx *ctx, const qkv_places *task, uint64_t seed, int64_t first, int64_t count,
                           qkv_ragged *rows) QKV_MUST_USE;

#endif
