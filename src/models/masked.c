#include "models/masked.h"

#include <math.h>

#include "models/encoder.h"
#include "ops/reg.h"

struct qkv_masked {
    qkv_ctx *ctx;
    qkv_config config;
    qkv_reg reg;
    qkv_encoder encoder;
    qkv_masked_head head;
};

static qkv_status declare(qkv_masked *m, bool recompute) {
    const qkv_block_shape shape = qkv_encoder_shape(&m->config);
    m->encoder.head_is_large = true;
    QKV_TRY(qkv_encoder_declare(&m->encoder, &m->reg, &m->config, recompute));
    return qkv_masked_head_declare(&m->head, &m->reg, m->encoder.embedding.weight, &shape);
}

qkv_status qkv_masked_create(qkv_ctx *ctx, const qkv_config *config, bool recompute, qkv_masked **net) {
    *net = NULL;
    QKV_TRY(qkv_config_check(ctx, config));
    qkv_masked *m;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *m, &m));
    m->ctx = m->reg.ctx = ctx;
    m->config = *config;
    qkv_status status = declare(m, recompute);
    if (status == QKV_OK) *net = m;
    else qkv_masked_free(m);
    return status;
}

void qkv_masked_free(qkv_masked *net) {
    if (!net) return;
    qkv_encoder_free(&net->encoder);
    qkv_reg_free(&net->reg);
    qkv_free(net->ctx, net);
}

const qkv_config *qkv_masked_config(const qkv_masked *net) { return &net->config; }
const qkv_reg *qkv_masked_reg(const qkv_masked *net) { return &net->reg; }
void qkv_masked_set_saving(qkv_masked *net, qkv_saving saving) { qkv_encoder_set_saving(&net->encoder, saving); }
int64_t qkv_masked_encoder_size(const qkv_masked *net) { return net->encoder.size; }

void qkv_masked_set_prior(const qkv_masked *net, const int64_t *count, real *weights) {
    real *bias = weights + net->reg.params[net->head.logits.bias].offset;
    const int64_t vocab = net->config.vocab;
    double all = (double)vocab;
    for (int64_t i = 0; i < vocab; i++) all += (double)count[i];
    for (int64_t i = 0; i < vocab; i++) bias[i] = (real)log(((double)count[i] + 1) / all);
}

/* ---- passes ---- */

static const qkv_place HEAD = {"head", -1, QKV_WORK_HEAD};

/* Where texts are read by segments, the encoder of those is what learns. */
static qkv_status forward(qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, real *loss) {
    const qkv_batch lower = qkv_batch_lower(batch);
    qkv_mat out;
    QKV_TRY(qkv_encoder_forward(x, &net->encoder, net->encoder.net.count, &lower, &out));
    qkv_exec_at(x, HEAD);
    return qkv_masked_head_loss(x, &net->head, masks, out, loss);
}

static qkv_status step(qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, double scale, real *loss) {
    const size_t bottom = x->arena.low;
    const qkv_batch lower = qkv_batch_lower(batch);
    qkv_mat out, dout, spare;
    QKV_TRY(qkv_encoder_forward(x, &net->encoder, net->encoder.net.count, &lower, &out));
    QKV_TRY(qkv_temp(x, out.rows, out.cols, &dout));
    qkv_exec_at(x, HEAD);
    QKV_TRY(qkv_masked_head_learn(x, &net->head, masks, out, scale, loss, dout));
    x->pass = QKV_PASS_BACKWARD;
    QKV_TRY(qkv_temp(x, out.rows, out.cols, &spare));
    QKV_TRY(qkv_encoder_backward(x, &net->encoder, &lower, dout, spare));
    qkv_arena_low_release(&x->arena, bottom);
    return QKV_OK;
}

static qkv_status check(const qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, bool training) {
    QKV_TRY(qkv_encoder_check(x, &net->reg, &net->config, batch, training));
    if (masks->count >= 0 && (x->plan || masks->count == 0 || (masks->row && masks->target))) return QKV_OK;
    return qkv_fail(x->ctx, QKV_INTERNAL, "%lld masked tokens without their places", (long long)masks->count);
}

static qkv_status pass(qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, bool learn, double scale,
                       double *loss_sum, real *loss) {
    *loss_sum = 0;
    QKV_TRY(check(x, net, batch, masks, learn));
    qkv_frame f = qkv_frame_enter(x, learn, net->config.bf16);
    real *losses;
    qkv_status status = qkv_temp_array(x, masks->count, sizeof(real), &losses);
    if (status == QKV_OK) status = learn ? step(x, net, batch, masks, scale, losses) : forward(x, net, batch, masks, losses);
    for (int64_t i = 0; status == QKV_OK && !x->plan && i < masks->count; i++) {
        *loss_sum += (double)losses[i];
        if (loss) loss[i] = losses[i];
    }
    return qkv_frame_leave(x, f, status);
}

qkv_status qkv_masked_loss(qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, double *loss_sum,
                           real *loss) {
    return pass(x, net, batch, masks, false, 1, loss_sum, loss);
}

qkv_status qkv_masked_learn(qkv_exec *x, const qkv_masked *net, const qkv_batch *batch, const qkv_masks *masks, double loss_scale,
                            double *loss_sum, real *loss) {
    return pass(x, net, batch, masks, true, loss_scale, loss_sum, loss);
}
