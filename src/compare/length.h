/* The arms and tasks of the experiment `length`, for those that train them (length.c) and those that judge (length_results.c). */
#ifndef QKV_COMPARE_LENGTH_H
#define QKV_COMPARE_LENGTH_H

#include "compare/dataset.h"

enum {
    QKV_LENGTH_SINUSOIDAL,
    QKV_LENGTH_LEARNED,
    QKV_LENGTH_NONE,
    QKV_LENGTH_RNN,
    QKV_LENGTH_LSTM,
    QKV_LENGTH_GRU,
    QKV_LENGTH_ARM_COUNT
};

typedef struct qkv_length_arm {
    const char *name;
    qkv_network model;
    qkv_position position;
} qkv_length_arm;

extern const qkv_length_arm QKV_LENGTH_ARMS[QKV_LENGTH_ARM_COUNT];
bool qkv_length_attends(int64_t arm);

/* Places of a trial. */
enum { QKV_LENGTH_TASK, QKV_LENGTH_ARM, QKV_LENGTH_TURN, QKV_LENGTH_KIND, QKV_LENGTH_RATE };

/* What a training learns from: rows of the learned lengths; rows of all lengths, as a control (of texts alone); and one that is for
 * choosing the rate of its arm alone, and of no other use. */
enum { QKV_LENGTH_TRAIN, QKV_LENGTH_ALL, QKV_LENGTH_PICK };

enum { QKV_LENGTH_RATES = 5, QKV_LENGTH_TASKS = 2, QKV_LENGTH_BUCKETS = 5 };
extern const double QKV_LENGTH_RATE_OF[QKV_LENGTH_RATES];

typedef struct qkv_length_task {
    const char *name;
    qkv_dataset dataset;
    qkv_ragged all;  /* rows of all lengths to learn from; none of a task that is made */
    qkv_ragged dev;  /* rows that are not scored: rates are picked by them; of all lengths where `all` has some */
    int64_t common;  /* class that is most frequent in the dataset */
    int64_t learned; /* longest row of the dataset */
    int64_t edges[QKV_LENGTH_BUCKETS + 1]; /* a bucket has the lengths from one edge + 1 to the next */
    int64_t buckets, within;               /* of them, the first so many are of lengths that were learned from */
    int64_t steps, pick_steps, batch_tokens;
    int64_t pick_seeds; /* trainings by which each rate is picked */
    qkv_pooling pooling;
} qkv_length_task;

typedef struct qkv_length {
    qkv_length_task tasks[QKV_LENGTH_TASKS];
    int64_t count, dim, layers;
    bool picks; /* rates are tried for each arm; else all have the usual one */
} qkv_length;

/* Of the rates, the first so many are tried for that arm. */
int64_t qkv_length_rates(const qkv_length *l, int64_t arm);
/* Accuracy on the dev rows with one of them, the mean over the trainings that pick. */
double qkv_length_pick(const qkv_run *run, int64_t task, int64_t arm, int64_t rate);
/* Which of them did best there; the smaller one of two that did equally well. */
int64_t qkv_length_picked(const qkv_run *run, int64_t task, int64_t arm);

/* src/compare/length_results.c */
void qkv_length_conclude(qkv_run *run, qkv_outcome *outcome);

#endif
