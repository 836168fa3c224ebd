/* Which pairs see each other beside a window: arithmetic of positions, without memory. Positions are those of keys; query i stands at
 * i + n_k - n_q. */
#ifndef QKV_OPS_ATTENTION_PATTERN_H
#define QKV_OPS_ATTENTION_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* Beside its window a token sees the global tokens and some blocks; a global token sees all, and is seen by all. Where a window has
 * nothing to its right (right 0), nothing sees what stands to its right. All zero: nothing but the window. */
typedef struct qkv_pattern {
    int64_t dilation;     /* neighbours of the window stand so far apart; 0: 1 */
    int64_t global_first; /* global are the first so many tokens */
    int64_t global_every; /* and tokens 0, k, 2k, ...; 0: none */
    /* Or: positions of sequence s are global_at[global_offset[s]] .. global_at[global_offset[s + 1] - 1], ascending. Those beyond its
     * keys do not count. Read in a plan, too. */
    const int64_t *global_offset, *global_at;
    int64_t random_blocks, block; /* so many blocks of `block` keys for each block of queries; not with dilation */
    uint64_t seed;                /* what they are is a function of it, of n_k and of the block's number */
} qkv_pattern;

enum { QKV_RANDOM_BLOCKS_MAX = 64 };

/* One sequence of a shape, with its window. */
typedef struct qkv_seen {
    const qkv_pattern *pattern;
    int64_t sequence, n_q, n_k, left, right;
} qkv_seen;

static inline int64_t qkv_dilation(const qkv_pattern *p) { return p->dilation > 1 ? p->dilation : 1; }
static inline bool qkv_has_globals(const qkv_pattern *p) { return p->global_first > 0 || p->global_every > 0 || p->global_offset; }
/* Does the window alone show all that may be seen? */
static inline bool qkv_sees_all(const qkv_pattern *p, int64_t left, int64_t right) {
    return left < 0 && right <= 0 && qkv_dilation(p) == 1;
}

/* Global tokens before position x, and the position of the g-th. */
int64_t qkv_globals_below(const qkv_seen *s, int64_t x);
static inline int64_t qkv_globals(const qkv_seen *s) { return qkv_globals_below(s, s->n_k); }
int64_t qkv_global_at(const qkv_seen *s, int64_t g);
/* Those before all queries: the others are queries, too. */
static inline int64_t qkv_globals_before(const qkv_seen *s) { return s->n_k > s->n_q ? qkv_globals_below(s, s->n_k - s->n_q) : 0; }
static inline bool qkv_is_global(const qkv_seen *s, int64_t position) {
    return position >= 0 && position < s->n_k && qkv_globals_below(s, position + 1) > qkv_globals_below(s, position);
}

/* Queries first, first + dilation, ... stand at positions = class mod dilation; so do keys class, class + dilation, ... */
typedef struct qkv_residue {
    int64_t first, n_q, n_k;
} qkv_residue;
qkv_residue qkv_residue_of(const qkv_seen *s, int64_t class);
int64_t qkv_residues_below(const qkv_seen *s, int64_t class); /* queries of all classes before it */

/* Queries that have one list of further keys: first, first + step, ... */
typedef struct qkv_group {
    int64_t class, first, rows, step, block;
} qkv_group;
int64_t qkv_groups(const qkv_seen *s);
qkv_group qkv_group_of(const qkv_seen *s, int64_t group);

/* Its list has no position twice. Ascending; with dilation first those of its class, then the others (descending where the window has
 * nothing to its right), so that what a query does not see of it, or sees in its window, is one run of it. */
int64_t qkv_group_keys(const qkv_seen *s, const qkv_group *g);
int64_t qkv_group_list(const qkv_seen *s, const qkv_group *g, int32_t *list);
/* No list is longer. */
int64_t qkv_group_most(const qkv_seen *s);
/* hole[2]: that run, for the query at `position`; all for a global one. */
void qkv_group_hole(const qkv_seen *s, const qkv_group *g, const int32_t *list, int64_t keys, int64_t position, int32_t *hole);

/* Pairs that see each other, each counted once. */
int64_t qkv_pattern_pairs(const qkv_seen *s);

#endif
