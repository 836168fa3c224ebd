/* The same bits from attention: on every instruction set, for any split of the queries, in a longer sequence or alone. */
#include "attention_case.h"

static const int64_t spans[][2] = {{-1, -1}, {-1, 0}, {5, 3}, {40, 40}, {0, -1}, {100, 0}};
enum { SPANS = sizeof spans / sizeof *spans };

static problem problem_of(int turn) {
    static const int64_t lengths[][2] = {{1, 1}, {10, 10}, {33, 33}, {64, 64}, {100, 100}, {130, 130}, {7, 90}, {90, 7}, {300, 300}, {3, 600}};
    static const int64_t widths[][2] = {{1, 3}, {16, 16}, {24, 40}, {32, 32}, {64, 64}, {80, 17}, {128, 128}};
    static const double spreads[] = {1, 1, 20, 200};
    const int64_t *n = lengths[turn % 10], *d = widths[turn % 7], *s = spans[turn % SPANS];
    return (problem){.n_q = n[0],
                     .n_k = n[1],
                     .dim = d[0],
                     .value_dim = d[1],
                     .left = s[0],
                     .right = s[1],
                     .alibi = turn % 5 == 1 ? 0.3 : 0,
                     .softcap = turn % 5 == 2 ? 3 : 0,
                     .dropout = turn % 5 == 3 ? 0.2 : 0,
                     .spread = spreads[turn % 4],
                     .bias = turn % 6 == 4 ? 20 : 0,
                     .rope = turn % 6 == 5 ? d[0] / 2 * 2 : 0,
                     .interleaved = turn % 12 == 5,
                     .shaw = turn % 6 == 2 ? 1 + turn % 40 : 0,
                     .gap = turn % 2};
}

static void test_tables(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    for (int turn = 0; turn < 120; turn++) {
        problem in = problem_of(turn);
        attention_case *first = case_make(in);
        if (turn % 3 == 0 && in.n_k > 3) *at(first->k, 3, 0) = *at(first->v, 2, 0) = (real)NAN;
        run_forward(tables[0], &first->a);
        run_backward(tables[0], &first->a);
        tensor weights = tensor_make(in.n_q, in.n_k, 0);
        tables[0]->attend_weights(&first->a, weights.p);
        for (int t = 1; t < n; t++) {
            attention_case *c = case_make(in);
            if (turn % 3 == 0 && in.n_k > 3) *at(c->k, 3, 0) = *at(c->v, 2, 0) = (real)NAN;
            run_forward(tables[t], &c->a);
            run_backward(tables[t], &c->a);
            if (!same_bits(c->o, first->o)) describe("o differs", tables[t], in, 0, 0);
            if (!same_bits(c->lse, first->lse)) describe("lse differs", tables[t], in, 0, 0);
            if (!same_bits(c->dq, first->dq)) describe("dq differs", tables[t], in, 0, 0);
            if (!same_bits(c->dk, first->dk)) describe("dk differs", tables[t], in, 0, 0);
            if (!same_bits(c->dv, first->dv)) describe("dv differs", tables[t], in, 0, 0);
            if (!same_bits(c->bias_grad, first->bias_grad)) describe("bias gradient differs", tables[t], in, 0, 0);
            for (int x = 0; x < 2; x++)
                if (!same_bits(c->sums[x], first->sums[x])) describe("sums by distance differ", tables[t], in, x, 0);
            tensor other = tensor_make(in.n_q, in.n_k, 0);
            tables[t]->attend_weights(&c->a, other.p);
            if (!same_bits(other, weights)) describe("weights differ", tables[t], in, 0, 0);
            free(other.p);
            case_free(c);
        }
        free(weights.p);
        case_free(first);
    }
}

/* Any cut of the queries: which rows share a block must not show. */
static void test_splits(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    qkv_kernels_present(tables);
    for (int turn = 0; turn < 96; turn++) {
        problem in = problem_of(turn);
        in.n_q += 60 * (turn % 3); /* over the query tile */
        attention_case *whole = case_make(in), *parts = case_make(in);
        if (turn % 8 == 1 && in.n_k > 3) *at(whole->v, in.n_k - 1, 0) = *at(parts->v, in.n_k - 1, 0) = (real)NAN;
        if (turn % 4 == 0 && in.n_k > 3) *at(whole->v, 2, 0) = *at(parts->v, 2, 0) = (real)INFINITY;
        run_forward(tables[0], &whole->a);
        for (int64_t row = 0, step = 1 + turn % 11; row < in.n_q; row += step) {
            parts->a.row0 = row;
            parts->a.row1 = row + step < in.n_q ? row + step : in.n_q;
            run_forward(tables[0], &parts->a);
        }
        if (!same_bits(whole->o, parts->o)) describe("o depends on the cut", tables[0], in, 0, 0);
        if (!same_bits(whole->lse, parts->lse)) describe("lse depends on the cut", tables[0], in, 0, 0);
        case_free(whole);
        case_free(parts);
    }
}

/* Decoding: one query against the keys so far is the row of the full causal pass. */
static void test_decode(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    static const int64_t windows[] = {-1, 0, 17, 70};
    for (int t = 0; t < n; t++)
        for (int w = 0; w < 4; w++)
            for (int hard = 0; hard < 2; hard++) {
                int64_t rows = t == 0 ? 530 : 270;
                problem in = {.n_q = rows,
                              .n_k = rows,
                              .dim = 20,
                              .value_dim = w % 2 ? 12 : 16,
                              .bias = 40,
                              .rope = 8 * hard,
                              .shaw = hard ? 0 : 10 + w,
                              .left = windows[w],
                              .right = 0,
                              .alibi = 0.1,
                              .spread = hard ? 150 : 1};
                attention_case *c = case_make(in);
                run_forward(tables[t], &c->a);
                tensor o = tensor_make(1, in.value_dim, 0), lse = tensor_make(1, 1, 0);
                for (int64_t i = 0; i < in.n_q; i++) {
                    qkv_attend a = c->a;
                    a.n_q = a.row1 = 1;
                    a.n_k = i + 1;
                    if (hard) a.rope_k = ROPE_OFFSET;
                    a.q += i * a.q_row;
                    a.o = o.p;
                    a.lse = lse.p;
                    run_forward(tables[t], &a);
                    if (!same_bits(o, (tensor){at(c->o, i, 0), 1, in.value_dim, in.value_dim, 0}) || lse.p[0] != c->lse.p[i])
                        describe("decoded row differs", tables[t], in, i, 0);
                }
                free(o.p);
                free(lse.p);
                case_free(c);
            }
}

/* forward with lse = NULL, and a second run on the same buffers, give the same. */
static void test_repeat(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    qkv_kernels_present(tables);
    for (int turn = 0; turn < 16; turn++) {
        problem in = problem_of(turn);
        attention_case *c = case_make(in), *again = case_make(in);
        run_forward(tables[0], &c->a);
        run_forward(tables[0], &again->a);
        again->a.lse = NULL;
        run_forward(tables[0], &again->a);
        assert_true(same_bits(c->o, again->o));
        case_free(c);
        case_free(again);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
