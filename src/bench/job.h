/* One case being measured. A kind of case is a few functions: `make` declares parameters and takes memory, `pass` does the work
 * once, by the ops and layers of the library. Both are walked twice: first in a plan, where big memory is only counted and the
 * pass books its operations and bytes, then for good. */
#ifndef QKV_BENCH_JOB_H
#define QKV_BENCH_JOB_H

#include "bench/ceilings.h"
#include "models/config.h"
#include "ops/exec.h"
#include "qkv/bench.h"

enum { QKV_BENCH_BLOCKS = 32, QKV_BENCH_REPEATS = 400 };

/* Repeats of a case, each between two looks at the ceilings. */
typedef struct qkv_bench_sampler {
    qkv_ceilings *ceilings;
    qkv_bench_dtype dtype;
    int threads;
    double flops, read, written; /* of one pass */
    bool look_at_bytes, in_place;
    int64_t working_set;
    const real *own; /* reals that the case reads: its floor is a loop that reads them; NULL: `working_set` is one's own */
    int64_t own_count;
    double least, most; /* seconds to spend: at least; at most, unless that were fewer than three repeats */
    bool quick;
    double begun, flops_before, seconds_before; /* ceilings before the repeat: rate, and the time that the bytes take */
    int64_t repeats;
    double least_seconds, most_seconds;
    int count; /* of the repeats that are kept below */
    double seconds[QKV_BENCH_REPEATS], share[QKV_BENCH_REPEATS], floor[QKV_BENCH_REPEATS];
    double ceiling_flops[QKV_BENCH_REPEATS], ceiling_bytes[QKV_BENCH_REPEATS];
    bool by_bytes[QKV_BENCH_REPEATS];
} qkv_bench_sampler;

void qkv_bench_sample_begin(qkv_bench_sampler *s);
void qkv_bench_sample_end(qkv_bench_sampler *s, double seconds_a_pass); /* and begins the next */
bool qkv_bench_sample_enough(const qkv_bench_sampler *s);

typedef struct qkv_bench_job {
    qkv_ctx *ctx;
    const qkv_bench_case *c;
    bool plan;
    double memory; /* bytes counted by make */
    void *blocks[QKV_BENCH_BLOCKS];
    int held;
    qkv_reg reg;
    qkv_exec x;
    void *self; /* the kind's own, zeroed */

    /* set by make, for the floor */
    double inside;      /* operations of the products inside attention or a recurrence: the tally counts more than these */
    double written;     /* bytes that a pass writes, of those it books */
    bool in_place;      /* they lie where they were read; else in another buffer */
    double working_set; /* bytes it goes round in; 0: as many as it moves */
    const real *own;    /* what a loop that only reads is held against, and how many; NULL in a plan */
    int64_t own_count;  /* 0: the bytes are held against a working set of their number */
    bool arithmetic;    /* the bytes are those of many steps that caches stand between: no floor is made of them */
    double items;
} qkv_bench_job;

typedef struct qkv_bench_kind {
    const char *name;
    size_t self_size;
    qkv_status (*make)(qkv_bench_job *job);
    qkv_status (*pass)(qkv_bench_job *job);
    void (*drop)(qkv_bench_job *job); /* what make took otherwise than by the calls below; may be NULL */
    /* Repeats by itself and calls the sampler. NULL: `pass` is repeated. */
    qkv_status (*run)(qkv_bench_job *job, qkv_bench_sampler *s);
} qkv_bench_kind;

extern const qkv_bench_kind *const qkv_bench_gemm_kinds[], *const qkv_bench_attention_kinds[], *const qkv_bench_pointwise_kinds[],
    *const qkv_bench_layer_kinds[], *const qkv_bench_recurrence_kinds[], *const qkv_bench_train_kinds[],
    *const qkv_bench_predict_kinds[]; /* end with NULL */

/* Memory until the job is dropped. */
typedef enum qkv_bench_fill { QKV_BENCH_ZERO, QKV_BENCH_RANDOM } qkv_bench_fill; /* RANDOM: mean 0, deviation 1 */
/* A matrix of random numbers or zeros; p NULL in a plan. */
qkv_status qkv_bench_mat(qkv_bench_job *job, int64_t rows, int64_t cols, qkv_bench_fill fill, qkv_mat *m) QKV_MUST_USE;
/* Small arrays that a plan needs too. *pointer (T **) is zeroed memory. */
qkv_status qkv_bench_array(qkv_bench_job *job, int64_t count, size_t size, void *pointer) QKV_MUST_USE;

/* Offsets of `batch` sequences of n rows, or, for a ragged case, of lengths shortest .. n that add up to c->tokens; and the
 * keys that dropout needs. */
qkv_status qkv_bench_batch(qkv_bench_job *job, qkv_batch *batch) QKV_MUST_USE;

/* Products inside attention over this batch: visible pairs only, 2 (d + dv) a pair forward, 2 (3 d + 2 dv) backward. */
double qkv_bench_attention_flops(const qkv_batch *batch, int64_t heads, int64_t dim, int64_t value_dim, qkv_span window,
                                 bool backward);

/* Weights as declared in job->reg, scaled like initial ones, and gradients where wanted: job->x is ready then. */
qkv_status qkv_bench_weights(qkv_bench_job *job, bool gradients) QKV_MUST_USE;
/* The same for the parameters of a network. */
qkv_status qkv_bench_values(qkv_bench_job *job, const qkv_reg *reg, bool gradients) QKV_MUST_USE;
/* Their packed copies, as a frozen model has them. */
qkv_status qkv_bench_pack(qkv_bench_job *job) QKV_MUST_USE;

/* A classifier of these sizes: pre-norm, GELU, learned positions, mean pooling, no n-grams. */
qkv_config qkv_bench_config(const qkv_bench_case *c, int64_t vocab, int64_t classes);

/* QKV_NO_MEMORY with both numbers where the system has less than `bytes`. */
qkv_status qkv_bench_fits(qkv_ctx *ctx, const qkv_bench_case *c, double bytes) QKV_MUST_USE;

qkv_status qkv_bench_cases(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case **cases, int64_t *count) QKV_MUST_USE;
/* Refuses sizes that no case has. */
qkv_status qkv_bench_check_case(qkv_ctx *ctx, const qkv_bench_case *c) QKV_MUST_USE;
qkv_status qkv_bench_foresee(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) QKV_MUST_USE;
qkv_status qkv_bench_run(qkv_ctx *ctx, const qkv_bench_options *options, qkv_bench_case *one) QKV_MUST_USE;

#endif
