/* Files of a test: the wrong rows, and which label was taken for which. */
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/sort.h"
#include "tasks/classify_exam.h"
#include "text/utf8.h"

/* Bytes that are put together before they are written. */
enum { ENOUGH = 1 << 16 };

typedef struct writer {
    const qkv_tested *t;
    qkv_output *file;
    qkv_buf text;
} writer;

static qkv_status drain(writer *w, int64_t least) {
    if (w->text.size < least || w->text.size == 0) return QKV_OK;
    QKV_TRY(qkv_output_write(w->file, w->text.p, w->text.size));
    w->text.size = 0;
    return QKV_OK;
}

static qkv_status put(writer *w, const char *text) {
    return qkv_buf_add(&w->text, text, (int64_t)strlen(text));
}

/* Opens, lets `body` write, and commits. */
static qkv_status write_file(const qkv_tested *t, const char *path, qkv_status (*body)(writer *w, void *user), void *user) {
    writer w = {.t = t, .text = {.ctx = t->ctx}};
    QKV_TRY(qkv_output_open(t->ctx, path, &w.file));
    qkv_status status = body(&w, user);
    if (status == QKV_OK) status = drain(&w, 1);
    qkv_buf_free(&w.text);
    if (status == QKV_OK) return qkv_output_commit(w.file);
    qkv_output_discard(w.file);
    return status;
}

/* ---- wrong rows ---- */

/* A tab or a line break in a text must not look like the end of a column or a row. */
static qkv_status put_text(writer *w, const char *text, int64_t size) {
    for (int64_t at = 0; at < size;) {
        int32_t cp;
        int step = qkv_utf8_next(text + at, size - at, &cp);
        if (step > 0 && cp == '\\') {
            QKV_TRY(put(w, "\\\\"));
        } else if (step > 0 && cp >= 0x20 && (cp < 0x7f || cp >= 0xa0)) {
            QKV_TRY(qkv_buf_add(&w->text, text + at, step));
        } else {
            step = step < 0 ? -step : step;
            for (int i = 0; i < step; i++) QKV_TRY(qkv_buf_addf(&w->text, "\\x%02X", (unsigned)(unsigned char)text[at + i]));
        }
        at += step;
    }
    return QKV_OK;
}

/* As it is read back from a label column. */
static qkv_status put_escaped(writer *w, const char *label, const char *separator) {
    size_t n = strlen(separator);
    for (const char *c = label; *c;) {
        bool divides = strncmp(c, separator, n) == 0;
        if (divides || *c == '\\') QKV_TRY(put(w, "\\"));
        QKV_TRY(qkv_buf_add(&w->text, c, divides ? (int64_t)n : 1));
        c += divides ? n : 1;
    }
    return QKV_OK;
}

/* The labels of a row that have the bit. */
static qkv_status put_labels(writer *w, int64_t row, uint32_t bit) {
    const qkv_tested *t = w->t;
    const qkv_outcomes *o = &t->outcomes;
    int64_t cell = o->cell[row], count = 0;
    for (int64_t m = o->mark_at[cell]; m < o->mark_at[cell + 1]; m++) {
        if (!(o->marks[m] & bit)) continue;
        const char *label = qkv_tested_label(t, o->marks[m] / QKV_MARK_LABEL);
        if (count++) QKV_TRY(put(w, t->separator));
        QKV_TRY(t->report.multi_label ? put_escaped(w, label, t->separator) : put(w, label));
    }
    return QKV_OK;
}

static qkv_status put_probability(writer *w, real p) {
    return p < 0 ? QKV_OK : qkv_buf_addf(&w->text, "%.6f", (double)p);
}

static qkv_status put_error(writer *w, int64_t row) {
    const qkv_tested *t = w->t;
    const qkv_row *r = &t->table.rows[row];
    QKV_TRY(put_probability(w, t->confidence[row]));
    QKV_TRY(put(w, "\t"));
    QKV_TRY(put_labels(w, row, QKV_GIVEN));
    QKV_TRY(put(w, "\t"));
    QKV_TRY(put_labels(w, row, QKV_GOLD));
    QKV_TRY(put(w, "\t"));
    QKV_TRY(put_probability(w, t->gold_probability[row]));
    QKV_TRY(qkv_buf_addf(&w->text, "\t%lld\t", (long long)r->line));
    QKV_TRY(put_text(w, r->text, r->text_size));
    QKV_TRY(put(w, "\n"));
    return drain(w, ENOUGH);
}

typedef struct wrong_rows {
    qkv_sort_item *items;
    int64_t count, limit;
} wrong_rows;

/* Descending. The bits of doubles that are not negative are ordered as they are. */
static uint64_t descending(double p) {
    uint64_t bits = 0;
    if (p > 0) memcpy(&bits, &p, sizeof bits);
    return ~bits;
}

static qkv_status find_wrong(const qkv_tested *t, wrong_rows *wrong) {
    QKV_TRY(qkv_alloc(t->ctx, t->report.errors, sizeof *wrong->items, &wrong->items));
    for (int64_t i = 0; i < t->outcomes.rows; i++) {
        if (qkv_outcome_right(&t->outcomes, i)) continue;
        wrong->items[wrong->count++] = (qkv_sort_item){descending((double)t->confidence[i]), i};
    }
    return qkv_sort(t->ctx, wrong->items, wrong->count);
}

static qkv_status errors_body(writer *w, void *user) {
    const wrong_rows *wrong = user;
    QKV_TRY(put(w, "probability\tpredicted\tgold\tgold_probability\tline\ttext\n"));
    for (int64_t i = 0; i < wrong->count && (wrong->limit == 0 || i < wrong->limit); i++)
        QKV_TRY(put_error(w, wrong->items[i].value));
    return QKV_OK;
}

qkv_status qkv_classify_errors(const qkv_classify_report *report, const char *path, int64_t limit) {
    const qkv_tested *t = qkv_tested_of(report);
    wrong_rows wrong = {.limit = limit};
    qkv_status status = find_wrong(t, &wrong);
    if (status == QKV_OK) status = write_file(t, path, errors_body, &wrong);
    qkv_free(t->ctx, wrong.items);
    return status;
}

/* ---- confusion ---- */

static qkv_status confusion_body(writer *w, void *user) {
    (void)user;
    const qkv_classify_report *r = &w->t->report;
    QKV_TRY(put(w, "gold\tpredicted\trows\n"));
    for (int64_t i = 0; i < r->confusions; i++) {
        const qkv_confusion *c = &r->confusion[i];
        QKV_TRY(put(w, qkv_tested_label(w->t, c->gold)));
        QKV_TRY(put(w, "\t"));
        QKV_TRY(put(w, qkv_tested_label(w->t, c->predicted)));
        QKV_TRY(qkv_buf_addf(&w->text, "\t%lld\n", (long long)c->rows));
        QKV_TRY(drain(w, ENOUGH));
    }
    return QKV_OK;
}

qkv_status qkv_classify_confusion(const qkv_classify_report *report, const char *path) {
    const qkv_tested *t = qkv_tested_of(report);
    if (report->multi_label)
        return qkv_fail(
            t->ctx, QKV_BAD_ARGUMENT,
            "the model gives any number of labels to a text: which of them was taken for which is not known, so there is no "
            "confusion matrix");
    return write_file(t, path, confusion_body, NULL);
}
