/* qkv/attention.h: checks what a caller can get wrong, then the attention op in an arena of its own. */
#include "qkv/attention.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "api/overlap.h"
#include "base/ctx.h"
#include "base/rng.h"
#include "ops/attention.h"
#include "ops/position.h"

void qkv_attention_init(qkv_attention *a) {
    if (!a) return;
    memset(a, 0, sizeof *a);
    a->struct_size = sizeof *a;
    a->span = (qkv_span){-1, -1};
}

/* ---- checks ---- */

/* Larger numbers than these are mistakes, and below them no product of two can overflow. */
static const int64_t MOST = (int64_t)1 << 31, MOST_HEADS = 1 << 16, MOST_WIDTH = 1 << 16, MOST_REACH = 1 << 24;

static qkv_status check_offsets(qkv_ctx *ctx, const char *name, const int64_t *offset, int64_t sequences) {
    if (!offset) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s is NULL", name);
    if (offset[0] != 0) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s[0] is %lld, expected 0", name, (long long)offset[0]);
    for (int64_t s = 0; s < sequences; s++)
        if (offset[s + 1] < offset[s] || offset[s + 1] > MOST)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s[%lld] = %lld after %lld: offsets must ascend, up to %lld", name, (long long)s + 1,
                            (long long)offset[s + 1], (long long)offset[s], (long long)MOST);
    return QKV_OK;
}

static qkv_status check_range(qkv_ctx *ctx, const char *name, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s=%lld is not in %lld..%lld", name, (long long)value, (long long)min, (long long)max);
}

/* Fills in the defaults of a row and a head stride. */
static qkv_status check_stride(qkv_ctx *ctx, const char *name, int64_t heads, int64_t width, int64_t *row, int64_t *head) {
    if (*row < 0 || *row > MOST || *head < 0 || *head > MOST)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s_row=%lld %s_head=%lld: strides are in floats, 0 for the default", name, (long long)*row,
                        name, (long long)*head);
    if (*head == 0) *head = width;
    if (*row == 0) *row = heads * width;
    return QKV_OK;
}

static int64_t bias_size(const qkv_attention *a) { return a->bias ? a->heads * (2 * a->bias_reach + 1) : 0; }

static qkv_status check_bias(qkv_ctx *ctx, const qkv_attention *a) {
    QKV_TRY(check_range(ctx, "bias_reach", a->bias_reach, 0, MOST_REACH));
    for (int64_t i = 0; i < bias_size(a); i++)
        if (!isfinite(a->bias[i]))
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "bias[%lld]=%g is not finite", (long long)i, (double)a->bias[i]);
    if (a->bias_grad && !a->bias) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "bias_grad is given, but bias is NULL");
    return QKV_OK;
}

static int64_t shaw_size(const qkv_attention *a, int64_t width) { return a->shaw_keys ? (2 * a->shaw_reach + 1) * width : 0; }

static qkv_status check_finite(qkv_ctx *ctx, const char *name, const float *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(p[i])) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s[%lld]=%g is not finite", name, (long long)i, (double)p[i]);
    return QKV_OK;
}

static qkv_status check_shaw(qkv_ctx *ctx, const qkv_attention *a) {
    if (!a->shaw_keys != !a->shaw_values)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "shaw_%s is NULL, but shaw_%s is not", a->shaw_keys ? "values" : "keys",
                        a->shaw_keys ? "keys" : "values");
    if (!a->shaw_dkeys != !a->shaw_dvalues)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "shaw_d%s is NULL, but shaw_d%s is not", a->shaw_dkeys ? "values" : "keys",
                        a->shaw_dkeys ? "keys" : "values");
    if (a->shaw_dkeys && !a->shaw_keys) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "shaw_dkeys is given, but shaw_keys is NULL");
    if (!a->shaw_keys) return QKV_OK;
    if (a->rope_cos) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "shaw_keys and rope_cos do not go together");
    QKV_TRY(check_range(ctx, "shaw_reach", a->shaw_reach, 1, QKV_SHAW_REACH));
    QKV_TRY(check_finite(ctx, "shaw_keys", a->shaw_keys, shaw_size(a, a->dim)));
    return check_finite(ctx, "shaw_values", a->shaw_values, shaw_size(a, a->value_dim));
}

static qkv_status check_rope(qkv_ctx *ctx, qkv_attention *a) {
    if (!a->rope_cos != !a->rope_sin)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "rope_%s is NULL, but rope_%s is not", a->rope_cos ? "sin" : "cos", a->rope_cos ? "cos" : "sin");
    if (!a->rope_cos) return QKV_OK;
    if (a->rope_dim == 0) a->rope_dim = a->dim;
    if (a->rope_dim < 2 || a->rope_dim > a->dim || a->rope_dim % 2 != 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "rope_dim=%lld is not an even number in 2..%lld", (long long)a->rope_dim, (long long)a->dim);
    QKV_TRY(check_range(ctx, "rope_rows", a->rope_rows, a->rope_cos ? 1 : 0, MOST));
    return check_range(ctx, "rope_offset", a->rope_offset, 0, MOST);
}

/* Rows first .. end - 1 of a table. */
static qkv_status check_angles(qkv_ctx *ctx, const char *name, const float *table, int64_t first, int64_t end, int64_t width) {
    for (int64_t r = first; r < end; r++) {
        int odd = 0;
        for (int64_t c = 0; c < width; c++) odd |= !isfinite(table[r * width + c]);
        for (int64_t c = 0; odd && c < width; c++)
            if (!isfinite(table[r * width + c]))
                return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s[%lld][%lld]=%g is not finite", name, (long long)r, (long long)c,
                                (double)table[r * width + c]);
    }
    return QKV_OK;
}

static qkv_status check_rope_positions(qkv_ctx *ctx, const qkv_attention *a) {
    int64_t used_from = a->rope_rows, used_to = 0;
    for (int64_t s = 0; a->rope_cos && s < a->sequences; s++) {
        int64_t n_q = a->q_offset[s + 1] - a->q_offset[s], n_k = a->k_offset[s + 1] - a->k_offset[s];
        int64_t first = a->rope_offset + (n_q > n_k ? n_k - n_q : 0), end = a->rope_offset + n_k;
        if (first < 0 || end > a->rope_rows)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "sequence %lld stands at positions %lld..%lld, rope_cos and rope_sin have rows 0..%lld",
                            (long long)s, (long long)first, (long long)end - 1, (long long)a->rope_rows - 1);
        if (first < used_from) used_from = first;
        if (end > used_to) used_to = end;
    }
    if (!a->rope_cos) return QKV_OK;
    QKV_TRY(check_angles(ctx, "rope_cos", a->rope_cos, used_from, used_to, a->rope_dim / 2));
    return check_angles(ctx, "rope_sin", a->rope_sin, used_from, used_to, a->rope_dim / 2);
}

static qkv_status check_global_list(qkv_ctx *ctx, const qkv_attention *a) {
    QKV_TRY(check_offsets(ctx, "global_offset", a->global_offset, a->sequences));
    if (!a->global_at && a->global_offset[a->sequences] > 0) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "global_at is NULL, but global_offset is not");
    for (int64_t s = 0; s < a->sequences; s++) {
        const int64_t n_k = a->k_offset[s + 1] - a->k_offset[s];
        int64_t least = 0;
        for (int64_t g = a->global_offset[s]; g < a->global_offset[s + 1]; least = a->global_at[g++] + 1)
            if (a->global_at[g] < least || a->global_at[g] >= n_k)
                return qkv_fail(ctx, QKV_BAD_ARGUMENT, "global_at[%lld]=%lld: of sequence %lld expected ascending positions below its %lld keys",
                                (long long)g, (long long)a->global_at[g], (long long)s, (long long)n_k);
    }
    return QKV_OK;
}

static bool has_pattern(const qkv_attention *a) {
    return a->dilation > 1 || a->global_first > 0 || a->global_every > 0 || a->global_offset || a->random_blocks > 0;
}

static qkv_status check_pattern(qkv_ctx *ctx, const qkv_attention *a) {
    QKV_TRY(check_range(ctx, "dilation", a->dilation, 0, 1 << 16));
    QKV_TRY(check_range(ctx, "global_first", a->global_first, 0, MOST));
    QKV_TRY(check_range(ctx, "global_every", a->global_every, 0, MOST));
    QKV_TRY(check_range(ctx, "random_blocks", a->random_blocks, 0, QKV_RANDOM_BLOCKS_MAX));
    if (a->random_blocks > 0) QKV_TRY(check_range(ctx, "block", a->block, 1, 1 << 16));
    if (a->random_blocks > 0 && a->dilation > 1)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "random_blocks=%lld and dilation=%lld: one of the two must be 0", (long long)a->random_blocks,
                        (long long)a->dilation);
    if (a->global_offset && (a->global_first > 0 || a->global_every > 0))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "global_offset is given, and global_first=%lld global_every=%lld: a list or a rule",
                        (long long)a->global_first, (long long)a->global_every);
    for (int64_t s = 0; has_pattern(a) && s < a->sequences; s++)
        if (a->q_offset[s + 1] - a->q_offset[s] >= MOST || a->k_offset[s + 1] - a->k_offset[s] >= MOST)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "sequence %lld has %lld rows: with a pattern expected less", (long long)s, (long long)MOST);
    return a->global_offset && a->sequences > 0 ? check_global_list(ctx, a) : QKV_OK;
}

/* The caller's struct with its defaults filled in. */
static qkv_status complete(qkv_ctx *ctx, const qkv_attention *given, qkv_attention *a) {
    if (!given) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "the qkv_attention is NULL");
    if (given->struct_size < sizeof(size_t) || given->struct_size > sizeof *a)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "qkv_attention.struct_size is %zu, this library knows %zu: call qkv_attention_init first",
                        given->struct_size, sizeof *a);
    memset(a, 0, sizeof *a);
    memcpy(a, given, given->struct_size);
    if (a->kv_heads == 0) a->kv_heads = a->heads;
    if (a->value_dim == 0) a->value_dim = a->dim;
    QKV_TRY(check_range(ctx, "sequences", a->sequences, 0, MOST));
    QKV_TRY(check_range(ctx, "heads", a->heads, 1, MOST_HEADS));
    QKV_TRY(check_range(ctx, "kv_heads", a->kv_heads, 1, MOST_HEADS));
    QKV_TRY(check_range(ctx, "dim", a->dim, 1, MOST_WIDTH));
    QKV_TRY(check_range(ctx, "value_dim", a->value_dim, 1, MOST_WIDTH));
    QKV_TRY(check_range(ctx, "span.left", a->span.left, -1, INT64_MAX));
    QKV_TRY(check_range(ctx, "span.right", a->span.right, -1, INT64_MAX));
    if (a->heads % a->kv_heads != 0)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "kv_heads=%lld does not divide heads=%lld", (long long)a->kv_heads, (long long)a->heads);
    if (!isfinite(a->scale)) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "scale=%g is not finite", (double)a->scale);
    if (!(a->softcap >= 0) || isinf(a->softcap)) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "softcap=%g is not 0 or a positive number", (double)a->softcap);
    if (!(a->dropout >= 0 && a->dropout < 1)) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "dropout=%g is not in [0,1)", (double)a->dropout);
    for (int64_t h = 0; a->alibi && h < a->heads; h++)
        if (!isfinite(a->alibi[h])) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "alibi[%lld]=%g is not finite", (long long)h, (double)a->alibi[h]);
    QKV_TRY(check_bias(ctx, a));
    if (a->span.left > MOST) a->span.left = -1;
    if (a->span.right > MOST) a->span.right = -1;
    if (a->scale == 0) a->scale = (float)(1 / sqrt((double)a->dim));
    QKV_TRY(check_rope(ctx, a));
    QKV_TRY(check_shaw(ctx, a));
    QKV_TRY(check_stride(ctx, "q", a->heads, a->dim, &a->q_row, &a->q_head));
    QKV_TRY(check_stride(ctx, "k", a->kv_heads, a->dim, &a->k_row, &a->k_head));
    QKV_TRY(check_stride(ctx, "v", a->kv_heads, a->value_dim, &a->v_row, &a->v_head));
    QKV_TRY(check_stride(ctx, "o", a->heads, a->value_dim, &a->o_row, &a->o_head));
    if (a->sequences == 0) return check_pattern(ctx, a);
    QKV_TRY(check_offsets(ctx, "q_offset", a->q_offset, a->sequences));
    if (!a->k_offset) a->k_offset = a->q_offset;
    QKV_TRY(check_offsets(ctx, "k_offset", a->k_offset, a->sequences));
    QKV_TRY(check_pattern(ctx, a));
    return check_rope_positions(ctx, a);
}

static qkv_status check_buffer(qkv_ctx *ctx, const char *name, const void *p, int64_t rows) {
    if (p || rows == 0) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s is NULL, with %lld rows", name, (long long)rows);
}

/* ---- memory that is written must be nobody else's ---- */

static int64_t q_rows(const qkv_attention *a) { return a->sequences > 0 ? a->q_offset[a->sequences] : 0; }
static int64_t k_rows(const qkv_attention *a) { return a->sequences > 0 ? a->k_offset[a->sequences] : 0; }

static qkv_area q_area(const qkv_attention *a, const char *name, const void *p) {
    return (qkv_area){name, p, q_rows(a), a->heads, a->dim, a->q_row, a->q_head};
}
static qkv_area k_area(const qkv_attention *a, const char *name, const void *p) {
    return (qkv_area){name, p, k_rows(a), a->kv_heads, a->dim, a->k_row, a->k_head};
}
static qkv_area v_area(const qkv_attention *a, const char *name, const void *p) {
    return (qkv_area){name, p, k_rows(a), a->kv_heads, a->value_dim, a->v_row, a->v_head};
}
static qkv_area o_area(const qkv_attention *a, const char *name, const void *p) {
    return (qkv_area){name, p, q_rows(a), a->heads, a->value_dim, a->o_row, a->o_head};
}
static qkv_area flat_area(const char *name, const void *p, int64_t size) { return (qkv_area){name, p, 1, 1, size, 0, 0}; }

/* What every call reads beside q, k and v: alibi, bias, the two tables of the rotation, and the two by distance. */
enum { TABLES = 6 };
static void table_areas(const qkv_attention *a, qkv_area *areas) {
    int64_t angles = a->rope_rows * (a->rope_dim / 2);
    areas[0] = flat_area("alibi", a->alibi, a->heads);
    areas[1] = flat_area("bias", a->bias, bias_size(a));
    areas[2] = flat_area("rope_cos", a->rope_cos, angles);
    areas[3] = flat_area("rope_sin", a->rope_sin, angles);
    areas[4] = flat_area("shaw_keys", a->shaw_keys, shaw_size(a, a->dim));
    areas[5] = flat_area("shaw_values", a->shaw_values, shaw_size(a, a->value_dim));
}

static qkv_status check_folds(qkv_ctx *ctx, const qkv_area *w) {
    if (!qkv_area_folds(w)) return QKV_OK;
    return qkv_fail(ctx, QKV_BAD_ARGUMENT,
                    "%s is written, but its rows and heads overlap: row stride %lld and head stride %lld for %lld rows of %lld heads of %lld floats",
                    w->name, (long long)w->row, (long long)w->head, (long long)w->rows, (long long)w->heads, (long long)w->width);
}

/* The first `written` of `areas` may meet neither themselves nor any other. */
static qkv_status check_areas(qkv_ctx *ctx, const qkv_area *areas, int count, int written) {
    const int64_t most = (int64_t)1 << 59; /* and so no product below can overflow */
    for (int i = 0; i < count; i++)
        if (qkv_area_extent(&areas[i]) > most)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s would cover %lld floats", areas[i].name, (long long)qkv_area_extent(&areas[i]));
    for (int i = 0; i < written; i++) {
        QKV_TRY(check_folds(ctx, &areas[i]));
        for (int j = i + 1; j < count; j++)
            if (qkv_areas_meet(&areas[i], &areas[j]))
                return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s is written and overlaps %s: their first elements are %lld bytes apart", areas[i].name,
                                areas[j].name, (long long)((intptr_t)areas[j].base - (intptr_t)areas[i].base));
    }
    return QKV_OK;
}

/* ---- the call, first planned to learn how much scratch it takes, then run ---- */

typedef struct call {
    enum { FORWARD, BACKWARD, WEIGHTS } kind;
    qkv_attention_shape shape;
    qkv_heads q, k, v, o, d_o, dq, dk, dv;
    float *lse, *weights;
    int64_t sequence, head; /* of the weights */
    uint64_t *row_key;      /* NULL without dropout */
} call;

static qkv_pattern pattern_of(const qkv_attention *a) {
    return (qkv_pattern){.dilation = a->dilation, .global_first = a->global_first, .global_every = a->global_every,
                         .global_offset = a->global_offset, .global_at = a->global_at, .random_blocks = a->random_blocks, .block = a->block,
                         .seed = a->pattern_seed};
}

static qkv_status describe(qkv_ctx *ctx, const qkv_attention *a, const float *q, const float *k, const float *v, call *c) {
    *c = (call){.shape = {.sequences = a->sequences, .q_offset = a->q_offset, .k_offset = a->k_offset, .heads = a->heads,
                          .kv_heads = a->kv_heads, .dim = a->dim, .value_dim = a->value_dim, .scale = a->scale, .left = a->span.left,
                          .right = a->span.right, .pattern = pattern_of(a),
                          .alibi = a->alibi, .softcap = a->softcap, .bias = a->bias, .bias_reach = a->bias_reach,
                          .bias_grad = a->bias_grad, .rope_cos = a->rope_cos, .rope_sin = a->rope_sin, .rope_dim = a->rope_dim,
                          .rope_offset = a->rope_offset, .rope_interleaved = a->rope_interleaved != 0,
                          .shaw_keys = a->shaw_keys, .shaw_values = a->shaw_values, .shaw_reach = a->shaw_reach,
                          .shaw_dkeys = a->shaw_dkeys, .shaw_dvalues = a->shaw_dvalues},
                .q = {(float *)q, a->q_row, a->q_head}, .k = {(float *)k, a->k_row, a->k_head}, .v = {(float *)v, a->v_row, a->v_head}};
    QKV_TRY(check_buffer(ctx, "q", q, q_rows(a)));
    QKV_TRY(check_buffer(ctx, "k", k, k_rows(a)));
    return QKV_OK;
}

/* A row's key is of its sequence and its place there, so that a sequence has the same mask in any batch. */
static qkv_status add_dropout(qkv_ctx *ctx, const qkv_attention *a, call *c) {
    if (a->dropout == 0) return QKV_OK;
    QKV_TRY(qkv_alloc(ctx, q_rows(a), sizeof *c->row_key, &c->row_key));
    for (int64_t s = 0; s < a->sequences; s++)
        for (int64_t r = a->q_offset[s]; r < a->q_offset[s + 1]; r++) c->row_key[r] = qkv_key2((uint64_t)s, (uint64_t)(r - a->q_offset[s]));
    c->shape.dropout = (qkv_dropout){a->dropout, qkv_key2(a->seed, 0), c->row_key, 0};
    return QKV_OK;
}

static qkv_status walk(qkv_exec *x, const call *c) {
    if (c->kind == WEIGHTS) return qkv_attend_weights(x, &c->shape, c->q, c->k, c->sequence, c->head, c->weights);
    if (c->kind == FORWARD) return qkv_attend_forward(x, &c->shape, c->q, c->k, c->v, c->o, c->lse);
    return qkv_attend_backward(x, &c->shape, c->q, c->k, c->v, c->o, c->lse, c->d_o, c->dq, c->dk, c->dv);
}

static qkv_status run(qkv_ctx *ctx, const call *c) {
    qkv_exec x = {.ctx = ctx, .plan = true};
    QKV_TRY(walk(&x, c));
    size_t bytes = x.arena.peak;
    char *memory = NULL;
    if (bytes > 0) QKV_TRY(qkv_scratch(ctx, bytes, &memory));
    x = (qkv_exec){.ctx = ctx, .arena = {.base = memory, .size = bytes}};
    qkv_status status = walk(&x, c);
    qkv_scratch_return(ctx, memory);
    return status;
}

qkv_status qkv_attention_forward(qkv_ctx *ctx, const qkv_attention *given, const float *q, const float *k, const float *v, float *out,
                                 float *lse) {
    qkv_attention a;
    call c;
    if (!ctx) return QKV_BAD_ARGUMENT;
    QKV_TRY(complete(ctx, given, &a));
    QKV_TRY(describe(ctx, &a, q, k, v, &c));
    QKV_TRY(check_buffer(ctx, "v", v, k_rows(&a)));
    QKV_TRY(check_buffer(ctx, "out", out, q_rows(&a)));
    qkv_area areas[5 + TABLES] = {o_area(&a, "out", out), flat_area("lse", lse, a.heads * q_rows(&a)), q_area(&a, "q", q), k_area(&a, "k", k),
                                  v_area(&a, "v", v)};
    table_areas(&a, areas + 5);
    QKV_TRY(check_areas(ctx, areas, 5 + TABLES, 2));
    if (q_rows(&a) == 0) return QKV_OK;
    c.o = (qkv_heads){out, a.o_row, a.o_head};
    c.lse = lse;
    QKV_TRY(add_dropout(ctx, &a, &c));
    qkv_status status = run(ctx, &c);
    qkv_free(ctx, c.row_key);
    return status;
}

qkv_status qkv_attention_backward(qkv_ctx *ctx, const qkv_attention *given, const float *q, const float *k, const float *v,
                                  const float *out, const float *lse, const float *dout, float *dq, float *dk, float *dv) {
    qkv_attention a;
    call c;
    if (!ctx) return QKV_BAD_ARGUMENT;
    QKV_TRY(complete(ctx, given, &a));
    QKV_TRY(describe(ctx, &a, q, k, v, &c));
    const struct {
        const char *name;
        const void *p;
        int64_t rows;
    } buffers[] = {{"v", v, k_rows(&a)},       {"out", out, q_rows(&a)}, {"lse", lse, q_rows(&a)}, {"dout", dout, q_rows(&a)},
                   {"dq", dq, q_rows(&a)},     {"dk", dk, k_rows(&a)},   {"dv", dv, k_rows(&a)}};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) QKV_TRY(check_buffer(ctx, buffers[i].name, buffers[i].p, buffers[i].rows));
    qkv_area areas[12 + TABLES] = {q_area(&a, "dq", dq), k_area(&a, "dk", dk), v_area(&a, "dv", dv),
                                   flat_area("bias_grad", a.bias_grad, bias_size(&a)),
                                   flat_area("shaw_dkeys", a.shaw_dkeys, shaw_size(&a, a.dim)),
                                   flat_area("shaw_dvalues", a.shaw_dvalues, shaw_size(&a, a.value_dim)), q_area(&a, "q", q), k_area(&a, "k", k),
                                   v_area(&a, "v", v), o_area(&a, "out", out), o_area(&a, "dout", dout),
                                   flat_area("lse", lse, a.heads * q_rows(&a))};
    table_areas(&a, areas + 12);
    QKV_TRY(check_areas(ctx, areas, 12 + TABLES, 6));
    c.kind = BACKWARD;
    c.o = (qkv_heads){(float *)out, a.o_row, a.o_head};
    c.d_o = (qkv_heads){(float *)dout, a.o_row, a.o_head};
    c.dq = (qkv_heads){dq, a.q_row, a.q_head};
    c.dk = (qkv_heads){dk, a.k_row, a.k_head};
    c.dv = (qkv_heads){dv, a.v_row, a.v_head};
    c.lse = (float *)lse;
    QKV_TRY(add_dropout(ctx, &a, &c));
    qkv_status status = run(ctx, &c);
    qkv_free(ctx, c.row_key);
    return status;
}

qkv_status qkv_attention_weights(qkv_ctx *ctx, const qkv_attention *given, const float *q, const float *k, int64_t sequence, int64_t head,
                                 float *weights) {
    qkv_attention a;
    call c;
    if (!ctx) return QKV_BAD_ARGUMENT;
    QKV_TRY(complete(ctx, given, &a));
    QKV_TRY(describe(ctx, &a, q, k, NULL, &c));
    if (sequence >= 0 && sequence < a.sequences) { /* else refused below */
        int64_t n_q = a.q_offset[sequence + 1] - a.q_offset[sequence], n_k = a.k_offset[sequence + 1] - a.k_offset[sequence];
        if (n_q * n_k > 0 && !weights)
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "weights is NULL, with %lld rows of %lld", (long long)n_q, (long long)n_k);
        qkv_area areas[3 + TABLES] = {flat_area("weights", weights, n_q * n_k), q_area(&a, "q", q), k_area(&a, "k", k)};
        table_areas(&a, areas + 3);
        QKV_TRY(check_areas(ctx, areas, 3 + TABLES, 1));
    }
    c.kind = WEIGHTS;
    c.weights = weights;
    c.sequence = sequence;
    c.head = head;
    return run(ctx, &c);
}

int64_t qkv_attention_pairs(const qkv_attention *given) {
    qkv_attention a;
    if (complete(NULL, given, &a) != QKV_OK) return -1;
    qkv_area out = o_area(&a, "out", &a); /* some address: nothing is looked at */
    if (qkv_area_folds(&out)) return -1;
    int64_t pairs = 0; /* below 2^62: offsets are checked */
    const qkv_pattern pattern = pattern_of(&a);
    for (int64_t s = 0; s < a.sequences; s++) {
        const qkv_seen seen = {&pattern, s, a.q_offset[s + 1] - a.q_offset[s], a.k_offset[s + 1] - a.k_offset[s], a.span.left, a.span.right};
        pairs += qkv_pattern_pairs(&seen);
    }
    return pairs;
}
