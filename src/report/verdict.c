#include "report/verdict.h"

#include <math.h>
#include <stdio.h>

const char *qkv_verdict_name(qkv_verdict verdict) {
    static const char *const names[] = {"holds", "holds in part", "does not hold", "cannot be judged"};
    return (unsigned)verdict < 4 ? names[verdict] : "";
}

/* ---- estimates ---- */

double qkv_student(int64_t freedom) {
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    const int64_t count = sizeof t / sizeof *t;
    return freedom < 1 ? NAN : freedom <= count ? t[freedom - 1] : 1.96 + 2.5 / (double)freedom;
}

qkv_estimate qkv_estimate_mean(const double *measured, int64_t count, double error) {
    qkv_estimate e = {.value = NAN, .low = NAN, .high = NAN, .deviation = NAN};
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(measured[i])) sum += measured[i], e.count++;
    if (e.count == 0) return e;
    e.value = sum / (double)e.count;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(measured[i])) squares += (measured[i] - e.value) * (measured[i] - e.value);
    if (e.count > 1) e.deviation = sqrt(squares / (double)(e.count - 1));
    if (e.count < 2) return e;
    const double own = qkv_student(e.count - 1) * e.deviation / sqrt((double)e.count);
    e.low = e.value - own, e.high = e.value + own;
    qkv_estimate_reach(&e, 1.96 * error, 1.96 * error);
    return e;
}

void qkv_estimate_reach(qkv_estimate *e, double below, double above) {
    e->low = e->value - hypot(e->value - e->low, below);
    e->high = e->value + hypot(e->high - e->value, above);
}

void qkv_share_limits(double share, double rows, double *low, double *high) {
    const double z = 1.96 * 1.96, middle = (share + z / (2 * rows)) / (1 + z / rows),
                 half = 1.96 * sqrt(share * (1 - share) / rows + z / (4 * rows * rows)) / (1 + z / rows);
    *low = fmin(share, fmax(0, middle - half)); /* rounding must not put the share itself outside */
    *high = fmax(share, fmin(1, middle + half));
}

qkv_estimate qkv_estimate_ratio(const double *a, const double *b, int64_t count) {
    enum { MOST = 128 };
    double logs[MOST];
    if (count > MOST) count = MOST;
    for (int64_t i = 0; i < count; i++) logs[i] = a[i] > 0 && b[i] > 0 ? log(a[i] / b[i]) : NAN;
    qkv_estimate e = qkv_estimate_mean(logs, count, 0);
    e.value = exp(e.value);
    e.low = exp(e.low);
    e.high = exp(e.high);
    e.deviation *= e.value;
    return e;
}

static double mean_of(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i];
    return sum / (double)count;
}

qkv_estimate qkv_estimate_slope(const double *x, int64_t points, const double *y, int64_t rounds) {
    const double middle = mean_of(x, points);
    double width = 0, products = 0, squares = 0, slopes[128] = {0};
    int64_t whole = 0;
    for (int64_t i = 0; i < points; i++) width += (x[i] - middle) * (x[i] - middle);
    for (int64_t r = 0; r < rounds && whole < 128; r++) {
        const double *of = y + r * points, level = mean_of(of, points);
        double own = 0;
        if (!isfinite(level)) continue;
        for (int64_t i = 0; i < points; i++) {
            own += (x[i] - middle) * (of[i] - level);
            squares += (of[i] - level) * (of[i] - level);
        }
        slopes[whole++] = own / width;
        products += own;
    }
    qkv_estimate e = qkv_estimate_mean(slopes, whole, 0); /* its value and deviation over rounds */
    if (whole < 2) return e;
    const int64_t freedom = whole * (points - 1) - 1;
    const double left = fmax(squares - products * products / (width * (double)whole), 0),
                 half = qkv_student(freedom) * sqrt(left / (double)freedom / (width * (double)whole));
    e.low = e.value - half, e.high = e.value + half;
    return e;
}

qkv_estimate qkv_estimate_quotient(const qkv_estimate *a, const qkv_estimate *b) {
    return (qkv_estimate){.value = a->value / b->value,
                          .low = a->low / b->high,
                          .high = a->high / b->low,
                          .deviation = NAN,
                          .count = a->count < b->count ? a->count : b->count,
                          .missing = a->missing + b->missing};
}

qkv_estimate qkv_estimate_exact(double value) {
    return (qkv_estimate){.value = value, .low = value, .high = value, .deviation = NAN, .count = 1};
}

/* ---- verdicts ---- */

enum { SHORT = 64 };

/* Half of the interval of what holds, beside the slack, where the claim denies no value. */
static const double PRECISE = 2.5;

static const char *number(const qkv_asked *a, double x, char text[SHORT]) {
    snprintf(text, SHORT, a->format, a->scale * x);
    return text;
}

/* "+0.3 points (95 % interval -0.5 points to +1.1 points, 3 measurements)" */
static void ours_text(const qkv_asked *a, const qkv_estimate *e, char *text, size_t size) {
    char value[SHORT], low[SHORT], high[SHORT];
    number(a, e->value, value);
    if (e->low == e->high)
        snprintf(text, size, "%s", value);
    else
        snprintf(text, size, "%s (95 %% interval %s to %s, %lld measurement%s)", value, number(a, e->low, low),
                 number(a, e->high, high), (long long)e->count, e->count == 1 ? "" : "s");
}

static qkv_verdict judge_direction(const qkv_asked *a, const qkv_estimate *e, const char *ours, char *why, size_t size) {
    const bool up = a->figure > 0, over = e->value > a->nothing, right = over == up;
    const bool marked = a->nothing != 0 && a->nothing != 1;
    char mark[SHORT];
    number(a, a->nothing, mark);
    if (e->low <= a->nothing && e->high >= a->nothing) {
        if (marked)
            snprintf(why, size, "%s: the claim is of %s %s, and the interval has both sides of it", ours, up ? "over" : "under",
                     mark);
        else
            snprintf(why, size, "%s: no difference beyond the spread", ours);
        return QKV_CANNOT_BE_JUDGED;
    }
    if (marked)
        snprintf(why, size, "%s: %s the claim's %s%s", ours, over ? "over" : "under", mark,
                 e->low < e->high ? ", beyond the spread" : "");
    else
        snprintf(why, size, "%s: %s", ours,
                 right ? "in the direction of the claim, beyond the spread" : "the other way round than the claim");
    return right ? QKV_HOLDS : QKV_DOES_NOT_HOLD;
}

qkv_verdict qkv_judge(const qkv_asked *a, const qkv_estimate *e, char *why, size_t size) {
    char ours[4 * SHORT], figure[SHORT];
    if (e->count == 0 || !isfinite(e->value)) {
        snprintf(why, size, "not measured");
        return QKV_CANNOT_BE_JUDGED;
    }
    if (e->missing > 0) {
        snprintf(why, size, "%s so far, %lld more measurement%s to come", number(a, e->value, ours), (long long)e->missing,
                 e->missing == 1 ? " is" : "s are");
        return QKV_CANNOT_BE_JUDGED;
    }
    if (!isfinite(e->low) || !isfinite(e->high)) {
        snprintf(why, size, "%s by one measurement, whose spread is not known", number(a, e->value, ours));
        return QKV_CANNOT_BE_JUDGED;
    }
    ours_text(a, e, ours, sizeof ours);
    if (isinf(a->figure)) return judge_direction(a, e, ours, why, size);
    number(a, a->figure, figure);
    const bool inside = e->low <= a->figure + a->slack && e->high >= a->figure - a->slack;
    const bool effect = isfinite(a->nothing) && fabs(a->figure - a->nothing) > a->slack; /* is claimed */
    const bool none = effect && e->low <= a->nothing && e->high >= a->nothing;
    const double half = fmax(e->high - e->value, e->value - e->low), most = PRECISE * a->slack;
    if (inside && !effect && half > most) {
        snprintf(why, size, "%s: the claim's %s is within, but so is much else: the interval may reach %.3g to each side", ours,
                 figure, a->scale * most);
        return QKV_CANNOT_BE_JUDGED;
    }
    if (inside && !none) {
        if (e->low == e->high)
            snprintf(why, size, "%s, as claimed", ours);
        else
            snprintf(why, size, "%s: the claim's %s is within", ours, figure);
        return QKV_HOLDS;
    }
    if (inside) {
        snprintf(why, size, "%s: the spread covers both no difference and the claim's %s", ours, figure);
        return QKV_CANNOT_BE_JUDGED;
    }
    if (none) {
        snprintf(why, size, "%s: no difference beyond the spread, and the claim's %s lies outside", ours, figure);
        return QKV_DOES_NOT_HOLD;
    }
    if (effect && (e->value > a->nothing) == (a->figure > a->nothing)) {
        snprintf(why, size, "%s: the direction is right, the size is not the claim's %s", ours, figure);
        return QKV_HOLDS_IN_PART;
    }
    snprintf(why, size, effect ? "%s: the other way round than the claim's %s" : "%s, not the claim's %s", ours, figure);
    return QKV_DOES_NOT_HOLD;
}

qkv_verdict qkv_judge_count(double good, int64_t all, char *why, size_t size) {
    if (!isfinite(good) || all < 1) {
        snprintf(why, size, "not measured");
        return QKV_CANNOT_BE_JUDGED;
    }
    snprintf(why, size, "%.0f of %lld", good, (long long)all);
    return good >= (double)all ? QKV_HOLDS : good > 0 ? QKV_HOLDS_IN_PART : QKV_DOES_NOT_HOLD;
}

qkv_verdict qkv_judge_parts(const qkv_verdict *parts, int64_t count) {
    int64_t of[4] = {0};
    for (int64_t i = 0; i < count; i++) of[parts[i]]++;
    if (count == 0 || of[QKV_CANNOT_BE_JUDGED] == count) return QKV_CANNOT_BE_JUDGED;
    if (of[QKV_HOLDS] == count) return QKV_HOLDS;
    if (of[QKV_DOES_NOT_HOLD] == count) return QKV_DOES_NOT_HOLD;
    if (of[QKV_HOLDS] + of[QKV_HOLDS_IN_PART] == 0) return QKV_CANNOT_BE_JUDGED;         /* some failed, others are open */
    if (of[QKV_HOLDS_IN_PART] + of[QKV_DOES_NOT_HOLD] == 0) return QKV_CANNOT_BE_JUDGED; /* some hold, others are open */
    return QKV_HOLDS_IN_PART;
}
