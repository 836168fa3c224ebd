/* The whole classifier against PyTorch: logits, loss and all gradients of the first step, then ten steps of AdamW with
 * clipping on ten batches: the loss curve, the gradient norms and every parameter at the end. */
#include "models/classifier.h"
#include "ops/optimizer.h"
#include "train/clip.h"

#include "network.h"

static qkv_config read_config(const parity *p) {
    return (qkv_config){.vocab = parity_int(p, "vocab"),
                        .classes = parity_int(p, "classes"),
                        .layers = parity_int(p, "layers"),
                        .dim = parity_int(p, "dim"),
                        .heads = parity_int(p, "heads"),
                        .kv_heads = parity_int(p, "kv_heads"),
                        .head_dim = parity_int(p, "head_dim"),
                        .ffn = parity_int(p, "ffn"),
                        .max_length = parity_int(p, "max_length"),
                        .position = parity_choice(p, "position", (const char *[]){"none", "sinusoidal", "learned"}, 3),
                        .pooling = parity_choice(p, "pooling", (const char *[]){"mean", "first", "max", "attention"}, 4),
                        .norm = parity_norm(p),
                        .activation = parity_activation(p),
                        .norm_place = parity_norm_place(p),
                        .bias = parity_bool(p, "bias"),
                        .span = {parity_int(p, "left"), parity_int(p, "right")},
                        .norm_epsilon = parity_real(p, "norm_epsilon")};
}

/* The planned pass says how much arena the real one needs. */
static size_t planned(parity *p, const qkv_classifier *net, const qkv_batch *batch) {
    qkv_batch plan = {.n_seq = batch->n_seq, .offset = batch->offset};
    qkv_exec x = {.ctx = &p->ctx, .plan = true, .keep = true, .pass = QKV_PASS_FORWARD, .reg = qkv_classifier_reg(net)};
    double loss;
    PARITY_OK(qkv_classifier_step(&x, net, &plan, NULL, 0.1, 1, &loss, NULL));
    return x.arena.peak;
}

static void check_logits(parity *p, const qkv_exec *trained, const qkv_classifier *net, const qkv_batch *batch) {
    int64_t classes = qkv_classifier_config(net)->classes;
    real *logits = parity_room(batch->n_seq * classes);
    qkv_exec x = *trained;
    x.keep = false;
    PARITY_OK(qkv_classifier_forward(&x, net, batch, (qkv_mat){logits, batch->n_seq, classes, classes}));
    parity_equal(p, "logits", logits, 2e-6);
    free(logits);
}

static qkv_adamw_options read_optimizer(const json_t *o, int64_t step) {
    double factor = json_number_value(json_array_get(json_object_get(o, "factors"), (size_t)step));
    return (qkv_adamw_options){.lr = factor * json_number_value(json_object_get(o, "lr")),
                               .embedding_lr = factor * json_number_value(json_object_get(o, "embedding_lr")),
                               .beta1 = json_number_value(json_object_get(o, "beta1")),
                               .beta2 = json_number_value(json_object_get(o, "beta2")),
                               .epsilon = json_number_value(json_object_get(o, "epsilon")),
                               .decay = json_number_value(json_object_get(o, "decay")),
                               .step = step + 1};
}

typedef struct training {
    qkv_classifier *net;
    qkv_batch batch;
    real *weights, *grads, *m, *v, *losses, *norms;
} training;

static void one_step(parity *p, qkv_exec *x, training *t, int step) {
    const qkv_reg *reg = qkv_classifier_reg(t->net);
    const json_t *o = parity_field(p, "optimizer");
    char name[48];
    snprintf(name, sizeof name, "in.ids.%d", step);
    int32_t *ids = parity_ints(p, name);
    snprintf(name, sizeof name, "in.target.%d", step);
    int32_t *target = parity_ints(p, name);
    t->batch.ids = ids;
    if (step == 0) check_logits(p, x, t->net, &t->batch);
    memset(t->grads, 0, (size_t)reg->size * sizeof *t->grads);
    double scale = 1 / (double)t->batch.n_seq, loss = 0, norm;
    PARITY_OK(qkv_classifier_step(x, t->net, &t->batch, target, parity_real(p, "smoothing"), scale, &loss, NULL));
    if (step == 0) parity_blocks(p, "grad.", reg, t->grads, 5e-6);
    PARITY_OK(qkv_gradient_norm(x, t->grads, &norm));
    t->losses[step] = (real)(loss * scale);
    t->norms[step] = (real)norm;
    qkv_adamw_options options = read_optimizer(o, step);
    options.grad_scale = qkv_clip_factor(norm, json_number_value(json_object_get(o, "clip")));
    PARITY_OK(qkv_adamw_update(x, &options, t->weights, t->grads, t->m, t->v));
    free(ids);
    free(target);
}

static void one_case(parity *p) {
    int64_t *offset, sequences = parity_offsets(p, "lengths", &offset);
    int steps = (int)parity_int(p, "steps");
    qkv_config config = read_config(p);
    training t = {.batch = {.n_seq = sequences, .offset = offset}};
    PARITY_OK(qkv_classifier_create(&p->ctx, &config, false, &t.net));
    const qkv_reg *reg = qkv_classifier_reg(t.net);
    t.weights = parity_weights(p, reg);
    t.grads = parity_room(reg->size);
    t.m = parity_room(reg->size);
    t.v = parity_room(reg->size);
    t.losses = parity_room(steps);
    t.norms = parity_room(steps);
    qkv_exec x = parity_exec(p, reg, planned(p, t.net, &t.batch));
    x.weights = t.weights;
    x.grads = t.grads;
    for (int step = 0; step < steps; step++) one_step(p, &x, &t, step);
    parity_equal(p, "losses", t.losses, 1e-6);
    parity_equal(p, "norms", t.norms, 2e-6);
    parity_blocks(p, "final.", reg, t.weights, 5e-6);
    parity_done(&x);
    real *all[] = {t.weights, t.grads, t.m, t.v, t.losses, t.norms};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(offset);
    qkv_classifier_free(t.net);
}

static void classifier(void **state) {
    (void)state;
    parity_each("classifier", one_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(classifier)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
