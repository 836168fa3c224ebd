/* Masked-token pretraining of a classifier's encoder (Devlin et al. 2019, section 3.1), before the training itself: the same loop
 * over the texts alone, with steps, learning rate and dev loss of its own. */
#ifndef QKV_TASKS_PRETRAIN_H
#define QKV_TASKS_PRETRAIN_H

#include <jansson.h>

#include "models/config.h"
#include "qkv/classify.h"
#include "tasks/classify_data.h"
#include "tasks/classify_memory.h"
#include "train/checkpoint.h"

/* The texts of options.pretrain_text; all 0 where pretraining is off or takes the training texts. */
typedef struct qkv_pretrain_texts {
    qkv_table table; /* its rows are given back once they are encoded */
    qkv_encoded encoded;
} qkv_pretrain_texts;

qkv_status qkv_pretrain_read(qkv_ctx *ctx, const qkv_classify_options *options, qkv_pretrain_texts *texts) QKV_MUST_USE;
/* Frees the table's rows. */
qkv_status qkv_pretrain_encode(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer,
                               qkv_pretrain_texts *texts) QKV_MUST_USE;
void qkv_pretrain_texts_free(qkv_ctx *ctx, qkv_pretrain_texts *texts);

typedef struct qkv_pretraining {
    const qkv_classify_options *options;
    const qkv_config *config; /* of the classifier */
    const qkv_ragged *texts, *dev;
    const qkv_train_callbacks *callbacks; /* events get their phase; may be NULL */
    const qkv_train_checkpoint *checkpoint; /* NULL: none */
    const json_t *identity;
    qkv_checkpoint **from; /* what is resumed, closed once it is; *from NULL: a new run */
    const qkv_memory_ask *memory; /* of the training after it */
    int64_t bytes; /* that it needs at least; more than there is would refuse it only then */
} qkv_pretraining;

typedef struct qkv_pretrained {
    real *weights; /* a block that begins as a classifier's does; NULL: none. qkv_free */
    int64_t size;  /* reals of it that are the encoder */
    json_t *record; /* what came of it, for checkpoints and the training record; NULL: there was none */
} qkv_pretrained;

/* QKV_OK; else nothing is left: QKV_STOPPED (a checkpoint was written, if there are any), QKV_NUMERIC, QKV_NO_MEMORY (before
 * anything big is allocated), QKV_BAD_DATA where no text has a token. */
qkv_status qkv_pretrain(qkv_ctx *ctx, const qkv_pretraining *p, qkv_pretrained *pretrained) QKV_MUST_USE;

/* In which phase a run was interrupted, and what its pretraining had come to (new reference; NULL where it had none). */
qkv_train_phase qkv_pretrain_phase(const qkv_checkpoint *checkpoint);
json_t *qkv_pretrain_record(const qkv_checkpoint *checkpoint);
/* The notes of a checkpoint of the training that follows it; *notes NULL (new reference) for a record NULL. */
qkv_status qkv_pretrain_notes(qkv_ctx *ctx, json_t *record, json_t **notes) QKV_MUST_USE;

#endif
