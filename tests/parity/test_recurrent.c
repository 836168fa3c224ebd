/* Recurrent layers, one or stacked: rows out, gradient of the rows and of every parameter, against PyTorch, against ONNX's operator
 * tests, and with QKV_PARITY_DATA naming a folder, against what tests/parity/trained.py put there. */
#include "layers/recurrent.h"
#include "ops/reg.h"

#include "network.h"

enum { ARENA = 32 << 20, LAYERS = 4 };

/* What stands before the first step, where the case has it, and room for its gradients. */
static qkv_recur_ends ends_of(parity *p, const qkv_recurrent_shape *shape, int64_t sequences, bool gradients) {
    const int64_t wide = shape->directions * shape->units;
    const bool lstm = shape->cell == QKV_RECUR_LSTM;
    const qkv_mat none = {0}, rows = {NULL, sequences, wide, wide};
    qkv_mat m[5] = {rows, lstm ? rows : none, rows, lstm ? rows : none, lstm && gradients ? rows : none};
    m[0].p = parity_reals(p, "in.h0");
    if (lstm) m[1].p = parity_reals(p, "in.c0");
    for (int i = 2; i < 4; i++) m[i].p = parity_room(sequences * wide);
    if (lstm && gradients) m[4].p = parity_reals(p, "in.dlast");
    return (qkv_recur_ends){m[0], m[1], m[2], m[3], m[4]};
}

static void drop(const qkv_recur_ends *e) {
    real *all[] = {e->hidden.p, e->cells.p, e->dhidden.p, e->dcells.p, e->dlast.p};
    for (int i = 0; i < 5; i++) free(all[i]);
}

static void one_case(parity *p) {
    static const char *const cells[] = {"tanh", "relu", "lstm", "gru", "gru_before"};
    int64_t *offset, sequences = parity_offsets(p, "lengths", &offset), rows = offset[sequences];
    const int64_t layers = parity_int(p, "layers");
    qkv_recurrent_shape shape = {.cell = (qkv_recur_cell)parity_choice(p, "cell", cells, 5),
                                 .in = parity_int(p, "in"),
                                 .units = parity_int(p, "units"),
                                 .directions = (int)parity_int(p, "directions"),
                                 .peepholes = parity_bool(p, "peepholes"),
                                 .forget = 1};
    const int64_t in = shape.in, out = shape.directions * shape.units, wide = in > out ? in : out;
    qkv_reg reg = {.ctx = &p->ctx};
    qkv_recurrent layer[LAYERS];
    qkv_recurrent_saved saved[LAYERS];
    assert_true(layers <= LAYERS);
    for (int64_t i = 0; i < layers; i++, shape.in = out) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "encoder.%d.", (int)i);
        PARITY_OK(qkv_recurrent_declare(&layer[i], &reg, prefix, &shape, (uint64_t)i));
    }
    const bool gradients = parity_bool(p, "gradients"), started = parity_bool(p, "start"); /* that of one layer */
    const qkv_recur_ends given = started ? ends_of(p, &shape, sequences, gradients) : (qkv_recur_ends){0},
                         *ends = started ? &given : NULL;
    real *weights = parity_weights(p, &reg), *grads = parity_room(reg.size), *x0 = parity_reals(p, "in.x");
    real *dout = gradients ? parity_reals(p, "in.dout") : NULL;
    real *y[LAYERS + 1], *d[2] = {parity_room(rows * wide), parity_room(rows * wide)};
    qkv_batch batch = {.n_seq = sequences, .offset = offset};
    qkv_exec x = parity_exec(p, &reg, ARENA);
    x.weights = weights;
    x.grads = grads;
    y[0] = x0;
    for (int64_t i = 0; i < layers; i++) {
        const int64_t width = i == 0 ? in : out;
        y[i + 1] = parity_room(rows * out);
        PARITY_OK(qkv_recurrent_forward(&x, &layer[i], &batch, ends, (qkv_mat){y[i], rows, width, width},
                                        (qkv_mat){y[i + 1], rows, out, out}, &saved[i]));
    }
    /* The error of a step is handed on by those that follow. */
    const double tolerance = rows > 60 ? 1e-5 : 2e-6;
    parity_equal(p, "out", y[layers], tolerance);
    x.pass = QKV_PASS_BACKWARD;
    real *from = dout;
    for (int64_t i = layers - 1; gradients && i >= 0; i--) {
        const int64_t width = i == 0 ? in : out;
        PARITY_OK(qkv_recurrent_backward(&x, &layer[i], &batch, ends, (qkv_mat){from, rows, out, out},
                                         (qkv_mat){d[i % 2], rows, width, width}, &saved[i]));
        from = d[i % 2];
    }
    if (gradients) {
        parity_equal(p, "dx", from, 2 * tolerance);
        if (started) parity_equal(p, "dh0", given.dhidden.p, 2 * tolerance);
        if (started && given.dcells.cols > 0) parity_equal(p, "dc0", given.dcells.p, 2 * tolerance);
        parity_blocks(p, "grad.", &reg, grads, 2 * tolerance);
    }
    parity_done(&x);
    drop(&given);
    for (int64_t i = 1; i <= layers; i++) free(y[i]);
    real *all[] = {weights, grads, x0, dout, d[0], d[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(offset);
    qkv_reg_free(&reg);
}

static void pytorch(void **state) {
    (void)state;
    parity_each("recurrent", one_case);
}

static void onnx(void **state) {
    (void)state;
    parity_each("recurrent_onnx", one_case);
}

static void trained(void **state) {
    (void)state;
    parity_each("trained", one_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pytorch), cmocka_unit_test(onnx)}, other[] = {cmocka_unit_test(trained)};
    if (getenv("QKV_PARITY_DATA")) return cmocka_run_group_tests(other, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
