/* What is seen of attention, against plain loops over the same rows in double; and that the pass it is seen in stays as it is. */
#include "ops.h"

#include "ops/attention_watch.h"

enum { HEADS = 2, WIDTH = 4, SEQUENCES = 4 };
static const int64_t OFFSET[SEQUENCES + 1] = {0, 21, 21, 22, 29};

static bool is_global(const qkv_attention_shape *s, int64_t at) { return s->pattern.global_every > 0 && at % s->pattern.global_every == 0; }

static bool sees(const qkv_attention_shape *s, int64_t i, int64_t j) {
    if (is_global(s, i) || is_global(s, j)) return true;
    return (s->left < 0 || i - j <= s->left) && (s->right < 0 || j - i <= s->right);
}

static double score(const qkv_attention_shape *s, const real *q, const real *k) {
    double x = 0;
    for (int c = 0; c < WIDTH; c++) x += (double)q[c] * (double)k[c];
    x *= (double)s->scale;
    return s->softcap > 0 ? (double)s->softcap * tanh(x / (double)s->softcap) : x;
}

static void plain_row(const qkv_attention_shape *s, const real *q, qkv_mat k, int64_t from, int64_t n, int64_t i, qkv_watched *w) {
    double top = -INFINITY, sum = 0, entropy = 0;
    int64_t keys = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int64_t j = 0; j < n; j++) {
            if (!sees(s, i, j)) continue;
            const double x = score(s, q, k.p + (from + j) * k.ld);
            if (pass == 0) top = fmax(top, x), keys++;
            if (pass == 1) sum += exp(x - top);
            if (pass == 2) entropy -= exp(x - top) / sum * (x - top - log(sum));
        }
    if (keys < 2) return;
    w->score = w->rows ? fmax(w->score, top) : top;
    w->evenness += entropy / log((double)keys);
    w->rows++;
}

static void as_plain_loops(void **state) {
    (void)state;
    static const qkv_attention_shape shapes[] = {{.left = -1, .right = -1, .scale = (real)0.5},
                                                 {.left = -1, .right = 0, .scale = 3},
                                                 {.left = 2, .right = 1, .scale = (real)0.5, .softcap = (real)0.8},
                                                 {.left = 0, .right = 0, .scale = 1},
                                                 {.left = 2, .right = 1, .scale = 1, .pattern = {.global_every = 10}},
                                                 {.left = 2, .right = 1, .scale = 1, .pattern = {.global_every = 10}}};
    for (size_t t = 0; t < sizeof shapes / sizeof *shapes; t++) {
        ops_bench one, *bench = &one;
        ops_start(bench, 2);
        ops_ready(bench, 1 << 20);
        qkv_attention_shape s = shapes[t];
        s.sequences = SEQUENCES, s.q_offset = s.k_offset = OFFSET;
        s.heads = HEADS, s.kv_heads = 1, s.dim = s.value_dim = WIDTH;
        const int64_t rows = OFFSET[SEQUENCES];
        qkv_mat q = ops_mat(rows, HEADS * WIDTH, HEADS * WIDTH + 3, 1), k = ops_mat(rows, WIDTH, WIDTH + 1, 2),
                v = ops_mat(rows, WIDTH, WIDTH, 3);
        /* of global tokens, in the last */
        qkv_mat gq = ops_mat(rows, HEADS * WIDTH, HEADS * WIDTH, 4), gk = ops_mat(rows, WIDTH, WIDTH, 5);
        const qkv_apart apart = {.q = qkv_heads_of(gq, WIDTH), .k = qkv_heads_of(gk, WIDTH), .v = qkv_heads_of(v, WIDTH)};
        if (t == 5) s.apart = &apart;
        qkv_watched seen[2 * HEADS] = {{0}}, plain[HEADS] = {{0}};
        qkv_watch watch = {.layers = 2, .heads = HEADS, .of = seen};
        qkv_exec planned = {.ctx = &bench->ctx, .plan = true, .reg = &bench->reg};
        qkv_watch nowhere = {.layers = 2, .heads = HEADS};
        OPS_OK(qkv_attend_watch(&planned, &nowhere, &s, qkv_heads_of((qkv_mat){.ld = q.ld}, WIDTH),
                                qkv_heads_of((qkv_mat){.ld = k.ld}, WIDTH), qkv_heads_of((qkv_mat){.ld = v.ld}, WIDTH)));
        OPS_OK(qkv_attend_watch(&bench->x, &watch, &s, qkv_heads_of(q, WIDTH), qkv_heads_of(k, WIDTH), qkv_heads_of(v, WIDTH)));
        assert_int_equal(planned.arena.peak, bench->x.arena.peak);
        assert_int_equal(watch.layer, 1);
        for (int64_t i = 0, globals = 0; i < SEQUENCES; i++) {
            const int64_t from = OFFSET[i], n = OFFSET[i + 1] - from;
            for (int64_t r = 0; r < n; r++) {
                const bool own = s.apart && is_global(&s, r);
                const real *row = own ? gq.p + globals * gq.ld : q.p + (from + r) * q.ld;
                globals += own;
                for (int h = 0; h < HEADS && r >= n - QKV_WATCH_ROWS; h++) plain_row(&s, row + h * WIDTH, own ? gk : k, from, n, r, &plain[h]);
            }
        }
        for (int h = 0; h < HEADS; h++) {
            assert_int_equal(seen[h].rows, plain[h].rows);
            ops_near("entropy", seen[h].evenness, plain[h].evenness, 2e-5);
            ops_near("score", seen[h].score, plain[h].score, 2e-5);
            assert_int_equal(seen[HEADS + h].rows, 0);
        }
        free(q.p);
        free(k.p);
        free(v.p);
        free(gq.p);
        free(gk.p);
        ops_end(bench);
    }
}

/* Equal scores are uniform, one key far above all others is none of it, and what is not a number stays so. */
static void extremes(void **state) {
    (void)state;
    static const int64_t offset[] = {0, 9};
    for (int t = 0; t < 3; t++) {
        ops_bench one, *bench = &one;
        ops_start(bench, 1);
        ops_ready(bench, 1 << 20);
        qkv_attention_shape s = {.sequences = 1,
                                 .q_offset = offset,
                                 .k_offset = offset,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .dim = 1,
                                 .value_dim = 1,
                                 .scale = 1,
                                 .left = -1,
                                 .right = -1};
        real q[9], k[9];
        for (int i = 0; i < 9; i++) q[i] = t ? 1 : 0, k[i] = i == 4 ? 500 : 1;
        if (t == 2) k[3] = (real)NAN;
        qkv_watched seen = {0};
        qkv_watch watch = {.layers = 1, .heads = 1, .of = &seen};
        OPS_OK(qkv_attend_watch(&bench->x, &watch, &s, (qkv_heads){q, 1, 1}, (qkv_heads){k, 1, 1}, (qkv_heads){k, 1, 1}));
        assert_int_equal(seen.rows, 9);
        if (t == 2)
            assert_true(isnan(seen.evenness) && isnan(seen.score));
        else
            ops_near("entropy", seen.evenness / 9, t ? 0 : 1, 1e-6), ops_near("score", seen.score, t ? 500 : 0, 1e-6);
        assert_int_equal(qkv_attend_watch(&bench->x, &watch, &s, (qkv_heads){q, 1, 1}, (qkv_heads){k, 1, 1}, (qkv_heads){k, 1, 1}),
                         QKV_INTERNAL);
        ops_end(bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_loops), cmocka_unit_test(extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
