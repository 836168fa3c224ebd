#include "train/masking.h"

#include <math.h>

#include "qkv/tokenizer.h"

/* Keeps these draws apart from the dropout sites of the network and from token dropout, also keyed by (seed, step, site). */
enum { MASK_SITE = 0x6d61736b };

static bool may_hide(int32_t id) { return id != QKV_TOKEN_CLS && id != QKV_TOKEN_SEP; }

static int32_t hidden_of(const qkv_ragged *data, int64_t row, double share) {
    int64_t n = 0;
    for (int64_t i = data->offset[row]; i < data->offset[row + 1]; i++) n += may_hide(data->ids[i]);
    int64_t k = (int64_t)floor(share * (double)n + 0.5);
    if (k < 1) k = 1;
    return (int32_t)(k < n ? k : n);
}

qkv_status qkv_masking_create(qkv_ctx *ctx, const qkv_ragged *data, double share, int64_t vocab, int64_t max_tokens,
                              qkv_masking *m) {
    *m = (qkv_masking){.data = data, .vocab = vocab, .max_tokens = max_tokens};
    qkv_status status = qkv_alloc(ctx, data->count, sizeof *m->count, &m->count);
    if (status == QKV_OK) status = qkv_alloc(ctx, max_tokens, sizeof *m->row, &m->row);
    if (status == QKV_OK) status = qkv_alloc(ctx, max_tokens, sizeof *m->target, &m->target);
    if (status != QKV_OK) {
        qkv_masking_free(ctx, m);
        return status;
    }
    for (int64_t i = 0; i < data->count; i++) {
        m->count[i] = hidden_of(data, i, share);
        m->total += m->count[i];
    }
    return QKV_OK;
}

void qkv_masking_free(qkv_ctx *ctx, qkv_masking *m) {
    qkv_free(ctx, m->count);
    qkv_free(ctx, m->row);
    qkv_free(ctx, m->target);
    *m = (qkv_masking){0};
}

int64_t qkv_masking_bytes(const qkv_masking *m) {
    return m->data ? (m->data->count + 2 * m->max_tokens) * (int64_t)sizeof(int32_t) : 0;
}

int64_t qkv_masking_units(const qkv_masking *m, const int64_t *rows, int64_t count) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) n += m->count[rows[i]];
    return n;
}

static int32_t instead(const qkv_masking *m, int32_t id, uint64_t key) {
    double u = qkv_uniform(qkv_key2(key, 1));
    if (u < 0.8) return QKV_TOKEN_MASK;
    if (u >= 0.9 || m->vocab <= QKV_TOKEN_SPECIALS) return id;
    return (int32_t)(QKV_TOKEN_SPECIALS + qkv_below(qkv_key2(key, 2), (uint64_t)(m->vocab - QKV_TOKEN_SPECIALS)));
}

/* Exactly `left` of the tokens from..to-1 (Knuth, vol. 2, section 3.4.2, algorithm S). */
static int64_t hide_row(qkv_masking *m, qkv_gather *g, const qkv_batch *batch, int64_t from, int64_t to, int64_t left, uint64_t key,
                        int64_t at) {
    int64_t may = 0;
    for (int64_t i = from; i < to; i++) may += may_hide(g->ids[i]);
    for (int64_t i = from; i < to && left > 0; i++) {
        if (!may_hide(g->ids[i])) continue;
        const uint64_t here = qkv_key2(key, batch->row_key[i]);
        const bool taken = qkv_uniform(here) * (double)may < (double)left;
        may--;
        if (!taken) continue;
        left--;
        m->row[at] = (int32_t)i;
        m->target[at++] = g->ids[i];
        g->ids[i] = instead(m, g->ids[i], here);
    }
    return at;
}

void qkv_masking_hide(qkv_masking *m, qkv_gather *g, const qkv_batch *batch, const int64_t *rows, bool plan, uint64_t seed,
                      uint64_t step, qkv_masks *masks) {
    *masks = (qkv_masks){.count = qkv_masking_units(m, rows, batch->n_seq), .row = m->row, .target = m->target};
    if (plan) return;
    const uint64_t key = qkv_key3(seed, step, MASK_SITE);
    int64_t at = 0;
    for (int64_t s = 0; s < batch->n_seq; s++)
        at = hide_row(m, g, batch, batch->offset[s], batch->offset[s + 1], m->count[rows[s]], key, at);
}
