/* One query of several heads together: the bits of each head alone, on every instruction set. */
#include "attention_case.h"

#include "kernels/cost.h"
#include "kernels/count.h"

enum { MOST = 40 };

typedef struct layout {
    int64_t kv_heads, group, dim, value_dim, n_k;
} layout;

/* What head h of a model has of its own; the rest of the problem is that of the first. */
static void make_heads(attention_case *c, layout l, tensor k, tensor v, tensor o, tensor lse, qkv_attend *heads) {
    for (int64_t h = 0; h < l.kv_heads * l.group; h++) {
        qkv_attend *a = &heads[h];
        *a = c->a;
        a->n_q = a->row1 = 1;
        a->row0 = 0;
        a->q = at(c->q, h, 0);
        a->k = at(k, 0, h / l.group * l.dim);
        a->k_row = k.ld;
        a->v = at(v, 0, h / l.group * l.value_dim);
        a->v_row = v.ld;
        a->o = at(o, h, 0);
        a->o_row = o.ld;
        a->lse = lse.p + h;
        if (a->alibi != 0) a->alibi *= (real)(h + 1);
        a->dropout.key += (uint64_t)h;
    }
}

static void check(const qkv_kernels *t, layout l, problem in) {
    int64_t n = l.kv_heads * l.group;
    in.n_q = n; /* rows of queries: one for each head */
    in.n_k = l.n_k;
    in.dim = l.dim;
    in.value_dim = l.value_dim;
    attention_case *c = case_make(in);
    tensor k = tensor_make(l.n_k, l.kv_heads * l.dim, 5), v = tensor_make(l.n_k, l.kv_heads * l.value_dim, 3);
    tensor_random(k, 31, in.spread);
    tensor_random(v, 32, 1);
    tensor o[2] = {tensor_make(n, l.value_dim, 1), tensor_make(n, l.value_dim, 1)}, lse[2] = {tensor_make(1, n, 0), tensor_make(1, n, 0)};
    qkv_attend heads[MOST];
    make_heads(c, l, k, v, o[0], lse[0], heads);
    for (int64_t h = 0; h < n; h++) run_forward(t, &heads[h]);
    make_heads(c, l, k, v, o[1], lse[1], heads);
    size_t size = (size_t)t->attend_decode_scratch(n, l.dim, l.value_dim);
    real *scratch = aligned_alloc(64, (size * sizeof(real) + 63) / 64 * 64);
    for (size_t i = 0; i < size; i++) scratch[i] = (real)NAN;
    t->attend_decode(heads, n, scratch);
    if (!same_bits(o[0], o[1])) describe("o of heads together differs", t, in, l.kv_heads, l.group);
    if (!same_bits(lse[0], lse[1])) describe("lse of heads together differs", t, in, l.kv_heads, l.group);
    for (int64_t h = 0; h < n; h++) assert_true(h + 1 == n || isnan(o[1].p[h * o[1].ld + l.value_dim])); /* nothing between rows */
    free(scratch);
    for (int i = 0; i < 2; i++) free(o[i].p), free(lse[i].p);
    free(k.p);
    free(v.p);
    case_free(c);
}

static void test_heads(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 64, 64}, {2, 1, 16, 16}, {3, 1, 20, 32}, {4, 1, 64, 64}, {5, 1, 7, 16},  {8, 1, 32, 48},
                                        {9, 2, 16, 16}, {1, 6, 24, 16}, {2, 3, 33, 16}, {7, 2, 8, 128}, {1, 40, 16, 16}, {16, 1, 16, 16}};
    static const int64_t lengths[] = {1, 3, 15, 16, 17, 64, 255, 256, 257, 600};
    const qkv_kernels *tables[5];
    int tables_n = all_tables(tables);
    for (int x = 0, turn = 0; x < (int)(sizeof shapes / sizeof *shapes); x++)
        for (int y = 0; y < (int)(sizeof lengths / sizeof *lengths); y++, turn++) {
            const int64_t *s = shapes[x];
            layout l = {s[0], s[1], s[2], s[3], lengths[y]};
            problem in = {.left = turn % 4 == 1 ? 20 : turn % 4 == 2 ? 300 : -1,
                          .right = turn % 3 ? -1 : 0,
                          .alibi = turn % 5 == 1 ? 0.1 : 0,
                          .softcap = turn % 5 == 2 ? 3 : 0,
                          .dropout = turn % 5 == 3 ? 0.2 : 0,
                          .bias = turn % 5 == 4 ? 20 : 0,
                          .spread = turn % 7 == 6 ? 150 : 1};
            for (int t = 0; t < tables_n; t++) check(tables[t], l, in);
        }
}

/* What is not finite where it is seen stays in its head; where it is hidden it is not read. */
static void test_not_finite(void **state) {
    (void)state;
    enum { HEADS = 6, KEYS = 70, DIM = 16 };
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    for (int t = 0; t < n; t++) {
        layout l = {HEADS, 1, DIM, DIM, KEYS};
        attention_case *c = case_make((problem){.n_q = HEADS, .n_k = KEYS, .dim = DIM, .value_dim = DIM, .left = 30, .right = 0});
        tensor k = tensor_make(KEYS, HEADS * DIM, 0), v = tensor_make(KEYS, HEADS * DIM, 0), o = tensor_make(HEADS, DIM, 0);
        tensor lse = tensor_make(1, HEADS, 0);
        tensor_random(k, 1, 1);
        tensor_random(v, 2, 1);
        *at(k, 3, 0) = *at(v, 3, 4) = (real)NAN;                 /* before the window */
        *at(k, 60, 2 * DIM) = *at(v, 61, 4 * DIM) = (real)INFINITY; /* seen, of heads 2 and 4 */
        qkv_attend heads[HEADS];
        make_heads(c, l, k, v, o, lse, heads);
        *at(c->q, 2, 0) = 1;
        real *scratch = aligned_alloc(64, ((size_t)tables[t]->attend_decode_scratch(HEADS, DIM, DIM) * sizeof(real) + 63) / 64 * 64);
        tables[t]->attend_decode(heads, HEADS, scratch);
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t x = 0; x < DIM; x++) {
                real y = *at(o, h, x);
                assert_true(h == 2 ? isnan(y) : h == 4 && x == 0 ? isinf(y) : isfinite(y));
            }
        free(scratch);
        free(k.p), free(v.p), free(o.p), free(lse.p);
        case_free(c);
    }
}

/* As many multiply-adds as the formula says for each head. */
static void test_cost(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 16, 50, 300};
    for (int i = 0; i < 4; i++)
        for (int64_t kv = 1; kv < 8; kv += 2) {
            layout l = {kv, 2, 24, 32, lengths[i]};
            problem in = {.n_q = kv * 2, .n_k = l.n_k, .dim = l.dim, .value_dim = l.value_dim, .left = i % 2 ? 20 : -1, .right = -1};
            attention_case *c = case_make(in);
            tensor k = tensor_make(l.n_k, kv * l.dim, 0), v = tensor_make(l.n_k, kv * l.value_dim, 0);
            tensor o = tensor_make(in.n_q, l.value_dim, 0), lse = tensor_make(1, in.n_q, 0);
            tensor_random(k, 1, 1);
            tensor_random(v, 2, 1);
            qkv_attend heads[MOST];
            make_heads(c, l, k, v, o, lse, heads);
            real *scratch = aligned_alloc(64, ((size_t)qkv_kernels_count.attend_decode_scratch(in.n_q, l.dim, l.value_dim) * sizeof(real) + 63) / 64 * 64);
            qkv_counted = (qkv_counts){0};
            qkv_kernels_count.attend_decode(heads, in.n_q, scratch);
            double executed = qkv_cost_attend_forward(1, l.n_k, in.left, in.right, l.dim, l.value_dim).executed;
            assert_int_equal(2 * qkv_counted.fma, (uint64_t)(executed * (double)in.n_q));
            free(scratch);
            free(k.p), free(v.p), free(o.p), free(lse.p);
            case_free(c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heads), cmocka_unit_test(test_not_finite), cmocka_unit_test(test_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
