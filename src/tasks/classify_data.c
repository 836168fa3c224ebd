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
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static qkv_status add_label(qkv_ctx *ctx, qkv_labels *labels, const char *label) {
    int64_t i = labels->count, size = (int64_t)strlen(label);
    QKV_TRY(qkv_alloc(ctx, size + 1, 1, &labels->text[i]));
    memcpy(labels->text[i], label, (size_t)size + 1);
    labels->size[i] = size;
    labels->rows[i] = 0;
    labels->count++;
    return QKV_OK;
}

/* mentions: sorted */
static qkv_status unique(qkv_ctx *ctx, const char **mentions, int64_t n, qkv_labels *labels) {
    int64_t different = 0;
    for (int64_t i = 0; i < n; i++) different += i == 0 || compare_labels(&mentions[i - 1], &mentions[i]) != 0;
    QKV_TRY(qkv_alloc_zero(ctx, different, sizeof *labels->text, &labels->text));
    QKV_TRY(qkv_alloc(ctx, different, sizeof *labels->size, &labels->size));
    QKV_TRY(qkv_alloc(ctx, different, sizeof *labels->rows, &labels->rows));
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || compare_labels(&mentions[i - 1], &mentions[i]) != 0) QKV_TRY(add_label(ctx, labels, mentions[i]));
        labels->rows[labels->count - 1]++;
    }
    return QKV_OK;
}

qkv_status qkv_labels_collect(qkv_ctx *ctx, const qkv_table *table, char *const *known, const int64_t *known_sizes,
                              int64_t known_count, qkv_labels *labels) {
    *labels = (qkv_labels){0};
    const char **mentions = NULL;
    int64_t n = 0, all = 0;
    for (int64_t i = 0; i < table->count; i++) all += table->rows[i].label_count;
    QKV_TRY(qkv_alloc(ctx, all, sizeof *mentions, &mentions));
    for (int64_t i = 0; i < table->count; i++) {
        const char *label = table->rows[i].label;
        for (int64_t k = 0; k < table->rows[i].label_count; k++) {
            int64_t size = (int64_t)strlen(label);
            if (!known || qkv_label_find(known, known_sizes, known_count, label, size) < 0) mentions[n++] = label;
            label = qkv_label_next(label, size);
        }
    }
    if (n > 0) qsort(mentions, (size_t)n, sizeof *mentions, compare_labels);
    qkv_status status = unique(ctx, mentions, n, labels);
    qkv_free(ctx, mentions);
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
    int64_t ids_capacity, segments_capacity;
} encoder;

/* The limit may be far above what texts have, so the scratch starts small; a text that does not fit is encoded again. */
static qkv_status encode_one(encoder *e, const char *text, int64_t length, int64_t *count, int64_t *full) {
    QKV_TRY(qkv_model_input(e->ctx, e->config, e->tokenizer, text, length, e->tokens, e->capacity, count, full));
    if (*count <= e->capacity) return QKV_OK;
    QKV_TRY(qkv_grow(e->ctx, *count, sizeof *e->tokens, &e->tokens));
    e->capacity = *count;
    return qkv_model_input(e->ctx, e->config, e->tokenizer, text, length, e->tokens, e->capacity, count, full);
}

static qkv_status cut_row(encoder *e, int64_t row, const char *text, int64_t length, int64_t tokens, qkv_ragged *r) {
    if (!r->segment_at) return QKV_OK;
    const int64_t at = r->segment_at[row];
    if (at + tokens > e->segments_capacity) {
        const int64_t capacity = 2 * (at + tokens) + 64;
        QKV_TRY(qkv_grow(e->ctx, capacity, sizeof *r->segment_size, &r->segment_size));
        e->segments_capacity = capacity;
    }
    r->segment_at[row + 1] = at + qkv_model_segments(e->config, text, length, e->tokens, tokens, r->segment_size + at);
    return QKV_OK;
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
    QKV_TRY(cut_row(e, row, text, length, n, &out->rows));
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
    out->rows.globals = qkv_config_globals(e->config);
    out->rows.offset[0] = 0;
    if (e->config->segment == QKV_SEGMENT_NONE) return QKV_OK;
    QKV_TRY(qkv_alloc(ctx, count + 1, sizeof *out->rows.segment_at, &out->rows.segment_at));
    out->rows.segment_at[0] = 0;
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

/* The labels that rows are to be found in. */
typedef struct dictionary {
    char *const *text;
    const int64_t *size;
    int64_t count;
} dictionary;

static qkv_status targets_start(qkv_ctx *ctx, bool multi_label, const qkv_row *rows, int64_t count, qkv_encoded *out) {
    if (!multi_label) return qkv_alloc(ctx, count, sizeof *out->rows.target, &out->rows.target);
    int64_t mentions = 0;
    for (int64_t i = 0; i < count; i++) mentions += rows[i].label_count;
    QKV_TRY(qkv_alloc(ctx, count + 1, sizeof *out->rows.label_at, &out->rows.label_at));
    QKV_TRY(qkv_alloc(ctx, mentions, sizeof *out->rows.labels, &out->rows.labels));
    out->rows.label_at[0] = 0;
    return qkv_alloc_zero(ctx, count, sizeof *out->unseen, &out->unseen);
}

/* Keeps labels[from..to-1] in order; a row has few. */
static int64_t insert(int32_t *labels, int64_t from, int64_t to, int32_t label) {
    int64_t at = to;
    for (; at > from && labels[at - 1] > label; at--) labels[at] = labels[at - 1];
    labels[at] = label;
    return to + 1;
}

static void put_targets(const dictionary *d, const qkv_row *row, int64_t i, qkv_encoded *out) {
    if (out->rows.target) {
        out->rows.target[i] = qkv_label_find(d->text, d->size, d->count, row->label, row->label_size);
        return;
    }
    const char *label = row->label;
    int64_t at = out->rows.label_at[i];
    for (int64_t k = 0; k < row->label_count; k++) {
        int64_t size = (int64_t)strlen(label);
        int32_t found = qkv_label_find(d->text, d->size, d->count, label, size);
        if (found >= 0)
            at = insert(out->rows.labels, out->rows.label_at[i], at, found);
        else
            out->unseen[i]++;
        label = qkv_label_next(label, size);
    }
    out->rows.label_at[i + 1] = at;
}

qkv_status qkv_encode_table(qkv_ctx *ctx, const qkv_config *config, const qkv_tokenizer *tokenizer, const qkv_table *table,
                            int64_t first, int64_t count, char *const *labels, const int64_t *label_sizes, int64_t label_count,
                            qkv_encoded *out) {
    *out = (qkv_encoded){0};
    encoder e = {.ctx = ctx, .config = config, .tokenizer = tokenizer};
    dictionary d = {labels, label_sizes, label_count};
    qkv_status status = encode_start(ctx, count, &e, out);
    if (status == QKV_OK) status = targets_start(ctx, config->multi_label, table->rows + first, count, out);
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        if (i % POLL_ROWS == 0 && qkv_stop_asked(ctx)) {
            status = qkv_fail(ctx, QKV_STOPPED, "%s: stopped on request before row %lld", table->name, (long long)(first + i + 1));
            break;
        }
        const qkv_row *row = &table->rows[first + i];
        put_targets(&d, row, i, out);
        status = append(&e, i, row->text, row->text_size, out);
    }
    qkv_free(ctx, e.tokens);
    if (status != QKV_OK) qkv_encoded_free(ctx, out);
    return status;
}

int64_t qkv_encoded_bytes(const qkv_encoded *e) {
    const qkv_ragged *r = &e->rows;
    if (!r->offset) return 0;
    int64_t row = (int64_t)(sizeof *r->offset + sizeof *e->full);
    if (r->target) row += (int64_t)sizeof *r->target;
    if (r->label_at) row += (int64_t)(sizeof *r->label_at + sizeof *e->unseen);
    int64_t ids = r->offset[r->count] + (r->label_at ? r->label_at[r->count] : 0);
    if (r->segment_at) row += (int64_t)sizeof *r->segment_at, ids += r->segment_at[r->count];
    return (r->count + 1) * row + ids * (int64_t)sizeof *r->ids;
}

void qkv_encoded_free(qkv_ctx *ctx, qkv_encoded *encoded) {
    qkv_ragged_free(ctx, &encoded->rows);
    qkv_free(ctx, encoded->full);
    qkv_free(ctx, encoded->unseen);
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

/* ---- what a bag says ---- */

typedef struct scoring {
    qkv_bag_reader reader;
    int32_t *found;
    int64_t capacity;
} scoring;

static qkv_status score_one(scoring *s, const char *text, int64_t length, real *scores) {
    const qkv_bag *bag = s->reader.bag;
    int64_t count;
    QKV_TRY(qkv_bag_read(&s->reader, text, length, &count));
    if (count > s->capacity) {
        s->capacity = 2 * count;
        QKV_TRY(qkv_grow(bag->ctx, s->capacity, sizeof *s->found, &s->found));
    }
    qkv_bag_score(bag, s->found, qkv_bag_find(bag, s->reader.keys, count, s->found), scores);
    return QKV_OK;
}

static void scoring_free(scoring *s) {
    qkv_free(s->reader.bag->ctx, s->found);
    qkv_bag_reader_free(&s->reader);
}

qkv_status qkv_encoded_score_texts(const qkv_bag *bag, int64_t count, const char *const *texts, const int64_t *lengths,
                                   qkv_encoded *encoded) {
    if (!bag) return QKV_OK;
    scoring s = {.reader.bag = bag};
    qkv_status status = qkv_alloc(bag->ctx, count * bag->classes, sizeof *encoded->rows.bag, &encoded->rows.bag);
    for (int64_t i = 0; status == QKV_OK && i < count; i++)
        status = score_one(&s, lengths[i] > 0 ? texts[i] : "", lengths[i], encoded->rows.bag + i * bag->classes);
    scoring_free(&s);
    return status;
}

qkv_status qkv_encoded_score_table(const qkv_bag *bag, const qkv_table *table, int64_t first, qkv_encoded *encoded) {
    if (!bag) return QKV_OK;
    scoring s = {.reader.bag = bag};
    qkv_status status = qkv_alloc(bag->ctx, encoded->rows.count * bag->classes, sizeof *encoded->rows.bag, &encoded->rows.bag);
    for (int64_t i = 0; status == QKV_OK && i < encoded->rows.count; i++) {
        const qkv_row *row = &table->rows[first + i];
        status = score_one(&s, row->text, row->text_size, encoded->rows.bag + i * bag->classes);
        if (status == QKV_OK && i % POLL_ROWS == 0 && qkv_stop_asked(bag->ctx)) status = qkv_fail(bag->ctx, QKV_STOPPED, "stopped on request");
    }
    scoring_free(&s);
    return status;
}
