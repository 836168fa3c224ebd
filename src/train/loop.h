/* The training loop, for any task: batches, accumulation, update, evaluation, best weights, stopping.
 *
 * A step is one window of `accumulate` batches (the last window of an epoch may be shorter and is applied like the others).
 * Its gradient is that of the mean loss over the units (rows, tokens, ...) of the whole window, so it does not matter how
 * the window was cut into batches. No memory is allocated inside a step; everything a step needs was planned before. The
 * result has the same bits for any number of threads. */
#ifndef QKV_TRAIN_LOOP_H
#define QKV_TRAIN_LOOP_H

#include "ops/exec.h"
#include "qkv/classify.h"
#include "train/average.h"
#include "train/budget.h"
#include "train/schedule.h"

struct qkv_train_state;

typedef struct qkv_task_score {
    double loss, accuracy, macro_f1; /* reported; NaN where there is nothing to take it of */
    double metric;                   /* the larger the better; decides which weights are kept. Ties go to the lower loss */
    bool early;                      /* nothing of what is trained shows in it yet: it costs no patience */
    bool blind;                      /* no dev row has a label the model knows: the score says nothing, the last weights are kept */
} qkv_task_score;

/* What is being trained. */
typedef struct qkv_task {
    void *self;
    const qkv_reg *reg;
    int64_t rows;          /* training rows */
    const int64_t *offset; /* [rows + 1] where each row's tokens start: the lengths that batches are cut by */
    /* Of rows that are read by segments (qkv_ragged), else NULL: what memory depends on, too. */
    const int64_t *segment_at;
    const int32_t *segment_size;
    bool uneven; /* memory depends on more than how many rows, tokens and segments there are and the longest: each batch is planned */

    /* How many terms the loss of these rows has. NULL: one a row. */
    int64_t (*units)(void *self, const int64_t *rows, int64_t count);

    /* Forward, loss, backward of one batch: adds to x->grads the gradient of loss_scale * (sum of the losses), and to
     * *loss_sum the plain sum. x->plan: books only. Must not allocate. */
    qkv_status (*step)(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum);

    /* Scores the dev set with x->weights, which are those after x->step steps; x->plan: books the largest batch. Must not
     * allocate. NULL: there is no dev set, and the last weights are kept. */
    qkv_status (*evaluate)(void *self, qkv_exec *x, qkv_task_score *score);
    /* Goes forward over these rows, without dropout, for the monitor (x->watch); x->plan: books only. Must not allocate. NULL: attention
     * is not looked at. */
    qkv_status (*probe)(void *self, qkv_exec *x, const int64_t *rows, int64_t count);
    int64_t attention_layers, attention_heads; /* that it goes through */
    const char *network; /* in words, for the plan; NULL: not said */
    /* The weights that training starts from are worth keeping: they are evaluated first and take part in the choice. */
    bool start_counts;

    /* Called before a plan is made: steps and evaluations go this way now. Adds the bytes of what the task allocates itself, as far
     * as they depend on the way, to *bytes. The loop cuts batches into pieces; the task's part is recomputation, and evaluations that
     * need no more than the steps. NULL: only what was asked for can be done. */
    qkv_status (*choose)(void *self, qkv_way way, int64_t *bytes);

    /* Called once, after the plan was announced and before anything big is allocated: refuses (QKV_NO_MEMORY) what does not
     * fit, or makes the initialised weights, *weights. NULL: the caller of qkv_loop_run gave them. */
    qkv_status (*allocate)(void *self, const qkv_train_plan *plan, real **weights);

    /* Called once before the first step: fills the state of an interrupted run (see checkpoint.h). NULL: a new run. */
    qkv_status (*restore)(void *self, struct qkv_train_state *state);
    /* Called between steps when options.checkpoint seconds have passed since the last time, and when the run is asked to stop:
     * writes the state down. Where that fails the reason is logged and the run goes on. NULL: nothing is written. */
    qkv_status (*checkpoint)(void *self, const struct qkv_train_state *state);
} qkv_task;

typedef struct qkv_loop_options {
    double epochs; /* 0 (with steps 0): no step, one evaluation */
    int64_t steps; /* 0: by epochs */
    int64_t batch_tokens, batch_rows, accumulate;
    qkv_schedule_kind schedule;
    double warmup;
    double lr, embedding_lr, weight_decay, beta1, beta2, epsilon;
    bool lazy_embedding;
    double clip;     /* 0: none */
    int64_t monitor; /* steps between two looks of the monitor; 0: there is none */
    double checkpoint; /* seconds between two calls of it; 0: when stopped only */
    double evaluate; /* epochs between evaluations, which happen once a step at most; 0: at the end only */
    int64_t patience; /* evaluations in a row that are not the best so far, after which training ends; 0: never */
    /* Which weights are evaluated and kept. ema: the moving average, always, with ema_decay (above 0, below 1). checkpoints: those of
     * the evaluations (without a dev set: of the times when one would be), and when all steps are done (or patience is) once
     * more the mean of the last `average_last` of them, which is kept if it is the best; without a dev set it is kept. */
    qkv_average_kind average;
    double ema_decay;
    int64_t average_last;
    uint64_t seed;
    qkv_room room;        /* to run in */
    int64_t before_bytes; /* for the plan to tell */
    int64_t piece_tokens; /* batches are walked in pieces of at most so many tokens (a row may have more), one after another, which
                           * gives the same gradient but for rounding; 0: as a whole. Set by the loop, as the room wants it */
} qkv_loop_options;

/* All that a resumed run needs besides data and options. */
typedef struct qkv_train_state {
    int64_t step;          /* steps done, skipped ones included */
    int64_t updates;       /* steps that changed the weights: the t of AdamW */
    int64_t epoch, window; /* the next window */
    int64_t skipped, skipped_in_row;
    int64_t evaluations;  /* done after some step; without a dev set: times when one was due */
    int64_t evaluated_at; /* step of the last one, -1: none */
    int64_t since_best;   /* evaluations since the best one */
    int64_t best_step;    /* -1: none yet */
    double next_evaluation; /* in epochs */
    int64_t piece_tokens;   /* how batches are walked */
    qkv_task_score best;
    int64_t blocks;                       /* reals in each of the following */
    real *weights, *grads, *m, *v, *kept; /* the caller owns weights; kept: the best so far, NULL without a dev set */
    real *average;           /* the moving one; NULL: none */
    qkv_snapshots snapshots; /* `evaluations` were put into it; slots 0: none */
} qkv_train_state;

typedef struct qkv_loop_result {
    bool usable; /* weights are worth keeping: the best evaluated ones, or, without a dev set, the last */
    int64_t steps, skipped;
    int64_t best_step;   /* -1: no evaluation gave a finite loss */
    qkv_task_score best; /* of the weights that were left in `weights`; NaNs without an evaluation */
    bool averaged;       /* those are a mean over steps or over evaluations */
    bool out_of_patience;
} qkv_loop_result;

/* Trains `weights` (one block of the registry, initialised; NULL where the task allocates them) in place and leaves the best
 * in it. QKV_OK; QKV_STOPPED when the stop callback asked (after the step at hand and, if there was none of any step, one evaluation;
 * before the first step at once, and nothing is usable); QKV_NUMERIC after five non-finite losses or gradients in a row, or
 * when no evaluation was finite. *result is filled in these three cases. `bytes` is what the caller holds already or will
 * when it allocates, for the plan event. */
qkv_status qkv_loop_run(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options, const qkv_train_callbacks *callbacks,
                        int64_t bytes, real *weights, qkv_loop_result *result) QKV_MUST_USE;

/* The bytes that the whole run would take this way. The task's restore and checkpoint are not called. */
qkv_status qkv_loop_need(qkv_ctx *ctx, const qkv_task *task, const qkv_loop_options *options, int64_t bytes, qkv_way way,
                         int64_t *need) QKV_MUST_USE;

#endif
