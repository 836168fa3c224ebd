#include "compare/reading.h"

#include <string.h>

#include "tasks/scorer.h"

qkv_status qkv_ragged_append(qkv_ctx *ctx, qkv_ragged *r, const qkv_ragged *more) {
    const int64_t tokens = r->offset[r->count], further = more->offset[more->count];
    QKV_TRY(qkv_grow(ctx, r->count + more->count + 1, sizeof *r->offset, &r->offset));
    QKV_TRY(qkv_grow(ctx, r->count + more->count, sizeof *r->target, &r->target));
    QKV_TRY(qkv_grow(ctx, tokens + further, sizeof *r->ids, &r->ids));
    if (further > 0) memcpy(r->ids + tokens, more->ids, (size_t)further * sizeof *r->ids);
    for (int64_t i = 0; i < more->count; i++) {
        r->target[r->count + i] = more->target[i];
        r->offset[r->count + i + 1] = tokens + more->offset[i + 1];
    }
    r->count += more->count;
    return QKV_OK;
}

/* Rows of some lengths, and which of all they are. */
typedef struct chosen {
    qkv_ragged rows;
    int64_t *which;
    char *right; /* a bit each, of all rows */
} chosen;

static qkv_status choose(qkv_ctx *ctx, const qkv_ragged *all, int64_t shortest, int64_t longest, chosen *c) {
    qkv_ragged *r = &c->rows;
    QKV_TRY(qkv_alloc(ctx, all->count + 1, sizeof *r->offset, &r->offset));
    QKV_TRY(qkv_alloc(ctx, all->count, sizeof *r->target, &r->target));
    QKV_TRY(qkv_alloc(ctx, all->offset[all->count], sizeof *r->ids, &r->ids));
    QKV_TRY(qkv_alloc(ctx, all->count, sizeof *c->which, &c->which));
    r->offset[0] = 0;
    for (int64_t i = 0; i < all->count; i++) {
        const int64_t from = all->offset[i], n = all->offset[i + 1] - from, to = r->offset[r->count];
        if (n < shortest || n > longest) continue;
        if (n > 0) memcpy(r->ids + to, all->ids + from, (size_t)n * sizeof *r->ids);
        r->target[r->count] = all->target[i];
        c->which[r->count++] = i;
        r->offset[r->count] = to + n;
    }
    return QKV_OK;
}

static void on_answer(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    const chosen *c = user;
    const int64_t i = c->which[row];
    (void)loss;
    if (qkv_argmax(probabilities, classes) == c->rows.target[row]) c->right[i / 4] |= (char)(1 << i % 4);
}

/* The parameters are the same in number and order; a table may have further rows. */
static void spread(const qkv_reg *to, real *weights, const qkv_reg *from, const real *trained) {
    for (int64_t i = 0; i < to->count; i++) {
        const qkv_param *a = &to->params[i], *b = &from->params[i];
        const int64_t rows = a->rows < b->rows ? a->rows : b->rows;
        memcpy(weights + a->offset, trained + b->offset, (size_t)(rows * a->cols) * sizeof *weights);
    }
}

static qkv_status ask(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, uint64_t seed, const qkv_reading_of *reading,
                      chosen *c) {
    qkv_classifier *twin;
    real *own = NULL;
    QKV_TRY(qkv_classifier_create(ctx, &reading->config, false, &twin));
    const qkv_reg *reg = qkv_classifier_reg(twin);
    qkv_status status = qkv_alloc(ctx, reg->size, sizeof *own, &own);
    if (status == QKV_OK) {
        qkv_reg_init(reg, seed, own);
        spread(reg, own, qkv_classifier_reg(net), weights);
        status = qkv_scorer_once(ctx, twin, own, NULL, &c->rows, on_answer, c);
    }
    qkv_free(ctx, own);
    qkv_classifier_free(twin);
    return status;
}

qkv_status qkv_reading_always(qkv_ctx *ctx, const qkv_ragged *rows, int64_t class, char **answers) {
    const int64_t digits = (rows->count + 3) / 4;
    QKV_TRY(qkv_alloc_zero(ctx, digits + 1, 1, answers));
    for (int64_t i = 0; i < rows->count; i++)
        if (rows->target[i] == class) (*answers)[i / 4] |= (char)(1 << i % 4);
    qkv_answers_print(*answers, digits);
    return QKV_OK;
}

qkv_status qkv_reading_ask(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, uint64_t seed, const qkv_ragged *rows,
                           const qkv_reading_of *readings, int64_t count, char **answers) {
    const int64_t digits = (rows->count + 3) / 4;
    QKV_TRY(qkv_alloc_zero(ctx, digits + 1, 1, answers));
    qkv_status status = QKV_OK;
    for (int64_t k = 0; k < count && status == QKV_OK; k++) {
        chosen c = {.right = *answers};
        status = choose(ctx, rows, readings[k].shortest, readings[k].longest, &c);
        if (status == QKV_OK && c.rows.count > 0) status = ask(ctx, net, weights, seed, &readings[k], &c);
        qkv_ragged_free(ctx, &c.rows);
        qkv_free(ctx, c.which);
    }
    if (status == QKV_OK) {
        qkv_answers_print(*answers, digits);
        return QKV_OK;
    }
    qkv_free(ctx, *answers);
    *answers = NULL;
    return status;
}
