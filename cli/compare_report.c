#include "compare.h"

#include <math.h>

enum { WIDTH = 100, CELL = 512 };

/* ---- numbers ---- */

static cli_text seconds(double s) {
    static const char *const unit[] = {"s", "ms", "us", "ns"};
    cli_text t;
    int i = 0;
    while (i < 3 && fabs(s) < 0.9995) {
        s *= 1000;
        i++;
    }
    snprintf(t.s, sizeof t.s, "%.*f %s", s < 9.9995 ? 2 : s < 99.95 ? 1 : 0, s, unit[i]);
    return t;
}

static cli_text number(qkv_unit unit, double x) {
    cli_text t;
    if (!isfinite(x)) {
        snprintf(t.s, sizeof t.s, "-");
        return t;
    }
    switch (unit) {
    case QKV_UNIT_SHARE:
        return cli_percent(x);
    case QKV_UNIT_SECONDS:
        return seconds(x);
    case QKV_UNIT_BYTES:
        return cli_bytes(x);
    case QKV_UNIT_OPERATIONS:
        return cli_si(x, "");
    case QKV_UNIT_COUNT:
        return cli_count((int64_t)x);
    default:
        snprintf(t.s, sizeof t.s, "%.4g", x);
        return t;
    }
}

/* +1.4 (-2.7 to +5.5) */
static void gain_text(const qkv_compare_value *v, char text[CELL]) {
    if (!isfinite(v->value))
        snprintf(text, CELL, "-");
    else if (isfinite(v->low) && isfinite(v->high))
        snprintf(text, CELL, "%+.1f (%+.1f to %+.1f)", 100 * v->value, 100 * v->low, 100 * v->high);
    else
        snprintf(text, CELL, "%+.1f", 100 * v->value);
}

static void value_text(const qkv_compare_column *c, const qkv_compare_value *v, char text[CELL]) {
    if (c->unit == QKV_UNIT_TEXT)
        snprintf(text, CELL, "%s", v->text ? v->text : "");
    else if (c->unit == QKV_UNIT_GAIN)
        gain_text(v, text);
    else if (isfinite(v->value) && isfinite(v->deviation))
        snprintf(text, CELL, "%s +-%s", number(c->unit, v->value).s, number(c->unit, v->deviation).s);
    else
        snprintf(text, CELL, "%s", number(c->unit, v->value).s);
}

/* ---- text ---- */

/* Words up to WIDTH; further lines begin at `indent`, where the first begins too. */
static void wrapped(FILE *to, const char *text, int indent) {
    int column = indent;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > indent && column + 1 + (int)length > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', to);
            column++;
        }
        fwrite(text, 1, length, to);
        column += (int)length;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', to);
}

static void print_table(FILE *to, const qkv_compare_table *t) {
    int width[32] = {0};
    char text[CELL];
    for (int64_t c = 0; c < t->columns; c++) {
        width[c] = (int)strlen(t->column[c].name);
        for (int64_t r = 0; r < t->rows; r++) {
            value_text(&t->column[c], &t->value[r * t->columns + c], text);
            if ((int)strlen(text) > width[c]) width[c] = (int)strlen(text);
        }
    }
    fprintf(to, "\n%s\n\n", t->title);
    for (int64_t r = -1; r < t->rows; r++) {
        for (int64_t c = 0; c < t->columns; c++) {
            const char *cell = t->column[c].name;
            const int left = t->column[c].unit == QKV_UNIT_TEXT, last = c + 1 == t->columns;
            if (r >= 0) {
                value_text(&t->column[c], &t->value[r * t->columns + c], text);
                cell = text;
            }
            fprintf(to, "%s%*s", c ? "  " : "", left ? (last ? 0 : -width[c]) : width[c], cell);
        }
        fputc('\n', to);
    }
    if (t->note[0]) {
        fputc('\n', to);
        wrapped(to, t->note, 0);
    }
}

static void field(FILE *to, const char *name, const char *text) {
    fprintf(to, "%-9s", name);
    wrapped(to, text, 9);
}

static void print_claim(FILE *to, const qkv_compare_claim *c) {
    char head[64];
    snprintf(head, sizeof head, "article %s, row %d: ", c->article, c->row);
    char *says = cli_alloc(strlen(head) + strlen(c->says) + 1);
    char *verdict = cli_alloc(strlen(c->why) + 64);
    sprintf(says, "%s%s", head, c->says);
    sprintf(verdict, "%s%s%s", qkv_verdict_name(c->verdict), c->why[0] ? ": " : "", c->why);
    fputc('\n', to);
    field(to, "claim", says);
    field(to, "figure", c->figure);
    field(to, "ours", c->ours);
    field(to, "verdict", verdict);
    free(says);
    free(verdict);
}

void compare_print(FILE *to, const qkv_compare_result *r) {
    fprintf(to, "%s: %s\n\n", r->what, r->summary);
    wrapped(to, r->machine, 0);
    wrapped(to, r->setting, 0);
    for (int64_t i = 0; i < r->tables; i++) print_table(to, &r->table[i]);
    for (int64_t i = 0; i < r->claims; i++) print_claim(to, &r->claim[i]);
}

/* ---- JSON ---- */

static json_t *text_json(const char *text) {
    return cli_json_text(text, (int64_t)strlen(text));
}

static void set_further(json_t *o, const char *key, const char *what, double x) {
    char name[128];
    snprintf(name, sizeof name, "%s_%s", key, what);
    if (isfinite(x)) json_object_set_new(o, name, json_real(x));
}

static json_t *row_json(const qkv_compare_table *t, int64_t row) {
    json_t *o = json_object();
    for (int64_t c = 0; c < t->columns; c++) {
        const qkv_compare_value *v = &t->value[row * t->columns + c];
        if (t->column[c].unit == QKV_UNIT_TEXT) {
            json_object_set_new(o, t->column[c].key, text_json(v->text ? v->text : ""));
            continue;
        }
        json_object_set_new(o, t->column[c].key, cli_json_real(v->value));
        set_further(o, t->column[c].key, "deviation", v->deviation);
        set_further(o, t->column[c].key, "low", v->low);
        set_further(o, t->column[c].key, "high", v->high);
    }
    return o;
}

static json_t *table_json(const qkv_compare_table *t) {
    json_t *rows = json_array();
    for (int64_t r = 0; r < t->rows; r++) json_array_append_new(rows, row_json(t, r));
    return json_pack("{s:s, s:o, s:o, s:o}", "key", t->key, "title", text_json(t->title), "note", text_json(t->note), "rows", rows);
}

/* An infinite figure is a direction. */
static json_t *part_json(const qkv_compare_part *p) {
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:s, s:o}", "name", text_json(p->name), "figure",
                          cli_json_real(p->figure), "nothing", cli_json_real(p->nothing), "value", cli_json_real(p->value), "low",
                          cli_json_real(p->low), "high", cli_json_real(p->high), "n", (json_int_t)p->measurements, "missing",
                          (json_int_t)p->missing, "verdict", qkv_verdict_name(p->verdict), "why", text_json(p->why));
    if (isinf(p->figure)) json_object_set_new(o, "direction", json_string(p->figure > 0 ? "more" : "less"));
    return o;
}

static json_t *claim_json(const qkv_compare_claim *c) {
    json_t *parts = json_array();
    for (int64_t i = 0; i < c->parts; i++) json_array_append_new(parts, part_json(&c->part[i]));
    return json_pack("{s:i, s:s, s:o, s:o, s:o, s:s, s:o, s:b, s:o}", "row", c->row, "article", c->article, "says",
                     text_json(c->says), "figure", text_json(c->figure), "ours", text_json(c->ours), "verdict",
                     qkv_verdict_name(c->verdict), "why", text_json(c->why), "so_far", c->so_far, "parts", parts);
}

json_t *compare_json(const qkv_compare_result *r) {
    json_t *tables = json_array(), *claims = json_array();
    for (int64_t i = 0; i < r->tables; i++) json_array_append_new(tables, table_json(&r->table[i]));
    for (int64_t i = 0; i < r->claims; i++) json_array_append_new(claims, claim_json(&r->claim[i]));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o}", "experiment", r->what, "summary", r->summary,
                     "version", qkv_version_string(), "machine", text_json(r->machine), "setting", text_json(r->setting), "cells",
                     (json_int_t)r->cells, "done", (json_int_t)r->done, "taken", (json_int_t)r->taken, "seconds",
                     cli_json_real(r->seconds), "tables", tables, "claims", claims);
}
