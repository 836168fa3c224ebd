/* The arms of the experiment `positions`, for those that train and ask (positions.c) and those that judge (positions_results.c). */
#ifndef QKV_COMPARE_POSITIONS_H
#define QKV_COMPARE_POSITIONS_H

#include "compare/dataset.h"

/* What is trained. */
enum {
    QKV_TRAINED_NONE,
    QKV_TRAINED_SINUSOIDAL,
    QKV_TRAINED_LEARNED,
    QKV_TRAINED_SHAW,
    QKV_TRAINED_T5,
    QKV_TRAINED_ALIBI,
    QKV_TRAINED_ROPE,
    QKV_TRAINED_COUNT
};

/* How it is asked beyond the learned lengths. */
enum {
    QKV_PLACED_NONE,
    QKV_PLACED_SINUSOIDAL,
    QKV_PLACED_UNTRAINED,
    QKV_PLACED_CLAMP,
    QKV_PLACED_TILE,
    QKV_PLACED_INTERPOLATE,
    QKV_PLACED_SHAW,
    QKV_PLACED_T5,
    QKV_PLACED_ALIBI,
    QKV_PLACED_ROPE,
    QKV_PLACED_ROPE_LINEAR,
    QKV_PLACED_ROPE_NTK,
    QKV_PLACED_ROPE_YARN,
    QKV_PLACED_COUNT
};

typedef struct qkv_placed {
    const char *name, *key; /* of its answers in a cell */
    int64_t trained;
    qkv_position_beyond beyond; /* ERROR: the table has further rows, which were not trained */
    qkv_rope_stretch stretch;   /* by length / learned length */
} qkv_placed;

extern const qkv_placed QKV_PLACED[QKV_PLACED_COUNT];

/* Places of a trial. */
enum { QKV_POSITIONS_TASK, QKV_POSITIONS_OF, QKV_POSITIONS_TURN };

/* Lengths that are asked about: as learned, twice, four times, eight times. */
enum { QKV_POSITIONS_TASKS = 2, QKV_POSITIONS_LENGTHS = 4 };

typedef struct qkv_positions_task {
    const char *name;
    qkv_dataset dataset; /* its max_length is the longest that is learned from; it has no rows to test on */
    qkv_ragged asked;
    qkv_lengths at[QKV_POSITIONS_LENGTHS];
    int64_t steps, batch_tokens;
    double lr;
    qkv_pooling pooling;
} qkv_positions_task;

typedef struct qkv_positions {
    qkv_positions_task tasks[QKV_POSITIONS_TASKS];
    int64_t count, dim, layers;
} qkv_positions;

/* src/compare/positions_results.c */
void qkv_positions_conclude(qkv_run *run, qkv_outcome *outcome);

#endif
