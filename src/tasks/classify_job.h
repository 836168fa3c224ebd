/* A training run of the classifier, which its files share: classify_rows.c reads and encodes, classify_record.c writes down what it was,
 * classify_train.c trains. */
#ifndef QKV_TASKS_CLASSIFY_JOB_H
#define QKV_TASKS_CLASSIFY_JOB_H

#include "report/network.h"
#include "tasks/classify.h"
#include "tasks/classify_bag.h"
#include "tasks/classify_data.h"
#include "tasks/pretrain.h"
#include "tasks/scorer.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/multi.h"

/* Everything a training run owns. Zeroed, it may be freed at any point. */
typedef struct qkv_job {
    qkv_ctx *ctx;
    const qkv_classify_options *o;
    const qkv_train_callbacks *callbacks;
    const char *doing; /* for the message where memory runs out */
    int64_t used_before, before_bytes; /* by the context before the run; the peak of the run before there is a plan */

    /* data */
    const qkv_classify_source *source;
    qkv_table train_table, dev_table; /* given back once they are encoded */
    bool held_out;
    uint64_t train_hash, dev_hash;
    int64_t file_rows, empty_rows, repaired_rows, unlabelled_rows;
    char train_name[256], dev_name[256], train_format[192], dev_format[192];
    qkv_labels labels;
    int64_t unseen_labels, unseen_rows; /* of the dev set */
    real *class_weight;                 /* [labels], NULL: all weigh the same */
    qkv_tokenizer *tokenizer;
    qkv_numbers global_token; /* what it has for the tokens that are to be global */
    qkv_encoded train, dev;
    bool encoded; /* both, and told of */
    qkv_pretrain_texts texts;
    qkv_beside beside;

    /* model */
    qkv_classifier *plain;     /* until the model owns it */
    qkv_model *model;          /* once its weights are allocated */
    const qkv_classifier *net; /* the same all along */
    char words[QKV_NETWORK_WORDS];

    /* the task */
    qkv_gather gather;
    qkv_scorer scorer;
    qkv_counts counts;
    qkv_tuner tuner; /* instead of counts, where rows have any number of labels */
    qkv_tuned tuned; /* what the thresholds of the model came to */
    real *packed;
    qkv_loop_result result;
    qkv_pretrained pretrained; /* weights until the model has them */

    /* checkpoints */
    const qkv_train_checkpoint *checkpoint; /* NULL: none */
    json_t *identity;
    json_t *notes;
    qkv_checkpoint *from; /* what is resumed, until it is */
} qkv_job;

/* Reads the rows, opens the checkpoint of an interrupted run, makes tokenizer, token ids and bag, and tells of them. */
qkv_status qkv_job_read(qkv_job *j, json_t *recorded) QKV_MUST_USE;
void qkv_job_free_tables(qkv_job *j);
/* Of the network, once there is a tokenizer. */
qkv_config qkv_job_config(const qkv_job *j, int64_t vocab, int64_t classes);
/* What pretraining reads. */
const qkv_encoded *qkv_job_pretraining_texts(const qkv_job *j);

/* All that the bits of the run depend on, in j->identity. Needs the tables. */
qkv_status qkv_job_identify(qkv_job *j, json_t *recorded) QKV_MUST_USE;
/* The training record of the model. */
qkv_status qkv_job_record(qkv_job *j, json_t *recorded, qkv_status ended) QKV_MUST_USE;

#endif
