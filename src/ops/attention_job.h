/* Inside the attention op: one pass over its sequences, cut into chunks. An attention is up to three passes, of which the later ones
 * add to what the first has: every query with its window; with further keys, gathered; and the global queries, gathered, with all. */
#ifndef QKV_OPS_ATTENTION_JOB_H
#define QKV_OPS_ATTENTION_JOB_H

#include "base/par.h"
#include "kernels/bf16.h"
#include "ops/attention.h"

typedef enum attend_kind { ATTEND_WINDOW, ATTEND_FURTHER, ATTEND_GLOBAL } attend_kind;

/* The unit of work a chunk starts with; it ends where the next chunk starts. Order: sequence, part, head. Parts of a sequence:
 * of the window, blocks of query rows forward; one backward, or, where there are few heads, its key tiles. Of further keys, groups of
 * queries. */
typedef struct unit {
    int64_t sequence, part, head;
} unit;

/* Memory of one thread for what is gathered. */
typedef struct attend_gathered {
    real *q, *k, *v, *o, *lse, *own, *d_o, *dq, *dk, *dv; /* own: the rows' log-sum-exp before */
    int32_t *list, *hole, *q_at; /* list: where keys stand */
    uint64_t *row_key;
} attend_gathered;

typedef struct job {
    attend_kind kind;
    const qkv_kernels *kernels;
    const qkv_bf16_kernels *bf16; /* NULL: f32 */
    const qkv_attention_shape *s;
    qkv_heads q, k, v, o, d_o, dq, dk, dv;
    real *lse;           /* of the window with dilation: by class */
    const uint64_t *row_key; /* likewise */
    int64_t sequences;   /* the shape's; of a window with dilation its residue classes, one after the other */
    int64_t step;        /* and how far apart rows of a sequence are */
    int64_t q_rows, most_q, most_k;
    bool backward, split;
    int64_t decode;      /* key/value heads that are computed together, as no sequence has more than one query; 0: it is not so */
    int64_t unit_heads;  /* units of a part: query heads forward, key/value heads backward, groups of these in decoding */
    const unit *starts;  /* [chunks + 1] */
    int64_t chunks, threads;
    real *scratch;
    int64_t scratch_size; /* reals a thread */
    attend_gathered *gathered; /* [threads] */
    /* Backward, split: what the key tiles of a head share, and how many of them each block of queries has seen; of the
     * first query head of a sequence at shared_at, blocks_at. Further keys: groups that have added to a head's keys. */
    real *shared;
    qkv_par_counter *seen;
    int64_t *shared_at, *blocks_at;
    real *bias;       /* [heads][bias_row], by distance from -(most_k - 1) on, in units of log2 */
    int64_t bias_row;
    real *bias_parts; /* [parts of all sequences][heads][2 bias_reach + 1]; a part is a key tile, a group, or a sequence */
    int64_t *parts_at; /* [sequences + 1] */
    int64_t *globals_at; /* [sequences + 1]: rows of apart */
    /* Vectors by distance: packed; what a call needs beside its scratch, split with `shared`; and backward, by head and row, the sums
     * that their gradients are made of. */
    real *shaw, *shaw_weights, *shaw_slopes;
    int64_t shaw_work; /* reals a thread */
} job;

/* Rows of one sequence of a job. */
typedef struct attend_rows {
    int64_t n_q, n_k;
    int64_t q, k;  /* first row in the matrices */
    int64_t lse;   /* and in lse and row_key */
} attend_rows;

static inline int64_t attend_q_from(const qkv_attention_shape *s, int64_t i) { return s->q_offset ? s->q_offset[i] : i; }
static inline int64_t attend_key_tiles(int64_t n_k) { return (n_k + QKV_ATTEND_KEYS - 1) / QKV_ATTEND_KEYS; }
static inline real *attend_at(qkv_heads m, int64_t row, int64_t head) { return m.p ? m.p + row * m.row + head * m.head : NULL; }

attend_rows qkv_attend_rows_of(const job *j, int64_t i);

/* attention_cut.c: chunk table and memory. */
int64_t qkv_attend_row_block(const job *j, int64_t n_q); /* rows of a forward unit */
bool qkv_attend_unit_before(unit a, unit b);
unit qkv_attend_unit_next(const job *j, unit u);
/* What a thread will most likely compute after u: threads take chunks in turn. False: nothing. Only for what is fetched ahead. */
bool qkv_attend_unit_expected(const job *j, int64_t chunk, unit u, unit *next);
qkv_status qkv_attend_prepare(qkv_exec *x, job *j) QKV_MUST_USE;
qkv_status qkv_attend_prepare_bias(qkv_exec *x, job *j) QKV_MUST_USE;

/* Adds the parts of the gradient of the bias in order; the first pass of an attention writes. */
void qkv_attend_bias_gradient(qkv_exec *x, const job *j);

/* attention_shaw.c: vectors by distance. A job without them needs nothing. */
qkv_status qkv_attend_check_shaw(const qkv_exec *x, const qkv_attention_shape *s) QKV_MUST_USE;
qkv_status qkv_attend_prepare_shaw(qkv_exec *x, job *j) QKV_MUST_USE;
int64_t qkv_attend_shaw_shared(const job *j, int64_t n_q); /* reals of a head that is split */
void qkv_attend_describe_shaw(const job *j, int64_t head, const attend_rows *r, qkv_attend *a);
/* A sequence without queries or keys has no sums: those of its rows become 0. */
void qkv_attend_clear_shaw(const job *j, const qkv_attend *a);
qkv_status qkv_attend_shaw_gradient(qkv_exec *x, const job *j) QKV_MUST_USE;

/* attention_cost.c */
bool qkv_attend_takes_bf16(const qkv_exec *x, const qkv_attention_shape *s); /* the window */
bool qkv_attend_has_further(const qkv_attention_shape *s);
bool qkv_attend_has_global(const qkv_attention_shape *s);
void qkv_attend_book(qkv_exec *x, const job *window); /* all passes, by the window's prepared job */

/* attention_further.c: the passes after the window. `window` has the matrices and, per row, lse. */
qkv_status qkv_attend_further(qkv_exec *x, const job *window) QKV_MUST_USE;
qkv_status qkv_attend_global(qkv_exec *x, const job *window) QKV_MUST_USE;

#endif
