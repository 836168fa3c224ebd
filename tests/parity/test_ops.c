/* Norms, activations and the loss, forward and backward, against PyTorch. */
#include "ops/activation.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/reg.h"

#include "parity.h"

enum { ARENA = 4 << 20 };

static void norm_case(parity *p) {
    int64_t rows = parity_int(p, "rows"), cols = parity_int(p, "cols"), count = rows * cols;
    bool bias = parity_bool(p, "bias");
    qkv_reg reg = {.ctx = &p->ctx};
    qkv_norm_op n = {.bias = -1, .rms = parity_bool(p, "rms"), .epsilon = parity_real(p, "epsilon")};
    PARITY_OK(qkv_reg_add(&reg, "", "gain", 1, cols, (qkv_param_kind){.vector = true}, &n.gain));
    if (bias) PARITY_OK(qkv_reg_add(&reg, "", "bias", 1, cols, (qkv_param_kind){.vector = true}, &n.bias));
    real *in = parity_reals(p, "in.x"), *d_out = parity_reals(p, "in.dout"), *gain = parity_reals(p, "in.gain");
    real *weights = parity_room(reg.size), *grads = parity_room(reg.size), *out = parity_room(count), *din = parity_room(count);
    memcpy(weights + reg.params[n.gain].offset, gain, (size_t)cols * sizeof *gain);
    if (bias) {
        real *values = parity_reals(p, "in.bias");
        memcpy(weights + reg.params[n.bias].offset, values, (size_t)cols * sizeof *values);
        free(values);
    }
    qkv_exec x = parity_exec(p, &reg, ARENA);
    x.weights = weights;
    x.grads = grads;
    qkv_norm_saved saved;
    PARITY_OK(qkv_norm_forward(&x, &n, (qkv_mat){in, rows, cols, cols}, (qkv_mat){out, rows, cols, cols}, &saved));
    /* LayerNorm of rows far from zero (the last case): the subtraction of the mean is what rounds. */
    parity_equal(p, "out", out, 2e-6);
    x.pass = QKV_PASS_BACKWARD;
    PARITY_OK(qkv_norm_backward(&x, &n, (qkv_mat){d_out, rows, cols, cols}, (qkv_mat){din, rows, cols, cols}, &saved));
    parity_equal(p, "dx", din, 5e-6);
    parity_equal(p, "dgain", qkv_grad(&x, n.gain), 2e-6);
    if (bias) parity_equal(p, "dbias", qkv_grad(&x, n.bias), 1e-6);
    parity_done(&x);
    real *all[] = {in, d_out, gain, weights, grads, out, din};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    qkv_reg_free(&reg);
}

static void activation_case(parity *p) {
    static const struct {
        const char *name;
        qkv_act act;
        bool gated;
    } kinds[] = {{"gelu", QKV_KERNEL_GELU, false}, {"gelu_tanh", QKV_KERNEL_GELU_TANH, false}, {"relu", QKV_KERNEL_RELU, false},
                 {"silu", QKV_KERNEL_SILU, false}, {"geglu", QKV_KERNEL_GELU, true},           {"swiglu", QKV_KERNEL_SILU, true}};
    size_t kind = 0;
    while (strcmp(kinds[kind].name, parity_text(p, "act")) != 0) kind++;
    bool gated = kinds[kind].gated;
    int64_t rows = parity_int(p, "rows"), cols = parity_int(p, "cols"), wide = gated ? 2 * cols : cols;
    real *in = parity_reals(p, "in.x"), *d_out = parity_reals(p, "in.dout"), *out = parity_room(rows * cols),
         *din = parity_room(rows * wide);
    qkv_exec x = parity_exec(p, NULL, ARENA);
    qkv_mat m_in = {in, rows, wide, wide}, m_out = {out, rows, cols, cols}, m_dout = {d_out, rows, cols, cols},
            m_din = {din, rows, wide, wide};
    PARITY_OK(qkv_activation_forward(&x, kinds[kind].act, gated, m_in, m_out));
    parity_equal(p, "out", out, 1e-6);
    x.pass = QKV_PASS_BACKWARD;
    PARITY_OK(qkv_activation_backward(&x, kinds[kind].act, gated, m_in, m_dout, m_din));
    parity_equal(p, "dx", din, 1e-6);
    parity_done(&x);
    free(in);
    free(d_out);
    free(out);
    free(din);
}

static void loss_case(parity *p) {
    int64_t rows = parity_int(p, "rows"), classes = parity_int(p, "classes");
    real *logits = parity_reals(p, "in.logits"), *loss = parity_room(rows), *gradient = parity_room(rows * classes);
    int32_t *target = parity_ints(p, "in.target");
    qkv_exec x = parity_exec(p, NULL, ARENA);
    PARITY_OK(qkv_cross_entropy(&x, (qkv_mat){logits, rows, classes, classes}, target, parity_real(p, "smoothing"),
                                parity_real(p, "scale"), loss, (qkv_mat){gradient, rows, classes, classes}));
    parity_equal(p, "loss", loss, 1e-6);
    parity_equal(p, "dlogits", gradient, 2e-6);
    parity_done(&x);
    free(logits);
    free(loss);
    free(gradient);
    free(target);
}

static void norm(void **state) {
    (void)state;
    parity_each("norm", norm_case);
}

static void activation(void **state) {
    (void)state;
    parity_each("activation", activation_case);
}

static void loss(void **state) {
    (void)state;
    parity_each("loss", loss_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norm), cmocka_unit_test(activation), cmocka_unit_test(loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
