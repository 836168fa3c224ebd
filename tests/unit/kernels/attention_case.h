/* One attention problem on buffers of exactly the needed size (so that the sanitizers see a read beyond), and the same
 * problem in double with the mask written out pair by pair. */
#ifndef QKV_TESTS_ATTENTION_CASE_H
#define QKV_TESTS_ATTENTION_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/pick.h"

#ifdef QKV_DOUBLE
#define TOLERANCE(f) 1e-11
#else
#define TOLERANCE(f) (f)
#endif

typedef struct problem {
    int64_t n_q, n_k, dim, value_dim, left, right;
    double alibi, softcap, dropout;
    double spread; /* scores get about this deviation; 0: 1 */
    int gap;       /* between rows */
    int64_t bias;  /* reach of a bias by distance + 1; 0: none */
    int64_t rope;  /* columns that are rotated */
    bool interleaved;
    int64_t shaw; /* reach of vectors by distance; 0: none */
} problem;

typedef struct tensor {
    real *p;
    int64_t rows, cols, ld, size;
} tensor;

typedef struct attention_case {
    problem in;
    qkv_attend a;
    tensor q, k, v, o, lse, d_o, dq, dk, dv;
    uint64_t *row_key;
    tensor bias, spread_bias, bias_grad, angles[2]; /* spread_bias: what the kernel reads */
    tensor vectors[2], packed, sums[2]; /* by distance: of keys and values; weights and slopes */
} attention_case;

enum { ROPE_OFFSET = 3 };

static inline tensor tensor_make(int64_t rows, int64_t cols, int64_t gap) {
    tensor t = {.rows = rows, .cols = cols, .ld = cols + gap};
    t.size = rows ? (rows - 1) * t.ld + cols : 0;
    t.p = malloc((size_t)(t.size ? t.size : 1) * sizeof(real));
    for (int64_t i = 0; i < t.size; i++) t.p[i] = (real)NAN;
    return t;
}

static inline void tensor_random(tensor t, uint64_t key, double size) {
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t c = 0; c < t.cols; c++)
            t.p[i * t.ld + c] = (real)(size * 3.4641 * (qkv_uniform(qkv_key3(key, (uint64_t)i, (uint64_t)c)) - 0.5));
}

static inline real *at(tensor t, int64_t i, int64_t c) {
    return t.p + i * t.ld + c;
}

/* The bias by distance, clamped; in units of log2 from -(n_k-1) on as the kernel wants it, on exactly so much memory. */
static inline void case_bias(attention_case *c) {
    int64_t reach = c->in.bias - 1, wide = 2 * reach + 1, row = c->in.n_q + c->in.n_k + 15;
    c->bias = tensor_make(1, wide, 0);
    tensor_random(c->bias, 5, 1);
    c->spread_bias = tensor_make(1, row, 0);
    c->bias_grad = tensor_make((c->in.n_k + QKV_ATTEND_KEYS - 1) / QKV_ATTEND_KEYS, wide, 0);
    for (int64_t e = 0; e < row; e++) {
        int64_t d = e - (c->in.n_k - 1);
        c->spread_bias.p[e] = c->bias.p[(d < -reach ? -reach : d > reach ? reach : d) + reach] * (real)1.44269504088896340736;
    }
    c->a.bias = c->spread_bias.p + c->in.n_k - 1;
    c->a.bias_reach = reach;
    c->a.bias_grad = c->bias_grad.p;
}

/* Angles for positions up to that of the last key; no two alike. */
static inline void case_rope(attention_case *c) {
    int64_t half = c->in.rope / 2, rows = ROPE_OFFSET + (c->in.n_k > c->in.n_q ? c->in.n_k : c->in.n_q);
    for (int t = 0; t < 2; t++) c->angles[t] = tensor_make(rows, half, 0);
    for (int64_t i = 0; i < rows * half; i++) {
        double angle = (double)(i / half) * pow(0.7, (double)(i % half));
        c->angles[0].p[i] = (real)cos(angle);
        c->angles[1].p[i] = (real)sin(angle);
    }
    c->a.rope_cos = c->angles[0].p;
    c->a.rope_sin = c->angles[1].p;
    c->a.rope_dim = c->in.rope;
    c->a.rope_k = ROPE_OFFSET + (c->in.n_q > c->in.n_k ? c->in.n_q - c->in.n_k : 0);
    c->a.rope_interleaved = c->in.interleaved;
}

static inline void case_shaw(attention_case *c) {
    const int64_t count = 2 * c->in.shaw + 1;
    for (int t = 0; t < 2; t++) {
        c->vectors[t] = tensor_make(count, t ? c->in.value_dim : c->in.dim, 0);
        tensor_random(c->vectors[t], (uint64_t)(6 + t), 1);
        c->sums[t] = tensor_make(c->in.n_q, count, 0);
    }
    c->packed = tensor_make(1, qkv_kernels_scalar.attend_shaw_size(c->in.shaw, c->in.dim, c->in.value_dim), 0);
    qkv_kernels_scalar.attend_shaw_pack(c->in.shaw, c->in.dim, c->in.value_dim, c->vectors[0].p, c->vectors[1].p, c->packed.p);
    c->a.shaw = c->packed.p;
    c->a.shaw_reach = c->in.shaw;
    c->a.shaw_weights = c->sums[0].p;
    c->a.shaw_slopes = c->sums[1].p;
    c->a.sums_row = count;
}

static inline attention_case *case_make(problem in) {
    attention_case *c = calloc(1, sizeof *c);
    int64_t g = in.gap;
    c->in = in;
    c->q = tensor_make(in.n_q, in.dim, g);
    c->k = tensor_make(in.n_k, in.dim, 2 * g);
    c->v = tensor_make(in.n_k, in.value_dim, 3 * g);
    c->o = tensor_make(in.n_q, in.value_dim, g);
    c->lse = tensor_make(1, in.n_q, 0);
    c->d_o = tensor_make(in.n_q, in.value_dim, 2 * g);
    c->dq = tensor_make(in.n_q, in.dim, 3 * g);
    c->dk = tensor_make(in.n_k, in.dim, g);
    c->dv = tensor_make(in.n_k, in.value_dim, g);
    double spread = in.spread ? in.spread : 1;
    tensor_random(c->q, 1, spread);
    tensor_random(c->k, 2, 1);
    tensor_random(c->v, 3, 1);
    tensor_random(c->d_o, 4, 1);
    c->row_key = malloc((size_t)(in.n_q + 1) * sizeof *c->row_key);
    for (int64_t i = 0; i < in.n_q; i++) c->row_key[i] = qkv_key2(77, (uint64_t)i);
    c->a = (qkv_attend){
        .n_q = in.n_q,
        .n_k = in.n_k,
        .row0 = 0,
        .row1 = in.n_q,
        .dim = in.dim,
        .value_dim = in.value_dim,
        .scale = (real)(1 / sqrt((double)in.dim)),
        .left = in.left,
        .right = in.right,
        .q = c->q.p,
        .k = c->k.p,
        .v = c->v.p,
        .q_row = c->q.ld,
        .k_row = c->k.ld,
        .v_row = c->v.ld,
        .o = c->o.p,
        .o_row = c->o.ld,
        .lse = c->lse.p,
        .alibi = (real)in.alibi,
        .softcap = (real)in.softcap,
        .dropout = {.p = (real)in.dropout, .key = 4711, .row_key = in.dropout > 0 ? c->row_key : NULL},
        .d_o = c->d_o.p,
        .do_row = c->d_o.ld,
        .dq = c->dq.p,
        .dk = c->dk.p,
        .dv = c->dv.p,
        .dq_row = c->dq.ld,
        .dk_row = c->dk.ld,
        .dv_row = c->dv.ld,
    };
    if (in.bias > 0) case_bias(c);
    if (in.rope > 0) case_rope(c);
    if (in.shaw > 0) case_shaw(c);
    return c;
}

static inline void case_free(attention_case *c) {
    tensor *all[] = {&c->q, &c->k, &c->v, &c->o, &c->lse, &c->d_o, &c->dq, &c->dk, &c->dv, &c->bias, &c->spread_bias, &c->bias_grad,
                     &c->angles[0], &c->angles[1], &c->vectors[0], &c->vectors[1], &c->packed, &c->sums[0], &c->sums[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->p);
    free(c->row_key);
    free(c);
}

/* Scratch of exactly the stated size, full of NaN. */
static inline real *scratch_make(int64_t size) {
    size_t bytes = ((size_t)size * sizeof(real) + 63) / 64 * 64;
    real *p = aligned_alloc(64, bytes ? bytes : 64);
    for (int64_t i = 0; i < size; i++) p[i] = (real)NAN;
    return p;
}

static inline void run_forward(const qkv_kernels *t, const qkv_attend *a) {
    real *scratch = scratch_make(t->attend_forward_scratch(a->n_q, a->n_k, a->dim, a->value_dim));
    qkv_attend with = *a;
    with.shaw_work = a->shaw ? scratch_make(t->attend_shaw_work(a->n_q, a->shaw_reach, false)) : NULL;
    t->attend_forward(&with, scratch);
    free(with.shaw_work);
    free(scratch);
}
static inline void run_backward(const qkv_kernels *t, const qkv_attend *a) {
    real *scratch = scratch_make(t->attend_backward_scratch(a->n_q, a->n_k, a->dim, a->value_dim));
    qkv_attend with = *a;
    with.shaw_work = a->shaw ? scratch_make(t->attend_shaw_work(a->n_q, a->shaw_reach, true)) : NULL;
    t->attend_backward(&with, scratch);
    free(with.shaw_work);
    free(scratch);
}

/* All tables that can run here; the counting one is among them. */
static inline int all_tables(const qkv_kernels *tables[5]) {
    int n = qkv_kernels_present(tables);
    tables[n] = &qkv_kernels_count;
    return n + 1;
}

/* ---- the reference ---- */

static inline bool sees(problem in, int64_t i, int64_t j) {
    int64_t self = i + in.n_k - in.n_q;
    return (in.left < 0 || self - j <= in.left) && (in.right < 0 || j - self <= in.right);
}

typedef struct reference {
    double *q, *k, *v, *d_o; /* inputs, dense */
    double *keep;            /* [n_q][n_k]: 0 or 1/(1-p) */
    double *o, *lse, *p, *slope, *dq, *dk, *dv;
    double *bias, *dbias;
    double *tq, *tk; /* rotated */
    double *keys, *values, *weights, *slopes; /* by distance */
} reference;

static inline double *widen(tensor t) {
    double *d = calloc((size_t)(t.rows * t.cols + 1), sizeof *d);
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t c = 0; c < t.cols; c++) d[i * t.cols + c] = *at(t, i, c);
    return d;
}
static inline double *zeros(int64_t n) {
    return calloc((size_t)(n + 1), sizeof(double));
}

/* Sixteen bits for each key, two keys from one number. */
static inline bool draw_keeps(uint64_t key, uint64_t row_key, int64_t j, double p) {
    const uint64_t k = qkv_key2(key, row_key);
    uint32_t h = (uint32_t)(j / 32 * 16 + j % 16) ^ (uint32_t)k;
    h ^= h >> 16;
    h = h * 0x7FEB352Du + (uint32_t)(k >> 32);
    h = (h ^ h >> 15) * 0x846CA68Bu;
    h ^= h >> 16;
    return (j % 32 < 16 ? h & 0xFFFF : h >> 16) >= (uint32_t)(p * 65536 + 0.5);
}
static inline double *draw_mask(const attention_case *c) {
    const int64_t n_q = c->in.n_q, n_k = c->in.n_k;
    const qkv_dropout d = c->a.dropout;
    const double p = (double)d.p, kept = 1 - floor(p * 65536 + 0.5) / 65536;
    double *keep = zeros(n_q * n_k);
    for (int64_t i = 0; i < n_q; i++)
        for (int64_t j = 0; j < n_k; j++)
            keep[i * n_k + j] = p > 0 && !draw_keeps(d.key, d.row_key[i], j, p) ? 0 : 1 / kept;
    return keep;
}

/* Rows of `dim`, the first at `position`; sign -1: back. */
static inline void reference_rotate(const attention_case *c, double *x, int64_t rows, int64_t position, double sign) {
    int64_t half = c->in.rope / 2;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t l = 0; l < half; l++) {
            double *a = x + i * c->in.dim + (c->in.interleaved ? 2 * l : l), *b = a + (c->in.interleaved ? 1 : half), before = *a;
            double co = *at(c->angles[0], position + i, l), si = sign * (double)*at(c->angles[1], position + i, l);
            *a = *a * co - *b * si;
            *b = *b * co + before * si;
        }
}

static inline int64_t bias_index(const attention_case *c, int64_t i, int64_t j) {
    int64_t reach = c->in.bias - 1, d = j - (i + c->in.n_k - c->in.n_q);
    return (d < -reach ? -reach : d > reach ? reach : d) + reach;
}

static inline int64_t shaw_index(const attention_case *c, int64_t i, int64_t j) {
    int64_t reach = c->in.shaw, d = j - (i + c->in.n_k - c->in.n_q);
    return (d < -reach ? -reach : d > reach ? reach : d) + reach;
}

/* A key or value as a query sees it: with the vector of the distance. */
static inline double seen_key(const attention_case *c, const reference *r, int64_t i, int64_t j, int64_t l) {
    return r->tk[j * c->in.dim + l] + (c->in.shaw > 0 ? r->keys[shaw_index(c, i, j) * c->in.dim + l] : 0);
}
static inline double seen_value(const attention_case *c, const reference *r, int64_t i, int64_t j, int64_t x) {
    return r->v[j * c->in.value_dim + x] + (c->in.shaw > 0 ? r->values[shaw_index(c, i, j) * c->in.value_dim + x] : 0);
}

static inline void reference_forward(const attention_case *c, reference *r) {
    problem in = c->in;
    memcpy(r->tq, r->q, (size_t)(in.n_q * in.dim) * sizeof(double));
    memcpy(r->tk, r->k, (size_t)(in.n_k * in.dim) * sizeof(double));
    reference_rotate(c, r->tq, in.n_q, c->a.rope_k + in.n_k - in.n_q, 1);
    reference_rotate(c, r->tk, in.n_k, c->a.rope_k, 1);
    for (int64_t i = 0; i < in.n_q; i++) {
        double *p = r->p + i * in.n_k, *o = r->o + i * in.value_dim, top = -INFINITY, sum = 0;
        int64_t visible = 0, self = i + in.n_k - in.n_q;
        bool nan = false;
        for (int64_t j = 0; j < in.n_k; j++) {
            double s = 0, slope = 1;
            if (!sees(in, i, j)) continue;
            for (int64_t l = 0; l < in.dim; l++) s += r->tq[i * in.dim + l] * seen_key(c, r, i, j, l);
            s *= (double)c->a.scale;
            if (c->a.softcap != 0) {
                double h = tanh(s / (double)c->a.softcap);
                s = (double)c->a.softcap * h;
                slope = 1 - h * h;
            }
            s -= (double)c->a.alibi * (double)llabs(self - j);
            if (in.bias > 0) s += r->bias[bias_index(c, i, j)];
            p[j] = s;
            r->slope[i * in.n_k + j] = slope;
            nan = nan || isnan(s);
            top = s > top ? s : top;
            visible++;
        }
        if (nan) top = NAN;
        for (int64_t j = 0; j < in.n_k; j++) {
            p[j] = sees(in, i, j) ? exp(p[j] - top) : 0;
            sum += p[j];
        }
        r->lse[i] = visible ? top + log(sum) : -INFINITY;
        for (int64_t x = 0; x < in.value_dim; x++) o[x] = 0;
        for (int64_t j = 0; j < in.n_k; j++) {
            if (!sees(in, i, j)) continue;
            p[j] /= sum;
            for (int64_t x = 0; x < in.value_dim; x++) o[x] += p[j] * r->keep[i * in.n_k + j] * seen_value(c, r, i, j, x);
        }
    }
}

static inline void reference_backward(const attention_case *c, reference *r) {
    problem in = c->in;
    double scale = (double)c->a.scale;
    for (int64_t i = 0; i < in.n_q; i++) {
        const double *p = r->p + i * in.n_k, *keep = r->keep + i * in.n_k, *g = r->d_o + i * in.value_dim;
        double d = 0;
        for (int64_t x = 0; x < in.value_dim; x++) d += g[x] * r->o[i * in.value_dim + x];
        for (int64_t j = 0; j < in.n_k; j++) {
            if (!sees(in, i, j)) continue;
            double dp = 0;
            for (int64_t x = 0; x < in.value_dim; x++) {
                dp += g[x] * seen_value(c, r, i, j, x);
                r->dv[j * in.value_dim + x] += p[j] * keep[j] * g[x];
            }
            double ds = p[j] * (dp * keep[j] - d);
            if (in.bias > 0) r->dbias[bias_index(c, i, j)] += ds;
            ds *= r->slope[i * in.n_k + j];
            if (in.shaw > 0) {
                r->weights[i * (2 * in.shaw + 1) + shaw_index(c, i, j)] += p[j] * keep[j];
                r->slopes[i * (2 * in.shaw + 1) + shaw_index(c, i, j)] += ds;
            }
            ds *= scale;
            for (int64_t l = 0; l < in.dim; l++) {
                r->dq[i * in.dim + l] += ds * seen_key(c, r, i, j, l);
                r->dk[j * in.dim + l] += ds * r->tq[i * in.dim + l];
            }
        }
    }
    reference_rotate(c, r->dq, in.n_q, c->a.rope_k + in.n_k - in.n_q, -1);
    reference_rotate(c, r->dk, in.n_k, c->a.rope_k, -1);
}

static inline reference *reference_make(const attention_case *c) {
    problem in = c->in;
    reference *r = calloc(1, sizeof *r);
    *r = (reference){widen(c->q),
                     widen(c->k),
                     widen(c->v),
                     widen(c->d_o),
                     draw_mask(c),
                     zeros(in.n_q * in.value_dim),
                     zeros(in.n_q),
                     zeros(in.n_q * in.n_k),
                     zeros(in.n_q * in.n_k),
                     zeros(in.n_q * in.dim),
                     zeros(in.n_k * in.dim),
                     zeros(in.n_k * in.value_dim),
                     widen(c->bias),
                     zeros(2 * in.bias),
                     zeros(in.n_q * in.dim),
                     zeros(in.n_k * in.dim),
                     widen(c->vectors[0]),
                     widen(c->vectors[1]),
                     zeros(in.n_q * (2 * in.shaw + 1)),
                     zeros(in.n_q * (2 * in.shaw + 1))};
    reference_forward(c, r);
    reference_backward(c, r);
    return r;
}

static inline void reference_free(reference *r) {
    double *all[] = {r->q, r->k, r->v, r->d_o, r->keep, r->o, r->lse, r->p, r->slope, r->dq, r->dk, r->dv, r->bias, r->dbias, r->tq, r->tk,
                     r->keys, r->values, r->weights, r->slopes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(r);
}

/* ---- comparison ---- */

static inline void describe(const char *what, const qkv_kernels *t, problem in, int64_t row, int64_t col) {
    fail_msg("%s on %s: n_q %lld n_k %lld d %lld dv %lld span %lld,%lld alibi %g cap %g dropout %g spread %g bias %lld rope %lld shaw %lld, at "
             "row %lld column %lld",
             what, t->name, (long long)in.n_q, (long long)in.n_k, (long long)in.dim, (long long)in.value_dim, (long long)in.left,
             (long long)in.right, in.alibi, in.softcap, in.dropout, in.spread, (long long)in.bias, (long long)in.rope, (long long)in.shaw, (long long)row,
             (long long)col);
}

/* NaN only where the reference has NaN, infinities equal, the rest within tolerance of the largest finite value. */
static inline void compare(const char *what, const qkv_kernels *t, problem in, tensor x, const double *want, double tolerance) {
    double size = 1;
    for (int64_t i = 0; i < x.rows * x.cols; i++)
        if (isfinite(want[i]) && fabs(want[i]) > size) size = fabs(want[i]);
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t c = 0; c < x.cols; c++) {
            double a = *at(x, i, c), b = want[i * x.cols + c];
            bool good = isnan(b) ? isnan(a) : isinf(b) ? a == b : fabs(a - b) <= tolerance * size;
            if (!good) {
                print_message("%s: %.9g, wanted %.9g (tolerance %.3g of %g)\n", what, a, b, tolerance, size);
                describe(what, t, in, i, c);
            }
        }
    for (int64_t i = 0; i + 1 < x.rows; i++)
        for (int64_t c = x.cols; c < x.ld; c++)
            if (!isnan(*at(x, i, c))) describe("written between the rows", t, in, i, c);
}

/* The same bits; any NaN equals any other. */
static inline bool same_bits(tensor a, tensor b) {
    for (int64_t i = 0; i < a.rows; i++)
        for (int64_t c = 0; c < a.cols; c++) {
            real x = *at(a, i, c), y = *at(b, i, c);
            if (isnan(x) && isnan(y)) continue;
            if (memcmp(&x, &y, sizeof x) != 0) return false;
        }
    return true;
}

#endif
