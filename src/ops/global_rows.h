/* Rows of the global queries of a batch (ops/attention_pattern.h), gathered, and added back. */
#ifndef QKV_OPS_GLOBAL_ROWS_H
#define QKV_OPS_GLOBAL_ROWS_H

#include "ops/attention.h"

/* out [qkv_attention_globals(s), cols]: those rows of in [queries, cols], sequence after sequence. */
qkv_status qkv_global_rows_forward(qkv_exec *x, const qkv_attention_shape *s, qkv_mat in, qkv_mat out) QKV_MUST_USE;
/* Adds dout to those rows of din. */
qkv_status qkv_global_rows_backward(qkv_exec *x, const qkv_attention_shape *s, qkv_mat dout, qkv_mat din) QKV_MUST_USE;

#endif
