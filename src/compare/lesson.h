/* What the networks of an experiment learn, and are asked afterwards: rows of token ids with one class each. */
#ifndef QKV_COMPARE_LESSON_H
#define QKV_COMPARE_LESSON_H

#include "compare/run.h"
#include "data/batches.h"
#include "models/classifier.h"
#include "qkv/classify.h"

typedef struct qkv_lesson {
    char name[256]; /* for people, and for the keys of cells: with a hash of the rows where they come from a file */
    qkv_ragged train, test;
    int64_t vocab, classes;
    int64_t max_length; /* of a row of either */
    bool text;          /* words of a language, which few rows teach: dropout, a rate of its own for the embeddings */
} qkv_lesson;

/* Rows of a file, one in ten held out as `test`; of a text at most max_length tokens are read. Its tokenizer is of the rows that
 * are learned from, with a vocabulary of 8,000 at most. */
qkv_status qkv_lesson_read(qkv_ctx *ctx, const char *path, int64_t max_length, qkv_lesson *lesson) QKV_MUST_USE;
void qkv_lesson_free(qkv_ctx *ctx, qkv_lesson *lesson);

/* Takes every k-th row out of `rows` into `taken`. */
qkv_status qkv_ragged_split(qkv_ctx *ctx, qkv_ragged *rows, int64_t k, qkv_ragged *taken) QKV_MUST_USE;

/* Keeps the rows of `shortest` to `longest` tokens. */
void qkv_ragged_between(qkv_ragged *rows, int64_t shortest, int64_t longest);

/* One network and how it is trained. */
typedef struct qkv_pupil {
    qkv_config config;
    int64_t steps, batch_tokens, batch_rows; /* rows 0: only tokens count */
    double lr;
    double clip; /* 0: none */
    double warmup; /* share of the steps in which the rate rises; 0: a tenth; below 0: none */
    uint64_t seed;
    /* Between steps, with the weights as they are; NULL: nobody watches. Must not touch the weights. */
    qkv_status (*watch)(void *user, const qkv_classifier *net, const real *weights, int64_t step, double gradient_norm);
    void *watch_user;
    /* Once, with the last weights, unless the training diverged; NULL: nobody asks. user: watch_user. */
    qkv_status (*ask)(void *user, const qkv_classifier *net, const real *weights);
    /* Looks of the monitor every so many steps, and what the run came to; 0: none. */
    int64_t monitor;
    void (*seen)(void *user, const qkv_train_monitor *seen); /* user: watch_user */
} qkv_pupil;

/* Sizes that are the same for all networks of an experiment: pre-norm, GELU, biases, pooling by attention; dropout for texts alone.
 */
qkv_config qkv_pupil_config(const qkv_lesson *lesson, int64_t layers, int64_t dim, int64_t heads);

typedef struct qkv_learned {
    char *answers; /* a bit a test row, of those that are right: digits, four rows each */
    int32_t *given; /* [test rows] the class each was given */
    int64_t right;
    double loss;         /* of the last steps, mean over the last tenth */
    double step_seconds; /* median */
    double tokens_per_second;
    double parameters, bytes, step_flops;
    double seconds, tokens; /* of all steps */
    bool diverged; /* nothing was asked */
} qkv_learned;

void qkv_learned_free(qkv_ctx *ctx, qkv_learned *learned); /* what it holds */

/* Trains from the start and asks the test rows once, with the last weights: nothing is picked by them. */
qkv_status qkv_pupil_train(qkv_run *run, const qkv_lesson *lesson, const qkv_pupil *pupil, qkv_learned *learned) QKV_MUST_USE;

/* ---- what trainings with several seeds say about the test rows of shortest .. longest tokens ---- */

/* Mean accuracy; its interval has the spread of the seeds and that of so many rows. */
qkv_estimate qkv_run_accuracy(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const qkv_ragged *test, int64_t shortest,
                              int64_t longest);
/* Accuracy at b less that at a, seed by seed and row by row. Where memory runs out: not measured. */
qkv_estimate qkv_run_gain(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const int64_t b[QKV_TRIAL_PLACES],
                          const qkv_ragged *test, int64_t shortest, int64_t longest);

/* The same of other answers than "right", which the cells have by these names. */
qkv_estimate qkv_run_accuracy_of(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *answers, const qkv_ragged *test,
                                 int64_t shortest, int64_t longest);
qkv_estimate qkv_run_gain_of(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const char *answers_a,
                             const int64_t b[QKV_TRIAL_PLACES], const char *answers_b, const qkv_ragged *test, int64_t shortest,
                             int64_t longest);

/* The values of a cell that every training has: right (a bit a test row, in hexadecimal), accuracy, loss, step_seconds,
 * tokens_per_second, parameters, bytes, step_flops. */
void qkv_learned_json(const qkv_learned *learned, const qkv_lesson *lesson, json_t *values);

/* Are they there, and of this lesson? Of a training that diverged no more than that is asked. */
bool qkv_learned_whole(const json_t *values, const qkv_lesson *lesson);

#endif
