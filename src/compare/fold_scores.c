#include "compare/fold_scores.h"

#include <math.h>
#include <string.h>

#include "train/bootstrap.h"
#include "train/metrics.h"

static const int BOOT[QKV_MARKS] = {QKV_BOOT_ACCURACY, QKV_BOOT_MACRO_F1};

json_t *qkv_given_json(const int32_t *given, int64_t rows) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < rows; i++) {
        if (json_array_append_new(list, json_integer(given[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

bool qkv_given_whole(const json_t *given, int64_t rows, int64_t classes) {
    if (!json_is_array(given) || (int64_t)json_array_size(given) != rows) return false;
    for (size_t i = 0; i < json_array_size(given); i++) {
        const json_t *v = json_array_get(given, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= classes) return false;
    }
    return true;
}

/* ---- the answers of one seed ---- */

typedef struct answers {
    int32_t *gold, *given; /* of the rows that are asked, fold after fold */
    int64_t begins[QKV_CROSSVAL_FOLDS + 1];
    double *scores; /* [QKV_BOOT_SCORES][resamples] */
} answers;

/* What somebody says who has learned nothing: a training that diverged. */
static int32_t frequent(const qkv_crossval *c) {
    int64_t most = 0;
    int32_t best = 0;
    for (int64_t l = 0; l < c->labels.count; l++) {
        int64_t rows = 0;
        for (int64_t i = 0; i < c->table.count; i++) rows += c->target[i] == l;
        if (rows > most) most = rows, best = (int32_t)l;
    }
    return best;
}

static const qkv_trial *trial_of(const qkv_fold_trials *t, int64_t fold, int64_t seed) {
    int64_t of[QKV_TRIAL_PLACES];
    memcpy(of, t->at, sizeof of);
    of[t->fold] = fold;
    of[t->turn] = seed;
    return qkv_run_find(t->run, of);
}

static bool is_done(const qkv_fold_trials *t, int64_t fold, int64_t seed) {
    const qkv_trial *trial = trial_of(t, fold, seed);
    return trial && trial->values;
}

uint32_t qkv_fold_scores_there(const qkv_fold_trials *t) {
    uint32_t best = 0;
    int most = 0;
    for (int64_t seed = 0; seed < t->run->seeds; seed++) {
        uint32_t mask = 0;
        int count = 0;
        for (int64_t f = 0; f < t->crossval->asked; f++)
            if (is_done(t, f, seed)) mask |= 1u << f, count++;
        if (count > most) most = count, best = mask;
    }
    return best;
}

/* False: a fold is missing. */
static bool gather(const qkv_fold_trials *t, uint32_t mask, int64_t seed, answers *a) {
    const qkv_crossval *c = t->crossval;
    int64_t n = 0, folds = 0;
    for (int64_t f = 0; f < c->asked; f++) {
        if (!(mask >> f & 1)) continue;
        const qkv_trial *trial = trial_of(t, f, seed);
        if (!trial || !trial->values) return false;
        const json_t *given = json_object_get(trial->values, "given");
        size_t k = 0;
        a->begins[folds++] = n;
        for (int64_t i = 0; i < c->table.count; i++) {
            if (c->fold[i] != f) continue;
            a->gold[n] = c->target[i];
            a->given[n++] = given ? (int32_t)json_integer_value(json_array_get(given, k++)) : frequent(c);
        }
    }
    a->begins[folds] = n;
    return folds > 0;
}

/* Of all rows but from .. to. */
static qkv_status score_without(const qkv_crossval *c, const answers *a, int64_t rows, int64_t from, int64_t to,
                                double marks[QKV_MARKS]) {
    qkv_counts counts;
    qkv_scores scores;
    QKV_TRY(qkv_counts_create(c->ctx, c->labels.count, &counts));
    for (int64_t i = 0; i < rows; i++)
        if (i < from || i >= to) qkv_counts_add(&counts, a->gold[i], a->given[i], 0);
    qkv_counts_scores(&counts, &scores);
    qkv_counts_free(c->ctx, &counts);
    marks[QKV_MARK_ACCURACY] = scores.accuracy;
    marks[QKV_MARK_MACRO_F1] = scores.macro_f1;
    return QKV_OK;
}

static qkv_status score(const qkv_crossval *c, const answers *a, qkv_fold_scores *s) {
    qkv_outcomes o;
    double marks[QKV_MARKS];
    QKV_TRY(score_without(c, a, s->rows, 0, 0, marks));
    for (int m = 0; m < QKV_MARKS; m++) s->of[m][s->seeds] = marks[m];
    for (int64_t f = 0; f < s->folds && s->folds > 1; f++) {
        QKV_TRY(score_without(c, a, s->rows, a->begins[f], a->begins[f + 1], marks));
        for (int m = 0; m < QKV_MARKS; m++) s->without[m][f] += marks[m];
    }
    QKV_TRY(qkv_outcomes_pairs(c->ctx, s->rows, c->labels.count, a->gold, a->given, &o));
    qkv_status status = qkv_bootstrap(c->ctx, &o, QKV_FOLD_SCORES_RESAMPLES, 1, a->scores);
    qkv_outcomes_free(c->ctx, &o);
    for (int m = 0; status == QKV_OK && m < QKV_MARKS; m++)
        for (int64_t r = 0; r < QKV_FOLD_SCORES_RESAMPLES; r++)
            s->resampled[m][r] += a->scores[BOOT[m] * QKV_FOLD_SCORES_RESAMPLES + r];
    s->seeds += status == QKV_OK;
    return status;
}

static qkv_status make(const qkv_fold_trials *t, answers *a, qkv_fold_scores *s) {
    int64_t of[QKV_TRIAL_PLACES];
    memcpy(of, t->at, sizeof of);
    of[t->fold] = QKV_ANY;
    for (int64_t seed = 0; seed < t->run->seeds && seed < QKV_SAMPLES; seed++) {
        of[t->turn] = seed;
        s->missing += qkv_run_missing(t->run, of);
        s->seed[s->seeds] = seed;
        if (gather(t, s->mask, seed, a)) QKV_TRY(score(t->crossval, a, s));
    }
    of[t->turn] = 1;
    s->fixed = t->run->seeds > 1 && !qkv_run_find(t->run, of);
    for (int m = 0; m < QKV_MARKS && s->seeds > 0; m++) {
        for (int64_t r = 0; r < QKV_FOLD_SCORES_RESAMPLES; r++) s->resampled[m][r] /= (double)s->seeds;
        for (int64_t f = 0; f < s->folds; f++) s->without[m][f] /= (double)s->seeds;
    }
    return QKV_OK;
}

qkv_status qkv_fold_scores_make(const qkv_fold_trials *t, uint32_t mask, qkv_fold_scores *s) {
    const qkv_crossval *c = t->crossval;
    answers a = {0};
    *s = (qkv_fold_scores){.ctx = c->ctx, .mask = mask};
    for (int64_t f = 0; f < c->asked; f++) s->folds += mask >> f & 1;
    for (int64_t i = 0; i < c->table.count; i++) s->rows += c->fold[i] < c->asked && (mask >> c->fold[i] & 1);
    qkv_status status = QKV_OK;
    for (int m = 0; status == QKV_OK && m < QKV_MARKS; m++)
        status = qkv_alloc_zero(c->ctx, QKV_FOLD_SCORES_RESAMPLES, sizeof(double), &s->resampled[m]);
    if (status == QKV_OK) status = qkv_alloc(c->ctx, s->rows, sizeof *a.gold, &a.gold);
    if (status == QKV_OK) status = qkv_alloc(c->ctx, s->rows, sizeof *a.given, &a.given);
    if (status == QKV_OK) status = qkv_alloc(c->ctx, QKV_BOOT_SCORES * QKV_FOLD_SCORES_RESAMPLES, sizeof *a.scores, &a.scores);
    if (status == QKV_OK) status = make(t, &a, s);
    qkv_free(c->ctx, a.gold);
    qkv_free(c->ctx, a.given);
    qkv_free(c->ctx, a.scores);
    if (status != QKV_OK) qkv_fold_scores_free(s);
    return status;
}

void qkv_fold_scores_free(qkv_fold_scores *s) {
    for (int m = 0; s->ctx && m < QKV_MARKS; m++) qkv_free(s->ctx, s->resampled[m]);
    *s = (qkv_fold_scores){0};
}

/* ---- estimates ---- */

typedef double combine(double a, double b);
static double plain(double a, double b) {
    return (void)a, b;
}
static double less(double a, double b) {
    return b - a;
}
static double gone(double a, double b) {
    return 1 - b / a;
}

static double mean_of(const qkv_fold_scores *s, qkv_mark m) {
    double sum = 0;
    for (int64_t i = 0; i < s->seeds; i++) sum += s->of[m][i];
    return sum / (double)s->seeds;
}

/* Standard error of so many rows, by drawing them anew; at least that of two rows more, on which one of both alone is right: what
 * agrees on all rows that were asked need not on all others. */
static double error_of_rows(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark m, combine *f) {
    double sum = 0, squares = 0, least = sqrt(2.0) / (double)(b->rows + 2);
    for (int64_t r = 0; r < QKV_FOLD_SCORES_RESAMPLES; r++) {
        const double v = f(a->resampled[m][r], b->resampled[m][r]);
        sum += v;
        squares += v * v;
    }
    const double mean = sum / QKV_FOLD_SCORES_RESAMPLES;
    if (f == gone) least /= mean_of(a, m);
    return fmax(sqrt(fmax(squares / QKV_FOLD_SCORES_RESAMPLES - mean * mean, 0)), least);
}

/* By what each fold changes: k times the whole less k - 1 times what it is without the fold counts as the fold's own. */
static qkv_estimate by_folds(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark m, combine *f) {
    enum { FEWEST = 3 };
    const double whole = f(mean_of(a, m), mean_of(b, m)), k = (double)b->folds, error = error_of_rows(a, b, m, f);
    double own[QKV_CROSSVAL_FOLDS];
    if (b->folds < FEWEST) return qkv_estimate_mean(&whole, 1, 0);
    for (int64_t i = 0; i < b->folds; i++) own[i] = k * whole - (k - 1) * f(a->without[m][i], b->without[m][i]);
    qkv_estimate e = qkv_estimate_mean(own, b->folds, 0);
    const double half = fmax((e.high - e.low) / 2, 1.96 * error);
    e.value = whole, e.low = whole - half, e.high = whole + half;
    e.deviation = NAN; /* of seeds there is none */
    return e;
}

/* Has it been trained more than once, or is there nothing to train again? */
static bool spread_known(const qkv_fold_scores *s) {
    return s->seeds > 1 || s->fixed;
}

/* Seed by seed, of those that both have; one that has no seeds (the linear model) is held against each of the other's. */
static qkv_estimate of_those_there(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark m, combine *f) {
    double of[QKV_SAMPLES] = {0};
    if (a->seeds == 0 || b->seeds == 0) return qkv_estimate_mean(of, 0, 0);
    if (!spread_known(a) || !spread_known(b) || (a->seeds == 1 && b->seeds == 1)) return by_folds(a, b, m, f);
    int64_t n = 0;
    for (int64_t i = 0; i < a->seeds; i++)
        for (int64_t k = 0; k < b->seeds; k++)
            if (a->fixed || b->fixed || a->seed[i] == b->seed[k]) of[n++] = f(a->of[m][i], b->of[m][k]);
    return qkv_estimate_mean(of, n, error_of_rows(a, b, m, f));
}

/* Student's t of two seeds knows nothing of shares: none lies outside of 0 .. 1. */
static double within(double bound, double low, double high) {
    return isfinite(bound) ? fmin(fmax(bound, low), high) : bound;
}

static qkv_estimate estimate(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark m, combine *f) {
    qkv_estimate e = of_those_there(a, b, m, f);
    const double low = f == plain ? 0 : f == less ? -1 : -INFINITY;
    e.low = within(e.low, low, 1);
    e.high = within(e.high, low, 1);
    e.missing = a->missing + (a == b ? 0 : b->missing);
    return e;
}

qkv_estimate qkv_fold_scores_mean(const qkv_fold_scores *s, qkv_mark mark) {
    return estimate(s, s, mark, plain);
}
qkv_estimate qkv_fold_scores_gain(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark mark) {
    return estimate(a, b, mark, less);
}
qkv_estimate qkv_fold_scores_fall(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark mark) {
    return estimate(a, b, mark, gone);
}
