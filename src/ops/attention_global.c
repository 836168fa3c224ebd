/* Global queries, gathered. They see everything. The window makes something else of them, which is replaced: forward by a pass of
 * their own. Backward the window takes them along from key tile to key tile, so that keys and their gradients are read and written
 * once; where its keys are others, or not all keys, that is a pass of its own, too. */
#include "ops/attention_job.h"

static void zero_rows(real *to, int64_t rows, int64_t row, int64_t width) {
    for (int64_t r = 0; r < rows; r++) memset(to + r * row, 0, (size_t)width * sizeof *to);
}

typedef struct globals {
    qkv_seen seen;
    int64_t first, rows; /* the first global that is a query, and how many are */
    int64_t q0, k0;      /* rows in the matrices: of a query at position 0, of key 0 */
} globals;

static globals globals_of(const job *j, unit u, attend_gathered *g) {
    const qkv_attention_shape *s = j->s;
    globals f = {.seen = qkv_attention_seen(s, u.sequence), .k0 = s->k_offset[u.sequence]};
    f.first = qkv_globals_before(&f.seen);
    f.rows = qkv_globals(&f.seen) - f.first;
    f.q0 = attend_q_from(s, u.sequence) + f.seen.n_q - f.seen.n_k;
    if (g->sequence == u.sequence) return f; /* as for the head before */
    g->sequence = u.sequence;
    for (int64_t r = 0; r < f.rows; r++) {
        const int64_t at = qkv_global_at(&f.seen, f.first + r);
        g->hole[2 * r] = s->right == 0 ? (int32_t)(at + 1) : 0;
        g->hole[2 * r + 1] = s->right == 0 ? (int32_t)f.seen.n_k : 0;
        if (g->q_at) g->q_at[r] = (int32_t)at;
        if (g->row_key) g->row_key[r] = s->dropout.row_key[f.q0 + at];
    }
    for (int64_t i = 0; g->q_at && i < f.seen.n_k; i++) g->list[i] = (int32_t)i;
    return f;
}

/* Where the r-th of the globals has its row among all queries. */
static int64_t row_of(const globals *f, int64_t r) {
    return f->q0 + qkv_global_at(&f->seen, f->first + r);
}

/* Rows of the globals, gathered or spread. */
static void collect(const globals *f, qkv_heads m, int64_t h, int64_t width, real *to) {
    for (int64_t r = 0; r < f->rows; r++) attend_copy_row(to + r * width, attend_at(m, row_of(f, r), h), width);
}
static void spread(const globals *f, const real *from, int64_t width, qkv_heads m, int64_t h) {
    for (int64_t r = 0; r < f->rows; r++) attend_copy_row(attend_at(m, row_of(f, r), h), from + r * width, width);
}

static qkv_attend describe_globals(const job *j, unit u, const globals *f, const attend_gathered *g, int64_t h) {
    const qkv_attention_shape *s = j->s;
    const qkv_apart *apart = s->apart;
    const qkv_heads k = apart ? apart->k : j->k, v = apart ? apart->v : j->v;
    const int64_t kv = h / (s->heads / s->kv_heads);
    qkv_attend a = qkv_attend_gathered(j, h);
    a.n_q = a.row1 = f->rows;
    a.n_k = f->seen.n_k;
    a.q = apart ? attend_at(apart->q, j->globals_at[u.sequence], h) : g->q;
    a.q_row = apart ? apart->q.row : s->dim;
    a.k = attend_at(k, f->k0, kv);
    a.k_row = k.row;
    a.v = attend_at(v, f->k0, kv);
    a.v_row = v.row;
    a.o = g->o;
    a.o_row = s->value_dim;
    a.lse = g->lse;
    a.q_at = g->q_at;
    a.k_at = g->q_at ? g->list : NULL;
    a.hole = s->right == 0 ? g->hole : NULL;
    a.dropout.key = qkv_key2(s->dropout.key, (uint64_t)h);
    a.dropout.row_key = g->row_key;
    return a;
}

static qkv_attend describe_backward(const job *j, unit u, const globals *f, const attend_gathered *g, int64_t h) {
    const qkv_attention_shape *s = j->s;
    const qkv_apart *apart = s->apart;
    qkv_attend a = describe_globals(j, u, f, g, h);
    a.d_o = g->d_o;
    a.do_row = s->value_dim;
    a.dq = apart ? attend_at(apart->dq, j->globals_at[u.sequence], h) : g->dq;
    a.dq_row = apart ? apart->dq.row : s->dim;
    a.shaw_weights = g->shaw_weights;
    a.shaw_slopes = g->shaw_slopes;
    a.sums_row = qkv_attend_shaw_count(j);
    return a;
}

static void collect_queries(const job *j, const globals *f, const attend_gathered *g, int64_t h) {
    if (!j->s->apart) collect(f, j->q, h, j->s->dim, g->q);
}

static void collect_backward(const job *j, const globals *f, const attend_gathered *g, int64_t h) {
    const int64_t width = j->s->value_dim;
    const real *lse = j->global_lse + h * j->q_rows;
    collect_queries(j, f, g, h);
    collect(f, j->o, h, width, g->o);
    collect(f, j->d_o, h, width, g->d_o);
    for (int64_t r = 0; r < f->rows; r++) g->lse[r] = lse[row_of(f, r)];
}

/* Backward, sums by distance: instead of those that the window made of their rows; slopes of projections of their own go with these. */
static void spread_sums(const job *j, unit u, const globals *f, const attend_gathered *g, int64_t h) {
    const int64_t count = qkv_attend_shaw_count(j);
    const qkv_heads weights = {j->shaw_weights, count, j->q_rows * count}, slopes = {j->shaw_slopes, count, j->q_rows * count},
                    own = {j->shaw_apart, count, j->global_rows * count};
    if (count == 0) return;
    spread(f, g->shaw_weights, count, weights, h);
    if (!j->s->apart) {
        spread(f, g->shaw_slopes, count, slopes, h);
        return;
    }
    for (int64_t r = 0; r < f->rows; r++) {
        zero_rows(attend_at(slopes, row_of(f, r), h), 1, count, count);
        attend_copy_row(attend_at(own, j->globals_at[u.sequence] + r, h), g->shaw_slopes + r * count, count);
    }
}

/* ---- with the window ---- */

bool qkv_attend_takes_above(const qkv_attention_shape *s) {
    return qkv_attend_has_global(s) && !s->apart && qkv_dilation(&s->pattern) == 1;
}

int64_t qkv_attend_above_shared(const job *j, int64_t sequence) {
    if (!j->above) return 0;
    const qkv_seen seen = qkv_attention_seen(j->s, sequence);
    const int64_t rows = qkv_globals(&seen) - qkv_globals_before(&seen);
    return rows > 0 ? j->kernels->attend_shared_scratch(rows, j->s->dim, j->s->value_dim) + qkv_attend_shaw_work(j, rows) : 0;
}

const qkv_attend *qkv_attend_above(const job *j, unit u, int64_t h, int thread, real *shared, qkv_attend *out) {
    if (!j->above) return NULL;
    attend_gathered *g = &j->globals[thread];
    const globals f = globals_of(j, u, g);
    if (f.rows == 0) return NULL;
    *out = describe_backward(j, u, &f, g, h);
    if (u.part == 0) collect_backward(j, &f, g, h); /* the first key tile alone reads these */
    out->shaw_work = shared;
    out->shared = shared + qkv_attend_shaw_work(j, f.rows);
    return out;
}

void qkv_attend_above_done(const job *j, unit u, int64_t h, int thread, const qkv_attend *above) {
    const globals f = globals_of(j, u, &j->globals[thread]);
    spread(&f, above->dq, j->s->dim, j->dq, h);
    spread_sums(j, u, &f, &j->globals[thread], h);
}

/* ---- a pass of their own ---- */

static void global_forward(const job *j, unit u, attend_gathered *g, real *scratch) {
    const globals f = globals_of(j, u, g);
    if (f.rows == 0) return;
    qkv_attend a = describe_globals(j, u, &f, g, u.head);
    a.shaw_work = scratch;
    collect_queries(j, &f, g, u.head);
    j->kernels->attend_forward(&a, scratch + j->shaw_work);
    spread(&f, g->o, j->s->value_dim, j->o, u.head);
    real *lse = j->lse ? j->lse + u.head * j->q_rows : NULL;
    for (int64_t r = 0; lse && r < f.rows; r++) lse[row_of(&f, r)] = g->lse[r];
}

/* dk and dv: of projections of their own written, else added to those of the window. */
static void global_backward(const job *j, unit u, attend_gathered *g, real *scratch) {
    const qkv_attention_shape *s = j->s;
    const qkv_apart *apart = s->apart;
    const globals f = globals_of(j, u, g);
    const qkv_range heads = attend_heads_of(j, u);
    const qkv_heads dk = apart ? apart->dk : j->dk, dv = apart ? apart->dv : j->dv;
    real *to_k = attend_at(dk, f.k0, u.head), *to_v = attend_at(dv, f.k0, u.head);
    if (f.rows == 0 && apart) {
        zero_rows(to_k, f.seen.n_k, dk.row, s->dim);
        zero_rows(to_v, f.seen.n_k, dv.row, s->value_dim);
    }
    for (int64_t h = heads.from; h < heads.to; h++) {
        real *part = qkv_attend_bias_part(j, u, h);
        if (f.rows == 0) continue;
        qkv_attend a = describe_backward(j, u, &f, g, h);
        collect_backward(j, &f, g, h);
        a.dk = to_k;
        a.dk_row = dk.row;
        a.dv = to_v;
        a.dv_row = dv.row;
        a.add_kv = !apart || h > heads.from;
        a.bias_grad = part;
        a.shaw_work = scratch;
        j->kernels->attend_backward(&a, scratch + j->shaw_work);
        if (!apart) spread(&f, g->dq, s->dim, j->dq, h);
        spread_sums(j, u, &f, g, h);
    }
}

typedef void unit_fn(const job *j, unit u, attend_gathered *g, real *scratch);

static void walk(const job *j, int64_t chunk, int thread, unit_fn *fn) {
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1]; qkv_attend_unit_before(u, end); u = qkv_attend_unit_next(j, u))
        fn(j, u, &j->gathered[thread], j->scratch + thread * j->scratch_size);
}

static void global_forward_chunk(void *arg, int64_t chunk, int thread) {
    walk(arg, chunk, thread, global_forward);
}
static void global_backward_chunk(void *arg, int64_t chunk, int thread) {
    walk(arg, chunk, thread, global_backward);
}

qkv_status qkv_attend_global(qkv_exec *x, const job *window) {
    const size_t mark = qkv_exec_mark(x);
    job j = qkv_attend_pass(window, ATTEND_GLOBAL);
    QKV_TRY(qkv_attend_prepare(x, &j));
    QKV_TRY(qkv_temp_array(x, j.s->apart ? j.s->sequences : 0, sizeof(int64_t), &j.globals_at));
    if (!x->plan) {
        for (int64_t i = 0, row = 0; j.s->apart && i < j.s->sequences; i++) {
            const qkv_seen seen = qkv_attention_seen(j.s, i);
            j.globals_at[i] = row;
            row += qkv_globals(&seen) - qkv_globals_before(&seen);
        }
        qkv_par(x->ctx, j.chunks, j.backward ? global_backward_chunk : global_forward_chunk, &j);
    }
    qkv_attend_bias_gradient(x, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}
