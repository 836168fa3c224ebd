#include "compare/standing.h"

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
    double *scores;        /* [QKV_BOOT_SCORES][resamples] */
} answers;

/* What somebody says who has learned nothing: a training that diverged. */
static int32_t frequent(const qkv_course *c) {
    int64_t most = 0;
    int32_t best = 0;
    for (int64_t l = 0; l < c->labels.count; l++) {
        int64_t rows = 0;
        for (int64_t i = 0; i < c->table.count; i++) rows += c->target[i] == l;
        if (rows > most) most = rows, best = (int32_t)l;
    }
    return best;
}

/* False: a fold is missing. */
static bool gather(const qkv_run *run, const qkv_course *c, const int64_t at[QKV_TRIAL_PLACES], int fold, answers *a) {
    int64_t n = 0, of[QKV_TRIAL_PLACES];
    memcpy(of, at, sizeof of);
    for (int64_t f = 0; f < c->asked; f++) {
        of[fold] = f;
        const qkv_trial *t = qkv_run_find(run, of);
        const json_t *given = t && t->values ? json_object_get(t->values, "given") : NULL;
        if (!t || !t->values) return false;
        size_t k = 0;
        for (int64_t i = 0; i < c->table.count; i++) {
            if (c->fold[i] != f) continue;
            a->gold[n] = c->target[i];
            a->given[n++] = given ? (int32_t)json_integer_value(json_array_get(given, k++)) : frequent(c);
        }
    }
    return true;
}

static qkv_status score(const qkv_course *c, const answers *a, qkv_standing *s) {
    qkv_outcomes o;
    qkv_counts counts;
    qkv_scores scores;
    QKV_TRY(qkv_counts_create(c->ctx, c->labels.count, &counts));
    for (int64_t i = 0; i < c->test_rows; i++) qkv_counts_add(&counts, a->gold[i], a->given[i], 0);
    qkv_counts_scores(&counts, &scores);
    qkv_counts_free(c->ctx, &counts);
    s->of[QKV_MARK_ACCURACY][s->seeds] = scores.accuracy;
    s->of[QKV_MARK_MACRO_F1][s->seeds] = scores.macro_f1;
    QKV_TRY(qkv_outcomes_pairs(c->ctx, c->test_rows, c->labels.count, a->gold, a->given, &o));
    qkv_status status = qkv_bootstrap(c->ctx, &o, QKV_STANDING_RESAMPLES, 1, a->scores);
    qkv_outcomes_free(c->ctx, &o);
    for (int m = 0; status == QKV_OK && m < QKV_MARKS; m++)
        for (int64_t r = 0; r < QKV_STANDING_RESAMPLES; r++) s->resampled[m][r] += a->scores[BOOT[m] * QKV_STANDING_RESAMPLES + r];
    s->seeds += status == QKV_OK;
    return status;
}

static qkv_status make(const qkv_run *run, const qkv_course *c, const int64_t at[QKV_TRIAL_PLACES], int fold, int turn, answers *a,
                       qkv_standing *s) {
    int64_t of[QKV_TRIAL_PLACES];
    memcpy(of, at, sizeof of);
    for (int64_t seed = 0; seed < run->seeds && seed < QKV_SAMPLES; seed++) {
        of[turn] = seed;
        if (gather(run, c, of, fold, a)) QKV_TRY(score(c, a, s));
    }
    for (int m = 0; m < QKV_MARKS && s->seeds > 0; m++)
        for (int64_t r = 0; r < QKV_STANDING_RESAMPLES; r++) s->resampled[m][r] /= (double)s->seeds;
    return QKV_OK;
}

qkv_status qkv_standing_make(const qkv_run *run, const qkv_course *c, const int64_t at[QKV_TRIAL_PLACES], int fold, int turn,
                             qkv_standing *s) {
    answers a = {0};
    *s = (qkv_standing){.ctx = c->ctx};
    qkv_status status = QKV_OK;
    for (int m = 0; status == QKV_OK && m < QKV_MARKS; m++)
        status = qkv_alloc_zero(c->ctx, QKV_STANDING_RESAMPLES, sizeof(double), &s->resampled[m]);
    if (status == QKV_OK) status = qkv_alloc(c->ctx, c->test_rows, sizeof *a.gold, &a.gold);
    if (status == QKV_OK) status = qkv_alloc(c->ctx, c->test_rows, sizeof *a.given, &a.given);
    if (status == QKV_OK) status = qkv_alloc(c->ctx, QKV_BOOT_SCORES * QKV_STANDING_RESAMPLES, sizeof *a.scores, &a.scores);
    if (status == QKV_OK) status = make(run, c, at, fold, turn, &a, s);
    qkv_free(c->ctx, a.gold);
    qkv_free(c->ctx, a.given);
    qkv_free(c->ctx, a.scores);
    if (status != QKV_OK) qkv_standing_free(s);
    return status;
}

void qkv_standing_free(qkv_standing *s) {
    for (int m = 0; s->ctx && m < QKV_MARKS; m++) qkv_free(s->ctx, s->resampled[m]);
    *s = (qkv_standing){0};
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

/* Seed by seed where both have several; one that has no seeds (the linear model) is held against each of the other's. */
static qkv_estimate estimate(const qkv_standing *a, const qkv_standing *b, qkv_mark m, combine *f) {
    double of[QKV_SAMPLES] = {0}, sum = 0, squares = 0;
    const bool one = a->seeds == 1 || b->seeds == 1;
    const int64_t n = (a->seeds > b->seeds) == one ? a->seeds : b->seeds; /* the more of both, or what both have */
    if (a->seeds == 0 || b->seeds == 0) return qkv_estimate_mean(of, 0, 0);
    for (int64_t i = 0; i < n; i++) of[i] = f(a->of[m][i < a->seeds ? i : 0], b->of[m][i < b->seeds ? i : 0]);
    for (int64_t r = 0; r < QKV_STANDING_RESAMPLES; r++) {
        const double v = f(a->resampled[m][r], b->resampled[m][r]);
        sum += v;
        squares += v * v;
    }
    const double mean = sum / QKV_STANDING_RESAMPLES, error = sqrt(fmax(squares / QKV_STANDING_RESAMPLES - mean * mean, 0));
    qkv_estimate e = qkv_estimate_mean(of, n, error);
    if (n == 1) e.low = e.value - 1.96 * error, e.high = e.value + 1.96 * error;
    return e;
}

qkv_estimate qkv_standing_mean(const qkv_standing *s, qkv_mark mark) {
    return estimate(s, s, mark, plain);
}
qkv_estimate qkv_standing_gain(const qkv_standing *a, const qkv_standing *b, qkv_mark mark) {
    return estimate(a, b, mark, less);
}
qkv_estimate qkv_standing_fall(const qkv_standing *a, const qkv_standing *b, qkv_mark mark) {
    return estimate(a, b, mark, gone);
}
