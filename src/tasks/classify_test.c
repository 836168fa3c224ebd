/* Scoring a model: its answers to the rows of a file, counted as they come. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "data/options.h"
#include "tasks/classify_exam.h"
#include "tasks/scorer.h"

/* Rows at a time: so many probabilities are in memory at once, and so often the caller hears of progress. */
enum { ROWS_AT_ONCE = 2048 };

const int64_t qkv_exam_length_ends[QKV_EXAM_LENGTHS] = {16, 32, 64, 128, 256, -1};

/* The rows at hand: first .. of the table. */
typedef struct at_hand {
    qkv_exam *exam;
    int64_t first;
    qkv_encoded encoded;
    int64_t wrong;     /* the first whose answer is not a number; -1: there is none */
    qkv_status status; /* of what happens while they are scored */
} at_hand;

static int bucket(int64_t tokens) {
    int i = 0;
    while (qkv_exam_length_ends[i] >= 0 && tokens > qkv_exam_length_ends[i]) i++;
    return i;
}

/* ---- one label a row ---- */

static bool count_one(qkv_exam *e, int64_t row, int64_t gold, const real *p, int64_t classes, double loss) {
    int64_t predicted = qkv_argmax(p, classes);
    qkv_counts_add(&e->counts, gold, predicted, loss);
    qkv_calibration_row(&e->calibration, p, classes, gold, predicted);
    e->gold[row] = (int32_t)gold;
    e->predicted[row] = (int32_t)predicted;
    e->confidence[row] = p[predicted];
    e->gold_probability[row] = gold < 0 ? 0 : p[gold];
    return gold == predicted;
}

/* ---- any number of labels ---- */

static qkv_status grow_given(qkv_exam *e, int64_t more) {
    qkv_given *g = &e->given;
    if (g->size + more <= g->capacity) return QKV_OK;
    int64_t capacity = 2 * (g->size + more) + 1024;
    QKV_TRY(qkv_grow(e->ctx, capacity, sizeof *g->labels, &g->labels));
    g->capacity = capacity;
    return QKV_OK;
}

/* The decision that is farthest from the truth, and how probable the least probable gold label is. */
static void judge_decisions(qkv_exam *e, int64_t row, const real *p, const int32_t *gold, int64_t golds, int64_t unseen) {
    const double *thresholds = e->model->thresholds;
    real worst = unseen > 0 ? 1 : 0, least = unseen > 0 ? 0 : golds > 0 ? 1 : -1;
    int64_t g = 0;
    for (int64_t c = 0; c < e->model->config.classes; c++) {
        bool has = g < golds && gold[g] == c, given = (double)p[c] >= thresholds[c];
        real off = has ? 1 - p[c] : p[c];
        g += has;
        if (has != given && off > worst) worst = off;
        if (has && p[c] < least) least = p[c];
    }
    e->confidence[row] = worst;
    e->gold_probability[row] = least;
}

static qkv_status keep_given(qkv_exam *e, int64_t row, const real *p) {
    const double *thresholds = e->model->thresholds;
    int64_t classes = e->model->config.classes, count = 0;
    for (int64_t c = 0; c < classes; c++) count += (double)p[c] >= thresholds[c];
    QKV_TRY(grow_given(e, count));
    e->given.first[row] = e->given.size;
    e->given.count[row] = count;
    for (int64_t c = 0; c < classes; c++)
        if ((double)p[c] >= thresholds[c]) e->given.labels[e->given.size++] = (int32_t)c;
    return QKV_OK;
}

static bool count_set(at_hand *h, int64_t row, const real *p, double loss) {
    qkv_exam *e = h->exam;
    const qkv_ragged *r = &h->encoded.rows;
    const int32_t *gold = r->labels + r->label_at[row];
    int64_t golds = r->label_at[row + 1] - r->label_at[row], unseen = h->encoded.unseen[row];
    qkv_calibration_decisions(&e->calibration, p, e->model->config.classes, gold, golds);
    judge_decisions(e, h->first + row, p, gold, golds, unseen);
    if (h->status == QKV_OK) h->status = keep_given(e, h->first + row, p);
    return qkv_multi_counts_add(&e->multi, p, e->model->thresholds, gold, golds, unseen, loss);
}

/* ---- all rows ---- */

static bool all_finite(const real *p, int64_t count) {
    bool all = true;
    for (int64_t i = 0; i < count; i++) all &= isfinite(p[i]) != 0;
    return all;
}

static void count_row(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    at_hand *h = user;
    qkv_exam *e = h->exam;
    if (!isfinite(loss) || !all_finite(probabilities, classes)) {
        if (h->wrong < 0 || row < h->wrong) h->wrong = row;
        return;
    }
    const qkv_ragged *r = &h->encoded.rows;
    bool right = r->label_at ? count_set(h, row, probabilities, loss)
                             : count_one(e, h->first + row, r->target[row], probabilities, classes, loss);
    int b = bucket(h->encoded.full[row]);
    e->rows[b]++;
    e->hits[b] += right;
}

static qkv_status no_number(const qkv_exam *e, int64_t row) {
    char what[sizeof e->table.name + 24];
    snprintf(what, sizeof what, "%s:%lld", e->table.name, (long long)e->table.rows[row].line);
    return qkv_model_no_number(e->model, what);
}

static qkv_status some_rows(qkv_exam *e, int64_t first, int64_t count) {
    const qkv_model *m = e->model;
    at_hand h = {.exam = e, .first = first, .wrong = -1};
    const qkv_config reads = qkv_model_reads(m);
    QKV_TRY(qkv_encode_table(e->ctx, &reads, m->tokenizer, &e->table, first, count, m->labels, m->label_sizes,
                             m->config.classes, &h.encoded));
    e->cut_rows += h.encoded.cut_rows;
    e->cut_tokens += h.encoded.cut_tokens;
    qkv_status status = qkv_encoded_score_table(qkv_model_bag(m), &e->table, first, &h.encoded);
    if (status == QKV_OK) status = qkv_scorer_once(e->ctx, m->net, m->weights, m->packed, &h.encoded.rows, count_row, &h);
    qkv_encoded_free(e->ctx, &h.encoded);
    QKV_TRY(status);
    return h.wrong < 0 ? h.status : no_number(e, first + h.wrong);
}

static qkv_status start(qkv_exam *e) {
    int64_t rows = e->table.count, classes = e->model->config.classes;
    QKV_TRY(qkv_alloc(e->ctx, rows, sizeof *e->confidence, &e->confidence));
    QKV_TRY(qkv_alloc(e->ctx, rows, sizeof *e->gold_probability, &e->gold_probability));
    if (e->model->config.multi_label) {
        QKV_TRY(qkv_alloc(e->ctx, rows, sizeof *e->given.first, &e->given.first));
        QKV_TRY(qkv_alloc(e->ctx, rows, sizeof *e->given.count, &e->given.count));
        return qkv_multi_counts_create(e->ctx, classes, &e->multi);
    }
    QKV_TRY(qkv_alloc(e->ctx, rows, sizeof *e->gold, &e->gold));
    QKV_TRY(qkv_alloc(e->ctx, rows, sizeof *e->predicted, &e->predicted));
    return qkv_counts_create(e->ctx, classes, &e->counts);
}

static void finish(qkv_exam *e) {
    qkv_table_free(&e->table);
    qkv_counts_free(e->ctx, &e->counts);
    qkv_multi_counts_free(e->ctx, &e->multi);
    qkv_free(e->ctx, e->confidence);
    qkv_free(e->ctx, e->gold_probability);
    qkv_free(e->ctx, e->gold);
    qkv_free(e->ctx, e->predicted);
    qkv_free(e->ctx, e->given.first);
    qkv_free(e->ctx, e->given.count);
    qkv_free(e->ctx, e->given.labels);
}

static qkv_status read_rows(qkv_exam *e, const char *path, const qkv_data_options *data) {
    const qkv_config *c = &e->model->config;
    qkv_data_options filled;
    QKV_TRY(qkv_data_options_fill(e->ctx, data, &filled));
    memcpy(e->separator, filled.label_separator, sizeof e->separator);
    return qkv_table_read(e->ctx, path, data, c->multi_label ? QKV_WANT_LABELS : QKV_WANT_LABEL, c->pair, &e->table);
}

static qkv_status all_rows(qkv_exam *e, void (*progress)(void *user, int64_t rows), void *user) {
    QKV_TRY(start(e));
    for (int64_t first = 0; first < e->table.count;) {
        int64_t left = e->table.count - first, count = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
        QKV_TRY(some_rows(e, first, count));
        first += count;
        if (progress) progress(user, first);
        if (qkv_stop_asked(e->ctx))
            return qkv_fail(e->ctx, QKV_STOPPED, "stopped on request after %lld of %lld rows", (long long)first,
                            (long long)e->table.count);
    }
    return QKV_OK;
}

qkv_status qkv_classify_score(const qkv_model *model, const char *path, const qkv_data_options *data,
                              void (*progress)(void *user, int64_t rows), void *user, qkv_classify_report **report) {
    *report = NULL;
    double begun = qkv_now();
    qkv_exam e = {.ctx = model->ctx, .model = model};
    e.table.ctx = model->ctx;
    QKV_TRY(qkv_model_pack((qkv_model *)model)); /* a cache of the weights */
    qkv_status status = read_rows(&e, path, data);
    if (status == QKV_OK) status = all_rows(&e, progress, user);
    if (status == QKV_OK) status = qkv_exam_report(&e, report);
    if (status == QKV_OK) (*report)->seconds = qkv_now() - begun;
    finish(&e);
    return status;
}

qkv_status qkv_classify_score_table(const qkv_model *model, qkv_table *table, qkv_classify_report **report) {
    *report = NULL;
    qkv_exam e = {.ctx = model->ctx, .model = model, .table = *table};
    *table = (qkv_table){.ctx = table->ctx};
    qkv_status status = qkv_model_pack((qkv_model *)model);
    if (status == QKV_OK) status = all_rows(&e, NULL, NULL);
    if (status == QKV_OK) status = qkv_exam_report(&e, report);
    finish(&e);
    return status;
}
