/* The formulas of cost_attention.c against what the COUNT build of the kernels really multiplies. */
#include "attention_case.h"

#include "kernels/cost.h"
#include "kernels/count.h"

static const int64_t lengths[] = {0, 1, 2, 5, 16, 17, 64, 65, 130, 256, 300};
static const int64_t spans[][2] = {{-1, -1}, {-1, 0}, {0, -1}, {0, 0}, {3, 2}, {16, 16}, {30, 0}, {1000, 1000}, {-1, 7}};
static const int64_t widths[][2] = {{1, 1}, {8, 24}, {16, 16}, {33, 17}, {64, 64}};
enum { LENGTHS = sizeof lengths / sizeof *lengths, SPANS = sizeof spans / sizeof *spans, WIDTHS = sizeof widths / sizeof *widths };

static void test_pairs(void **state) {
    (void)state;
    for (int x = 0; x < LENGTHS; x++)
        for (int y = 0; y < LENGTHS; y++)
            for (int s = 0; s < SPANS; s++) {
                problem in = {.n_q = lengths[x], .n_k = lengths[y], .left = spans[s][0], .right = spans[s][1]};
                int64_t visible = 0;
                for (int64_t i = 0; i < in.n_q; i++)
                    for (int64_t j = 0; j < in.n_k; j++) visible += sees(in, i, j);
                assert_int_equal(qkv_span_pairs(in.n_q, in.n_k, in.left, in.right), visible);
                int64_t executed = qkv_span_pairs_executed(in.n_q, in.n_k, in.left, in.right);
                assert_true(executed >= visible && (visible > 0 || executed == 0));
            }
    assert_int_equal(qkv_span_pairs(7, 9, INT64_MAX, INT64_MAX), 63);
}

static void test_products(void **state) {
    (void)state;
    const qkv_kernels *t = &qkv_kernels_count;
    for (int x = 0, turn = 0; x < LENGTHS; x++)
        for (int s = 0; s < SPANS; s++, turn++)
            for (int unequal = 0; unequal < 2; unequal++) {
                const int64_t *d = widths[turn % WIDTHS];
                problem in = {.n_q = lengths[x],
                              .n_k = unequal ? lengths[(x + 4 + turn) % LENGTHS] : lengths[x],
                              .dim = d[0],
                              .value_dim = d[1],
                              .left = spans[s][0],
                              .right = spans[s][1],
                              .alibi = turn % 3 ? 0 : 0.1,
                              .softcap = turn % 4 ? 0 : 2,
                              .dropout = turn % 5 ? 0 : 0.1,
                              .bias = turn % 7 ? 0 : 9,
                              .rope = turn % 6 || d[0] < 2 ? 0 : d[0] / 2 * 2,
                              .shaw = turn % 6 == 1 ? 1 + turn % 20 : 0};
                attention_case *c = case_make(in);
                qkv_counted = (qkv_counts){0};
                run_forward(t, &c->a);
                double forward = 2 * (double)qkv_counted.fma;
                qkv_counted = (qkv_counts){0};
                run_backward(t, &c->a);
                double backward = 2 * (double)qkv_counted.fma;
                qkv_cost f = qkv_cost_attend_forward(in.n_q, in.n_k, in.left, in.right, in.dim, in.value_dim);
                qkv_cost b = qkv_cost_attend_backward(in.n_q, in.n_k, in.left, in.right, in.dim, in.value_dim);
                if (in.shaw > 0) {
                    f.executed += qkv_cost_attend_shaw_forward(in.n_k > 0 ? in.n_q : 0, in.shaw, in.dim, in.value_dim).executed;
                    b.executed += qkv_cost_attend_shaw_backward(in.n_k > 0 ? in.n_q : 0, in.shaw, in.dim, in.value_dim).executed;
                }
                if (f.executed != forward || b.executed != backward) {
                    print_message("forward %.0f, counted %.0f; backward %.0f, counted %.0f\n", f.executed, forward, b.executed,
                                  backward);
                    describe("formula", t, in, 0, 0);
                }
                case_free(c);
            }
}

/* A part of the queries that starts at a multiple of the block costs its share. */
static void test_exponentials(void **state) {
    (void)state;
    const qkv_kernels *t = &qkv_kernels_count;
    problem in = {.n_q = 130, .n_k = 130, .dim = 4, .value_dim = 4, .left = 20, .right = 10};
    attention_case *c = case_make(in);
    c->a.lse = NULL;
    qkv_counted = (qkv_counts){0};
    run_forward(t, &c->a);
    assert_int_equal(qkv_counted.math, qkv_span_pairs_executed(130, 130, 20, 10));
    uint64_t whole = qkv_counted.fma;
    qkv_counted = (qkv_counts){0};
    for (int64_t row = 0; row < 130; row += 48) {
        c->a.row0 = row;
        c->a.row1 = row + 48 < 130 ? row + 48 : 130;
        run_forward(t, &c->a);
    }
    assert_int_equal(qkv_counted.fma, whole);
    case_free(c);
}

/* What a window costs grows with the window and with the length, not with its square; halving the window shows. */
static void test_window_cost(void **state) {
    (void)state;
    double small = qkv_cost_attend_forward(4096, 4096, 64, 64, 64, 64).executed;
    double twice = qkv_cost_attend_forward(8192, 8192, 64, 64, 64, 64).executed;
    double wide = qkv_cost_attend_forward(4096, 4096, 128, 128, 64, 64).executed;
    double full = qkv_cost_attend_forward(4096, 4096, -1, -1, 64, 64).executed;
    assert_true(twice > 1.99 * small && twice < 2.05 * small);
    assert_true(wide > 1.7 * small && wide < 2 * small);
    assert_true(full > 20 * small);
    double causal = qkv_cost_attend_forward(4096, 4096, -1, 0, 64, 64).executed;
    assert_true(causal > 0.5 * full && causal < 0.51 * full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_exponentials),
        cmocka_unit_test(test_window_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
