#include "ops/global_rows.h"

#include <string.h>

/* They are few: no chunks. */
static qkv_status walk(qkv_exec *x, const qkv_attention_shape *s, qkv_mat rows, qkv_mat globals, bool add) {
    const int64_t queries = s->sequences > 0 ? s->q_offset[s->sequences] : 0, count = qkv_attention_globals(s);
    QKV_TRY(qkv_exec_shape(x, "rows of global tokens", globals, count, rows.cols));
    QKV_TRY(qkv_exec_shape(x, "rows of tokens", rows, queries, rows.cols));
    const double elements = (double)count * (double)rows.cols;
    qkv_exec_other(x, QKV_WORK_PROJECTION, add ? elements : 0, (add ? 3 : 2) * elements * sizeof(real));
    if (x->plan) return QKV_OK;
    for (int64_t i = 0, g = 0; i < s->sequences; i++) {
        const qkv_seen seen = qkv_attention_seen(s, i);
        for (int64_t n = qkv_globals_before(&seen); n < qkv_globals(&seen); n++, g++) {
            real *row = rows.p + (s->q_offset[i] + qkv_global_at(&seen, n) + seen.n_q - seen.n_k) * rows.ld, *global = globals.p + g * globals.ld;
            if (!add) memcpy(global, row, (size_t)rows.cols * sizeof *row);
            for (int64_t c = 0; add && c < rows.cols; c++) row[c] += global[c];
        }
    }
    return QKV_OK;
}

qkv_status qkv_global_rows_forward(qkv_exec *x, const qkv_attention_shape *s, qkv_mat in, qkv_mat out) { return walk(x, s, in, out, false); }

qkv_status qkv_global_rows_backward(qkv_exec *x, const qkv_attention_shape *s, qkv_mat dout, qkv_mat din) { return walk(x, s, din, dout, true); }
