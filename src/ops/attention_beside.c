/* Keys beside the window: global tokens and blocks, gathered, so that the tiles find them side by side. The softmax of a query goes
 * over its window and over them.
 *
 * Where all queries have one list of them, backward sums their gradients by head, and adds them to their rows at the end. Where
 * blocks of queries have random keys of their own, their part of the backward pass is one of its own, block after block. */
#include "ops/attention_job.h"

static void add_row(real *to, const real *from, int64_t width) {
    for (int64_t c = 0; c < width; c++) to[c] += from[c];
}

qkv_attend qkv_attend_gathered(const job *j, int64_t h) {
    const qkv_attention_shape *s = j->s;
    qkv_attend a = {.dim = s->dim,
                    .value_dim = s->value_dim,
                    .scale = s->scale,
                    .left = -1,
                    .right = -1,
                    .softcap = s->softcap,
                    .alibi = s->alibi ? (real)s->alibi[h] : 0,
                    .rope_cos = s->rope_cos,
                    .rope_sin = s->rope_sin,
                    .rope_dim = s->rope_dim,
                    .rope_k = s->rope_offset,
                    .rope_interleaved = s->rope_interleaved,
                    .shaw = j->shaw,
                    .shaw_reach = s->shaw_reach,
                    .dropout = s->dropout,
                    .bias_reach = s->bias_reach};
    a.bias = j->place_bias ? j->place_bias + h * j->place_row + j->place_most - 1 : NULL;
    return a;
}

real *qkv_attend_bias_part(const job *j, unit u, int64_t h) {
    const qkv_attention_shape *s = j->s;
    const int64_t wide = 2 * s->bias_reach + 1;
    if (!j->bias_parts) return NULL;
    real *part = j->bias_parts +
                 (j->parts_at[u.sequence] * s->heads + h * (j->parts_at[u.sequence + 1] - j->parts_at[u.sequence]) + u.part) * wide;
    memset(part, 0, (size_t)wide * sizeof *part);
    return part;
}

job qkv_attend_pass(const job *window, attend_kind kind) {
    return (job){.kind = kind,
                 .s = window->s,
                 .q = window->q,
                 .k = window->k,
                 .v = window->v,
                 .o = window->o,
                 .d_o = window->d_o,
                 .dq = window->dq,
                 .dk = window->dk,
                 .dv = window->dv,
                 .lse = window->lse,
                 .global_lse = window->lse,
                 .q_rows = window->q_rows,
                 .shaw_weights = window->shaw_weights,
                 .shaw_slopes = window->shaw_slopes,
                 .shaw_apart = window->shaw_apart,
                 .global_rows = window->global_rows,
                 .backward = window->backward};
}

/* ---- gathering ---- */

static qkv_group group_of(const job *j, unit u, qkv_range rows) {
    const qkv_seen seen = qkv_attention_seen(j->s, u.sequence / j->step);
    if (j->groups) return qkv_group_of(&seen, u.part);
    const int64_t class = u.sequence % j->step;
    return (qkv_group){.class = class,
                       .first = qkv_residue_of(&seen, class).first + rows.from * j->step,
                       .rows = rows.to - rows.from,
                       .step = j->step};
}

/* The list of keys of these rows, and what each row does not see of it: the same for all heads, of which one follows the other. */
static void find_keys(const job *j, unit u, qkv_range rows, attend_gathered *g) {
    if (g->sequence == u.sequence && g->first == rows.from && g->rows == rows.to - rows.from) return;
    const qkv_seen seen = qkv_attention_seen(j->s, u.sequence / j->step);
    const qkv_group group = group_of(j, u, rows);
    g->sequence = u.sequence;
    g->first = rows.from;
    g->rows = rows.to - rows.from;
    g->keys = qkv_group_list(&seen, &group, g->list);
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t at = group.first + r * group.step + seen.n_k - seen.n_q;
        qkv_group_hole(&seen, &group, g->list, g->keys, at, g->hole + 2 * r);
        if (g->q_at) g->q_at[r] = (int32_t)at;
    }
}

/* These keys and values of a head, to be seen by the rows that they were found for. */
static qkv_attend gather_keys(const job *j, unit u, int64_t h, const attend_gathered *g) {
    const qkv_attention_shape *s = j->s;
    const int64_t k0 = s->k_offset[u.sequence / j->step], kv = h / (s->heads / s->kv_heads);
    qkv_attend a = qkv_attend_gathered(j, h);
    for (int64_t l = 0; l < g->keys; l++) {
        attend_copy_row(g->k + l * s->dim, attend_at(j->k, k0 + g->list[l], kv), s->dim);
        attend_copy_row(g->v + l * s->value_dim, attend_at(j->v, k0 + g->list[l], kv), s->value_dim);
    }
    a.n_q = a.row1 = g->rows;
    a.n_k = g->keys;
    a.k = g->k;
    a.k_row = a.dk_row = s->dim;
    a.v = g->v;
    a.v_row = a.dv_row = s->value_dim;
    a.q_at = g->q_at;
    a.k_at = g->q_at ? g->list : NULL;
    a.hole = g->hole;
    a.dropout.key = qkv_key3(s->dropout.key, (uint64_t)h, 1); /* draws of its own: columns count keys of the list */
    return a;
}

/* ---- with the window ---- */

qkv_status qkv_attend_prepare_beside(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    qkv_mat dk, dv;
    if (!j->beside || !j->backward) return QKV_OK;
    QKV_TRY(qkv_temp_array(x, j->sequences, sizeof(int64_t), &j->beside_at));
    for (int64_t i = 0; i < j->sequences; i++) {
        const qkv_seen seen = qkv_attention_seen(s, i / j->step);
        if (j->beside_at) j->beside_at[i] = j->beside_rows;
        j->beside_rows += qkv_globals(&seen);
    }
    QKV_TRY(qkv_temp(x, s->heads * j->beside_rows, s->dim, &dk));
    QKV_TRY(qkv_temp(x, s->heads * j->beside_rows, s->value_dim, &dv));
    j->beside_dk = dk.p;
    j->beside_dv = dv.p;
    if (x->plan) return QKV_OK;
    memset(dk.p, 0, (size_t)(s->heads * j->beside_rows * s->dim) * sizeof(real));
    memset(dv.p, 0, (size_t)(s->heads * j->beside_rows * s->value_dim) * sizeof(real));
    return QKV_OK;
}

const qkv_attend *qkv_attend_beside(const job *j, unit u, int64_t h, int thread, const qkv_attend *window, qkv_attend *out) {
    if (!j->beside || window->row0 >= window->row1 || qkv_attention_seen(j->s, u.sequence / j->step).n_k == 0) return NULL;
    attend_gathered *g = &j->gathered[thread];
    find_keys(j, u, (qkv_range){window->row0, window->row1}, g);
    if (g->keys == 0) return NULL;
    *out = gather_keys(j, u, h, g);
    if (window->dropout.row_key) out->dropout.row_key = window->dropout.row_key + window->row0;
    if (!j->backward) return out;
    out->dk = j->beside_dk + (h * j->beside_rows + j->beside_at[u.sequence]) * j->s->dim;
    out->dv = j->beside_dv + (h * j->beside_rows + j->beside_at[u.sequence]) * j->s->value_dim;
    return out;
}

/* A class of queries that stand before key 0 can be without keys. */
qkv_attend qkv_attend_alone(const job *j, unit u, int64_t h, const qkv_attend *window) {
    qkv_attend a = *window->beside;
    const int64_t first = window->row0;
    a.q = window->q + first * window->q_row;
    a.q_row = window->q_row;
    a.o = window->o + first * window->o_row;
    a.o_row = window->o_row;
    a.lse = window->lse ? window->lse + first : NULL;
    a.next = window->next;
    if (!j->backward) return a;
    a.shaw_work = window->shaw_work;
    a.shaw_weights = window->shaw_weights;
    a.shaw_slopes = window->shaw_slopes;
    a.sums_row = window->sums_row;
    a.d_o = window->d_o;
    a.do_row = window->do_row;
    a.dq = window->dq;
    a.dq_row = window->dq_row;
    a.add_kv = true;
    a.bias_grad = qkv_attend_bias_part(j, u, h);
    a.shared = window->shared;
    return a;
}

/* Of one sequence and key/value head: class after class, head after head. */
static void gradient_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    const qkv_attention_shape *s = j->s;
    const int64_t sequence = chunk / s->kv_heads, kv = chunk % s->kv_heads, group = s->heads / s->kv_heads,
                  k0 = s->k_offset[sequence];
    const qkv_seen seen = qkv_attention_seen(s, sequence);
    int32_t *list = j->gathered[thread].list;
    for (int64_t i = sequence * j->step; i < (sequence + 1) * j->step; i++) {
        const qkv_group all = group_of(j, (unit){.sequence = i}, (qkv_range){0, 0});
        const int64_t keys = qkv_group_list(&seen, &all, list);
        for (int64_t h = kv * group; h < (kv + 1) * group; h++)
            for (int64_t l = 0, from = h * j->beside_rows + j->beside_at[i]; l < keys; l++) {
                add_row(attend_at(j->dk, k0 + list[l], kv), j->beside_dk + (from + l) * s->dim, s->dim);
                add_row(attend_at(j->dv, k0 + list[l], kv), j->beside_dv + (from + l) * s->value_dim, s->value_dim);
            }
    }
}

void qkv_attend_beside_gradient(qkv_exec *x, const job *j) {
    if (!x->plan && j->beside) qkv_par(x->ctx, j->s->sequences * j->s->kv_heads, gradient_chunk, (void *)j);
}

/* ---- backward, of blocks with keys of their own ---- */

static void group_backward(const job *j, unit u, attend_gathered *g, real *scratch) {
    const qkv_attention_shape *s = j->s;
    const qkv_seen seen = qkv_attention_seen(s, u.sequence);
    const qkv_range rows = qkv_attend_unit_rows(j, u, seen.n_q), heads = attend_heads_of(j, u);
    const int64_t q0 = attend_q_from(s, u.sequence) + rows.from, k0 = s->k_offset[u.sequence];
    const bool some = rows.from < rows.to && seen.n_k > 0;
    if (some) find_keys(j, u, rows, g);
    for (int64_t h = heads.from; h < heads.to; h++) {
        real *part = qkv_attend_bias_part(j, u, h);
        if (!some || g->keys == 0) continue;
        qkv_attend a = gather_keys(j, u, h, g);
        a.q = attend_at(j->q, q0, h);
        a.q_row = j->q.row;
        a.lse = j->lse + h * j->q_rows + q0;
        a.o = attend_at(j->o, q0, h);
        a.o_row = j->o.row;
        a.d_o = attend_at(j->d_o, q0, h);
        a.do_row = j->d_o.row;
        a.dq = attend_at(j->dq, q0, h);
        a.dq_row = j->dq.row;
        a.add_q = true;
        a.dk = g->dk;
        a.dv = g->dv;
        a.add_kv = h > heads.from;
        a.bias_grad = part;
        if (s->dropout.row_key) a.dropout.row_key = s->dropout.row_key + q0;
        a.shaw_work = scratch;
        qkv_attend_describe_sums(j, h, q0, 1, &a);
        j->kernels->attend_backward(&a, scratch + j->shaw_work);
    }
    qkv_par_counter *added = &j->seen[u.sequence * s->kv_heads + u.head]; /* group after group, so that sums have one order */
    qkv_par_wait(added, u.part);
    for (int64_t l = 0; some && l < g->keys; l++) {
        add_row(attend_at(j->dk, k0 + g->list[l], u.head), g->dk + l * s->dim, s->dim);
        add_row(attend_at(j->dv, k0 + g->list[l], u.head), g->dv + l * s->value_dim, s->value_dim);
    }
    qkv_par_post(added, u.part + 1);
}

static void groups_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1]; qkv_attend_unit_before(u, end); u = qkv_attend_unit_next(j, u))
        group_backward(j, u, &j->gathered[thread], j->scratch + thread * j->scratch_size);
}

qkv_status qkv_attend_groups(qkv_exec *x, const job *window) {
    const size_t mark = qkv_exec_mark(x);
    job j = qkv_attend_pass(window, ATTEND_GROUPS);
    QKV_TRY(qkv_attend_prepare(x, &j));
    const int64_t counters = j.s->sequences * j.s->kv_heads;
    QKV_TRY(qkv_temp_array(x, counters, sizeof *j.seen, &j.seen));
    if (!x->plan) {
        for (int64_t i = 0; i < counters; i++) j.seen[i] = (qkv_par_counter){0};
        qkv_par_in_order(x->ctx, j.chunks, groups_chunk, &j);
    }
    qkv_attend_bias_gradient(x, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}
