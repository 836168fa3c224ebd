/* The report of a test: scores from counts, and what is kept of the rows. */
#include <math.h>
#include <string.h>

#include "tasks/classify_exam.h"

const char *qkv_tested_label(const qkv_tested *t, int64_t number) {
    int64_t classes = t->report.classes;
    return number < classes ? t->model->labels[number] : t->report.unseen_labels[number - classes].label;
}

/* ---- labels that the model does not know ---- */

static qkv_status report_unseen(qkv_exam *e, qkv_labels *unseen, qkv_classify_report *r) {
    QKV_TRY(qkv_alloc_zero(e->ctx, unseen->count, sizeof *r->unseen_labels, &r->unseen_labels));
    for (int64_t i = 0; i < unseen->count; i++) {
        r->unseen_labels[i] = (qkv_unseen_label){unseen->text[i], unseen->rows[i]};
        unseen->text[i] = NULL; /* the report owns it now */
        r->unseen++;
    }
    e->counts.unseen_labels = e->multi.unseen_labels = r->unseen;
    return QKV_OK;
}

/* A label's number: that of the class, or behind the classes that of the unseen label. */
static int32_t number_of(const qkv_exam *e, const qkv_labels *unseen, const char *label, int64_t size) {
    const qkv_model *m = e->model;
    int32_t found = qkv_label_find(m->labels, m->label_sizes, m->config.classes, label, size);
    return found >= 0 ? found : (int32_t)m->config.classes + qkv_label_find(unseen->text, unseen->size, unseen->count, label, size);
}

/* ---- outcomes ---- */

static qkv_status pairs(const qkv_exam *e, const qkv_labels *unseen, qkv_outcomes *o) {
    for (int64_t i = 0; i < e->table.count; i++) {
        const qkv_row *row = &e->table.rows[i];
        if (e->gold[i] < 0) e->gold[i] = number_of(e, unseen, row->label, row->label_size);
    }
    return qkv_outcomes_pairs(e->ctx, e->table.count, e->model->config.classes + unseen->count, e->gold, e->predicted, o);
}

/* The lists of all rows, one after another. */
typedef struct lists {
    int64_t *at;
    int32_t *labels;
} lists;

static void lists_free(qkv_ctx *ctx, lists *l) {
    qkv_free(ctx, l->at);
    qkv_free(ctx, l->labels);
}

/* Keeps labels[from..to-1] ascending; a row has few. */
static void insert(int32_t *labels, int64_t from, int64_t to, int32_t label) {
    for (; to > from && labels[to - 1] > label; to--) labels[to] = labels[to - 1];
    labels[to] = label;
}

static qkv_status list_gold(const qkv_exam *e, const qkv_labels *unseen, lists *l) {
    int64_t rows = e->table.count, mentions = 0, at = 0;
    for (int64_t i = 0; i < rows; i++) mentions += e->table.rows[i].label_count;
    QKV_TRY(qkv_alloc(e->ctx, rows + 1, sizeof *l->at, &l->at));
    QKV_TRY(qkv_alloc(e->ctx, mentions, sizeof *l->labels, &l->labels));
    l->at[0] = 0;
    for (int64_t i = 0; i < rows; i++) {
        const char *label = e->table.rows[i].label;
        for (int64_t k = 0; k < e->table.rows[i].label_count; k++) {
            int64_t size = (int64_t)strlen(label);
            insert(l->labels, l->at[i], at++, number_of(e, unseen, label, size));
            label = qkv_label_next(label, size);
        }
        l->at[i + 1] = at;
    }
    return QKV_OK;
}

static qkv_status list_given(const qkv_exam *e, lists *l) {
    int64_t rows = e->table.count;
    QKV_TRY(qkv_alloc(e->ctx, rows + 1, sizeof *l->at, &l->at));
    QKV_TRY(qkv_alloc(e->ctx, e->given.size, sizeof *l->labels, &l->labels));
    l->at[0] = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t count = e->given.count[i];
        if (count > 0) memcpy(l->labels + l->at[i], e->given.labels + e->given.first[i], (size_t)count * sizeof *l->labels);
        l->at[i + 1] = l->at[i] + count;
    }
    return QKV_OK;
}

static qkv_status sets(const qkv_exam *e, const qkv_labels *unseen, qkv_outcomes *o) {
    lists gold = {0}, given = {0};
    qkv_status status = list_gold(e, unseen, &gold);
    if (status == QKV_OK) status = list_given(e, &given);
    if (status == QKV_OK)
        status = qkv_outcomes_sets(e->ctx, e->table.count, e->model->config.classes + unseen->count, gold.at, gold.labels, given.at,
                                   given.labels, o);
    lists_free(e->ctx, &gold);
    lists_free(e->ctx, &given);
    return status;
}

static qkv_status keep_outcomes(qkv_exam *e, qkv_tested *t) {
    qkv_labels unseen;
    const qkv_model *m = e->model;
    QKV_TRY(qkv_labels_collect(e->ctx, &e->table, m->labels, m->label_sizes, m->config.classes, &unseen));
    qkv_status status = m->config.multi_label ? sets(e, &unseen, &t->outcomes) : pairs(e, &unseen, &t->outcomes);
    if (status == QKV_OK) status = report_unseen(e, &unseen, &t->report);
    qkv_labels_free(e->ctx, &unseen);
    return status;
}

static qkv_status report_confusion(const qkv_tested *t, qkv_classify_report *r) {
    const qkv_outcomes *o = &t->outcomes;
    QKV_TRY(qkv_alloc_zero(t->ctx, o->cells, sizeof *r->confusion, &r->confusion));
    r->confusions = o->cells;
    for (int64_t i = 0; i < o->cells; i++) {
        for (int64_t m = o->mark_at[i]; m < o->mark_at[i + 1]; m++) {
            if (o->marks[m] & QKV_GOLD) r->confusion[i].gold = o->marks[m] / QKV_MARK_LABEL;
            if (o->marks[m] & QKV_GIVEN) r->confusion[i].predicted = o->marks[m] / QKV_MARK_LABEL;
        }
    }
    for (int64_t i = 0; i < o->rows; i++) r->confusion[o->cell[i]].rows++;
    return QKV_OK;
}

/* ---- scores ---- */

static qkv_status report_lengths(const qkv_exam *e, qkv_classify_report *r) {
    QKV_TRY(qkv_alloc(e->ctx, QKV_EXAM_LENGTHS, sizeof *r->by_length, &r->by_length));
    r->lengths = QKV_EXAM_LENGTHS;
    for (int i = 0; i < QKV_EXAM_LENGTHS; i++) {
        r->by_length[i] = (qkv_length_score){
            .from = i == 0 ? 0 : qkv_exam_length_ends[i - 1] + 1,
            .to = qkv_exam_length_ends[i],
            .rows = e->rows[i],
            .accuracy = e->rows[i] > 0 ? (double)e->hits[i] / (double)e->rows[i] : 0,
        };
    }
    return QKV_OK;
}

static void report_single(const qkv_exam *e, qkv_classify_report *r) {
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

static qkv_status report_scores(qkv_exam *e, qkv_tested *t) {
    qkv_classify_report *r = &t->report;
    QKV_TRY(report_lengths(e, r));
    QKV_TRY(qkv_alloc(e->ctx, r->classes, sizeof *r->scores, &r->scores));
    QKV_TRY(qkv_alloc(e->ctx, QKV_BINS, sizeof *r->reliability, &r->reliability));
    if (e->model->config.multi_label) {
        qkv_multi_report(&e->multi, r);
    } else {
        report_single(e, r);
        QKV_TRY(report_confusion(t, r));
    }
    qkv_calibration_report(&e->calibration, r);
    for (int64_t i = 0; i < t->outcomes.rows; i++) r->errors += !qkv_outcome_right(&t->outcomes, i);
    const qkv_interval none = {(double)NAN, (double)NAN};
    r->accuracy_interval = r->macro_f1_interval = r->micro_f1_interval = r->weighted_f1_interval = none;
    return QKV_OK;
}

/* ---- the whole ---- */

static void keep_rows(qkv_exam *e, qkv_tested *t) {
    t->confidence = e->confidence;
    t->gold_probability = e->gold_probability;
    t->table = e->table;
    e->confidence = e->gold_probability = NULL;
    e->table = (qkv_table){0};
    memcpy(t->separator, e->separator, sizeof t->separator);
}

static qkv_status fill(qkv_exam *e, qkv_tested *t) {
    qkv_classify_report *r = &t->report;
    r->classes = e->model->config.classes;
    QKV_TRY(keep_outcomes(e, t));
    QKV_TRY(report_scores(e, t));
    r->cut_rows = e->cut_rows;
    r->cut_tokens = e->cut_tokens;
    r->empty_rows = e->table.empty_rows;
    r->repaired_rows = e->table.repaired_rows;
    r->unlabelled_rows = e->table.unlabelled_rows;
    memcpy(r->format, e->table.format, sizeof r->format);
    keep_rows(e, t);
    return QKV_OK;
}

qkv_status qkv_exam_report(qkv_exam *e, qkv_classify_report **report) {
    qkv_tested *t;
    QKV_TRY(qkv_alloc_zero(e->ctx, 1, sizeof *t, &t));
    t->ctx = e->ctx;
    t->model = e->model;
    qkv_status status = fill(e, t);
    if (status == QKV_OK)
        *report = &t->report;
    else
        qkv_classify_score_free(e->ctx, &t->report);
    return status;
}

void qkv_classify_score_free(qkv_ctx *ctx, qkv_classify_report *report) {
    if (!report) return;
    qkv_tested *t = (qkv_tested *)(void *)report;
    for (int64_t i = 0; i < report->unseen; i++) qkv_free(ctx, (char *)report->unseen_labels[i].label);
    qkv_free(ctx, report->unseen_labels);
    qkv_free(ctx, report->by_length);
    qkv_free(ctx, report->scores);
    qkv_free(ctx, report->reliability);
    qkv_free(ctx, report->confusion);
    qkv_free(ctx, t->confidence);
    qkv_free(ctx, t->gold_probability);
    qkv_outcomes_free(ctx, &t->outcomes);
    qkv_table_free(&t->table);
    qkv_free(ctx, t);
}
