#include "compare/crossval.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/folds.h"
#include "tasks/scorer.h"
#include "train/bag_fit.h"

enum { VOCABULARY = 8000, FEW = 1000, WHOLE = 1 << 24, MOST_WEIGHTS = 1 << 26 };

void qkv_crossval_free(qkv_crossval *c) {
    if (!c->ctx) return;
    qkv_table_free(&c->train);
    qkv_table_free(&c->test);
    qkv_table_free(&c->table);
    qkv_labels_free(c->ctx, &c->labels);
    qkv_free(c->ctx, c->target);
    qkv_free(c->ctx, c->fold);
    qkv_tokenizer_free(c->tokenizer);
    *c = (qkv_crossval){0};
}

double qkv_crossval_most_frequent(const qkv_crossval *c) {
    int64_t most = 0;
    for (int64_t i = 0; i < c->labels.count; i++)
        if (c->labels.rows[i] > most) most = c->labels.rows[i];
    return c->table.count > 0 ? (double)most / (double)c->table.count : 0;
}

/* ---- rows ---- */

static int64_t words_of(const qkv_row *row) {
    int64_t n = 0;
    for (int64_t i = 0; i < row->text_size; i++) n += row->text[i] != ' ' && (i == 0 || row->text[i - 1] == ' ');
    return n;
}

static qkv_status count_words(qkv_crossval *c) {
    int64_t *n, shortest, longest;
    QKV_TRY(qkv_alloc(c->ctx, c->table.count, sizeof *n, &n));
    for (int64_t i = 0; i < c->table.count; i++) n[i] = words_of(&c->table.rows[i]);
    qkv_status status = qkv_spread(c->ctx, n, c->table.count, &shortest, &c->words, &longest);
    qkv_free(c->ctx, n);
    return status;
}

void qkv_crossval_ask(qkv_crossval *c, int64_t folds) {
    c->asked = folds;
    c->test_rows = 0;
    for (int64_t i = 0; i < c->table.count; i++) c->test_rows += c->fold[i] < folds;
}

/* The rows are there: labels, folds, a name. */
static qkv_status settle(qkv_crossval *c, uint64_t seed) {
    const qkv_table *t = &c->table;
    c->at = -1;
    c->train.ctx = c->test.ctx = c->ctx;
    QKV_TRY(qkv_labels_collect(c->ctx, t, NULL, NULL, 0, &c->labels));
    if (c->labels.count < 2)
        return qkv_fail(c->ctx, QKV_BAD_DATA, "%s: all rows have one label; there is nothing to compare", t->name);
    QKV_TRY(qkv_alloc(c->ctx, t->count, sizeof *c->target, &c->target));
    QKV_TRY(qkv_alloc(c->ctx, t->count, sizeof *c->fold, &c->fold));
    QKV_TRY(qkv_table_deal(t, QKV_CROSSVAL_FOLDS, seed, c->fold));
    for (int64_t i = 0; i < t->count; i++)
        c->target[i] = qkv_label_find(c->labels.text, c->labels.size, c->labels.count, t->rows[i].label, t->rows[i].label_size);
    qkv_crossval_ask(c, t->count < FEW ? QKV_CROSSVAL_FOLDS : 1);
    return count_words(c);
}

qkv_status qkv_crossval_read(qkv_ctx *ctx, const char *path, qkv_crossval *c) {
    c->ctx = ctx;
    QKV_TRY(qkv_table_read(ctx, path, NULL, QKV_WANT_LABEL, false, &c->table));
    snprintf(c->name, sizeof c->name, "%.180s (rows %016" PRIx64 ")", c->table.name, c->table.hash);
    return settle(c, 0);
}

/* ---- made rows ---- */

enum { KINDS = 4, WORDS = 400, TELLING = 12 };

static int make_word(uint64_t key, int kind, char *to) {
    const double u = qkv_uniform(qkv_key2(key, 1));
    const int of = u < 0.03 ? kind : u < 0.05 ? (int)qkv_below(qkv_key2(key, 2), KINDS) : -1;
    if (of >= 0) return sprintf(to, "k%dx%d", of, (int)qkv_below(qkv_key2(key, 3), TELLING));
    const double v = qkv_uniform(qkv_key2(key, 4));
    return sprintf(to, "w%d", (int)(v * v * WORDS)); /* some are frequent */
}

static int64_t make_text(uint64_t key, int kind, int64_t words, char *to) {
    int64_t n = 0;
    for (int64_t i = 0, left = 0; i < words; i++, left--) {
        if (left == 0) left = 5 + (int64_t)qkv_below(qkv_key3(key, 5, (uint64_t)i), 20);
        n += make_word(qkv_key3(key, 6, (uint64_t)i), kind, to + n);
        n += sprintf(to + n, left == 1 || i == words - 1 ? ". " : " ");
    }
    return n - 1;
}

qkv_status qkv_crossval_make(qkv_ctx *ctx, int64_t rows, int64_t words, uint64_t seed, qkv_crossval *c) {
    enum { WORD_MOST = 10 };
    qkv_table *t = &c->table;
    int64_t at = 0;
    c->ctx = t->ctx = ctx;
    snprintf(t->name, sizeof t->name, "made texts");
    snprintf(c->name, sizeof c->name, "made texts of %" PRId64 " to %" PRId64 " words, %" PRId64 " of them, seed %" PRIu64,
             words / 2, words, rows, seed);
    QKV_TRY(qkv_alloc(ctx, rows, sizeof *t->rows, &t->rows));
    QKV_TRY(qkv_alloc(ctx, rows * (WORD_MOST * words + 8), 1, &t->pool));
    for (int64_t i = 0; i < rows; i++) {
        const uint64_t key = qkv_key3(seed, 0x706174, (uint64_t)i);
        const int kind = (int)(i % KINDS);
        char *label = t->pool + at, *text = label + 2;
        label[0] = (char)('a' + kind), label[1] = 0;
        const int64_t n = make_text(key, kind, words / 2 + (int64_t)qkv_below(qkv_key2(key, 7), (uint64_t)(words / 2 + 1)), text);
        text[n] = 0;
        at += 2 + n + 1;
        const qkv_row row = {.label = label, .label_size = 1, .label_count = 1, .text = text, .text_size = n, .line = i + 1};
        qkv_table_put(t, &row);
    }
    return settle(c, seed);
}

/* ---- a fold ---- */

static qkv_status train_tokenizer(qkv_crossval *c) {
    const qkv_tokenizer_options options = {QKV_TOKENIZER_BPE, VOCABULARY, 1, QKV_NORMALIZE_NONE};
    const qkv_table *t = &c->train;
    const char **texts = NULL;
    int64_t *lengths = NULL;
    qkv_status status = qkv_alloc(c->ctx, t->count, sizeof *texts, &texts);
    if (status == QKV_OK) status = qkv_alloc(c->ctx, t->count, sizeof *lengths, &lengths);
    for (int64_t i = 0; status == QKV_OK && i < t->count; i++) texts[i] = t->rows[i].text, lengths[i] = t->rows[i].text_size;
    if (status == QKV_OK) status = qkv_tokenizer_train(c->ctx, &options, t->count, texts, lengths, &c->tokenizer);
    qkv_free(c->ctx, lengths);
    qkv_free(c->ctx, texts);
    return status;
}

static qkv_status turn_to(qkv_crossval *c, int64_t fold) {
    if (c->at == fold) return QKV_OK;
    c->at = -1;
    qkv_table_free(&c->train);
    qkv_table_free(&c->test);
    qkv_tokenizer_free(c->tokenizer);
    c->tokenizer = NULL;
    QKV_TRY(qkv_table_view(&c->table, c->fold, (int32_t)fold, false, &c->train));
    QKV_TRY(qkv_table_view(&c->table, c->fold, (int32_t)fold, true, &c->test));
    QKV_TRY(train_tokenizer(c));
    c->at = fold;
    return QKV_OK;
}

/* Of rows that are longer than `most`, halves of it from both ends. */
static void keep_ends(qkv_ragged *r, int64_t most) {
    int64_t to = 0;
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t from = r->offset[i], n = r->offset[i + 1] - from, head = n > most ? most / 2 : n,
                      tail = n > most ? most - head : 0;
        memmove(r->ids + to, r->ids + from, (size_t)head * sizeof *r->ids);
        memmove(r->ids + to + head, r->ids + from + n - tail, (size_t)tail * sizeof *r->ids);
        r->offset[i] = to; /* never beyond what is still to be read */
        to += head + tail;
    }
    r->offset[r->count] = to;
}

static qkv_status encode(qkv_crossval *c, const qkv_table *t, const qkv_config *config, bool ends, qkv_ragged *rows) {
    qkv_config how = *config;
    qkv_encoded encoded;
    if (ends) how.max_length = WHOLE;
    QKV_TRY(
        qkv_encode_table(c->ctx, &how, c->tokenizer, t, 0, t->count, c->labels.text, c->labels.size, c->labels.count, &encoded));
    if (ends) keep_ends(&encoded.rows, config->max_length);
    *rows = encoded.rows;
    encoded.rows = (qkv_ragged){0};
    qkv_encoded_free(c->ctx, &encoded);
    return QKV_OK;
}

qkv_status qkv_crossval_dataset(qkv_crossval *c, int64_t fold, const qkv_config *config, bool ends, qkv_dataset *l) {
    *l = (qkv_dataset){.classes = c->labels.count, .max_length = config->max_length, .text = true};
    snprintf(l->name, sizeof l->name, "%s", c->name);
    QKV_TRY(turn_to(c, fold));
    l->vocab = qkv_tokenizer_vocab(c->tokenizer);
    qkv_status status = encode(c, &c->train, config, ends, &l->train);
    if (status == QKV_OK) status = encode(c, &c->test, config, ends, &l->test);
    if (status != QKV_OK) qkv_dataset_free(c->ctx, l);
    return status;
}

/* ---- the linear model ---- */

typedef struct texts {
    const char **text;
    int64_t *length;
    int32_t *target;
    qkv_bag_texts seen, held, all; /* one in ten is held to choose the cost by */
} texts;

static void texts_free(qkv_ctx *ctx, texts *t) {
    qkv_free(ctx, t->text);
    qkv_free(ctx, t->length);
    qkv_free(ctx, t->target);
}

static qkv_bag_texts part(const texts *t, int64_t from, int64_t to) {
    return (qkv_bag_texts){.rows = to - from, .texts = t->text + from, .lengths = t->length + from, .target = t->target + from};
}

/* The held rows first. */
static qkv_status texts_of(qkv_crossval *c, texts *t) {
    int64_t held = 0, n = 0;
    QKV_TRY(qkv_alloc(c->ctx, c->train.count, sizeof *t->text, &t->text));
    QKV_TRY(qkv_alloc(c->ctx, c->train.count, sizeof *t->length, &t->length));
    QKV_TRY(qkv_alloc(c->ctx, c->train.count, sizeof *t->target, &t->target));
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < c->train.count; i++) {
            const qkv_row *row = &c->train.rows[i];
            if ((i % 10 == 9) != (pass == 0)) continue;
            t->text[n] = row->text;
            t->length[n] = row->text_size;
            t->target[n++] = qkv_label_find(c->labels.text, c->labels.size, c->labels.count, row->label, row->label_size);
            held += pass == 0;
        }
    t->held = part(t, 0, held);
    t->seen = part(t, held, n);
    t->all = part(t, 0, n);
    return QKV_OK;
}

static qkv_status answer(qkv_crossval *c, const qkv_bag *bag, int32_t *given) {
    qkv_encoded e = {.rows.count = c->test.count};
    qkv_status status = qkv_encoded_score_table(bag, &c->test, 0, &e);
    for (int64_t i = 0; status == QKV_OK && i < c->test.count; i++)
        given[i] = (int32_t)qkv_argmax(e.rows.bag + i * bag->classes, bag->classes);
    qkv_encoded_free(c->ctx, &e);
    return status;
}

qkv_status qkv_crossval_linear(qkv_crossval *c, int64_t fold, int32_t **given, double *bytes) {
    texts t = {0};
    qkv_bag bag = {.ctx = c->ctx};
    QKV_TRY(turn_to(c, fold));
    QKV_TRY(qkv_alloc(c->ctx, c->test.count, sizeof **given, given));
    qkv_bag_options o = {
        .ngrams = 2, .beginnings = true, .min_rows = 1, .most = MOST_WEIGHTS, .classes = c->labels.count, .seed = 1};
    qkv_status status = texts_of(c, &t);
    if (status == QKV_OK) status = qkv_bag_fit(c->ctx, &o, &t.seen, &t.held, &bag, &o.cost);
    qkv_bag_free(&bag);
    bag = (qkv_bag){.ctx = c->ctx};
    if (status == QKV_OK) status = qkv_bag_fit(c->ctx, &o, &t.all, NULL, &bag, NULL);
    if (status == QKV_OK) status = answer(c, &bag, *given);
    *bytes = (double)qkv_bag_bytes(&bag);
    qkv_bag_free(&bag);
    texts_free(c->ctx, &t);
    if (status == QKV_OK) return QKV_OK;
    qkv_free(c->ctx, *given);
    *given = NULL;
    return status;
}
