/* McNemar's test (1947) in its exact form: of the rows that just one of two systems gets right, those of either are equally likely
 * if the systems are equally good, so their number has a binomial distribution with probability 1/2. (Dietterich 1998 recommends
 * the test for two classifiers on one test set.) */
#ifndef QKV_TRAIN_MCNEMAR_H
#define QKV_TRAIN_MCNEMAR_H

#include <stdint.h>

/* Two-sided: twice the probability of min(only_a, only_b) or fewer among only_a + only_b, at most 1; 1 where both are 0. */
double qkv_mcnemar(int64_t only_a, int64_t only_b);

#endif
