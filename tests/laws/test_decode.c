/* The law of decoding, for attention: the rows of a causal pass over a whole sequence are, bit for bit, what single queries (and
 * a few at a time) give against the keys so far, on every instruction set and for any number of threads. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "kernels/pick.h"
#include "ops/attention.h"

enum { N = 300, HEADS = 4, KV = 2, DIM = 20, VALUE = 32, REACH = 30, STEP = 3 };

typedef struct sequence {
    real q[N * HEADS * DIM], k[N * KV * DIM], v[N * KV * VALUE], o[N * HEADS * VALUE];
    real bias[HEADS * (2 * REACH + 1)], cosine[N * 4], sine[N * 4];
} sequence;

static void randomize(real *p, int64_t n, uint64_t key) {
    for (int64_t i = 0; i < n; i++) p[i] = (real)(2 * qkv_normal(qkv_key2(key, (uint64_t)i)));
}

static void attend(qkv_ctx *ctx, const qkv_attention_shape *s, real *q, sequence *x, real *o) {
    qkv_exec e = {.ctx = ctx, .plan = true};
    qkv_heads hq = {q, HEADS * DIM, DIM}, hk = {x->k, KV * DIM, DIM}, hv = {x->v, KV * VALUE, VALUE}, ho = {o, HEADS * VALUE, VALUE};
    for (int plan = 1; plan >= 0; plan--) {
        if (!plan) {
            size_t bytes = e.arena.peak;
            e = (qkv_exec){.ctx = ctx};
            assert_int_equal(qkv_arena_create(ctx, bytes, &e.arena), QKV_OK);
        }
        assert_int_equal(qkv_attend_forward(&e, s, hq, hk, hv, ho, NULL), QKV_OK);
    }
    qkv_arena_free(ctx, &e.arena);
}

static void check(qkv_ctx *ctx, qkv_attention_shape s, sequence *x) {
    int64_t q_offset[2] = {0, N}, k_offset[2] = {0, N};
    real o[STEP * HEADS * VALUE];
    s.q_offset = q_offset;
    s.k_offset = k_offset;
    attend(ctx, &s, x->q, x, x->o);
    for (int64_t i = 0; i < N; i += 1 + i % 3) {
        int64_t queries = i % 7 == 0 && i >= STEP ? STEP : 1, first = i + 1 - queries;
        q_offset[1] = queries;
        k_offset[1] = i + 1;
        attend(ctx, &s, x->q + first * HEADS * DIM, x, o);
        if (memcmp(o, x->o + first * HEADS * VALUE, sizeof(real) * (size_t)(queries * HEADS * VALUE)) != 0)
            fail_msg("%s, %d threads, window %lld: row %lld differs from the full pass", ctx->kernels->name, ctx->threads, (long long)s.left,
                     (long long)i);
    }
}

static void decode(void **state) {
    (void)state;
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    static const float slopes[HEADS] = {0.5f, 0.25f, 0.125f, 0.0625f};
    sequence *x = malloc(sizeof *x);
    randomize(x->q, N * HEADS * DIM, 1);
    randomize(x->k, N * KV * DIM, 2);
    randomize(x->v, N * KV * VALUE, 3);
    randomize(x->bias, HEADS * (2 * REACH + 1), 4);
    for (int i = 0; i < N * 4; i++) {
        double angle = i / 4 * pow(0.1, i % 4);
        x->cosine[i] = (real)cos(angle);
        x->sine[i] = (real)sin(angle);
    }
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (int t = 0; t < n; t++)
        for (int kind = 0; kind < 4; kind++) {
            ctx.kernels = tables[t];
            ctx.threads = 1 + kind % 2;
            qkv_attention_shape s = {.sequences = 1, .heads = HEADS, .kv_heads = KV, .dim = DIM, .value_dim = VALUE, .scale = (real)0.2,
                                     .left = kind == 1 ? 70 : -1, .right = 0};
            if (kind == 1) s.alibi = slopes;
            if (kind == 2) s.bias = x->bias, s.bias_reach = REACH;
            if (kind == 3) s.rope_cos = x->cosine, s.rope_sin = x->sine, s.rope_dim = 8;
            check(&ctx, s, x);
        }
    free(x);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
