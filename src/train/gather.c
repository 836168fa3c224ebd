#include "train/gather.h"

#include <string.h>

#include "qkv/tokenizer.h"

/* Keeps token dropout apart from every dropout site of the network, which are keyed by (seed, step, site) too. */
enum { TOKEN_SITE = 0x746f6b };

/* Room for the labels of any max_rows rows. */
static qkv_status make_labels(qkv_ctx *ctx, const qkv_ragged *data, qkv_gather *g) {
    int64_t most = 0, all = data->label_at[data->count];
    for (int64_t i = 0; i < data->count; i++) {
        int64_t n = data->label_at[i + 1] - data->label_at[i];
        if (n > most) most = n;
    }
    int64_t room = most > 0 && g->max_rows > all / most ? all : most * g->max_rows;
    QKV_TRY(qkv_alloc(ctx, g->max_rows + 1, sizeof *g->label_at, &g->label_at));
    return qkv_alloc(ctx, room, sizeof *g->labels, &g->labels);
}

/* A segment has a token at least. */
static qkv_status make_segments(qkv_ctx *ctx, const qkv_ragged *data, qkv_gather *g) {
    const int64_t all = data->segment_at[data->count];
    g->max_segments = all < g->max_tokens ? all : g->max_tokens;
    QKV_TRY(qkv_alloc(ctx, g->max_rows + 1, sizeof *g->segments, &g->segments));
    QKV_TRY(qkv_alloc(ctx, g->max_segments + 1, sizeof *g->segment_at, &g->segment_at));
    return qkv_alloc(ctx, g->max_segments, sizeof *g->segment_key, &g->segment_key);
}

static qkv_status make_globals(qkv_ctx *ctx, qkv_gather *g) {
    QKV_TRY(qkv_alloc(ctx, (g->segments ? g->max_segments : g->max_rows) + 1, sizeof *g->global_offset, &g->global_offset));
    return qkv_alloc(ctx, g->max_tokens, sizeof *g->global_at, &g->global_at);
}

qkv_status qkv_gather_create(qkv_ctx *ctx, const qkv_ragged *data, int64_t batch_tokens, int64_t max_rows, qkv_gather *g) {
    *g = (qkv_gather){0};
    int64_t longest = qkv_longest_row(data->offset, data->count);
    g->max_rows = max_rows < data->count ? max_rows : data->count;
    g->max_tokens = longest > batch_tokens ? longest : batch_tokens;
    int64_t all = data->count > 0 ? data->offset[data->count] : 0;
    if (g->max_tokens > all) g->max_tokens = all;

    qkv_status status = qkv_alloc(ctx, g->max_rows + 1, sizeof *g->offset, &g->offset);
    if (status == QKV_OK) status = qkv_alloc(ctx, g->max_tokens, sizeof *g->ids, &g->ids);
    if (status == QKV_OK) status = qkv_alloc(ctx, g->max_rows, sizeof *g->target, &g->target);
    if (status == QKV_OK && data->label_at) status = make_labels(ctx, data, g);
    if (status == QKV_OK) status = qkv_alloc(ctx, g->max_rows, sizeof *g->seq_key, &g->seq_key);
    if (status == QKV_OK) status = qkv_alloc(ctx, g->max_tokens, sizeof *g->row_key, &g->row_key);
    if (status == QKV_OK && data->segment_at) status = make_segments(ctx, data, g);
    if (status == QKV_OK && qkv_globals_listed(&data->globals)) status = make_globals(ctx, g);
    if (status != QKV_OK) qkv_gather_free(ctx, g);
    return status;
}

void qkv_gather_free(qkv_ctx *ctx, qkv_gather *g) {
    qkv_free(ctx, g->offset);
    qkv_free(ctx, g->ids);
    qkv_free(ctx, g->target);
    qkv_free(ctx, g->label_at);
    qkv_free(ctx, g->labels);
    qkv_free(ctx, g->seq_key);
    qkv_free(ctx, g->row_key);
    qkv_free(ctx, g->segments);
    qkv_free(ctx, g->segment_at);
    qkv_free(ctx, g->segment_key);
    qkv_free(ctx, g->global_offset);
    qkv_free(ctx, g->global_at);
    *g = (qkv_gather){0};
}

static void gather_labels(qkv_gather *g, const qkv_ragged *data, const int64_t *rows, int64_t count) {
    g->label_at[0] = 0;
    for (int64_t s = 0; s < count; s++) {
        int64_t from = data->label_at[rows[s]], n = data->label_at[rows[s] + 1] - from;
        if (n > 0) memcpy(g->labels + g->label_at[s], data->labels + from, (size_t)n * sizeof *g->labels);
        g->label_at[s + 1] = g->label_at[s] + n;
    }
}

/* The key of a segment is that of its row and its place in it. */
static void gather_segments(qkv_gather *g, const qkv_ragged *data, const int64_t *rows, int64_t count, bool plan) {
    int64_t n = 0;
    g->segments[0] = g->segment_at[0] = 0;
    for (int64_t s = 0; s < count; s++) {
        const int64_t from = data->segment_at[rows[s]], to = data->segment_at[rows[s] + 1];
        for (int64_t i = from; i < to; i++, n++) {
            g->segment_at[n + 1] = g->segment_at[n] + data->segment_size[i];
            if (!plan) g->segment_key[n] = qkv_key2((uint64_t)rows[s], (uint64_t)(i - from));
        }
        g->segments[s + 1] = n;
    }
}

/* By what the tokens of the data are, whatever is hidden or dropped of them afterwards; by their places where there are none yet. */
static void gather_globals(qkv_gather *g, const qkv_ragged *data, const int64_t *rows, int64_t count) {
    int64_t sequence = 0, n = 0;
    g->global_offset[0] = 0;
    for (int64_t s = 0; s < count; s++) {
        const int64_t end = data->offset[rows[s] + 1];
        const int64_t last = data->segment_at ? data->segment_at[rows[s] + 1] : 1;
        int64_t at = data->offset[rows[s]];
        for (int64_t i = data->segment_at ? data->segment_at[rows[s]] : 0; i < last; i++) {
            const int64_t size = data->segment_at ? data->segment_size[i] : end - at;
            n += qkv_globals_list(&data->globals, data->ids ? data->ids + at : NULL, size, g->global_at + n);
            g->global_offset[++sequence] = n;
            at += size;
        }
    }
}

void qkv_gather_rows(qkv_gather *g, const qkv_ragged *data, const int64_t *rows, int64_t count, bool plan, qkv_batch *batch) {
    int64_t at = 0;
    g->offset[0] = 0;
    for (int64_t s = 0; s < count; s++) {
        int64_t row = rows[s], n = data->offset[row + 1] - data->offset[row];
        if (!plan) {
            if (n > 0) memcpy(g->ids + at, data->ids + data->offset[row], (size_t)n * sizeof *g->ids);
            g->seq_key[s] = (uint64_t)row;
            for (int64_t i = 0; i < n; i++) g->row_key[at + i] = qkv_key2((uint64_t)row, (uint64_t)i);
            g->target[s] = data->target ? data->target[row] : -1;
        }
        at += n;
        g->offset[s + 1] = at;
    }
    if (data->label_at && !plan) gather_labels(g, data, rows, count);
    if (data->segment_at) gather_segments(g, data, rows, count, plan);
    if (g->global_offset) gather_globals(g, data, rows, count);
    *batch = (qkv_batch){
        .n_seq = count,
        .offset = g->offset,
        .ids = plan ? NULL : g->ids,
        .seq_key = g->seq_key,
        .row_key = g->row_key,
        .segments = g->segments,
        .segment_at = g->segment_at,
        .segment_key = g->segment_key,
        .global_offset = g->global_offset,
        .global_at = g->global_at,
    };
}

void qkv_gather_drop(qkv_gather *g, const qkv_batch *batch, double p, int32_t unknown, uint64_t seed, uint64_t step) {
    if (!(p > 0)) return;
    uint64_t key = qkv_key3(seed, step, TOKEN_SITE);
    int64_t n = batch->offset[batch->n_seq];
    for (int64_t i = 0; i < n; i++) {
        if (g->ids[i] != QKV_TOKEN_SEP && qkv_uniform(qkv_key2(key, batch->row_key[i])) < p) g->ids[i] = unknown;
    }
}
