#include "train/logistic.h"

#include <math.h>
#include <string.h>

#include "base/exact.h"
#include "base/par.h"
#include "base/rng.h"


/* One class against the rest. */
typedef struct fit {
    const qkv_logistic_problem *p;
    int64_t which;
    double *w;     /* [features]: of x, that is r times the weight of r x */
    float *square; /* [features]: r^2 */
    double *logit; /* [rows]: dual variables, alpha = cost * sigmoid(logit) */
    double *norm;  /* [rows]: |r x|^2 + 1 */
    bool *member;  /* [rows]: of the class */
    int64_t *order;
    double bias;
} fit;

static bool has_class(const qkv_logistic_problem *p, int64_t row, int64_t which) {
    if (!p->label_at) return p->target[row] == which;
    for (int64_t i = p->label_at[row]; i < p->label_at[row + 1]; i++)
        if (p->labels[i] == which) return true;
    return false;
}

/* With one class a row the row weighs as its class does; with any number the terms of its labels do. */
static double cost_of(const fit *f, int64_t row) {
    const qkv_logistic_problem *p = f->p;
    if (!p->weight) return p->cost;
    if (!p->label_at) return p->cost * (double)p->weight[p->target[row]];
    return f->member[row] ? p->cost * (double)p->weight[f->which] : p->cost;
}

static void find_ratios(fit *f) {
    const qkv_feature_rows *x = &f->p->x;
    double *with = f->w, sum_p = 0, sum_q = 0; /* w is not in use yet */
    float *without = f->square;
    memset(with, 0, (size_t)x->features * sizeof *with);
    memset(without, 0, (size_t)x->features * sizeof *without);
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t k = x->offset[i]; k < x->offset[i + 1]; k++) {
            if (f->member[i]) with[x->index[k]] += 1;
            else without[x->index[k]] += 1;
        }
    }
    for (int64_t j = 0; j < x->features; j++) {
        sum_p += with[j] + 1;
        sum_q += (double)without[j] + 1;
    }
    for (int64_t j = 0; j < x->features; j++) {
        double r = qkv_exact_log((with[j] + 1) / sum_p) - qkv_exact_log(((double)without[j] + 1) / sum_q);
        f->square[j] = (float)(r * r);
    }
}

static double score(const fit *f, int64_t row) {
    const qkv_feature_rows *x = &f->p->x;
    double s = f->bias;
    for (int64_t k = x->offset[row]; k < x->offset[row + 1]; k++) s += f->w[x->index[k]];
    return s;
}

static void add_row(fit *f, int64_t row, double by) {
    const qkv_feature_rows *x = &f->p->x;
    for (int64_t k = x->offset[row]; k < x->offset[row + 1]; k++) f->w[x->index[k]] += by * (double)f->square[x->index[k]];
    f->bias += by;
}

/* The logit t of the row's dual variable at the optimum, all others fixed: t + margin + norm (alpha(t) - alpha) = 0, where alpha(t)
 * = cost sigmoid(t) rises with t, so that there is one root; by Newton's steps between bounds. */
static double best_logit(double cost, double norm, double margin, double alpha, double t, double tolerance) {
    double low = -margin - norm * (cost - alpha), high = -margin + norm * alpha;
    if (!(t > low && t < high)) t = (low + high) / 2;
    for (int i = 0; i < 30; i++) {
        double s = qkv_exact_sigmoid(t), value = t + margin + norm * (cost * s - alpha);
        if (fabs(value) < 1e-2 * tolerance) break;
        if (value > 0) high = t;
        else low = t;
        t -= value / (1 + norm * cost * s * (1 - s));
        if (!(t > low && t < high)) t = (low + high) / 2;
    }
    return t;
}

/* Returns how far the logit moved. */
static double visit(fit *f, int64_t row) {
    double cost = cost_of(f, row), y = f->member[row] ? 1 : -1, old = f->logit[row], alpha = cost * qkv_exact_sigmoid(old);
    double t = best_logit(cost, f->norm[row], y * score(f, row), alpha, old, f->p->tolerance);
    f->logit[row] = t;
    add_row(f, row, y * (cost * qkv_exact_sigmoid(t) - alpha));
    return fabs(t - old);
}

static void start(fit *f) {
    const qkv_feature_rows *x = &f->p->x;
    for (int64_t i = 0; i < x->rows; i++) f->member[i] = has_class(f->p, i, f->which);
    find_ratios(f);
    memset(f->w, 0, (size_t)x->features * sizeof *f->w);
    f->bias = 0;
    for (int64_t i = 0; i < x->rows; i++) {
        f->norm[i] = 1;
        for (int64_t k = x->offset[i]; k < x->offset[i + 1]; k++) f->norm[i] += (double)f->square[x->index[k]];
        f->logit[i] = -10; /* almost nothing */
        add_row(f, i, (f->member[i] ? 1 : -1) * cost_of(f, i) * qkv_exact_sigmoid(f->logit[i]));
    }
}

/* A row that hardly moved is left alone until the others rest too: against a small class most rows are far on their side soon. */
static void solve(fit *f) {
    start(f);
    const double tolerance = f->p->tolerance;
    bool whole = true;
    int64_t active = 0;
    for (int pass = 0; pass < f->p->passes; pass++) {
        double most = 0;
        int64_t busy = 0;
        if (whole) qkv_shuffle(qkv_key2(f->p->seed, (uint64_t)pass), f->p->x.rows, f->order);
        if (whole) active = f->p->x.rows;
        for (int64_t i = 0; i < active; i++) {
            double moved = visit(f, f->order[i]);
            most = fmax(most, moved);
            if (moved > tolerance / 2) f->order[busy++] = f->order[i];
        }
        if (whole && most < tolerance) break;
        whole = most < tolerance;
        active = busy;
    }
}

/* ---- all classes, shared out ---- */

typedef struct job {
    const qkv_logistic_problem *p;
    qkv_logistic_result *result;
    fit *scratch;    /* a thread each */
    int64_t first;   /* class of the chunks at hand */
    bool one_of_two; /* class 1 is learned for both */
} job;

static void put(const job *j, real *row, int64_t which, double s) {
    if (!j->one_of_two) row[which] = (real)s;
    else {
        row[0] = (real)(-s / 2);
        row[1] = (real)(s / 2);
    }
}

static void class_chunk(void *arg, int64_t chunk, int thread) {
    job *j = arg;
    fit *f = &j->scratch[thread];
    f->which = j->one_of_two ? 1 : j->first + chunk;
    solve(f);
    for (int64_t k = 0; k < j->p->x.features; k++) put(j, j->result->weight + k * j->p->classes, f->which, f->w[k]);
    put(j, j->result->bias, f->which, f->bias);
}

static qkv_status make_scratch(qkv_ctx *ctx, const qkv_logistic_problem *p, fit *f) {
    f->p = p;
    QKV_TRY(qkv_alloc(ctx, p->x.features, sizeof *f->w, &f->w));
    QKV_TRY(qkv_alloc(ctx, p->x.features, sizeof *f->square, &f->square));
    QKV_TRY(qkv_alloc(ctx, p->x.rows, sizeof *f->logit, &f->logit));
    QKV_TRY(qkv_alloc(ctx, p->x.rows, sizeof *f->norm, &f->norm));
    QKV_TRY(qkv_alloc(ctx, p->x.rows, sizeof *f->member, &f->member));
    return qkv_alloc(ctx, p->x.rows, sizeof *f->order, &f->order);
}

static void free_scratch(qkv_ctx *ctx, fit *f) {
    qkv_free(ctx, f->w);
    qkv_free(ctx, f->square);
    qkv_free(ctx, f->logit);
    qkv_free(ctx, f->norm);
    qkv_free(ctx, f->member);
    qkv_free(ctx, f->order);
}

static qkv_status allocate(qkv_ctx *ctx, job *j) {
    const qkv_logistic_problem *p = j->p;
    QKV_TRY(qkv_alloc(ctx, p->x.features * p->classes, sizeof(real), &j->result->weight));
    QKV_TRY(qkv_alloc(ctx, p->classes, sizeof(real), &j->result->bias));
    QKV_TRY(qkv_alloc_zero(ctx, ctx->threads, sizeof *j->scratch, &j->scratch));
    for (int t = 0; t < ctx->threads; t++) QKV_TRY(make_scratch(ctx, p, &j->scratch[t]));
    return QKV_OK;
}

/* Some classes at a time: a stop is asked for between them. */
static qkv_status solve_all(qkv_ctx *ctx, job *j) {
    const int64_t classes = j->one_of_two ? 1 : j->p->classes, at_once = 4 * (int64_t)ctx->threads;
    for (j->first = 0; j->first < classes; j->first += at_once) {
        qkv_par(ctx, classes - j->first < at_once ? classes - j->first : at_once, class_chunk, j);
        if (qkv_stop_asked(ctx)) return qkv_fail(ctx, QKV_STOPPED, "stopped on request");
    }
    return QKV_OK;
}

qkv_status qkv_logistic_fit(qkv_ctx *ctx, const qkv_logistic_problem *problem, qkv_logistic_result *result) {
    job j = {.p = problem, .result = result, .one_of_two = problem->classes == 2 && !problem->label_at};
    *result = (qkv_logistic_result){0};
    qkv_status status = allocate(ctx, &j);
    if (status == QKV_OK) status = solve_all(ctx, &j);
    for (int t = 0; j.scratch && t < ctx->threads; t++) free_scratch(ctx, &j.scratch[t]);
    qkv_free(ctx, j.scratch);
    if (status != QKV_OK) qkv_logistic_free(ctx, result);
    return status;
}

void qkv_logistic_free(qkv_ctx *ctx, qkv_logistic_result *result) {
    qkv_free(ctx, result->weight);
    qkv_free(ctx, result->bias);
    *result = (qkv_logistic_result){0};
}
