/* The kernel table. One source is compiled once per instruction set; each object exports one table of this type.
 *
 * Kernels are pure: raw pointers, row ranges, no allocation, no threads, no errors. Shapes were checked by the op above.
 * Two rules keep the bits equal on every instruction set, for any split into chunks:
 *   - an output element of a matrix product is one chain of fused multiply-adds with k ascending;
 *   - a reduction uses 16 logical lanes (element i goes to lane i mod 16) folded by one fixed tree, or one ascending chain.
 * "rows" are the rows of the range the caller gives; to work on a part, pass shifted pointers. */
#ifndef QKV_KERNELS_KERNELS_H
#define QKV_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/real.h"

/* Packed right-hand side of a product: panels of 16 columns, [ceil(n/16)][k][16], zero beyond n. The same on every
 * instruction set. */
enum { QKV_PANEL = 16 };
static inline int64_t qkv_packed_size(int64_t k, int64_t n) { return (n + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL * k; }

/* C[m, n0..n1) = A[m,k] * B[k, n0..n1) (+ bias or + C). The chain starts at 0, at bias[n], or at the C that is there. */
typedef struct qkv_gemm {
    int64_t m, k;
    int64_t n0, n1;       /* columns to compute; n0 is a multiple of QKV_PANEL */
    const real *a;        /* a[i*a_row + l*a_col] */
    int64_t a_row, a_col; /* a_col is 1 (gemm_turn makes it so) */
    const real *packed;   /* all of B, packed */
    real *c;              /* element (i,j) at c[i*ldc + j], j counted from 0 */
    int64_t ldc;
    const real *bias;     /* [n] or NULL */
    bool accumulate;      /* start from C; bias must be NULL */
} qkv_gemm;

/* Inverted dropout. Element (row, column) is kept iff hash(key, row_key[row], column) >= threshold(p) and then divided by
 * 1-p. p = 0: no dropout, row_key may be NULL. */
typedef struct qkv_dropout {
    real p;
    uint64_t key; /* of (seed, step, site) */
    const uint64_t *row_key;
    uint32_t column; /* of the first element, where a kernel is given a range of columns */
} qkv_dropout;

enum { QKV_ATTEND_KEYS = 256 }; /* key tiles of attention, where the backward pass of one head can be cut */
enum { QKV_ATTEND_REACH = 127 }; /* of vectors by distance: all of them are columns of one key tile */
enum { QKV_ATTEND_DECODE_HEADS = 16 }; /* of one query each that are computed together */

/* One head of one sequence. Queries row0..row1-1 of the sequence are computed (forward); backward always takes all. */
typedef struct qkv_attend {
    int64_t n_q, n_k;    /* rows of the sequence; query i stands at key position i + n_k - n_q */
    int64_t row0, row1;
    int64_t dim, value_dim;
    real scale;
    int64_t left, right; /* span, -1: no limit */
    const real *q, *k, *v;
    int64_t q_row, k_row, v_row; /* row strides */
    real *o;
    int64_t o_row;
    real *lse;           /* [n_q], natural log; NULL in forward: not wanted */
    real alibi;          /* slope; 0: none */
    real softcap;        /* 0: none */
    /* Added to the scores, in units of log2: bias[j - p], p the position of the query. Readable from -(n_k-1) to 15 beyond
     * n_q-1. NULL: none. */
    const real *bias;
    /* Rotation of q and k: row p of [rope_dim/2] cosines and sines is of position p; key 0 stands at rope_k. NULL: none */
    const real *rope_cos, *rope_sin;
    int64_t rope_dim, rope_k;
    int64_t rope_row;      /* from one position's row of the tables to the next; 0: rope_dim/2 */
    bool rope_interleaved; /* pairs are columns 2c, 2c+1; else c, c + rope_dim/2 */
    /* Rows gathered from a longer sequence: where they stand there, [n_q] and [n_k], both or neither. All that goes by distance, and
     * rotations, go by these; `bias` is then readable at every distance they have, and the gradient of all key tiles comes as one. */
    const int32_t *q_at, *k_at;
    int64_t step; /* else neighbours stand this far apart (0: 1) for vectors by distance and the gradient of the bias */
    const int32_t *hole; /* [n_q][2]: of the keys in its span, query i does not see hole[2i] .. hole[2i+1]-1. NULL: it sees all */
    /* Keys beside the span, gathered, n_k of them, or NULL: the softmax is over both. A description of its own for all that keys
     * have and for k_at, q_at, hole, terms and dropout; its queries are row0..row1-1 of this one, under numbers from 0 on, and all
     * of its keys are in their span. Widths, scale, softcap and shaw are the same. Scratch for it comes in addition, of
     * attend_beside_scratch() reals. Backward adds to its dk and dv, and its gradient of the bias comes with the window's; with
     * parts, wait and done are called for it as for block attend_blocks(). */
    const struct qkv_attend *beside;
    /* Vectors by distance (Shaw et al. 2018): to keys and to values come those of their distance, limited to
     * -shaw_reach..shaw_reach. `shaw`: both, packed by attend_shaw_pack, or NULL; shaw_work: attend_shaw_work() reals, backward the
     * same ones for all parts of a head. Not with rotations. */
    const real *shaw;
    int64_t shaw_reach;
    real *shaw_work;
    qkv_dropout dropout; /* row_key per query, columns are key positions */
    const uint8_t *seen;   /* attend_weights only: [row1-row0][n_k], 0 where a pair in the span is hidden; NULL: none is */
    const struct qkv_attend *next; /* what will be computed next, or NULL: its rows are fetched meanwhile if both are short */

    /* backward only */
    const real *d_o;
    int64_t do_row;
    real *dq, *dk, *dv;
    int64_t dq_row, dk_row, dv_row;
    bool add_kv;         /* add to dk, dv instead of writing (further query heads of one kv head) */
    bool add_q;          /* add to dq */
    /* Gradient of the bias by key tile and distance, from -bias_reach to bias_reach with all beyond added there:
     * [ceil(n_k / QKV_ATTEND_KEYS)][2 bias_reach + 1], written. NULL: not wanted */
    real *bias_grad;
    int64_t bias_reach;
    /* [n_q][2 shaw_reach + 1], rows sums_row apart, written or, with add_q, added to: by distance, the sums of the weights, and of the
     * gradients of the products of queries. */
    real *shaw_weights, *shaw_slopes;
    int64_t sums_row;
    /* One head shared out by keys: key0..key1-1, both multiples of QKV_ATTEND_KEYS or the end (0, 0: all keys). What the
     * parts share is in `shared`, of attend_shared_scratch() reals; wait(hand, block) is called before a block of queries
     * is used and done(hand, block) after it: a block takes its keys in ascending order. */
    int64_t key0, key1;
    real *shared;
    void (*wait)(void *hand, int64_t block);
    void (*done)(void *hand, int64_t block);
    void *hand;
    /* Queries above the span, gathered, n_q of them, or NULL: they see all keys but for their holes. A description of its own for
     * all that queries have, with q_at and terms; in its `shared` are attend_shared_scratch() reals of it. wait and done are called
     * for its blocks after all others. */
    const struct qkv_attend *above;
} qkv_attend;

typedef enum qkv_act { QKV_KERNEL_GELU, QKV_KERNEL_GELU_TANH, QKV_KERNEL_RELU, QKV_KERNEL_SILU } qkv_act;

/* ---- recurrence ---- */

typedef enum qkv_recur_cell {
    QKV_RECUR_TANH,
    QKV_RECUR_RELU,
    QKV_RECUR_LSTM,      /* gates i, f, g, o */
    QKV_RECUR_GRU,       /* r, z, n; n = tanh(x + r * (W h + b)): reset after the product */
    QKV_RECUR_GRU_BEFORE /* r, z, n; n = tanh(x + W (r * h)): reset before it. Two phases a step: gates, candidate */
} qkv_recur_cell;

static inline int qkv_recur_gates(qkv_recur_cell cell) { return cell == QKV_RECUR_LSTM ? 4 : cell >= QKV_RECUR_GRU ? 3 : 1; }

/* Recurrent weights [gates * units, units], packed so that the gates of 16 units stand side by side: [ceil(units/16)][gates][units][16],
 * zero beyond. */
static inline int64_t qkv_recur_packed_size(int64_t gates, int64_t units) {
    return (units + QKV_PANEL - 1) / QKV_PANEL * QKV_PANEL * gates * units;
}

/* One step of sequences of which the longest come first; units u0..u1-1 of it (u0 a multiple of QKV_PANEL). Matrices hold the
 * rows of a ragged batch: sequence i is at row first[i] + at, a step before it at first[i] + before. What the product reads and
 * what goes from step to step is dense, a row a sequence. */
typedef struct qkv_recur {
    qkv_recur_cell cell;
    int phase; /* of GRU_BEFORE; else 0 */
    int64_t units, u0, u1;
    int64_t rows;    /* sequences that run */
    int64_t going;   /* the first so many of them have a product: forward all or none, backward those that run at the next step */
    bool start;      /* no step before this one */
    const real *hidden0, *cells0; /* dense [sequences][units]: what stands before the first step, cells0 of an LSTM; NULL: 0 */
    const int64_t *first;
    int64_t at, before;
    const real *packed; /* forward as above; backward the transposed weights, [gates * units][units] by gemm_pack */
    const real *state;  /* what is multiplied by them, from the other step (or phase) */
    int64_t ld_state;
    real *next; /* the same for what follows */
    int64_t ld_next;
    real *gates; /* forward: in what comes from below, out the values of the gates; backward: in these, out their gradients */
    int64_t ld_gates;
    real *hidden;
    int64_t ld_hidden;
    real *cells; /* LSTM: c. GRU: W h + b, GRU_BEFORE: r * h, for the backward pass; NULL: not wanted */
    int64_t ld_cells;
    const real *vector; /* LSTM: peepholes of i, f, o [3][units], or NULL. GRU: b [units] */

    /* backward only */
    const real *dhidden;
    int64_t ld_dhidden;
    real *carry; /* dense [sequences][units]: LSTM: gradient of c; GRU: that of h which goes past the product */
    bool carried; /* LSTM: also where nothing follows, carry has the gradient of c */
    real *drecur; /* GRU: gradients of the products [rows][3 units]; those of the gates are others */
    int64_t ld_drecur;
} qkv_recur;

typedef struct qkv_adamw {
    real lr, beta1, beta2, epsilon, decay;
    real correct1, correct2; /* 1 - beta^t */
    real grad_scale;         /* clipping and accumulation: gradient is multiplied by it first */
} qkv_adamw;

/* In order; in four streams at once; in two, a page of each in turn. */
typedef enum qkv_read_way { QKV_READ_ORDER, QKV_READ_FOUR, QKV_READ_PAGES, QKV_READ_WAYS } qkv_read_way;

/* X(return type, name, parameters). The one list that makes the table, and the tests' and benchmark's walk over it.
 *
 * `around`: what is written goes past the caches, where there is a way. Its rows and their columns are then multiples of 64 bytes, and
 * each half of a gated gradient's; the bits are the same. */
#define QKV_KERNEL_LIST(X)                                                                                                         \
    /* gemm.inc */                                                                                                                 \
    /* packs rows k0..k1-1, columns n0..n1-1 of logical B[k,n]; b[l*b_row + j*b_col]; n0 a multiple of 16 */                       \
    X(void, gemm_pack,                                                                                                             \
      (int64_t k, int64_t n, int64_t k0, int64_t k1, int64_t n0, int64_t n1, const real *b, int64_t b_row, int64_t b_col,          \
       real *packed))                                                                                                              \
    X(void, gemm, (const qkv_gemm *g))                                                                                             \
    /* to[i*ldto + l] = a[l*lda + i], i < m, l < k; sum[i] += a[0][i], a[1][i], ... in one chain (NULL: none) */                   \
    X(void, gemm_turn, (int64_t k, int64_t m, const real *a, int64_t lda, real *to, int64_t ldto, real *sum))                      \
    /* attention.inc; scratch is 64-byte aligned, of attend_*_scratch() reals */                                                   \
    X(int64_t, attend_forward_scratch, (int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim))                                 \
    X(void, attend_forward, (const qkv_attend *a, real *scratch))                                                                  \
    /* One query of each of n heads of a sequence, which share the keys' length, the widths, strides and spans: row0 of each; no   \
     * rotation, value_dim a multiple of 16. Heads that read the same keys and values are neighbours and equally many; keys and    \
     * values of one stand as far from the next as those of the first two. The bits of attend_forward */                           \
    X(int64_t, attend_decode_scratch, (int64_t heads, int64_t dim, int64_t value_dim))                                             \
    X(void, attend_decode, (const qkv_attend *heads, int64_t n, real *scratch))                                                    \
    X(int64_t, attend_backward_scratch, (int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim))                                \
    X(int64_t, attend_shared_scratch, (int64_t n_q, int64_t dim, int64_t value_dim))                                               \
    X(int64_t, attend_beside_scratch, (int64_t keys, int64_t dim, int64_t value_dim)) /* both */                                   \
    X(int64_t, attend_blocks, (int64_t n_q))                                          /* of queries, that are handed on */         \
    X(void, attend_backward, (const qkv_attend *a, real *scratch))                                                                 \
    /* Vectors by distance keys[2 reach + 1][dim], values[..][value_dim]: their packed size, and what a call needs for n_q queries \
     */                                                                                                                            \
    X(int64_t, attend_shaw_size, (int64_t reach, int64_t dim, int64_t value_dim))                                                  \
    X(void, attend_shaw_pack, (int64_t reach, int64_t dim, int64_t value_dim, const real *keys, const real *values, real *packed)) \
    X(int64_t, attend_shaw_work, (int64_t n_q, int64_t reach, bool backward))                                                      \
    /* weights[row1-row0][n_k] of one head, plain two-pass softmax, hidden pairs 0 (for looking at) */                             \
    X(void, attend_weights, (const qkv_attend *a, real *weights))                                                                  \
    /* norm.inc: y = (x - mean) * rstd * gamma + beta; rms: mean NULL; beta may be NULL. Saves mean[rows], rstd[rows] */           \
    X(void, norm_forward,                                                                                                          \
      (int64_t rows, int64_t cols, const real *x, int64_t ldx, const real *gamma, const real *beta, real epsilon, real *y,         \
       int64_t ldy, real *mean, real *rstd, bool around))                                                                          \
    /* dx = base + ... (base NULL: 0; dx may be dy or base); adds to dgamma, dbeta (NULL: none), one ascending chain a column */   \
    X(void, norm_backward,                                                                                                         \
      (int64_t rows, int64_t cols, const real *x, int64_t ldx, const real *gamma, const real *mean, const real *rstd,              \
       const real *dy, int64_t lddy, const real *base, int64_t ldb, real *dx, int64_t lddx, real *dgamma, real *dbeta,             \
       bool around))                                                                                                               \
    /* activation.inc; gated: x is [rows, 2*cols] = gate | up, y = act(gate) * up [rows, cols] */                                  \
    X(void, act_forward,                                                                                                           \
      (qkv_act act, bool gated, int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy, bool around))        \
    X(void, act_backward,                                                                                                          \
      (qkv_act act, bool gated, int64_t rows, int64_t cols, const real *x, int64_t ldx, const real *dy, int64_t lddy, real *dx,    \
       int64_t lddx, bool around))                                                                                                 \
    /* pointwise.inc */                                                                                                            \
    /* y = base + dropout(x); base NULL: 0; x, base, y may be the same buffer */                                                   \
    X(void, dropout,                                                                                                               \
      (int64_t rows, int64_t cols, const real *base, int64_t ldb, const real *x, int64_t ldx, real *y, int64_t ldy,                \
       qkv_dropout d, bool around))                                                                                                \
    /* y = a*x + b*y; b = 0 does not read y */                                                                                     \
    X(void, axpby, (int64_t rows, int64_t cols, real a, const real *x, int64_t ldx, real b, real *y, int64_t ldy))                 \
    /* out[c0..c1) += sum over rows of x, one ascending chain a column (bias gradients, mean pooling) */                           \
    X(void, column_sum, (int64_t rows, int64_t c0, int64_t c1, const real *x, int64_t ldx, real *out))                             \
    /* out[c] = max over rows (rows >= 1), which[c] = the first row that has it; NaN wins */                                       \
    X(void, column_max, (int64_t rows, int64_t cols, const real *x, int64_t ldx, real *out, int32_t *which))                       \
    X(double, sum_squares, (int64_t n, const real *x)) /* 16 lanes of real over blocks of 4096, blocks in double */                \
    /* embedding.inc */                                                                                                            \
    X(void, gather,                                                                                                                \
      (int64_t rows, int64_t cols, const real *table, int64_t ldt, const int32_t *ids, real scale, real *y, int64_t ldy,           \
       bool around))                                                                                                               \
    /* dtable[ids[r]] += scale * dy[r], r ascending, for the rows with ids[r] mod parts == part; parts is a power of two */        \
    X(void, scatter_add,                                                                                                           \
      (int64_t rows, int64_t cols, int32_t part, int32_t parts, const int32_t *ids, real scale, const real *dy, int64_t lddy,      \
       real *dtable, int64_t ldt))                                                                                                 \
    /* loss.inc: label-smoothed cross-entropy, target distribution (1-s) one-hot + s/cols (Szegedy et al. 2016, section 7); */     \
    /* loss[rows]; dlogits = scale * gradient, or NULL. target[r] in 0..cols-1 */                                                  \
    X(void, cross_entropy,                                                                                                         \
      (int64_t rows, int64_t cols, const real *logits, int64_t ld, const int32_t *target, real smoothing, real scale, real *loss,  \
       real *dlogits, int64_t ldd))                                                                                                \
    X(void, softmax_rows, (int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy))                          \
    /* loss_sigmoid.inc: binary cross-entropy of a sigmoid per class; the labels of row r, ascending, are                          \
     * labels[label_at[r]..label_at[r+1]); */                                                                                      \
    /* targets (1-s) [label] + s/cols; a label's term is multiplied by weight[class] (NULL: 1). dlogits may be the logits or NULL  \
     */                                                                                                                            \
    X(void, sigmoid_loss,                                                                                                          \
      (int64_t rows, int64_t cols, const real *logits, int64_t ld, const int64_t *label_at, const int32_t *labels,                 \
       const real *weight, real smoothing, real scale, real *loss, real *dlogits, int64_t ldd))                                    \
    X(void, sigmoid_rows, (int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy))                          \
    /* recurrence.inc */                                                                                                           \
    X(void, recur_pack, (int64_t gates, int64_t units, int64_t u0, int64_t u1, const real *weight, real *packed))                  \
    X(void, recur_forward, (const qkv_recur *r))                                                                                   \
    X(void, recur_backward, (const qkv_recur *r))                                                                                  \
    /* out[c0..c1) += sum over rows of a * b, one ascending chain a column */                                                      \
    X(void, column_dot, (int64_t rows, int64_t c0, int64_t c1, const real *a, int64_t lda, const real *b, int64_t ldb, real *out)) \
    /* optimizer.inc: Loshchilov & Hutter 2019, algorithm 2; decoupled decay p -= lr*decay*p */                            \
    X(void, adamw, (int64_t n, real *p, const real *g, real *m, real *v, const qkv_adamw *o))                              \
    /* peak.inc: runs `iterations` rounds of register-only FMAs, returns how many FLOPs that were; *sink defeats the optimizer */ \
    X(double, fma_peak, (int64_t iterations, real *sink))                                                                  \
    /* loops for bandwidth: the sum of what is read; a copy in four streams, stored past the caches where there is a way */        \
    X(double, read_sum, (int64_t n, const real *x, qkv_read_way way))                                                              \
    X(void, copy_around, (int64_t n, const real *x, real *y))

typedef struct qkv_kernels {
    const char *name; /* scalar, avx2, avx512, neon, count */
#define QKV_KERNEL_FIELD(type, name, parameters) type(*name) parameters;
    QKV_KERNEL_LIST(QKV_KERNEL_FIELD)
#undef QKV_KERNEL_FIELD
} qkv_kernels;

extern const qkv_kernels qkv_kernels_scalar;
extern const qkv_kernels qkv_kernels_avx2;   /* x86-64 builds */
extern const qkv_kernels qkv_kernels_avx512; /* x86-64 builds */
extern const qkv_kernels qkv_kernels_neon;   /* AArch64 builds */
extern const qkv_kernels qkv_kernels_count;  /* linked into tests only */

/* The span of query i: keys *lo .. *hi-1 (empty if lo >= hi). The one place that turns a span into keys. */
static inline void qkv_span_keys(int64_t i, int64_t n_q, int64_t n_k, int64_t left, int64_t right, int64_t *lo, int64_t *hi) {
    int64_t at = i + n_k - n_q;
    int64_t a = left < 0 ? 0 : at - left, b = right < 0 ? n_k : at + right + 1;
    *lo = a < 0 ? 0 : a;
    *hi = b > n_k ? n_k : b;
}

#endif
