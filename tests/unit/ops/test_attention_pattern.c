/* Patterns of attention against plain loops in double over an explicit list of who sees whom: dilation, global tokens by rule and
 * by list, random blocks, all with terms by distance; hidden numbers are NaN; pairs are counted. */
#include "ops.h"

#include "ops/attention.h"

/* ---- who sees whom, said again in the plainest way ---- */

static bool is_global(const qkv_attention_shape *s, int64_t seq, int64_t at) {
    const qkv_pattern *p = &s->pattern;
    if (at < 0) return false;
    if (at < p->global_first || (p->global_every > 0 && at % p->global_every == 0)) return true;
    for (int64_t g = p->global_offset ? p->global_offset[seq] : 0, end = p->global_offset ? p->global_offset[seq + 1] : 0; g < end;
         g++)
        if (p->global_at[g] == at) return true;
    return false;
}

/* The blocks that block b of queries was given are known to the op alone; what must hold of them is tested apart. */
static bool in_random(const qkv_attention_shape *s, int64_t seq, int64_t i, int64_t k) {
    const qkv_seen seen = qkv_attention_seen(s, seq);
    int32_t list[512];
    if (s->pattern.random_blocks == 0) return false;
    for (int64_t g = 0; g < qkv_groups(&seen); g++) {
        const qkv_group group = qkv_group_of(&seen, g);
        if (i < group.first || i >= group.first + group.rows) continue;
        const int64_t keys = qkv_group_list(&seen, &group, list);
        for (int64_t l = 0; l < keys; l++)
            if (list[l] == k) return true;
    }
    return false;
}

static bool sees(const qkv_attention_shape *s, int64_t seq, int64_t i, int64_t k) {
    const int64_t n_q = s->q_offset[seq + 1] - s->q_offset[seq], n_k = s->k_offset[seq + 1] - s->k_offset[seq], at = i + n_k - n_q;
    const int64_t step = s->pattern.dilation > 1 ? s->pattern.dilation : 1, away = k - at;
    if (s->right == 0 && away > 0) return false;
    if (is_global(s, seq, at) || is_global(s, seq, k) || in_random(s, seq, i, k)) return true;
    if (away % step != 0) return false;
    return away > 0 ? s->right < 0 || away <= s->right * step : s->left < 0 || -away <= s->left * step;
}

/* ---- the reference ---- */

typedef struct buffers {
    qkv_mat q, k, v, o, d_o, dq, dk, dv, lse;
    qkv_mat gq, gk, gv, dgq, dgk, dgv;
    qkv_mat far[2], dfar[2]; /* vectors by distance, of keys and of values */
    real *bias_grad;
} buffers;

static int64_t distances(const qkv_attention_shape *s) { return s->shaw_keys ? 2 * s->shaw_reach + 1 : 0; }

static int64_t total(const int64_t *offset, const qkv_attention_shape *s) {
    return offset[s->sequences];
}

static buffers make(const qkv_attention_shape *s) {
    const int64_t nq = total(s->q_offset, s), nk = total(s->k_offset, s), g = qkv_attention_globals(s);
    const int64_t q = s->heads * s->dim, k = s->kv_heads * s->dim, v = s->kv_heads * s->value_dim, o = s->heads * s->value_dim;
    return (buffers){ops_mat(nq, q, q + 3, 1),     ops_mat(nk, k, k + 1, 2),
                     ops_mat(nk, v, v + 2, 3),     ops_mat(nq, o, o + 5, 4),
                     ops_mat(nq, o, o, 5),         ops_mat(nq, q, q + 4, 6),
                     ops_mat(nk, k, k, 7),         ops_mat(nk, v, v + 7, 8),
                     ops_mat(s->heads, nq, nq, 9), ops_mat(g, q, q + 2, 10),
                     ops_mat(nk, k, k + 3, 11),    ops_mat(nk, v, v, 12),
                     ops_mat(g, q, q + 1, 13),     ops_mat(nk, k, k + 2, 14),
                     ops_mat(nk, v, v + 1, 15),
                     {ops_mat(distances(s), s->dim, s->dim, 16), ops_mat(distances(s), s->value_dim, s->value_dim, 17)},
                     {ops_mat(distances(s), s->dim, s->dim, 18), ops_mat(distances(s), s->value_dim, s->value_dim, 19)},
                     calloc((size_t)(s->heads * (2 * s->bias_reach + 1)), sizeof(real))};
}

static void discard(buffers *b) {
    qkv_mat *all = (qkv_mat *)b;
    for (size_t i = 0; i < 19; i++) {
        ops_untouched(all[i]);
        free(all[i].p);
    }
    free(b->bias_grad);
}

/* Rotation by hand; back: by the opposite angle. */
static void rotate(const qkv_attention_shape *s, double *x, int64_t at, double sign) {
    const int64_t half = s->rope_dim / 2;
    for (int64_t c = 0; s->rope_cos && c < half; c++) {
        const double co = (double)s->rope_cos[(s->rope_offset + at) * half + c],
                     si = sign * (double)s->rope_sin[(s->rope_offset + at) * half + c];
        const double low = x[c], high = x[c + half];
        x[c] = low * co - high * si;
        x[c + half] = high * co + low * si;
    }
}

typedef struct head_case {
    const qkv_attention_shape *s;
    const buffers *b;
    int64_t seq, h, kv, n_q, n_k, q0, k0;
    double *dk, *dv, *dgk, *dgv, *bias; /* sums of the kv head, [n_k][...]; bias of this head */
    double *dfar[2];                    /* of all */
} head_case;

static int64_t clamp(int64_t x, int64_t reach) {
    return x < -reach ? -reach : x > reach ? reach : x;
}

static void load(double *to, qkv_mat m, int64_t row, int64_t head, int64_t width) {
    for (int64_t c = 0; c < width; c++) to[c] = (double)m.p[row * m.ld + head * width + c];
}

/* x += the vector of this distance. */
static void add_far(const head_case *x, int which, int64_t distance, double *to) {
    const qkv_mat m = x->b->far[which];
    for (int64_t c = 0; x->s->shaw_keys && c < m.cols; c++) to[c] += (double)m.p[(clamp(distance, x->s->shaw_reach) + x->s->shaw_reach) * m.ld + c];
}

/* And its gradient takes this in. */
static void add_dfar(const head_case *x, int which, int64_t distance, double factor, const double *from) {
    const int64_t wide = x->b->far[which].cols;
    for (int64_t c = 0; x->s->shaw_keys && c < wide; c++) x->dfar[which][(clamp(distance, x->s->shaw_reach) + x->s->shaw_reach) * wide + c] += factor * from[c];
}

static void check_row(head_case *x, int64_t i) {
    const qkv_attention_shape *s = x->s;
    const buffers *b = x->b;
    const int64_t at = i + x->n_k - x->n_q, dim = s->dim, wide = s->value_dim;
    const bool apart = s->apart && is_global(s, x->seq, at);
    int64_t row = 0; /* among the global queries */
    for (int64_t t = 0; t <= x->seq; t++) {
        const int64_t nq = s->q_offset[t + 1] - s->q_offset[t], nk = s->k_offset[t + 1] - s->k_offset[t];
        for (int64_t r = 0; r < (t < x->seq ? nq : i); r++) row += is_global(s, t, r + nk - nq);
    }
    double q[16], d_o[16], dq[16] = {0}, out[16] = {0}, *p = calloc((size_t)x->n_k + 1, sizeof *p), top = -INFINITY, sum = 0, d = 0;
    load(q, apart ? b->gq : b->q, apart ? row : x->q0 + i, x->h, dim);
    load(d_o, b->d_o, x->q0 + i, x->h, wide);
    rotate(s, q, at, 1);
    for (int pass = 0; pass < 3; pass++)
        for (int64_t j = 0; j < x->n_k; j++) {
            if (!sees(s, x->seq, i, j)) continue;
            double k[16], v[16], score = 0;
            load(k, apart ? b->gk : b->k, x->k0 + j, x->kv, dim);
            load(v, apart ? b->gv : b->v, x->k0 + j, x->kv, wide);
            rotate(s, k, j, 1);
            add_far(x, 0, j - at, k);
            add_far(x, 1, j - at, v);
            for (int64_t c = 0; c < dim; c++) score += q[c] * k[c];
            score *= (double)s->scale;
            if (s->softcap > 0) score = (double)s->softcap * tanh(score / (double)s->softcap);
            if (s->alibi) score -= (double)s->alibi[x->h] * (double)llabs(at - j);
            if (s->bias) score += (double)s->bias[x->h * (2 * s->bias_reach + 1) + clamp(j - at, s->bias_reach) + s->bias_reach];
            if (pass == 0) top = fmax(top, score);
            if (pass == 1) sum += exp(score - top);
            if (pass == 2) p[j] = exp(score - top) / sum;
            for (int64_t c = 0; pass == 2 && c < wide; c++) out[c] += p[j] * v[c];
        }
    const double lse = sum > 0 ? top + log(sum) : -INFINITY, got = (double)b->lse.p[x->h * b->lse.ld + x->q0 + i];
    if (sum > 0)
        ops_near("lse", got, lse, 1e-5);
    else
        assert_true(got == -INFINITY);
    for (int64_t c = 0; c < wide; c++) ops_near("o", (double)b->o.p[(x->q0 + i) * b->o.ld + x->h * wide + c], out[c], 1e-5);
    for (int64_t c = 0; c < wide; c++) d += d_o[c] * out[c];
    for (int64_t j = 0; j < x->n_k; j++) {
        if (!sees(s, x->seq, i, j)) continue;
        double k[16], v[16], dp = 0, raw = 0, to_k[16];
        load(k, apart ? b->gk : b->k, x->k0 + j, x->kv, dim);
        load(v, apart ? b->gv : b->v, x->k0 + j, x->kv, wide);
        rotate(s, k, j, 1);
        add_far(x, 0, j - at, k);
        add_far(x, 1, j - at, v);
        add_dfar(x, 1, j - at, p[j], d_o);
        for (int64_t c = 0; c < wide; c++) {
            dp += d_o[c] * v[c];
            (apart ? x->dgv : x->dv)[j * wide + c] += p[j] * d_o[c];
        }
        double ds = p[j] * (dp - d);
        if (s->bias) x->bias[clamp(j - at, s->bias_reach) + s->bias_reach] += ds;
        for (int64_t c = 0; c < dim; c++) raw += q[c] * k[c];
        if (s->softcap > 0) ds *= 1 - pow(tanh(raw * (double)s->scale / (double)s->softcap), 2);
        add_dfar(x, 0, j - at, ds * (double)s->scale, q);
        for (int64_t c = 0; c < dim; c++) {
            dq[c] += ds * (double)s->scale * k[c];
            to_k[c] = ds * (double)s->scale * q[c];
        }
        rotate(s, to_k, j, -1);
        for (int64_t c = 0; c < dim; c++) (apart ? x->dgk : x->dk)[j * dim + c] += to_k[c];
    }
    rotate(s, dq, at, -1);
    for (int64_t c = 0; c < dim; c++) {
        ops_near("dq", (double)b->dq.p[(x->q0 + i) * b->dq.ld + x->h * dim + c], apart ? 0 : dq[c], 3e-5);
        if (apart) ops_near("dgq", (double)b->dgq.p[row * b->dgq.ld + x->h * dim + c], dq[c], 3e-5);
    }
    free(p);
}

static void check_keys(const char *what, const head_case *x, qkv_mat got, const double *expected, int64_t width) {
    for (int64_t j = 0; j < x->n_k; j++)
        for (int64_t c = 0; c < width; c++)
            ops_near(what, (double)got.p[(x->k0 + j) * got.ld + x->kv * width + c], expected[j * width + c], 4e-5);
}

static void check(const qkv_attention_shape *s, const buffers *b) {
    const int64_t group = s->heads / s->kv_heads, wide = 2 * s->bias_reach + 1;
    double *bias = calloc((size_t)(s->heads * wide), sizeof *bias), *dfar[2];
    for (int i = 0; i < 2; i++) dfar[i] = calloc((size_t)(b->far[i].rows * b->far[i].cols + 1), sizeof(double));
    for (int64_t seq = 0; seq < s->sequences; seq++)
        for (int64_t kv = 0; kv < s->kv_heads; kv++) {
            head_case x = {.s = s, .b = b, .seq = seq, .kv = kv, .q0 = s->q_offset[seq], .k0 = s->k_offset[seq], .dfar = {dfar[0], dfar[1]}};
            x.n_q = s->q_offset[seq + 1] - x.q0;
            x.n_k = s->k_offset[seq + 1] - x.k0;
            double **sums[] = {&x.dk, &x.dv, &x.dgk, &x.dgv};
            for (int i = 0; i < 4; i++) *sums[i] = calloc((size_t)(x.n_k * 16 + 1), sizeof(double));
            for (x.h = kv * group; x.h < (kv + 1) * group; x.h++) {
                x.bias = bias + x.h * wide;
                for (int64_t i = 0; i < x.n_q; i++) check_row(&x, i);
            }
            check_keys("dk", &x, b->dk, x.dk, s->dim);
            check_keys("dv", &x, b->dv, x.dv, s->value_dim);
            if (s->apart) {
                check_keys("dgk", &x, b->dgk, x.dgk, s->dim);
                check_keys("dgv", &x, b->dgv, x.dgv, s->value_dim);
            }
            for (int i = 0; i < 4; i++) free(*sums[i]);
        }
    for (int64_t i = 0; s->bias && i < s->heads * wide; i++) ops_near("bias gradient", (double)b->bias_grad[i], bias[i], 1e-4);
    free(bias);
    for (int i = 0; i < 2; i++) {
        for (int64_t r = 0; r < b->far[i].rows; r++)
            for (int64_t c = 0, wide_of = b->far[i].cols; c < wide_of; c++)
                ops_near("gradient of vectors by distance", (double)ops_at(b->dfar[i], r, c), dfar[i][r * wide_of + c], 2e-4);
        free(dfar[i]);
    }
}

/* ---- running ---- */

static qkv_attention_shape with_vectors(qkv_attention_shape s, const buffers *b) {
    if (s.shaw_keys) s.shaw_keys = b->far[0].p, s.shaw_values = b->far[1].p, s.shaw_dkeys = b->dfar[0].p, s.shaw_dvalues = b->dfar[1].p;
    return s;
}

static void run(qkv_exec *x, qkv_attention_shape s, const buffers *b, ops_bench *bench) {
    const qkv_heads q = qkv_heads_of(b->q, s.dim), k = qkv_heads_of(b->k, s.dim), v = qkv_heads_of(b->v, s.value_dim),
                    o = qkv_heads_of(b->o, s.value_dim);
    const qkv_apart apart = {qkv_heads_of(b->gq, s.dim),  qkv_heads_of(b->gk, s.dim),  qkv_heads_of(b->gv, s.value_dim),
                             qkv_heads_of(b->dgq, s.dim), qkv_heads_of(b->dgk, s.dim), qkv_heads_of(b->dgv, s.value_dim)};
    if (s.apart) s.apart = &apart;
    if (s.bias) s.bias_grad = b->bias_grad;
    s = with_vectors(s, b);
    x->pass = QKV_PASS_FORWARD;
    OPS_OK(qkv_attend_forward(x, &s, q, k, v, o, b->lse.p));
    x->pass = QKV_PASS_BACKWARD;
    OPS_OK(qkv_attend_backward(x, &s, q, k, v, o, b->lse.p, qkv_heads_of(b->d_o, s.value_dim), qkv_heads_of(b->dq, s.dim),
                               qkv_heads_of(b->dk, s.dim), qkv_heads_of(b->dv, s.value_dim)));
}

static void check_pairs(const qkv_attention_shape *s, ops_bench *bench, const buffers *b) {
    for (int64_t seq = 0; seq < s->sequences; seq++) {
        const qkv_seen seen = qkv_attention_seen(s, seq);
        int64_t pairs = 0;
        for (int64_t i = 0; i < seen.n_q; i++)
            for (int64_t j = 0; j < seen.n_k; j++) pairs += sees(s, seq, i, j);
        assert_int_equal(qkv_pattern_pairs(&seen), pairs);
        if (s->apart || seen.n_q * seen.n_k == 0) continue;
        real *w = calloc((size_t)(seen.n_q * seen.n_k), sizeof *w);
        const qkv_attention_shape with = with_vectors(*s, b);
        OPS_OK(qkv_attend_weights(&bench->x, &with, qkv_heads_of(b->q, s->dim), qkv_heads_of(b->k, s->dim), seq, 0, w));
        for (int64_t i = 0; i < seen.n_q; i++) {
            double sum = 0;
            bool any = false;
            for (int64_t j = 0; j < seen.n_k; j++) {
                const bool see = sees(s, seq, i, j);
                any = any || see;
                sum += (double)w[i * seen.n_k + j];
                if (see != (w[i * seen.n_k + j] > 0))
                    fail_msg("query %lld, key %lld: weight %g", (long long)i, (long long)j, (double)w[i * seen.n_k + j]);
            }
            if (any) ops_near("sum of weights", sum, 1, 1e-5);
        }
        free(w);
    }
}

static void one(qkv_attention_shape s, int threads, bool compare) {
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, threads);
    qkv_exec plan = {.ctx = &bench->ctx, .plan = true};
    s.scale = (real)(1 / sqrt((double)s.dim));
    real some = 0;
    buffers nothing = {.q.ld = 1, .far = {{.p = &some}, {.p = &some}}, .dfar = {{.p = &some}, {.p = &some}}, .bias_grad = &some}, b = make(&s);
    run(&plan, s, &nothing, bench);
    ops_ready(bench, plan.arena.peak + (1 << 20));
    run(&bench->x, s, &b, bench);
    assert_int_equal(bench->x.arena.peak, plan.arena.peak);
    assert_memory_equal(&bench->x.tally, &plan.tally, sizeof plan.tally);
    if (compare) {
        check(&s, &b);
        check_pairs(&s, bench, &b);
    }
    discard(&b);
    ops_end(bench);
}

static const int64_t q_offset[] = {0, 7, 7, 8, 10, 41}, k_offset[] = {0, 7, 12, 12, 21, 52}, fewer[] = {0, 2, 2, 2, 3, 22};
static const qkv_apart APART;
static const real SOME = 0; /* vectors by distance are wanted; `make` makes them */

/* And with vectors by distance. */
static void both(qkv_attention_shape s, int threads, bool compare) {
    one(s, threads, compare);
    s.shaw_keys = s.shaw_values = &SOME;
    s.shaw_reach = 1 + (s.left > 0 ? s.left : 4) + threads; /* within the window, and beyond */
    one(s, threads, compare);
}

static void small(void **state) {
    (void)state;
    static const int64_t spans[][2] = {{0, 0}, {2, 3}, {3, 0}, {-1, 2}, {0, -1}, {100, 100}, {-1, 0}, {-1, -1}, {1, 1}};
    static const int64_t at[] = {0, 3, 5, 1, 2, 6, 7, 8, 20, 30}, lists[] = {0, 3, 3, 3, 7, 10};
    static const qkv_pattern patterns[] = {
        {.global_first = 1},
        {.global_every = 4},
        {.global_first = 3, .global_every = 5},
        {.global_first = 1000},
        {.global_offset = lists, .global_at = at},
        {.dilation = 3},
        {.dilation = 2, .global_first = 2, .global_every = 7},
        {.dilation = 50, .global_every = 3},
        {.random_blocks = 2, .block = 5, .seed = 7},
        {.random_blocks = 3, .block = 4, .seed = 1, .global_first = 2, .global_every = 9},
        {.random_blocks = 60, .block = 1},
    };
    static const int64_t heads[][2] = {{1, 1}, {4, 2}, {3, 1}}, dims[][2] = {{1, 1}, {3, 5}, {16, 16}, {6, 8}};
    int turn = 0;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (size_t w = 0; w < sizeof spans / sizeof *spans; w++, turn++) {
            qkv_attention_shape s = {.sequences = 5,
                                     .q_offset = q_offset,
                                     .k_offset = turn % 2 ? q_offset : k_offset,
                                     .heads = heads[turn % 3][0],
                                     .kv_heads = heads[turn % 3][1],
                                     .dim = dims[turn % 4][0],
                                     .value_dim = dims[turn % 4][1],
                                     .left = spans[w][0],
                                     .right = spans[w][1],
                                     .pattern = patterns[p],
                                     .apart = turn % 5 == 1 && qkv_has_globals(&patterns[p]) ? &APART : NULL};
            both(s, 2, true);
            s.k_offset = fewer;
            both(s, 2, true);
        }
}

/* Queries that stand before key 0: with dilation some have global keys and none in their window, whatever else is in the batch. */
static void before_keys(void **state) {
    (void)state;
    static const int64_t q[] = {0, 6, 46}, k[] = {0, 2, 42}, long_q[] = {0, 6, 806}, long_k[] = {0, 2, 802}, far_q[] = {0, 700},
                         far_k[] = {0, 300};
    static const int64_t spans[][2] = {{1, 1}, {1, -1}, {2, 0}};
    real bias[2 * 9];
    ops_random(bias, 2 * 9, 3);
    for (int w = 0; w < 3; w++)
        for (int64_t sequences = 1; sequences <= 2; sequences++)
            for (int64_t dilation = 3; dilation <= 50; dilation = dilation < 8 ? dilation + 1 : dilation * 7) {
                qkv_attention_shape s = {.sequences = sequences,
                                         .q_offset = q,
                                         .k_offset = k,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .dim = 4,
                                         .value_dim = 4,
                                         .left = spans[w][0],
                                         .right = spans[w][1],
                                         .pattern = {.dilation = dilation, .global_first = 1}};
                both(s, 2, true);
                s.bias = bias;
                s.bias_reach = 4;
                one(s, 2, true);
            }
    qkv_attention_shape s = {.sequences = 2,
                             .q_offset = long_q,
                             .k_offset = long_k,
                             .heads = 1,
                             .kv_heads = 1,
                             .dim = 4,
                             .value_dim = 4,
                             .left = 1,
                             .right = 1,
                             .pattern = {.dilation = 3, .global_first = 1}};
    both(s, 2, true); /* key tiles are shared out */
    s.bias = bias;
    s.bias_reach = 4;
    one(s, 2, true);
    both((qkv_attention_shape){.sequences = 1,
                              .q_offset = far_q,
                              .k_offset = far_k,
                              .heads = 1,
                              .kv_heads = 1,
                              .dim = 4,
                              .value_dim = 4,
                              .left = 1,
                              .right = 1,
                              .pattern = {.dilation = 400, .global_first = 270}},
        2, true);
}

/* Pairs where global tokens are many: by arithmetic, not one by one. */
static void many_globals(void **state) {
    (void)state;
    static const int64_t steps[] = {2, 3, 4, 6, 12};
    for (int i = 0; i < 5; i++)
        for (int64_t every = 1; every < 15; every++)
            for (int64_t first = 0; first < 30; first += 7)
                for (int64_t n_k = 23; n_k < 60; n_k += 18) {
                    const int64_t q[] = {0, 41}, k[] = {0, n_k};
                    const qkv_attention_shape s = {.sequences = 1,
                                                   .q_offset = q,
                                                   .k_offset = k,
                                                   .left = -1,
                                                   .right = 3,
                                                   .pattern = {.dilation = steps[i], .global_first = first, .global_every = every}};
                    const qkv_seen seen = qkv_attention_seen(&s, 0);
                    int64_t pairs = 0;
                    for (int64_t r = 0; r < 41; r++)
                        for (int64_t c = 0; c < n_k; c++) pairs += sees(&s, 0, r, c);
                    assert_int_equal(qkv_pattern_pairs(&seen), pairs);
                }
    const qkv_pattern half = {.dilation = 2, .global_every = 2};
    const qkv_seen seen = {.pattern = &half, .n_q = 4000000, .n_k = 4000000, .left = -1, .right = 3};
    /* Even ones see all; of the others each sees these and, of its own class, those up to three after it. */
    const int64_t n = 2000000;
    assert_int_equal(qkv_pattern_pairs(&seen), 2 * n * n + n * n + n * (n + 1) / 2 + 3 * (n - 2));
}

/* Biases, rotations and vectors by distance go by where keys stand. */
static void terms(void **state) {
    (void)state;
    static const float slopes[] = {0.5f, 0.25f, 0.0625f, 0};
    real cosine[60 * 3], sine[60 * 3], bias[4 * 13];
    for (int i = 0; i < 180; i++) {
        cosine[i] = (real)cos(i / 3 * 0.3 / (1 + i % 3));
        sine[i] = (real)sin(i / 3 * 0.3 / (1 + i % 3));
    }
    ops_random(bias, 4 * 13, 5);
    const qkv_pattern patterns[] = {{.global_first = 2, .global_every = 6},
                                    {.dilation = 3, .global_every = 5},
                                    {.random_blocks = 2, .block = 4},
                                    {.dilation = 2}};
    for (int p = 0; p < 4; p++)
        for (int causal = 0; causal < 2; causal++)
            for (int apart = 0; apart < (qkv_has_globals(&patterns[p]) ? 2 : 1); apart++) {
                qkv_attention_shape s = {.sequences = 5,
                                         .q_offset = q_offset,
                                         .k_offset = causal ? q_offset : k_offset,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .dim = 7,
                                         .value_dim = 5,
                                         .left = 2,
                                         .right = causal ? 0 : 1,
                                         .pattern = patterns[p],
                                         .apart = apart ? &APART : NULL};
                s.alibi = slopes;
                s.softcap = (real)1.5;
                both(s, 2, true);
                s.alibi = NULL;
                s.softcap = 0;
                s.bias = bias;
                s.bias_reach = 6;
                one(s, 1, true);
                s.bias = NULL;
                s.rope_cos = cosine;
                s.rope_sin = sine;
                s.rope_dim = 6;
                s.rope_offset = 3;
                one(s, 2, true);
                s.rope_offset = 13;
                s.k_offset = fewer;
                one(s, 2, true);
                s.rope_cos = s.rope_sin = NULL;
                s.alibi = slopes;
                one(s, 2, true);
            }
}

/* Several groups of queries and tiles of keys. */
static void long_sequences(void **state) {
    (void)state;
    static const int64_t offset[] = {0, 1100, 1100, 1103}, shorter[] = {0, 350, 350, 353};
    const qkv_pattern patterns[] = {{.global_first = 1, .global_every = 300},
                                    {.dilation = 2, .global_every = 500},
                                    {.random_blocks = 2, .block = 100, .global_first = 3}};
    for (int p = 0; p < 3; p++)
        both((qkv_attention_shape){.sequences = 3,
                                  .q_offset = offset,
                                  .k_offset = offset,
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .dim = 8,
                                  .value_dim = 8,
                                  .left = 40,
                                  .right = p == 1 ? 0 : 7,
                                  .pattern = patterns[p]},
            3, p < 2);
    both((qkv_attention_shape){.sequences = 3,
                              .q_offset = shorter,
                              .k_offset = shorter,
                              .heads = 2,
                              .kv_heads = 1,
                              .dim = 8,
                              .value_dim = 8,
                              .left = 40,
                              .right = 7,
                              .pattern = {.global_first = 300}},
        3, true);
}

/* ---- what is hidden is never read ---- */

static void hidden(void **state) {
    (void)state;
    static const int64_t offset[] = {0, 40};
    const qkv_pattern patterns[] = {
        {.global_first = 1, .global_every = 16}, {.dilation = 3, .global_first = 2}, {.random_blocks = 1, .block = 8}};
    for (int p = 0; p < 6; p++)
        for (int which = 0; which < 3; which++) {
            ops_bench one_bench, *bench = &one_bench;
            ops_start(bench, 1);
            qkv_attention_shape s = {.sequences = 1,
                                     .q_offset = offset,
                                     .k_offset = offset,
                                     .heads = 2,
                                     .kv_heads = 1,
                                     .dim = 16,
                                     .value_dim = 16,
                                     .scale = (real)0.25,
                                     .left = 3,
                                     .right = 2,
                                     .pattern = patterns[p % 3]};
            if (p >= 3) s.shaw_keys = s.shaw_values = &SOME, s.shaw_reach = 4;
            buffers b = make(&s);
            ops_ready(bench, 1 << 22);
            const int64_t bad = which == 0 ? 21 : 30; /* not global */
            qkv_mat m = which == 0 ? b.k : which == 1 ? b.v : b.q;
            for (int64_t c = 0; c < 16; c++) m.p[bad * m.ld + c] = (real)NAN;
            run(&bench->x, s, &b, bench);
            int64_t spoilt = 0;
            for (int64_t i = 0; i < 40; i++) {
                const bool reads = which == 2 ? i == bad : sees(&s, 0, i, bad);
                spoilt += reads;
                for (int64_t c = 0; c < 16; c++) {
                    if (reads != (ops_at(b.o, i, c) != ops_at(b.o, i, c)))
                        fail_msg("pattern %d, %d: output %lld", p, which, (long long)i);
                    const bool in_dq = ops_at(b.dq, i, c) != ops_at(b.dq, i, c), in_dk = ops_at(b.dk, i, c) != ops_at(b.dk, i, c);
                    if (in_dq != reads) fail_msg("pattern %d, %d: dq %lld", p, which, (long long)i);
                    bool touched = which == 2 ? sees(&s, 0, bad, i) : false; /* keys of rows that have a NaN */
                    for (int64_t r = 0; which < 2 && r < 40; r++) touched = touched || (sees(&s, 0, r, bad) && sees(&s, 0, r, i));
                    if (in_dk != touched) fail_msg("pattern %d, %d: dk %lld", p, which, (long long)i);
                }
            }
            assert_true(spoilt > 0 && spoilt < 40);
            discard(&b);
            ops_end(bench);
        }
}

/* ---- the same bits ---- */

static void same_bits(void **state) {
    (void)state;
    static const int64_t alone[] = {0, 300}, among[] = {0, 5, 305, 320, 330, 340, 350, 360, 370, 380};
    const qkv_pattern patterns[] = {{.global_first = 1, .global_every = 64},
                                    {.dilation = 3, .global_every = 100},
                                    {.global_first = 270},
                                    {.random_blocks = 2, .block = 32, .global_first = 2}};
    for (int p = 0; p < 8; p++) {
        buffers b[3];
        for (int run_at = 0; run_at < 3; run_at++) {
            ops_bench one_bench, *bench = &one_bench;
            ops_start(bench, run_at == 0 ? 1 : 4);
            uint64_t keys[400];
            qkv_attention_shape s = {.sequences = run_at == 2 ? 9 : 1,
                                     .q_offset = run_at == 2 ? among : alone,
                                     .k_offset = run_at == 2 ? among : alone,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .dim = 16,
                                     .value_dim = 16,
                                     .scale = (real)0.25,
                                     .left = 20,
                                     .right = 20,
                                     .pattern = patterns[p % 4],
                                     .dropout = {.p = (real)0.3, .key = 3, .row_key = keys}};
            if (p >= 4) s.shaw_keys = s.shaw_values = &SOME, s.shaw_reach = 30;
            b[run_at] = make(&s);
            const int64_t from = run_at == 2 ? 5 : 0;
            qkv_mat *m = (qkv_mat *)&b[run_at], *first = (qkv_mat *)&b[0];
            for (int64_t r = 0; r < 400; r++) keys[r] = qkv_key2(8, (uint64_t)(r - from));
            for (int i = 0; run_at == 2 && i < 5; i++)
                for (int64_t r = 0; r < 300; r++)
                    memcpy(m[i].p + (from + r) * m[i].ld, first[i].p + r * first[i].ld, (size_t)m[i].cols * sizeof(real));
            if (run_at == 2) /* what forward wrote there is not an input */
                for (int64_t r = 0; r < 380; r++) ops_random(b[2].o.p + r * b[2].o.ld, b[2].o.cols, 77);
            ops_ready(bench, 1 << 25);
            run(&bench->x, s, &b[run_at], bench);
            for (int i = 3; run_at > 0 && i < 8; i++)
                for (int64_t r = 0; i != 4 && r < 300; r++)
                    if (memcmp(m[i].p + (from + r) * m[i].ld, first[i].p + r * first[i].ld, (size_t)m[i].cols * sizeof(real)) != 0)
                        fail_msg("pattern %d, run %d: matrix %d, row %lld differs", p, run_at, i, (long long)r);
            ops_end(bench);
        }
        for (int i = 0; i < 3; i++) discard(&b[i]);
    }
}

/* Neighbours further apart than the sequences are long: each sees itself, and no time goes with the distance. */
static void far_apart(void **state) {
    (void)state;
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 2);
    ops_ready(bench, 1 << 16);
    static const int64_t at[] = {0, 5, 5, 8};
    real x[8 * 4], o[8 * 4], lse[8];
    for (int i = 0; i < 8 * 4; i++) x[i] = (real)i;
    const qkv_heads h = {x, 4, 4}, out = {o, 4, 4};
    const qkv_attention_shape s = {.sequences = 3,
                                   .q_offset = at,
                                   .k_offset = at,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .dim = 4,
                                   .value_dim = 4,
                                   .scale = 1,
                                   .left = 3,
                                   .right = 3,
                                   .pattern = {.dilation = (int64_t)1 << 40}};
    assert_int_equal(qkv_attend_forward(&bench->x, &s, h, h, h, out, lse), QKV_OK);
    for (int i = 0; i < 8 * 4; i++) assert_true(fabs((double)(o[i] - x[i])) <= 1e-6 * (double)x[i]);
    real weights[9];
    assert_int_equal(qkv_attend_weights(&bench->x, &s, h, h, 2, 0, weights), QKV_OK);
    for (int i = 0; i < 9; i++) assert_true(weights[i] == (i % 4 == 0 ? 1 : 0));
    ops_end(bench);
}

static void wrong_patterns(void **state) {
    (void)state;
    ops_bench one_bench, *bench = &one_bench;
    ops_start(bench, 1);
    ops_ready(bench, 4096);
    static const int64_t good[] = {0, 1, 2};
    const qkv_heads none = {0};
    const qkv_pattern wrong[] = {{.dilation = -1},
                                 {.global_first = -1},
                                 {.global_every = -2},
                                 {.random_blocks = 1},
                                 {.random_blocks = 65, .block = 1},
                                 {.random_blocks = 1, .block = 4, .dilation = 2},
                                 {.global_first = 1, .global_offset = good, .global_at = good}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qkv_attention_shape s = {.sequences = 2,
                                 .q_offset = good,
                                 .k_offset = good,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .dim = 2,
                                 .value_dim = 2,
                                 .pattern = wrong[i]};
        assert_int_equal(qkv_attend_forward(&bench->x, &s, none, none, none, none, NULL), QKV_INTERNAL);
    }
    qkv_attention_shape s = {
        .sequences = 2, .q_offset = good, .k_offset = good, .heads = 4, .kv_heads = 2, .dim = 2, .value_dim = 2, .apart = &APART};
    assert_int_equal(qkv_attend_forward(&bench->x, &s, none, none, none, none, NULL), QKV_INTERNAL);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small), cmocka_unit_test(before_keys),   cmocka_unit_test(many_globals),
                                       cmocka_unit_test(terms), cmocka_unit_test(long_sequences), cmocka_unit_test(hidden),
                                       cmocka_unit_test(same_bits), cmocka_unit_test(far_apart),  cmocka_unit_test(wrong_patterns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
