#include "train/blend.h"

#include <math.h>
#include <stdbool.h>

#include "base/exact.h"

enum { STEPS = 30, HALVINGS = 30, SHARES = 16 };
static const double HOLD = 4, MIDDLE = 0.5;

/* Value, gradient and Hessian in the two factors. */
typedef struct sums {
    double value, g[2], h[3]; /* h: net net, net bag, bag bag */
} sums;

static double score_of(const qkv_blend_rows *r, qkv_blend b, int64_t row, int64_t c) {
    return b.net * (double)r->net[row * r->classes + c] + b.bag * (double)r->bag[row * r->classes + c];
}

static bool has_label(const qkv_blend_rows *r, int64_t row, int64_t c) {
    for (int64_t i = r->label_at[row]; i < r->label_at[row + 1]; i++)
        if (r->labels[i] == c) return true;
    return false;
}

/* log of the sum of exp of the scores. */
static double log_total(const qkv_blend_rows *r, qkv_blend b, int64_t row) {
    double most = -(double)INFINITY, total = 0;
    for (int64_t c = 0; c < r->classes; c++) most = fmax(most, score_of(r, b, row, c));
    for (int64_t c = 0; c < r->classes; c++) total += qkv_exact_exp(score_of(r, b, row, c) - most);
    return most + qkv_exact_log(total);
}

static double loss_of(const qkv_blend_rows *r, qkv_blend b, int64_t row) {
    if (!r->label_at) return r->target[row] < 0 ? 0 : log_total(r, b, row) - score_of(r, b, row, r->target[row]);
    double loss = 0;
    for (int64_t c = 0; c < r->classes; c++) {
        double t = score_of(r, b, row, c);
        loss += qkv_exact_softplus(t) - (has_label(r, row, c) ? t : 0);
    }
    return loss;
}

static void add_softmax(const qkv_blend_rows *r, qkv_blend b, int64_t row, sums *s) {
    const real *x = r->net + row * r->classes, *y = r->bag + row * r->classes;
    int32_t target = r->target[row];
    double log_sum = log_total(r, b, row), mx = 0, my = 0, xx = 0, xy = 0, yy = 0;
    for (int64_t c = 0; c < r->classes; c++) {
        double p = qkv_exact_exp(score_of(r, b, row, c) - log_sum), u = (double)x[c], v = (double)y[c];
        mx += p * u, my += p * v;
        xx += p * u * u, xy += p * u * v, yy += p * v * v;
    }
    s->value += log_sum - score_of(r, b, row, target);
    s->g[0] += mx - (double)x[target];
    s->g[1] += my - (double)y[target];
    s->h[0] += xx - mx * mx;
    s->h[1] += xy - mx * my;
    s->h[2] += yy - my * my;
}

static void add_sigmoids(const qkv_blend_rows *r, qkv_blend b, int64_t row, sums *s) {
    for (int64_t c = 0; c < r->classes; c++) {
        double t = score_of(r, b, row, c), p = qkv_exact_sigmoid(t), u = (double)r->net[row * r->classes + c], v = (double)r->bag[row * r->classes + c];
        double has = has_label(r, row, c) ? 1 : 0;
        s->value += qkv_exact_softplus(t) - has * t;
        s->g[0] += (p - has) * u;
        s->g[1] += (p - has) * v;
        s->h[0] += p * (1 - p) * u * u;
        s->h[1] += p * (1 - p) * u * v;
        s->h[2] += p * (1 - p) * v * v;
    }
}

static sums sums_at(const qkv_blend_rows *r, qkv_blend b) {
    double x = b.net - MIDDLE, y = b.bag - MIDDLE;
    sums s = {HOLD / 2 * (x * x + y * y), {HOLD * x, HOLD * y}, {HOLD, 0, HOLD}};
    for (int64_t i = 0; i < r->rows; i++) {
        if (r->label_at) add_sigmoids(r, b, i, &s);
        else if (r->target[i] >= 0) add_softmax(r, b, i, &s);
    }
    return s;
}

/* Newton's direction in the factors that are free. */
static void direction(const sums *s, bool net, bool bag, double d[2]) {
    double det = s->h[0] * s->h[2] - s->h[1] * s->h[1];
    d[0] = d[1] = 0;
    if (net && bag && det > 0) {
        d[0] = -(s->h[2] * s->g[0] - s->h[1] * s->g[1]) / det;
        d[1] = -(s->h[0] * s->g[1] - s->h[1] * s->g[0]) / det;
        return;
    }
    if (net) d[0] = -s->g[0] / s->h[0];
    if (bag) d[1] = -s->g[1] / s->h[2];
}

/* The minimum over the free factors, others as they are in `b`. */
static qkv_blend minimum(const qkv_blend_rows *r, qkv_blend b, bool net, bool bag) {
    sums at = sums_at(r, b);
    for (int i = 0; i < STEPS; i++) {
        double d[2], step = 1;
        direction(&at, net, bag, d);
        if (!(fabs(d[0]) + fabs(d[1]) > 1e-9)) break;
        int k = 0;
        for (; k < HALVINGS; k++, step /= 2) {
            qkv_blend next = {b.net + step * d[0], b.bag + step * d[1]};
            sums there = sums_at(r, next);
            if (!(there.value < at.value)) continue;
            b = next, at = there;
            break;
        }
        if (k == HALVINGS) break;
    }
    return b;
}

qkv_blend qkv_blend_fit_bag(const qkv_blend_rows *r) {
    qkv_blend b = minimum(r, (qkv_blend){0, MIDDLE}, false, true);
    return b.bag > 0 ? b : (qkv_blend){0, MIDDLE};
}

/* A convex function of two: where its minimum is out of bounds, the one within is at a bound. */
qkv_blend qkv_blend_best(const qkv_blend_rows *r) {
    qkv_blend b = minimum(r, qkv_blend_even(), true, true);
    if (b.net >= 0 && b.bag >= 0) return b;
    qkv_blend only_bag = minimum(r, (qkv_blend){0, MIDDLE}, false, true), only_net = minimum(r, (qkv_blend){MIDDLE, 0}, true, false);
    if (only_bag.bag <= 0 && only_net.net <= 0) return qkv_blend_even(); /* both contradict the rows: nothing is to be had */
    if (only_bag.bag <= 0) return only_net;
    if (only_net.net <= 0) return only_bag;
    return sums_at(r, only_bag).value <= sums_at(r, only_net).value ? only_bag : only_net;
}

/* ---- the least weight for the network ---- */

/* With so much of the network. */
static qkv_blend with_net(const qkv_blend_rows *r, qkv_blend best, double net) {
    if (net == 0) return qkv_blend_fit_bag(r);
    qkv_blend b = minimum(r, (qkv_blend){net, best.bag}, false, true);
    return b.bag > 0 ? b : (qkv_blend){net, 0};
}

/* Whether the rows' losses by `b` are on average higher than by `best` by no more than one standard error of the difference. */
static bool as_good(const qkv_blend_rows *r, qkv_blend best, qkv_blend b) {
    double sum = 0, squares = 0, n = 0;
    for (int64_t i = 0; i < r->rows; i++) {
        if (!r->label_at && r->target[i] < 0) continue;
        double d = loss_of(r, b, i) - loss_of(r, best, i);
        sum += d, squares += d * d, n++;
    }
    return n > 1 && (sum <= 0 || sum * sum <= (squares - sum * sum / n) * n / (n - 1));
}

/* The same ratio of the two, scaled to the least loss. */
static qkv_blend rescaled(const qkv_blend_rows *r, qkv_blend b) {
    sums at = sums_at(r, b);
    for (int i = 0; i < STEPS; i++) {
        double slope = at.g[0] * b.net + at.g[1] * b.bag, step = 1;
        double bend = at.h[0] * b.net * b.net + 2 * at.h[1] * b.net * b.bag + at.h[2] * b.bag * b.bag;
        qkv_blend next = b;
        sums there = at;
        for (int k = 0; k < HALVINGS; k++, step /= 2) {
            double by = 1 - step * slope / bend;
            next = (qkv_blend){by * b.net, by * b.bag};
            if (by > 0 && (there = sums_at(r, next)).value < at.value) break;
        }
        if (!(there.value < at.value)) break;
        b = next, at = there;
    }
    return b;
}

/* The loss is convex and so falls all the way from the bag alone to the best: the first share that is as good is found by halving. */
qkv_blend qkv_blend_fit(const qkv_blend_rows *r) {
    const qkv_blend best = qkv_blend_best(r);
    qkv_blend least = best;
    if (best.net == 0 || best.bag == 0 || (best.net == MIDDLE && best.bag == MIDDLE)) return best; /* nothing to choose, or by nothing */
    int good = SHARES;
    for (int low = -1; good - low > 1;) {
        int share = (low + good) / 2;
        qkv_blend b = with_net(r, best, best.net * share / SHARES);
        if (as_good(r, best, b)) good = share, least = b;
        else low = share;
    }
    return good < SHARES && good > 0 ? rescaled(r, least) : least;
}

double qkv_blend_row(const qkv_blend_rows *r, qkv_blend b, int64_t row, real *probabilities) {
    double log_sum = r->label_at ? 0 : log_total(r, b, row);
    for (int64_t c = 0; c < r->classes; c++) {
        double t = score_of(r, b, row, c);
        probabilities[c] = (real)(r->label_at ? qkv_exact_sigmoid(t) : qkv_exact_exp(t - log_sum));
    }
    return loss_of(r, b, row);
}
