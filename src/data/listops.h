/* Made rows with exact answers: nested list operations, by the rules of ListOps (Nangia & Bowman 2018) with the sizes of the Long
 * Range Arena (Tay et al. 2021, section 2.2): digits 0 to 9; MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10) of
 * 2 to 10 arguments, each a digit or, one time in four, another list, nested up to `depth` deep: with 10, as the article says, one
 * deeper than the rows of the Arena's own program, which has digits alone from its depth 10 on. The class is the value. Rows are a
 * function of task, seed and number. */
#ifndef QKV_DATA_LISTOPS_H
#define QKV_DATA_LISTOPS_H

#include "base/buf.h"
#include "data/batches.h"

enum {
    QKV_LIST_DIGIT = 4, /* ten ids, behind the special tokens */
    QKV_LIST_MIN = 14,
    QKV_LIST_MAX,
    QKV_LIST_MED,
    QKV_LIST_SM,
    QKV_LIST_END,
    QKV_LIST_VOCAB,
    QKV_LIST_CLASSES = 10
};

typedef struct qkv_listops {
    int64_t depth;             /* lists inside each other, 1 .. 64 */
    int64_t arguments;         /* of a list at most, 2 .. 64 */
    int64_t shortest, longest; /* tokens of a row; an operation with its bracket is one, the closing bracket another */
} qkv_listops;

/* Rows first .. first + count - 1. Lists are drawn until one has a length that will do; QKV_BAD_ARGUMENT for a task for which
 * 100,000 in a row do not, or that cannot be. QKV_STOPPED when the stop callback asks for it. */
qkv_status qkv_listops_make(qkv_ctx *ctx, const qkv_listops *task, uint64_t seed, int64_t first, int64_t count,
                            qkv_ragged *rows) QKV_MUST_USE;

/* The value of a row, by its tokens alone; -1 where they are no list. */
int qkv_listops_value(const int32_t *ids, int64_t count);

/* "[MAX 4 3 [MIN 2 3 ] 1 0 ]" */
qkv_status qkv_listops_text(const int32_t *ids, int64_t count, qkv_buf *text) QKV_MUST_USE;

#endif
