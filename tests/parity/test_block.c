/* One encoder block, with its norms in all places, DeepNorm, QK-norm, soft-cap: rows out, gradient of the rows and of every parameter, against PyTorch. */
#include "layers/block.h"
#include "ops/reg.h"

#include "network.h"

enum { ARENA = 8 << 20 };

static void one_case(parity *p) {
    int64_t *offset, sequences = parity_offsets(p, "lengths", &offset), rows = offset[sequences];
    qkv_block_shape shape = {.dim = parity_int(p, "dim"),
                             .heads = parity_int(p, "heads"),
                             .kv_heads = parity_int(p, "kv_heads"),
                             .head_dim = parity_int(p, "head_dim"),
                             .ffn = parity_int(p, "ffn"),
                             .norm = parity_norm(p),
                             .activation = parity_activation(p),
                             .norm_place = parity_norm_place(p),
                             .residual = parity_choice(p, "residual", (const char *[]){"plain", "deepnorm", "none"}, 3),
                             .qk_norm = parity_bool(p, "qk_norm"),
                             .unscaled = parity_bool(p, "unscaled"),
                             .softcap = parity_real(p, "softcap"),
                             .bias = parity_bool(p, "bias"),
                             .span = {parity_int(p, "left"), parity_int(p, "right")},
                             .norm_epsilon = parity_real(p, "norm_epsilon"),
                             .layers = parity_int(p, "depth")};
    qkv_reg reg = {.ctx = &p->ctx};
    qkv_block block;
    PARITY_OK(qkv_block_declare(&block, &reg, "encoder.0.", &shape, 0));
    real *weights = parity_weights(p, &reg), *grads = parity_room(reg.size);
    real *in = parity_reals(p, "in.x"), *d_out = parity_reals(p, "in.dout");
    real *out = parity_room(rows * shape.dim), *din = parity_room(rows * shape.dim);
    qkv_mat m_in = {in, rows, shape.dim, shape.dim}, m_out = m_in, m_dout = m_in, m_din = m_in;
    m_out.p = out;
    m_dout.p = d_out;
    m_din.p = din;
    qkv_batch batch = {.n_seq = sequences, .offset = offset};
    qkv_exec x = parity_exec(p, &reg, ARENA);
    x.weights = weights;
    x.grads = grads;
    qkv_block_saved saved;
    PARITY_OK(qkv_block_forward(&x, &block, &batch, m_in, m_out, &saved));
    parity_equal(p, "out", out, 2e-6);
    x.pass = QKV_PASS_BACKWARD;
    PARITY_OK(qkv_block_backward(&x, &block, &batch, m_dout, m_din, &saved));
    parity_equal(p, "dx", din, 2e-6);
    parity_blocks(p, "grad.", &reg, grads, 2e-6);
    parity_done(&x);
    real *all[] = {weights, grads, in, d_out, out, din};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(offset);
    qkv_reg_free(&reg);
}

static void block(void **state) {
    (void)state;
    parity_each("block", one_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(block)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
