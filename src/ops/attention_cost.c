/* What an attention costs, of all its passes together. */
#include "kernels/cost.h"
#include "ops/attention_job.h"

bool qkv_attend_has_further(const qkv_attention_shape *s) {
    return (qkv_has_globals(&s->pattern) || s->pattern.random_blocks > 0) && !qkv_sees_all(&s->pattern, s->left, s->right);
}

bool qkv_attend_has_global(const qkv_attention_shape *s) {
    return qkv_has_globals(&s->pattern) && (s->apart || !qkv_sees_all(&s->pattern, s->left, s->right));
}

/* With one query a sequence everything is read once, and rounding it would cost more than the products; rotations and biases
 * by distance are terms of the f32 kernels alone, and so are keys beside the window. */
bool qkv_attend_takes_bf16(const qkv_exec *x, const qkv_attention_shape *s) {
    return x->bf16 && x->ctx->bf16 && s->q_offset && !s->rope_cos && !s->bias && !s->shaw_keys && !qkv_attend_has_further(s);
}

/* The multiply-adds that the tiles compute, of one head: a sum of something for each column of queries and keys, something for
 * each of values, and, at bf16, the sums of the rows. */
typedef struct executed {
    double neither, dim, values;
} executed;

/* n_q queries with n_k keys in this window. rows: of a forward call; NULL: all. */
typedef struct call {
    int64_t n_q, n_k, left, right;
    const qkv_range *rows;
    bool beside; /* no call of its own */
} call;

static double executed_by(bool bf16, bool backward, const call *c, int64_t dim, int64_t value_dim) {
    if (bf16)
        return (backward ? qkv_executed_bf16_attend_backward : qkv_executed_bf16_attend_forward)(c->n_q, c->n_k, c->left, c->right,
                                                                                                 dim, value_dim) /
               2;
    if (c->rows) return qkv_executed_attend_rows(c->n_q, c->n_k, c->left, c->right, c->rows->from, c->rows->to, dim, value_dim) / 2;
    if (c->beside && backward) return qkv_executed_attend_beside_backward(c->n_q, c->n_k, dim, value_dim) / 2;
    return (backward ? qkv_cost_attend_backward : qkv_cost_attend_forward)(c->n_q, c->n_k, c->left, c->right, dim, value_dim)
               .executed /
           2;
}

static void add_executed(const qkv_attention_shape *s, bool bf16, bool backward, call c, executed *e) {
    if (c.n_q == 0 || c.n_k == 0) return;
    const double neither = executed_by(bf16, backward, &c, 0, 0);
    e->neither += neither;
    e->dim += executed_by(bf16, backward, &c, s->dim, 0) - neither;
    e->values += executed_by(bf16, backward, &c, 0, s->value_dim) - neither;
}

/* What all passes compute of one sequence. */
static executed executed_of(const job *j, bool bf16, int64_t i) {
    const qkv_attention_shape *s = j->s;
    const qkv_seen seen = qkv_attention_seen(s, i);
    executed e = {0};
    for (int64_t c = 0; c < qkv_dilation(&s->pattern) && !j->groups; c++) {
        const qkv_residue r = qkv_residue_of(&seen, c);
        add_executed(s, bf16, j->backward, (call){r.n_q, r.n_k, s->left, s->right, NULL, false}, &e);
    }
    for (int64_t g = 0, groups = qkv_attend_has_further(s) ? qkv_groups(&seen) : 0; g < groups; g++) {
        const qkv_group group = qkv_group_of(&seen, g);
        const qkv_range rows = {group.first, group.first + group.rows};
        if (j->groups) add_executed(s, false, false, (call){seen.n_q, seen.n_k, s->left, s->right, &rows, false}, &e);
        const bool beside = j->beside && qkv_residue_of(&seen, group.class).n_k > 0; /* or they are all that its queries have */
        add_executed(s, false, j->backward, (call){group.rows, qkv_group_keys(&seen, &group), -1, -1, NULL, beside}, &e);
    }
    const int64_t globals = qkv_attend_has_global(s) ? qkv_globals(&seen) - qkv_globals_before(&seen) : 0;
    add_executed(s, false, j->backward, (call){globals, seen.n_k, -1, -1, NULL, false}, &e);
    return e;
}

/* Vectors by distance: products of queries, and of dO, with all of them; backward their part of dq, and their own gradients. */
typedef struct shaw_cost {
    executed macs, executed;
} shaw_cost;

static void add_shaw(const job *j, int64_t queries, executed *macs, executed *computed) {
    const qkv_attention_shape *s = j->s;
    qkv_cost (*cost)(int64_t, int64_t, int64_t, int64_t) = j->backward ? qkv_cost_attend_shaw_backward : qkv_cost_attend_shaw_forward;
    const qkv_cost dim = cost(queries, s->shaw_reach, s->dim, 0), values = cost(queries, s->shaw_reach, 0, s->value_dim);
    if (macs) macs->dim += dim.flops / 2, macs->values += values.flops / 2;
    computed->dim += dim.executed / 2;
    computed->values += values.executed / 2;
}

/* The gradients of the vectors. Rows of global queries with projections of their own are 0 among all, and come once more. */
static void add_shaw_gradient(const qkv_attention_shape *s, int64_t queries, int64_t apart, shaw_cost *c) {
    const int64_t count = 2 * s->shaw_reach + 1;
    const qkv_cost dkeys = qkv_cost_gemm(count, s->dim, queries), dvalues = qkv_cost_gemm(count, s->value_dim, queries);
    c->macs.dim += dkeys.flops / 2;
    c->macs.values += dvalues.flops / 2;
    c->executed.dim += (dkeys.executed + qkv_cost_gemm(count, s->dim, apart).executed) / 2;
    c->executed.values += dvalues.executed / 2;
}

/* Queries of calls with keys: of the window and what is beside it. Further passes go over some of them again. */
static shaw_cost shaw_cost_of(const job *j, const qkv_seen *seen) {
    const qkv_attention_shape *s = j->s;
    const int64_t globals = qkv_attend_has_global(s) ? qkv_globals(seen) - qkv_globals_before(seen) : 0;
    shaw_cost c = {0};
    if (!s->shaw_keys) return c;
    for (int64_t i = 0; i < qkv_dilation(&s->pattern); i++) {
        const qkv_residue r = qkv_residue_of(seen, i);
        if (r.n_k > 0 || (j->beside && qkv_globals(seen) > 0)) add_shaw(j, r.n_q, &c.macs, &c.executed);
    }
    add_shaw(j, globals, NULL, &c.executed);
    for (int64_t g = 0, groups = j->backward && !j->beside && qkv_attend_has_further(s) ? qkv_groups(seen) : 0; g < groups; g++) {
        const qkv_group group = qkv_group_of(seen, g);
        if (qkv_group_keys(seen, &group) > 0) add_shaw(j, group.rows, NULL, &c.executed);
    }
    if (j->backward && s->shaw_dkeys) add_shaw_gradient(s, seen->n_q, s->apart ? globals : 0, &c);
    return c;
}

/* What terms of the scores cost beside products, of all heads: a pair's distance, its product with the slope and their sum; a sum with a
 * bias; for a column that is turned two products and a sum. */
static double terms_flops(const qkv_attention_shape *s, bool backward, double pairs, const qkv_seen *seen) {
    double flops = 0;
    if (s->alibi) flops += 3 * pairs;
    if (s->bias) flops += pairs * (backward && s->bias_grad ? 2 : 1);
    if (s->shaw_keys) flops += pairs * (backward ? 4 : 2);
    if (s->rope_cos)
        flops += 3 * (double)s->rope_dim * (backward ? 2 : 1) *
                 ((double)seen->n_q * (double)s->heads + (double)seen->n_k * (double)s->kv_heads);
    return flops;
}

typedef struct charges {
    qkv_charge scores, softmax, values;
} charges;

static void add_sequence(const job *j, bool tiles, bool bf16, int64_t i, charges *c) {
    const qkv_attention_shape *s = j->s;
    const qkv_seen seen = qkv_attention_seen(s, i);
    const double heads = (double)s->heads, pairs = (double)qkv_pattern_pairs(&seen) * heads;
    const shaw_cost shaw = shaw_cost_of(j, &seen);
    const double scores = pairs * (double)s->dim * (j->backward ? 3 : 1) + shaw.macs.dim * heads;
    const double values = pairs * (double)s->value_dim * (j->backward ? 2 : 1) + shaw.macs.values * heads;
    c->scores.macs += scores;
    c->values.macs += values;
    c->scores.flops += 2 * scores;
    c->values.flops += 2 * values;
    c->softmax.flops += qkv_flops_attend_softmax(j->backward, pairs / heads, seen.n_q, seen.n_k, s->dim, s->value_dim) * heads;
    c->softmax.flops += terms_flops(s, j->backward, pairs, &seen);
    if (!tiles) return;
    const executed e = executed_of(j, bf16, i);
    c->softmax.executed += e.neither * heads;
    c->scores.executed += (e.dim + shaw.executed.dim) * heads;
    c->values.executed += (e.values + shaw.executed.values) * heads;
}

/* Every operand once: q, k, v, o, lse; backward also dout, dq, dk, dv. */
static void add_bytes(const qkv_attention_shape *s, bool backward, charges *c) {
    const double q = (double)(s->sequences > 0 ? attend_q_from(s, s->sequences) : 0), k = (double)(s->sequences > 0 ? s->k_offset[s->sequences] : 0);
    const double apart = s->apart && qkv_attend_has_global(s) ? (double)qkv_attention_globals(s) : 0;
    const double queries = q * (double)s->heads, keys = k * (double)s->kv_heads * (apart > 0 ? 2 : 1), both = (backward ? 2 : 1) * sizeof(real);
    c->scores.bytes = both * (queries + keys + apart * (double)s->heads) * (double)s->dim;
    c->values.bytes = both * (queries + keys) * (double)s->value_dim;
    c->softmax.bytes = queries * sizeof(real);
}

static void add_charge(qkv_charge *to, const qkv_charge *c) {
    to->macs += c->macs;
    to->flops += c->flops;
    to->executed += c->executed;
}

/* What the tiles compute is asked for only where somebody will look at it. Sequences of one length are often side by side. */
void qkv_attend_book(qkv_exec *x, const job *j) {
    const bool tiles = x->ledger != NULL, bf16 = j->bf16 != NULL;
    const bool lists = j->s->pattern.global_offset;
    charges c = {0}, one = {0};
    for (int64_t i = 0, q = -1, k = -1; i < j->s->sequences; i++) {
        const qkv_seen seen = qkv_attention_seen(j->s, i);
        if (seen.n_q != q || seen.n_k != k || lists) {
            q = seen.n_q;
            k = seen.n_k;
            one = (charges){0};
            add_sequence(j, tiles, bf16, i, &one);
        }
        add_charge(&c.scores, &one.scores);
        add_charge(&c.softmax, &one.softmax);
        add_charge(&c.values, &one.values);
    }
    add_bytes(j->s, j->backward, &c);
    qkv_exec_charge(x, QKV_CLASS_ATTENTION, QKV_WORK_SCORES, c.scores);
    qkv_exec_charge(x, QKV_CLASS_ATTENTION, QKV_WORK_SOFTMAX, c.softmax);
    qkv_exec_charge(x, QKV_CLASS_ATTENTION, QKV_WORK_VALUES, c.values);
}
