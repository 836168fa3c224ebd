/* Looking at attention without storing it: of a few rows of each sequence, how even their weights are and how large their scores.
 */
#ifndef QKV_OPS_ATTENTION_WATCH_H
#define QKV_OPS_ATTENTION_WATCH_H

#include "ops/attention.h"

/* Of a head, over the rows that were looked at and see two keys at least. */
typedef struct qkv_watched {
    int64_t rows;
    double evenness; /* sum of the entropy of their weights beside the log of the number of keys: 1 all alike, 0 one key alone */
    double score;    /* the largest, as it goes into the softmax */
} qkv_watched;

/* Where an exec points at one, every attention layer of a forward pass adds to it, each to the next place. */
typedef struct qkv_watch {
    int64_t layers, heads; /* there is room for */
    int64_t layer;         /* the next */
    qkv_watched *of;       /* [layers][heads] */
} qkv_watch;

/* Looks at the last QKV_WATCH_ROWS rows of each sequence, which see whatever the pattern lets them see. Costs attention of these
 * rows alone and two matrices of rows x keys. */
enum { QKV_WATCH_ROWS = 16 };
qkv_status qkv_attend_watch(qkv_exec *x, qkv_watch *w, const qkv_attention_shape *s, qkv_heads q, qkv_heads k,
                            qkv_heads v) QKV_MUST_USE;

#endif
