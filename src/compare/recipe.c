/* Trains one network on a dataset, by the loop that `qkv train` runs. */
#include "compare/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/scorer.h"
#include "train/gather.h"
#include "train/loop.h"

typedef struct training {
    qkv_run *run;
    const qkv_dataset *dataset;
    const qkv_recipe *recipe;
    qkv_classifier *net;
    qkv_gather gather;
    real *weights;
    double *seconds; /* of each step */
    qkv_learned *learned;
    double losses;
    int64_t counted, asked;
    qkv_status watched;
} training;

qkv_config qkv_recipe_config(const qkv_dataset *l, int64_t layers, int64_t dim, int64_t heads) {
    return (qkv_config){.vocab = l->vocab,
                        .classes = l->classes,
                        .layers = layers,
                        .dim = dim,
                        .heads = heads,
                        .kv_heads = heads,
                        .head_dim = dim / heads,
                        .ffn = 4 * dim,
                        .max_length = l->max_length,
                        .position = QKV_POSITION_SINUSOIDAL,
                        .pooling = QKV_POOL_ATTENTION,
                        .norm = QKV_NORM_LAYER,
                        .activation = QKV_ACT_GELU,
                        .bias = true,
                        .span = {-1, -1},
                        .norm_epsilon = 1e-5,
                        .dropout = l->text ? 0.2 : 0,
                        .attention_dropout = l->text ? 0.1 : 0,
                        .embedding_dropout = l->text ? 0.3 : 0};
}

static qkv_status step(void *self, qkv_exec *x, const int64_t *rows, int64_t count, double loss_scale, double *loss_sum) {
    training *t = self;
    qkv_batch batch;
    qkv_gather_rows(&t->gather, &t->dataset->train, rows, count, x->plan, &batch);
    if (t->dataset->text && !x->plan) qkv_gather_drop(&t->gather, &batch, 0.2, QKV_TOKEN_UNK, x->seed, x->step);
    return qkv_classifier_step(x, t->net, &batch, x->plan ? NULL : t->gather.target, t->dataset->text ? 0.1 : 0, loss_scale,
                               loss_sum, NULL);
}

static qkv_status probe(void *self, qkv_exec *x, const int64_t *rows, int64_t count) {
    training *t = self;
    qkv_batch batch;
    qkv_mat logits;
    const size_t mark = qkv_exec_mark(x);
    qkv_gather_rows(&t->gather, &t->dataset->train, rows, count, x->plan, &batch);
    QKV_TRY(qkv_temp(x, count, t->dataset->classes, &logits));
    QKV_TRY(qkv_classifier_forward(x, t->net, &batch, logits));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static void on_step(training *t, const qkv_train_step *s) {
    t->seconds[s->step - 1] = s->seconds;
    t->learned->tokens += (double)s->tokens;
    if (10 * s->step > 9 * s->steps) t->losses += s->loss, t->counted++;
    if (t->recipe->watch && t->watched == QKV_OK)
        t->watched = t->recipe->watch(t->recipe->watch_user, t->net, t->weights, s->step, s->gradient_norm);
    qkv_run_tell(t->run, (double)s->step / (double)s->steps);
}

static void on_event(void *user, const qkv_train_event *e) {
    training *t = user;
    if (e->kind == QKV_TRAIN_STEP) on_step(t, &e->u.step);
    if (e->kind == QKV_TRAIN_MONITOR && t->recipe->seen) t->recipe->seen(t->recipe->watch_user, &e->u.monitor);
    if (e->kind != QKV_TRAIN_PLAN) return;
    t->learned->parameters = (double)e->u.plan.parameters;
    t->learned->bytes = (double)e->u.plan.bytes;
    t->learned->step_flops = e->u.plan.flops_per_step;
}

static qkv_loop_options loop_options(const training *t) {
    const bool text = t->dataset->text;
    return (qkv_loop_options){.steps = t->recipe->steps,
                              .batch_tokens = t->recipe->batch_tokens,
                              .batch_rows = t->recipe->batch_rows,
                              .accumulate = 1,
                              .schedule = QKV_SCHEDULE_LINEAR,
                              .warmup = t->recipe->warmup < 0 ? 0 : t->recipe->warmup > 0 ? t->recipe->warmup : 0.1,
                              .lr = t->recipe->lr,
                              .embedding_lr = (text ? 6 : 3) * t->recipe->lr,
                              .lazy_embedding = text,
                              .weight_decay = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.98,
                              .epsilon = 1e-8,
                              .clip = t->recipe->clip,
                              .monitor = t->recipe->monitor,
                              .ema_decay = 0.999,
                              .average_last = 3,
                              .seed = t->recipe->seed};
}

static void answered(training *t, int64_t row, int64_t answer) {
    t->learned->given[row] = (int32_t)answer;
    if (t->dataset->test.target[row] != answer) return;
    t->learned->right++;
    t->learned->answers[row / 4] |= (char)(1 << row % 4);
}

static void on_answer(void *user, int64_t row, const real *probabilities, int64_t classes, double loss) {
    (void)loss;
    answered(user, row, qkv_argmax(probabilities, classes));
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A step that takes many times the median counts as so many: the machine was at something else. */
static void settle(training *t, int64_t steps) {
    enum { MOST = 5 };
    qkv_learned *l = t->learned;
    if (steps > 0) {
        qsort(t->seconds, (size_t)steps, sizeof *t->seconds, ascending);
        l->step_seconds = t->seconds[steps / 2];
        for (int64_t i = 0; i < steps; i++) l->seconds += fmin(t->seconds[i], MOST * l->step_seconds);
    }
    l->loss = t->counted > 0 ? t->losses / (double)t->counted : NAN;
    l->tokens_per_second = l->seconds > 0 ? l->tokens / l->seconds : NAN;
}

void qkv_answers_print(char *answers, int64_t digits) {
    for (int64_t i = 0; i < digits; i++) answers[i] = "0123456789abcdef"[(int)answers[i]];
}

static qkv_status learn(training *t) {
    qkv_ctx *ctx = t->run->ctx;
    const qkv_ragged *train = &t->dataset->train;
    const qkv_task task = {
        .self = t, .reg = qkv_classifier_reg(t->net), .rows = train->count, .offset = train->offset, .step = step,
        .segment_at = train->segment_at, .segment_size = train->segment_size, .probe = probe,
        .attention_layers = qkv_config_attention_layers(&t->recipe->config), .attention_heads = t->recipe->config.heads};
    const qkv_loop_options o = loop_options(t);
    const qkv_train_callbacks callbacks = {on_event, t};
    qkv_loop_result result;
    int64_t common;
    QKV_TRY(qkv_dataset_common(ctx, t->dataset, &common));
    QKV_TRY(qkv_gather_create(ctx, train, o.batch_tokens, o.batch_rows > 0 ? o.batch_rows : o.batch_tokens, &t->gather));
    QKV_TRY(qkv_alloc(ctx, task.reg->size, sizeof *t->weights, &t->weights));
    QKV_TRY(qkv_alloc(ctx, o.steps, sizeof *t->seconds, &t->seconds));
    qkv_reg_init(task.reg, t->recipe->seed, t->weights);
    qkv_status status = qkv_loop_run(ctx, &task, &o, &callbacks, 0, t->weights, &result);
    if (status != QKV_OK && status != QKV_NUMERIC) return status;
    QKV_TRY(t->watched);
    settle(t, result.steps);
    t->learned->diverged = status == QKV_NUMERIC;
    if (t->recipe->ask && !t->learned->diverged) QKV_TRY(t->recipe->ask(t->recipe->watch_user, t->net, t->weights));
    const int64_t digits = (t->dataset->test.count + 3) / 4;
    QKV_TRY(qkv_alloc_zero(ctx, digits + 1, 1, &t->learned->answers));
    QKV_TRY(qkv_alloc(ctx, t->dataset->test.count, sizeof *t->learned->given, &t->learned->given));
    for (int64_t i = 0; i < t->dataset->test.count && t->learned->diverged; i++) answered(t, i, common);
    if (!t->learned->diverged) QKV_TRY(qkv_scorer_once(ctx, t->net, t->weights, NULL, &t->dataset->test, on_answer, t));
    qkv_answers_print(t->learned->answers, digits);
    return QKV_OK;
}

qkv_status qkv_recipe_train(qkv_run *run, const qkv_dataset *dataset, const qkv_recipe *recipe, qkv_learned *learned) {
    training t = {.run = run, .dataset = dataset, .recipe = recipe, .learned = learned};
    *learned = (qkv_learned){.loss = NAN, .step_seconds = NAN, .tokens_per_second = NAN};
    if (dataset->train.count == 0) return qkv_fail(run->ctx, QKV_BAD_DATA, "%s: no rows to train on", dataset->name);
    qkv_status status = qkv_classifier_create(run->ctx, &recipe->config, false, &t.net);
    if (status == QKV_OK) status = learn(&t);
    qkv_gather_free(run->ctx, &t.gather);
    qkv_free(run->ctx, t.seconds);
    qkv_free(run->ctx, t.weights);
    qkv_classifier_free(t.net);
    if (status != QKV_OK) qkv_learned_free(run->ctx, learned);
    return status;
}

void qkv_learned_free(qkv_ctx *ctx, qkv_learned *l) {
    qkv_free(ctx, l->answers);
    qkv_free(ctx, l->given);
    l->answers = NULL;
    l->given = NULL;
}

static void put(json_t *values, const char *name, double x) {
    if (isfinite(x)) json_object_set_new(values, name, json_real(x));
}

void qkv_learned_json(const qkv_learned *l, const qkv_dataset *dataset, json_t *values) {
    if (dataset->test.count > 0) put(values, "accuracy", (double)l->right / (double)dataset->test.count);
    if (l->answers) json_object_set_new(values, "right", json_string(l->answers));
    put(values, "loss", l->loss);
    put(values, "step_seconds", l->step_seconds);
    put(values, "tokens_per_second", l->tokens_per_second);
    put(values, "parameters", l->parameters);
    put(values, "bytes", l->bytes);
    put(values, "step_flops", l->step_flops);
    put(values, "diverged", l->diverged);
}

bool qkv_learned_whole(const json_t *values, const qkv_dataset *dataset) {
    static const char *const diverged[] = {"diverged", NULL}, *const accuracy[] = {"accuracy", NULL},
                             *const positive[] = {"loss", "step_seconds", "tokens_per_second", "parameters", "bytes", "step_flops",
                                                  NULL};
    if (!qkv_values_within(values, diverged, 0, 1)) return false;
    if (json_number_value(json_object_get(values, "diverged")) > 0) return true;
    const char *right = json_string_value(json_object_get(values, "right"));
    if (!right || (int64_t)strlen(right) != (dataset->test.count + 3) / 4 || right[strspn(right, "0123456789abcdef")]) return false;
    return (dataset->test.count == 0 || qkv_values_within(values, accuracy, 0, 1)) && qkv_values_within(values, positive, 0, 1e30);
}
