/* The attention op against plain loops in double: head groupings, spans, ragged batches with empty sequences on either side,
 * row blocks and many chunks, terms; backward against the same loops' gradient; rows that see nothing. */
#include "ops.h"

#include "ops/attention.h"

typedef struct dense {
    int64_t n_q, n_k;
    double *p; /* [n_q][n_k] weights, dropout not applied */
    double *lse;
} dense;

static double score(const qkv_attention_shape *s, int64_t h, int64_t at, int64_t j, const real *q, const real *k) {
    double x = 0;
    for (int64_t c = 0; c < s->dim; c++) x += (double)q[c] * (double)k[c];
    x *= (double)s->scale;
    if (s->softcap > 0) x = (double)s->softcap * tanh(x / (double)s->softcap);
    if (s->alibi) x -= (double)s->alibi[h] * (double)(at > j ? at - j : j - at);
    return x;
}

static dense weigh(const qkv_attention_shape *s, int64_t h, int64_t n_q, int64_t n_k, const real *q, int64_t q_row, const real *k, int64_t k_row) {
    dense d = {n_q, n_k, calloc((size_t)(n_q * n_k + 1), sizeof(double)), calloc((size_t)n_q + 1, sizeof(double))};
    for (int64_t i = 0; i < n_q; i++) {
        int64_t at = i + n_k - n_q;
        double top = -INFINITY, sum = 0;
        for (int pass = 0; pass < 3; pass++)
            for (int64_t j = 0; j < n_k; j++) {
                if ((s->left >= 0 && at - j > s->left) || (s->right >= 0 && j - at > s->right)) continue;
                double x = score(s, h, at, j, q + i * q_row, k + j * k_row);
                if (pass == 0) top = fmax(top, x);
                if (pass == 1) sum += exp(x - top);
                if (pass == 2) d.p[i * n_k + j] = exp(x - top) / sum;
            }
        d.lse[i] = sum > 0 ? top + log(sum) : -INFINITY;
    }
    return d;
}

typedef struct buffers {
    qkv_mat q, k, v, o, d_o, dq, dk, dv, lse;
} buffers;

static buffers make(const qkv_attention_shape *s) {
    int64_t nq = s->q_offset ? s->q_offset[s->sequences] : s->sequences, nk = s->k_offset[s->sequences];
    int64_t q = s->heads * s->dim, k = s->kv_heads * s->dim, v = s->kv_heads * s->value_dim, o = s->heads * s->value_dim;
    return (buffers){ops_mat(nq, q, q + 3, 1), ops_mat(nk, k, k + 1, 2),  ops_mat(nk, v, v + 2, 3),
                     ops_mat(nq, o, o + 5, 4), ops_mat(nq, o, o, 5),      ops_mat(nq, q, q + 4, 6),
                     ops_mat(nk, k, k, 7),     ops_mat(nk, v, v + 7, 8),  ops_mat(s->heads, nq, nq, 9)};
}

static void discard(buffers *b) {
    qkv_mat *all = (qkv_mat *)b;
    for (size_t i = 0; i < sizeof *b / sizeof *all; i++) {
        ops_untouched(all[i]);
        free(all[i].p);
    }
}

/* One head of one sequence: output, log-sum-exp, dq; and what it adds to dk and dv. */
static void check_head(const qkv_attention_shape *s, const buffers *b, int64_t i, int64_t h, double *dk, double *dv) {
    int64_t q0 = s->q_offset[i], k0 = s->k_offset[i], n_q = s->q_offset[i + 1] - q0, n_k = s->k_offset[i + 1] - k0;
    int64_t kv = h / (s->heads / s->kv_heads), dim = s->dim, wide = s->value_dim;
    const real *q = b->q.p + q0 * b->q.ld + h * dim, *k = b->k.p + k0 * b->k.ld + kv * dim, *v = b->v.p + k0 * b->v.ld + kv * wide;
    dense d = weigh(s, h, n_q, n_k, q, b->q.ld, k, b->k.ld);
    for (int64_t r = 0; r < n_q; r++) {
        const real *o = b->o.p + (q0 + r) * b->o.ld + h * wide, *d_o = b->d_o.p + (q0 + r) * b->d_o.ld + h * wide;
        double got = (double)b->lse.p[h * b->lse.ld + q0 + r], row = 0, dq[64] = {0};
        if (d.lse[r] == -INFINITY) assert_true(got == -INFINITY);
        else ops_near("lse", got, d.lse[r], 1e-5);
        for (int64_t c = 0; c < wide; c++) {
            double sum = 0;
            for (int64_t j = 0; j < n_k; j++) sum += d.p[r * n_k + j] * (double)v[j * b->v.ld + c];
            ops_near("o", (double)o[c], sum, 1e-5);
            row += (double)d_o[c] * sum;
        }
        for (int64_t j = 0; j < n_k; j++) {
            double p = d.p[r * n_k + j], dp = 0;
            for (int64_t c = 0; c < wide; c++) {
                dp += (double)d_o[c] * (double)v[j * b->v.ld + c];
                dv[j * wide + c] += p * (double)d_o[c];
            }
            double ds = p * (dp - row) * (double)s->scale;
            if (s->softcap > 0 && p > 0) { /* d cap*tanh(x/cap) = 1 - tanh^2 */
                double x = score(s, h, 0, 0, q + r * b->q.ld, k + j * b->k.ld) / (double)s->softcap;
                ds *= 1 - x * x;
            }
            for (int64_t c = 0; c < dim; c++) {
                dq[c] += ds * (double)k[j * b->k.ld + c];
                dk[j * dim + c] += ds * (double)q[r * b->q.ld + c];
            }
        }
        for (int64_t c = 0; c < dim; c++) ops_near("dq", (double)b->dq.p[(q0 + r) * b->dq.ld + h * dim + c], dq[c], 3e-5);
    }
    free(d.p);
    free(d.lse);
}

static void check(const qkv_attention_shape *s, const buffers *b) {
    int64_t group = s->heads / s->kv_heads;
    for (int64_t i = 0; i < s->sequences; i++)
        for (int64_t kv = 0; kv < s->kv_heads; kv++) {
            int64_t k0 = s->k_offset[i], n_k = s->k_offset[i + 1] - k0;
            double *dk = calloc((size_t)(n_k * s->dim + 1), sizeof *dk), *dv = calloc((size_t)(n_k * s->value_dim + 1), sizeof *dv);
            for (int64_t h = kv * group; h < (kv + 1) * group; h++) check_head(s, b, i, h, dk, dv);
            for (int64_t j = 0; j < n_k; j++) {
                for (int64_t c = 0; c < s->dim; c++)
                    ops_near("dk", (double)b->dk.p[(k0 + j) * b->dk.ld + kv * s->dim + c], dk[j * s->dim + c], 3e-5);
                for (int64_t c = 0; c < s->value_dim; c++)
                    ops_near("dv", (double)b->dv.p[(k0 + j) * b->dv.ld + kv * s->value_dim + c], dv[j * s->value_dim + c], 3e-5);
            }
            free(dk);
            free(dv);
        }
}

static void run(qkv_exec *x, const qkv_attention_shape *s, const buffers *b, ops_bench *bench) {
    qkv_heads q = qkv_heads_of(b->q, s->dim), k = qkv_heads_of(b->k, s->dim), v = qkv_heads_of(b->v, s->value_dim), o = qkv_heads_of(b->o, s->value_dim);
    x->pass = QKV_PASS_FORWARD;
    OPS_OK(qkv_attend_forward(x, s, q, k, v, o, b->lse.p));
    x->pass = QKV_PASS_BACKWARD;
    OPS_OK(qkv_attend_backward(x, s, q, k, v, o, b->lse.p, qkv_heads_of(b->d_o, s->value_dim), qkv_heads_of(b->dq, s->dim),
                               qkv_heads_of(b->dk, s->dim), qkv_heads_of(b->dv, s->value_dim)));
}

static void one(qkv_attention_shape s, int threads, bool compare) {
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, threads);
    qkv_exec plan = {.ctx = &bench->ctx, .plan = true};
    s.scale = (real)(1 / sqrt((double)s.dim));
    buffers nothing = {.q.ld = 1}, b = make(&s);
    run(&plan, &s, &nothing, bench);
    ops_ready(bench, plan.arena.peak);
    run(&bench->x, &s, &b, bench);
    assert_int_equal(bench->x.arena.peak, plan.arena.peak);
    assert_memory_equal(&bench->x.tally, &plan.tally, sizeof plan.tally);
    if (compare) check(&s, &b);
    discard(&b);
    ops_end(bench);
}

static void groupings_and_spans(void **state) {
    (void)state;
    static const int64_t q_offset[] = {0, 7, 7, 8, 10, 38}, k_offset[] = {0, 7, 12, 12, 21, 49};
    static const int64_t heads[][2] = {{1, 1}, {4, 4}, {4, 2}, {6, 2}, {3, 1}};
    static const int64_t spans[][2] = {{-1, -1}, {-1, 0}, {0, 0}, {2, 3}, {0, -1}, {100, 1}, {5, INT64_MAX}};
    static const int64_t dims[][2] = {{1, 1}, {3, 5}, {16, 16}, {20, 8}};
    for (size_t h = 0; h < 5; h++)
        for (size_t p = 0; p < 7; p++) {
            size_t d = (h + p) % 4;
            qkv_attention_shape s = {.sequences = 5, .q_offset = q_offset, .k_offset = p % 2 ? q_offset : k_offset, .heads = heads[h][0],
                                     .kv_heads = heads[h][1], .dim = dims[d][0], .value_dim = dims[d][1], .left = spans[p][0], .right = spans[p][1]};
            one(s, 2, true);
        }
}

static void terms(void **state) {
    (void)state;
    static const int64_t offset[] = {0, 30, 31, 80};
    static const float slopes[] = {0.5f, 0.25f, 0.0625f, 0};
    qkv_attention_shape s = {.sequences = 3, .q_offset = offset, .k_offset = offset, .heads = 4, .kv_heads = 2, .dim = 8, .value_dim = 8,
                             .left = -1, .right = -1, .alibi = slopes};
    one(s, 2, true);
    s.alibi = NULL;
    s.softcap = (real)1.5;
    one(s, 2, true);
}

/* Long enough for several row blocks a head and more than one chunk. */
static void long_sequences(void **state) {
    (void)state;
    static const int64_t offset[] = {0, 1100, 1100, 1103};
    for (int i = 0; i < 3; i++)
        one((qkv_attention_shape){.sequences = 3, .q_offset = offset, .k_offset = offset, .heads = 2, .kv_heads = 1, .dim = 16, .value_dim = 16,
                                  .left = i == 2 ? 40 : -1, .right = i == 0 ? -1 : i == 1 ? 0 : 7}, 3, true);
}

static void many_sequences(void **state) {
    (void)state;
    int64_t offset[301] = {0};
    for (int i = 0; i < 300; i++) offset[i + 1] = offset[i] + (int64_t)qkv_below((uint64_t)i, 40);
    one((qkv_attention_shape){.sequences = 300, .q_offset = offset, .k_offset = offset, .heads = 4, .kv_heads = 4, .dim = 8, .value_dim = 8,
                              .left = -1, .right = -1}, 3, true);
}

/* The last queries see nothing where keys end before them; so do all queries of a sequence without keys. */
static void blind_rows(void **state) {
    (void)state;
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 1);
    static const int64_t q_offset[] = {0, 9, 12}, k_offset[] = {0, 4, 4};
    qkv_attention_shape s = {.sequences = 2, .q_offset = q_offset, .k_offset = k_offset, .heads = 2, .kv_heads = 2, .dim = 4, .value_dim = 4,
                             .scale = (real)0.5, .left = -1, .right = 0};
    buffers b = make(&s);
    ops_ready(bench, 1 << 20);
    run(&bench->x, &s, &b, bench);
    int blind = 0;
    for (int64_t r = 0; r < 12; r++)
        for (int64_t h = 0; h < 2; h++) {
            bool sees = r >= 5 && r < 9; /* query i of 9 stands at i + 4 - 9 */
            if (sees) continue;
            blind++;
            assert_true(b.lse.p[h * 12 + r] == -INFINITY);
            for (int64_t c = 4 * h; c < 4 * h + 4; c++) assert_true(ops_at(b.o, r, c) == 0 && ops_at(b.dq, r, c) == 0);
        }
    assert_int_equal(blind, 16);
    check(&s, &b);
    discard(&b);
    ops_end(bench);
}

/* Every query the same row, one a sequence: as attention pooling asks for. */
static void one_query(void **state) {
    (void)state;
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 2);
    static const int64_t offset[] = {0, 5, 5, 6, 20}, each[] = {0, 1, 2, 3, 4};
    qkv_attention_shape s = {.sequences = 4, .k_offset = offset, .heads = 2, .kv_heads = 2, .dim = 8, .value_dim = 8, .scale = (real)0.3,
                             .left = -1, .right = -1};
    buffers b = make(&s), c = make(&s);
    ops_ready(bench, 1 << 20);
    for (int64_t r = 1; r < 4; r++) memcpy(b.q.p + r * b.q.ld, b.q.p, 16 * sizeof(real));
    qkv_heads shared = {b.q.p, 0, 8};
    OPS_OK(qkv_attend_forward(&bench->x, &s, shared, qkv_heads_of(b.k, 8), qkv_heads_of(b.v, 8), qkv_heads_of(c.o, 8), c.lse.p));
    OPS_OK(qkv_attend_backward(&bench->x, &s, shared, qkv_heads_of(b.k, 8), qkv_heads_of(b.v, 8), qkv_heads_of(c.o, 8), c.lse.p,
                               qkv_heads_of(b.d_o, 8), qkv_heads_of(c.dq, 8), qkv_heads_of(c.dk, 8), qkv_heads_of(c.dv, 8)));
    s.q_offset = each;
    run(&bench->x, &s, &b, bench);
    check(&s, &b);
    for (int64_t r = 0; r < 4; r++)
        for (int64_t i = 0; i < 16; i++) assert_true(ops_at(b.o, r, i) == ops_at(c.o, r, i) && ops_at(b.dq, r, i) == ops_at(c.dq, r, i));
    for (int64_t r = 0; r < 20; r++)
        for (int64_t i = 0; i < 16; i++) assert_true(ops_at(b.dk, r, i) == ops_at(c.dk, r, i) && ops_at(b.dv, r, i) == ops_at(c.dv, r, i));
    discard(&b);
    discard(&c);
    ops_end(bench);
}

static void weights(void **state) {
    (void)state;
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 1);
    static const int64_t offset[] = {0, 3, 10};
    qkv_attention_shape s = {.sequences = 2, .q_offset = offset, .k_offset = offset, .heads = 4, .kv_heads = 2, .dim = 6, .value_dim = 6,
                             .scale = (real)0.4, .left = 2, .right = 1, .dropout = {.p = (real)0.5, .key = 1}};
    buffers b = make(&s);
    ops_ready(bench, 64);
    real got[49];
    bench->x.plan = true; /* row keys are not needed to look at weights */
    OPS_OK(qkv_attend_weights(&bench->x, &s, qkv_heads_of(b.q, 6), qkv_heads_of(b.k, 6), 1, 3, NULL));
    bench->x.plan = false;
    s.dropout.p = 0;
    OPS_OK(qkv_attend_weights(&bench->x, &s, qkv_heads_of(b.q, 6), qkv_heads_of(b.k, 6), 1, 3, got));
    dense d = weigh(&s, 3, 7, 7, b.q.p + 3 * b.q.ld + 18, b.q.ld, b.k.p + 3 * b.k.ld + 6, b.k.ld);
    for (int i = 0; i < 49; i++) ops_near("weight", (double)got[i], d.p[i], 1e-5);
    free(d.p);
    free(d.lse);
    assert_int_equal(qkv_attend_weights(&bench->x, &s, qkv_heads_of(b.q, 6), qkv_heads_of(b.k, 6), 2, 0, got), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_attend_weights(&bench->x, &s, qkv_heads_of(b.q, 6), qkv_heads_of(b.k, 6), 0, 4, got), QKV_BAD_ARGUMENT);
    discard(&b);
    ops_end(bench);
}

static void wrong_shapes(void **state) {
    (void)state;
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 1);
    ops_ready(bench, 4096);
    static const int64_t offset[] = {0, 2, 1}, late[] = {1, 2, 3}, good[] = {0, 1, 2};
    qkv_attention_shape ok = {.sequences = 2, .q_offset = good, .k_offset = good, .heads = 4, .kv_heads = 2, .dim = 2, .value_dim = 2}, s;
    qkv_heads none = {0};
#define REFUSED(change)                                                                                                     \
    s = ok;                                                                                                                 \
    change;                                                                                                                 \
    assert_int_equal(qkv_attend_forward(&bench->x, &s, none, none, none, none, NULL), QKV_INTERNAL)
    REFUSED(s.kv_heads = 3);
    REFUSED(s.heads = 0);
    REFUSED(s.dim = 0);
    REFUSED(s.sequences = -1);
    REFUSED(s.q_offset = offset);
    REFUSED(s.k_offset = offset);
    REFUSED(s.q_offset = late);
    REFUSED(s.dropout.p = (real)0.5);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(groupings_and_spans), cmocka_unit_test(terms), cmocka_unit_test(long_sequences),
                                       cmocka_unit_test(many_sequences), cmocka_unit_test(blind_rows), cmocka_unit_test(one_query),
                                       cmocka_unit_test(weights), cmocka_unit_test(wrong_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
