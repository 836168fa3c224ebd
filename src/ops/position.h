/* Positions as tables: rows by position, angles by position, biases by distance. What each encoding is, to the last formula, is in
 * docs/positions.md. */
#ifndef QKV_OPS_POSITION_H
#define QKV_OPS_POSITION_H

#include "ops/exec.h"
#include "qkv/model.h"

enum { QKV_SHAW_REACH = QKV_ATTEND_REACH }; /* largest of vectors by distance */

/* ---- rows of a table by position ---- */

/* Row of the table for every row of the batch, in scratch: *numbers [rows], NULL in a plan. Beyond `table` rows: BEYOND_CLAMP and
 * _TILE; otherwise a longer sequence is QKV_BAD_ARGUMENT that says so. */
qkv_status qkv_positions(qkv_exec *x, const qkv_batch *batch, int64_t table, qkv_position_beyond beyond, int32_t **numbers) QKV_MUST_USE;

/* Sinusoidal positions (Vaswani et al. 2017, section 3.5), interleaved: column 2i is sin(p w), column 2i+1 cos(p w), with
 * w = 10000^(-2i/width), for p = 0 .. table.rows-1. Split: the same columns, first the even ones, then the odd ones. Any width; an odd
 * one has one sine more. Computed in double. */
qkv_status qkv_sinusoidal(qkv_exec *x, qkv_position_layout layout, qkv_mat table) QKV_MUST_USE;

/* out[r] += the table at its place in the sequence; a sequence longer than the table has the whole table spread over it, linearly
 * between its rows. */
qkv_status qkv_between_forward(qkv_exec *x, const qkv_batch *batch, qkv_mat table, qkv_mat out) QKV_MUST_USE;
/* Adds to dtable, rows ascending. */
qkv_status qkv_between_backward(qkv_exec *x, const qkv_batch *batch, qkv_mat dtable, qkv_mat dout) QKV_MUST_USE;

/* ---- angles ---- */

typedef struct qkv_rope {
    int64_t dim; /* columns that are turned, even */
    double base;
    qkv_rope_stretch stretch;
    double factor; /* >= 1 */
    double length; /* that the angles without a stretch are made for (yarn) */
} qkv_rope;

/* Cosines and sines [positions][dim/2]. Computed in double. */
qkv_status qkv_rope_angles(qkv_exec *x, const qkv_rope *r, qkv_mat cosine, qkv_mat sine) QKV_MUST_USE;
/* What scores are multiplied by beside their scale: 1 but for yarn. */
double qkv_rope_sharpen(const qkv_rope *r);

/* ---- biases ---- */

/* slopes[heads] of ALiBi. */
void qkv_alibi_slopes(int64_t heads, float *slopes);

typedef struct qkv_buckets {
    int64_t count, reach; /* from distance `reach` on all share the last one */
    bool causal;          /* nothing is to the right: all buckets are for what is to the left */
} qkv_buckets;

/* Bucket of a distance key - query (Raffel et al. 2020, section 2.1). */
int64_t qkv_bucket(const qkv_buckets *b, int64_t distance);

/* bias [heads][2 reach + 1] of a table [buckets][heads], as qkv_attention_shape takes it. */
qkv_status qkv_bucket_bias(qkv_exec *x, const qkv_buckets *b, qkv_mat table, qkv_mat bias) QKV_MUST_USE;
/* Adds to dtable, distances ascending. */
qkv_status qkv_bucket_bias_backward(qkv_exec *x, const qkv_buckets *b, qkv_mat dbias, qkv_mat dtable) QKV_MUST_USE;

#endif
