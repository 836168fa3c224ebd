/* Text classification: train, predict, test. */
#ifndef QKV_CLASSIFY_H
#define QKV_CLASSIFY_H

#include "attention.h"
#include "base.h"
#include "data.h"
#include "model.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Filled by qkv_options_default(qkv_classify_options_table(), &options); see `qkv train classify` for what each means. */
typedef struct qkv_classify_options {
    /* model */
    int64_t layers, dim, heads, kv_heads, ffn;
    int64_t ngrams, ngram_dim, ngram_buckets; /* bag of n-grams beside the encoder; ngrams 0: none */
    int position, pooling, norm, activation; /* the enums of model.h */
    int post_norm, bias, causal;
    qkv_span window;
    /* text */
    int tokenizer; /* qkv_tokenizer_kind */
    int64_t vocab, max_length;
    int lowercase;
    int normalize; /* qkv_normalization */
    /* data */
    qkv_data_options data;
    int multi_label; /* 1: a row has any number of labels; a sigmoid and a threshold for each */
    int pair;        /* 1: two texts a row, encoded as one with a separator token between */
    int balance;     /* 1: labels weigh inversely to how often they occur, 1 on average */
    /* training */
    double epochs; /* may be a fraction */
    int64_t steps; /* 0: by epochs */
    int64_t batch_tokens, batch_rows, accumulate; /* a batch: at most so many tokens and rows (rows 0: no limit) */
    double lr, embedding_lr; /* peak rates of the dense weights and of the embedding table (0: 6 * lr) */
    int lazy_embedding;      /* 1: rows of the embedding table without a gradient are not moved by old moments */
    int schedule;            /* linear, cosine, constant, inverse-sqrt */
    double warmup;           /* below 1: share of the steps; from 1: steps */
    double weight_decay, beta1, beta2, epsilon, clip;
    double dropout, attention_dropout, embedding_dropout, token_dropout;
    double label_smoothing;
    double evaluate; /* epochs between evaluations on the dev set, at most one a step; 0: at the end only */
    int metric;      /* which dev metric picks the best weights: accuracy, macro-f1, loss */
    int recompute;   /* 1: recompute blocks in the backward pass instead of keeping them */
    uint64_t seed;
    int dtype; /* qkv_compute of training; the model remembers it */
} qkv_classify_options;

QKV_API const qkv_option_table *qkv_classify_options_table(void);

/* Sets layers, dim, heads, ffn (and the rates that go with them) to those of a named size: tiny, small, base. */
QKV_API qkv_status qkv_classify_options_size(qkv_ctx *ctx, qkv_classify_options *options, const char *size) QKV_MUST_USE;

typedef enum qkv_train_event_kind {
    QKV_TRAIN_DATA,     /* rows were read and tokenized: `data` */
    QKV_TRAIN_PLAN,     /* the model is planned, nothing big allocated yet; may be followed by QKV_NO_MEMORY: `plan` */
    QKV_TRAIN_STEP,     /* an optimizer step is done: `step` */
    QKV_TRAIN_EVALUATE, /* the dev set was evaluated (never without dev rows): `evaluation` */
    QKV_TRAIN_END       /* training is over: `end` */
} qkv_train_event_kind;

typedef struct qkv_train_data {
    int64_t train_rows, dev_rows, classes;
    const int64_t *class_rows; /* [classes] in the training set */
    const char *const *labels; /* [classes] */
    int held_out;              /* 1: the dev rows were taken from the training file (dev_rows may be 0 then) */
    int64_t train_tokens, dev_tokens, vocab;
    int64_t shortest, median, longest; /* tokens of a training row before the cut */
    int64_t cut_rows, cut_tokens;      /* how much the length limit takes away */
    int64_t empty_rows, repaired_rows; /* without text; with NUL or invalid UTF-8 */
    int64_t unseen_dev_rows;           /* dev rows whose label the training set does not have */
    int multi_label;
    int64_t unlabelled_rows;           /* with multi_label: training rows without a label */
    const char *format, *dev_format;   /* how the files were read: "CSV, separator comma, guessed from line 1" */
    int64_t dev_cut_rows;
    int64_t resumed_step; /* steps that an interrupted run had done already; 0: a new run */
} qkv_train_data;

typedef struct qkv_train_plan {
    int64_t parameters, embedding_parameters;
    int64_t bytes;            /* planned peak: parameters, gradients, moments, activations */
    int64_t activation_bytes;
    int64_t steps, batches_per_epoch;
    double flops_per_step;    /* mean over the first epoch, forward + backward + recompute + optimizer */
} qkv_train_plan;

typedef struct qkv_train_step {
    int64_t step, steps; /* from 1 */
    double epoch;        /* fraction of epochs done */
    double loss;         /* mean over the step's rows, nats */
    double gradient_norm; /* before clipping */
    double lr;
    int64_t tokens, rows; /* of this step */
    double seconds;       /* of this step */
    double flops;         /* of this step, counted */
    int skipped;          /* 1: non-finite loss or gradient, weights untouched */
    int64_t skipped_total;
} qkv_train_step;

typedef struct qkv_train_evaluation {
    int64_t step;
    double epoch, loss, accuracy, macro_f1; /* loss is over dev rows with a known label, NaN if there are none; with multi_label
                                             * accuracy is micro-F1, at the thresholds that suit these weights best */
    int best; /* 1: the best so far; its weights are kept */
    double seconds;
} qkv_train_evaluation;

typedef struct qkv_train_end {
    int64_t steps, best_step; /* without dev rows best_step is the last step */
    double seconds, tokens_per_second;
    double accuracy, macro_f1, loss; /* dev, of the kept weights; NaN without dev rows, loss also if no label is known */
    int stopped; /* 1: ended early on request */
} qkv_train_end;

typedef struct qkv_train_event {
    qkv_train_event_kind kind;
    union {
        qkv_train_data data;
        qkv_train_plan plan;
        qkv_train_step step;
        qkv_train_evaluation evaluation;
        qkv_train_end end;
    } u;
} qkv_train_event;

typedef struct qkv_train_callbacks {
    /* May be NULL. What the event points at, labels too, is valid during the call. Called on the thread that trains; it must
     * not call into the same context. */
    void (*event)(void *user, const qkv_train_event *event);
    void *user;
} qkv_train_callbacks;

/* What an interrupted run needs to go on: a file that is written now and then (atomically, so that a kill at any moment leaves the
 * last one), and once more when the stop callback ends the run. */
typedef struct qkv_train_checkpoint {
    const char *path;
    double minutes; /* between two; 0: only when stopped */
    int resume;     /* 1: go on from the file, which must exist and be of a run with the same options, rows and version of qkv
                     * (QKV_BAD_ARGUMENT with the first difference); the model then has the bits of a run that was never
                     * interrupted. Needs the file's size in memory beside the run's own while it starts. */
} qkv_train_checkpoint;

/* Trains on the rows of the file `train` (docs/data-formats.md); picks the weights with the best metric on `dev`, or, where `dev`
 * is NULL, on one row in ten of `train` chosen by the hash of its bytes. Every label keeps a training row: of one whose rows would
 * all be held out, the first stays. So the held-out share of a small file may be 0 rows. Without dev rows, or if none of them has
 * a label that training knows, the last weights are kept; a metric that is NaN never beats a number. Files may be gzip; "-" is
 * standard input. A row that cannot be used is QKV_BAD_DATA with file:line. One class is legal (a warning; it is then predicted
 * with probability 1). With multi_label the thresholds are tuned on the dev rows, with the weights that are kept: one for all
 * labels, or one for each that has enough of them, whichever is better; without dev rows they are 0.5.
 * Returns QKV_OK or, when the stop callback ended it, QKV_STOPPED; in both cases *model is the best model so far (the
 * callback is asked after each step; where nothing was evaluated yet, one evaluation follows). The callback is asked while
 * rows are read and tokenized, too: when it stops the call before the first step, *model is NULL. QKV_NO_MEMORY is returned
 * before anything big is allocated where the plan needs more memory than the system has available. After QKV_NUMERIC (five
 * non-finite losses or gradients in a row; each of those steps left the weights alone) *model is the last good one, that is
 * the best one evaluated with a finite loss, if there is one. Else *model is NULL.
 * The same options and rows give the same bits in *model for any number of threads and on every instruction set (with dtype bf16
 * on one instruction set).
 * `checkpoint` NULL: none. A checkpoint that cannot be written is logged, and the run goes on. The file is the caller's to remove
 * once the model is saved. */
QKV_API qkv_status qkv_classify_train(qkv_ctx *ctx, const qkv_classify_options *options, const char *train, const char *dev,
                                      const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks,
                                      qkv_model **model) QKV_MUST_USE;

/* probabilities[count][qkv_model_labels()]: they sum to 1, or, where a text has any number of labels, each is of its own and to be
 * held against qkv_model_threshold(). Any bytes are legal; an empty text gets the model's answer to an empty text. Of a pair
 * model a text is two with a tab between. The answer to a text does not depend on the other texts of the call. count 0 does
 * nothing. dropped[count] (may be NULL): how many tokens of each text the length limit cut. */
QKV_API qkv_status qkv_classify_predict(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths,
                                        float *probabilities, int64_t *dropped) QKV_MUST_USE;

typedef struct qkv_class_score {
    double precision, recall, f1;
    int64_t support, predicted; /* rows with this label; rows that got it */
} qkv_class_score;

typedef struct qkv_length_score {
    int64_t from, to; /* tokens before the length limit cuts, inclusive; to = -1: no limit */
    int64_t rows;
    double accuracy;
} qkv_length_score;

typedef struct qkv_unseen_label {
    const char *label;
    int64_t rows;
} qkv_unseen_label;

/* Of the k most probable labels of each row: precision = hits / (k rows), recall = hits / gold labels (as fastText). */
typedef struct qkv_rank_score {
    int64_t k;
    double precision, recall;
} qkv_rank_score;

/* Conventions (scikit-learn's, with zero_division=0): f1 = 2 hits / (support + predicted), 0 where both are 0. macro_f1 is the
 * mean over the labels that occur in gold or prediction; weighted_f1 weighs by support; in both, unseen labels take part
 * with f1 = 0. micro_f1 is over all labels, which makes it the accuracy: every row has one gold and one predicted label. */
typedef struct qkv_classify_report {
    int64_t rows;
    double loss; /* mean negative log-likelihood over rows whose label the model knows, nats; NaN if there are none */
    double accuracy, macro_f1, micro_f1, weighted_f1;
    int64_t classes;
    qkv_class_score *scores; /* [classes], in the model's label order */
    int64_t lengths;
    qkv_length_score *by_length; /* [lengths] */
    int64_t unseen;
    qkv_unseen_label *unseen_labels; /* [unseen]; their rows count as errors in every metric */
    int64_t cut_rows;
    double seconds;
    int64_t cut_tokens;
    int64_t empty_rows, repaired_rows; /* without text; with NUL or invalid UTF-8 */
    int64_t unlabelled_rows;           /* with multi_label */
    char format[192];                  /* how the file was read */
    int multi_label;                   /* 1: accuracy is the share of rows whose labels are all right, and no other; and there are: */
    double micro_precision, micro_recall;
    int64_t ranks;
    qkv_rank_score by_rank[3]; /* [ranks] */
} qkv_classify_report;

/* Scores the model on the rows of a file. `data` may be NULL: all defaults. An empty file is QKV_BAD_DATA. `progress` may be NULL;
 * it is called with the rows done so far. */
QKV_API qkv_status qkv_classify_test(const qkv_model *model, const char *path, const qkv_data_options *data,
                                     void (*progress)(void *user, int64_t rows), void *user, qkv_classify_report **report) QKV_MUST_USE;
QKV_API void qkv_classify_report_free(qkv_ctx *ctx, qkv_classify_report *report);

#ifdef __cplusplus
}
#endif
#endif
