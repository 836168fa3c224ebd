/* What is written past the caches. A processor reads a line before it overwrites a part of it, unless it is told that the line goes
 * straight to memory: so a pass over rows moves a third or a quarter less. What the caches can hold stays there for the next op. */
#ifndef QKV_OPS_AROUND_H
#define QKV_OPS_AROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"

enum { QKV_AROUND_BYTES = 32 << 20 }; /* few processors have a larger cache */

/* `out` is all that an op writes, not the part of a chunk. In place of an operand (in, other; NULL: none) it is in the caches.
 * Columns are pairs of whole vectors, so that each half of a row may be written by itself. */
static inline bool qkv_around(qkv_mat out, const real *in, const real *other) {
    const int64_t line = 64 / (int64_t)sizeof(real), bytes = out.rows * out.cols * (int64_t)sizeof(real);
    const bool whole = (uintptr_t)out.p % 64 == 0 && out.ld % line == 0 && out.cols % 32 == 0;
    return bytes > QKV_AROUND_BYTES && whole && out.p != in && out.p != other;
}

#endif
