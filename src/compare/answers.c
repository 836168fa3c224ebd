/* What several trainings say about the same test rows. */
#include "compare/dataset.h"

#include <math.h>
#include <string.h>

/* Digits of the trial's answers, of exactly these rows; NULL: it has none. */
static const char *answers_of(const qkv_trial *t, const char *name, const qkv_ragged *test) {
    const char *digits = t->values ? json_string_value(json_object_get(t->values, name)) : NULL;
    return digits && (int64_t)strlen(digits) == (test->count + 3) / 4 ? digits : NULL;
}

static int right(const char *digits, int64_t row) {
    const char d = digits[row / 4];
    return (d <= '9' ? d - '0' : d - 'a' + 10) >> row % 4 & 1;
}

static bool asked(const qkv_ragged *test, int64_t row, qkv_lengths s) {
    const int64_t n = test->offset[row + 1] - test->offset[row];
    return n >= s.shortest && n <= s.longest;
}

int64_t qkv_rows_in(const qkv_ragged *test, qkv_lengths s) {
    int64_t rows = 0;
    for (int64_t r = 0; r < test->count; r++) rows += asked(test, r, s);
    return rows;
}

double qkv_share_of_class(const qkv_ragged *test, int64_t class, qkv_lengths s) {
    int64_t rows = 0;
    for (int64_t r = 0; r < test->count; r++) rows += asked(test, r, s) && test->target[r] == class;
    return (double)rows / (double)qkv_rows_in(test, s);
}

/* Share of these rows that are right; NaN where there are none, or no answers. */
static double share_of(const qkv_trial *t, const char *answers, const qkv_ragged *test, qkv_lengths s) {
    const char *digits = answers_of(t, answers, test);
    int64_t hits = 0;
    for (int64_t r = 0; digits && r < test->count; r++) hits += asked(test, r, s) && right(digits, r);
    return digits ? (double)hits / (double)qkv_rows_in(test, s) : NAN;
}

static double mean_of(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i];
    return count > 0 ? sum / (double)count : NAN;
}

static qkv_estimate not_known(int64_t missing) {
    qkv_estimate e = qkv_estimate_mean(NULL, 0, 0);
    e.missing = missing;
    return e;
}

/* ---- one arm ---- */

qkv_estimate qkv_run_accuracy_of(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *answers,
                                 const qkv_ragged *test, qkv_lengths s) {
    double of[QKV_SAMPLES] = {0}, low, high;
    int64_t seeds = 0;
    for (int64_t i = 0; i < run->count && seeds < QKV_SAMPLES; i++) {
        if (!qkv_trial_is_at(&run->trials[i], at)) continue;
        of[seeds] = share_of(&run->trials[i], answers, test, s);
        seeds += isfinite(of[seeds]);
    }
    qkv_estimate e = qkv_estimate_mean(of, seeds, 0);
    e.missing = qkv_run_missing(run, at);
    if (seeds == 0) return e;
    qkv_share_limits(e.value, (double)qkv_rows_in(test, s), &low, &high);
    qkv_estimate_reach(&e, e.value - low, high - e.value);
    if (e.low < 0) e.low = 0;
    if (e.high > 1) e.high = 1;
    return e;
}

/* What is left of a share `a` in `b`, of what each is above `none`, and by how much less is lost, or more, as the limits of both
 * say. */
static double share_left(double a, double b, double none_a, double none_b, double rows_a, double rows_b, double *less,
                         double *more) {
    const double all = a - none_a, left = (b - none_b) / all;
    double a_low, a_high, b_low, b_high;
    qkv_share_limits(a, rows_a, &a_low, &a_high);
    qkv_share_limits(b, rows_b, &b_low, &b_high);
    const double over = left >= 0 ? a - a_low : a_high - a, under = left >= 0 ? a_high - a : a - a_low;
    *less = hypot(b_high - b, left * over) / all;
    *more = hypot(b - b_low, left * under) / all;
    return left;
}

qkv_estimate qkv_run_fall_of(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *answers, const qkv_ragged *test,
                             qkv_lengths near, qkv_lengths far, double none_near, double none_far) {
    double a[QKV_SAMPLES] = {0}, b[QKV_SAMPLES] = {0}, less, more;
    int64_t seeds = 0;
    for (int64_t i = 0; i < run->count && seeds < QKV_SAMPLES; i++) {
        if (!qkv_trial_is_at(&run->trials[i], at)) continue;
        a[seeds] = share_of(&run->trials[i], answers, test, near);
        b[seeds] = share_of(&run->trials[i], answers, test, far);
        seeds += isfinite(a[seeds]) && isfinite(b[seeds]);
    }
    const double mean_a = mean_of(a, seeds), mean_b = mean_of(b, seeds);
    if (seeds == 0 || !(mean_a > none_near)) return not_known(qkv_run_missing(run, at));
    const double left = share_left(mean_a, mean_b, none_near, none_far, (double)qkv_rows_in(test, near),
                                   (double)qkv_rows_in(test, far), &less, &more);
    /* Of the quotient of the means; seed by seed as it changes with each. */
    for (int64_t i = 0; i < seeds; i++) a[i] = 1 - left + (left * (a[i] - mean_a) - (b[i] - mean_b)) / (mean_a - none_near);
    qkv_estimate e = qkv_estimate_mean(a, seeds, 0);
    e.missing = qkv_run_missing(run, at);
    qkv_estimate_reach(&e, less, more);
    return e;
}

/* ---- two arms on the same rows ---- */

typedef struct pairs {
    double of_a[QKV_SAMPLES], of_b[QKV_SAMPLES]; /* accuracy, seed by seed */
    double *a, *b;                               /* [rows] that are asked: share of the seeds that are right */
    int64_t seeds, rows;
} pairs;

/* The trial at `at` that has the same seed, and all else that `at` leaves open, as `other`. */
static const qkv_trial *partner(const qkv_run *run, const qkv_trial *other, const int64_t at[QKV_TRIAL_PLACES]) {
    int64_t all[QKV_TRIAL_PLACES];
    for (int i = 0; i < QKV_TRIAL_PLACES; i++) all[i] = at[i] == QKV_ANY ? other->at[i] : at[i];
    return qkv_run_find(run, all);
}

static void add_pair(pairs *p, const char *first, const char *second, const qkv_ragged *test, qkv_lengths s) {
    double a = 0, b = 0;
    int64_t n = 0;
    for (int64_t r = 0; r < test->count; r++) {
        if (!asked(test, r, s)) continue;
        p->a[n] += right(first, r);
        p->b[n++] += right(second, r);
        a += right(first, r);
        b += right(second, r);
    }
    p->of_a[p->seeds] = a / (double)n;
    p->of_b[p->seeds++] = b / (double)n;
}

/* False: nothing can be paired, or memory ran out. */
static bool pair_up(const qkv_run *run, const qkv_asked_of *a, const qkv_asked_of *b, const qkv_ragged *test, qkv_lengths s,
                    pairs *p) {
    *p = (pairs){.rows = qkv_rows_in(test, s)};
    if (p->rows == 0 || qkv_alloc_zero(run->ctx, 2 * p->rows, sizeof *p->a, &p->a) != QKV_OK) return false;
    p->b = p->a + p->rows;
    for (int64_t i = 0; i < run->count && p->seeds < QKV_SAMPLES; i++) {
        const qkv_trial *one = &run->trials[i], *other = qkv_trial_is_at(one, a->at) ? partner(run, one, b->at) : NULL;
        const char *first = other ? answers_of(one, a->answers, test) : NULL,
                   *second = other ? answers_of(other, b->answers, test) : NULL;
        if (first && second) add_pair(p, first, second, test, s);
    }
    for (int64_t r = 0; r < 2 * p->rows && p->seeds > 0; r++) p->a[r] /= (double)p->seeds;
    if (p->seeds == 0) qkv_free(run->ctx, p->a);
    return p->seeds > 0;
}

/* Standard error of the mean of b - weight * a over the rows, with two more, on each of which one of both alone is right (Bonett
 * and Price 2012): answers that agree on all rows that were asked need not on all others. */
static double rows_error(const pairs *p, double weight) {
    const double n = (double)p->rows + 2;
    double sum = 1 - weight, squares = 1 + weight * weight;
    for (int64_t r = 0; r < p->rows; r++) {
        const double d = p->b[r] - weight * p->a[r];
        sum += d;
        squares += d * d;
    }
    return sqrt(fmax(squares - sum * sum / n, 0) / (n - 1) / n);
}

qkv_estimate qkv_run_gain_of(const qkv_run *run, const qkv_asked_of *a, const qkv_asked_of *b, const qkv_ragged *test,
                             qkv_lengths s) {
    pairs p;
    double of[QKV_SAMPLES] = {0};
    const int64_t missing = qkv_run_missing(run, a->at) + qkv_run_missing(run, b->at);
    if (!pair_up(run, a, b, test, s, &p)) return not_known(missing);
    for (int64_t i = 0; i < p.seeds; i++) of[i] = p.of_b[i] - p.of_a[i];
    qkv_estimate e = qkv_estimate_mean(of, p.seeds, rows_error(&p, 1));
    e.missing = missing;
    qkv_free(run->ctx, p.a);
    return e;
}

qkv_estimate qkv_run_fall_beside(const qkv_run *run, const qkv_asked_of *a, const qkv_asked_of *b, const qkv_ragged *test,
                                 qkv_lengths s, double none) {
    pairs p;
    double of[QKV_SAMPLES] = {0};
    const int64_t missing = qkv_run_missing(run, a->at) + qkv_run_missing(run, b->at);
    if (!pair_up(run, a, b, test, s, &p)) return not_known(missing);
    const double mean_a = mean_of(p.of_a, p.seeds), mean_b = mean_of(p.of_b, p.seeds), all = mean_a - none,
                 left = (mean_b - none) / all;
    for (int64_t i = 0; i < p.seeds; i++) of[i] = 1 - left + (left * (p.of_a[i] - mean_a) - (p.of_b[i] - mean_b)) / all;
    qkv_estimate e = qkv_estimate_mean(of, all > 0 ? p.seeds : 0, rows_error(&p, left) / all);
    e.missing = missing;
    qkv_free(run->ctx, p.a);
    return e;
}

/* ---- of the answers that are right, as every training has them ---- */

qkv_estimate qkv_run_accuracy(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const qkv_ragged *test, int64_t shortest,
                              int64_t longest) {
    return qkv_run_accuracy_of(run, at, "right", test, (qkv_lengths){shortest, longest});
}

qkv_estimate qkv_run_gain(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const int64_t b[QKV_TRIAL_PLACES],
                          const qkv_ragged *test, int64_t shortest, int64_t longest) {
    return qkv_run_gain_of(run, &(qkv_asked_of){a, "right"}, &(qkv_asked_of){b, "right"}, test, (qkv_lengths){shortest, longest});
}
