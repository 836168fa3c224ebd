/* The passes of attention after the window. Rows are gathered, so that the tiles find them side by side.
 *
 * Further keys: what queries see outside their windows, global tokens and blocks. The outputs of the two passes are put together by
 * their log-sum-exps. Backward, log-sum-exp and output are those of all keys, and each pass adds its part of the gradients.
 * Global queries: they see everything, and what the passes before made of them is replaced. */
#include <math.h>
#include <string.h>

#include "ops/attention_job.h"
#include "ops/split.h"

static void copy_row(real *to, const real *from, int64_t width) { memcpy(to, from, (size_t)width * sizeof *to); }

static void add_row(real *to, const real *from, int64_t width) {
    for (int64_t c = 0; c < width; c++) to[c] += from[c];
}

static void zero_rows(real *to, int64_t rows, int64_t row, int64_t width) {
    for (int64_t r = 0; r < rows; r++) memset(to + r * row, 0, (size_t)width * sizeof *to);
}

/* What a head has in common in both passes. */
static qkv_attend describe(const job *j, int64_t h) {
    const qkv_attention_shape *s = j->s;
    qkv_attend a = {.dim = s->dim, .value_dim = s->value_dim, .scale = s->scale, .left = -1, .right = -1, .softcap = s->softcap,
                    .alibi = s->alibi ? (real)s->alibi[h] : 0, .rope_cos = s->rope_cos, .rope_sin = s->rope_sin, .rope_dim = s->rope_dim,
                    .rope_k = s->rope_offset, .rope_interleaved = s->rope_interleaved, .dropout = s->dropout, .bias_reach = s->bias_reach};
    a.bias = j->bias ? j->bias + h * j->bias_row + j->most_k - 1 : NULL;
    return a;
}

static real *bias_part(const job *j, unit u, int64_t h) {
    const qkv_attention_shape *s = j->s;
    const int64_t wide = 2 * s->bias_reach + 1;
    if (!j->bias_parts) return NULL;
    real *part = j->bias_parts + (j->parts_at[u.sequence] * s->heads + h * (j->parts_at[u.sequence + 1] - j->parts_at[u.sequence]) + u.part) * wide;
    memset(part, 0, (size_t)wide * sizeof *part);
    return part;
}

/* The query heads of a unit: one forward, all of a key/value head backward. */
static qkv_range heads_of(const job *j, unit u) {
    const int64_t group = j->backward ? j->s->heads / j->s->kv_heads : 1;
    return (qkv_range){u.head * group, (u.head + 1) * group};
}

static int64_t kv_of(const job *j, int64_t h) { return h / (j->s->heads / j->s->kv_heads); }

typedef void unit_fn(const job *j, unit u, const attend_gathered *g, real *scratch);

static void walk(const job *j, int64_t chunk, int thread, unit_fn *fn) {
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1]; qkv_attend_unit_before(u, end); u = qkv_attend_unit_next(j, u))
        fn(j, u, &j->gathered[thread], j->scratch + thread * j->scratch_size);
}

/* ---- further keys ---- */

typedef struct further {
    qkv_seen seen;
    qkv_group group;
    int64_t keys;    /* of the list */
    int64_t q0, k0;  /* rows in the matrices: of the group's first query, of key 0 */
} further;

/* The list of a unit, its keys and values, and what rows do not see of it. */
static further gather_further(const job *j, unit u, const attend_gathered *g) {
    const qkv_attention_shape *s = j->s;
    further f = {.seen = qkv_attention_seen(s, u.sequence), .k0 = s->k_offset[u.sequence]};
    if (qkv_groups(&f.seen) == 0) return f;
    f.group = qkv_group_of(&f.seen, u.part);
    f.q0 = attend_q_from(s, u.sequence) + f.group.first;
    f.keys = qkv_group_list(&f.seen, &f.group, g->list);
    const int64_t kv = kv_of(j, heads_of(j, u).from);
    for (int64_t l = 0; l < f.keys; l++) {
        copy_row(g->k + l * s->dim, attend_at(j->k, f.k0 + g->list[l], kv), s->dim);
        copy_row(g->v + l * s->value_dim, attend_at(j->v, f.k0 + g->list[l], kv), s->value_dim);
    }
    for (int64_t r = 0; r < f.group.rows; r++) {
        const int64_t i = f.group.first + r * f.group.step, at = i + f.seen.n_k - f.seen.n_q;
        qkv_group_hole(&f.seen, &f.group, g->list, f.keys, at, g->hole + 2 * r);
        if (g->q_at) g->q_at[r] = (int32_t)at;
        if (g->row_key) g->row_key[r] = s->dropout.row_key[f.q0 + r * f.group.step];
    }
    return f;
}

static qkv_attend describe_further(const job *j, const further *f, const attend_gathered *g, int64_t h) {
    const qkv_attention_shape *s = j->s;
    qkv_attend a = describe(j, h);
    a.n_q = a.row1 = f->group.rows;
    a.n_k = f->keys;
    a.q = attend_at(j->q, f->q0, h);
    a.q_row = j->q.row * f->group.step;
    a.k = g->k;
    a.k_row = s->dim;
    a.v = g->v;
    a.v_row = s->value_dim;
    a.q_at = g->q_at;
    a.k_at = g->q_at ? g->list : NULL;
    a.hole = g->hole;
    a.dropout.key = qkv_key3(s->dropout.key, (uint64_t)h, 1); /* draws of its own: columns count keys of the list */
    a.dropout.row_key = g->row_key;
    return a;
}

static void further_forward(const job *j, unit u, const attend_gathered *g, real *scratch) {
    const further f = gather_further(j, u, g);
    const int64_t rows = f.group.rows, step = f.group.step, wide = j->s->value_dim;
    if (rows == 0 || f.keys == 0) return;
    qkv_attend a = describe_further(j, &f, g, u.head);
    a.o = g->o;
    a.o_row = wide;
    a.lse = g->lse;
    j->kernels->attend_forward(&a, scratch);
    real *lse = j->lse + u.head * j->q_rows + f.q0;
    for (int64_t r = 0; r < rows; r++) g->own[r] = lse[r * step];
    j->kernels->attend_merge(rows, wide, attend_at(j->o, f.q0, u.head), j->o.row * step, g->own, g->o, wide, g->lse);
    for (int64_t r = 0; r < rows; r++) lse[r * step] = g->own[r];
}

static void further_backward(const job *j, unit u, const attend_gathered *g, real *scratch) {
    const qkv_attention_shape *s = j->s;
    const further f = gather_further(j, u, g);
    const qkv_range heads = heads_of(j, u);
    for (int64_t h = heads.from; h < heads.to; h++) {
        real *part = bias_part(j, u, h);
        if (f.group.rows == 0 || f.keys == 0) continue;
        qkv_attend a = describe_further(j, &f, g, h);
        const real *lse = j->lse + h * j->q_rows + f.q0;
        for (int64_t r = 0; r < a.n_q; r++) g->lse[r] = lse[r * f.group.step];
        a.lse = g->lse;
        a.o = attend_at(j->o, f.q0, h);
        a.o_row = j->o.row * f.group.step;
        a.d_o = attend_at(j->d_o, f.q0, h);
        a.do_row = j->d_o.row * f.group.step;
        a.dq = attend_at(j->dq, f.q0, h);
        a.dq_row = j->dq.row * f.group.step;
        a.add_q = true;
        a.dk = g->dk;
        a.dk_row = s->dim;
        a.dv = g->dv;
        a.dv_row = s->value_dim;
        a.add_kv = h > heads.from;
        a.bias_grad = part;
        j->kernels->attend_backward(&a, scratch);
    }
    qkv_par_counter *added = &j->seen[u.sequence * s->kv_heads + u.head]; /* group after group, so that sums have one order */
    qkv_par_wait(added, u.part);
    for (int64_t l = 0; l < f.keys; l++) {
        add_row(attend_at(j->dk, f.k0 + g->list[l], u.head), g->dk + l * s->dim, s->dim);
        add_row(attend_at(j->dv, f.k0 + g->list[l], u.head), g->dv + l * s->value_dim, s->value_dim);
    }
    qkv_par_post(added, u.part + 1);
}

static void further_forward_chunk(void *arg, int64_t chunk, int thread) { walk(arg, chunk, thread, further_forward); }
static void further_backward_chunk(void *arg, int64_t chunk, int thread) { walk(arg, chunk, thread, further_backward); }

static job pass_of(const job *window, attend_kind kind) {
    return (job){.kind = kind, .s = window->s, .q = window->q, .k = window->k, .v = window->v, .o = window->o, .d_o = window->d_o,
                 .dq = window->dq, .dk = window->dk, .dv = window->dv, .lse = window->lse, .backward = window->backward};
}

qkv_status qkv_attend_further(qkv_exec *x, const job *window) {
    const size_t mark = qkv_exec_mark(x);
    job j = pass_of(window, ATTEND_FURTHER);
    QKV_TRY(qkv_attend_prepare(x, &j));
    const int64_t counters = j.backward ? j.s->sequences * j.s->kv_heads : 0;
    QKV_TRY(qkv_temp_array(x, counters, sizeof *j.seen, &j.seen));
    if (!x->plan) {
        for (int64_t i = 0; i < counters; i++) j.seen[i] = (qkv_par_counter){0};
        if (j.backward) qkv_par_in_order(x->ctx, j.chunks, further_backward_chunk, &j);
        else qkv_par(x->ctx, j.chunks, further_forward_chunk, &j);
    }
    qkv_attend_bias_gradient(x, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* ---- global queries ---- */

typedef struct globals {
    qkv_seen seen;
    int64_t first, rows; /* the first global that is a query, and how many are */
    int64_t q0, k0;      /* rows in the matrices: of a query at position 0, of key 0 */
} globals;

static globals globals_of(const job *j, unit u, const attend_gathered *g) {
    const qkv_attention_shape *s = j->s;
    globals f = {.seen = qkv_attention_seen(s, u.sequence), .k0 = s->k_offset[u.sequence]};
    f.first = qkv_globals_before(&f.seen);
    f.rows = qkv_globals(&f.seen) - f.first;
    f.q0 = attend_q_from(s, u.sequence) + f.seen.n_q - f.seen.n_k;
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

/* Rows of the globals, gathered or spread. */
static void collect(const globals *f, qkv_heads m, int64_t h, int64_t width, real *to) {
    for (int64_t r = 0; r < f->rows; r++) copy_row(to + r * width, attend_at(m, f->q0 + qkv_global_at(&f->seen, f->first + r), h), width);
}
static void spread(const globals *f, const real *from, int64_t width, qkv_heads m, int64_t h) {
    for (int64_t r = 0; r < f->rows; r++) copy_row(attend_at(m, f->q0 + qkv_global_at(&f->seen, f->first + r), h), from + r * width, width);
}

static qkv_attend describe_globals(const job *j, unit u, const globals *f, const attend_gathered *g, int64_t h) {
    const qkv_attention_shape *s = j->s;
    const qkv_apart *apart = s->apart;
    const qkv_heads k = apart ? apart->k : j->k, v = apart ? apart->v : j->v;
    const int64_t kv = kv_of(j, h);
    qkv_attend a = describe(j, h);
    a.n_q = a.row1 = f->rows;
    a.n_k = f->seen.n_k;
    a.q = apart ? attend_at(apart->q, j->globals_at[u.sequence], h) : g->q;
    a.q_row = apart ? apart->q.row : s->dim;
    if (!apart) collect(f, j->q, h, s->dim, g->q);
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

static void global_forward(const job *j, unit u, const attend_gathered *g, real *scratch) {
    const globals f = globals_of(j, u, g);
    if (f.rows == 0) return;
    const qkv_attend a = describe_globals(j, u, &f, g, u.head);
    j->kernels->attend_forward(&a, scratch);
    spread(&f, g->o, j->s->value_dim, j->o, u.head);
    real *lse = j->lse ? j->lse + u.head * j->q_rows + f.q0 : NULL;
    for (int64_t r = 0; lse && r < f.rows; r++) lse[qkv_global_at(&f.seen, f.first + r)] = g->lse[r];
}

/* dk and dv: of projections of their own written, else added to those of the window. */
static void global_backward(const job *j, unit u, const attend_gathered *g, real *scratch) {
    const qkv_attention_shape *s = j->s;
    const qkv_apart *apart = s->apart;
    const globals f = globals_of(j, u, g);
    const qkv_range heads = heads_of(j, u);
    const qkv_heads dk = apart ? apart->dk : j->dk, dv = apart ? apart->dv : j->dv;
    real *to_k = attend_at(dk, f.k0, u.head), *to_v = attend_at(dv, f.k0, u.head);
    if (f.rows == 0 && apart) {
        zero_rows(to_k, f.seen.n_k, dk.row, s->dim);
        zero_rows(to_v, f.seen.n_k, dv.row, s->value_dim);
    }
    for (int64_t h = heads.from; h < heads.to; h++) {
        real *part = bias_part(j, u, h);
        if (f.rows == 0) continue;
        qkv_attend a = describe_globals(j, u, &f, g, h);
        const real *lse = j->lse + h * j->q_rows + f.q0;
        for (int64_t r = 0; r < f.rows; r++) g->lse[r] = lse[qkv_global_at(&f.seen, f.first + r)];
        collect(&f, j->o, h, s->value_dim, g->o);
        collect(&f, j->d_o, h, s->value_dim, g->d_o);
        a.d_o = g->d_o;
        a.do_row = s->value_dim;
        a.dq = apart ? attend_at(apart->dq, j->globals_at[u.sequence], h) : g->dq;
        a.dq_row = apart ? apart->dq.row : s->dim;
        a.dk = to_k;
        a.dk_row = dk.row;
        a.dv = to_v;
        a.dv_row = dv.row;
        a.add_kv = !apart || h > heads.from;
        a.bias_grad = part;
        j->kernels->attend_backward(&a, scratch);
        if (!apart) spread(&f, g->dq, s->dim, j->dq, h);
    }
}

static void global_forward_chunk(void *arg, int64_t chunk, int thread) { walk(arg, chunk, thread, global_forward); }
static void global_backward_chunk(void *arg, int64_t chunk, int thread) { walk(arg, chunk, thread, global_backward); }

qkv_status qkv_attend_global(qkv_exec *x, const job *window) {
    const size_t mark = qkv_exec_mark(x);
    job j = pass_of(window, ATTEND_GLOBAL);
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
