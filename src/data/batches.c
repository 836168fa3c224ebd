#include "data/batches.h"

#include "base/rng.h"
#include "base/sort.h"

/* Rows are sorted by length within this many batches' worth of tokens: enough for like lengths to meet, few enough for
 * the rows of a batch to differ from epoch to epoch. */
enum { WINDOW_BATCHES = 50 };

void qkv_ragged_free(qkv_ctx *ctx, qkv_ragged *r) {
    qkv_free(ctx, r->offset);
    qkv_free(ctx, r->ids);
    qkv_free(ctx, r->target);
    qkv_free(ctx, r->label_at);
    qkv_free(ctx, r->labels);
    qkv_free(ctx, r->segment_at);
    qkv_free(ctx, r->segment_size);
    qkv_free(ctx, r->bag);
    *r = (qkv_ragged){0};
}

void qkv_batches_free(qkv_ctx *ctx, qkv_batches *b) {
    qkv_free(ctx, b->first);
    qkv_free(ctx, b->order);
    *b = (qkv_batches){0};
}

typedef struct plan {
    qkv_ctx *ctx;
    const int64_t *offset;
    int64_t rows, tokens, max_rows;
    qkv_sort_item *items; /* a window's rows */
    int64_t *order;       /* rows as cut */
    int64_t *first;       /* batches as cut */
    int64_t *turn;        /* batches as shuffled */
} plan;

static int64_t length_of(const plan *p, int64_t row) {
    return p->offset[row + 1] - p->offset[row];
}

/* End of the window that begins at order[begin]. */
static int64_t window_end(const plan *p, int64_t begin) {
    int64_t budget = p->tokens > INT64_MAX / WINDOW_BATCHES ? INT64_MAX : p->tokens * WINDOW_BATCHES;
    int64_t limit = p->max_rows > INT64_MAX / WINDOW_BATCHES ? INT64_MAX : p->max_rows * WINDOW_BATCHES, at = begin;
    for (int64_t tokens = 0; at < p->rows && at - begin < limit; at++) {
        tokens += length_of(p, p->order[at]);
        if (at > begin && tokens > budget) break;
    }
    return at;
}

static qkv_status sort_window(plan *p, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) p->items[i - begin] = (qkv_sort_item){(uint64_t)length_of(p, p->order[i]), p->order[i]};
    QKV_TRY(qkv_sort(p->ctx, p->items, end - begin));
    for (int64_t i = begin; i < end; i++) p->order[i] = p->items[i - begin].value;
    return QKV_OK;
}

/* Cuts order[begin..end-1]; returns the new number of batches. */
static int64_t cut_window(plan *p, int64_t begin, int64_t end, int64_t count) {
    int64_t tokens = 0;
    for (int64_t i = begin; i < end; i++) {
        int64_t length = length_of(p, p->order[i]);
        if (i == begin || tokens + length > p->tokens || i - p->first[count - 1] >= p->max_rows) {
            p->first[count++] = i;
            tokens = 0;
        }
        tokens += length;
    }
    return count;
}

static qkv_status make(plan *p, uint64_t seed, int64_t epoch, qkv_batches *b) {
    int64_t count = 0, at = 0;
    uint64_t key = qkv_key2(seed, (uint64_t)epoch);
    if (epoch >= 0)
        qkv_shuffle(qkv_key2(key, 0), p->rows, p->order);
    else
        for (int64_t i = 0; i < p->rows; i++) p->order[i] = i;
    for (int64_t begin = 0, end; begin < p->rows; begin = end) {
        end = epoch < 0 ? p->rows : window_end(p, begin);
        QKV_TRY(sort_window(p, begin, end));
        count = cut_window(p, begin, end, count);
    }
    p->first[count] = p->rows;
    if (epoch >= 0)
        qkv_shuffle(qkv_key2(key, 1), count, p->turn);
    else
        for (int64_t i = 0; i < count; i++) p->turn[i] = i;
    for (int64_t i = 0; i < count; i++) {
        b->first[i] = at;
        for (int64_t j = p->first[p->turn[i]]; j < p->first[p->turn[i] + 1]; j++) b->order[at++] = p->order[j];
    }
    b->first[count] = at;
    b->count = count;
    return QKV_OK;
}

qkv_status qkv_batches_make(qkv_ctx *ctx, const int64_t *offset, int64_t rows, int64_t batch_tokens, int64_t max_rows,
                            uint64_t seed, int64_t epoch, qkv_batches *batches) {
    *batches = (qkv_batches){0};
    if (rows < 0 || batch_tokens < 1)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "rows=%lld, batch_tokens=%lld: no batches can be made of that", (long long)rows,
                        (long long)batch_tokens);
    plan p = {.ctx = ctx, .offset = offset, .rows = rows, .tokens = batch_tokens, .max_rows = max_rows < 1 ? INT64_MAX : max_rows};
    qkv_status status = qkv_alloc(ctx, rows + 1, sizeof *batches->first, &batches->first);
    if (status == QKV_OK) status = qkv_alloc(ctx, rows, sizeof *batches->order, &batches->order);
    if (status == QKV_OK) status = qkv_alloc(ctx, rows, sizeof *p.items, &p.items);
    if (status == QKV_OK) status = qkv_alloc(ctx, rows, sizeof *p.order, &p.order);
    if (status == QKV_OK) status = qkv_alloc(ctx, rows + 1, sizeof *p.first, &p.first);
    if (status == QKV_OK) status = qkv_alloc(ctx, rows, sizeof *p.turn, &p.turn);
    if (status == QKV_OK) status = make(&p, seed, epoch, batches);
    qkv_free(ctx, p.items);
    qkv_free(ctx, p.order);
    qkv_free(ctx, p.first);
    qkv_free(ctx, p.turn);
    if (status != QKV_OK) qkv_batches_free(ctx, batches);
    return status;
}

int64_t qkv_longest_row(const int64_t *offset, int64_t rows) {
    int64_t most = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t n = offset[i + 1] - offset[i];
        if (n > most) most = n;
    }
    return most;
}
