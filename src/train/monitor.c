#include "train/monitor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attention is uniform where the entropy of every head is above this share of the log of the keys it sees; saturated where it is
 * below that share in every head, or where a score is beyond that. */
static const double UNIFORM = 0.99, ONE_KEY = 0.02, LARGE_SCORE = 100;
/* Of one look after the other, before it is said. */
enum { LOOKS_IN_A_ROW = 3 };
/* Gradients vanish where the first layer's norm is below that share of the last one's; a step explodes where the norm of the whole
 * gradient is beyond so many times the median of the steps before. */
static const double VANISHED = 1e-3, EXPLODED = 10;
enum { MEDIAN_OF = 64, MEDIAN_FROM = 20, WORDS = 16, WORD = 256, NAME = 48 };

typedef struct part {
    char name[NAME];
    bool layer;                      /* one of several, numbered */
    double gradient, change, weight; /* squares */
} part;

struct qkv_monitor {
    qkv_ctx *ctx;
    const qkv_reg *reg;
    int64_t parts;
    part *part;       /* [parts] */
    int64_t *part_of; /* [parameters] */
    qkv_train_part *told;
    qkv_watch watch;
    double *evenness, *score; /* [layers][heads] */
    int64_t *in_a_row;        /* [3][layers]: looks with uniform, saturated, not finite attention */
    real *before;             /* the weights, before the update */
    double recent[MEDIAN_OF]; /* norms, in turn */
    int64_t recents;
    int64_t vanishing_in_a_row;
    bool said_exploding, said_nonfinite;
    qkv_train_monitor now;
    int64_t words;
    char text[WORDS][WORD];
    const char *word[WORDS];
};

/* ---- parts of the network ---- */

/* "encoder.3.ffn.in.weight" is of "encoder.3", "head.bias" of "head". */
static bool part_name(const char *parameter, char *name) {
    size_t n = strcspn(parameter, ".");
    const size_t digits = parameter[n] ? strspn(parameter + n + 1, "0123456789") : 0;
    const bool layer = digits > 0 && parameter[n + 1 + digits] == '.';
    if (layer) n += 1 + digits;
    snprintf(name, NAME, "%.*s", (int)n, parameter);
    return layer;
}

static void name_parts(qkv_monitor *m) {
    for (int64_t i = 0; i < m->reg->count; i++) {
        part p = {0};
        int64_t at = 0;
        p.layer = part_name(m->reg->params[i].name, p.name);
        while (at < m->parts && strcmp(m->part[at].name, p.name) != 0) at++;
        if (at == m->parts) m->part[m->parts++] = p;
        m->part_of[i] = at;
    }
}

static int64_t count_of(int64_t n) {
    return n > 0 ? n : 1;
}

qkv_status qkv_monitor_create(qkv_ctx *ctx, const qkv_reg *reg, int64_t layers, int64_t heads, qkv_monitor **monitor) {
    const int64_t params = count_of(reg->count), places = count_of(layers * heads);
    qkv_monitor *m;
    *monitor = NULL;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *m, &m));
    m->ctx = ctx, m->reg = reg;
    m->watch = (qkv_watch){.layers = layers, .heads = heads};
    qkv_status status = qkv_alloc_zero(ctx, params, sizeof *m->part, &m->part);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, params, sizeof *m->part_of, &m->part_of);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, params, sizeof *m->told, &m->told);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, places, sizeof *m->watch.of, &m->watch.of);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, places, sizeof *m->evenness, &m->evenness);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, places, sizeof *m->score, &m->score);
    if (status == QKV_OK) status = qkv_alloc_zero(ctx, 3 * count_of(layers), sizeof *m->in_a_row, &m->in_a_row);
    if (status == QKV_OK) status = qkv_alloc(ctx, count_of(reg->size), sizeof *m->before, &m->before);
    if (status != QKV_OK) {
        qkv_monitor_free(m);
        return status;
    }
    name_parts(m);
    *monitor = m;
    return QKV_OK;
}

void qkv_monitor_free(qkv_monitor *m) {
    if (!m) return;
    qkv_ctx *ctx = m->ctx;
    qkv_free(ctx, m->part);
    qkv_free(ctx, m->part_of);
    qkv_free(ctx, m->told);
    qkv_free(ctx, m->watch.of);
    qkv_free(ctx, m->evenness);
    qkv_free(ctx, m->score);
    qkv_free(ctx, m->in_a_row);
    qkv_free(ctx, m->before);
    qkv_free(ctx, m);
}

int64_t qkv_monitor_bytes(const qkv_reg *reg, int64_t layers, int64_t heads) {
    const int64_t params = count_of(reg->count), places = count_of(layers * heads);
    return (int64_t)sizeof(qkv_monitor) + params * (int64_t)(sizeof(part) + sizeof(int64_t) + sizeof(qkv_train_part)) +
           places * (int64_t)(sizeof(qkv_watched) + 2 * sizeof(double)) + 3 * count_of(layers) * (int64_t)sizeof(int64_t) +
           count_of(reg->size) * (int64_t)sizeof(real);
}

/* ---- words ---- */

__attribute__((format(printf, 2, 3))) static void say(qkv_monitor *m, const char *format, ...) {
    if (m->words == WORDS) return;
    va_list args;
    va_start(args, format);
    vsnprintf(m->text[m->words], WORD, format, args);
    va_end(args);
    m->word[m->words] = m->text[m->words];
    m->words++;
}

bool qkv_monitor_has_words(const qkv_monitor *m) {
    return m->words > 0;
}

/* ---- every step ---- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const qkv_monitor *m) {
    double sorted[MEDIAN_OF];
    const int64_t n = m->recents < MEDIAN_OF ? m->recents : MEDIAN_OF;
    if (n == 0) return NAN;
    memcpy(sorted, m->recent, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void qkv_monitor_step(qkv_monitor *m, int64_t step, double gradient_norm, bool skipped) {
    qkv_train_monitor *now = &m->now;
    now->step = step;
    now->steps++;
    now->gradient_norm = gradient_norm;
    now->median_norm = median(m);
    if (skipped) {
        now->nonfinite++;
        if (!m->said_nonfinite)
            say(m,
                "step %lld: its loss or a gradient is not a finite number, and it was left out; a lower --lr or a longer --warmup "
                "helps if it "
                "comes again",
                (long long)step);
        m->said_nonfinite = true;
        return;
    }
    if (m->recents >= MEDIAN_FROM && gradient_norm > EXPLODED * now->median_norm) {
        now->exploding++;
        if (!m->said_exploding)
            say(m,
                "step %lld: the gradient explodes, a norm of %.3g where %.3g is usual; --clip bounds it, a lower --lr, a longer "
                "--warmup or "
                "--norm-place pre help",
                (long long)step, gradient_norm, now->median_norm);
        m->said_exploding = true;
    }
    m->recent[m->recents++ % MEDIAN_OF] = gradient_norm;
}

/* ---- a look ---- */

/* Several sums, so that one addition need not wait for the other. */
static double squares(const real *a, const real *b, int64_t n) {
    enum { SUMS = 8 };
    double sum[SUMS] = {0}, all = 0;
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++) {
            const double d = (double)a[i + k] - (b ? (double)b[i + k] : 0);
            sum[k] += d * d;
        }
    for (; i < n; i++) {
        const double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum[0] += d * d;
    }
    for (int k = 0; k < SUMS; k++) all += sum[k];
    return all;
}

void qkv_monitor_before(qkv_monitor *m, const real *weights, const real *grads) {
    for (int64_t i = 0; i < m->parts; i++) m->part[i].gradient = m->part[i].change = m->part[i].weight = 0;
    for (int64_t i = 0; i < m->reg->count; i++) {
        const qkv_param *p = &m->reg->params[i];
        m->part[m->part_of[i]].gradient += squares(grads + p->offset, NULL, p->rows * p->cols);
    }
    memcpy(m->before, weights, (size_t)m->reg->size * sizeof *weights);
}

void qkv_monitor_after(qkv_monitor *m, const real *weights) {
    for (int64_t i = 0; i < m->reg->count; i++) {
        const qkv_param *p = &m->reg->params[i];
        part *of = &m->part[m->part_of[i]];
        of->change += squares(weights + p->offset, m->before + p->offset, p->rows * p->cols);
        of->weight += squares(m->before + p->offset, NULL, p->rows * p->cols);
    }
}

qkv_watch *qkv_monitor_watch(qkv_monitor *m) {
    m->watch.layer = 0;
    memset(m->watch.of, 0, (size_t)count_of(m->watch.layers * m->watch.heads) * sizeof *m->watch.of);
    return &m->watch;
}

static void read_attention(qkv_monitor *m) {
    for (int64_t i = 0; i < m->watch.layers * m->watch.heads; i++) {
        const qkv_watched *w = &m->watch.of[i];
        m->evenness[i] = w->rows > 0 ? w->evenness / (double)w->rows : NAN;
        m->score[i] = w->rows > 0 ? w->score : NAN;
    }
}

typedef struct range {
    double least, most, score; /* of the heads of a layer; evenness, and the largest score */
    bool seen, finite;
} range;

static range range_of(const qkv_monitor *m, int64_t layer) {
    range r = {INFINITY, -INFINITY, -INFINITY, false, true};
    for (int64_t h = 0; h < m->watch.heads; h++) {
        const int64_t i = layer * m->watch.heads + h;
        if (m->watch.of[i].rows == 0) continue;
        r.seen = true;
        r.finite = r.finite && isfinite(m->evenness[i]) && isfinite(m->score[i]);
        r.least = fmin(r.least, m->evenness[i]);
        r.most = fmax(r.most, m->evenness[i]);
        r.score = fmax(r.score, m->score[i]);
    }
    r.seen = r.seen && r.finite;
    return r;
}

/* Counts looks in a row; true when it is to be said. */
static bool again(qkv_monitor *m, int kind, int64_t layer, bool is) {
    int64_t *count = &m->in_a_row[kind * m->watch.layers + layer];
    *count = is ? *count + 1 : 0;
    return *count == LOOKS_IN_A_ROW;
}

static void judge_attention(qkv_monitor *m) {
    bool uniform = false, saturated = false;
    for (int64_t layer = 0; layer < m->watch.layers; layer++) {
        const range r = range_of(m, layer);
        const bool even = r.seen && r.least > UNIFORM, sharp = r.seen && (r.most < ONE_KEY || r.score > LARGE_SCORE);
        uniform = uniform || even;
        saturated = saturated || sharp;
        if (again(m, 0, layer, even))
            say(m,
                "attention of layer %lld has gone uniform: the entropy of all its heads is above %.2f of the log of the keys they "
                "see, at step "
                "%lld and the looks before; it passes on a mean",
                (long long)layer, UNIFORM, (long long)m->now.step);
        if (again(m, 1, layer, sharp))
            say(m,
                "attention of layer %lld is saturated: entropy up to %.3f of the log of the keys, scores up to %.3g, at step %lld "
                "and the looks "
                "before; hardly a gradient passes it; --qk-norm or --softcap 50 help",
                (long long)layer, r.most, r.score, (long long)m->now.step);
        if (again(m, 2, layer, !r.finite))
            say(m, "attention of layer %lld is not finite at step %lld and the looks before", (long long)layer,
                (long long)m->now.step);
    }
    m->now.uniform += uniform;
    m->now.saturated += saturated;
}

static void judge_gradients(qkv_monitor *m) {
    const part *first = NULL, *last = NULL;
    for (int64_t i = 0; i < m->parts; i++) {
        if (!m->part[i].layer) continue;
        if (!first) first = &m->part[i];
        last = &m->part[i];
    }
    if (!first || first == last || !isfinite(first->gradient) || !isfinite(last->gradient)) return;
    const bool vanishing = sqrt(first->gradient) < VANISHED * sqrt(last->gradient);
    m->now.vanishing += vanishing;
    m->vanishing_in_a_row = vanishing ? m->vanishing_in_a_row + 1 : 0;
    if (m->vanishing_in_a_row == LOOKS_IN_A_ROW)
        say(m,
            "gradients vanish: that of %s has a norm of %.2g, that of %s one of %.2g, at step %lld and the looks before; "
            "--norm-place pre "
            "helps, and fewer layers do",
            first->name, sqrt(first->gradient), last->name, sqrt(last->gradient), (long long)m->now.step);
}

qkv_train_monitor qkv_monitor_tell(qkv_monitor *m) {
    m->now.words = m->words;
    m->now.word = m->word;
    m->words = 0; /* the texts stay until the next is said */
    const qkv_train_monitor now = m->now;
    m->now.looked = 0;
    return now;
}

qkv_train_monitor qkv_monitor_look(qkv_monitor *m) {
    m->now.looks++;
    read_attention(m);
    judge_attention(m);
    judge_gradients(m);
    for (int64_t i = 0; i < m->parts; i++) {
        const part *p = &m->part[i];
        m->told[i] = (qkv_train_part){p->name, sqrt(p->gradient), p->weight > 0 ? sqrt(p->change / p->weight) : 0};
    }
    m->now.parts = m->parts, m->now.part = m->told;
    m->now.layers = m->watch.layers, m->now.heads = m->watch.heads;
    m->now.entropy = m->evenness, m->now.score = m->score;
    m->now.looked = 1;
    return qkv_monitor_tell(m);
}

qkv_train_monitor qkv_monitor_end(qkv_monitor *m) {
    const qkv_train_monitor *n = &m->now;
    const long long looks = (long long)n->looks, steps = (long long)n->steps;
    m->words = 0;
    if (n->uniform > 0) say(m, "attention of some layer was uniform in %lld of %lld looks", (long long)n->uniform, looks);
    if (n->saturated > 0) say(m, "attention of some layer was saturated in %lld of %lld looks", (long long)n->saturated, looks);
    if (n->vanishing > 0)
        say(m, "gradients vanished towards the first layer in %lld of %lld looks", (long long)n->vanishing, looks);
    if (n->exploding > 0) say(m, "gradients exploded in %lld of %lld steps", (long long)n->exploding, steps);
    if (n->nonfinite > 0) say(m, "%lld of %lld steps were left out, as they were not finite", (long long)n->nonfinite, steps);
    if (m->words == 0 && n->looks > 0) say(m, "nothing wrong with attention, gradients and updates in %lld looks", looks);
    m->now.over = 1;
    return qkv_monitor_tell(m);
}
