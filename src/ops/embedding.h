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

#endif
