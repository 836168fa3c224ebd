#include "models/classifier.h"

#include <stdio.h>

#include "layers/block.h"
#include "layers/embedding_layer.h"
#include "layers/head.h"
#include "layers/ngram_layer.h"
#include "layers/pooling_layer.h"
#include "models/net.h"
#include "ops/loss.h"
#include "ops/loss_sigmoid.h"
#include "ops/reg.h"

struct qkv_classifier {
    qkv_ctx *ctx;
    qkv_config config;
    qkv_reg reg;
    qkv_embedding_layer embedding;
    qkv_block *blocks;   /* [layers] */
    qkv_norm_op norm;    /* after the blocks; pre-norm only */
    qkv_pooling_layer pooling;
    qkv_ngram_layer ngram; /* config.ngrams > 0 */
    qkv_head head;         /* of the pooled vector and, behind it, the bag of n-grams */
    qkv_net net;         /* blocks, and the final norm */
};

/* ---- segments ---- */

static qkv_status block_forward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat in, qkv_mat out, void *saved) {
    return qkv_block_forward(x, layer, batch, in, out, saved);
}

static qkv_status block_backward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved) {
    return qkv_block_backward(x, layer, batch, dout, din, saved);
}

static qkv_status norm_forward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat in, qkv_mat out, void *saved) {
    size_t mark = qkv_exec_mark(x);
    (void)batch;
    QKV_TRY(qkv_norm_forward(x, layer, in, out, saved));
    qkv_exec_release(x, mark);
    return QKV_OK;
}

static qkv_status norm_backward(qkv_exec *x, const void *layer, const qkv_batch *batch, qkv_mat dout, qkv_mat din, const void *saved) {
    (void)batch;
    return qkv_norm_backward(x, layer, dout, din, saved);
}

static const qkv_segment_kind BLOCK = {"block", sizeof(qkv_block_saved), block_forward, block_backward};
static const qkv_segment_kind NORM = {"norm", sizeof(qkv_norm_saved), norm_forward, norm_backward};

/* ---- building ---- */

/* Width of what the head sees. */
static int64_t features_of(const qkv_config *g) { return g->dim + (g->ngrams > 0 ? g->ngram_dim : 0); }

static qkv_status declare(qkv_classifier *c, bool recompute) {
    const qkv_config *g = &c->config;
    qkv_block_shape shape = {.dim = g->dim, .heads = g->heads, .kv_heads = g->kv_heads, .head_dim = g->head_dim, .ffn = g->ffn,
                             .norm = g->norm, .activation = g->activation, .post_norm = g->post_norm, .bias = g->bias, .span = g->span,
                             .norm_epsilon = g->norm_epsilon, .dropout = g->dropout, .attention_dropout = g->attention_dropout,
                             .layers = g->layers > 0 ? g->layers : 1};
    QKV_TRY(qkv_embedding_layer_declare(&c->embedding, &c->reg, g->vocab, g->dim, g->max_length, g->position, g->embedding_dropout));
    QKV_TRY(qkv_alloc_zero(c->ctx, g->layers, sizeof *c->blocks, &c->blocks));
    for (int64_t i = 0; i < g->layers; i++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "encoder.%lld.", (long long)i);
        QKV_TRY(qkv_block_declare(&c->blocks[i], &c->reg, prefix, &shape, i));
        QKV_TRY(qkv_net_add(&c->net, &BLOCK, &c->blocks[i], recompute ? QKV_RECOMPUTE : QKV_KEEP));
    }
    if (!g->post_norm) {
        QKV_TRY(qkv_norm_declare(&c->norm, &c->reg, "", "norm", &shape));
        QKV_TRY(qkv_net_add(&c->net, &NORM, &c->norm, QKV_KEEP));
    }
    QKV_TRY(qkv_pooling_layer_declare(&c->pooling, &c->reg, g->pooling, g->dim, g->heads));
    if (g->ngrams > 0) QKV_TRY(qkv_ngram_layer_declare(&c->ngram, &c->reg, g->ngrams, g->vocab, g->ngram_buckets, g->ngram_dim));
    return qkv_head_declare(&c->head, &c->reg, features_of(g), g->classes, g->dropout);
}

qkv_status qkv_classifier_create(qkv_ctx *ctx, const qkv_config *config, bool recompute, qkv_classifier **net) {
    *net = NULL;
    QKV_TRY(qkv_config_check(ctx, config));
    qkv_classifier *c;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *c, &c));
    c->ctx = ctx;
    c->config = *config;
    c->reg.ctx = ctx;
    c->net.ctx = ctx;
    qkv_status status = declare(c, recompute);
    if (status == QKV_OK) *net = c;
    else qkv_classifier_free(c);
    return status;
}

void qkv_classifier_free(qkv_classifier *net) {
    if (!net) return;
    qkv_net_free(&net->net);
    qkv_free(net->ctx, net->blocks);
    qkv_reg_free(&net->reg);
    qkv_free(net->ctx, net);
}

const qkv_config *qkv_classifier_config(const qkv_classifier *net) { return &net->config; }
const qkv_reg *qkv_classifier_reg(const qkv_classifier *net) { return &net->reg; }
void qkv_classifier_set_bf16(qkv_classifier *net, bool bf16) { net->config.bf16 = bf16; }

/* ---- passes ---- */

static int64_t rows_of(const qkv_batch *batch) { return batch->n_seq > 0 ? batch->offset[batch->n_seq] : 0; }

static qkv_status check(const qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, bool training) {
    if (x->reg != &net->reg) return qkv_fail(x->ctx, QKV_INTERNAL, "a pass over another network's parameters");
    if (!x->plan && (!x->weights || (training && !x->grads))) return qkv_fail(x->ctx, QKV_INTERNAL, "a pass without weights or gradients");
    if (batch->n_seq < 0 || (batch->n_seq > 0 && (!batch->offset || batch->offset[0] != 0)))
        return qkv_fail(x->ctx, QKV_INTERNAL, "a batch of %lld sequences whose offsets do not start at 0", (long long)batch->n_seq);
    for (int64_t s = 0; s < batch->n_seq; s++) {
        int64_t n = batch->offset[s + 1] - batch->offset[s];
        if (n < 0 || n > net->config.max_length)
            return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "sequence %lld has %lld tokens; this network takes 0 to %lld", (long long)s, (long long)n,
                            (long long)net->config.max_length);
    }
    return QKV_OK;
}

/* rows [N,dim] and the tokens themselves -> features [n_seq, dim + ngram_dim] */
static qkv_status pool(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat rows, qkv_mat features,
                       qkv_pooling_saved *saved) {
    int64_t dim = net->config.dim;
    QKV_TRY(qkv_pooling_layer_forward(x, &net->pooling, batch, rows, qkv_mat_cols(features, 0, dim), saved));
    if (net->config.ngrams == 0) return QKV_OK;
    return qkv_ngram_layer_forward(x, &net->ngram, batch, qkv_mat_cols(features, dim, net->config.ngram_dim));
}

static qkv_status pool_backward(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat dfeatures, qkv_mat drows,
                                const qkv_pooling_saved *saved) {
    int64_t dim = net->config.dim;
    QKV_TRY(qkv_pooling_layer_backward(x, &net->pooling, batch, qkv_mat_cols(dfeatures, 0, dim), drows, saved));
    if (net->config.ngrams == 0) return QKV_OK;
    return qkv_ngram_layer_backward(x, &net->ngram, batch, qkv_mat_cols(dfeatures, dim, net->config.ngram_dim));
}

static qkv_status forward(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat logits) {
    qkv_mat in, out, features;
    qkv_pooling_saved pooling;
    qkv_head_saved head;
    QKV_TRY(qkv_temp(x, rows_of(batch), net->config.dim, &in));
    QKV_TRY(qkv_embedding_layer_forward(x, &net->embedding, batch, in));
    QKV_TRY(qkv_net_forward(x, &net->net, net->net.count, batch, in, &out));
    QKV_TRY(qkv_temp(x, batch->n_seq, features_of(&net->config), &features));
    QKV_TRY(pool(x, net, batch, out, features, &pooling));
    return qkv_head_forward(x, &net->head, batch, features, logits, &head);
}

/* What every pass does around its work: the arena is as it was afterwards, also after a failure. */
typedef struct frame {
    size_t low, high;
    bool keep, bf16;
    qkv_pass pass;
} frame;

static frame enter(qkv_exec *x, const qkv_classifier *net, bool keep) {
    frame f = {x->arena.low, x->arena.high, x->keep, x->bf16, x->pass};
    x->keep = keep;
    x->bf16 = net->config.bf16;
    x->pass = QKV_PASS_FORWARD;
    return f;
}

static qkv_status leave(qkv_exec *x, frame f, qkv_status status) {
    if (status == QKV_OK && x->arena.low != f.low)
        status = qkv_fail(x->ctx, QKV_INTERNAL, "%zu kept bytes were not popped", x->arena.low - f.low);
    qkv_arena_low_release(&x->arena, f.low);
    qkv_arena_high_release(&x->arena, f.high);
    x->keep = f.keep;
    x->bf16 = f.bf16;
    x->pass = f.pass;
    return status;
}

qkv_status qkv_classifier_forward(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat logits) {
    QKV_TRY(check(x, net, batch, false));
    QKV_TRY(qkv_exec_shape(x, "logits", logits, batch->n_seq, net->config.classes));
    frame f = enter(x, net, false);
    return leave(x, f, forward(x, net, batch, logits));
}

static qkv_status loss_of(qkv_exec *x, const qkv_classifier *net, const qkv_aims *a, qkv_mat logits, double scale, real *loss,
                          qkv_mat dlogits) {
    if (net->config.multi_label)
        return qkv_sigmoid_loss(x, logits, a->label_at, a->labels, a->weight, a->smoothing, scale, loss, dlogits);
    QKV_TRY(qkv_cross_entropy(x, logits, a->target, a->smoothing, scale, loss, dlogits));
    return a->weight ? qkv_loss_weigh(x, a->target, a->weight, loss, dlogits) : QKV_OK;
}

static qkv_status step(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, const qkv_aims *aims, double loss_scale,
                       real *loss) {
    int64_t rows = rows_of(batch), dim = net->config.dim, classes = net->config.classes;
    qkv_mat in, out, features, logits, dlogits, dfeatures, dout, spare, din;
    qkv_pooling_saved pooling;
    qkv_head_saved head;
    size_t bottom = x->arena.low;
    QKV_TRY(qkv_keep(x, rows, dim, &in));
    QKV_TRY(qkv_embedding_layer_forward(x, &net->embedding, batch, in));
    QKV_TRY(qkv_net_forward(x, &net->net, net->net.count, batch, in, &out));
    size_t above = x->arena.low;
    QKV_TRY(qkv_keep(x, batch->n_seq, features_of(&net->config), &features));
    QKV_TRY(pool(x, net, batch, out, features, &pooling));
    QKV_TRY(qkv_temp(x, batch->n_seq, classes, &logits));
    QKV_TRY(qkv_temp(x, batch->n_seq, classes, &dlogits));
    QKV_TRY(qkv_head_forward(x, &net->head, batch, features, logits, &head));
    QKV_TRY(loss_of(x, net, aims, logits, loss_scale, loss, dlogits));

    x->pass = QKV_PASS_BACKWARD;
    QKV_TRY(qkv_temp(x, batch->n_seq, features_of(&net->config), &dfeatures));
    QKV_TRY(qkv_temp(x, rows, dim, &dout));
    QKV_TRY(qkv_temp(x, rows, dim, &spare));
    QKV_TRY(qkv_head_backward(x, &net->head, batch, dlogits, dfeatures, &head));
    QKV_TRY(pool_backward(x, net, batch, dfeatures, dout, &pooling));
    qkv_arena_low_release(&x->arena, above);
    QKV_TRY(qkv_net_backward(x, &net->net, batch, dout, spare, &din));
    QKV_TRY(qkv_embedding_layer_backward(x, &net->embedding, batch, din));
    qkv_arena_low_release(&x->arena, bottom);
    return QKV_OK;
}

qkv_status qkv_classifier_learn(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, const qkv_aims *aims,
                                double loss_scale, double *loss_sum, real *loss) {
    *loss_sum = 0;
    QKV_TRY(check(x, net, batch, true));
    frame f = enter(x, net, true);
    real *losses;
    qkv_status status = qkv_temp_array(x, batch->n_seq, sizeof(real), &losses);
    if (status == QKV_OK) status = step(x, net, batch, aims, loss_scale, losses);
    if (status == QKV_OK && !x->plan)
        for (int64_t s = 0; s < batch->n_seq; s++) {
            *loss_sum += (double)losses[s];
            if (loss) loss[s] = losses[s];
        }
    return leave(x, f, status);
}

qkv_status qkv_classifier_step(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, const int32_t *target, double smoothing,
                               double loss_scale, double *loss_sum, real *loss) {
    const qkv_aims aims = {.target = target, .smoothing = smoothing};
    return qkv_classifier_learn(x, net, batch, &aims, loss_scale, loss_sum, loss);
}

static qkv_status weights_of(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, int64_t layer, int64_t head, real *weights) {
    qkv_mat in, out;
    QKV_TRY(qkv_temp(x, rows_of(batch), net->config.dim, &in));
    QKV_TRY(qkv_embedding_layer_forward(x, &net->embedding, batch, in));
    QKV_TRY(qkv_net_forward(x, &net->net, layer, batch, in, &out));
    return qkv_block_weights(x, &net->blocks[layer], batch, out, head, weights);
}

qkv_status qkv_classifier_weights(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, int64_t layer, int64_t head,
                                  real *weights) {
    QKV_TRY(check(x, net, batch, false));
    if (batch->n_seq != 1) return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "attention weights are shown for one text, not %lld", (long long)batch->n_seq);
    if (layer < 0 || layer >= net->config.layers)
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "layer %lld: this model has layers 0 to %lld", (long long)layer, (long long)net->config.layers - 1);
    if (head < 0 || head >= net->config.heads)
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "head %lld: this model has heads 0 to %lld", (long long)head, (long long)net->config.heads - 1);
    frame f = enter(x, net, false);
    return leave(x, f, weights_of(x, net, batch, layer, head, weights));
}
