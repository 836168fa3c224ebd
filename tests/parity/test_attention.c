/* Attention, forward and backward, against PyTorch: spans, groups of heads, ragged and empty sequences, score terms. */
#include "ops/attention.h"

#include "parity.h"

typedef struct problem {
    qkv_attention_shape shape;
    int64_t *q_offset, *k_offset;
    float alibi[16];
} problem;

static problem read_problem(const parity *p) {
    problem r = {0};
    int64_t sequences = parity_offsets(p, "q", &r.q_offset);
    assert_int_equal(parity_offsets(p, "k", &r.k_offset), sequences);
    const json_t *alibi = parity_field(p, "alibi");
    for (size_t h = 0; h < json_array_size(alibi); h++) r.alibi[h] = (float)json_number_value(json_array_get(alibi, h));
    r.shape = (qkv_attention_shape){.sequences = sequences,
                                    .heads = parity_int(p, "heads"),
                                    .kv_heads = parity_int(p, "kv_heads"),
                                    .dim = parity_int(p, "dim"),
                                    .value_dim = parity_int(p, "value_dim"),
                                    .scale = (real)parity_real(p, "scale"),
                                    .left = parity_int(p, "left"),
                                    .right = parity_int(p, "right"),
                                    .softcap = (real)parity_real(p, "softcap")};
    return r;
}

static void one_case(parity *p) {
    problem r = read_problem(p);
    qkv_attention_shape *s = &r.shape;
    s->q_offset = r.q_offset;
    s->k_offset = r.k_offset;
    s->alibi = json_array_size(parity_field(p, "alibi")) ? r.alibi : NULL;
    int64_t nq = r.q_offset[s->sequences], nk = r.k_offset[s->sequences];
    int64_t qw = s->heads * s->dim, kw = s->kv_heads * s->dim, vw = s->kv_heads * s->value_dim, ow = s->heads * s->value_dim;
    real *q = parity_reals(p, "in.q"), *k = parity_reals(p, "in.k"), *v = parity_reals(p, "in.v"),
         *d_out = parity_reals(p, "in.dout");
    real *out = parity_room(nq * ow), *lse = parity_room(s->heads * nq);
    real *dq = parity_room(nq * qw), *dk = parity_room(nk * kw), *dv = parity_room(nk * vw);
    qkv_heads hq = {q, qw, s->dim}, hk = {k, kw, s->dim}, hv = {v, vw, s->value_dim}, ho = {out, ow, s->value_dim};
    qkv_heads hdo = {d_out, ow, s->value_dim}, hdq = {dq, qw, s->dim}, hdk = {dk, kw, s->dim}, hdv = {dv, vw, s->value_dim};
    qkv_exec x = parity_exec(p, NULL, 8 << 20);
    PARITY_OK(qkv_attend_forward(&x, s, hq, hk, hv, ho, lse));
    /* A score of size s is rounded by up to s 2^-24, and a weight changes by as much, relatively. */
    double tolerance = 1e-6 + parity_real(p, "largest_score") * 0x1p-23;
    parity_equal(p, "out", out, tolerance);
    parity_equal(p, "lse", lse, 1e-6);
    x.pass = QKV_PASS_BACKWARD;
    PARITY_OK(qkv_attend_backward(&x, s, hq, hk, hv, ho, lse, hdo, hdq, hdk, hdv));
    parity_equal(p, "dq", dq, tolerance);
    parity_equal(p, "dk", dk, tolerance);
    parity_equal(p, "dv", dv, tolerance);
    parity_done(&x);
    real *all[] = {q, k, v, d_out, out, lse, dq, dk, dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(r.q_offset);
    free(r.k_offset);
}

static void attention(void **state) {
    (void)state;
    parity_each("attention", one_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
