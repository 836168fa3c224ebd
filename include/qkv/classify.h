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
    int model, cell;    /* qkv_network, qkv_cell_kind */
    double forget_bias; /* of an LSTM: that of its forget gates at the start */
    int64_t layers, dim, heads, kv_heads, ffn;
    int64_t ngrams, ngram_min_rows; /* linear model over runs of up to `ngrams` words beside the encoder; 0: none */
    int position, pooling, norm, activation; /* the enums of model.h */
    int position_layout, position_beyond, rope_pairs, rope_stretch; /* likewise; docs/positions.md says what each is */
    int64_t position_reach, position_buckets, rope_length; /* 0: as usual */
    double rope_base, rope_part, rope_factor; /* likewise */
    int norm_place, residual, init; /* the enums of model.h */
    int qk_norm, unscaled, reversible, bias, causal;
    double softcap; /* of the attention scores; 0: none */
    qkv_span window;
    int pattern; /* qkv_pattern_kind: sets what of the following, and of window, is 0 or all (docs/long-text.md) */
    int64_t dilation; /* neighbours in the window stand so far apart; 0: 1 */
    int64_t global_first, global_every; /* tokens that see all and are seen by all: the first so many, and every so many-th */
    char global_at[QKV_OPTION_TEXT_SIZE],
        global_token[QKV_OPTION_TEXT_SIZE]; /* and those at places "0,5,17", and those named "? . <sep>" */
    int global_question;                    /* 1: and those of the first text of a pair, with what parts it from the second */
    int global_projection;                  /* 1: they have queries, keys and values of their own */
    int64_t random_blocks, block;           /* so many blocks of keys for each block of queries; block 0: 64 */
    int64_t full_every;                     /* layers 0, k, 2k, ... see everything */
    double local_rope_base;                 /* of the other layers, with position rope; 0: as rope_base */
    int segment; /* qkv_segmentation: an encoder of segments, then one over their vectors (docs/long-text.md) */
    int64_t segment_length, segment_layers; /* tokens of one at most (0: 128, of words 16); layers of the second encoder (0: 1) */
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
    int64_t patience; /* evaluations in a row that bring nothing better, after which training ends; 0: never */
    int metric;       /* which dev metric picks the best weights: accuracy, macro-f1, loss */
    int average;      /* which weights are evaluated and kept: those of single steps (none), their exponential moving average (ema),
                       * or those of single steps and, once, at the end, the mean of the last evaluations' (checkpoints) */
    double ema_decay;     /* of the moving average, per step; at step t at most (1 + t) / (10 + t) */
    int64_t average_last; /* evaluations that `checkpoints` takes the mean of */
    int recompute;   /* in the backward pass instead of keeping: none, blocks, sqrt (of the layers), attention, pointwise, auto (what
                      * makes the run fit) */
    int64_t recompute_every; /* with blocks: so many in a row at a time; 0: 1 */
    int64_t ffn_chunk; /* rows that a feed-forward layer goes over at a time; 0: all */
    int64_t memory;  /* bytes that the run may take; 0: what the system has available */
    uint64_t seed;
    int dtype; /* qkv_compute of training; the model remembers it */
    /* masked-token pretraining of the encoder, before the training */
    double pretrain;    /* epochs; 0: none */
    double pretrain_lr; /* peak rate of all weights */
    double mask;        /* share of the tokens that is hidden */
    int64_t monitor; /* steps between two looks at attention, gradients and updates (QKV_TRAIN_MONITOR); 0: none. Not while it pretrains.
                      * In no option table: it changes no bit of the model */
    const char *pretrain_text; /* path of the texts, of any format or a text a line, labels are left out; NULL: the training texts. In
                                * no option table: it is a place, not a setting */
} qkv_classify_options;

QKV_API const qkv_option_table *qkv_classify_options_table(void);

/* Sets layers, dim, heads, ffn (and the rates that go with them) to those of a named size: tiny, small, base. */
QKV_API qkv_status qkv_classify_options_size(qkv_ctx *ctx, qkv_classify_options *options, const char *size) QKV_MUST_USE;

/* Sets the kind of encoder, by its name in the option table, and what suits it: recurrent models learn at a larger rate. */
QKV_API qkv_status qkv_classify_options_model(qkv_ctx *ctx, qkv_classify_options *options, const char *model) QKV_MUST_USE;

typedef enum qkv_train_event_kind {
    QKV_TRAIN_DATA,     /* rows were read and tokenized: `data` */
    QKV_TRAIN_LINEAR,   /* the linear model beside the encoder begins to learn, and has learned (not with ngrams 0, nor of one class): `linear` */
    QKV_TRAIN_PLAN,     /* the model is planned, nothing big allocated yet; may be followed by QKV_NO_MEMORY: `plan` */
    QKV_TRAIN_STEP,     /* an optimizer step is done: `step` */
    QKV_TRAIN_EVALUATE, /* the dev set was evaluated (never without dev rows): `evaluation` */
    QKV_TRAIN_END,      /* training is over: `end` */
    QKV_TRAIN_MONITOR   /* with options->monitor: a look was taken, or something is wrong, or (before END) the run is over: `monitor` */
} qkv_train_event_kind;

typedef enum qkv_train_phase { QKV_PHASE_TRAIN, QKV_PHASE_PRETRAIN } qkv_train_phase;

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
    qkv_train_phase resumed_phase; /* in this phase */
    int64_t pretrain_rows, pretrain_tokens, pretrain_cut_rows; /* 0 without pretraining */
    const char *pretrain_format;    /* "" where the training texts are taken */
} qkv_train_data;

typedef struct qkv_train_linear {
    int64_t ngrams, runs; /* longest run of words; how many it knows, -1 when it begins to learn */
    double seconds;
} qkv_train_linear;

typedef struct qkv_train_plan {
    const char *network;      /* in words, valid during the event: sizes, and of the rest what is not usual; NULL in pretraining */
    int64_t parameters, embedding_parameters;
    int64_t bytes;            /* planned peak: weights, gradients, moments, averages, activations, data, and the program itself */
    int64_t before_bytes;     /* what was taken before: the peak of reading, of the tokenizer and of the linear model, the program included */
    int64_t activation_bytes;
    int64_t steps, batches_per_epoch;
    double epochs;            /* that the steps are; 0: the number of steps was given */
    double flops_per_step;    /* mean over the first epoch, forward + backward + recompute + optimizer */
    int64_t limit;            /* that bytes were to stay below: `memory`, or what the system has available; 0: none is known */
    int recompute;            /* 1: something is computed again in the backward pass: */
    int recompute_part;       /* of each block; 0: nothing, 1: what norms and activations give, 2: queries, keys and values, too */
    int64_t recompute_every;  /* so many blocks in a row together; 0: blocks are kept */
    int64_t ffn_chunk;        /* feed-forward layers go over so many rows at a time, and what is inside is computed again; 0: they do not */
    double recompute_share;   /* operations done again, of one of all others of forward and backward */
    int64_t piece_tokens;     /* batches are walked in pieces of at most so many tokens; 0: as a whole */
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
    int averaged; /* 1: not of this step's weights but of the mean over the last evaluations, which is tried at the end */
} qkv_train_evaluation;

typedef struct qkv_train_end {
    int64_t steps, best_step; /* without dev rows best_step is the last step */
    double seconds, tokens_per_second;
    double accuracy, macro_f1, loss; /* dev, of the kept weights; NaN without dev rows, loss also if no label is known */
    int stopped; /* 1: ended early on request */
    int out_of_patience; /* 1: ended early since the last `patience` evaluations brought nothing better */
    int averaged;        /* 1: the kept weights are an average (see `average`) */
    double rebuilt;      /* reversible: how far rows that were rebuilt lay from what they had been at most, beside the largest number in them;
                          * 0: nothing was rebuilt */
} qkv_train_end;

/* A numbered layer of the network, or another part of it: "encoder.0", "embedding", "head". */
typedef struct qkv_train_part {
    const char *name;
    double gradient_norm; /* of this step, before clipping */
    double update_ratio;  /* norm of the change of its weights in this step, beside that of the weights */
} qkv_train_part;

/* What is wrong, and from when on, is in docs/training-stability.md. */
typedef struct qkv_train_monitor {
    int64_t step;
    int looked; /* 1: parts, entropy and score are of this step; 0: there are only words and counts */
    int over;   /* 1: the run is over, and the words say what it came to */
    int64_t parts;
    const qkv_train_part *part;
    int64_t layers, heads; /* of attention; 0 where there is none */
    /* [layers][heads], of a few training rows, without dropout; NaN: no row sees two keys, or something is not finite. */
    const double *entropy; /* mean of that of the weights, beside the log of the number of keys seen: 1 all alike, 0 one key alone */
    const double *score;   /* the largest that goes into the softmax */
    double gradient_norm, median_norm; /* of this step; of the 64 before it (NaN: there are none) */
    int64_t looks, uniform, saturated, vanishing; /* so far: looks, and in how many of them some layer was so */
    int64_t steps, exploding, nonfinite;          /* so far */
    int64_t words;
    const char *const *word; /* sentences: what is wrong and was not said before */
} qkv_train_monitor;

typedef struct qkv_train_event {
    qkv_train_event_kind kind;
    qkv_train_phase phase; /* pretraining has plan, steps, evaluations and end of its own before those of the training; its loss is
                            * that of a hidden token, and accuracy and macro_f1 are NaN */
    union {
        qkv_train_data data;
        qkv_train_linear linear;
        qkv_train_plan plan;
        qkv_train_step step;
        qkv_train_evaluation evaluation;
        qkv_train_end end;
        qkv_train_monitor monitor;
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
                     * interrupted. The file is in memory only while it is checked, before the run's own blocks are. */
} qkv_train_checkpoint;

/* Trains on the rows of the file `train` (docs/data-formats.md); picks the weights with the best metric (of those that
 * options->average names) on `dev`, or, where `dev` is NULL, on one row in ten of `train` chosen by the hash of its bytes.
 * Every label keeps a training row: of one whose rows would all be held out, the first stays. So the held-out share
 * of a small file may be 0 rows. Without dev rows, or if none of them has a label that training knows, the last weights (or their
 * average) are kept; a metric that is NaN never beats a number. Files may be gzip; "-" is
 * standard input. A row that cannot be used is QKV_BAD_DATA with file:line. One class is legal (a warning; it is then predicted
 * with probability 1). With multi_label the thresholds are tuned on the dev rows, with the weights that are kept: one for all
 * labels, or one for each that has enough of them, whichever is better; without dev rows they are 0.5.
 * Returns QKV_OK or, when the stop callback ended it, QKV_STOPPED; in both cases *model is the best model so far (the
 * callback is asked after each step; where nothing was evaluated yet, one evaluation follows). The callback is asked while
 * rows are read and tokenized, too: when it stops the call before anything was evaluated, or while it pretrains, *model is NULL.
 * QKV_NO_MEMORY is returned
 * before anything big is allocated where the plan needs more memory than the system has available, or than options->memory, which
 * nothing that comes before the plan may exceed either. After QKV_NUMERIC (five
 * non-finite losses or gradients in a row; each of those steps left the weights alone) *model is the last good one, that is
 * the best one evaluated with a finite loss, if there is one. Else *model is NULL.
 * The same options and rows give the same bits in *model for any number of threads and on every instruction set (with dtype bf16
 * on one instruction set).
 * `checkpoint` NULL: none. A checkpoint that cannot be written is logged, and the run goes on. The file is the caller's to remove
 * once the model is saved. */
QKV_API qkv_status qkv_classify_train(qkv_ctx *ctx, const qkv_classify_options *options, const char *train, const char *dev,
                                      const qkv_train_checkpoint *checkpoint, const qkv_train_callbacks *callbacks,
                                      qkv_model **model) QKV_MUST_USE;

/* ---- how good is such a training? ---- */

enum { QKV_FOLDS_MOST = 100 };

typedef struct qkv_fold_score {
    int64_t train_rows, dev_rows, rows; /* learned from; the weights were picked by; scored */
    int64_t unseen_rows;                /* of the scored ones: their label is not in the training rows (they count as errors) */
    double accuracy, macro_f1, loss;    /* with multi_label accuracy is micro-F1; loss: NaN where no label is known */
    double seconds;                     /* training and scoring */
} qkv_fold_score;

typedef struct qkv_folds {
    int64_t folds, done;
    qkv_fold_score fold[QKV_FOLDS_MOST]; /* [done] */
    qkv_fold_score mean, deviation;      /* over those that are done, of the doubles alone; the deviation is that of a sample (divided
                                          * by done - 1), NaN for fewer than two */
} qkv_folds;

typedef struct qkv_folds_callbacks {
    const qkv_train_callbacks *training; /* hears each training as if it were alone; may be NULL */
    void (*scored)(void *user, int64_t fold, const qkv_fold_score *score); /* after each fold (from 0); may be NULL */
    void *user;
} qkv_folds_callbacks;

/* Cross-validation. The rows of the file `train` are dealt to `folds` (2 .. QKV_FOLDS_MOST) folds; for each a model is trained on
 * the rows of the others, as qkv_classify_train would (the weights are picked on `dev`, or, where it is NULL, on one in ten of
 * those rows), and scored on the rows of the fold, which it has never seen. Rows with the same text are in one fold, and labels are
 * spread evenly over the folds; which row goes where depends on options->seed and not on their order. The same rows, options and
 * seed give the same scores for any number of threads. The file is read once. `callbacks` may be NULL. QKV_STOPPED when the stop
 * callback asks for it, with the folds that were done by then; *result is filled with those whatever is returned. */
QKV_API qkv_status qkv_classify_folds(qkv_ctx *ctx, const qkv_classify_options *options, const char *train, const char *dev,
                                      int64_t folds, const qkv_folds_callbacks *callbacks, qkv_folds *result) QKV_MUST_USE;

/* ---- which options? ---- */

typedef struct qkv_autotune_options {
    double minutes;           /* that the search may take; 0: no limit */
    int64_t trials;           /* that are done; 0: no limit. One of the two must be there */
    const char *const *fixed; /* [fixed_count] names of options that keep the value they have; may be NULL */
    int64_t fixed_count;
} qkv_autotune_options;

typedef struct qkv_autotune_trial {
    int64_t trial; /* from 1 */
    const qkv_classify_options *options;
    qkv_status status; /* QKV_OK: it counts. QKV_STOPPED (the time, or the stop callback), QKV_NO_MEMORY, QKV_NUMERIC: it does not */
    const char *why;   /* of those three; else "" */
    double accuracy, macro_f1, loss; /* on the dev rows; NaN if it does not count */
    int best;                        /* 1: its model is kept so far */
    double seconds;
} qkv_autotune_trial;

typedef struct qkv_autotune_callbacks {
    const qkv_train_callbacks *training; /* hears each training as if it were alone; may be NULL */
    void (*begun)(void *user, int64_t trial, const qkv_classify_options *options); /* before each trial; may be NULL */
    void (*done)(void *user, const qkv_autotune_trial *trial);                     /* after each trial; may be NULL */
    void *user;
} qkv_autotune_callbacks;

/* Looks for options that do better on the dev rows (of `dev`, or held out as by qkv_classify_train): trial after trial is trained
 * on the same rows, the first with *options as they are, later ones with some of layers, dim, heads, lr, embedding-lr, dropout,
 * embedding-dropout, token-dropout, epochs, vocab and ngrams drawn anew: around the start, and ever more often and ever nearer
 * around the best so far by options->metric (where that is equal, by the loss). *model is the best trial's model itself, and *best
 * (may be NULL) its options: qkv_classify_train with them and the same files gives that model again, byte for byte. But the first
 * trial's is kept unless another is better by more than one standard error of its score, sqrt(m (1 - m) / dev rows) (by the loss: by
 * anything), since of many trials on few rows the luckiest comes out ahead.
 * The draws are a function of options->seed, the number of the trial and the best so far. A trial that cannot end in what is left
 * of the time, or (but for the first) would take more than a third of all of it and longer than the first, is cut as soon as that
 * shows, and does not count; nor do trials that do not fit into memory or diverge. After 20 of these in a row the search ends.
 * Whatever stops it, the time is exceeded by no more than one step and one evaluation. If not even the first trial ends in time,
 * its weights so far are kept, and that is logged.
 * QKV_OK; QKV_STOPPED when the stop callback asks for it, in which case *model is the best so far, or NULL; QKV_BAD_DATA where no
 * dev row can tell trials apart; QKV_NUMERIC where each diverged. The dev score of the best of many flatters it: test it on rows
 * of its own. `callbacks` may be NULL. */
QKV_API qkv_status qkv_classify_autotune(qkv_ctx *ctx, const qkv_classify_options *options, const qkv_autotune_options *how,
                                         const char *train, const char *dev, const qkv_autotune_callbacks *callbacks,
                                         qkv_classify_options *best, qkv_model **model) QKV_MUST_USE;

/* ---- using a model ---- */

/* probabilities[count][qkv_model_labels()]: they sum to 1, or, where a text has any number of labels, each is of its own and to be
 * held against qkv_model_threshold(). Any bytes are legal; an empty text gets the model's answer to an empty text. Of a pair
 * model a text is two with a tab between. The answer to a text does not depend on the other texts of the call. count 0 does
 * nothing. dropped[count] (may be NULL): how many tokens of each text the length limit cut. QKV_NUMERIC where an answer is not finite (weights
 * can be, and sums overflow); those that are, are there. */
QKV_API qkv_status qkv_classify_predict(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths,
                                        float *probabilities, int64_t *dropped) QKV_MUST_USE;

/* vectors[count][qkv_model_dim()]: of each text the pooled vector, which is what the output layer sees of the encoder. For
 * neighbours, clusters, or a classifier of one's own; their lengths vary. The rest is as above; a text without tokens gives zeros
 * (where the model pools the first token, the vector of an empty text). */
QKV_API qkv_status qkv_classify_embed(const qkv_model *model, int64_t count, const char *const *texts, const int64_t *lengths,
                                      float *vectors, int64_t *dropped) QKV_MUST_USE;

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

/* A bin of the reliability table: probabilities above `from` (in the first bin also 0), up to `to`. */
typedef struct qkv_reliability {
    double from, to;
    int64_t rows;
    double confidence, accuracy; /* mean probability; share of the rows that are right. NaN without rows */
} qkv_reliability;

/* Numbers of labels: below `classes` the model's, from there on unseen_labels[number - classes]. */
typedef struct qkv_confusion {
    int64_t gold, predicted, rows;
} qkv_confusion;

/* 95 %; NaN as long as qkv_classify_intervals was not called. */
typedef struct qkv_interval {
    double low, high;
} qkv_interval;

/* Conventions.
 *
 * Scores (scikit-learn's, with zero_division=0): f1 = 2 hits / (support + predicted), 0 where both are 0. macro_f1 is the
 * mean over the labels that occur in gold or prediction; weighted_f1 weighs by support; in both, unseen labels take part
 * with f1 = 0. micro_f1 is over all labels, which makes it the accuracy where every row has one gold and one predicted label.
 *
 * Calibration (Guo et al. 2017, "On calibration of modern neural networks", section 2): 15 bins of equal width, closed above, of
 * the probability of the predicted label. ece is the mean over rows of |accuracy - mean probability| of the row's bin, mce the
 * largest of these differences. brier (Brier 1950) is the mean over rows of (p - 1)^2 for the gold label plus p^2 for each other
 * class: 0 to 2, for two classes twice what scikit-learn prints. A label that the model does not know has p = 0. With
 * multi_label all decisions are taken: each class of each row, with its probability as it is; "rows" of a bin are then decisions,
 * "accuracy" is the share that has the label, brier is the mean over decisions of (p - has)^2, and unseen labels take no part.
 *
 * Intervals: bootstrap over rows, 95 % by percentiles: of R resampled scores the floor(0.025 (R + 1))-th from below and from above
 * (Efron & Tibshirani 1993, chapter 13; Davison & Hinkley 1997, chapter 5). They say how much a score would vary with other test
 * rows of the same kind, not with another training. Where no row is wrong they have no width: resampling shows only what is there.
 * The same rows, answers, resamples and seed give the same bits for any number of threads. */
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
    int64_t errors;            /* rows that are not right */
    double ece, mce, brier, confidence; /* confidence: mean probability of what was predicted (multi_label: of all decisions) */
    int64_t bins;
    qkv_reliability *reliability; /* [bins] */
    int64_t confusions;           /* with multi_label 0: which label was taken for which is not known there */
    qkv_confusion *confusion;     /* [confusions] pairs that occur, right ones too, ascending by gold, then by predicted */
    int64_t resamples;            /* of the intervals; 0: there are none */
    uint64_t seed;
    qkv_interval accuracy_interval, macro_f1_interval, micro_f1_interval, weighted_f1_interval;
} qkv_classify_report;

/* Scores the model on the rows of a file. `data` may be NULL: all defaults. An empty file is QKV_BAD_DATA. `progress` may be NULL;
 * it is called with the rows done so far. The report keeps the rows (as the calls below need them) and points at the model, which
 * must outlive these calls. */
QKV_API qkv_status qkv_classify_test(const qkv_model *model, const char *path, const qkv_data_options *data,
                                     void (*progress)(void *user, int64_t rows), void *user, qkv_classify_report **report) QKV_MUST_USE;

/* Fills the intervals of a report by `resamples` resamples, 100 to 1,000,000. QKV_STOPPED when the stop callback asks for it. */
QKV_API qkv_status qkv_classify_intervals(qkv_classify_report *report, int64_t resamples, uint64_t seed) QKV_MUST_USE;

/* Writes the wrong rows to a file, the most confident first (equals in the order of the file), at most `limit` (0: all). A line of
 * names, then a row a line, tabs between: the probability of the predicted label, the predicted label, the gold label, its
 * probability (0 where the model does not know it), the line of the data file where the row begins, the text. With multi_label the
 * labels are joined as in a label column; the first probability is that of the row's worst decision (p of a label that was given,
 * 1 - p of one that was missed), the second that of the least probable gold label, empty where there is none. In a text a
 * backslash is doubled, and control characters and bytes that are not UTF-8 are \xHH. The file is there whole or not at all. */
QKV_API qkv_status qkv_classify_write_errors(const qkv_classify_report *report, const char *path, int64_t limit) QKV_MUST_USE;

/* Writes the confusions as gold TAB predicted TAB rows below a line of these names. With multi_label: QKV_BAD_ARGUMENT. */
QKV_API qkv_status qkv_classify_write_confusion(const qkv_classify_report *report, const char *path) QKV_MUST_USE;

/* One score of two models on the same rows. p is two-sided: with d the resampled differences, 2 (1 + min(#{d <= 0}, #{d >= 0})) /
 * (R + 1), at most 1 (the interval turned round; the 1 as in Davison & Hinkley 1997, chapter 4). It is at most 0.05 just where the
 * interval of the difference lies on one side of 0. */
typedef struct qkv_score_pair {
    double a, b;
    qkv_interval a_interval, b_interval;
    double difference; /* b - a */
    qkv_interval interval;
    double p;
} qkv_score_pair;

typedef struct qkv_comparison {
    int64_t rows, both_right, only_a, only_b, neither;
    double mcnemar; /* p value of McNemar's exact test (1947; two-sided, by the binomial distribution) of only_a against only_b */
    int64_t resamples;
    uint64_t seed;
    qkv_score_pair accuracy, macro_f1, micro_f1, weighted_f1; /* without resamples: intervals and p are NaN */
} qkv_comparison;

/* Compares two reports of the same rows: both resampled together (a pair of answers stays a pair). The models may have different
 * labels; each is judged by the text of the gold labels. Reports of different rows, or one with multi_label and one without, are
 * QKV_BAD_ARGUMENT. `resamples` as above, or 0 for McNemar's test alone. The message is in the context of `a`. */
QKV_API qkv_status qkv_classify_compare(const qkv_classify_report *a, const qkv_classify_report *b, int64_t resamples, uint64_t seed,
                                        qkv_comparison *comparison) QKV_MUST_USE;
QKV_API void qkv_classify_report_free(qkv_ctx *ctx, qkv_classify_report *report);

#ifdef __cplusplus
}
#endif
#endif
