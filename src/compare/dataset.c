#include "compare/dataset.h"

#include <stdio.h>
#include <string.h>

#include "data/table.h"
#include "tasks/classify_data.h"

enum { VOCABULARY = 8000 };

void qkv_ragged_between(qkv_ragged *r, int64_t shortest, int64_t longest) {
    int64_t rows = 0, to = 0, segments = 0;
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t from = r->offset[i], n = r->offset[i + 1] - from;
        if (n < shortest || n > longest) continue;
        if (r->segment_at) {
            const int64_t first = r->segment_at[i], count = r->segment_at[i + 1] - first;
            memmove(r->segment_size + segments, r->segment_size + first, (size_t)count * sizeof *r->segment_size);
            r->segment_at[rows] = segments;
            segments += count;
        }
        memmove(r->ids + to, r->ids + from, (size_t)n * sizeof *r->ids);
        r->target[rows] = r->target[i];
        r->offset[rows++] = to; /* never beyond what is still to be read */
        to += n;
    }
    r->offset[rows] = to;
    if (r->segment_at) r->segment_at[rows] = segments;
    r->count = rows;
}

static void move_row(qkv_ragged *to, const qkv_ragged *from, int64_t row) {
    const int64_t n = from->offset[row + 1] - from->offset[row], at = to->offset[to->count];
    memmove(to->ids + at, from->ids + from->offset[row], (size_t)n * sizeof *to->ids);
    to->target[to->count++] = from->target[row];
    to->offset[to->count] = at + n;
}

qkv_status qkv_ragged_split(qkv_ctx *ctx, qkv_ragged *r, int64_t k, qkv_ragged *taken) {
    int64_t tokens = 0;
    *taken = (qkv_ragged){0};
    for (int64_t i = k - 1; i < r->count; i += k) tokens += r->offset[i + 1] - r->offset[i];
    QKV_TRY(qkv_alloc_zero(ctx, r->count / k + 1, sizeof *taken->offset, &taken->offset));
    QKV_TRY(qkv_alloc(ctx, r->count / k, sizeof *taken->target, &taken->target));
    QKV_TRY(qkv_alloc(ctx, tokens, sizeof *taken->ids, &taken->ids));
    for (int64_t i = k - 1; i < r->count; i += k) move_row(taken, r, i);
    int64_t rows = 0, to = 0;
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t from = r->offset[i], n = r->offset[i + 1] - from;
        if (i % k == k - 1) continue;
        memmove(r->ids + to, r->ids + from, (size_t)n * sizeof *r->ids);
        r->target[rows] = r->target[i];
        r->offset[rows++] = to; /* never beyond what is still to be read */
        to += n;
    }
    r->offset[rows] = to;
    r->count = rows;
    return QKV_OK;
}

qkv_status qkv_ragged_copy(qkv_ctx *ctx, const qkv_ragged *r, qkv_ragged *copy) {
    *copy = (qkv_ragged){.count = r->count};
    qkv_status status = qkv_alloc(ctx, r->count + 1, sizeof *copy->offset, &copy->offset);
    if (status == QKV_OK) status = qkv_alloc(ctx, r->count, sizeof *copy->target, &copy->target);
    if (status == QKV_OK) status = qkv_alloc(ctx, r->offset[r->count], sizeof *copy->ids, &copy->ids);
    if (status != QKV_OK) {
        qkv_ragged_free(ctx, copy);
        return status;
    }
    memcpy(copy->offset, r->offset, (size_t)(r->count + 1) * sizeof *r->offset);
    if (r->count > 0) memcpy(copy->target, r->target, (size_t)r->count * sizeof *r->target);
    if (r->offset[r->count] > 0) memcpy(copy->ids, r->ids, (size_t)r->offset[r->count] * sizeof *r->ids);
    return QKV_OK;
}

qkv_status qkv_dataset_common(qkv_ctx *ctx, const qkv_dataset *l, int64_t *common) {
    int64_t *rows;
    *common = 0;
    QKV_TRY(qkv_alloc_zero(ctx, l->classes, sizeof *rows, &rows));
    for (int64_t i = 0; i < l->train.count; i++) rows[l->train.target[i]]++;
    for (int64_t c = 1; c < l->classes; c++)
        if (rows[c] > rows[*common]) *common = c;
    qkv_free(ctx, rows);
    return QKV_OK;
}

void qkv_dataset_free(qkv_ctx *ctx, qkv_dataset *l) {
    qkv_ragged_free(ctx, &l->train);
    qkv_ragged_free(ctx, &l->test);
}

static qkv_status tokenizer_of(qkv_ctx *ctx, const qkv_table *t, qkv_tokenizer **tokenizer) {
    const qkv_tokenizer_options options = {QKV_TOKENIZER_BPE, VOCABULARY, 1, QKV_NORMALIZE_NONE};
    const char **texts = NULL;
    int64_t *lengths = NULL;
    qkv_status status = qkv_alloc(ctx, t->count, sizeof *texts, &texts);
    if (status == QKV_OK) status = qkv_alloc(ctx, t->count, sizeof *lengths, &lengths);
    for (int64_t i = 0; status == QKV_OK && i < t->count; i++) texts[i] = t->rows[i].text, lengths[i] = t->rows[i].text_size;
    if (status == QKV_OK) status = qkv_tokenizer_train(ctx, &options, t->count, texts, lengths, tokenizer);
    qkv_free(ctx, lengths);
    qkv_free(ctx, texts);
    return status;
}

static qkv_status encode(qkv_ctx *ctx, const qkv_dataset *l, const qkv_tokenizer *tokenizer, const qkv_labels *labels,
                         const qkv_table *t, qkv_ragged *rows) {
    const qkv_config config = {.pooling = QKV_POOL_ATTENTION, .max_length = l->max_length};
    qkv_encoded encoded;
    QKV_TRY(qkv_encode_table(ctx, &config, tokenizer, t, 0, t->count, labels->text, labels->size, labels->count, &encoded));
    *rows = encoded.rows;
    encoded.rows = (qkv_ragged){0};
    qkv_encoded_free(ctx, &encoded);
    return QKV_OK;
}

static qkv_status read_tables(qkv_ctx *ctx, qkv_table *train, qkv_table *test, qkv_dataset *l) {
    qkv_labels labels = {0};
    qkv_tokenizer *tokenizer = NULL;
    qkv_status status = qkv_labels_collect(ctx, train, NULL, NULL, 0, &labels);
    if (status == QKV_OK && labels.count < 2)
        status = qkv_fail(ctx, QKV_BAD_DATA, "%s: all rows have one label; there is nothing to compare", train->name);
    if (status == QKV_OK && test->count == 0)
        status = qkv_fail(ctx, QKV_BAD_DATA, "%s: no row can be held out, as every label needs its rows for training", train->name);
    if (status == QKV_OK) status = tokenizer_of(ctx, train, &tokenizer);
    if (status == QKV_OK) status = encode(ctx, l, tokenizer, &labels, train, &l->train);
    if (status == QKV_OK) status = encode(ctx, l, tokenizer, &labels, test, &l->test);
    if (status == QKV_OK) {
        l->vocab = qkv_tokenizer_vocab(tokenizer);
        l->classes = labels.count;
    }
    qkv_tokenizer_free(tokenizer);
    qkv_labels_free(ctx, &labels);
    return status;
}

qkv_status qkv_dataset_read(qkv_ctx *ctx, const char *path, int64_t max_length, qkv_dataset *l) {
    qkv_table train = {.ctx = ctx}, test = {.ctx = ctx};
    *l = (qkv_dataset){.max_length = max_length, .text = true};
    qkv_status status = qkv_table_read(ctx, path, NULL, QKV_WANT_LABEL, false, &train);
    if (status == QKV_OK) {
        snprintf(l->name, sizeof l->name, "%.180s (rows %016llx), up to %lld tokens", train.name, (unsigned long long)train.hash,
                 (long long)max_length);
        status = qkv_table_hold_out(&train, &test);
    }
    if (status == QKV_OK) status = read_tables(ctx, &train, &test, l);
    qkv_table_free(&train);
    qkv_table_free(&test);
    if (status != QKV_OK) qkv_dataset_free(ctx, l);
    return status;
}
