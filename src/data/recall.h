/* Made rows with exact answers: recall at a distance. In the first quarter of a row, among filler, stand a few pairs of a key and a
 * value, each one token; the last token asks for one of the keys. The class is its value. So what must be remembered lies three
 * quarters of the row back or more, and there is no other hint of it. Rows are a function of task, seed and number. */
#ifndef QKV_DATA_RECALL_H
#define QKV_DATA_RECALL_H

#include "data/batches.h"

typedef struct qkv_recall {
    int64_t keys, values, filler; /* different ones; at least one each */
    int64_t pairs;                /* of different keys in a row, at most `keys` */
    int64_t shortest, longest;    /* tokens of a row, uniform between; at least pairs + 1 */
} qkv_recall;

/* Ids begin behind the special tokens: filler, pairs (key by key), questions. Classes are the values. */
int64_t qkv_recall_vocab(const qkv_recall *task);

/* Rows first .. first + count - 1. QKV_BAD_ARGUMENT for a task that cannot be. */
qkv_status qkv_recall_make(qkv_ctx *ctx, const qkv_recall *task, uint64_t seed, int64_t first, int64_t count,
                           qkv_ragged *rows) QKV_MUST_USE;

#endif
