#include "ops/attention_watch.h"

#include <math.h>

/* One sequence: its last rows as queries. */
typedef struct look {
    qkv_attention_shape shape;
    int64_t q_offset[2], k_offset[2];
    qkv_heads q, k, v;
    qkv_apart apart;
    int64_t rows, keys;
    qkv_mat seen, weights, out, lse;
} look;

static qkv_heads from_row(qkv_heads m, int64_t row) {
    if (m.p) m.p += row * m.row;
    return m;
}

/* globals: of the sequences before this one. */
static void look_at(const qkv_attention_shape *s, int64_t sequence, int64_t globals, qkv_heads q, qkv_heads k, qkv_heads v, look *l) {
    const int64_t from = s->k_offset[sequence];
    l->keys = s->k_offset[sequence + 1] - from;
    l->rows = l->keys < QKV_WATCH_ROWS ? l->keys : QKV_WATCH_ROWS;
    l->q_offset[0] = l->k_offset[0] = 0;
    l->q_offset[1] = l->rows, l->k_offset[1] = l->keys;
    l->shape = *s;
    l->shape.sequences = 1;
    l->shape.q_offset = l->q_offset, l->shape.k_offset = l->k_offset;
    if (s->pattern.global_offset) l->shape.pattern.global_offset += sequence;
    l->shape.dropout = (qkv_dropout){0};
    l->q = from_row(q, from + l->keys - l->rows);
    l->k = from_row(k, from);
    l->v = from_row(v, from);
    if (!s->apart) return;
    const qkv_seen seen = qkv_attention_seen(&l->shape, 0);
    l->apart = (qkv_apart){.q = from_row(s->apart->q, globals + qkv_globals_before(&seen)), .k = from_row(s->apart->k, from), .v = from_row(s->apart->v, from)};
    l->shape.apart = &l->apart;
}

/* Keys that a row sees have the same weight where all scores are 0. */
static qkv_status who_is_seen(qkv_exec *x, look *l) {
    const qkv_attention_shape *s = &l->shape;
    const qkv_attention_shape even = {.sequences = 1,
                                      .q_offset = l->q_offset,
                                      .k_offset = l->k_offset,
                                      .heads = s->heads,
                                      .kv_heads = s->kv_heads,
                                      .dim = s->dim,
                                      .value_dim = s->value_dim,
                                      .left = s->left,
                                      .right = s->right,
                                      .pattern = s->pattern};
    return qkv_attend_weights(x, &even, l->q, l->k, 0, 0, l->seen.p);
}

static void add_row(const look *l, int64_t row, double lse, qkv_watched *of) {
    const real *seen = l->seen.p + row * l->keys, *weight = l->weights.p + row * l->keys;
    int64_t keys = 0;
    double entropy = 0, top = 0;
    for (int64_t i = 0; i < l->keys; i++) {
        const double p = (double)weight[i];
        keys += !(seen[i] == 0);
        if (!(p == 0)) entropy -= p * log(p); /* NaN stays */
        if (p > top) top = p;
    }
    if (keys < 2) return;
    const double score = lse + log(top);
    if (of->rows == 0 || score > of->score || isnan(score)) of->score = score;
    of->evenness += entropy / log((double)keys);
    of->rows++;
}

static qkv_status look_by_head(qkv_exec *x, look *l, qkv_watched *of) {
    const int64_t rows = l->rows;
    QKV_TRY(qkv_attend_forward(x, &l->shape, l->q, l->k, l->v, qkv_heads_of(l->out, l->shape.value_dim), l->lse.p));
    for (int64_t h = 0; h < l->shape.heads; h++) {
        QKV_TRY(qkv_attend_weights(x, &l->shape, l->q, l->k, 0, h, l->weights.p));
        for (int64_t i = 0; i < rows && !x->plan; i++) add_row(l, i, (double)l->lse.p[h * l->lse.ld + i], &of[h]);
    }
    return QKV_OK;
}

static qkv_status look_at_sequence(qkv_exec *x, look *l, qkv_watched *of) {
    const size_t mark = qkv_exec_mark(x);
    QKV_TRY(qkv_temp(x, l->rows, l->keys, &l->seen));
    QKV_TRY(qkv_temp(x, l->rows, l->keys, &l->weights));
    l->seen.ld = l->weights.ld = l->keys;
    QKV_TRY(qkv_temp(x, l->rows, l->shape.heads * l->shape.value_dim, &l->out));
    QKV_TRY(qkv_temp(x, l->shape.heads, l->rows, &l->lse));
    QKV_TRY(who_is_seen(x, l));
    QKV_TRY(look_by_head(x, l, of));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attend_watch(qkv_exec *x, qkv_watch *w, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v) {
    if (w->layer >= w->layers || s->heads > w->heads)
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention layer %lld of %lld heads: there is room for %lld of %lld",
                        (long long)w->layer, (long long)s->heads, (long long)w->layers, (long long)w->heads);
    qkv_watched *of = w->of + w->layer * w->heads;
    for (int64_t i = 0, globals = 0; i < s->sequences; i++) {
        const qkv_seen seen = qkv_attention_seen(s, i);
        look l;
        look_at(s, i, globals, q, k, v, &l);
        globals += qkv_globals(&seen);
        if (l.keys > 1) QKV_TRY(look_at_sequence(x, &l, of));
    }
    w->layer++;
    return QKV_OK;
}
