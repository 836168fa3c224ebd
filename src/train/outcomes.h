/* What a test came to, row by row, as far as scores need it: which labels a row has and which it was given. Rows that came to the
 * same share a cell, so that scores of many samples of the rows cost little. */
#ifndef QKV_TRAIN_OUTCOMES_H
#define QKV_TRAIN_OUTCOMES_H

#include <stdbool.h>

#include "base/ctx.h"

enum { QKV_GOLD = 1, QKV_GIVEN = 2, QKV_MARK_LABEL = 4 };

typedef struct qkv_outcomes {
    int64_t rows, labels; /* labels: the classes of the model, then the gold labels that it does not know */
    int64_t cells;
    int32_t *cell;    /* [rows] the cell of each */
    int64_t *mark_at; /* [cells + 1] its marks: mark_at[i] .. mark_at[i + 1] - 1 */
    uint32_t *marks;  /* label * QKV_MARK_LABEL + QKV_GOLD | QKV_GIVEN, ascending in a cell, each label once */
    bool *right;      /* [cells] has what it was given, and nothing else */
} qkv_outcomes;

/* One gold label and one given a row; gold[] and given[] are below `labels`. Cells are the pairs that occur, ascending by gold
 * label, then by the given one. */
qkv_status qkv_outcomes_pairs(qkv_ctx *ctx, int64_t rows, int64_t labels, const int32_t *gold, const int32_t *given,
                              qkv_outcomes *o) QKV_MUST_USE;

/* Any number of labels, ascending in a row: those of row i are [at[i], at[i + 1]). A cell a row. */
qkv_status qkv_outcomes_sets(qkv_ctx *ctx, int64_t rows, int64_t labels, const int64_t *gold_at, const int32_t *gold,
                             const int64_t *given_at, const int32_t *given, qkv_outcomes *o) QKV_MUST_USE;
void qkv_outcomes_free(qkv_ctx *ctx, qkv_outcomes *o);

static inline bool qkv_outcome_right(const qkv_outcomes *o, int64_t row) {
    return o->right[o->cell[row]];
}

#endif
