/* Multi-head attention over ragged sequences, fused: no n x n matrix. Heads are column ranges of their matrices; query heads
 * h*g .. h*g+g-1 (g = heads / kv_heads) read key/value head h. Work is shared out by (sequence, head). */
#ifndef QKV_OPS_ATTENTION_H
#define QKV_OPS_ATTENTION_H

#include "ops/exec.h"

/* Rows of all heads side by side: head h of row r starts at p + r*row + h*head. row = 0: every sequence has the same row
 * (legal for queries with q_offset NULL). */
typedef struct qkv_heads {
    real *p;
    int64_t row, head;
} qkv_heads;

/* Heads as the column ranges of a matrix. */
static inline qkv_heads qkv_heads_of(qkv_mat m, int64_t width) { return (qkv_heads){m.p, m.ld, width}; }

typedef struct qkv_attention_shape {
    int64_t sequences;
    const int64_t *q_offset; /* [sequences + 1]; NULL: one query a sequence */
    const int64_t *k_offset; /* [sequences + 1]; may be q_offset */
    int64_t heads, kv_heads; /* query heads, and a divisor of it */
    int64_t dim, value_dim;
    real scale;
    int64_t left, right;
    /* A plan does not read what the following point at, but takes any pointer for a yes. */
    const float *alibi;      /* [heads] slopes, or NULL */
    real softcap;
    const real *bias;        /* [heads][2 bias_reach + 1], added to the score by distance, clamped; or NULL */
    int64_t bias_reach;
    real *bias_grad;         /* backward writes its gradient here, or NULL */
    const real *rope_cos, *rope_sin; /* [positions][rope_dim / 2], or NULL; the first key of a sequence stands at rope_offset */
    int64_t rope_dim, rope_offset;
    bool rope_interleaved;
    qkv_dropout dropout;     /* row_key per query row; every head draws from a key of its own */
} qkv_attention_shape;

/* lse: [heads][query rows], or NULL: not wanted. */
qkv_status qkv_attend_forward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o,
                              real *lse) QKV_MUST_USE;

/* Writes dq, dk, dv. o and lse are those of the forward pass. */
qkv_status qkv_attend_backward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o,
                               const real *lse, qkv_heads d_o, qkv_heads dq, qkv_heads dk, qkv_heads dv) QKV_MUST_USE;

/* weights [n_q][n_k] of one sequence and head, without dropout, for looking at. */
qkv_status qkv_attend_weights(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, int64_t sequence, int64_t head,
                              real *weights) QKV_MUST_USE;

#endif
