/* Every kernel of a table on shapes and numbers drawn from a seed; what it wrote is recorded, to be compared between
 * tables bit for bit. */
#ifndef QKV_TESTS_KERNEL_FUZZ_H
#define QKV_TESTS_KERNEL_FUZZ_H

#include "unit/kernels/kernel_case.h"

typedef struct record {
    real *p;
    int64_t n;
} record;

static inline void record_add(record *r, const real *p, int64_t n) {
    r->p = realloc(r->p, (size_t)(r->n + n + 1) * sizeof *r->p);
    if (!r->p) abort();
    if (n) memcpy(r->p + r->n, p, (size_t)n * sizeof *p);
    r->n += n;
}

static inline void record_take(record *r, real *p, int64_t n) { /* and frees it */
    record_add(r, p, n);
    free(p);
}

/* Mostly ordinary numbers; one draw in six has rarities sprinkled in. */
static inline real *wild(dice *d, int64_t n, double scale) {
    static const double rare[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e30, -1e30, 1e-40, 3e38};
    real *p = random_reals(d, n, scale);
    if (n && dice_int(d, 0, 5) == 0)
        for (int64_t k = dice_int(d, 1, 3); k > 0; k--) p[dice_int(d, 0, n - 1)] = (real)rare[dice_int(d, 0, 8)];
    return p;
}

static inline int64_t some_cols(dice *d) { return dice_int(d, 0, 3) ? dice_int(d, 0, 40) : dice_int(d, 41, 300); }

static inline void fuzz_gemm(const qkv_kernels *t, dice *d, record *out) {
    int64_t m = dice_int(d, 0, 30), n = some_cols(d), k = dice_int(d, 0, 9) ? dice_int(d, 0, 60) : dice_int(d, 250, 600), ldc = n + dice_int(d, 0, 3);
    bool a_turned = dice_int(d, 0, 1), b_turned = dice_int(d, 0, 1);
    real *a = wild(d, m * k, 1), *b = wild(d, k * n, 1), *bias = wild(d, n, 1), *c = wild(d, matrix_size(m, n, ldc), 1);
    real *packed = must_alloc((size_t)qkv_packed_size(k, n) * sizeof *packed);
    if (a_turned) {
        real *turned = a, *sum = wild(d, m, 1);
        a = must_alloc((size_t)(m * k) * sizeof *a);
        t->gemm_turn(k, m, turned, m, a, k, sum);
        record_take(out, sum, m);
        free(turned);
    }
    t->gemm_pack(k, n, 0, k, 0, n, b, b_turned ? 1 : n, b_turned ? k : 1, packed);
    int start = (int)dice_int(d, 0, 2);
    qkv_gemm g = {.m = m, .k = k, .n1 = n, .a = a, .a_row = k, .a_col = 1, .packed = packed, .c = c, .ldc = ldc,
                  .bias = start == 1 ? bias : NULL, .accumulate = start == 2};
    t->gemm(&g);
    record_take(out, c, matrix_size(m, n, ldc));
    record_take(out, packed, qkv_packed_size(k, n));
    free(a), free(b), free(bias);
}

static inline void fuzz_norm(const qkv_kernels *t, dice *d, record *out) {
    int64_t rows = dice_int(d, 0, 11), cols = some_cols(d), ld = cols + dice_int(d, 0, 3), size = matrix_size(rows, cols, ld);
    real *x = wild(d, size, 3), *gamma = wild(d, cols, 1), *beta = wild(d, cols, 1), *dy = wild(d, size, 1);
    real *y = random_reals(d, size, 1), *dx = random_reals(d, size, 1), *mean = random_reals(d, rows, 1), *rstd = random_reals(d, rows, 1);
    real *dgamma = random_reals(d, cols, 1), *dbeta = random_reals(d, cols, 1);
    bool centered = dice_int(d, 0, 1), shifted = dice_int(d, 0, 1);
    t->norm_forward(rows, cols, x, ld, gamma, shifted ? beta : NULL, (real)1e-5, y, ld, centered ? mean : NULL, rstd, false);
    t->norm_backward(rows, cols, x, ld, gamma, centered ? mean : NULL, rstd, dy, ld, dice_int(d, 0, 1) ? y : NULL, ld, dx, ld, dgamma,
                     shifted ? dbeta : NULL, false);
    record_take(out, y, size), record_take(out, dx, size), record_take(out, mean, rows), record_take(out, rstd, rows);
    record_take(out, dgamma, cols), record_take(out, dbeta, cols);
    free(x), free(gamma), free(beta), free(dy);
}

static inline void fuzz_act(const qkv_kernels *t, dice *d, record *out) {
    int64_t rows = dice_int(d, 0, 4), cols = some_cols(d);
    bool gated = dice_int(d, 0, 1);
    int64_t wide = gated ? 2 * cols : cols, ldx = wide + dice_int(d, 0, 3), ldy = cols + dice_int(d, 0, 3);
    qkv_act act = (qkv_act)dice_int(d, 0, 3);
    real *x = wild(d, matrix_size(rows, wide, ldx), 8), *dy = wild(d, matrix_size(rows, cols, ldy), 1);
    real *y = random_reals(d, matrix_size(rows, cols, ldy), 1), *dx = random_reals(d, matrix_size(rows, wide, ldx), 1);
    t->act_forward(act, gated, rows, cols, x, ldx, y, ldy, false);
    t->act_backward(act, gated, rows, cols, x, ldx, dy, ldy, dx, ldx, false);
    record_take(out, y, matrix_size(rows, cols, ldy)), record_take(out, dx, matrix_size(rows, wide, ldx));
    free(x), free(dy);
}

static inline void fuzz_pointwise(const qkv_kernels *t, dice *d, record *out) {
    int64_t rows = dice_int(d, 1, 12), cols = some_cols(d), ld = cols + dice_int(d, 0, 3), size = matrix_size(rows, cols, ld);
    real *x = wild(d, size, 1), *base = wild(d, size, 1), *y = random_reals(d, size, 1), *z = random_reals(d, size, 1);
    real *sum = random_reals(d, cols, 1), *max = random_reals(d, cols, 1), a = (real)dice_real(d, -2, 2), b = dice_int(d, 0, 1) ? a : 0;
    int32_t *which = must_alloc((size_t)cols * sizeof *which);
    uint64_t keys[12];
    for (int i = 0; i < 12; i++) keys[i] = (uint64_t)dice_int(d, 0, 1 << 20);
    qkv_dropout drop = {(real)(dice_int(d, 0, 2) * 0.4), (uint64_t)dice_int(d, 0, 1 << 20), keys, 0};
    t->dropout(rows, cols, dice_int(d, 0, 1) ? base : NULL, ld, x, ld, y, ld, drop, false);
    t->axpby(rows, cols, a, x, ld, b, z, ld);
    t->column_sum(rows, 0, cols, x, ld, sum);
    t->column_max(rows, cols, x, ld, max, which);
    record_take(out, y, size), record_take(out, z, size), record_take(out, sum, cols), record_take(out, max, cols);
    for (int64_t c = 0; c < cols; c++) record_add(out, &(real){(real)which[c]}, 1);
    int64_t n = dice_int(d, 0, 3) ? dice_int(d, 0, 300) : dice_int(d, 4000, 20000);
    real *long_x = wild(d, n, 1);
    double squares = t->sum_squares(n, long_x), digits = isfinite(squares) ? squares : 0;
    record_add(out, &(real){(real)squares}, 1);
    record_add(out, &(real){(real)(digits - (double)(real)digits)}, isfinite((real)digits) ? 1 : 0);
    free(long_x), free(x), free(base), free(which);
}

static inline void fuzz_embedding(const qkv_kernels *t, dice *d, record *out) {
    int64_t rows = dice_int(d, 0, 12), cols = some_cols(d), ld = cols + dice_int(d, 0, 3);
    real *table = wild(d, matrix_size(9, cols, ld), 1), *y = random_reals(d, matrix_size(rows, cols, ld), 1), scale = (real)dice_real(d, -2, 2);
    int32_t ids[12];
    for (int i = 0; i < 12; i++) ids[i] = (int32_t)dice_int(d, 0, 8);
    t->gather(rows, cols, table, ld, ids, scale, y, ld, false);
    for (int32_t p = 0; p < 4; p++) t->scatter_add(rows, cols, p, 4, ids, scale, y, ld, table, ld);
    record_take(out, table, matrix_size(9, cols, ld)), record_take(out, y, matrix_size(rows, cols, ld));
}

static inline void fuzz_sigmoid(const qkv_kernels *t, dice *d, record *out, int64_t rows, int64_t cols, int64_t ld, const real *x) {
    int64_t at[6] = {0};
    int32_t labels[5];
    real loss[5] = {0}, *dx = random_reals(d, matrix_size(rows, cols, ld), 1), *weight = random_reals(d, cols, 1);
    for (int r = 0; r < 5; r++) {
        at[r + 1] = at[r] + dice_int(d, 0, 1);
        labels[r] = (int32_t)dice_int(d, 0, cols - 1);
    }
    t->sigmoid_loss(rows, cols, x, ld, at, labels, dice_int(d, 0, 1) ? weight : NULL, dice_int(d, 0, 1) ? (real)0.1 : 0, (real)0.3, loss,
                    dice_int(d, 0, 3) ? dx : NULL, ld);
    record_add(out, loss, 5);
    record_add(out, dx, matrix_size(rows, cols, ld));
    t->sigmoid_rows(rows, cols, x, ld, dx, ld);
    record_take(out, dx, matrix_size(rows, cols, ld));
    free(weight);
}

static inline void fuzz_loss(const qkv_kernels *t, dice *d, record *out) {
    int64_t rows = dice_int(d, 0, 5), cols = 1 + some_cols(d), ld = cols + dice_int(d, 0, 3), size = matrix_size(rows, cols, ld);
    real *x = wild(d, size, dice_int(d, 0, 1) ? 3 : 100), *dx = random_reals(d, size, 1), *y = random_reals(d, size, 1);
    real loss[5] = {0}, smoothing = dice_int(d, 0, 1) ? (real)0.1 : 0;
    int32_t target[5];
    for (int i = 0; i < 5; i++) target[i] = (int32_t)dice_int(d, 0, cols - 1);
    t->cross_entropy(rows, cols, x, ld, target, smoothing, (real)0.3, loss, dice_int(d, 0, 3) ? dx : NULL, ld);
    t->softmax_rows(rows, cols, x, ld, y, ld);
    record_add(out, loss, 5);
    fuzz_sigmoid(t, d, out, rows, cols, ld, x);
    record_take(out, dx, size), record_take(out, y, size);
    free(x);
}

static inline void fuzz_adamw(const qkv_kernels *t, dice *d, record *out) {
    int64_t n = some_cols(d);
    real *p = wild(d, n, 1), *g = wild(d, n, 1), *m = wild(d, n, 0.1), *v = random_reals(d, n, 0.1);
    for (int64_t i = 0; i < n; i++) v[i] = v[i] < 0 ? -v[i] : v[i];
    qkv_adamw o = {(real)0.01, (real)0.9, (real)0.999, (real)1e-8, (real)0.01, (real)0.2, (real)0.002, (real)dice_real(d, 0, 2)};
    t->adamw(n, p, g, m, v, &o);
    record_take(out, p, n), record_take(out, m, n), record_take(out, v, n);
    free(g);
}

static inline void fuzz_attention(const qkv_kernels *t, dice *d, record *out) {
    bool causal = dice_int(d, 0, 1), window = dice_int(d, 0, 2) == 0;
    int64_t nk = dice_int(d, 0, 3) ? dice_int(d, 1, 40) : dice_int(d, 60, 150), nq = dice_int(d, 0, 1) ? nk : dice_int(d, 1, nk);
    int64_t dim = dice_int(d, 1, 40), wide = dice_int(d, 0, 1) ? dim : dice_int(d, 1, 70);
    uint64_t keys[150];
    for (int i = 0; i < 150; i++) keys[i] = (uint64_t)dice_int(d, 0, 1 << 20);
    real *q = wild(d, nq * dim, 2), *k = wild(d, nk * dim, 2), *v = wild(d, nk * wide, 1), *o = random_reals(d, nq * wide, 1);
    real *lse = random_reals(d, nq, 1), *d_o = random_reals(d, nq * wide, 1), *weights = random_reals(d, nq * nk, 1);
    real *dq = random_reals(d, nq * dim, 1), *dk = random_reals(d, nk * dim, 1), *dv = random_reals(d, nk * wide, 1);
    qkv_attend a = {.n_q = nq, .n_k = nk, .row1 = nq, .dim = dim, .value_dim = wide, .scale = (real)(1 / sqrt((double)dim)),
                    .left = window ? dice_int(d, 0, 20) : -1, .right = causal ? 0 : window ? dice_int(d, 0, 20) : -1,
                    .q = q, .k = k, .v = v, .q_row = dim, .k_row = dim, .v_row = wide, .o = o, .o_row = wide, .lse = lse,
                    .alibi = dice_int(d, 0, 3) ? 0 : (real)0.1, .softcap = dice_int(d, 0, 3) ? 0 : 5,
                    .dropout = {.p = dice_int(d, 0, 2) ? 0 : (real)0.2, .key = 17, .row_key = keys}, .d_o = d_o, .do_row = wide, .dq = dq, .dk = dk, .dv = dv,
                    .dq_row = dim, .dk_row = dim, .dv_row = wide, .add_kv = dice_int(d, 0, 1)};
    int64_t forward = t->attend_forward_scratch(nq, nk, dim, wide), backward = t->attend_backward_scratch(nq, nk, dim, wide);
    int64_t bytes = ((forward > backward ? forward : backward) * (int64_t)sizeof(real) + 127) / 64 * 64;
    real *scratch = aligned_alloc(64, (size_t)bytes);
    if (!scratch) abort();
    memset(scratch, 0xFF, (size_t)bytes); /* NaN: nothing may be read before it was written */
    t->attend_forward(&a, scratch);
    record_add(out, o, nq * wide), record_add(out, lse, nq);
    memset(scratch, 0xFF, (size_t)bytes);
    t->attend_backward(&a, scratch);
    a.dropout.p = 0;
    t->attend_weights(&a, weights);
    record_take(out, dq, nq * dim), record_take(out, dk, nk * dim), record_take(out, dv, nk * wide), record_take(out, weights, nq * nk);
    free(q), free(k), free(v), free(o), free(lse), free(d_o), free(scratch);
}

/* One query of several heads that lie side by side. */
static inline void fuzz_decode(const qkv_kernels *t, dice *d, record *out) {
    enum { MOST = 9 * 2 };
    int64_t kv = dice_int(d, 1, 9), group = dice_int(d, 1, 2), n = kv * group, dim = dice_int(d, 1, 40), wide = 16 * dice_int(d, 1, 3);
    int64_t nk = dice_int(d, 1, 300), k_row = kv * dim, v_row = kv * wide;
    real *q = random_reals(d, n * dim, 2), *k = random_reals(d, nk * k_row, 2), *v = random_reals(d, nk * v_row, 1);
    real *o = random_reals(d, n * wide, 1), *lse = random_reals(d, n, 1);
    int64_t left = dice_int(d, 0, 2) ? -1 : dice_int(d, 0, 40), bytes = (t->attend_decode_scratch(n, dim, wide) * (int64_t)sizeof(real) + 63) / 64 * 64;
    qkv_attend heads[MOST];
    for (int64_t h = 0; h < n; h++)
        heads[h] = (qkv_attend){.n_q = 1, .n_k = nk, .row1 = 1, .dim = dim, .value_dim = wide, .scale = (real)(1 / sqrt((double)dim)),
                                .left = left, .right = -1, .q = q + h * dim, .k = k + h / group * dim, .v = v + h / group * wide,
                                .q_row = dim, .k_row = k_row, .v_row = v_row, .o = o + h * wide, .o_row = wide, .lse = lse + h};
    real *scratch = aligned_alloc(64, (size_t)bytes);
    if (!scratch) abort();
    memset(scratch, 0xFF, (size_t)bytes);
    t->attend_decode(heads, n, scratch);
    record_take(out, o, n * wide), record_take(out, lse, n);
    free(q), free(k), free(v), free(scratch);
}

/* One step, there or back, of sequences that have two rows each: the one at hand is the second. */
static inline void fuzz_recur(const qkv_kernels *t, dice *d, record *out) {
    enum { MOST = 60 };
    const qkv_recur_cell cell = (qkv_recur_cell)dice_int(d, 0, QKV_RECUR_GRU_BEFORE);
    const bool back = dice_int(d, 0, 1), apart = cell == QKV_RECUR_GRU_BEFORE, start = dice_int(d, 0, 3) == 0;
    const int phase = apart ? (int)dice_int(d, 0, 1) : 0, all = qkv_recur_gates(cell), gates = apart ? 2 - phase : all;
    const int64_t units = dice_int(d, 0, 5) ? dice_int(d, 1, 40) : dice_int(d, 41, 150), rows = dice_int(d, 0, MOST), k = back ? gates * units : units;
    int64_t first[MOST + 1];
    for (int64_t i = 0; i < rows; i++) first[i] = 2 * i;
    const int64_t size = qkv_recur_packed_size(gates, units), packed_size = size > qkv_packed_size(k, units) ? size : qkv_packed_size(k, units);
    real *weight = wild(d, gates * units * units, 0.3), *packed = must_alloc((size_t)packed_size * sizeof *packed);
    real *g = wild(d, 2 * rows * all * units, 1), *h = wild(d, 2 * rows * units, 1), *c = wild(d, 2 * rows * units, 1), *v = wild(d, 3 * units, 1);
    real *state = wild(d, rows * k, 1), *next = random_reals(d, rows * 4 * units, 1), *carry = wild(d, rows * units, 1);
    real *dh = wild(d, 2 * rows * units, 1), *dr = random_reals(d, 2 * rows * all * units, 1), *a = wild(d, rows * units, 1), *sum = wild(d, units, 1);
    if (back) t->gemm_pack(k, units, 0, k, 0, units, weight, units, 1, packed);
    else t->recur_pack(gates, units, 0, units, weight, packed);
    qkv_recur r = {.cell = cell, .phase = phase, .units = units, .rows = rows, .going = back ? dice_int(d, 0, rows) : start ? 0 : rows, .start = start,
                   .first = first, .at = 1, .before = 0, .packed = packed, .state = state, .ld_state = k, .next = next, .ld_next = 4 * units,
                   .gates = g, .ld_gates = all * units, .hidden = h, .ld_hidden = units, .cells = c, .ld_cells = units,
                   .vector = cell == QKV_RECUR_LSTM && dice_int(d, 0, 1) ? NULL : v, .dhidden = dh, .ld_dhidden = units, .carry = carry, .drecur = dr,
                   .ld_drecur = all * units};
    const int64_t middle = dice_int(d, 0, units) / 16 * 16; /* in two ranges of units */
    for (int i = 0; i < 2; i++) {
        r.u0 = i ? middle : 0;
        r.u1 = i ? units : middle;
        (back ? t->recur_backward : t->recur_forward)(&r);
    }
    t->column_dot(rows, 0, units, a, units, h, units, sum);
    record_take(out, g, 2 * rows * all * units), record_take(out, h, 2 * rows * units), record_take(out, c, 2 * rows * units);
    record_take(out, next, rows * 4 * units), record_take(out, carry, rows * units), record_take(out, dr, 2 * rows * all * units);
    record_take(out, sum, units);
    free(weight), free(packed), free(v), free(state), free(dh), free(a);
}

typedef struct fuzz_kernel {
    const char *name;
    void (*run)(const qkv_kernels *t, dice *d, record *out);
} fuzz_kernel;

static const fuzz_kernel fuzz_kernels[] = {
    {"gemm", fuzz_gemm},           {"norm", fuzz_norm}, {"act", fuzz_act},     {"pointwise", fuzz_pointwise},
    {"embedding", fuzz_embedding}, {"loss", fuzz_loss}, {"adamw", fuzz_adamw}, {"attention", fuzz_attention},
    {"decode", fuzz_decode},       {"recur", fuzz_recur},
};
enum { FUZZ_KERNELS = sizeof fuzz_kernels / sizeof *fuzz_kernels };

/* True if `t` wrote what `base` wrote, for `rounds` draws of one kernel; else says where not. */
static inline bool fuzz_same(const qkv_kernels *base, const qkv_kernels *t, const fuzz_kernel *f, int rounds) {
    for (int round = 0; round < rounds; round++) {
        record a = {0}, b = {0};
        dice da = {1000 + (uint64_t)round, 0}, db = da;
        f->run(base, &da, &a);
        f->run(t, &db, &b);
        int64_t at = a.n != b.n ? 0 : first_difference(a.p, b.p, a.n);
        if (at >= 0)
            fprintf(stderr, "%s, draw %d: value %lld of %lld is %a on %s and %a on %s\n", f->name, round, (long long)at, (long long)a.n,
                    (double)a.p[at], base->name, (double)b.p[at], t->name);
        free(a.p), free(b.p);
        if (at >= 0) return false;
    }
    return true;
}

#endif
