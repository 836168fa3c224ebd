/* Vectors by distance around the kernel: packing them, and their gradients, which are products of sums that the kernel leaves with
 * queries and with dO, over all rows. */
#include "ops/attention_job.h"
#include "ops/split.h"

qkv_status qkv_attend_check_shaw(const qkv_exec *x, const qkv_attention_shape *s) {
    if (!s->shaw_keys && !s->shaw_values) return QKV_OK;
    if (s->shaw_keys && s->shaw_values && s->shaw_reach >= 1 && s->shaw_reach <= QKV_ATTEND_REACH && !s->rope_cos) return QKV_OK;
    return qkv_fail(x->ctx, QKV_INTERNAL, "vectors by distance up to %lld: not all are there, or with rotations", (long long)s->shaw_reach);
}

int64_t qkv_attend_shaw_count(const job *j) { return j->s->shaw_keys ? 2 * j->s->shaw_reach + 1 : 0; }

int64_t qkv_attend_shaw_work(const job *j, int64_t n_q) {
    return j->s->shaw_keys ? j->kernels->attend_shaw_work(n_q, j->s->shaw_reach, j->backward) : 0;
}

qkv_status qkv_attend_prepare_shaw(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    qkv_mat packed;
    if (!s->shaw_keys) return QKV_OK;
    QKV_TRY(qkv_temp(x, 1, j->kernels->attend_shaw_size(s->shaw_reach, s->dim, s->value_dim), &packed));
    j->shaw = packed.p;
    if (!x->plan) j->kernels->attend_shaw_pack(s->shaw_reach, s->dim, s->value_dim, s->shaw_keys, s->shaw_values, packed.p);
    return QKV_OK;
}

qkv_status qkv_attend_prepare_sums(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    const int64_t count = qkv_attend_shaw_count(j);
    qkv_mat sums;
    if (!s->shaw_keys) return QKV_OK;
    j->q_rows = s->sequences > 0 ? attend_q_from(s, s->sequences) : 0;
    j->global_rows = s->apart ? qkv_attention_globals(s) : 0;
    real **to[] = {&j->shaw_weights, &j->shaw_slopes, &j->shaw_apart};
    for (int i = 0; i < 3; i++) {
        QKV_TRY(qkv_temp(x, s->heads * (i < 2 ? j->q_rows : j->global_rows), count, &sums));
        *to[i] = sums.p;
    }
    return QKV_OK;
}

void qkv_attend_describe_sums(const job *j, int64_t head, int64_t row, int64_t step, qkv_attend *a) {
    const int64_t count = qkv_attend_shaw_count(j), at = (head * j->q_rows + row) * count;
    if (count == 0 || !j->backward) return;
    a->shaw_weights = j->shaw_weights + at;
    a->shaw_slopes = j->shaw_slopes + at;
    a->sums_row = step * count;
}

void qkv_attend_clear_sums(const job *j, const qkv_attend *a) {
    for (int64_t i = 0; a->shaw && i < a->n_q; i++)
        for (int64_t c = 0; c < qkv_attend_shaw_count(j); c++) a->shaw_weights[i * a->sums_row + c] = a->shaw_slopes[i * a->sums_row + c] = 0;
}

/* ---- gradients ---- */

enum { BLOCK = 2048 }; /* rows at a time */

/* What vectors are multiplied from: of keys slopes and queries, of values weights and dO. */
typedef struct factors {
    qkv_heads sums, rows;
    int64_t n;
} factors;

typedef struct gradient {
    const job *j;
    factors of[3]; /* of keys, of values, of keys by global queries with projections of their own */
    int64_t width[2];
    real *parts[2]; /* [heads][count][width] */
    real *turned, *packed; /* [threads] */
    int64_t turned_size, packed_size;
} gradient;

static void add_products(const gradient *g, qkv_gemm m, const factors *f, int64_t head, real *turned, real *packed) {
    const qkv_kernels *kernels = g->j->kernels;
    for (int64_t first = 0; first < f->n; first += BLOCK) {
        m.k = f->n - first < BLOCK ? f->n - first : BLOCK;
        m.a_row = m.k;
        kernels->gemm_turn(m.k, m.m, attend_at(f->sums, first, head), f->sums.row, turned, m.k, NULL);
        kernels->gemm_pack(m.k, m.n1, 0, m.k, 0, m.n1, attend_at(f->rows, first, head), f->rows.row, 1, packed);
        kernels->gemm(&m);
    }
}

/* Part of one head: one chain over the rows. */
static void gradient_chunk(void *arg, int64_t chunk, int thread) {
    const gradient *g = arg;
    const int64_t count = qkv_attend_shaw_count(g->j), head = chunk / 2, which = chunk % 2, width = g->width[which];
    real *turned = g->turned + thread * g->turned_size, *packed = g->packed + thread * g->packed_size;
    const qkv_gemm m = {.m = count, .n1 = width, .a = turned, .a_col = 1, .packed = packed, .accumulate = true,
                        .c = g->parts[which] + head * count * width, .ldc = width};
    for (int64_t i = 0; i < count * width; i++) m.c[i] = 0;
    add_products(g, m, &g->of[which], head, turned, packed);
    if (which == 0) add_products(g, m, &g->of[2], head, turned, packed);
}

/* The sum over heads, ascending, of elements of one distance. */
static void fold_chunk(void *arg, int64_t chunk, int thread) {
    const gradient *g = arg;
    const qkv_attention_shape *s = g->j->s;
    const int64_t count = qkv_attend_shaw_count(g->j), which = chunk / count, distance = chunk % count, width = g->width[which];
    real *out = (which ? s->shaw_dvalues : s->shaw_dkeys) + distance * width;
    (void)thread;
    for (int64_t c = 0; c < width; c++) {
        real sum = 0;
        for (int64_t h = 0; h < s->heads; h++) sum += g->parts[which][(h * count + distance) * width + c];
        out[c] = which ? sum : sum * s->scale;
    }
}

qkv_status qkv_attend_shaw_gradient(qkv_exec *x, const job *j) {
    const qkv_attention_shape *s = j->s;
    if (!s->shaw_keys || !s->shaw_dkeys) return QKV_OK;
    const int64_t count = qkv_attend_shaw_count(j), most = j->q_rows > j->global_rows ? j->q_rows : j->global_rows, rows = most < BLOCK ? most : BLOCK,
                  widest = s->dim > s->value_dim ? s->dim : s->value_dim;
    gradient g = {.j = j,
                  .of = {{{j->shaw_slopes, count, j->q_rows * count}, j->q, j->q_rows},
                         {{j->shaw_weights, count, j->q_rows * count}, j->d_o, j->q_rows},
                         {{j->shaw_apart, count, j->global_rows * count}, s->apart ? s->apart->q : j->q, j->global_rows}},
                  .width = {s->dim, s->value_dim},
                  .turned_size = (count * rows + 15) / 16 * 16,
                  .packed_size = qkv_packed_size(rows, widest)};
    qkv_mat parts[2], turned, packed;
    for (int i = 0; i < 2; i++) {
        QKV_TRY(qkv_temp(x, s->heads * count, g.width[i], &parts[i]));
        g.parts[i] = parts[i].p;
    }
    QKV_TRY(qkv_temp(x, x->ctx->threads, g.turned_size, &turned));
    QKV_TRY(qkv_temp(x, x->ctx->threads, g.packed_size, &packed));
    g.turned = turned.p;
    g.packed = packed.p;
    if (x->plan) return QKV_OK;
    qkv_par(x->ctx, 2 * s->heads, gradient_chunk, &g);
    qkv_par(x->ctx, 2 * count, fold_chunk, &g);
    return QKV_OK;
}
