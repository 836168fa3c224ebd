/* The bag of words beside the network that is trained: learned before it, weighed against it on the dev rows, and in the end one
 * sum with it. */
#ifndef QKV_TASKS_CLASSIFY_BAG_H
#define QKV_TASKS_CLASSIFY_BAG_H

#include "tasks/classify_data.h"
#include "tasks/scorer.h"
#include "train/blend.h"

typedef struct qkv_beside {
    qkv_bag bag;           /* classes 0: there is none */
    qkv_blend_rows rows;   /* of the dev set; targets and the bag's scores are those of its encoded rows */
    real *net;             /* [rows][classes] what the network said last */
    real *probabilities;   /* of a row */
    qkv_blend blend;
} qkv_beside;

/* Rows with their texts. */
typedef struct qkv_bag_data {
    const qkv_table *table;
    qkv_encoded *encoded; /* of all rows of the table */
} qkv_bag_data;

/* Learns the bag from the training rows, unless options->ngrams is 0 or there is one class to choose from, and adds its scores to the
 * encoded dev rows, which must stay where they are. Where these were held out of the training file, the bag then learns once more from
 * all rows: it is quick, and a tenth more is worth having. class_weight may be NULL. */
qkv_status qkv_beside_make(qkv_ctx *ctx, const qkv_classify_options *options, int64_t classes, const real *class_weight,
                           const qkv_bag_data *train, const qkv_bag_data *dev, bool held_out, qkv_beside *beside) QKV_MUST_USE;
void qkv_beside_free(qkv_ctx *ctx, qkv_beside *beside);
static inline bool qkv_beside_is(const qkv_beside *beside) { return beside->bag.classes > 0; }
/* What it holds. */
int64_t qkv_beside_bytes(const qkv_beside *beside);

/* What it would hold of these rows at most: about, as if words had 4 bytes and no two were alike. */
int64_t qkv_beside_most(const qkv_classify_options *options, int64_t classes, const qkv_table *train, const qkv_table *dev);

/* A qkv_scored for logits; user: the qkv_beside. */
void qkv_beside_keep(void *user, int64_t row, const real *logits, int64_t classes, double loss);
/* Weighs the two (`alone`: the bag, which is all there is before the network has learned anything) and hands over the probabilities of
 * all dev rows. */
void qkv_beside_run(qkv_beside *beside, bool alone, qkv_scored *scored, void *user);

/* Writes the weights that the two have into both, and moves the bag to the model. */
void qkv_beside_settle(qkv_beside *beside, const qkv_classifier *net, real *weights, qkv_bag *bag);

#endif
