#include "tasks/scorer.h"

#include "ops/loss.h"
#include "ops/loss_sigmoid.h"

/* A batch large enough to keep the cores busy, small enough to stay near the cache. */
enum { BATCH_TOKENS = 4096, BATCH_ROWS = 256 };

qkv_status qkv_scorer_create(qkv_ctx *ctx, const qkv_classifier *net, const qkv_ragged *rows, int64_t tokens, qkv_scorer *s) {
    if (tokens <= 0 || tokens > BATCH_TOKENS) tokens = BATCH_TOKENS;
    *s = (qkv_scorer){.ctx = ctx, .net = net, .rows = rows};
    QKV_TRY(qkv_batches_make(ctx, rows->offset, rows->count, tokens, BATCH_ROWS, 0, -1, &s->batches));
    qkv_status status = qkv_gather_create(ctx, rows, tokens, BATCH_ROWS, &s->gather);
    if (status != QKV_OK) qkv_batches_free(ctx, &s->batches);
    return status;
}

void qkv_scorer_free(qkv_scorer *s) {
    if (!s->ctx) return;
    qkv_gather_free(s->ctx, &s->gather);
    qkv_batches_free(s->ctx, &s->batches);
    *s = (qkv_scorer){0};
}

int64_t qkv_argmax(const real *p, int64_t classes) {
    int64_t best = 0;
    for (int64_t i = 1; i < classes; i++) {
        if (p[i] > p[best]) best = i;
    }
    return best;
}

/* The loss of a row without a target is computed for class 0 and dropped. */
static qkv_status losses(qkv_scorer *s, qkv_exec *x, int64_t count, qkv_mat logits, qkv_mat loss) {
    int32_t *target = s->gather.target;
    if (qkv_classifier_config(s->net)->multi_label)
        return qkv_sigmoid_loss(x, logits, s->gather.label_at, s->gather.labels, NULL, 0, 1, loss.p, (qkv_mat){0});
    for (int64_t i = 0; !x->plan && i < count; i++) {
        if (target[i] < 0) target[i] = 0;
    }
    return qkv_cross_entropy(x, logits, x->plan ? NULL : target, 0, 1, loss.p, (qkv_mat){0});
}

static qkv_status hand_over(const qkv_exec *x, qkv_mat values, const int64_t *rows, qkv_scored *scored, void *user) {
    for (int64_t i = 0; !x->plan && i < values.rows; i++) scored(user, rows[i], values.p + i * values.ld, values.cols, 0);
    return QKV_OK;
}

static qkv_status vectors_of(qkv_scorer *s, qkv_exec *x, const qkv_batch *batch, const int64_t *rows, qkv_scored *scored, void *user) {
    int64_t dim = qkv_classifier_config(s->net)->dim;
    qkv_mat vectors;
    QKV_TRY(qkv_temp(x, batch->n_seq, dim, &vectors));
    QKV_TRY(qkv_classifier_vectors(x, s->net, batch, vectors));
    return hand_over(x, vectors, rows, scored, user);
}

static void add_bag(const real *bag, const int64_t *rows, qkv_mat logits) {
    for (int64_t i = 0; i < logits.rows; i++)
        for (int64_t c = 0; c < logits.cols; c++) logits.p[i * logits.ld + c] += bag[rows[i] * logits.cols + c];
}

static qkv_status one_batch(qkv_scorer *s, qkv_exec *x, const int64_t *rows, int64_t count, qkv_scored *scored, void *user) {
    int64_t classes = qkv_classifier_config(s->net)->classes;
    qkv_batch batch;
    qkv_mat logits, loss;
    qkv_arena_low_release(&x->arena, 0);
    qkv_arena_high_release(&x->arena, 0);
    qkv_gather_rows(&s->gather, s->rows, rows, count, x->plan, &batch);
    if (s->what == QKV_SCORE_VECTORS) return vectors_of(s, x, &batch, rows, scored, user);
    QKV_TRY(qkv_temp(x, count, classes, &logits));
    QKV_TRY(qkv_temp(x, 1, count, &loss));
    QKV_TRY(qkv_classifier_forward(x, s->net, &batch, logits));
    if (s->what == QKV_SCORE_LOGITS) return hand_over(x, logits, rows, scored, user);
    if (s->rows->bag && !x->plan) add_bag(s->rows->bag, rows, logits);
    bool multi = qkv_classifier_config(s->net)->multi_label, targets = multi ? s->rows->label_at != NULL : s->rows->target != NULL;
    if (targets) QKV_TRY(losses(s, x, count, logits, loss));
    QKV_TRY(multi ? qkv_sigmoid(x, logits, logits) : qkv_softmax(x, logits, logits));
    for (int64_t i = 0; !x->plan && i < count; i++) {
        bool known = targets && (multi || s->rows->target[rows[i]] >= 0);
        scored(user, rows[i], logits.p + i * logits.ld, classes, known ? (double)loss.p[i] : 0);
    }
    return QKV_OK;
}

qkv_status qkv_scorer_run(qkv_scorer *s, qkv_exec *x, qkv_scored *scored, void *user) {
    const qkv_batches *b = &s->batches;
    for (int64_t i = 0; i < b->count; i++) {
        QKV_TRY(one_batch(s, x, b->order + b->first[i], b->first[i + 1] - b->first[i], scored, user));
    }
    return QKV_OK;
}

static qkv_status plan_and_run(qkv_scorer *s, qkv_exec *x, qkv_scored *scored, void *user) {
    qkv_exec plan = *x;
    plan.plan = true;
    plan.weights = plan.packed = NULL;
    QKV_TRY(qkv_scorer_run(s, &plan, NULL, NULL));
    QKV_TRY(qkv_arena_create(s->ctx, plan.arena.peak, &x->arena));
    qkv_status status = qkv_scorer_run(s, x, scored, user);
    qkv_arena_free(s->ctx, &x->arena);
    return status;
}

qkv_status qkv_scorer_alone(qkv_scorer *s, const real *weights, const real *packed, qkv_scored *scored, void *user) {
    qkv_exec x = {.ctx = s->ctx, .reg = qkv_classifier_reg(s->net), .weights = weights, .packed = packed};
    return plan_and_run(s, &x, scored, user);
}

static qkv_status once(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const real *packed, const qkv_ragged *rows,
                       int what, qkv_scored *scored, void *user) {
    qkv_scorer s;
    QKV_TRY(qkv_scorer_create(ctx, net, rows, 0, &s));
    s.what = what;
    qkv_status status = qkv_scorer_alone(&s, weights, packed, scored, user);
    qkv_scorer_free(&s);
    return status;
}

qkv_status qkv_scorer_once(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const real *packed, const qkv_ragged *rows,
                           qkv_scored *scored, void *user) {
    return once(ctx, net, weights, packed, rows, QKV_SCORE_PROBABILITIES, scored, user);
}

qkv_status qkv_scorer_vectors(qkv_ctx *ctx, const qkv_classifier *net, const real *weights, const real *packed, const qkv_ragged *rows,
                              qkv_scored *scored, void *user) {
    return once(ctx, net, weights, packed, rows, QKV_SCORE_VECTORS, scored, user);
}
