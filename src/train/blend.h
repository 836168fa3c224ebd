/* How much a network and a bag of words each have to say.
 *
 * Class c of row i has the score  net * network[i][c] + bag * words[i][c].  The best two factors are those, not below 0, that minimise over
 * dev rows the loss of a softmax (a sigmoid a class where a row has any number), plus 2 (net - 1/2)^2 + 2 (bag - 1/2)^2, which decides
 * where rows are few. The problem is convex in the two. It is a logarithmic opinion pool (Genest and Zidek 1986) with
 * weights from held-out rows (as in Wolpert's stacked generalization, 1992), and, since their sum is free, a temperature too.
 *
 * The network then gets the least weight that is not worse than the best by more than one standard error of the rows' differences in loss
 * (the rule of Breiman, Friedman, Olshen and Stone 1984, with pairs): in sixteenths of its best factor, the bag's chosen anew for each,
 * and both scaled to the least loss in the end. The bag is the simpler of the two, it will have seen the dev rows in the end, and a few
 * hundred rows cannot tell a weight from one somewhat less. */
#ifndef QKV_TRAIN_BLEND_H
#define QKV_TRAIN_BLEND_H

#include <stdint.h>

#include "base/real.h"

typedef struct qkv_blend {
    double net, bag;
} qkv_blend;

/* Without rows that tell anything. */
static inline qkv_blend qkv_blend_even(void) { return (qkv_blend){0.5, 0.5}; }

typedef struct qkv_blend_rows {
    int64_t rows, classes;
    const real *net, *bag;   /* [rows][classes] each */
    const int32_t *target;   /* [rows]; -1: of no class, the row tells nothing. Or NULL and: */
    const int64_t *label_at; /* [rows + 1]: the classes of row i are labels[label_at[i]] .. labels[label_at[i+1]-1] */
    const int32_t *labels;
} qkv_blend_rows;

qkv_blend qkv_blend_best(const qkv_blend_rows *rows); /* the minimum */
qkv_blend qkv_blend_fit(const qkv_blend_rows *rows);  /* with the least weight for the network */
/* The same with nothing said by the network. */
qkv_blend qkv_blend_fit_bag(const qkv_blend_rows *rows);

/* probabilities[classes] of a row; returns its loss, 0 where the target is -1. */
double qkv_blend_row(const qkv_blend_rows *rows, qkv_blend blend, int64_t row, real *probabilities);

#endif
