#include "ops/attention.h"

#include <math.h>
#include <string.h>

#include "kernels/cost.h"
#include "ops/attention_job.h"

static int64_t n_queries(const qkv_attention_shape *s, int64_t i) { return attend_q_from(s, i + 1) - attend_q_from(s, i); }
static int64_t n_keys(const qkv_attention_shape *s, int64_t i) { return s->k_offset[i + 1] - s->k_offset[i]; }

static qkv_status check_pattern(const qkv_exec *x, const qkv_pattern *p) {
    const bool random = p->random_blocks > 0;
    if (p->dilation >= 0 && p->global_first >= 0 && p->global_every >= 0 && p->random_blocks >= 0 && p->random_blocks <= QKV_RANDOM_BLOCKS_MAX &&
        (!random || (p->block > 0 && qkv_dilation(p) == 1)) && (!p->global_offset || (p->global_first == 0 && p->global_every == 0)))
        return QKV_OK;
    return qkv_fail(x->ctx, QKV_INTERNAL, "attention pattern: dilation=%lld global_first=%lld global_every=%lld random_blocks=%lld block=%lld%s",
                    (long long)p->dilation, (long long)p->global_first, (long long)p->global_every, (long long)p->random_blocks,
                    (long long)p->block, p->global_offset ? " and a list of global tokens" : "");
}

static qkv_status check(const qkv_exec *x, const qkv_attention_shape *s) {
    if (s->sequences < 0 || s->dim < 1 || s->value_dim < 1 || s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads != 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention over %lld sequences with heads=%lld kv_heads=%lld dim=%lld value_dim=%lld",
                        (long long)s->sequences, (long long)s->heads, (long long)s->kv_heads, (long long)s->dim, (long long)s->value_dim);
    if (s->sequences > 0 && (!s->k_offset || attend_q_from(s, 0) != 0 || s->k_offset[0] != 0))
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention offsets do not start at 0");
    for (int64_t i = 0; i < s->sequences; i++)
        if (n_queries(s, i) < 0 || n_keys(s, i) < 0)
            return qkv_fail(x->ctx, QKV_INTERNAL, "attention offsets descend at sequence %lld", (long long)i);
    if (!x->plan && s->dropout.p > 0 && !s->dropout.row_key && attend_q_from(s, s->sequences) > 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention dropout of %g without row keys", (double)s->dropout.p);
    if (s->rope_cos && (!s->rope_sin || s->rope_dim < 2 || s->rope_dim % 2 != 0 || s->rope_dim > s->dim || s->rope_offset < 0))
        return qkv_fail(x->ctx, QKV_INTERNAL, "rotation of %lld of %lld columns from position %lld on", (long long)s->rope_dim,
                        (long long)s->dim, (long long)s->rope_offset);
    for (int64_t i = 0; s->rope_cos && i < s->sequences; i++)
        if (s->rope_offset + n_keys(s, i) < n_queries(s, i))
            return qkv_fail(x->ctx, QKV_INTERNAL, "sequence %lld has queries before position 0", (long long)i);
    if (s->bias && s->bias_reach < 0) return qkv_fail(x->ctx, QKV_INTERNAL, "attention bias up to distance %lld", (long long)s->bias_reach);
    QKV_TRY(qkv_attend_check_shaw(x, s));
    if (s->apart && !qkv_has_globals(&s->pattern)) return qkv_fail(x->ctx, QKV_INTERNAL, "projections for global tokens, of which there are none");
    return check_pattern(x, &s->pattern);
}

/* ---- one head of one sequence ---- */

static qkv_attend describe(const job *j, int64_t i, int64_t h) {
    const qkv_attention_shape *s = j->s;
    const attend_rows r = qkv_attend_rows_of(j, i);
    const int64_t kv = h / (s->heads / s->kv_heads), step = j->step, place = s->rope_offset + i % step;
    qkv_attend a = {.n_q = r.n_q, .n_k = r.n_k, .dim = s->dim, .value_dim = s->value_dim, .scale = s->scale,
                    .left = s->left, .right = s->right, .softcap = s->softcap, .alibi = s->alibi ? (real)s->alibi[h] * (real)step : 0,
                    .rope_cos = s->rope_cos, .rope_sin = s->rope_sin, .rope_dim = s->rope_dim, .rope_k = place,
                    .rope_interleaved = s->rope_interleaved};
    if (step > 1 && s->rope_cos) { /* the rows of the tables that this class stands at */
        a.rope_row = step * (s->rope_dim / 2);
        a.rope_cos += place % step * (s->rope_dim / 2);
        a.rope_sin += place % step * (s->rope_dim / 2);
        a.rope_k = place / step;
    }
    a.row1 = a.n_q;
    a.q = attend_at(j->q, r.q, h);
    a.q_row = j->q.row * step;
    a.k = attend_at(j->k, r.k, kv);
    a.k_row = j->k.row * step;
    a.v = attend_at(j->v, r.k, kv);
    a.v_row = j->v.row * step;
    a.o = attend_at(j->o, r.q, h);
    a.o_row = j->o.row * step;
    a.lse = j->lse ? j->lse + h * j->q_rows + r.lse : NULL;
    a.bias = j->bias ? j->bias + h * j->bias_row + j->most_k - 1 : NULL;
    a.step = step;
    a.shaw = j->shaw;
    a.shaw_reach = s->shaw_reach;
    qkv_attend_describe_sums(j, h, r.q, step, &a);
    a.dropout = s->dropout;
    a.dropout.key = qkv_key2(s->dropout.key, (uint64_t)h);
    a.dropout.row_key = j->row_key ? j->row_key + r.lse : NULL;
    if (!j->backward) return a;
    a.d_o = attend_at(j->d_o, r.q, h);
    a.do_row = j->d_o.row * step;
    a.dq = attend_at(j->dq, r.q, h);
    a.dq_row = j->dq.row * step;
    a.dk = attend_at(j->dk, r.k, kv);
    a.dk_row = j->dk.row * step;
    a.dv = attend_at(j->dv, r.k, kv);
    a.dv_row = j->dv.row * step;
    a.add_kv = h % (s->heads / s->kv_heads) > 0;
    a.bias_reach = s->bias_reach;
    if (j->bias_parts) a.bias_grad = j->bias_parts + (j->parts_at[i] * s->heads + h * attend_key_tiles(a.n_k)) * (2 * s->bias_reach + 1);
    return a;
}

static void fill(real *p, int64_t rows, int64_t cols, int64_t row, real value) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) p[r * row + c] = value;
}

static qkv_attend describe_rows(const job *j, unit u) {
    qkv_attend a = describe(j, u.sequence, u.head);
    const qkv_range rows = qkv_attend_unit_rows(j, u, a.n_q);
    a.row0 = rows.from;
    a.row1 = rows.to;
    return a;
}

static void forward_rows(const job *j, const qkv_attend *a, real *scratch) {
    if (a->row0 >= a->row1) return;
    if (a->n_k > 0) {
        qkv_attend with = *a;
        if (j->shaw_work > 0) with.shaw_work = scratch, scratch += j->shaw_work, a = &with;
        (j->bf16 ? j->bf16->attend_forward : j->kernels->attend_forward)(a, scratch);
        return;
    }
    fill(a->o + a->row0 * a->o_row, a->row1 - a->row0, a->value_dim, a->o_row, 0);
    if (a->lse) fill(a->lse + a->row0, 1, a->row1 - a->row0, 0, (real)-INFINITY);
}

static void decode_heads_of(const job *j, unit u, real *scratch) {
    int64_t group = j->s->heads / j->s->kv_heads, end = (u.head + 1) * j->decode * group, some;
    if (end > j->s->heads) end = j->s->heads;
    for (int64_t h = u.head * j->decode * group; h < end; h += some) {
        qkv_attend heads[QKV_ATTEND_DECODE_HEADS];
        some = end - h < QKV_ATTEND_DECODE_HEADS ? end - h : QKV_ATTEND_DECODE_HEADS;
        for (int64_t i = 0; i < some; i++) heads[i] = describe(j, u.sequence, h + i);
        if (heads[0].n_q > 0 && heads[0].n_k > 0) j->kernels->attend_decode(heads, some, scratch);
        else
            for (int64_t i = 0; i < some; i++) forward_rows(j, &heads[i], scratch);
    }
}

static void decode_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1]; qkv_attend_unit_before(u, end); u = qkv_attend_unit_next(j, u))
        decode_heads_of(j, u, j->scratch + thread * j->scratch_size);
}

static void forward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1], following; qkv_attend_unit_before(u, end);
         u = qkv_attend_unit_next(j, u)) {
        qkv_attend a = describe_rows(j, u), next, beside;
        a.beside = qkv_attend_beside(j, u, u.head, thread, &a, &beside);
        if (qkv_attend_unit_expected(j, chunk, u, &following)) {
            next = describe_rows(j, following);
            a.next = &next;
        }
        if (a.n_k == 0 && a.beside) a = qkv_attend_alone(j, u, u.head, &a);
        forward_rows(j, &a, j->scratch + thread * j->scratch_size);
    }
}

/* A block of queries of a head goes from key tile to key tile. */
typedef struct handover {
    qkv_par_counter *seen;
    int64_t tile;
} handover;

static void wait_for_block(void *hand, int64_t block) {
    const handover *o = hand;
    qkv_par_wait(&o->seen[block], o->tile);
}
static void block_done(void *hand, int64_t block) {
    const handover *o = hand;
    qkv_par_post(&o->seen[block], o->tile + 1);
}

/* Without queries or keys all gradients are 0. */
static void backward_blind(const job *j, unit u, const qkv_attend *a, int64_t h) {
    fill(a->dq, a->n_q, a->dim, a->dq_row, 0);
    qkv_attend_clear_sums(j, a);
    if (a->n_k == 0) qkv_attend_bias_part(j, u, h);
    if (a->add_kv) return;
    fill(a->dk, a->n_k, a->dim, a->dk_row, 0);
    fill(a->dv, a->n_k, a->value_dim, a->dv_row, 0);
}

static void backward_head(const job *j, unit u, qkv_attend *a, int64_t h, int thread) {
    real *scratch = j->scratch + thread * j->scratch_size, *further; /* of vectors by distance, and of queries above */
    qkv_attend beside, above;
    handover hand;
    a->beside = qkv_attend_beside(j, u, h, thread, a, &beside);
    if (a->n_q == 0 || (a->n_k == 0 && !a->beside)) {
        backward_blind(j, u, a, h);
        return;
    }
    if (j->split) {
        a->key0 = u.part * QKV_ATTEND_KEYS;
        a->key1 = a->key0 + QKV_ATTEND_KEYS < a->n_k ? a->key0 + QKV_ATTEND_KEYS : a->n_k;
        const int64_t size = j->kernels->attend_shared_scratch(a->n_q, a->dim, a->value_dim);
        a->shared = j->shared + j->shared_at[u.sequence] +
                    h * (size + qkv_attend_shaw_work(j, a->n_q) + qkv_attend_above_shared(j, u.sequence / j->step));
        further = a->shared + size;
        hand = (handover){j->seen + j->blocks_at[u.sequence] + h * attend_handed_blocks(j, a->n_q), u.part};
        a->wait = wait_for_block;
        a->done = block_done;
        a->hand = &hand;
    } else {
        further = scratch;
        scratch += j->shaw_work + j->above_work;
    }
    a->shaw_work = further;
    a->above = qkv_attend_above(j, u, h, thread, further + qkv_attend_shaw_work(j, a->n_q), &above);
    if (a->n_k == 0) *a = qkv_attend_alone(j, u, h, a);
    (j->bf16 ? j->bf16->attend_backward : j->kernels->attend_backward)(a, scratch);
    if (a->above && (!j->split || a->key1 == a->n_k)) qkv_attend_above_done(j, u, h, thread, a->above);
}

/* All query heads of one key/value head, ascending, so that dk and dv are sums in a fixed order. */
static void backward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    int64_t group = j->s->heads / j->s->kv_heads;
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1], following; qkv_attend_unit_before(u, end); u = qkv_attend_unit_next(j, u)) {
        bool more = qkv_attend_unit_expected(j, chunk, u, &following);
        for (int64_t h = u.head * group; h < (u.head + 1) * group; h++) {
            qkv_attend a = describe(j, u.sequence, h), next;
            bool same = h + 1 < (u.head + 1) * group;
            if (same || more) next = describe(j, same ? u.sequence : following.sequence, same ? h + 1 : following.head * group);
            a.next = same || more ? &next : NULL;
            backward_head(j, u, &a, h, thread);
        }
    }
}

/* The gradient of the bias of one head: its parts in order. */
static void bias_chunk(void *arg, int64_t h, int thread) {
    const job *j = arg;
    const qkv_attention_shape *s = j->s;
    int64_t wide = 2 * s->bias_reach + 1;
    real *out = s->bias_grad + h * wide;
    (void)thread;
    if (j->kind == ATTEND_WINDOW) fill(out, 1, wide, 0, 0);
    for (int64_t i = 0; i < j->sequences; i++) {
        const int64_t parts = j->parts_at[i + 1] - j->parts_at[i];
        if (qkv_attend_rows_of(j, i).n_q == 0) continue;
        for (int64_t t = 0; t < parts; t++) {
            const real *part = j->bias_parts + (j->parts_at[i] * s->heads + h * parts + t) * wide;
            for (int64_t c = 0; c < wide; c++) out[c] += part[c];
        }
    }
}

void qkv_attend_bias_gradient(qkv_exec *x, const job *j) {
    if (!x->plan && j->backward && j->bias_parts) qkv_par(x->ctx, j->s->heads, bias_chunk, (void *)j);
}

/* ---- the window ---- */

/* With dilation, the rows of a class lie together in lse and row_key; they are brought there, or (`back`) from there. */
static void sort_rows(const job *j, const real *from, real *to, bool back) {
    for (int64_t i = 0; i < j->sequences; i++) {
        const attend_rows r = qkv_attend_rows_of(j, i);
        for (int64_t h = 0; h < j->s->heads; h++)
            for (int64_t n = 0; n < r.n_q; n++) {
                const int64_t sorted = h * j->q_rows + r.lse + n, row = h * j->q_rows + r.q + n * j->step;
                if (back) to[row] = from[sorted];
                else to[sorted] = from[row];
            }
    }
}

static void sort_keys(const job *j, uint64_t *to) {
    for (int64_t i = 0; i < j->sequences; i++) {
        const attend_rows r = qkv_attend_rows_of(j, i);
        for (int64_t n = 0; n < r.n_q; n++) to[r.lse + n] = j->s->dropout.row_key[r.q + n * j->step];
    }
}

/* Rows of global queries, which other passes compute, see nothing here. */
static void blind_globals(const job *j, real *lse) {
    for (int64_t i = 0; i < j->s->sequences; i++) {
        const qkv_seen seen = qkv_attention_seen(j->s, i);
        for (int64_t g = qkv_globals_before(&seen); g < qkv_globals(&seen); g++)
            for (int64_t h = 0; h < j->s->heads; h++)
                lse[h * j->q_rows + attend_q_from(j->s, i) + qkv_global_at(&seen, g) + seen.n_q - seen.n_k] = (real)-INFINITY;
    }
}

static qkv_status window_keys(qkv_exec *x, job *j) {
    uint64_t *keys;
    j->row_key = j->s->dropout.row_key;
    if (j->step == 1 || j->s->dropout.p == 0) return QKV_OK;
    QKV_TRY(qkv_temp_array(x, j->q_rows, sizeof *keys, &keys));
    if (!x->plan) sort_keys(j, keys);
    j->row_key = keys;
    return QKV_OK;
}

static qkv_status window_forward(qkv_exec *x, job j, real *lse) {
    const size_t mark = qkv_exec_mark(x);
    qkv_mat sorted = {.p = lse};
    QKV_TRY(qkv_attend_prepare(x, &j));
    qkv_attend_book(x, &j);
    QKV_TRY(window_keys(x, &j));
    if (j.step > 1) QKV_TRY(qkv_temp(x, j.s->heads, j.q_rows, &sorted));
    j.lse = sorted.p;
    if (!x->plan) {
        qkv_par(x->ctx, j.chunks, j.decode ? decode_chunk : forward_chunk, &j);
        if (j.step > 1 && lse) sort_rows(&j, sorted.p, lse, true);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status window_backward(qkv_exec *x, job j, const real *lse) {
    const size_t mark = qkv_exec_mark(x);
    const bool blind = qkv_attend_has_global(j.s);
    qkv_mat seen = {.p = (real *)lse}, sorted;
    j.global_lse = lse;
    QKV_TRY(qkv_attend_prepare(x, &j));
    qkv_attend_book(x, &j);
    QKV_TRY(window_keys(x, &j));
    if (blind) {
        QKV_TRY(qkv_temp(x, j.s->heads, j.q_rows, &seen));
        if (!x->plan) {
            memcpy(seen.p, lse, (size_t)(j.s->heads * j.q_rows) * sizeof *lse);
            blind_globals(&j, seen.p);
        }
    }
    j.lse = seen.p;
    if (j.step > 1) {
        QKV_TRY(qkv_temp(x, j.s->heads, j.q_rows, &sorted));
        if (!x->plan) sort_rows(&j, seen.p, sorted.p, false);
        j.lse = sorted.p;
    }
    if (!x->plan) (j.split ? qkv_par_in_order : qkv_par)(x->ctx, j.chunks, backward_chunk, &j);
    qkv_attend_beside_gradient(x, &j);
    qkv_attend_bias_gradient(x, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* ---- the op ---- */

/* Neighbours that stand further apart than any two of a sequence's queries and keys are none: there are no more classes than that. */
static qkv_attention_shape within(const qkv_attention_shape *s) {
    qkv_attention_shape w = *s;
    int64_t longest = 1;
    for (int64_t i = 0; s->pattern.dilation > 1 && i < s->sequences; i++) {
        const int64_t most = n_queries(s, i) > n_keys(s, i) ? n_queries(s, i) : n_keys(s, i);
        if (most > longest) longest = most;
    }
    if (w.pattern.dilation > longest) w.pattern.dilation = longest;
    return w;
}

int64_t qkv_attention_globals(const qkv_attention_shape *s) {
    int64_t rows = 0;
    for (int64_t i = 0; i < s->sequences; i++) {
        const qkv_seen seen = qkv_attention_seen(s, i);
        rows += qkv_globals(&seen) - qkv_globals_before(&seen);
    }
    return rows;
}

qkv_status qkv_attend_forward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o, real *lse) {
    QKV_TRY(check(x, s));
    const qkv_attention_shape near = within(s);
    s = &near;
    const job j = {.s = s, .q = q, .k = k, .v = v, .o = o, .lse = lse};
    QKV_TRY(window_forward(x, j, lse));
    return qkv_attend_has_global(s) ? qkv_attend_global(x, &j) : QKV_OK;
}

qkv_status qkv_attend_backward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o,
                               const real *lse, qkv_heads d_o, qkv_heads dq, qkv_heads dk, qkv_heads dv) {
    QKV_TRY(check(x, s));
    const qkv_attention_shape near = within(s);
    s = &near;
    job j = {.kernels = x->ctx->kernels, .s = s, .q = q, .k = k, .v = v, .o = o, .d_o = d_o, .dq = dq, .dk = dk, .dv = dv, .lse = (real *)lse,
             .backward = true};
    const size_t mark = qkv_exec_mark(x);
    QKV_TRY(qkv_attend_prepare_sums(x, &j));
    QKV_TRY(window_backward(x, j, lse));
    if (s->pattern.random_blocks > 0 && qkv_attend_has_further(s)) QKV_TRY(qkv_attend_groups(x, &j));
    if (qkv_attend_has_global(s) && !qkv_attend_takes_above(s)) QKV_TRY(qkv_attend_global(x, &j));
    QKV_TRY(qkv_attend_shaw_gradient(x, &j));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

/* ---- for looking at ---- */

/* Which pairs of one sequence see each other: [n_q][n_k]. */
static void pattern_seen(const qkv_seen *s, uint8_t *seen, int32_t *list) {
    const int64_t groups = qkv_groups(s), step = qkv_dilation(s->pattern);
    for (int64_t i = 0; i < s->n_q; i++) {
        const int64_t at = i + s->n_k - s->n_q;
        for (int64_t j = 0; j < s->n_k; j++) {
            const int64_t away = j > at ? j - at : at - j, most = j > at ? s->right : s->left;
            const bool window = away % step == 0 && (most < 0 || away / step <= most);
            seen[i * s->n_k + j] = window || (qkv_is_global(s, at) && !(s->right == 0 && j > at));
        }
    }
    if (qkv_sees_all(s->pattern, s->left, s->right)) return;
    for (int64_t g = 0; g < groups; g++) {
        const qkv_group group = qkv_group_of(s, g);
        const int64_t keys = qkv_group_list(s, &group, list);
        for (int64_t r = 0; r < group.rows; r++) {
            const int64_t i = group.first + r * group.step;
            int32_t hole[2];
            qkv_group_hole(s, &group, list, keys, i + s->n_k - s->n_q, hole);
            for (int64_t l = 0; l < keys; l++)
                if (l < hole[0] || l >= hole[1]) seen[i * s->n_k + list[l]] = 1;
        }
    }
}

/* Global queries with projections of their own, row by row. */
static void weights_apart(const job *j, qkv_attend a, int64_t sequence, int64_t head, real *weights) {
    const qkv_attention_shape *s = j->s;
    const qkv_seen seen = qkv_attention_seen(s, sequence);
    const uint8_t *pairs = a.seen;
    int64_t row = 0;
    for (int64_t i = 0; i < sequence; i++) {
        const qkv_seen before = qkv_attention_seen(s, i);
        row += qkv_globals(&before) - qkv_globals_before(&before);
    }
    a.k = attend_at(s->apart->k, s->k_offset[sequence], head / (s->heads / s->kv_heads));
    a.k_row = s->apart->k.row;
    a.q_row = 0;
    for (int64_t g = qkv_globals_before(&seen); g < qkv_globals(&seen); g++, row++) {
        a.row0 = qkv_global_at(&seen, g) + seen.n_q - seen.n_k;
        a.row1 = a.row0 + 1;
        a.q = attend_at(s->apart->q, row, head);
        a.seen = pairs + a.row0 * a.n_k;
        j->kernels->attend_weights(&a, weights + a.row0 * a.n_k);
    }
}

qkv_status qkv_attend_weights(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, int64_t sequence, int64_t head,
                              real *weights) {
    QKV_TRY(check(x, s));
    if (sequence < 0 || sequence >= s->sequences || head < 0 || head >= s->heads)
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "sequence %lld, head %lld: there are %lld sequences and %lld heads", (long long)sequence,
                        (long long)head, (long long)s->sequences, (long long)s->heads);
    const qkv_attention_shape near = within(s);
    s = &near;
    const qkv_seen seen = qkv_attention_seen(s, sequence);
    const int64_t n_q = seen.n_q, n_k = seen.n_k;
    double pairs = (double)qkv_pattern_pairs(&seen);
    qkv_exec_book(x, QKV_CLASS_ATTENTION, 2 * pairs * (double)s->dim, ((double)(n_q + n_k) * (double)s->dim + (double)n_q * (double)n_k) * sizeof(real));
    size_t mark = qkv_exec_mark(x);
    qkv_attention_shape plain = *s; /* the pattern is looked up, pair by pair */
    const bool pattern = qkv_dilation(&s->pattern) > 1 || qkv_attend_has_further(s) || qkv_attend_has_global(s);
    plain.pattern = (qkv_pattern){0};
    if (pattern) plain.left = plain.right = -1;
    job j = {.kernels = x->ctx->kernels, .s = &plain, .q = q, .k = k, .step = 1, .sequences = s->sequences, .q_rows = attend_q_from(s, s->sequences),
             .most_q = n_q, .most_k = n_k};
    uint8_t *sees = NULL;
    int32_t *list = NULL;
    QKV_TRY(qkv_attend_prepare_bias(x, &j));
    QKV_TRY(qkv_attend_prepare_shaw(x, &j));
    if (pattern) {
        QKV_TRY(qkv_temp_array(x, n_q * n_k, sizeof *sees, &sees));
        QKV_TRY(qkv_temp_array(x, qkv_group_most(&seen), sizeof *list, &list));
    }
    if (!x->plan && n_q > 0 && n_k > 0) {
        qkv_attend a = describe(&j, sequence, head);
        a.dropout = (qkv_dropout){0};
        if (pattern) pattern_seen(&seen, sees, list);
        a.seen = sees;
        j.kernels->attend_weights(&a, weights);
        if (s->apart && qkv_attend_has_global(s)) {
            j.s = s;
            weights_apart(&j, a, sequence, head, weights);
        }
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}
