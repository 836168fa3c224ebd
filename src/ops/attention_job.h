/* Inside the attention op: one pass over its sequences, cut into chunks. An attention is up to three passes, of which the later
 * ones add to what the first has: every query with its window and the keys beside it; backward, where blocks of queries have random
 * keys, these apart; and the global queries, gathered, with all. */
#ifndef QKV_OPS_ATTENTION_JOB_H
#define QKV_OPS_ATTENTION_JOB_H

#include <string.h>

#include "base/par.h"
#include "kernels/bf16.h"
#include "ops/attention.h"
#include "ops/split.h"

typedef enum attend_kind { ATTEND_WINDOW, ATTEND_GROUPS, ATTEND_GLOBAL } attend_kind;

/* The unit of work a chunk starts with; it ends where the next chunk starts. Order: sequence, part, head. Parts of a sequence:
 * of the window, blocks of query rows forward, groups of queries where these have keys of their own; one backward, or, where there
 * are few heads, its key tiles. */
typedef struct unit {
    int64_t sequence, part, head;
} unit;

/* Memory of one thread for what is gathered. */
typedef struct attend_gathered {
    real *q, *k, *v, *o, *lse, *d_o, *dq, *dk, *dv, *shaw_weights, *shaw_slopes;
    int32_t *list, *hole, *q_at; /* list: where keys stand */
    uint64_t *row_key;
    /* Whose list, hole and q_at these are, of all heads: a sequence of the job, its first row, and how many; keys: of the list. */
    int64_t sequence, first, rows, keys;
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
    bool beside;        /* a window with keys beside it */
    bool above;         /* backward, a window that takes the global queries along */
    bool groups;        /* of queries, each with keys of its own: they are the parts */
    int64_t decode;     /* key/value heads that are computed together, as no sequence has more than one query; 0: it is not so */
    int64_t unit_heads; /* units of a part: query heads forward, key/value heads backward, groups of these in decoding */
    const unit *starts; /* [chunks + 1] */
    int64_t chunks, threads;
    real *scratch;
    int64_t scratch_size;      /* reals a thread */
    attend_gathered *gathered; /* [threads]: keys beside, or global queries in their own pass */
    attend_gathered *globals;  /* [threads]: global queries of a window */
    int64_t above_work;        /* reals that they share a thread, where `split` does not share them */
    const real *global_lse;    /* of all rows */
    /* Backward, split: what the key tiles of a head share, and how many of them each block of queries has seen; of the
     * first query head of a sequence at shared_at, blocks_at. By groups: how many have added to a head's keys. */
    real *shared;
    qkv_par_counter *seen;
    int64_t *shared_at, *blocks_at;
    real *bias;       /* [heads][bias_row], by distance from -(most_k - 1) on, in units of log2 */
    int64_t bias_row;
    real *place_bias; /* the same by the distance of places, which is another where rows of a sequence are `step` apart */
    int64_t place_row, place_most;
    real *bias_parts;    /* [parts of all sequences][heads][2 bias_reach + 1]; a part is a key tile, a group, or a sequence */
    int64_t *parts_at;   /* [sequences + 1] */
    int64_t *globals_at, global_rows; /* apart: [sequences], the first row of each; all of them */
    /* Backward, of the keys beside each sequence, from beside_at on: their gradients [heads][beside_rows][dim], and of value_dim.
     */
    int64_t *beside_at, beside_rows;
    real *beside_dk, *beside_dv;
    real *shaw;        /* vectors by distance, packed */
    int64_t shaw_work; /* reals a thread, where `split` does not share them */
    /* Backward, the sums that their gradients are made of, which all passes have: [heads][q_rows][2 shaw_reach + 1], and the slopes of
     * global queries with projections of their own, [heads][qkv_attention_globals(s)][..]. */
    real *shaw_weights, *shaw_slopes, *shaw_apart;
} job;

/* Rows of one sequence of a job. */
typedef struct attend_rows {
    int64_t n_q, n_k;
    int64_t q, k;  /* first row in the matrices */
    int64_t lse;   /* and in lse and row_key */
} attend_rows;

static inline int64_t attend_q_from(const qkv_attention_shape *s, int64_t i) {
    return s->q_offset ? s->q_offset[i] : i;
}
/* Blocks of queries of a head that go from key tile to key tile, what is added for keys beside, and, no more than the first, those
 * above. */
static inline int64_t attend_handed_blocks(const job *j, int64_t n_q) {
    return 2 * j->kernels->attend_blocks(n_q) + 1;
}
static inline int64_t attend_key_tiles(int64_t n_k) {
    return (n_k + QKV_ATTEND_KEYS - 1) / QKV_ATTEND_KEYS;
}
static inline real *attend_at(qkv_heads m, int64_t row, int64_t head) {
    return m.p ? m.p + row * m.row + head * m.head : NULL;
}
static inline void attend_copy_row(real *to, const real *from, int64_t width) {
    memcpy(to, from, (size_t)width * sizeof *to);
}

attend_rows qkv_attend_rows_of(const job *j, int64_t i);

/* attention_cut.c: chunk table and memory. */
qkv_range qkv_attend_unit_rows(const job *j, unit u, int64_t n_q); /* of a forward unit */
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
int64_t qkv_attend_shaw_work(const job *j, int64_t n_q); /* reals of a call */
int64_t qkv_attend_shaw_count(const job *j);             /* of distances; 0: there are no vectors */
/* Room for the sums, before the first pass; the gradients, after the last. */
qkv_status qkv_attend_prepare_sums(qkv_exec *x, job *j) QKV_MUST_USE;
qkv_status qkv_attend_shaw_gradient(qkv_exec *x, const job *j) QKV_MUST_USE;
/* Backward, the sums of a head, of queries from `row` on that stand `step` rows apart. */
void qkv_attend_describe_sums(const job *j, int64_t head, int64_t row, int64_t step, qkv_attend *a);
/* A sequence without queries or keys has none: those of its rows become 0. */
void qkv_attend_clear_sums(const job *j, const qkv_attend *a);

/* attention_cost.c */
bool qkv_attend_has_further(const qkv_attention_shape *s);
bool qkv_attend_has_global(const qkv_attention_shape *s);
void qkv_attend_book(qkv_exec *x, const job *window); /* all passes, by the window's prepared job */

/* attention_beside.c: keys beside the window, gathered. */
qkv_attend qkv_attend_gathered(const job *j, int64_t head); /* what a head has in common in all calls with gathered rows */
qkv_status qkv_attend_prepare_beside(qkv_exec *x, job *j) QKV_MUST_USE;
/* Those of the rows of `window`, a call of this unit, or NULL: there are none. *out is what it points to. */
const qkv_attend *qkv_attend_beside(const job *j, unit u, int64_t head, int thread, const qkv_attend *window, qkv_attend *out);
/* `window` has no keys: the call that its queries make with those beside it, where it has these. */
qkv_attend qkv_attend_alone(const job *j, unit u, int64_t head, const qkv_attend *window);
void qkv_attend_beside_gradient(qkv_exec *x, const job *j);
/* Backward, a pass of its own. */
qkv_status qkv_attend_groups(qkv_exec *x, const job *window) QKV_MUST_USE;

/* attention_global.c: global queries, backward with the window where that has all keys side by side, else in a pass of their own.
 */
bool qkv_attend_takes_above(const qkv_attention_shape *s);
int64_t qkv_attend_above_shared(const job *j, int64_t sequence); /* reals of a head; 0: there are none */
/* Those for a call of this unit, or NULL; and when the last key tile is through, their dq goes where it belongs. */
const qkv_attend *qkv_attend_above(const job *j, unit u, int64_t head, int thread, real *shared, qkv_attend *out);
void qkv_attend_above_done(const job *j, unit u, int64_t head, int thread, const qkv_attend *above);
qkv_status qkv_attend_global(qkv_exec *x, const job *window) QKV_MUST_USE;

/* The gradient of the bias of a head from part `part` of a sequence on, cleared; NULL: not wanted. */
real *qkv_attend_bias_part(const job *j, unit u, int64_t head);
/* A pass of another kind over what `window` has. */
job qkv_attend_pass(const job *window, attend_kind kind);

/* The query heads of a unit: one forward, all of a key/value head backward. */
static inline qkv_range attend_heads_of(const job *j, unit u) {
    const int64_t group = j->backward ? j->s->heads / j->s->kv_heads : 1;
    return (qkv_range){u.head * group, (u.head + 1) * group};
}

#endif
