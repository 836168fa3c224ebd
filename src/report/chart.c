/* Lines over two axes, each plain or logarithmic, as SVG. */
#include "report/page.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { WIDTH = 820, HEIGHT = 420, LEFT = 90, RIGHT = 260, TOP = 20, BOTTOM = 60, COLORS = 10, TICKS = 32 };

/* Told apart also by those who see few colours, with the marks below (Okabe & Ito 2008). */
static const char *const COLOR[COLORS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                          "#56b4e9", "#000000", "#8b4513", "#7f7f7f", "#6a3d9a"};
static const char *const DASH[3] = {"none", "6 3", "2 3"};

typedef struct axis {
    bool log;
    double low, high; /* in the scale: logarithms where it is one */
    double from, to;  /* pixels */
} axis;

static double on(const axis *a, double x) {
    double s = a->log ? log10(x) : x;
    return a->from + (s - a->low) / (a->high - a->low) * (a->to - a->from);
}

static bool shown(const axis *a, double x) {
    return isfinite(x) && (!a->log || x > 0);
}

/* Of a deviation on both sides of a share only what a share can be. */
static double bar(const qkv_compare_chart *c, double y, double deviation) {
    const double end = y + deviation;
    return c->y_unit == QKV_UNIT_SHARE && y >= 0 && y <= 1 ? fmin(fmax(end, 0), 1) : end;
}

static void widen(axis *a, double x) {
    if (!shown(a, x)) return;
    double s = a->log ? log10(x) : x;
    if (!(s >= a->low)) a->low = s;
    if (!(s <= a->high)) a->high = s;
}

/* The largest of 1, 2, 5 times a power of ten that gives about `count` steps. */
static double step_of(double span, int count) {
    double rough = span / count, power = pow(10, floor(log10(rough)));
    double m = rough / power;
    return power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void settle(axis *a) {
    if (!(a->high >= a->low)) a->low = 0, a->high = 1; /* nothing to show */
    if (a->high - a->low < 1e-12)
        a->low -= a->log ? 0.3 : 0.5 * fabs(a->low) + 1e-3, a->high += a->log ? 0.3 : 0.5 * fabs(a->high) + 1e-3;
    double room = 0.04 * (a->high - a->low);
    if (!a->log && a->low >= 0 && a->low < 0.5 * a->high) a->low = room; /* zero is near enough to be shown */
    a->low -= room;
    a->high += room;
}

static int ticks(const axis *a, double at[TICKS]) {
    int n = 0;
    if (!a->log) {
        double step = step_of(a->high - a->low, 5);
        for (double t = ceil(a->low / step - 1e-9) * step; t <= a->high + 1e-9 * step && n < TICKS; t += step)
            at[n++] = fabs(t) < 1e-9 * step ? 0 : t;
        return n;
    }
    double decades = a->high - a->low;
    static const double parts[] = {1, 2, 5};
    for (double d = floor(a->low); d <= a->high; d++)
        for (int k = 0; k < 3 && n < TICKS; k++) {
            double t = parts[k] * pow(10, d), s = log10(t);
            if (s >= a->low && s <= a->high && (k == 0 || decades < 2.5)) at[n++] = t;
        }
    return n;
}

static qkv_status label(qkv_buf *out, double x, double y, const char *anchor, const char *more, const char *text) {
    QKV_TRY(qkv_buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more));
    QKV_TRY(qkv_page_text(text, out));
    return qkv_buf_addf(out, "</text>\n");
}

static qkv_status line(qkv_buf *out, double x1, double y1, double x2, double y2, const char *stroke) {
    return qkv_buf_addf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, stroke);
}

static qkv_status axes(const qkv_compare_chart *c, const axis *x, const axis *y, qkv_buf *out) {
    double at[TICKS];
    char text[64];
    int n = ticks(x, at);
    for (int i = 0; i < n; i++) {
        qkv_page_value(c->x_unit, at[i], text, sizeof text);
        QKV_TRY(line(out, on(x, at[i]), TOP, on(x, at[i]), HEIGHT - BOTTOM, "#e4e4e4"));
        QKV_TRY(label(out, on(x, at[i]), HEIGHT - BOTTOM + 16, "middle", "", text));
    }
    n = ticks(y, at);
    for (int i = 0; i < n; i++) {
        qkv_page_value(c->y_unit, at[i], text, sizeof text);
        QKV_TRY(line(out, LEFT, on(y, at[i]), WIDTH - RIGHT, on(y, at[i]), "#e4e4e4"));
        QKV_TRY(label(out, LEFT - 6, on(y, at[i]) + 4, "end", "", text));
    }
    QKV_TRY(line(out, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#888"));
    QKV_TRY(line(out, LEFT, TOP, LEFT, HEIGHT - BOTTOM, "#888"));
    QKV_TRY(label(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "middle", "", c->x_name));
    return label(out, 16, (TOP + HEIGHT - BOTTOM) / 2.0, "middle", " transform=\"rotate(-90 16 190)\"", c->y_name);
}

static qkv_status one_line(const qkv_compare_chart *c, const qkv_compare_line *l, int number, const axis *x, const axis *y,
                           qkv_buf *out) {
    const char *color = COLOR[number % COLORS];
    double at = TOP + 10 + 18.0 * number;
    QKV_TRY(qkv_buf_addf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" points=\"", color,
                         DASH[number / COLORS % 3]));
    for (int64_t i = 0; i < l->count; i++)
        if (shown(x, l->x[i]) && shown(y, l->y[i])) QKV_TRY(qkv_buf_addf(out, "%.1f,%.1f ", on(x, l->x[i]), on(y, l->y[i])));
    QKV_TRY(qkv_buf_addf(out, "\"/>\n"));
    for (int64_t i = 0; i < l->count; i++) {
        if (!shown(x, l->x[i]) || !shown(y, l->y[i])) continue;
        QKV_TRY(
            qkv_buf_addf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", on(x, l->x[i]), on(y, l->y[i]), color));
        double d = l->deviation[i];
        if (shown(y, bar(c, l->y[i], -d)) && d > 0)
            QKV_TRY(line(out, on(x, l->x[i]), on(y, bar(c, l->y[i], -d)), on(x, l->x[i]), on(y, bar(c, l->y[i], d)), color));
    }
    QKV_TRY(qkv_buf_addf(
        out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n",
        WIDTH - RIGHT + 14, at, WIDTH - RIGHT + 36, at, color, DASH[number / COLORS % 3]));
    return label(out, WIDTH - RIGHT + 42, at + 4, "start", "", l->name);
}

qkv_status qkv_chart_print(const qkv_compare_chart *c, qkv_buf *out) {
    axis x = {c->x_log, NAN, NAN, LEFT, WIDTH - RIGHT}, y = {c->y_log, NAN, NAN, HEIGHT - BOTTOM, TOP};
    for (int64_t k = 0; k < c->lines; k++)
        for (int64_t i = 0; i < c->line[k].count; i++) {
            if (!shown(&x, c->line[k].x[i]) || !shown(&y, c->line[k].y[i])) continue;
            widen(&x, c->line[k].x[i]);
            widen(&y, c->line[k].y[i]);
            if (!c->line[k].deviation[i]) continue;
            widen(&y, bar(c, c->line[k].y[i], -c->line[k].deviation[i]));
            widen(&y, bar(c, c->line[k].y[i], c->line[k].deviation[i]));
        }
    settle(&x);
    const bool shares = c->y_unit == QKV_UNIT_SHARE && y.high <= 1;
    settle(&y);
    if (shares) y.high = fmin(y.high, 1); /* nothing lies above */
    QKV_TRY(qkv_buf_addf(out, "<h2>"));
    QKV_TRY(qkv_page_text(c->title, out));
    QKV_TRY(qkv_buf_addf(
        out,
        "</h2>\n<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" font-family=\"system-ui,sans-serif\" "
        "font-size=\"12\" fill=\"#222\">\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT));
    QKV_TRY(axes(c, &x, &y, out));
    int shown_lines = 0;
    for (int64_t k = 0; k < c->lines; k++)
        if (c->line[k].count > 0) QKV_TRY(one_line(c, &c->line[k], shown_lines++, &x, &y, out));
    return qkv_buf_addf(out, "</svg>\n");
}
