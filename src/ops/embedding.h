/* Rows of a table by number: token embeddings, position tables. */
#ifndef QKV_OPS_EMBEDDING_H
#define QKV_OPS_EMBEDDING_H

#include "ops/exec.h"

/* out[r] = scale * table[ids[r]]. An id outside the table is QKV_BAD_ARGUMENT with the row. ids NULL in a plan. */
qkv_status qkv_embedding_forward(qkv_exec *x, const char *what, qkv_mat table, const int32_t *ids, double scale, qkv_mat out) QKV_MUST_USE;

/* dtable[ids[r]] += scale * dout[r], rows ascending. Shared out by the numbers of the table's rows, so no two chunks meet. */
qkv_status qkv_embedding_backward(qkv_exec *x, qkv_mat dtable, const int32_t *ids, double scale, qkv_mat dout) QKV_MUST_USE;

/* The table of a parameter, and its gradient. */
qkv_mat qkv_embedding_table(const qkv_exec *x, int64_t param);
qkv_mat qkv_embedding_grad(const qkv_exec *x, int64_t param);

/* Position of every row in its sequence, in scratch: *positions [rows], NULL in a plan. A sequence of more than `limit`
 * rows is QKV_BAD_ARGUMENT that says so. */
qkv_status qkv_positions(qkv_exec *x, const qkv_batch *batch, int64_t limit, int32_t **positions) QKV_MUST_USE;

/* Sinusoidal positions (Vaswani et al. 2017, section 3.5), interleaved: column 2i is sin(p w), column 2i+1 cos(p w), with
 * w = 10000^(-2i/width), for p = 0 .. table.rows-1. Any width; an odd one ends in a sine. Computed in double. */
qkv_status qkv_sinusoidal(qkv_exec *x, qkv_mat table) QKV_MUST_USE;

#endif
