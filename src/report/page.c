#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---- */

/* Bytes of the code point that begins here, 0: none does. */
static int whole(const unsigned char *p) {
    int n = p[0] < 0x80                   ? 1
            : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
            : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
            : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))) return 0; /* overlong; a surrogate */
    if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))) return 0;
    return n;
}

qkv_status qkv_page_text(const char *text, qkv_buf *out) {
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        const char *as = NULL;
        int n = whole(p);
        if (n == 0)
            as = "\xef\xbf\xbd", n = 1;
        else if (*p == '&')
            as = "&amp;";
        else if (*p == '<')
            as = "&lt;";
        else if (*p == '>')
            as = "&gt;";
        else if (*p == '"')
            as = "&quot;";
        else if (*p < 0x20 && *p != '\n' && *p != '\t')
            as = "\xef\xbf\xbd";
        QKV_TRY(as ? qkv_buf_addf(out, "%s", as) : qkv_buf_add(out, p, n));
        p += n;
    }
    return QKV_OK;
}

static qkv_status element(qkv_buf *out, const char *open, const char *text, const char *close) {
    QKV_TRY(qkv_buf_addf(out, "%s", open));
    QKV_TRY(qkv_page_text(text, out));
    return qkv_buf_addf(out, "%s\n", close);
}

/* ---- numbers ---- */

static void scaled(double x, const char *const *unit, int units, double step, char *text, size_t size) {
    int i = 0;
    while (i + 1 < units && fabs(x) >= 0.9995 * step) x /= step, i++;
    snprintf(text, size, "%.*f %s", i == 0 && x == floor(x) ? 0 : fabs(x) < 9.995 ? 2 : fabs(x) < 99.95 ? 1 : 0, x, unit[i]);
}

/* 1,048,576 */
static void grouped(double x, char *text, size_t size) {
    char digits[400];
    const int length = snprintf(digits, sizeof digits, "%.0f", fabs(x));
    size_t n = x <= -0.5 && size > 1 ? 1 : 0;
    if (n) text[0] = '-';
    for (int i = 0; i < length && n + 2 < size; i++) {
        if (i && (length - i) % 3 == 0) text[n++] = ',';
        text[n++] = digits[i];
    }
    text[n] = 0;
}

void qkv_page_value(qkv_unit unit, double x, char *text, size_t size) {
    static const char *const bytes[] = {"B", "kB", "MB", "GB", "TB"}, *const operations[] = {"", "k", "M", "G", "T", "P"},
                             *const seconds[] = {"ns", "us", "ms", "s"};
    if (!isfinite(x)) {
        snprintf(text, size, "-");
        return;
    }
    switch (unit) {
    case QKV_UNIT_SHARE:
        snprintf(text, size, "%.2f %%", 100 * x);
        break;
    case QKV_UNIT_GAIN:
        snprintf(text, size, "%+.1f", 100 * x);
        break;
    case QKV_UNIT_SECONDS:
        scaled(1e9 * x, seconds, 4, 1000, text, size);
        break;
    case QKV_UNIT_BYTES:
        scaled(x, bytes, 5, 1000, text, size);
        break;
    case QKV_UNIT_OPERATIONS:
        scaled(x, operations, 6, 1000, text, size);
        break;
    case QKV_UNIT_COUNT:
        grouped(x, text, size);
        break;
    case QKV_UNIT_TEXT:
    case QKV_UNIT_NUMBER:
        snprintf(text, size, "%.4g", x);
    }
}

/* ---- tables ---- */

static qkv_status cell(const qkv_compare_column *c, const qkv_compare_value *v, qkv_buf *out) {
    char text[64], deviation[64];
    if (c->unit == QKV_UNIT_TEXT) return element(out, "<td>", v->text ? v->text : "", "</td>");
    qkv_page_value(c->unit, v->value, text, sizeof text);
    QKV_TRY(qkv_buf_addf(out, "<td class=\"n\">%s", text));
    if (c->unit == QKV_UNIT_GAIN && isfinite(v->low) && isfinite(v->high))
        QKV_TRY(qkv_buf_addf(out, " <small>(%+.1f to %+.1f)</small>", 100 * v->low, 100 * v->high));
    else if (isfinite(v->value) && isfinite(v->deviation)) {
        qkv_page_value(c->unit, v->deviation, deviation, sizeof deviation);
        QKV_TRY(qkv_buf_addf(out, " <small>&#177; %s</small>", deviation));
    }
    return qkv_buf_addf(out, "</td>\n");
}

static qkv_status print_table(const qkv_compare_table *t, qkv_buf *out) {
    QKV_TRY(element(out, "<h2>", t->title, "</h2>"));
    QKV_TRY(qkv_buf_addf(out, "<table>\n<thead><tr>\n"));
    for (int64_t c = 0; c < t->columns; c++)
        QKV_TRY(element(out, t->column[c].unit == QKV_UNIT_TEXT ? "<th>" : "<th class=\"n\">", t->column[c].name, "</th>"));
    QKV_TRY(qkv_buf_addf(out, "</tr></thead>\n<tbody>\n"));
    for (int64_t r = 0; r < t->rows; r++) {
        QKV_TRY(qkv_buf_addf(out, "<tr>\n"));
        for (int64_t c = 0; c < t->columns; c++) QKV_TRY(cell(&t->column[c], &t->value[r * t->columns + c], out));
        QKV_TRY(qkv_buf_addf(out, "</tr>\n"));
    }
    QKV_TRY(qkv_buf_addf(out, "</tbody>\n</table>\n"));
    return *t->note ? element(out, "<p class=\"note\">", t->note, "</p>") : QKV_OK;
}

static qkv_status print_claim(const qkv_compare_claim *c, qkv_buf *out) {
    static const char *const kind[] = {"yes", "part", "no", "open"};
    char open[64];
    QKV_TRY(qkv_buf_addf(out, "<tr>\n<td>%s, %d</td>\n", c->article, c->row));
    QKV_TRY(element(out, "<td>", c->says, "</td>"));
    QKV_TRY(element(out, "<td>", c->figure, "</td>"));
    QKV_TRY(element(out, "<td>", c->ours, "</td>"));
    snprintf(open, sizeof open, "<td class=\"%s\">", kind[c->verdict]);
    QKV_TRY(element(out, open, qkv_verdict_name(c->verdict), "</td>"));
    QKV_TRY(element(out, "<td>", c->why, "</td>"));
    return qkv_buf_addf(out, "</tr>\n");
}

static qkv_status print_claims(const qkv_compare_result *r, qkv_buf *out) {
    if (r->claims == 0) return QKV_OK;
    QKV_TRY(qkv_buf_addf(out,
                         "<h2>Claims</h2>\n<table>\n<thead><tr><th>article, row</th><th>says</th><th>its figure</th><th>ours</th>"
                         "<th>verdict</th><th>why</th></tr></thead>\n<tbody>\n"));
    for (int64_t i = 0; i < r->claims; i++) QKV_TRY(print_claim(&r->claim[i], out));
    return qkv_buf_addf(out, "</tbody>\n</table>\n");
}

static bool has_points(const qkv_compare_chart *c) {
    int64_t points = 0;
    for (int64_t k = 0; k < c->lines; k++) points += c->line[k].count;
    return points > 0;
}

/* ---- the page ---- */

static const char STYLE[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222;background:#fff}\n"
    "table{border-collapse:collapse;margin:.5em 0}\n"
    "td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}\n"
    ".n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n"
    "small,.note{color:#666}\n"
    ".yes{background:#d9efdc}.part{background:#fbf0cd}.no{background:#f8d9d6}.open{background:#eee}\n"
    "svg{max-width:100%;height:auto;margin:.5em 0}\n";

qkv_status qkv_page_print(const qkv_compare_result *r, qkv_buf *out) {
    QKV_TRY(qkv_buf_addf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                              "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>\n"));
    QKV_TRY(element(out, "<title>qkv compare ", r->what, "</title>"));
    QKV_TRY(qkv_buf_addf(out, "<style>\n%s</style>\n</head>\n<body>\n", STYLE));
    QKV_TRY(element(out, "<h1>", r->what, "</h1>"));
    QKV_TRY(element(out, "<p>", r->summary, "</p>"));
    QKV_TRY(element(out, "<p class=\"note\">", r->machine, "</p>"));
    QKV_TRY(element(out, "<p class=\"note\">", r->setting, "</p>"));
    if (r->done < r->cells)
        QKV_TRY(qkv_buf_addf(out, "<p class=\"note\">Stopped: %lld of %lld measurements are done.</p>\n", (long long)r->done,
                             (long long)r->cells));
    QKV_TRY(print_claims(r, out));
    for (int64_t i = 0; i < r->tables; i++) QKV_TRY(print_table(&r->table[i], out));
    for (int64_t i = 0; i < r->charts; i++)
        if (has_points(&r->chart[i])) QKV_TRY(qkv_chart_print(&r->chart[i], out));
    return qkv_buf_addf(out, "</body>\n</html>\n");
}
