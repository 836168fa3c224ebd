/* qkv/attention.h through the public header: values, strides, defaults, spans counted out for small n, NaN rules, dropout,
 * what is refused, and an allocator that fails at every call. */
#include "support.h"

#include <math.h>

#include "qkv.h"

typedef struct env {
    test_memory memory;
    qkv_ctx *ctx;
} env;

static void start(env *e, int threads) {
    memset(e, 0, sizeof *e);
    qkv_ctx_options o = {.struct_size = sizeof o, .threads = threads, .allocate = test_allocate, .release = test_release, .allocator_user = &e->memory};
    assert_int_equal(qkv_ctx_create(&o, &e->ctx, NULL, 0), QKV_OK);
}

static void end(env *e) {
    qkv_ctx_free(e->ctx);
    assert_int_equal(e->memory.blocks, 0);
}

#define OK(expression)                                                                                                      \
    do {                                                                                                                    \
        if ((expression) != QKV_OK) fail_msg("%s: %s", #expression, qkv_message(e->ctx));                                   \
    } while (0)

static float value(int i, int salt) { return (float)(sin(i * 12.9898 + salt * 78.233) * 1.7); }

static float *filled(int64_t n, int salt) {
    float *p = calloc((size_t)n + 1, sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = value((int)i, salt);
    return p;
}

/* The worked example: X = [[1,1],[1,0]], Wq = [[1,1],[0,1]], Wk = [[0,1],[1,1]], Wv = I, so Q, K, V are as below. */
static void worked_example(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    static const float q[] = {1, 2, 1, 1}, k[] = {1, 2, 0, 1}, v[] = {1, 1, 1, 0};
    static const int64_t offset[] = {0, 2};
    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 1;
    a.q_offset = offset;
    a.heads = 1;
    a.dim = 2;
    float out[4], lse[2], weights[4];
    OK(qkv_attention_forward(e->ctx, &a, q, k, v, out, lse));
    OK(qkv_attention_weights(e->ctx, &a, q, k, 0, 0, weights));
    static const double w[] = {0.8930, 0.1070, 0.8044, 0.1956}, o[] = {1, 0.8930, 1, 0.8044};
    for (int i = 0; i < 4; i++) {
        assert_true(fabs((double)weights[i] - w[i]) < 5e-5);
        assert_true(fabs((double)out[i] - o[i]) < 5e-5);
    }
    assert_true(fabs((double)lse[0] - log(exp(5 / sqrt(2)) + exp(2 / sqrt(2)))) < 1e-5);
    end(e);
}

/* Which keys a query sees, written out for n = 5: window {1,2} is one neighbour to the left, two to the right. */
static void visible_sets(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    static const struct {
        qkv_span span;
        const char *sees[5];
        int64_t pairs;
    } cases[] = {
        {{-1, -1}, {"11111", "11111", "11111", "11111", "11111"}, 25}, {{-1, 0}, {"10000", "11000", "11100", "11110", "11111"}, 15},
        {{0, 0}, {"10000", "01000", "00100", "00010", "00001"}, 5},    {{1, 2}, {"11100", "11110", "01111", "00111", "00011"}, 16},
        {{0, -1}, {"11111", "01111", "00111", "00011", "00001"}, 15},  {{2, 0}, {"10000", "11000", "11100", "01110", "00111"}, 12},
        {{9, INT64_MAX}, {"11111", "11111", "11111", "11111", "11111"}, 25},
    };
    float *q = filled(5 * 3, 1), *k = filled(5 * 3, 2), weights[25];
    static const int64_t offset[] = {0, 5};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        qkv_attention a;
        qkv_attention_init(&a);
        a.sequences = 1;
        a.q_offset = offset;
        a.heads = 1;
        a.dim = 3;
        a.span = cases[c].span;
        OK(qkv_attention_weights(e->ctx, &a, q, k, 0, 0, weights));
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 5; j++) assert_int_equal(weights[5 * i + j] > 0, cases[c].sees[i][j] == '1');
        assert_int_equal(qkv_attention_pairs(&a), cases[c].pairs);
    }
    free(q);
    free(k);
    end(e);
}

/* The same numbers in a buffer of their own strides: a fused [rows, 3C] buffer and heads in reverse order of memory. */
static void strides(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 2);
    enum { H = 4, KV = 2, D = 6, DV = 5, N = 13, WIDE = 80 };
    static const int64_t offset[] = {0, 4, 4, 13};
    qkv_attention a, b;
    qkv_attention_init(&a);
    a.sequences = 3;
    a.q_offset = offset;
    a.heads = H;
    a.kv_heads = KV;
    a.dim = D;
    a.value_dim = DV;
    a.span = (qkv_span){-1, 0};
    float *q = filled(N * H * D, 1), *k = filled(N * KV * D, 2), *v = filled(N * KV * DV, 3), *dout = filled(N * H * DV, 4);
    float *out = calloc(N * H * DV, 4), *lse = calloc(H * N, 4), *dq = calloc(N * H * D, 4), *dk = calloc(N * KV * D, 4), *dv = calloc(N * KV * DV, 4);
    OK(qkv_attention_forward(e->ctx, &a, q, k, v, out, lse));
    OK(qkv_attention_backward(e->ctx, &a, q, k, v, out, lse, dout, dq, dk, dv));
    b = a;
    b.q_row = b.k_row = b.v_row = WIDE;
    b.q_head = D + 1;
    b.k_head = D + 2;
    b.v_head = DV + 3;
    float *fused = calloc(N * WIDE, 4), *dfused = calloc(N * WIDE, 4), *out2 = calloc(N * H * DV, 4), *lse2 = calloc(H * N, 4);
    enum { K0 = 30, V0 = 50 };
    for (int r = 0; r < N; r++) {
        for (int h = 0; h < H; h++) memcpy(fused + r * WIDE + h * (D + 1), q + (r * H + h) * D, D * 4);
        for (int h = 0; h < KV; h++) memcpy(fused + r * WIDE + K0 + h * (D + 2), k + (r * KV + h) * D, D * 4);
        for (int h = 0; h < KV; h++) memcpy(fused + r * WIDE + V0 + h * (DV + 3), v + (r * KV + h) * DV, DV * 4);
    }
    OK(qkv_attention_forward(e->ctx, &b, fused, fused + K0, fused + V0, out2, lse2));
    OK(qkv_attention_backward(e->ctx, &b, fused, fused + K0, fused + V0, out2, lse2, dout, dfused, dfused + K0, dfused + V0));
    assert_memory_equal(out, out2, N * H * DV * 4);
    assert_memory_equal(lse, lse2, H * N * 4);
    for (int r = 0; r < N; r++) {
        for (int h = 0; h < H; h++) assert_memory_equal(dfused + r * WIDE + h * (D + 1), dq + (r * H + h) * D, D * 4);
        for (int h = 0; h < KV; h++) assert_memory_equal(dfused + r * WIDE + K0 + h * (D + 2), dk + (r * KV + h) * D, D * 4);
        for (int h = 0; h < KV; h++) assert_memory_equal(dfused + r * WIDE + V0 + h * (DV + 3), dv + (r * KV + h) * DV, DV * 4);
        assert_true(dfused[r * WIDE + WIDE - 1] == 0 && dfused[r * WIDE + D] == 0); /* the gaps */
    }
    /* lse is optional */
    OK(qkv_attention_forward(e->ctx, &b, fused, fused + K0, fused + V0, out2, NULL));
    assert_memory_equal(out, out2, N * H * DV * 4);
    float *all[] = {q, k, v, dout, out, lse, dq, dk, dv, fused, dfused, out2, lse2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    end(e);
}

/* Threads and the batch around a sequence: the same bits. Dropout too, by (seed, sequence, head, query, key). */
static void same_bits(void **state) {
    (void)state;
    enum { H = 3, D = 8, N = 700 };
    static const int64_t offset[] = {0, 600, 600, 700}, alone[] = {0, 600};
    float *q = filled(N * H * D, 1), *k = filled(N * H * D, 2), *v = filled(N * H * D, 3), *out[3], *lse[3];
    float *d[3][3], *dout = filled(N * H * D, 4);
    for (int t = 0; t < 3; t++) {
        env one, *e = &one;
        start(e, t + 1);
        out[t] = calloc(N * H * D, 4);
        lse[t] = calloc(N * H, 4);
        qkv_attention a;
        qkv_attention_init(&a);
        a.sequences = t < 2 ? 3 : 1;
        a.q_offset = t < 2 ? offset : alone;
        a.heads = H;
        a.dim = D;
        a.dropout = 0.3f;
        a.seed = 5;
        OK(qkv_attention_forward(e->ctx, &a, q, k, v, out[t], lse[t]));
        for (int g = 0; g < 3; g++) d[t][g] = calloc(N * H * D, 4);
        OK(qkv_attention_backward(e->ctx, &a, q, k, v, out[t], lse[t], dout, d[t][0], d[t][1], d[t][2]));
        end(e);
    }
    assert_memory_equal(out[0], out[1], N * H * D * 4);
    assert_memory_equal(out[0], out[2], 600 * H * D * 4);
    assert_memory_equal(lse[0], lse[1], N * H * 4);
    for (int g = 0; g < 3; g++) { /* several threads work on one head here */
        assert_memory_equal(d[0][g], d[1][g], N * H * D * 4);
        assert_memory_equal(d[0][g], d[2][g], 600 * H * D * 4);
        for (int t = 0; t < 3; t++) free(d[t][g]);
    }
    free(dout);
    float *all[] = {q, k, v, out[0], out[1], out[2], lse[0], lse[1], lse[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void dropout(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    enum { N = 64 };
    static const int64_t offset[] = {0, N};
    float *q = calloc(N, 4), *k = calloc(N, 4), *v = calloc(N * N, 4), *out = calloc(N * N, 4), *out2 = calloc(N * N, 4);
    for (int i = 0; i < N; i++) v[i * N + i] = 1; /* values = unit vectors: the output is the weights */
    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 1;
    a.q_offset = offset;
    a.heads = 1;
    a.dim = 1;
    a.value_dim = N;
    a.dropout = 0.25f;
    OK(qkv_attention_forward(e->ctx, &a, q, k, v, out, NULL));
    int gone = 0;
    for (int i = 0; i < N * N; i++) {
        gone += out[i] == 0;
        assert_true(out[i] == 0 || fabs((double)out[i] - 1 / 0.75 / N) < 1e-6);
    }
    assert_true(gone > N * N / 5 && gone < N * N * 3 / 10);
    OK(qkv_attention_forward(e->ctx, &a, q, k, v, out2, NULL));
    assert_memory_equal(out, out2, N * N * 4);
    a.seed = 1;
    OK(qkv_attention_forward(e->ctx, &a, q, k, v, out2, NULL));
    assert_memory_not_equal(out, out2, N * N * 4);
    float *all[] = {q, k, v, out, out2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    end(e);
}

/* NaN and infinity behind the mask do not show; in sight they do. */
static void nan_rules(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    enum { N = 40, D = 4 };
    static const int64_t offset[] = {0, N};
    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 1;
    a.q_offset = offset;
    a.heads = 1;
    a.dim = D;
    a.span = (qkv_span){-1, 0};
    float *q = filled(N * D, 1), *k = filled(N * D, 2), *v = filled(N * D, 3), clean[N * D], out[N * D], lse[N];
    float *dout = filled(N * D, 4), dq[N * D], dk[N * D], dv[N * D];
    OK(qkv_attention_forward(e->ctx, &a, q, k, v, clean, NULL));
    for (int kind = 0; kind < 3; kind++) {
        float *bad = kind == 0 ? k : v, old = bad[20 * D + 1];
        bad[20 * D + 1] = kind == 2 ? INFINITY : NAN;
        OK(qkv_attention_forward(e->ctx, &a, q, k, v, out, lse));
        for (int i = 0; i < 20 * D; i++) assert_true(out[i] == clean[i]);
        for (int i = 20; i < N; i++) assert_true(!isfinite((double)out[i * D + 1]));
        OK(qkv_attention_backward(e->ctx, &a, q, k, v, out, lse, dout, dq, dk, dv));
        for (int i = 0; i < 20 * D; i++) assert_true(isfinite((double)dq[i]));
        bad[20 * D + 1] = old;
    }
    free(q);
    free(k);
    free(v);
    free(dout);
    end(e);
}

/* A bias by distance and a rotation, against the same pairs worked out: with zero queries the weights are those of the bias,
 * and a rotation of both sides leaves q.k a function of the distance. */
static void bias_and_rotation(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 2);
    enum { N = 5, R = 2, D = 4, P = 12 };
    static const int64_t offset[] = {0, N};
    static const float bias[2 * R + 1] = {0.5f, -1, 0.25f, 2, -0.5f};
    float zero[N * D] = {0}, weights[N * N], cosine[P * D / 2], sine[P * D / 2];
    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 1;
    a.q_offset = offset;
    a.heads = 1;
    a.dim = D;
    a.bias = bias;
    a.bias_reach = R;
    OK(qkv_attention_weights(e->ctx, &a, zero, zero, 0, 0, weights));
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) sum += exp((double)bias[(j - i < -R ? -R : j - i > R ? R : j - i) + R]);
        for (int j = 0; j < N; j++) {
            double want = exp((double)bias[(j - i < -R ? -R : j - i > R ? R : j - i) + R]) / sum;
            assert_true(fabs((double)weights[i * N + j] - want) < 1e-6);
        }
    }
    a.bias = NULL;
    for (int p = 0; p < P; p++)
        for (int c = 0; c < D / 2; c++) {
            cosine[p * D / 2 + c] = (float)cos(p / pow(10, c));
            sine[p * D / 2 + c] = (float)sin(p / pow(10, c));
        }
    a.rope_cos = cosine;
    a.rope_sin = sine;
    a.rope_rows = P;
    float *q = filled(N * D, 1), *k = filled(N * D, 2), out[N * D], moved[N * D];
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        a.rope_interleaved = interleaved;
        a.rope_offset = 0;
        OK(qkv_attention_weights(e->ctx, &a, q, k, 0, 0, weights));
        for (int i = 0; i < N; i++) {
            double p[N], sum = 0;
            for (int j = 0; j < N; j++) {
                double s = 0;
                for (int c = 0; c < D / 2; c++) { /* rotating both is rotating one by the difference */
                    int x = interleaved ? 2 * c : c, y = interleaved ? 2 * c + 1 : c + D / 2;
                    double angle = (j - i) / pow(10, c);
                    double kx = k[j * D + x] * cos(angle) - k[j * D + y] * sin(angle), ky = k[j * D + y] * cos(angle) + k[j * D + x] * sin(angle);
                    s += q[i * D + x] * kx + q[i * D + y] * ky;
                }
                sum += p[j] = exp(s / 2);
            }
            for (int j = 0; j < N; j++) assert_true(fabs((double)weights[i * N + j] - p[j] / sum) < 1e-5);
        }
        OK(qkv_attention_forward(e->ctx, &a, q, k, k, out, NULL));
        a.rope_offset = P - N;
        OK(qkv_attention_forward(e->ctx, &a, q, k, k, moved, NULL));
        for (int i = 0; i < N * D; i++) assert_true(fabs((double)out[i] - (double)moved[i]) < 1e-5);
    }
    free(q);
    free(k);
    end(e);
}

static void nothing_to_do(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    qkv_attention a;
    qkv_attention_init(&a);
    a.heads = a.dim = 4;
    OK(qkv_attention_forward(e->ctx, &a, NULL, NULL, NULL, NULL, NULL));
    OK(qkv_attention_backward(e->ctx, &a, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_equal(qkv_attention_pairs(&a), 0);
    /* queries without keys are 0; keys without queries have no gradient */
    static const int64_t some[] = {0, 2}, none[] = {0, 0};
    float q[32], out[32], lse[8], d[32];
    a.sequences = 1;
    a.q_offset = some;
    a.k_offset = none;
    for (int i = 0; i < 32; i++) out[i] = q[i] = d[i] = 1;
    OK(qkv_attention_forward(e->ctx, &a, q, NULL, NULL, out, lse));
    for (int i = 0; i < 32; i++) assert_true(out[i] == 0);
    for (int i = 0; i < 8; i++) assert_true(lse[i] == -INFINITY);
    float dq[32], dk[32], dv[32];
    for (int i = 0; i < 32; i++) dq[i] = dk[i] = dv[i] = 7;
    OK(qkv_attention_backward(e->ctx, &a, q, NULL, NULL, out, lse, d, dq, NULL, NULL));
    for (int i = 0; i < 32; i++) assert_true(dq[i] == 0);
    a.q_offset = none;
    a.k_offset = some;
    OK(qkv_attention_backward(e->ctx, &a, NULL, q, q, NULL, NULL, NULL, NULL, dk, dv));
    for (int i = 0; i < 32; i++) assert_true(dk[i] == 0 && dv[i] == 0);
    end(e);
}

/* Vectors by distance, pair by pair; gradients are written, also where there is nothing; a wrong place for them is refused. */
enum { V_ROWS = 40, V_DIM = 3, V_REACH = 2, V_COUNT = 2 * V_REACH + 1 };

static void some_numbers(float *p, int n, int of) {
    for (int i = 0; i < n; i++) p[i] = 1.5f * sinf((float)(7 * of + 1) * (float)(i + 1));
}

static void vectors_pair_by_pair(const float *q, const float *k, const float *v, const qkv_attention *a, const float *out, const float *weights) {
    for (int i = 0; i < V_ROWS; i++) {
        double p[V_ROWS], sum = 0, want[V_DIM] = {0};
        for (int j = 0; j < V_ROWS; j++) {
            const int at = (j - i < -V_REACH ? -V_REACH : j - i > V_REACH ? V_REACH : j - i) + V_REACH;
            double s = 0;
            for (int c = 0; c < V_DIM; c++) s += (double)q[i * V_DIM + c] * ((double)k[j * V_DIM + c] + (double)a->shaw_keys[at * V_DIM + c]);
            p[j] = exp(s / sqrt(V_DIM));
            sum += p[j];
            for (int c = 0; c < V_DIM; c++) want[c] += p[j] * ((double)v[j * V_DIM + c] + (double)a->shaw_values[at * V_DIM + c]);
        }
        for (int c = 0; c < V_DIM; c++) assert_true(fabs((double)out[i * V_DIM + c] - want[c] / sum) < 1e-5);
        for (int j = 0; j < V_ROWS; j++) assert_true(fabs((double)weights[i * V_ROWS + j] - p[j] / sum) < 1e-6);
    }
}

static void vectors_by_distance(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 2);
    static const int64_t offset[] = {0, V_ROWS}, none[] = {0, 0};
    float q[V_ROWS * V_DIM], k[V_ROWS * V_DIM], v[V_ROWS * V_DIM], out[V_ROWS * V_DIM], lse[V_ROWS], d[3][V_ROWS * V_DIM], weights[V_ROWS * V_ROWS];
    float keys[V_COUNT * V_DIM], values[V_COUNT * V_DIM], dkeys[V_COUNT * V_DIM], dvalues[V_COUNT * V_DIM];
    some_numbers(q, V_ROWS * V_DIM, 1);
    some_numbers(k, V_ROWS * V_DIM, 2);
    some_numbers(v, V_ROWS * V_DIM, 3);
    some_numbers(keys, V_COUNT * V_DIM, 4);
    some_numbers(values, V_COUNT * V_DIM, 5);
    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 1;
    a.q_offset = offset;
    a.heads = 1;
    a.dim = V_DIM;
    a.shaw_keys = keys;
    a.shaw_values = values;
    a.shaw_reach = V_REACH;
    OK(qkv_attention_forward(e->ctx, &a, q, k, v, out, lse));
    OK(qkv_attention_weights(e->ctx, &a, q, k, 0, 0, weights));
    vectors_pair_by_pair(q, k, v, &a, out, weights);
    a.shaw_dkeys = dkeys;
    a.shaw_dvalues = dvalues;
    OK(qkv_attention_backward(e->ctx, &a, q, k, v, out, lse, v, d[0], d[1], d[2]));
    for (int c = 0; c < V_DIM; c++) { /* the weights of a query add up to 1, over keys as over distances */
        double seen = 0, want = 0;
        for (int x = 0; x < V_COUNT; x++) seen += (double)dvalues[x * V_DIM + c];
        for (int i = 0; i < V_ROWS; i++) want += (double)v[i * V_DIM + c];
        assert_true(fabs(seen - want) < 1e-4);
    }
    a.shaw_dvalues = values;
    assert_int_equal(qkv_attention_backward(e->ctx, &a, q, k, v, out, lse, v, d[0], d[1], d[2]), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(qkv_message(e->ctx), "shaw_dvalues is written and overlaps shaw_values"));
    a.shaw_dvalues = dvalues;
    a.q_offset = none;
    OK(qkv_attention_backward(e->ctx, &a, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    for (int i = 0; i < V_COUNT * V_DIM; i++) assert_true(dkeys[i] == 0 && dvalues[i] == 0);
    end(e);
}

static void refused(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    static const int64_t offset[] = {0, 3}, late[] = {1, 3}, down[] = {0, -1}, huge[] = {0, INT64_MAX};
    float x[256] = {0}, out[256];
    qkv_attention ok, a;
    qkv_attention_init(&ok);
    ok.sequences = 1;
    ok.q_offset = offset;
    ok.heads = 8;
    ok.dim = 2;
#define REFUSED(change, words)                                                                                              \
    a = ok;                                                                                                                 \
    change;                                                                                                                 \
    assert_int_equal(qkv_attention_forward(e->ctx, &a, x, x, x, out, NULL), QKV_BAD_ARGUMENT);                              \
    if (!strstr(qkv_message(e->ctx), words)) fail_msg("%s: no \"%s\" in it", qkv_message(e->ctx), words)
    REFUSED(a.struct_size = 0, "qkv_attention_init");
    REFUSED(a.struct_size = sizeof a + 8, "qkv_attention_init");
    REFUSED(a.kv_heads = 3, "kv_heads=3 does not divide heads=8");
    REFUSED(a.heads = 0, "heads=0");
    REFUSED(a.heads = -8, "heads=-8");
    REFUSED(a.dim = 0, "dim=0");
    REFUSED(a.dim = INT64_MAX, "dim=9223372036854775807");
    REFUSED(a.value_dim = -1, "value_dim=-1");
    REFUSED(a.sequences = -1, "sequences=-1");
    REFUSED(a.q_offset = NULL, "q_offset is NULL");
    REFUSED(a.q_offset = late, "q_offset[0] is 1");
    REFUSED(a.q_offset = down, "offsets must ascend");
    REFUSED(a.k_offset = huge, "offsets must ascend");
    REFUSED(a.span.left = -2, "span.left=-2");
    REFUSED(a.scale = NAN, "scale=nan");
    REFUSED(a.softcap = -1, "softcap=-1");
    REFUSED(a.dropout = 1, "dropout=1");
    REFUSED(a.q_row = -1, "q_row=-1");
    float bias[8 * 3] = {0}, angles[6] = {0};
    a = ok;
    a.bias_reach = 1;
    ok = a;
    REFUSED(a.bias_grad = out, "bias is NULL");
    REFUSED(a.bias_reach = -1, "bias_reach=-1");
    bias[23] = INFINITY;
    REFUSED(a.bias = bias, "bias[23]=inf");
    bias[23] = 0;
    REFUSED(a.rope_cos = angles, "rope_sin is NULL");
    ok.rope_cos = ok.rope_sin = angles;
    ok.rope_rows = 3;
    REFUSED(a.rope_dim = 1, "rope_dim=1");
    REFUSED(a.rope_dim = 4, "rope_dim=4");
    REFUSED(a.rope_offset = 1, "positions 1..3");
    REFUSED(a.rope_rows = 2, "positions 0..2");
    OK(qkv_attention_forward(e->ctx, &ok, x, x, x, out, NULL));
    angles[2] = NAN;
    REFUSED(a.rope_cos = angles, "rope_cos[2][0]=nan is not finite");
    float sines[6] = {0, 0, INFINITY};
    angles[2] = 0;
    REFUSED(a.rope_sin = sines, "rope_sin[2][0]=inf is not finite");
    angles[3] = NAN; /* behind the last position: nobody reads it */
    ok.rope_rows = 4;
    OK(qkv_attention_forward(e->ctx, &ok, x, x, x, out, NULL));
    ok.rope_cos = ok.rope_sin = NULL;
    float vectors[6] = {0};
    REFUSED(a.shaw_keys = vectors, "shaw_values is NULL");
    REFUSED(a.shaw_dkeys = out, "shaw_dvalues is NULL");
    ok.shaw_keys = ok.shaw_values = vectors;
    REFUSED(a.shaw_reach = 0, "shaw_reach=0 is not in 1..127");
    REFUSED(a.shaw_reach = 128, "shaw_reach=128 is not in 1..127");
    ok.shaw_reach = 1;
    ok.rope_rows = 4;
    REFUSED(a.rope_cos = a.rope_sin = sines, "shaw_keys and rope_cos do not go together");
    vectors[5] = NAN;
    REFUSED((void)0, "shaw_keys[5]=nan is not finite");
    vectors[5] = 0;
    OK(qkv_attention_forward(e->ctx, &ok, x, x, x, out, NULL));
    ok.shaw_keys = ok.shaw_values = NULL;
    a = ok;
    assert_int_equal(qkv_attention_forward(e->ctx, &a, NULL, x, x, out, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_attention_forward(e->ctx, &a, x, x, x, NULL, NULL), QKV_BAD_ARGUMENT);
    assert_string_equal(qkv_message(e->ctx), "out is NULL, with 3 rows");
    assert_int_equal(qkv_attention_weights(e->ctx, &a, x, x, 1, 0, out), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_attention_weights(e->ctx, &a, x, x, 0, 8, out), QKV_BAD_ARGUMENT);
    end(e);
}

/* ---- patterns ---- */

/* Query i sees key j iff its weight is not 0; the same pairs are counted. */
static void visible(env *e, const qkv_attention *a, const char *const *picture) {
    const int64_t n = a->q_offset[1];
    float x[32], weights[256], out[32];
    for (int i = 0; i < 32; i++) x[i] = value(i, 3);
    OK(qkv_attention_weights(e->ctx, a, x, x, 0, 0, weights));
    OK(qkv_attention_forward(e->ctx, a, x, x, x, out, NULL));
    int64_t pairs = 0;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t j = 0; j < n; j++) {
            pairs += picture[i][j] == 'x';
            sum += weights[i * n + j] * x[2 * j];
            if ((weights[i * n + j] > 0) != (picture[i][j] == 'x')) fail_msg("query %d, key %d: %g", (int)i, (int)j, (double)weights[i * n + j]);
        }
        assert_true(fabsf(sum - out[2 * i]) < 1e-5f);
    }
    assert_int_equal(qkv_attention_pairs(a), pairs);
}

static void patterns(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    static const int64_t offset[] = {0, 8}, list_offset[] = {0, 2}, list[] = {1, 6};
    qkv_attention ok, a;
    qkv_attention_init(&ok);
    ok.sequences = 1;
    ok.q_offset = offset;
    ok.heads = 1;
    ok.dim = 2;
    ok.span = (qkv_span){1, 1};
    a = ok;
    a.dilation = 3;
    visible(e, &a, (const char *[]){"x..x....", ".x..x...", "..x..x..", "x..x..x.", ".x..x..x", "..x..x..", "...x..x.", "....x..x"});
    a = ok;
    a.global_first = 1;
    a.global_every = 5;
    visible(e, &a, (const char *[]){"xxxxxxxx", "xxx..x..", "xxxx.x..", "x.xxxx..", "x..xxx..", "xxxxxxxx", "x....xxx", "x....xxx"});
    a = ok;
    a.global_offset = list_offset;
    a.global_at = list;
    visible(e, &a, (const char *[]){"xx....x.", "xxxxxxxx", ".xxx..x.", ".xxxx.x.", ".x.xxxx.", ".x..xxx.", "xxxxxxxx", ".x....xx"});
    a.span.right = 0;
    visible(e, &a, (const char *[]){"x.......", "xx......", ".xx.....", ".xxx....", ".x.xx...", ".x..xx..", "xxxxxxx.", ".x....xx"});
    a = ok;
    a.span = (qkv_span){0, 0};
    a.random_blocks = 9; /* all there are, to the left */
    a.block = 4;
    visible(e, &a, (const char *[]){"x.......", ".x......", "..x.....", "...x....", "xxxxx...", "xxxx.x..", "xxxx..x.", "xxxx...x"});
    float x[16] = {0}, out[16];
    static const int64_t down[] = {6, 1}, far[] = {1, 8};
    REFUSED(a.dilation = -1, "dilation=-1");
    REFUSED(a.global_first = -1, "global_first=-1");
    REFUSED(a.random_blocks = 65, "random_blocks=65");
    REFUSED(a.random_blocks = 1, "block=0");
    REFUSED((a.random_blocks = 1, a.block = 2, a.dilation = 2), "random_blocks=1 and dilation=2");
    REFUSED((a.global_offset = list_offset, a.global_at = NULL), "global_at is NULL");
    REFUSED((a.global_offset = list_offset, a.global_at = down), "global_at[1]=1");
    REFUSED((a.global_offset = list_offset, a.global_at = far), "global_at[1]=8");
    REFUSED((a.global_offset = list_offset, a.global_at = list, a.global_every = 2), "a list or a rule");
    end(e);
}

/* Queries before key 0: output and weights agree, also where neighbours stand further apart than the keys are many, and a sequence has
 * the same results beside a longer one. */
static void before_keys(void **state) {
    (void)state;
    env one, *e = &one;
    start(e, 1);
    static const int64_t q[] = {0, 6, 46}, k[] = {0, 2, 42};
    float x[46 * 2], out[2][46 * 2], weights[6 * 2];
    for (int i = 0; i < 46 * 2; i++) x[i] = value(i, 3);
    for (int64_t global = 0; global < 2; global++)
        for (int64_t dilation = 1; dilation < 60; dilation++) {
            qkv_attention a;
            qkv_attention_init(&a);
            a.q_offset = q;
            a.k_offset = k;
            a.heads = 1;
            a.dim = 2;
            a.span = (qkv_span){1, 1};
            a.dilation = dilation;
            a.global_first = global;
            for (a.sequences = 1; a.sequences <= 2; a.sequences++)
                OK(qkv_attention_forward(e->ctx, &a, x, x, x, out[a.sequences - 1], NULL));
            a.sequences = 1;
            OK(qkv_attention_weights(e->ctx, &a, x, x, 0, 0, weights));
            for (int i = 0; i < 6; i++)
                for (int c = 0; c < 2; c++) {
                    assert_true(fabsf(out[0][2 * i + c] - weights[2 * i] * x[c] - weights[2 * i + 1] * x[2 + c]) < 1e-5f);
                    assert_true(out[0][2 * i + c] == out[1][2 * i + c]);
                }
            assert_true((weights[2 * 5] > 0) == (global > 0 || dilation == 1)); /* the last stands at key 1 */
        }
    end(e);
}

static void no_memory(void **state) {
    (void)state;
    env one, *e = &one;
    static const int64_t offset[] = {0, 3};
    float x[256] = {0}, out[256], lse[64] = {0}, d[3][256];
    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 1;
    a.q_offset = offset;
    a.heads = 8;
    a.dim = 2;
    a.dropout = 0.5f;
    for (int backward = 0; backward < 2; backward++) {
        qkv_status status = QKV_NO_MEMORY;
        int k = 0;
        start(e, 2);
        int64_t living = e->memory.blocks;
        while (status != QKV_OK) {
            e->memory.calls = 0;
            e->memory.fail_at = ++k;
            status = backward ? qkv_attention_backward(e->ctx, &a, x, x, x, out, lse, x, d[0], d[1], d[2])
                              : qkv_attention_forward(e->ctx, &a, x, x, x, out, lse);
            assert_true(status == QKV_OK || status == QKV_NO_MEMORY);
            assert_int_equal(e->memory.blocks, living + (status == QKV_OK)); /* the context keeps the arena */
        }
        assert_int_equal(k, 3); /* row keys and the arena */
        e->memory.calls = 0;
        OK(qkv_attention_forward(e->ctx, &a, x, x, x, out, lse));
        assert_int_equal(e->memory.calls, 1); /* row keys */
        end(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(worked_example), cmocka_unit_test(visible_sets), cmocka_unit_test(strides),
                                       cmocka_unit_test(same_bits),      cmocka_unit_test(dropout),      cmocka_unit_test(nan_rules),
                                       cmocka_unit_test(bias_and_rotation), cmocka_unit_test(nothing_to_do), cmocka_unit_test(refused),
                                       cmocka_unit_test(vectors_by_distance),
                                       cmocka_unit_test(patterns), cmocka_unit_test(before_keys), cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
