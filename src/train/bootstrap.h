/* How much the scores of a test would vary with the rows: the bootstrap over rows.
 *
 * A resample is as many rows as there are, drawn from them with replacement; its scores are those of train/metrics.h, as if the
 * test had been of these rows. (So a label that does not occur in a resample is not in its macro-F1.)
 *   interval   by percentiles, 95 %: the k-th smallest and the k-th largest of the resampled scores, k = floor(0.025 (R + 1)),
 *              no interpolation (Efron & Tibshirani 1993, chapter 13; Davison & Hinkley 1997, chapter 5)
 *   p value    of a difference, two-sided: 2 (1 + min(#{d <= 0}, #{d >= 0})) / (R + 1), at most 1, d being the resampled
 *              differences of two systems on the same rows (the interval turned round; the 1 as in Davison & Hinkley 1997,
 *              chapter 4). It is at most 0.05 just where the interval lies on one side of 0.
 * Draw i of resample r is row qkv_below(qkv_key3(seed, QKV_BOOTSTRAP_SITE, r) + i * 0x9E3779B97F4A7C15, rows): splitmix64 seeded by
 * a key, so the resamples are the same for any number of threads, and the same rows are drawn for every system. */
#ifndef QKV_TRAIN_BOOTSTRAP_H
#define QKV_TRAIN_BOOTSTRAP_H

#include "qkv/classify.h"
#include "train/outcomes.h"

enum { QKV_BOOTSTRAP_SITE = 0x626F6F74, QKV_LEAST_RESAMPLES = 100, QKV_MOST_RESAMPLES = 1000000 };

/* The scores that are resampled. */
enum { QKV_BOOT_ACCURACY, QKV_BOOT_MACRO_F1, QKV_BOOT_MICRO_F1, QKV_BOOT_WEIGHTED_F1, QKV_BOOT_SCORES };

/* scores[score][resamples], in the order of the resamples. o->rows >= 1. QKV_STOPPED when the stop callback asks for it. */
qkv_status qkv_bootstrap(qkv_ctx *ctx, const qkv_outcomes *o, int64_t resamples, uint64_t seed, double *scores) QKV_MUST_USE;

/* Sorts values[n], n >= QKV_LEAST_RESAMPLES. */
qkv_interval qkv_bootstrap_interval(double *values, int64_t n);
double qkv_bootstrap_p(const double *differences, int64_t n);

#endif
