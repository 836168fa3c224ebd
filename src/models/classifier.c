#include "models/classifier.h"

#include "layers/head.h"
#include "layers/pooling_layer.h"
#include "models/encoder.h"
#include "models/hierarchy.h"
#include "ops/loss.h"
#include "ops/loss_sigmoid.h"
#include "ops/reg.h"

struct qkv_classifier {
    qkv_ctx *ctx;
    qkv_config config;
    qkv_reg reg;
    qkv_encoder encoder;
    qkv_hierarchy hierarchy;
    qkv_pooling_layer pooling;
    qkv_head head;
};

/* ---- building ---- */

static qkv_status declare(qkv_classifier *c, bool recompute) {
    const qkv_config *g = &c->config;
    QKV_TRY(qkv_encoder_declare(&c->encoder, &c->reg, g, recompute));
    QKV_TRY(qkv_hierarchy_declare(&c->hierarchy, &c->reg, g, recompute));
    QKV_TRY(qkv_pooling_layer_declare(&c->pooling, &c->reg, "", g->pooling, g->dim, g->heads));
    c->pooling.both = qkv_config_directions(g) == 2;
    return qkv_head_declare(&c->head, &c->reg, g->dim, g->classes, g->dropout);
}

qkv_status qkv_classifier_create(qkv_ctx *ctx, const qkv_config *config, bool recompute, qkv_classifier **net) {
    *net = NULL;
    QKV_TRY(qkv_config_check(ctx, config));
    qkv_classifier *c;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *c, &c));
    c->ctx = ctx;
    c->config = *config;
    c->reg.ctx = ctx;
    qkv_status status = declare(c, recompute);
    if (status == QKV_OK) *net = c;
    else qkv_classifier_free(c);
    return status;
}

void qkv_classifier_free(qkv_classifier *net) {
    if (!net) return;
    qkv_encoder_free(&net->encoder);
    qkv_hierarchy_free(&net->hierarchy);
    qkv_reg_free(&net->reg);
    qkv_free(net->ctx, net);
}

const qkv_config *qkv_classifier_config(const qkv_classifier *net) { return &net->config; }
const qkv_reg *qkv_classifier_reg(const qkv_classifier *net) { return &net->reg; }
int64_t qkv_classifier_encoder_size(const qkv_classifier *net) { return net->encoder.size; }
void qkv_classifier_set_bf16(qkv_classifier *net, bool bf16) { net->config.bf16 = bf16; }

void qkv_classifier_set_positions(qkv_classifier *net, const qkv_config *config) {
    net->config.position_beyond = config->position_beyond;
    net->config.rope_stretch = config->rope_stretch;
    net->config.rope_factor = config->rope_factor;
    if (qkv_hierarchy_is(&net->hierarchy)) { /* a longer text has more segments, no longer ones */
        const qkv_config upper = qkv_config_upper(&net->config);
        qkv_encoder_set_positions(&net->hierarchy.upper, &upper);
    } else {
        qkv_encoder_set_positions(&net->encoder, &net->config);
    }
}

void qkv_classifier_set_saving(qkv_classifier *net, qkv_saving saving) {
    qkv_encoder_set_saving(&net->encoder, saving);
    if (qkv_hierarchy_is(&net->hierarchy)) qkv_encoder_set_saving(&net->hierarchy.upper, saving);
}

void qkv_classifier_scale(const qkv_classifier *net, double factor, real *weights) {
    const int64_t params[] = {net->head.linear.weight, net->head.linear.bias};
    for (int k = 0; k < 2; k++) {
        const qkv_param *p = &net->reg.params[params[k]];
        for (int64_t i = 0; i < p->rows * p->cols; i++) weights[p->offset + i] = (real)(factor * (double)weights[p->offset + i]);
    }
}

/* ---- passes ---- */

static const qkv_place POOLING = {"pooling", -1, QKV_WORK_POOLING}, HEAD = {"head", -1, QKV_WORK_HEAD}, LOSS = {"loss", -1, QKV_WORK_LOSS};

static qkv_status check(const qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, bool training) {
    return qkv_encoder_check(x, &net->reg, &net->config, batch, training);
}

/* Rows that the last pooling sees, of tokens or of segments; *rows: those of the tokens. */
static qkv_status encode(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat *rows, qkv_mat *out,
                         qkv_hierarchy_saved *saved) {
    const qkv_batch lower = qkv_batch_lower(batch);
    QKV_TRY(qkv_encoder_forward(x, &net->encoder, net->encoder.net.count, &lower, rows));
    return qkv_hierarchy_forward(x, &net->hierarchy, net->hierarchy.upper.net.count, batch, *rows, out, saved);
}

/* The pooled vector of each text. */
static qkv_status vectors_of(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat vectors) {
    const qkv_batch upper = qkv_batch_upper(batch);
    qkv_mat rows, out;
    qkv_hierarchy_saved hierarchy;
    qkv_pooling_saved pooling;
    QKV_TRY(encode(x, net, batch, &rows, &out, &hierarchy));
    qkv_exec_at(x, POOLING);
    return qkv_pooling_layer_forward(x, &net->pooling, &upper, out, vectors, &pooling);
}

static qkv_status forward(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat logits) {
    qkv_mat features;
    qkv_head_saved head;
    QKV_TRY(qkv_temp(x, batch->n_seq, net->config.dim, &features));
    QKV_TRY(vectors_of(x, net, batch, features));
    qkv_exec_at(x, HEAD);
    return qkv_head_forward(x, &net->head, batch, features, logits, &head);
}

static qkv_frame enter(qkv_exec *x, const qkv_classifier *net, bool keep) { return qkv_frame_enter(x, keep, net->config.bf16); }

qkv_status qkv_classifier_forward(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat logits) {
    QKV_TRY(check(x, net, batch, false));
    QKV_TRY(qkv_exec_shape(x, "logits", logits, batch->n_seq, net->config.classes));
    qkv_frame f = enter(x, net, false);
    return qkv_frame_leave(x, f, forward(x, net, batch, logits));
}

qkv_status qkv_classifier_vectors(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, qkv_mat vectors) {
    QKV_TRY(check(x, net, batch, false));
    QKV_TRY(qkv_exec_shape(x, "vectors", vectors, batch->n_seq, net->config.dim));
    qkv_frame f = enter(x, net, false);
    return qkv_frame_leave(x, f, vectors_of(x, net, batch, vectors));
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
    const int64_t dim = net->config.dim, classes = net->config.classes;
    const qkv_batch lower = qkv_batch_lower(batch), upper = qkv_batch_upper(batch);
    qkv_mat rows, out, features, logits, dlogits, dfeatures, drows, spare, dout;
    qkv_hierarchy_saved hierarchy;
    qkv_pooling_saved pooling;
    qkv_head_saved head;
    size_t bottom = x->arena.low;
    QKV_TRY(encode(x, net, batch, &rows, &out, &hierarchy));
    size_t above = x->arena.low;
    QKV_TRY(qkv_keep(x, batch->n_seq, net->config.dim, &features));
    qkv_exec_at(x, POOLING);
    QKV_TRY(qkv_pooling_layer_forward(x, &net->pooling, &upper, out, features, &pooling));
    QKV_TRY(qkv_temp(x, batch->n_seq, classes, &logits));
    QKV_TRY(qkv_temp(x, batch->n_seq, classes, &dlogits));
    qkv_exec_at(x, HEAD);
    QKV_TRY(qkv_head_forward(x, &net->head, batch, features, logits, &head));
    qkv_exec_at(x, LOSS);
    QKV_TRY(loss_of(x, net, aims, logits, loss_scale, loss, dlogits));

    x->pass = QKV_PASS_BACKWARD;
    QKV_TRY(qkv_temp(x, batch->n_seq, net->config.dim, &dfeatures));
    QKV_TRY(qkv_temp(x, rows.rows, dim, &drows));
    QKV_TRY(qkv_temp(x, rows.rows, dim, &spare));
    dout = drows;
    if (qkv_hierarchy_is(&net->hierarchy)) QKV_TRY(qkv_temp(x, out.rows, dim, &dout));
    qkv_exec_at(x, HEAD);
    QKV_TRY(qkv_head_backward(x, &net->head, batch, dlogits, dfeatures, &head));
    qkv_exec_at(x, POOLING);
    QKV_TRY(qkv_pooling_layer_backward(x, &net->pooling, &upper, dfeatures, dout, &pooling));
    qkv_arena_low_release(&x->arena, above);
    QKV_TRY(qkv_hierarchy_backward(x, &net->hierarchy, batch, dout, drows, &hierarchy));
    QKV_TRY(qkv_encoder_backward(x, &net->encoder, &lower, drows, spare));
    qkv_arena_low_release(&x->arena, bottom);
    return QKV_OK;
}

qkv_status qkv_classifier_learn(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, const qkv_aims *aims,
                                double loss_scale, double *loss_sum, real *loss) {
    *loss_sum = 0;
    QKV_TRY(check(x, net, batch, true));
    qkv_frame f = enter(x, net, true);
    real *losses;
    qkv_status status = qkv_temp_array(x, batch->n_seq, sizeof(real), &losses);
    if (status == QKV_OK) status = step(x, net, batch, aims, loss_scale, losses);
    if (status == QKV_OK && !x->plan)
        for (int64_t s = 0; s < batch->n_seq; s++) {
            *loss_sum += (double)losses[s];
            if (loss) loss[s] = losses[s];
        }
    return qkv_frame_leave(x, f, status);
}

qkv_status qkv_classifier_step(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, const int32_t *target, double smoothing,
                               double loss_scale, double *loss_sum, real *loss) {
    const qkv_aims aims = {.target = target, .smoothing = smoothing};
    return qkv_classifier_learn(x, net, batch, &aims, loss_scale, loss_sum, loss);
}

static qkv_status lower_weights(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, int64_t layer, int64_t head, real *weights) {
    const qkv_batch lower = qkv_batch_lower(batch);
    qkv_mat out;
    QKV_TRY(qkv_encoder_forward(x, &net->encoder, layer, &lower, &out));
    return qkv_block_weights(x, &net->encoder.blocks[layer], &lower, out, head, weights);
}

/* What a segment gives to another is shared by the tokens of that one. */
static void spread(const qkv_batch *lower, const real *of, real *weights) {
    const int64_t segments = lower->n_seq, rows = lower->offset[segments];
    for (int64_t i = 0; i < segments; i++)
        for (int64_t j = 0; j < segments; j++) {
            const real each = of[i * segments + j] / (real)(lower->offset[j + 1] - lower->offset[j]);
            for (int64_t r = lower->offset[i]; r < lower->offset[i + 1]; r++)
                for (int64_t c = lower->offset[j]; c < lower->offset[j + 1]; c++) weights[r * rows + c] = each;
        }
}

static qkv_status upper_weights(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, int64_t layer, int64_t head, real *weights) {
    const qkv_batch lower = qkv_batch_lower(batch), upper = qkv_batch_upper(batch);
    qkv_mat rows, out;
    qkv_hierarchy_saved saved;
    real *of;
    QKV_TRY(qkv_temp_array(x, lower.n_seq * lower.n_seq, sizeof *of, &of));
    QKV_TRY(qkv_encoder_forward(x, &net->encoder, net->encoder.net.count, &lower, &rows));
    QKV_TRY(qkv_hierarchy_forward(x, &net->hierarchy, layer, batch, rows, &out, &saved));
    QKV_TRY(qkv_block_weights(x, &net->hierarchy.upper.blocks[layer], &upper, out, head, of));
    if (!x->plan && lower.n_seq > 0) spread(&lower, of, weights);
    return QKV_OK;
}

qkv_status qkv_classifier_weights(qkv_exec *x, const qkv_classifier *net, const qkv_batch *batch, int64_t layer, int64_t head,
                                  real *weights) {
    QKV_TRY(check(x, net, batch, false));
    if (qkv_config_recurrent(&net->config))
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "this model has no attention weights to show: its encoder is of kind %s",
                        qkv_network_name(net->config.model));
    if (batch->n_seq != 1) return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "attention weights are shown for one text, not %lld", (long long)batch->n_seq);
    const int64_t lower = net->config.layers, layers = lower + qkv_config_segment_layers(&net->config);
    if (layer < 0 || layer >= layers)
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "layer %lld: this model has layers 0 to %lld", (long long)layer, (long long)layers - 1);
    if (head < 0 || head >= net->config.heads)
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "head %lld: this model has heads 0 to %lld", (long long)head, (long long)net->config.heads - 1);
    qkv_frame f = enter(x, net, false);
    if (layer >= lower) return qkv_frame_leave(x, f, upper_weights(x, net, batch, layer - lower, head, weights));
    return qkv_frame_leave(x, f, lower_weights(x, net, batch, layer, head, weights));
}
