/* Multi-head attention over ragged sequences, fused: no n x n matrix. Heads are column ranges of their matrices; query heads
 * h*g .. h*g+g-1 (g = heads / kv_heads) read key/value head h. Work is shared out by (sequence, head). */
#ifndef QKV_OPS_ATTENTION_H
#define QKV_OPS_ATTENTION_H

#include "ops/attention_pattern.h"
#include "ops/exec.h"

/* Rows of all heads side by side: head h of row r starts at p + r*row + h*head. row = 0: every sequence has the same row
 * (legal for queries with q_offset NULL). */
typedef struct qkv_heads {
    real *p;
    int64_t row, head;
} qkv_heads;

/* Heads as the column ranges of a matrix. */
static inline qkv_heads qkv_heads_of(qkv_mat m, int64_t width) { return (qkv_heads){m.p, m.ld, width}; }

/* Global queries by projections of their own (Beltagy et al. 2020, section 3.1). Rows of q and dq are the global queries of all sequences
 * one after another; k and v have the rows of the others. Backward writes. */
typedef struct qkv_apart {
    qkv_heads q, k, v, dq, dk, dv;
} qkv_apart;

enum { QKV_ATTEND_FEW_HEADS = 8 }; /* of a batch: below, each is cut in the backward pass, which takes further memory */

typedef struct qkv_attention_shape {
    int64_t sequences;
    const int64_t *q_offset; /* [sequences + 1]; NULL: one query a sequence */
    const int64_t *k_offset; /* [sequences + 1]; may be q_offset */
    int64_t heads, kv_heads; /* query heads, and a divisor of it */
    int64_t dim, value_dim;
    real scale;
    int64_t left, right;
    qkv_pattern pattern; /* what is seen beside the window */
    const qkv_apart *apart; /* NULL: global queries are as the others */
    /* A plan does not read what the following point at, but takes any pointer for a yes. */
    const float *alibi;      /* [heads] slopes, or NULL */
    real softcap;
    const real *bias;        /* [heads][2 bias_reach + 1], added to the score by distance, clamped; or NULL */
    int64_t bias_reach;
    real *bias_grad;         /* backward writes its gradient here, or NULL */
    const real *rope_cos, *rope_sin; /* [positions][rope_dim / 2], or NULL; the first key of a sequence stands at rope_offset */
    int64_t rope_dim, rope_offset;
    bool rope_interleaved;
    /* Vectors by distance (Shaw et al. 2018), [2 shaw_reach + 1] of dim and of value_dim for all heads, or NULLs: to a key comes the first
     * of its distance to the query, to a value the second, limited to -shaw_reach..shaw_reach. Not with rotations. */
    const real *shaw_keys, *shaw_values;
    int64_t shaw_reach;
    real *shaw_dkeys, *shaw_dvalues; /* backward writes their gradients here, both or neither */
    qkv_dropout dropout;     /* row_key per query row; every head draws from a key of its own */
} qkv_attention_shape;

/* Sequence i with its window. */
static inline qkv_seen qkv_attention_seen(const qkv_attention_shape *s, int64_t i) {
    const int64_t n_q = s->q_offset ? s->q_offset[i + 1] - s->q_offset[i] : 1;
    return (qkv_seen){&s->pattern, i, n_q, s->k_offset[i + 1] - s->k_offset[i], s->left, s->right};
}
/* Whether the window of such an attention runs with bf16 operands where `x` asks for them; else it is f32. */
bool qkv_attend_takes_bf16(const qkv_exec *x, const qkv_attention_shape *s);
/* Global queries of all sequences: the rows of apart->q. */
int64_t qkv_attention_globals(const qkv_attention_shape *s);

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
