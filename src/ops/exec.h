/* One pass over the network: PLAN books bytes and FLOPs with null data, RUN executes. The same layer functions serve
 * training, inference, recomputation, the memory plan and the FLOP count. */
#ifndef QKV_OPS_EXEC_H
#define QKV_OPS_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/ctx.h"
#include "base/real.h"
#include "base/rng.h"
#include "kernels/kernels.h"

typedef enum qkv_pass { QKV_PASS_FORWARD, QKV_PASS_BACKWARD, QKV_PASS_RECOMPUTE, QKV_PASS_OPTIMIZER, QKV_PASSES } qkv_pass;
typedef enum qkv_class { QKV_CLASS_GEMM, QKV_CLASS_ATTENTION, QKV_CLASS_RECURRENCE, QKV_CLASS_OTHER, QKV_CLASSES } qkv_class;

typedef struct qkv_tally {
    double flops[QKV_PASSES][QKV_CLASSES]; /* useful FLOPs, 1 multiply-add = 2 */
    double bytes[QKV_PASSES][QKV_CLASSES]; /* operands read and results written, each once */
} qkv_tally;

/* What the operations of a pass are for. A ledger keeps them apart; without one only the tally is kept. */
typedef enum qkv_work {
    QKV_WORK_LINEAR, /* linear maps that no layer calls anything else */
    QKV_WORK_PROJECTION,
    QKV_WORK_SCORES,  /* queries with keys; backward: the scores again, and the gradients of both */
    QKV_WORK_SOFTMAX, /* and the scaling of the rows around it */
    QKV_WORK_VALUES,  /* weights with values; backward: the gradients of both */
    QKV_WORK_FEED_FORWARD,
    QKV_WORK_RECURRENCE,
    QKV_WORK_ACTIVATION,
    QKV_WORK_NORM,
    QKV_WORK_RESIDUAL, /* sums, and dropout with them */
    QKV_WORK_EMBEDDING,
    QKV_WORK_POOLING,
    QKV_WORK_HEAD,
    QKV_WORK_LOSS,
    QKV_WORK_OPTIMIZER,
    QKV_WORK_OTHER,
    QKV_WORKS
} qkv_work;

typedef struct qkv_charge {
    double macs;     /* useful multiply-adds of products */
    double flops;    /* useful: 2 a multiply-add of a product, and all other arithmetic */
    double executed; /* multiply-adds that the kernels execute for the products, by the formulas of kernels/cost.h */
    double bytes;    /* operands read and results written, each once */
} qkv_charge;

/* Where in the network. */
typedef struct qkv_place {
    const char *name; /* static; NULL: nowhere */
    int64_t index;    /* -1: there is one of the name */
    qkv_work work;    /* all that is done there counts as this; LINEAR: each op as its own */
} qkv_place;

typedef struct qkv_ledger_entry {
    qkv_place place;
    qkv_charge of[QKV_PASSES][QKV_WORKS];
} qkv_ledger_entry;

/* Its owner gives it as many zeroed entries as there may be places; nothing is allocated while a pass is booked. */
typedef struct qkv_ledger {
    qkv_ledger_entry *entries;
    int64_t count, capacity;
    int64_t last;  /* that was found */
    bool overflow; /* there were more places: what was booked there is missing */
} qkv_ledger;

/* Registered parameter: the same handle reads weight, gradient and moments, which are four blocks of equal layout. */
typedef struct qkv_param {
    char name[96];         /* "encoder.0.attention.qkv.weight" */
    int64_t rows, cols;    /* weights [out, in]; vectors are [1, n] */
    int64_t offset;        /* reals from the start of the block; a multiple of 16 */
    real init_std;         /* normal(0, init_std); 0: constant */
    real init_last_std;    /* of the last init_last rows, in its place */
    int64_t init_last;
    real init_value;       /* the constant */
    int64_t init_period, init_from, init_to; /* the constant is of elements from .. to-1 of each period only, others are 0; 0: of all */
    bool decay;            /* weight decay applies (never biases and norms) */
    bool vector;           /* stored as a 1-d tensor */
    bool embedding;        /* trained at the embedding rate instead of the dense one */
    int64_t packed_offset; /* of its packed copies in a frozen model; -1: never multiplied by */
    int64_t pairs_offset;  /* the same in a bf16 one, in pairs */
    int64_t gates;         /* recurrent weights of so many gates: packed as ops/recurrence.h does it, as reals; 0: they are not */
} qkv_param;

typedef struct qkv_reg {
    qkv_ctx *ctx;
    qkv_param *params;
    int64_t count, capacity;
    int64_t size; /* reals in one block */
} qkv_reg;

/* A ragged batch: sequence s owns rows offset[s] .. offset[s+1]-1. Any length, 0 too. */
typedef struct qkv_batch {
    int64_t n_seq;
    const int64_t *offset;    /* [n_seq + 1] */
    const int32_t *ids;       /* [rows]; NULL in a plan */
    const uint64_t *seq_key;  /* [n_seq] identity in the data set, for dropout; NULL: no dropout will be asked */
    const uint64_t *row_key;  /* [rows] qkv_key2(seq_key, position) */
    /* What an encoder that reads by segments needs, or NULL: sequence s has the segments segments[s] .. segments[s+1] - 1, and segment i
     * the rows segment_at[i] .. segment_at[i+1] - 1. */
    const int64_t *segments, *segment_at; /* [n_seq + 1], [segments + 1] */
    const uint64_t *segment_key;          /* [segments] qkv_key2(seq_key, place) */
    /* What an encoder with global tokens that are told one by one needs, or NULL: as in qkv_pattern (ops/attention_pattern.h), of
     * the sequences that its layers of tokens see: of segments, where there are any. Read in a plan, too. */
    const int64_t *global_offset, *global_at;
} qkv_batch;

/* Segments as the sequences of a batch, and as the rows of one whose sequences are the texts. The same batch where it has none. */
static inline qkv_batch qkv_batch_lower(const qkv_batch *b) {
    if (!b->segments) return *b;
    return (qkv_batch){.n_seq = b->n_seq > 0 ? b->segments[b->n_seq] : 0,
                       .offset = b->segment_at,
                       .ids = b->ids,
                       .row_key = b->row_key,
                       .global_offset = b->global_offset,
                       .global_at = b->global_at};
}
static inline qkv_batch qkv_batch_upper(const qkv_batch *b) {
    if (!b->segments) return *b;
    return (qkv_batch){.n_seq = b->n_seq, .offset = b->segments, .seq_key = b->seq_key, .row_key = b->segment_key};
}

/* What a block computes again in the backward pass instead of keeping it, each with what stands before it in the list. */
typedef enum qkv_again {
    QKV_AGAIN_NOTHING,
    QKV_AGAIN_POINTWISE, /* what comes out of norms and activations: no product is done again */
    QKV_AGAIN_ATTENTION  /* queries, keys and values; what attention makes of them is kept: a row for work that is quadratic in n */
} qkv_again;

/* How memory is saved in a training step. All 0: not at all. No choice changes a bit. */
typedef struct qkv_saving {
    qkv_again again;
    int64_t every;    /* so many blocks in a row are computed again together, from their common input; 0: blocks are kept */
    int64_t ffn_rows; /* feed-forward layers go over about so many rows at a time and compute the hidden ones again; 0: over all at once */
} qkv_saving;

typedef struct qkv_exec {
    qkv_ctx *ctx;
    bool plan;  /* PLAN: matrices have p == NULL, kernels are not called */
    bool keep;  /* a backward pass follows: keep what it needs */
    bool train; /* dropout is on */
    qkv_saving saving;
    qkv_pass pass;
    qkv_arena arena;
    qkv_tally tally;
    qkv_ledger *ledger; /* NULL: only the tally is kept */
    qkv_place place;
    const qkv_reg *reg;
    const real *weights; /* one block each; NULL in a plan */
    real *grads;         /* added to */
    const real *packed;  /* packed weights of a frozen model (pairs where bf16 is set), or NULL: pack in scratch */
    bool bf16;           /* linear maps and attention with bf16 operands */
    uint64_t seed, step;
    double rebuilt; /* reversible blocks: how far what was rebuilt lay from what it had been at most, beside the largest number there */
    struct qkv_watch *watch; /* ops/attention_watch.h; NULL: nobody looks at attention */
} qkv_exec;

/* Memory of a pass. keep: lives until this layer's backward if x->keep, else it is scratch. temp: scratch. Scratch is
 * released by qkv_exec_mark / qkv_exec_release around a layer. */
qkv_status qkv_keep(qkv_exec *x, int64_t rows, int64_t cols, qkv_mat *m) QKV_MUST_USE;
qkv_status qkv_temp(qkv_exec *x, int64_t rows, int64_t cols, qkv_mat *m) QKV_MUST_USE;
/* The same for `count` elements of any type; *pointer (T **) is NULL in a plan. */
qkv_status qkv_keep_array(qkv_exec *x, int64_t count, size_t size, void *pointer) QKV_MUST_USE;
qkv_status qkv_temp_array(qkv_exec *x, int64_t count, size_t size, void *pointer) QKV_MUST_USE;
/* Does a layer compute this again in the backward pass, so that forward need not keep it? */
static inline bool qkv_exec_drops(const qkv_exec *x, qkv_again what) {
    return x->keep && x->saving.again >= what;
}
/* What is computed from now on is booked to that pass; returns the one before. */
static inline qkv_pass qkv_exec_pass(qkv_exec *x, qkv_pass pass) {
    const qkv_pass before = x->pass;
    x->pass = pass;
    return before;
}
static inline size_t qkv_exec_mark(const qkv_exec *x) { return x->arena.high; }
static inline void qkv_exec_release(qkv_exec *x, size_t mark) { qkv_arena_high_release(&x->arena, mark); }

/* Logs that bf16 is emulated, where it is. */
void qkv_bf16_note(const qkv_ctx *ctx);
const char *qkv_bf16_name(const qkv_ctx *ctx); /* of the kernels: results of different ones may differ */

/* Books to the tally and, where there is one, to the ledger. */
void qkv_exec_charge(qkv_exec *x, qkv_class c, qkv_work work, qkv_charge charge);
/* The same for arithmetic that is not of products. */
void qkv_exec_other(qkv_exec *x, qkv_work work, double flops, double bytes);
/* The same by the class alone: of GEMM and ATTENTION all FLOPs are products, executed as they are. */
void qkv_exec_book(qkv_exec *x, qkv_class c, double flops, double bytes);

/* What is booked from now on is done there; returns where it was before. */
static inline qkv_place qkv_exec_at(qkv_exec *x, qkv_place place) {
    const qkv_place before = x->place;
    x->place = place;
    return before;
}
double qkv_tally_flops(const qkv_tally *t);

static inline const real *qkv_weight(const qkv_exec *x, int64_t param) {
    return x->weights ? x->weights + x->reg->params[param].offset : NULL;
}
static inline real *qkv_grad(const qkv_exec *x, int64_t param) { return x->grads ? x->grads + x->reg->params[param].offset : NULL; }

/* Dropout of this pass at a numbered site; p is 0 outside training. */
qkv_dropout qkv_exec_dropout(const qkv_exec *x, double p, uint64_t site, const uint64_t *row_key);

/* The tail of every shape check: QKV_INTERNAL with the shapes unless m is rows x cols and, in RUN, has memory. */
qkv_status qkv_exec_shape(const qkv_exec *x, const char *what, qkv_mat m, int64_t rows, int64_t cols) QKV_MUST_USE;

#endif
