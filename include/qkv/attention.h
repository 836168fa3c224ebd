/* Scaled dot-product attention, many heads at once, on the caller's own buffers.
 *
 *     O_i = sum_j softmax_j(scale * q_i . k_j + terms) v_j        (Vaswani et al. 2017, section 3.2.1)
 *
 * Memory beyond the caller's buffers is linear in the lengths (tiles with an online softmax: Dao et al. 2022); the context
 * keeps up to 64 MiB of it for the next call. No n x n matrix is formed; the log-sum-exp of each row is what the backward
 * pass needs. The result has the same bits for any number of threads, any batch around a sequence (but for dropout, which draws by the
 * number of the sequence) and every instruction set. */
#ifndef QKV_ATTENTION_H
#define QKV_ATTENTION_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which keys a query sees, counted in neighbours *besides itself*: query i sees keys i-left .. i+right. -1: no limit.
 * {-1,-1} full, {-1,0} causal, {64,64} a window of 129. With n_q != n_k the last query is aligned with the last key
 * (query i stands at position i + n_k - n_q), as in decoding. A query that sees nothing gives 0, log-sum-exp -inf, and
 * zero gradients. One that sees keys whose scores are all -inf does not see nothing: it gives NaN. */
typedef struct qkv_span {
    int64_t left, right;
} qkv_span;

/* Limits: sequences and rows up to 2^31, heads and kv_heads 1..65536, dim and value_dim 1..65536, strides 0..2^31; what a buffer
 * covers up to 2^59 floats. */
typedef struct qkv_attention {
    size_t struct_size; /* set by qkv_attention_init */

    /* Sequences lie one after another, without padding. Sequence s owns query rows q_offset[s] .. q_offset[s+1]-1 and
     * key/value rows k_offset[s] .. k_offset[s+1]-1. Offsets ascend and start at 0; lengths of 0 are legal.
     * k_offset NULL: the same as q_offset. */
    int64_t sequences;       /* may be 0 */
    const int64_t *q_offset; /* [sequences + 1]; may be NULL where sequences is 0 */
    const int64_t *k_offset; /* [sequences + 1] or NULL */

    int64_t heads;     /* query heads */
    int64_t kv_heads;  /* key/value heads, a divisor of heads (0: heads; 1: multi-query). Head h reads kv head h/(heads/kv_heads) */
    int64_t dim;       /* width of a query or key head */
    int64_t value_dim; /* width of a value head (0: dim) */

    /* Strides in floats between rows and between heads, in any order: heads inside rows, or rows inside heads (o_head = rows *
     * width, o_row = width). 0 for a row: heads * width; 0 for a head: its width. What is read may overlap itself; in what is
     * written (out by o_*; dq, dk, dv by q_*, k_*, v_*) no two (row, head) ranges may share memory. */
    int64_t q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head;

    float scale; /* finite; 0: 1 / sqrt(dim), so that a scale of zero itself cannot be had */
    qkv_span span;

    /* Terms of the score, computed in the tile. */
    const float *alibi; /* [heads], finite, or NULL: score -= alibi[h] * |p - j|, p = i + n_k - n_q the place of query i
                         * among the keys (Press et al. 2022) */
    float softcap;      /* 0: none; else score = softcap * tanh(score / softcap), after scale, before alibi */

    /* Dropout on the weights: each is kept with probability 1 - dropout, in steps of 2^-16, and then divided by it. The mask is a function
     * of (seed, sequence, head, query, key), so backward repeats it; nothing is stored. 0: none. */
    float dropout;
    uint64_t seed;

    /* A bias by distance: score += bias[h][d + bias_reach], d = j - p limited to -bias_reach..bias_reach, after softcap. What
     * buckets of distances give (Raffel et al. 2020, section 2.1) is such a table. The backward pass writes (does not add)
     * the gradient of it to bias_grad. */
    const float *bias;  /* [heads][2 * bias_reach + 1], finite, or NULL */
    int64_t bias_reach; /* 0..2^24 */
    float *bias_grad;   /* as bias; NULL: not wanted. Read by the backward pass only */

    /* Rotation of q and k by their positions before the product (Su et al. 2021, section 3.2.2), undone in dq and dk: columns
     * c and c + rope_dim/2 (or 2c and 2c + 1) of a head become x cos - y sin and y cos + x sin. Key j of each sequence stands
     * at position rope_offset + j, query i at rope_offset + i + n_k - n_q; all must lie in 0..rope_rows-1, and the rows from the
     * first of these positions to the last must be finite. */
    const float *rope_cos, *rope_sin; /* [rope_rows][rope_dim/2], both or neither */
    int64_t rope_rows;
    int64_t rope_dim; /* the first so many columns, even, up to dim (0: dim) */
    int64_t rope_offset;
    int rope_interleaved; /* 1: pairs are neighbours 2c, 2c + 1 */

    /* Vectors by distance (Shaw et al. 2018, section 3.1), the same for all heads: score = scale * q_i . (k_j + shaw_keys[d]), before softcap,
     * and v_j + shaw_values[d] in place of v_j, with d = j - p limited to -shaw_reach..shaw_reach, at row d + shaw_reach. Not with a
     * rotation. The backward pass writes (does not add) their gradients. */
    const float *shaw_keys, *shaw_values; /* [2 * shaw_reach + 1][dim] and [..][value_dim], finite, both or neither */
    int64_t shaw_reach;                   /* 1..127 */
    float *shaw_dkeys, *shaw_dvalues;     /* both or neither; NULL: not wanted. Used by the backward pass only */

    /* What is seen beside the span: a pattern. Time and memory are proportional to the pairs that see each other; each pair counts
     * once, however many of the following have it. Positions are those of keys: query i stands at i + n_k - n_q. Where span.right
     * is 0, nothing sees what stands to its right, by none of these.
     *
     * The span's neighbours stand `dilation` apart: the query at p sees p - left * dilation, ..., p - dilation, p, p + dilation, ...,
     * and not what lies between them (0: 1). */
    int64_t dilation; /* 0..65536 */
    /* Global tokens see every key and are seen by every query (Beltagy et al. 2020): the first global_first, and tokens 0,
     * global_every, 2 * global_every, ... (0: none). Or, with both of these 0, a list: of sequence s the positions
     * global_at[global_offset[s]] .. global_at[global_offset[s+1] - 1], ascending, below n_k. */
    int64_t global_first, global_every;
    const int64_t *global_offset; /* [sequences + 1] or NULL; begins with 0 */
    const int64_t *global_at;     /* [global_offset[sequences]] */
    /* Each block of `block` queries sees random_blocks blocks of as many keys more, or all there are (Zaheer et al. 2020): cut at
     * multiples of `block`, drawn without replacement from those that no query of the block reaches by its span. The draw is a
     * function of (pattern_seed, n_k, number of the block), so a sequence has the same blocks in any batch. Not with dilation. */
    int64_t random_blocks; /* 0..64 */
    int64_t block;         /* 1..65536 where random_blocks is not 0 */
    uint64_t pattern_seed;
} qkv_attention;

/* Full attention, everything else 0. */
QKV_API void qkv_attention_init(qkv_attention *a);

/* q: [rows of q, q_row], k, v likewise; out: [rows of q, o_row]; lse: [heads][rows of q], natural log, or NULL where no
 * backward pass follows. A buffer may be NULL where it has 0 rows.
 * What is written (here out and lse) may not overlap an input nor another output: QKV_BAD_ARGUMENT, nothing is written. Buffers
 * may interleave (q, k, v and out in the rows of one buffer) where their row strides are the same; the inputs may be one
 * buffer.
 * NaN in a visible input gives NaN, an infinite one gives inf or NaN as the arithmetic has it; hidden keys and values
 * are never read into a result. */
QKV_API qkv_status qkv_attention_forward(qkv_ctx *ctx, const qkv_attention *a, const float *q, const float *k, const float *v,
                                         float *out, float *lse) QKV_MUST_USE;

/* Given dout = d loss / d out (layout of out) and what forward returned, out and lse (both are needed), writes (does not
 * add) dq, dk, dv in the layouts of q, k, v. The tiles are computed again; memory stays linear. Overlaps as in forward. */
QKV_API qkv_status qkv_attention_backward(qkv_ctx *ctx, const qkv_attention *a, const float *q, const float *k, const float *v,
                                          const float *out, const float *lse, const float *dout, float *dq, float *dk,
                                          float *dv) QKV_MUST_USE;

/* The weights of one sequence and head as a dense matrix [n_q][n_k], for looking at; dropout is not applied. Hidden
 * pairs are 0. */
QKV_API qkv_status qkv_attention_weights(qkv_ctx *ctx, const qkv_attention *a, const float *q, const float *k, int64_t sequence,
                                         int64_t head, float *weights) QKV_MUST_USE;

/* Number of (query, key) pairs that see each other, over all sequences, for one head. -1 for a struct, or NULL, that
 * qkv_attention_forward would refuse whatever the buffers. */
QKV_API int64_t qkv_attention_pairs(const qkv_attention *a);

#ifdef __cplusplus
}
#endif
#endif
