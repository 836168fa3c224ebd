#include "report/outcome.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* All of it hangs on one list of blocks, so that nothing but the list is freed. */
typedef struct block {
    struct block *next;
    double data[]; /* aligned for what goes in */
} block;

/* Arrays that grow while the result is built, each element in place. */
typedef struct table {
    qkv_compare_table t;
    struct table *next;
} table;
typedef struct line {
    qkv_compare_line l;
    int64_t capacity;
    struct line *next;
} line;
typedef struct chart {
    qkv_compare_chart c;
    line *first, *last;
    struct chart *next;
} chart;
typedef struct claim {
    qkv_compare_claim c;
    struct claim *next;
} claim;

struct qkv_outcome {
    qkv_compare_result result; /* first: qkv_outcome_of */
    qkv_ctx *ctx;
    qkv_status status;
    const char *lacks;
    block *blocks;
    table *tables, *last_table;
    int64_t row_capacity; /* of the last table */
    chart *charts, *last_chart;
    claim *claims, *last_claim;
};

qkv_outcome *qkv_outcome_of(qkv_compare_result *result) {
    return (qkv_outcome *)(void *)result;
}

qkv_status qkv_outcome_create(qkv_ctx *ctx, qkv_outcome **outcome) {
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof **outcome, outcome));
    (*outcome)->ctx = ctx;
    (*outcome)->lacks = "It was not measured.";
    return QKV_OK;
}

void qkv_outcome_free(qkv_outcome *o) {
    if (!o) return;
    for (block *b = o->blocks, *next; b; b = next) {
        next = b->next;
        qkv_free(o->ctx, b);
    }
    qkv_free(o->ctx, o);
}

/* Zeroed; NULL once memory has run out. */
static void *take(qkv_outcome *o, int64_t count, size_t size) {
    char *raw;
    if (o->status != QKV_OK) return NULL;
    o->status = qkv_alloc_zero(o->ctx, (int64_t)sizeof(block) + count * (int64_t)size, 1, &raw);
    if (o->status != QKV_OK) return NULL;
    block *b = (block *)(void *)raw;
    b->next = o->blocks;
    o->blocks = b;
    return b->data;
}

const char *qkv_outcome_text(qkv_outcome *o, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : take(o, length + 1, 1);
    if (!text) return "";
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

static const char *copy(qkv_outcome *o, const char *text) {
    return qkv_outcome_text(o, "%s", text);
}

void qkv_outcome_lacks(qkv_outcome *o, const char *sentence) {
    o->lacks = copy(o, sentence);
}

/* ---- tables ---- */

void qkv_outcome_table(qkv_outcome *o, const char *key, const char *title, const char *note, const qkv_compare_column *columns,
                       int64_t count) {
    table *t = take(o, 1, sizeof *t);
    qkv_compare_column *c = take(o, count, sizeof *c);
    if (!t || !c) return;
    for (int64_t i = 0; i < count; i++)
        c[i] = (qkv_compare_column){copy(o, columns[i].key), copy(o, columns[i].name), columns[i].unit};
    t->t = (qkv_compare_table){.key = copy(o, key), .title = copy(o, title), .note = copy(o, note), .columns = count, .column = c};
    if (o->last_table)
        o->last_table->next = t;
    else
        o->tables = t;
    o->last_table = t;
    o->row_capacity = 0;
    o->result.tables++;
}

void qkv_outcome_row(qkv_outcome *o) {
    if (o->status != QKV_OK || !o->last_table) return;
    qkv_compare_table *t = &o->last_table->t;
    if (t->rows == o->row_capacity) {
        int64_t capacity = t->rows ? 2 * t->rows : 8;
        qkv_compare_value *more = take(o, capacity * t->columns, sizeof *more);
        if (!more) return;
        if (t->rows) memcpy(more, t->value, (size_t)(t->rows * t->columns) * sizeof *more);
        t->value = more;
        o->row_capacity = capacity;
    }
    qkv_compare_value *row = (qkv_compare_value *)t->value + t->rows++ * t->columns;
    for (int64_t i = 0; i < t->columns; i++) row[i] = (qkv_compare_value){t->column[i].unit == QKV_UNIT_TEXT ? "" : NULL, NAN, NAN, NAN, NAN};
}

static qkv_compare_value *at(qkv_outcome *o, int64_t column) {
    if (o->status != QKV_OK || !o->last_table || o->last_table->t.rows == 0 || column >= o->last_table->t.columns) return NULL;
    const qkv_compare_table *t = &o->last_table->t;
    return (qkv_compare_value *)t->value + (t->rows - 1) * t->columns + column;
}

void qkv_outcome_set_text(qkv_outcome *o, int64_t column, const char *text) {
    const char *own = copy(o, text);
    qkv_compare_value *v = at(o, column);
    if (v) v->text = own;
}

void qkv_outcome_set(qkv_outcome *o, int64_t column, double value, double deviation) {
    qkv_compare_value *v = at(o, column);
    if (v) v->value = value, v->deviation = deviation;
}

void qkv_outcome_set_estimate(qkv_outcome *o, int64_t column, const qkv_estimate *e) {
    qkv_compare_value *v = at(o, column);
    qkv_outcome_set(o, column, e->value, e->deviation);
    if (v && o->last_table->t.column[column].unit == QKV_UNIT_GAIN) v->low = e->low, v->high = e->high;
}

/* ---- charts ---- */

void qkv_outcome_chart(qkv_outcome *o, const char *title, const char *x_name, qkv_unit x_unit, bool x_log, const char *y_name,
                       qkv_unit y_unit, bool y_log) {
    chart *c = take(o, 1, sizeof *c);
    if (!c) return;
    c->c = (qkv_compare_chart){.title = copy(o, title),
                               .x_name = copy(o, x_name),
                               .y_name = copy(o, y_name),
                               .x_unit = x_unit,
                               .y_unit = y_unit,
                               .x_log = x_log,
                               .y_log = y_log};
    if (o->last_chart)
        o->last_chart->next = c;
    else
        o->charts = c;
    o->last_chart = c;
    o->result.charts++;
}

void qkv_outcome_line(qkv_outcome *o, const char *name) {
    line *l = take(o, 1, sizeof *l);
    chart *c = o->last_chart;
    if (!l || !c) return;
    l->l.name = copy(o, name);
    if (c->last)
        c->last->next = l;
    else
        c->first = l;
    c->last = l;
    c->c.lines++;
}

static double *longer(qkv_outcome *o, const double *old, int64_t count, int64_t capacity) {
    double *p = take(o, capacity, sizeof *p);
    if (p && count) memcpy(p, old, (size_t)count * sizeof *p);
    return p;
}

void qkv_outcome_point(qkv_outcome *o, double x, double y, double deviation) {
    line *l = o->last_chart ? o->last_chart->last : NULL;
    if (o->status != QKV_OK || !l || !isfinite(x) || !isfinite(y)) return;
    int64_t n = l->l.count;
    if (n == l->capacity) {
        int64_t capacity = n ? 2 * n : 8;
        double *xs = longer(o, l->l.x, n, capacity), *ys = longer(o, l->l.y, n, capacity),
               *ds = longer(o, l->l.deviation, n, capacity);
        if (!xs || !ys || !ds) return;
        l->l.x = xs, l->l.y = ys, l->l.deviation = ds;
        l->capacity = capacity;
    }
    ((double *)l->l.x)[n] = x;
    ((double *)l->l.y)[n] = y;
    ((double *)l->l.deviation)[n] = deviation;
    l->l.count++;
}

/* ---- claims ---- */

void qkv_claim_part(qkv_outcome_claim *c, const char *name, const qkv_asked *asked, const qkv_estimate *ours) {
    if (c->parts == QKV_OUTCOME_PARTS) return;
    const int64_t i = c->parts++;
    c->name[i] = name;
    c->verdict[i] = qkv_judge(asked, ours, c->why[i], sizeof c->why[i]);
    c->measured[i] = (qkv_compare_part){.figure = asked->figure,
                                        .nothing = asked->nothing,
                                        .value = ours->value,
                                        .low = ours->low,
                                        .high = ours->high,
                                        .measurements = ours->count,
                                        .missing = ours->missing};
    c->missing += ours->missing;
}

void qkv_claim_open(qkv_outcome_claim *c, const char *name, const char *why) {
    if (c->parts == QKV_OUTCOME_PARTS) return;
    const int64_t i = c->parts++;
    c->name[i] = name;
    c->verdict[i] = QKV_CANNOT_BE_JUDGED;
    snprintf(c->why[i], sizeof c->why[i], "%s", why);
    c->measured[i] = (qkv_compare_part){.figure = NAN, .nothing = NAN, .value = NAN, .low = NAN, .high = NAN};
}

void qkv_claim_count(qkv_outcome_claim *c, const char *name, double good, int64_t all, int64_t missing) {
    if (c->parts == QKV_OUTCOME_PARTS) return;
    const int64_t i = c->parts++;
    c->name[i] = name;
    c->verdict[i] = qkv_judge_count(good, all, c->why[i], sizeof c->why[i]);
    if (missing > 0) {
        c->verdict[i] = QKV_CANNOT_BE_JUDGED;
        snprintf(c->why[i], sizeof c->why[i], "%lld more measurement%s to come", (long long)missing, missing == 1 ? " is" : "s are");
    }
    c->measured[i] = (qkv_compare_part){.figure = (double)all, .nothing = 0, .value = good, .low = good, .high = good};
    if (isfinite(good)) c->measured[i].measurements = all;
    c->measured[i].missing = missing;
    c->missing += missing;
}

/* Of the parts, each with its reason; NULL where memory has run out. */
static const qkv_compare_part *parts_of(qkv_outcome *o, const qkv_outcome_claim *c) {
    qkv_compare_part *p = take(o, c->parts, sizeof *p);
    for (int64_t i = 0; p && i < c->parts; i++) {
        p[i] = c->measured[i];
        p[i].name = copy(o, c->name[i]);
        p[i].verdict = c->verdict[i];
        p[i].why = copy(o, c->why[i]);
    }
    return p;
}

/* What is ours, in words: so far, where measurements are missing; what lacks, where something was not measured at all. */
static const char *ours_of(qkv_outcome *o, const qkv_outcome_claim *c) {
    if (strstr(c->ours, "nan")) return copy(o, c->lacks ? c->lacks : o->lacks);
    return c->missing == 0 ? copy(o, c->ours) : qkv_outcome_text(o, "So far, and not all of it was measured: %s", c->ours);
}

void qkv_outcome_add_claim(qkv_outcome *o, const qkv_outcome_claim *c, const char *remark) {
    const char *why = "";
    for (int64_t i = 0; i < c->parts; i++) {
        const char *verdict = c->parts > 1 ? qkv_verdict_name(c->verdict[i]) : "";
        why = qkv_outcome_text(o, "%s%s%s%s%s%s%s%s", why, i ? "; " : "", c->name[i], *c->name[i] ? ": " : "", c->why[i],
                               *verdict ? " (" : "", verdict, *verdict ? ")" : "");
    }
    why = qkv_outcome_text(o, "%s%s%s%s", why, *why ? "." : "", *why && *remark ? " " : "", remark);
    const qkv_compare_part *parts = parts_of(o, c);
    claim *n = take(o, 1, sizeof *n);
    if (!n) return;
    n->c = (qkv_compare_claim){.row = c->row,
                               .article = copy(o, c->article),
                               .says = copy(o, c->says),
                               .figure = copy(o, c->figure),
                               .ours = ours_of(o, c),
                               .verdict = qkv_judge_parts(c->verdict, c->parts),
                               .why = why,
                               .so_far = c->missing > 0 || strstr(c->ours, "nan"),
                               .parts = parts ? c->parts : 0,
                               .part = parts};
    if (o->last_claim)
        o->last_claim->next = n;
    else
        o->claims = n;
    o->last_claim = n;
    o->result.claims++;
}

/* ---- the whole ---- */

qkv_status qkv_outcome_finish(qkv_outcome *o, qkv_compare_result **result) {
    qkv_compare_table *t = take(o, o->result.tables, sizeof *t);
    qkv_compare_chart *c = take(o, o->result.charts, sizeof *c);
    qkv_compare_claim *m = take(o, o->result.claims, sizeof *m);
    *result = &o->result;
    if (!t || !c || !m) return o->status;
    o->result.table = t;
    o->result.chart = c;
    o->result.claim = m;
    for (table *p = o->tables; p; p = p->next) *t++ = p->t;
    for (claim *p = o->claims; p; p = p->next) *m++ = p->c;
    for (chart *p = o->charts; p; p = p->next, c++) {
        qkv_compare_line *l = take(o, p->c.lines, sizeof *l);
        if (!l) break;
        *c = p->c;
        c->line = l;
        for (line *q = p->first; q; q = q->next) *l++ = q->l;
    }
    return o->status;
}
