#include "ops/attention.h"

#include <math.h>

#include "base/par.h"
#include "kernels/cost.h"
#include "ops/split.h"

/* Query rows of a forward unit. A unit packs the keys it sees anew, which costs as much as about 16 query rows. */
enum { ROW_BLOCK = 480 };
/* Multiply-adds worth a chunk of their own. */
static const double CHUNK_WORK = 2e6;

/* The unit of work a chunk starts with; it ends where the next chunk starts. Order: sequence, row block, head. */
typedef struct unit {
    int64_t sequence, block, head;
} unit;

typedef struct job {
    const qkv_kernels *kernels;
    const qkv_attention_shape *s;
    qkv_heads q, k, v, o, d_o, dq, dk, dv;
    real *lse;
    int64_t q_rows;
    const unit *starts; /* [chunks + 1] */
    real *scratch;
    int64_t scratch_size; /* reals a thread */
} job;

static int64_t q_from(const qkv_attention_shape *s, int64_t i) { return s->q_offset ? s->q_offset[i] : i; }
static int64_t n_queries(const qkv_attention_shape *s, int64_t i) { return q_from(s, i + 1) - q_from(s, i); }
static int64_t n_keys(const qkv_attention_shape *s, int64_t i) { return s->k_offset[i + 1] - s->k_offset[i]; }

static qkv_status check(const qkv_exec *x, const qkv_attention_shape *s) {
    if (s->sequences < 0 || s->dim < 1 || s->value_dim < 1 || s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads != 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention over %lld sequences with heads=%lld kv_heads=%lld dim=%lld value_dim=%lld",
                        (long long)s->sequences, (long long)s->heads, (long long)s->kv_heads, (long long)s->dim, (long long)s->value_dim);
    if (s->sequences > 0 && (!s->k_offset || q_from(s, 0) != 0 || s->k_offset[0] != 0))
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention offsets do not start at 0");
    for (int64_t i = 0; i < s->sequences; i++)
        if (n_queries(s, i) < 0 || n_keys(s, i) < 0)
            return qkv_fail(x->ctx, QKV_INTERNAL, "attention offsets descend at sequence %lld", (long long)i);
    if (!x->plan && s->dropout.p > 0 && !s->dropout.row_key && q_from(s, s->sequences) > 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention dropout of %g without row keys", (double)s->dropout.p);
    return QKV_OK;
}

/* ---- cutting into chunks ---- */

/* Walks all units and closes a chunk when it has gathered enough work. Returns their number; fills starts if not NULL. */
static int64_t cut(const qkv_attention_shape *s, int64_t heads, int64_t row_block, double work_per_pair, unit *starts) {
    int64_t chunks = 0;
    double gathered = 0;
    for (int64_t i = 0; i < s->sequences; i++) {
        int64_t n_q = n_queries(s, i), n_k = n_keys(s, i), block = row_block > 0 ? row_block : n_q;
        int64_t blocks = n_q > 0 ? qkv_chunks(n_q, block) : 1;
        double pairs = (double)qkv_span_pairs(n_q, n_k, s->left, s->right) / (double)blocks;
        double unit_work = pairs * work_per_pair + 8.0 * (double)(n_k + n_q) * (double)(s->dim + s->value_dim);
        for (int64_t b = 0; b < blocks; b++)
            for (int64_t h = 0; h < heads; h++) {
                if (gathered == 0) {
                    if (starts) starts[chunks] = (unit){i, b, h};
                    chunks++;
                }
                gathered += unit_work + 1;
                if (gathered >= CHUNK_WORK) gathered = 0;
            }
    }
    if (starts) starts[chunks] = (unit){s->sequences, 0, 0};
    return chunks;
}

static bool unit_before(unit a, unit b) {
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    if (a.block != b.block) return a.block < b.block;
    return a.head < b.head;
}

static unit unit_next(const qkv_attention_shape *s, unit u, int64_t heads, int64_t row_block) {
    int64_t n_q = n_queries(s, u.sequence);
    int64_t blocks = row_block > 0 && n_q > 0 ? qkv_chunks(n_q, row_block) : 1;
    if (++u.head < heads) return u;
    u.head = 0;
    if (++u.block < blocks) return u;
    return (unit){u.sequence + 1, 0, 0};
}

/* Chunk table and scratch for every thread, from the top of the arena. */
static qkv_status prepare(qkv_exec *x, job *j, int64_t heads, int64_t row_block, double work_per_pair, bool backward, int64_t *chunks) {
    const qkv_attention_shape *s = j->s;
    unit *starts;
    qkv_mat scratch;
    *chunks = cut(s, heads, row_block, work_per_pair, NULL);
    QKV_TRY(qkv_temp_array(x, *chunks + 1, sizeof(unit), &starts));
    if (starts) cut(s, heads, row_block, work_per_pair, starts);
    int64_t most = 0;
    for (int64_t i = 0; i < s->sequences; i++) {
        int64_t (*need)(int64_t, int64_t, int64_t, int64_t) = backward ? j->kernels->attend_backward_scratch : j->kernels->attend_forward_scratch;
        int64_t size = need(n_queries(s, i), n_keys(s, i), s->dim, s->value_dim);
        if (size > most) most = size;
    }
    j->scratch_size = (most + 15) / 16 * 16;
    QKV_TRY(qkv_temp(x, *chunks > 1 ? x->ctx->threads : 1, j->scratch_size, &scratch));
    j->starts = starts;
    j->scratch = scratch.p;
    return QKV_OK;
}

/* ---- one head of one sequence ---- */

static real *at(qkv_heads m, int64_t row, int64_t head) { return m.p ? m.p + row * m.row + head * m.head : NULL; }

static qkv_attend describe(const job *j, int64_t i, int64_t h) {
    const qkv_attention_shape *s = j->s;
    int64_t q0 = q_from(s, i), k0 = s->k_offset[i], kv = h / (s->heads / s->kv_heads);
    qkv_attend a = {.n_q = n_queries(s, i), .n_k = n_keys(s, i), .dim = s->dim, .value_dim = s->value_dim, .scale = s->scale,
                    .left = s->left, .right = s->right, .softcap = s->softcap, .alibi = s->alibi ? (real)s->alibi[h] : 0};
    a.row1 = a.n_q;
    a.q = at(j->q, q0, h);
    a.q_row = j->q.row;
    a.k = at(j->k, k0, kv);
    a.k_row = j->k.row;
    a.v = at(j->v, k0, kv);
    a.v_row = j->v.row;
    a.o = at(j->o, q0, h);
    a.o_row = j->o.row;
    a.lse = j->lse ? j->lse + h * j->q_rows + q0 : NULL;
    a.dropout = s->dropout;
    a.dropout.key = qkv_key2(s->dropout.key, (uint64_t)h);
    if (a.dropout.row_key) a.dropout.row_key += q0;
    return a;
}

static void fill(real *p, int64_t rows, int64_t cols, int64_t row, real value) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) p[r * row + c] = value;
}

static void forward_unit(const job *j, unit u, real *scratch) {
    qkv_attend a = describe(j, u.sequence, u.head);
    qkv_range rows = qkv_chunk_range(a.n_q, ROW_BLOCK, u.block);
    if (rows.from >= rows.to) return;
    a.row0 = rows.from;
    a.row1 = rows.to;
    if (a.n_k > 0) {
        j->kernels->attend_forward(&a, scratch);
        return;
    }
    fill(a.o + a.row0 * a.o_row, a.row1 - a.row0, a.value_dim, a.o_row, 0);
    if (a.lse) fill(a.lse + a.row0, 1, a.row1 - a.row0, 0, (real)-INFINITY);
}

static void forward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    for (unit u = j->starts[chunk]; unit_before(u, j->starts[chunk + 1]); u = unit_next(j->s, u, j->s->heads, ROW_BLOCK))
        forward_unit(j, u, j->scratch + thread * j->scratch_size);
}

/* All query heads of one key/value head, ascending, so that dk and dv are sums in a fixed order. */
static void backward_unit(const job *j, unit u, real *scratch) {
    const qkv_attention_shape *s = j->s;
    int64_t group = s->heads / s->kv_heads, i = u.sequence, q0 = q_from(s, i), k0 = s->k_offset[i];
    for (int64_t h = u.head * group; h < (u.head + 1) * group; h++) {
        qkv_attend a = describe(j, i, h);
        a.d_o = at(j->d_o, q0, h);
        a.do_row = j->d_o.row;
        a.dq = at(j->dq, q0, h);
        a.dq_row = j->dq.row;
        a.dk = at(j->dk, k0, u.head);
        a.dk_row = j->dk.row;
        a.dv = at(j->dv, k0, u.head);
        a.dv_row = j->dv.row;
        a.add_kv = h > u.head * group;
        if (a.n_q > 0 && a.n_k > 0) {
            j->kernels->attend_backward(&a, scratch);
            continue;
        }
        fill(a.dq, a.n_q, a.dim, a.dq_row, 0);
        if (!a.add_kv) {
            fill(a.dk, a.n_k, a.dim, a.dk_row, 0);
            fill(a.dv, a.n_k, a.value_dim, a.dv_row, 0);
        }
    }
}

static void backward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    for (unit u = j->starts[chunk]; unit_before(u, j->starts[chunk + 1]); u = unit_next(j->s, u, j->s->kv_heads, 0))
        backward_unit(j, u, j->scratch + thread * j->scratch_size);
}

/* ---- the op ---- */

/* Every operand once: q, k, v, o, lse; backward also dout, dq, dk, dv. */
static double operand_bytes(const qkv_attention_shape *s, bool backward) {
    double q = (double)(s->sequences > 0 ? q_from(s, s->sequences) : 0), k = (double)(s->sequences > 0 ? s->k_offset[s->sequences] : 0);
    double queries = q * (double)s->heads, keys = k * (double)s->kv_heads;
    double once = queries * (double)(s->dim + s->value_dim + 1) + keys * (double)(s->dim + s->value_dim);
    double back = backward ? queries * (double)(s->dim + s->value_dim) + keys * (double)(s->dim + s->value_dim) : 0;
    return (once + back) * sizeof(real);
}

static void book(qkv_exec *x, const qkv_attention_shape *s, bool backward) {
    double flops = 0;
    for (int64_t i = 0; i < s->sequences; i++) {
        qkv_cost c = (backward ? qkv_cost_attend_backward : qkv_cost_attend_forward)(n_queries(s, i), n_keys(s, i), s->left, s->right,
                                                                                     s->dim, s->value_dim);
        flops += c.flops * (double)s->heads;
    }
    qkv_exec_book(x, QKV_CLASS_ATTENTION, flops, operand_bytes(s, backward));
}

qkv_status qkv_attend_forward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o, real *lse) {
    QKV_TRY(check(x, s));
    size_t mark = qkv_exec_mark(x);
    job j = {.kernels = x->ctx->kernels, .s = s, .q = q, .k = k, .v = v, .o = o, .lse = lse,
             .q_rows = s->sequences > 0 ? q_from(s, s->sequences) : 0};
    int64_t chunks;
    QKV_TRY(prepare(x, &j, s->heads, ROW_BLOCK, (double)(s->dim + s->value_dim), false, &chunks));
    book(x, s, false);
    if (!x->plan) qkv_par(x->ctx, chunks, forward_chunk, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attend_backward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o,
                               const real *lse, qkv_heads d_o, qkv_heads dq, qkv_heads dk, qkv_heads dv) {
    QKV_TRY(check(x, s));
    size_t mark = qkv_exec_mark(x);
    job j = {.kernels = x->ctx->kernels, .s = s, .q = q, .k = k, .v = v, .o = o, .d_o = d_o, .dq = dq, .dk = dk, .dv = dv,
             .lse = (real *)lse, .q_rows = s->sequences > 0 ? q_from(s, s->sequences) : 0};
    int64_t chunks, group = s->heads / s->kv_heads;
    QKV_TRY(prepare(x, &j, s->kv_heads, 0, 2.5 * (double)(group * (s->dim + s->value_dim)), true, &chunks));
    book(x, s, true);
    if (!x->plan) qkv_par(x->ctx, chunks, backward_chunk, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attend_weights(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, int64_t sequence, int64_t head,
                              real *weights) {
    QKV_TRY(check(x, s));
    if (sequence < 0 || sequence >= s->sequences || head < 0 || head >= s->heads)
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "sequence %lld, head %lld: there are %lld sequences and %lld heads", (long long)sequence,
                        (long long)head, (long long)s->sequences, (long long)s->heads);
    int64_t n_q = n_queries(s, sequence), n_k = n_keys(s, sequence);
    double pairs = (double)qkv_span_pairs(n_q, n_k, s->left, s->right);
    qkv_exec_book(x, QKV_CLASS_ATTENTION, 2 * pairs * (double)s->dim, ((double)(n_q + n_k) * (double)s->dim + (double)n_q * (double)n_k) * sizeof(real));
    if (x->plan || n_q == 0 || n_k == 0) return QKV_OK;
    job j = {.kernels = x->ctx->kernels, .s = s, .q = q, .k = k, .q_rows = q_from(s, s->sequences)};
    qkv_attend a = describe(&j, sequence, head);
    a.dropout = (qkv_dropout){0};
    j.kernels->attend_weights(&a, weights);
    return QKV_OK;
}
