/* The law of decoding, for attention: the rows of a causal pass over a whole sequence are, bit for bit, what single queries (and
 * a few at a time) give against the keys so far, on every instruction set and for any number of threads. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "kernels/pick.h"
#include "ops/attention.h"

enum { N = 300, HEADS = 4, KV = 2, DIM = 20, VALUE = 32, REACH = 30, NEAR = 9, STEP = 3 };
enum { PLAIN, ALIBI, BIAS, ROPE_PART, ROPE_WHOLE, ROPE_INTERLEAVED, SHAW, GLOBAL, SHAW_GLOBAL, SHAW_DILATED, KINDS };

typedef struct sequence {
    real q[N * HEADS * DIM], k[N * KV * DIM], v[N * KV * VALUE], o[N * HEADS * VALUE];
    real bias[HEADS * (2 * REACH + 1)], cosine[N * DIM / 2], sine[N * DIM / 2], part_cosine[N * 4], part_sine[N * 4];
    real shaw_keys[(2 * NEAR + 1) * DIM], shaw_values[(2 * NEAR + 1) * VALUE];
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

static void turns(int64_t pairs, real *cosine, real *sine) {
    for (int64_t i = 0; i < N * pairs; i++) {
        const double angle = (double)(i / pairs) * pow(0.1, 4 * (double)(i % pairs) / (double)pairs);
        cosine[i] = (real)cos(angle);
        sine[i] = (real)sin(angle);
    }
}

static void fill(sequence *x) {
    randomize(x->q, N * HEADS * DIM, 1);
    randomize(x->k, N * KV * DIM, 2);
    randomize(x->v, N * KV * VALUE, 3);
    randomize(x->bias, HEADS * (2 * REACH + 1), 4);
    randomize(x->shaw_keys, (2 * NEAR + 1) * DIM, 5);
    randomize(x->shaw_values, (2 * NEAR + 1) * VALUE, 6);
    turns(4, x->part_cosine, x->part_sine);
    turns(DIM / 2, x->cosine, x->sine);
}

static qkv_attention_shape shape_of(const sequence *x, int kind) {
    static const float slopes[HEADS] = {0.5f, 0.25f, 0.125f, 0.0625f};
    const bool part = kind == ROPE_PART, rope = part || kind == ROPE_WHOLE || kind == ROPE_INTERLEAVED;
    qkv_attention_shape s = {.sequences = 1,
                             .heads = HEADS,
                             .kv_heads = KV,
                             .dim = DIM,
                             .value_dim = VALUE,
                             .scale = (real)0.2,
                             .left = kind == ALIBI || kind == ROPE_INTERLEAVED ? 70 : -1,
                             .right = 0};
    if (kind == ALIBI) s.alibi = slopes;
    if (kind == BIAS) s.bias = x->bias, s.bias_reach = REACH;
    if (rope)
        s.rope_cos = part ? x->part_cosine : x->cosine, s.rope_sin = part ? x->part_sine : x->sine, s.rope_dim = part ? 8 : DIM;
    s.rope_interleaved = kind == ROPE_INTERLEAVED;
    if (kind >= GLOBAL) s.left = 30, s.pattern = (qkv_pattern){.global_first = 2, .global_every = 40};
    if (kind == SHAW_DILATED) s.pattern = (qkv_pattern){.dilation = 3};
    if (kind >= SHAW && kind != GLOBAL) s.shaw_keys = x->shaw_keys, s.shaw_values = x->shaw_values, s.shaw_reach = NEAR;
    return s;
}

static void decode(void **state) {
    (void)state;
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    sequence *x = malloc(sizeof *x);
    fill(x);
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (int t = 0; t < n; t++)
        for (int kind = 0; kind < KINDS; kind++) {
            ctx.kernels = tables[t];
            ctx.threads = 1 + kind % 2;
            check(&ctx, shape_of(x, kind), x);
        }
    free(x);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
