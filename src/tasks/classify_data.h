/* From rows of text to rows of token ids with class numbers. */
#ifndef QKV_TASKS_CLASSIFY_DATA_H
#define QKV_TASKS_CLASSIFY_DATA_H

#include "data/batches.h"
#include "data/table.h"
#include "models/bag.h"
#include "models/config.h"
#include "qkv/classify.h"
#include "qkv/tokenizer.h"

/* Different labels in ascending order of their bytes. The strings belong to the list. */
typedef struct qkv_labels {
    int64_t count;
    char **text; /* NUL-terminated */
    int64_t *size, *rows;
} qkv_labels;

/* The labels of all rows, without those of the sorted list `known` (of `known_count`; may be NULL). A row counts once for each of
 * its labels. */
qkv_status qkv_labels_collect(qkv_ctx *ctx, const qkv_table *table, char *const *known, const int64_t *known_sizes,
                              int64_t known_count, qkv_labels *labels) QKV_MUST_USE;
void qkv_labels_free(qkv_ctx *ctx, qkv_labels *labels);

/* The number of a label in a list sorted by bytes, or -1. */
int32_t qkv_label_find(char *const *text, const int64_t *size, int64_t count, const char *label, int64_t label_size);

typedef struct qkv_encoded {
    qkv_ragged rows;              /* ids after the cut; targets, -1: a label that is not in the list */
    int32_t *unseen;              /* [count] of rows with any number of labels: how many are not in the list; else NULL */
    int64_t *full;                /* [count] tokens before the cut */
    int64_t cut_rows, cut_tokens; /* rows that were cut, tokens that were dropped */
} qkv_encoded;

/* Each text as the input of a model of this config, of which only pooling, max_length, pair, multi_label, the segments and
 * the global tokens are read. Targets
 * stay NULL. */
qkv_status qkv_encode_texts(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, int64_t count,
                            const char *const *texts, const int64_t *lengths, qkv_encoded *encoded) QKV_MUST_USE;
/* Rows first .. first + count - 1 of a table, with targets (multi_label: with labels). QKV_STOPPED when the stop callback
 * asks for it. */
qkv_status qkv_encode_table(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, const qkv_table *table,
                            int64_t first, int64_t count, char *const *labels, const int64_t *label_sizes, int64_t label_count,
                            qkv_encoded *encoded) QKV_MUST_USE;
/* Adds what the bag says of the texts to their encoded rows, unless it is NULL: of the whole texts, whatever the encoder reads of
 * them. */
qkv_status qkv_encoded_score_texts(const qkv_bag *bag, int64_t count, const char *const *texts, const int64_t *lengths,
                                   qkv_encoded *encoded) QKV_MUST_USE;
/* Of rows first ... of the table. */
qkv_status qkv_encoded_score_table(const qkv_bag *bag, const qkv_table *table, int64_t first, qkv_encoded *encoded) QKV_MUST_USE;
void qkv_encoded_free(qkv_ctx *ctx, qkv_encoded *encoded);
int64_t qkv_encoded_bytes(const qkv_encoded *encoded);

/* shortest, median (the lower of two), longest of n numbers >= 0; zeros for n = 0. */
qkv_status qkv_spread(qkv_ctx *ctx, const int64_t *numbers, int64_t n, int64_t *shortest, int64_t *median,
                      int64_t *longest) QKV_MUST_USE;

#endif
