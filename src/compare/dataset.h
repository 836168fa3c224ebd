/* What the networks of an experiment learn, and are asked afterwards: rows of token ids with one class each. */
#ifndef QKV_COMPARE_DATASET_H
#define QKV_COMPARE_DATASET_H

#include "compare/run.h"
#include "data/batches.h"
#include "models/classifier.h"
#include "qkv/classify.h"

typedef struct qkv_dataset {
    char name[320]; /* for people, and for the keys of cells: with a hash of the rows where they come from a file */
    qkv_ragged train, test;
    int64_t vocab, classes;
    int64_t max_length; /* of a row of either */
    bool text;          /* words of a language, which few rows teach: dropout, a rate of its own for the embeddings */
} qkv_dataset;

/* Rows of a file, one in ten held out as `test`; of a text at most max_length tokens are read. Its tokenizer is of the rows that
 * are learned from, with a vocabulary of 8,000 at most. */
qkv_status qkv_dataset_read(qkv_ctx *ctx, const char *path, int64_t max_length, qkv_dataset *dataset) QKV_MUST_USE;
void qkv_dataset_free(qkv_ctx *ctx, qkv_dataset *dataset);

/* Takes every k-th row out of `rows` into `taken`. */
qkv_status qkv_ragged_split(qkv_ctx *ctx, qkv_ragged *rows, int64_t k, qkv_ragged *taken) QKV_MUST_USE;

/* A copy of rows that have one class each. */
qkv_status qkv_ragged_copy(qkv_ctx *ctx, const qkv_ragged *rows, qkv_ragged *copy) QKV_MUST_USE;

/* The most frequent class of the rows that are learned from, the first of several: what somebody says who has learned nothing. */
qkv_status qkv_dataset_common(qkv_ctx *ctx, const qkv_dataset *dataset, int64_t *common) QKV_MUST_USE;

/* Keeps the rows of `shortest` to `longest` tokens. */
void qkv_ragged_between(qkv_ragged *rows, int64_t shortest, int64_t longest);

/* One network and how it is trained. */
typedef struct qkv_recipe {
    qkv_config config;
    int64_t steps, batch_tokens, batch_rows; /* rows 0: only tokens count */
    double lr;
    double clip;   /* 0: none */
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
} qkv_recipe;

/* Sizes that are the same for all networks of an experiment: pre-norm, GELU, biases, pooling by attention; dropout for texts alone.
 */
qkv_config qkv_recipe_config(const qkv_dataset *dataset, int64_t layers, int64_t dim, int64_t heads);

typedef struct qkv_learned {
    char *answers;  /* a bit a test row, of those that are right: digits, four rows each */
    int32_t *given; /* [test rows] the class each was given */
    int64_t right;
    double loss;         /* of the last steps, mean over the last tenth */
    double step_seconds; /* median */
    double tokens_per_second;
    double parameters, bytes, step_flops;
    double seconds, tokens; /* of all steps */
    bool diverged;          /* nobody was asked: the answers are those of somebody who gives the most frequent class always */
} qkv_learned;

void qkv_learned_free(qkv_ctx *ctx, qkv_learned *learned); /* what it holds */
void qkv_answers_print(char *answers, int64_t digits);     /* a bit each of four rows, lowest first, becomes a hexadecimal digit */

/* Trains from the start and asks the test rows once, with the last weights: nothing is picked by them. */
qkv_status qkv_recipe_train(qkv_run *run, const qkv_dataset *dataset, const qkv_recipe *recipe, qkv_learned *learned) QKV_MUST_USE;

/* ---- what trainings with several seeds say about the test rows of shortest .. longest tokens ---- */

/* Mean accuracy; its interval has the spread of the seeds and that of so many rows, by intervals that know their number: where all
 * rows are right, more of them might not be. */
qkv_estimate qkv_run_accuracy(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const qkv_ragged *test, int64_t shortest,
                              int64_t longest);
/* Accuracy at b less that at a, seed by seed and row by row. Where memory runs out: not measured. */
qkv_estimate qkv_run_gain(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const int64_t b[QKV_TRIAL_PLACES],
                          const qkv_ragged *test, int64_t shortest, int64_t longest);

/* Rows of shortest .. longest tokens, both of them too. */
typedef struct qkv_lengths {
    int64_t shortest, longest;
} qkv_lengths;
int64_t qkv_rows_in(const qkv_ragged *test, qkv_lengths lengths);
/* Share of them that have this class; NaN where there are none. */
double qkv_share_of_class(const qkv_ragged *test, int64_t class, qkv_lengths lengths);

/* Trials, and which of the answers that their cells have. */
typedef struct qkv_asked_of {
    const int64_t *at; /* [QKV_TRIAL_PLACES] */
    const char *answers;
} qkv_asked_of;

/* The same of other answers than "right". */
qkv_estimate qkv_run_accuracy_of(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *answers,
                                 const qkv_ragged *test, qkv_lengths lengths);
qkv_estimate qkv_run_gain_of(const qkv_run *run, const qkv_asked_of *a, const qkv_asked_of *b, const qkv_ragged *test,
                             qkv_lengths lengths);

/* How much of the accuracy on the `near` rows, of what of it is above `none_near`, is gone on the `far` ones (above `none_far`),
 * which are other rows: both have an error of their own. Not known where the first is not above `none_near`. */
qkv_estimate qkv_run_fall_of(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *answers, const qkv_ragged *test,
                             qkv_lengths near, qkv_lengths far, double none_near, double none_far);
/* How much of that of a is gone with b, on the same rows. */
qkv_estimate qkv_run_fall_beside(const qkv_run *run, const qkv_asked_of *a, const qkv_asked_of *b, const qkv_ragged *test,
                                 qkv_lengths lengths, double none);

/* The values of a cell that every training has: right (a bit a test row, in hexadecimal), accuracy, loss, step_seconds,
 * tokens_per_second, parameters, bytes, step_flops. */
void qkv_learned_json(const qkv_learned *learned, const qkv_dataset *dataset, json_t *values);

/* Are they there, and of this dataset? Of a training that diverged no more than that is asked. */
bool qkv_learned_whole(const json_t *values, const qkv_dataset *dataset);

#endif
