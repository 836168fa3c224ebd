/* Every position encoding against PyTorch: attention with the relative ones, rows with the absolute ones, and all gradients. */
#include "layers/positions.h"
#include "ops/reg.h"

#include "parity.h"

static int choice(const parity *p, const char *key, const char *const *names) {
    const char *text = parity_text(p, key);
    for (int i = 0; names[i]; i++)
        if (strcmp(text, names[i]) == 0) return i;
    fail_msg("case %s: %s is %s", p->prefix, key, text);
    return 0;
}

static const char *const KINDS[] = {"none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope", NULL};

/* Weights and gradients of a registry whose parameters are tensors of the case, `names` in their order. */
typedef struct block {
    qkv_reg reg;
    real *weights, *grads;
} block;

static void fill(parity *p, block *b, const char *const *names, qkv_exec *x) {
    b->weights = parity_room(b->reg.size);
    b->grads = parity_room(b->reg.size);
    for (int64_t i = 0; i < b->reg.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "in.%s", names[i]);
        real *values = parity_reals(p, name);
        const qkv_param *param = &b->reg.params[i];
        memcpy(b->weights + param->offset, values, (size_t)(param->rows * param->cols) * sizeof(real));
        free(values);
    }
    *x = parity_exec(p, &b->reg, 8 << 20);
    x->weights = b->weights;
    x->grads = b->grads;
}

static void finish(parity *p, block *b, const char *const *names, qkv_exec *x, double tolerance) {
    for (int64_t i = 0; i < b->reg.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "d%s", names[i]);
        parity_equal(p, name, b->grads + b->reg.params[i].offset, tolerance);
    }
    parity_done(x);
    qkv_reg_free(&b->reg);
    free(b->weights);
    free(b->grads);
}

static void absolute(parity *p) {
    static const char *const layouts[] = {"interleaved", "split", NULL}, *const beyonds[] = {"error", "clamp", "tile", "interpolate", NULL};
    static const char *const names[] = {"table"};
    int64_t *offset;
    block b = {.reg = {.ctx = &p->ctx}};
    qkv_exec x;
    qkv_absolute l;
    const qkv_position_shape shape = {.kind = (qkv_position)choice(p, "kind", KINDS),
                                      .layout = (qkv_position_layout)choice(p, "layout", layouts),
                                      .beyond = (qkv_position_beyond)choice(p, "beyond", beyonds),
                                      .length = parity_int(p, "length")};
    const int64_t sequences = parity_offsets(p, "lengths", &offset), width = parity_int(p, "width");
    PARITY_OK(qkv_absolute_declare(&l, &b.reg, "", width, &shape));
    fill(p, &b, names, &x);
    const qkv_batch batch = {.n_seq = sequences, .offset = offset};
    real *rows = parity_reals(p, "in.rows"), *dout = parity_reals(p, "in.dout");
    PARITY_OK(qkv_absolute_forward(&x, &l, &batch, (qkv_mat){rows, offset[sequences], width, width}));
    parity_equal(p, "out", rows, 2e-7);
    PARITY_OK(qkv_absolute_backward(&x, &l, &batch, (qkv_mat){dout, offset[sequences], width, width}));
    finish(p, &b, names, &x, 1e-6);
    free(rows);
    free(dout);
    free(offset);
}

static qkv_position_shape relative_shape(const parity *p) {
    static const char *const pairs[] = {"half", "interleaved", NULL}, *const stretches[] = {"none", "linear", "ntk", "yarn", NULL};
    return (qkv_position_shape){.kind = (qkv_position)choice(p, "kind", KINDS),
                                .reach = parity_int(p, "reach"),
                                .buckets = parity_int(p, "buckets"),
                                .pairs = (qkv_rope_pairs)choice(p, "pairs", pairs),
                                .part = parity_real(p, "part"),
                                .rope = {.base = parity_real(p, "base"),
                                         .stretch = (qkv_rope_stretch)choice(p, "stretch", stretches),
                                         .factor = parity_real(p, "factor"),
                                         .length = parity_real(p, "length")},
                                .causal = parity_int(p, "right") == 0};
}

static void relative(parity *p) {
    static const char *const t5[] = {"table"}, *const shaw[] = {"keys", "values"};
    const qkv_position_shape shape = relative_shape(p);
    const char *const *names = shape.kind == QKV_POSITION_T5 ? t5 : shaw;
    int64_t *offset;
    block b = {.reg = {.ctx = &p->ctx}};
    qkv_exec x;
    qkv_relative r;
    qkv_relative_part part;
    const int64_t sequences = parity_offsets(p, "lengths", &offset), n = offset[sequences], dim = parity_int(p, "dim");
    qkv_attention_shape s = {.sequences = sequences, .q_offset = offset, .k_offset = offset, .heads = parity_int(p, "heads"),
                             .kv_heads = parity_int(p, "kv_heads"), .dim = dim, .value_dim = dim, .scale = (real)(1 / sqrt((double)dim)),
                             .softcap = (real)parity_real(p, "softcap"), .left = parity_int(p, "left"), .right = parity_int(p, "right")};
    PARITY_OK(qkv_relative_declare(&r, &b.reg, "", s.heads, dim, &shape));
    PARITY_OK(qkv_relative_declare_part(&r, &b.reg, "", &part));
    fill(p, &b, names, &x);
    const qkv_batch batch = {.n_seq = sequences, .offset = offset};
    const int64_t qw = s.heads * dim, kw = s.kv_heads * dim;
    real *q = parity_reals(p, "in.q"), *k = parity_reals(p, "in.k"), *v = parity_reals(p, "in.v"), *dout = parity_reals(p, "in.dout");
    real *out = parity_room(n * qw), *lse = parity_room(n * s.heads), *dq = parity_room(n * qw), *dk = parity_room(n * kw), *dv = parity_room(n * kw);
    const qkv_heads hq = {q, qw, dim}, hk = {k, kw, dim}, hv = {v, kw, dim}, ho = {out, qw, dim};
    PARITY_OK(qkv_relative_begin(&x, &r, &batch));
    qkv_relative_apply(&x, &r, &part, &s);
    PARITY_OK(qkv_attend_forward(&x, &s, hq, hk, hv, ho, lse));
    parity_equal(p, "out", out, 2e-6);
    x.pass = QKV_PASS_BACKWARD;
    PARITY_OK(qkv_relative_before(&x, &r, &part, &s));
    PARITY_OK(qkv_attend_backward(&x, &s, hq, hk, hv, ho, lse, (qkv_heads){dout, qw, dim}, (qkv_heads){dq, qw, dim}, (qkv_heads){dk, kw, dim},
                                  (qkv_heads){dv, kw, dim}));
    PARITY_OK(qkv_relative_after(&x, &r, &part, &s));
    parity_equal(p, "dq", dq, 2e-6);
    parity_equal(p, "dk", dk, 2e-6);
    parity_equal(p, "dv", dv, 2e-6);
    finish(p, &b, names, &x, 2e-6);
    real *all[] = {q, k, v, dout, out, lse, dq, dk, dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(offset);
}

static void one_case(parity *p) {
    if (choice(p, "kind", KINDS) <= QKV_POSITION_LEARNED) absolute(p);
    else relative(p);
}

static void positions(void **state) {
    (void)state;
    parity_each("positions", one_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(positions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
