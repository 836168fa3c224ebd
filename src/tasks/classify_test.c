#include <string.h>

#include "base/cpu.h"
#include "tasks/classify.h"
#include "tasks/classify_data.h"
#include "tasks/scorer.h"
#include "train/metrics.h"
#include "train/multi.h"

/* Rows at a time: so many probabilities are in memory at once, and so often the caller hears of progress. */
enum { ROWS_AT_ONCE = 2048, LENGTHS = 6 };

/* Tokens before the cut, inclusive; the last has no end. */
static const int64_t length_ends[LENGTHS] = {16, 32, 64, 128, 256, -1};

typedef struct exam {
    qkv_ctx *ctx;
    const qkv_model *model;
    qkv_table table;
    qkv_counts counts;
    qkv_multi_counts multi; /* instead of counts, where the model is one of any number of labels */
    int64_t first;          /* of the rows at hand */
    qkv_encoded at_hand;
    int64_t rows[LENGTHS], hits[LENGTHS];
    int64_t cut_rows, cut_tokens;
} exam;

static int bucket(int64_t tokens) {
    int i = 0;
    while (length_ends[i] >= 0 && tokens > length_ends[i]) i++;
    return i;
}

static void count_row(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    exam *e = user;
    const qkv_ragged *r = &e->at_hand.rows;
    bool right;
    if (r->label_at) {
        right = qkv_multi_counts_add(&e->multi, probabilities, e->model->thresholds, r->labels + r->label_at[row],
                                     r->label_at[row + 1] - r->label_at[row], e->at_hand.unseen[row], loss);
    } else {
        int64_t gold = r->target[row], predicted = qkv_argmax(probabilities, classes);
        qkv_counts_add(&e->counts, gold, predicted, loss);
        right = gold == predicted;
    }
    int b = bucket(e->at_hand.full[row]);
    e->rows[b]++;
    e->hits[b] += right;
}

static qkv_status some_rows(exam *e, int64_t count) {
    const qkv_model *m = e->model;
    QKV_TRY(qkv_encode_table(e->ctx, &m->config, m->tokenizer, &e->table, e->first, count, m->labels, m->label_sizes,
                             m->config.classes, &e->at_hand));
    e->cut_rows += e->at_hand.cut_rows;
    e->cut_tokens += e->at_hand.cut_tokens;
    qkv_status status = qkv_scorer_once(e->ctx, m->net, m->weights, m->packed, &e->at_hand.rows, count_row, e);
    qkv_encoded_free(e->ctx, &e->at_hand);
    return status;
}

static qkv_status all_rows(exam *e, const char *path, const qkv_data_options *data, void (*progress)(void *user, int64_t rows),
                           void *user) {
    const qkv_config *c = &e->model->config;
    QKV_TRY(qkv_table_read(e->ctx, path, data, c->multi_label ? QKV_WANT_LABELS : QKV_WANT_LABEL, c->pair, &e->table));
    if (c->multi_label)
        QKV_TRY(qkv_multi_counts_create(e->ctx, c->classes, &e->multi));
    else
        QKV_TRY(qkv_counts_create(e->ctx, c->classes, &e->counts));
    while (e->first < e->table.count) {
        int64_t left = e->table.count - e->first, count = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
        QKV_TRY(some_rows(e, count));
        e->first += count;
        if (progress) progress(user, e->first);
        if (qkv_stop_asked(e->ctx))
            return qkv_fail(e->ctx, QKV_STOPPED, "stopped on request after %lld of %lld rows", (long long)e->first,
                            (long long)e->table.count);
    }
    return QKV_OK;
}

/* ---- the report ---- */

static qkv_status report_unseen(exam *e, qkv_classify_report *r) {
    qkv_labels unseen;
    const qkv_model *m = e->model;
    QKV_TRY(qkv_labels_collect(e->ctx, &e->table, m->labels, m->label_sizes, m->config.classes, &unseen));
    qkv_status status = qkv_alloc_zero(e->ctx, unseen.count, sizeof *r->unseen_labels, &r->unseen_labels);
    for (int64_t i = 0; status == QKV_OK && i < unseen.count; i++) {
        r->unseen_labels[i] = (qkv_unseen_label){unseen.text[i], unseen.rows[i]};
        unseen.text[i] = NULL; /* the report owns it now */
        r->unseen++;
    }
    qkv_labels_free(e->ctx, &unseen);
    e->counts.unseen_labels = e->multi.unseen_labels = r->unseen;
    return status;
}

static qkv_status report_lengths(const exam *e, qkv_classify_report *r) {
    QKV_TRY(qkv_alloc(e->ctx, LENGTHS, sizeof *r->by_length, &r->by_length));
    r->lengths = LENGTHS;
    for (int i = 0; i < LENGTHS; i++) {
        r->by_length[i] = (qkv_length_score){
            .from = i == 0 ? 0 : length_ends[i - 1] + 1,
            .to = length_ends[i],
            .rows = e->rows[i],
            .accuracy = e->rows[i] > 0 ? (double)e->hits[i] / (double)e->rows[i] : 0,
        };
    }
    return QKV_OK;
}

static void report_single(const exam *e, qkv_classify_report *r) {
    for (int64_t i = 0; i < r->classes; i++) qkv_counts_class(&e->counts, i, &r->scores[i]);
    qkv_scores s;
    qkv_counts_scores(&e->counts, &s);
    r->rows = s.rows;
    r->loss = s.loss;
    r->accuracy = s.accuracy;
    r->macro_f1 = s.macro_f1;
    r->micro_f1 = s.micro_f1;
    r->weighted_f1 = s.weighted_f1;
}

static qkv_status fill_report(exam *e, qkv_classify_report *r) {
    QKV_TRY(report_unseen(e, r));
    QKV_TRY(report_lengths(e, r));
    r->classes = e->model->config.classes;
    QKV_TRY(qkv_alloc(e->ctx, r->classes, sizeof *r->scores, &r->scores));
    if (e->model->config.multi_label)
        qkv_multi_report(&e->multi, r);
    else
        report_single(e, r);
    r->cut_rows = e->cut_rows;
    r->cut_tokens = e->cut_tokens;
    r->empty_rows = e->table.empty_rows;
    r->repaired_rows = e->table.repaired_rows;
    r->unlabelled_rows = e->table.unlabelled_rows;
    memcpy(r->format, e->table.format, sizeof r->format);
    return QKV_OK;
}

void qkv_classify_score_free(qkv_ctx *ctx, qkv_classify_report *report) {
    if (!report) return;
    for (int64_t i = 0; i < report->unseen; i++) qkv_free(ctx, (char *)report->unseen_labels[i].label);
    qkv_free(ctx, report->unseen_labels);
    qkv_free(ctx, report->by_length);
    qkv_free(ctx, report->scores);
    qkv_free(ctx, report);
}

static qkv_status make_report(exam *e, qkv_classify_report **report) {
    qkv_classify_report *r;
    QKV_TRY(qkv_alloc_zero(e->ctx, 1, sizeof *r, &r));
    qkv_status status = fill_report(e, r);
    if (status == QKV_OK)
        *report = r;
    else
        qkv_classify_score_free(e->ctx, r);
    return status;
}

qkv_status qkv_classify_score(const qkv_model *model, const char *path, const qkv_data_options *data,
                              void (*progress)(void *user, int64_t rows), void *user, qkv_classify_report **report) {
    *report = NULL;
    double begun = qkv_now();
    exam e = {.ctx = model->ctx, .model = model};
    e.table.ctx = model->ctx;
    QKV_TRY(qkv_model_pack((qkv_model *)model)); /* a cache of the weights */
    qkv_status status = all_rows(&e, path, data, progress, user);
    if (status == QKV_OK) status = make_report(&e, report);
    if (status == QKV_OK) (*report)->seconds = qkv_now() - begun;
    qkv_table_free(&e.table);
    qkv_counts_free(e.ctx, &e.counts);
    qkv_multi_counts_free(e.ctx, &e.multi);
    return status;
}
