#include "tasks/classify_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "models/model.h"

/* ---- labels ---- */

static int compare_bytes(const char *a, int64_t a_size, const char *b, int64_t b_size) {
    int64_t n = a_size < b_size ? a_size : b_size;
    int order = n > 0 ? memcmp(a, b, (size_t)n) : 0;
    if (order != 0) return order;
    return a_size < b_size ? -1 : a_size > b_size;
}

static int compare_labels(const void *a, const void *b) {
    const qkv_row *const *x = a, *const *y = b;
    return compare_bytes((*x)->label, (*x)->label_size, (*y)->label, (*y)->label_size);
}

static qkv_status add_label(qkv_ctx *ctx, qkv_labels *labels, const qkv_row *row) {
    int64_t i = labels->count;
    QKV_TRY(qkv_alloc(ctx, row->label_size + 1, 1, &labels->text[i]));
    memcpy(labels->text[i], row->label, (size_t)row->label_size);
    labels->text[i][row->label_size] = 0;
    labels->size[i] = row->label_size;
    labels->rows[i] = 0;
    labels->count++;
    return QKV_OK;
}

/* rows: sorted by label */
static qkv_status unique(qkv_ctx *ctx, const qkv_row **rows, int64_t n, qkv_labels *labels) {
    int64_t different = 0;
    for (int64_t i = 0; i < n; i++) different += i == 0 || compare_labels(&rows[i - 1], &rows[i]) != 0;
    QKV_TRY(qkv_alloc_zero(ctx, different, sizeof *labels->text, &labels->text));
    QKV_TRY(qkv_alloc(ctx, different, sizeof *labels->size, &labels->size));
    QKV_TRY(qkv_alloc(ctx, different, sizeof *labels->rows, &labels->rows));
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || compare_labels(&rows[i - 1], &rows[i]) != 0) QKV_TRY(add_label(ctx, labels, rows[i]));
        labels->rows[labels->count - 1]++;
    }
    return QKV_OK;
}

qkv_status qkv_labels_collect(qkv_ctx *ctx, const qkv_table *table, const int32_t *target, qkv_labels *labels) {
    *labels = (qkv_labels){0};
    const qkv_row **rows = NULL;
    QKV_TRY(qkv_alloc(ctx, table->count, sizeof *rows, &rows));
    int64_t n = 0;
    for (int64_t i = 0; i < table->count; i++) {
        if (!target || target[i] < 0) rows[n++] = &table->rows[i];
    }
    if (n > 0) qsort(rows, (size_t)n, sizeof *rows, compare_labels);
    qkv_status status = unique(ctx, rows, n, labels);
    qkv_free(ctx, rows);
    if (status != QKV_OK) qkv_labels_free(ctx, labels);
    return status;
}

void qkv_labels_free(qkv_ctx *ctx, qkv_labels *labels) {
    for (int64_t i = 0; i < labels->count; i++) qkv_free(ctx, labels->text[i]);
    qkv_free(ctx, labels->text);
    qkv_free(ctx, labels->size);
    qkv_free(ctx, labels->rows);
    *labels = (qkv_labels){0};
}

int32_t qkv_label_find(char *const *text, const int64_t *size, int64_t count, const char *label, int64_t label_size) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = compare_bytes(text[middle], size[middle], label, label_size);
        if (order == 0) return (int32_t)middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- token ids ---- */

enum { POLL_ROWS = 1024 };

typedef struct encoder {
    qkv_ctx *ctx;
    const qkv_config *config;
    const qkv_tokenizer *tokenizer;
    qkv_token *tokens; /* scratch */
    int64_t capacity;  /* of tokens */
    int64_t ids_capacity;
} encoder;

/* The limit may be far above what texts have, so the scratch starts small; a text that does not fit is encoded again. */
static qkv_status encode_one(encoder *e, const char *text, int64_t length, int64_t *count, int64_t *full) {
    QKV_TRY(qkv_model_input(e->ctx, e->config, e->tokenizer, text, length, e->tokens, e->capacity, count, full));
    if (*count <= e->capacity) return QKV_OK;
    QKV_TRY(qkv_grow(e->ctx, *count, sizeof *e->tokens, &e->tokens));
    e->capacity = *count;
    return qkv_model_input(e->ctx, e->config, e->tokenizer, text, length, e->tokens, e->capacity, count, full);
}

static qkv_status append(encoder *e, int64_t row, const char *text, int64_t length, qkv_encoded *out) {
    int64_t n, full, at = out->rows.offset[row];
    QKV_TRY(encode_one(e, text, length, &n, &full));
    if (at + n > e->ids_capacity) {
        int64_t capacity = 2 * (at + n) + 256;
        QKV_TRY(qkv_grow(e->ctx, capacity, sizeof *out->rows.ids, &out->rows.ids));
        e->ids_capacity = capacity;
    }
    for (int64_t i = 0; i < n; i++) out->rows.ids[at + i] = e->tokens[i].id;
    out->rows.offset[row + 1] = at + n;
    out->full[row] = full;
    out->cut_rows += full > n;
    out->cut_tokens += full - n;
    return QKV_OK;
}

static qkv_status encode_start(qkv_ctx *ctx, int64_t count, encoder *e, qkv_encoded *out) {
    QKV_TRY(qkv_alloc(ctx, count + 1, sizeof *out->rows.offset, &out->rows.offset));
    QKV_TRY(qkv_alloc(ctx, count, sizeof *out->full, &out->full));
    QKV_TRY(qkv_alloc(ctx, 256, sizeof *out->rows.ids, &out->rows.ids));
    e->ids_capacity = 256;
    e->capacity = e->config->max_length < 512 ? e->config->max_length : 512;
    QKV_TRY(qkv_alloc(ctx, e->capacity, sizeof *e->tokens, &e->tokens));
    out->rows.count = count;
    out->rows.offset[0] = 0;
    return QKV_OK;
}

qkv_status qkv_encode_texts(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, int64_t count,
                            const char *const *texts, const int64_t *lengths, qkv_encoded *out) {
    *out = (qkv_encoded){0};
    encoder e = {.ctx = ctx, .config = config, .tokenizer = tokenizer};
    qkv_status status = encode_start(ctx, count, &e, out);
    for (int64_t i = 0; i < count && status == QKV_OK; i++) status = append(&e, i, lengths[i] > 0 ? texts[i] : "", lengths[i], out);
    qkv_free(ctx, e.tokens);
    if (status != QKV_OK) qkv_encoded_free(ctx, out);
    return status;
}

qkv_status qkv_encode_table(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, const qkv_table *table,
                            int64_t first, int64_t count, char *const *labels, const int64_t *label_sizes, int64_t label_count,
                            qkv_encoded *out) {
    *out = (qkv_encoded){0};
    encoder e = {.ctx = ctx, .config = config, .tokenizer = tokenizer};
    qkv_status status = encode_start(ctx, count, &e, out);
    if (status == QKV_OK) status = qkv_alloc(ctx, count, sizeof *out->rows.target, &out->rows.target);
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        if (i % POLL_ROWS == 0 && qkv_stop_asked(ctx)) {
            status = qkv_fail(ctx, QKV_STOPPED, "%s: stopped on request before row %lld", table->name, (long long)(first + i + 1));
            break;
        }
        const qkv_row *row = &table->rows[first + i];
        out->rows.target[i] = qkv_label_find(labels, label_sizes, label_count, row->label, row->label_size);
        status = append(&e, i, row->text, row->text_size, out);
    }
    qkv_free(ctx, e.tokens);
    if (status != QKV_OK) qkv_encoded_free(ctx, out);
    return status;
}

void qkv_encoded_free(qkv_ctx *ctx, qkv_encoded *encoded) {
    qkv_ragged_free(ctx, &encoded->rows);
    qkv_free(ctx, encoded->full);
    *encoded = (qkv_encoded){0};
}

/* ---- statistics ---- */

qkv_status qkv_spread(qkv_ctx *ctx, const int64_t *numbers, int64_t n, int64_t *shortest, int64_t *median, int64_t *longest) {
    *shortest = *median = *longest = 0;
    if (n < 1) return QKV_OK;
    qkv_sort_item *items;
    QKV_TRY(qkv_alloc(ctx, n, sizeof *items, &items));
    for (int64_t i = 0; i < n; i++) items[i] = (qkv_sort_item){(uint64_t)numbers[i], i};
    qkv_status status = qkv_sort(ctx, items, n);
    *shortest = (int64_t)items[0].key;
    *median = (int64_t)items[(n - 1) / 2].key;
    *longest = (int64_t)items[n - 1].key;
    qkv_free(ctx, items);
    return status;
}
