/* Vectors by distance around the kernel: packing them, and their gradients, which are products of sums that the kernel leaves with
 * queries and with dO, over all rows. */
#include "ops/attention_job.h"
#include "ops/split.h"

qkv_status qkv_attend_check_shaw(const qkv_exec *x, const qkv_attention_shape *s) {
    if (!s->shaw_keys && !s->shaw_values) return QKV_OK;
    if (s->shaw_keys && s->shaw_values && s->shaw_reach >= 1 && s->shaw_reach <= QKV_ATTEND_REACH && !s->rope_cos &&
        qkv_dilation(&s->pattern) == 1 && !qkv_attend_has_further(s) && !qkv_attend_has_global(s))
        return QKV_OK;
    return qkv_fail(x->ctx, QKV_INTERNAL, "vectors by distance up to %lld: not all are there, or with rotations or a pattern",
                    (long long)s->shaw_reach);
}

static int64_t count_of(const job *j) { return 2 * j->s->shaw_reach + 1; }

qkv_status qkv_attend_prepare_shaw(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    const bool wanted = s->shaw_keys && j->kind == ATTEND_WINDOW;
    qkv_mat packed, weights, slopes;
    if (!wanted) return QKV_OK;
    if (!j->split) j->shaw_work = j->kernels->attend_shaw_work(j->most_q, s->shaw_reach, j->backward);
    QKV_TRY(qkv_temp(x, 1, j->kernels->attend_shaw_size(s->shaw_reach, s->dim, s->value_dim), &packed));
    j->shaw = packed.p;
    if (!x->plan) j->kernels->attend_shaw_pack(s->shaw_reach, s->dim, s->value_dim, s->shaw_keys, s->shaw_values, packed.p);
    if (!j->backward) return QKV_OK;
    QKV_TRY(qkv_temp(x, s->heads * j->q_rows, count_of(j), &weights));
    QKV_TRY(qkv_temp(x, s->heads * j->q_rows, count_of(j), &slopes));
    j->shaw_weights = weights.p;
    j->shaw_slopes = slopes.p;
    return QKV_OK;
}

int64_t qkv_attend_shaw_shared(const job *j, int64_t n_q) {
    return j->s->shaw_keys ? j->kernels->attend_shaw_work(n_q, j->s->shaw_reach, true) : 0;
}

void qkv_attend_describe_shaw(const job *j, int64_t head, const attend_rows *r, qkv_attend *a) {
    a->shaw = j->shaw;
    a->shaw_reach = j->s->shaw_reach;
    if (!j->backward) return;
    const int64_t at = (head * j->q_rows + r->q) * count_of(j);
    a->shaw_weights = j->shaw_weights + at;
    a->shaw_slopes = j->shaw_slopes + at;
}

void qkv_attend_clear_shaw(const job *j, const qkv_attend *a) {
    for (int64_t i = 0; a->shaw && i < a->n_q * count_of(j); i++) a->shaw_weights[i] = a->shaw_slopes[i] = 0;
}

/* ---- gradients ---- */

enum { BLOCK = 2048 }; /* rows at a time */

typedef struct gradient {
    const job *j;
    qkv_heads sums[2], rows[2];  /* of keys: slopes and queries; of values: weights and dO */
    int64_t width[2];
    real *parts[2]; /* [heads][count][width] */
    real *turned, *packed; /* [threads] */
    int64_t turned_size, packed_size;
} gradient;

/* Part of one head: one chain over the rows. */
static void gradient_chunk(void *arg, int64_t chunk, int thread) {
    const gradient *g = arg;
    const job *j = g->j;
    const int64_t count = count_of(j), head = chunk / 2, which = chunk % 2, width = g->width[which];
    real *turned = g->turned + thread * g->turned_size, *packed = g->packed + thread * g->packed_size;
    qkv_gemm m = {.m = count, .n1 = width, .a = turned, .a_col = 1, .packed = packed, .c = g->parts[which] + head * count * width, .ldc = width};
    for (int64_t i = 0; i < count * width; i++) m.c[i] = 0;
    for (int64_t first = 0; first < j->q_rows; first += BLOCK) {
        m.k = j->q_rows - first < BLOCK ? j->q_rows - first : BLOCK;
        m.a_row = m.k;
        m.accumulate = true;
        j->kernels->gemm_turn(m.k, count, attend_at(g->sums[which], first, head), count, turned, m.k, NULL);
        const real *rows = attend_at(g->rows[which], first, head);
        j->kernels->gemm_pack(m.k, width, 0, m.k, 0, width, rows, g->rows[which].row, 1, packed);
        j->kernels->gemm(&m);
    }
}

/* The sum over heads, ascending, of elements of one distance. */
static void fold_chunk(void *arg, int64_t chunk, int thread) {
    const gradient *g = arg;
    const qkv_attention_shape *s = g->j->s;
    const int64_t count = count_of(g->j), which = chunk / count, distance = chunk % count, width = g->width[which];
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
    const int64_t count = count_of(j), rows = j->q_rows < BLOCK ? j->q_rows : BLOCK, widest = s->dim > s->value_dim ? s->dim : s->value_dim;
    gradient g = {.j = j,
                  .sums = {{j->shaw_slopes, count, j->q_rows * count}, {j->shaw_weights, count, j->q_rows * count}},
                  .rows = {j->q, j->d_o},
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
