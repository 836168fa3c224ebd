/* Attention kernels against the dense reference in double: outputs, log-sum-exp and all gradients. */
#include "attention_case.h"

static void check(const qkv_kernels *t, problem in) {
    attention_case *c = case_make(in);
    reference *r = reference_make(c);
    double spread = in.spread > 1 ? in.spread : 1;
    run_forward(t, &c->a);
    compare("o", t, in, c->o, r->o, TOLERANCE(2e-6) * spread);
    compare("lse", t, in, c->lse, r->lse, TOLERANCE(1e-6));
    run_backward(t, &c->a);
    compare("dq", t, in, c->dq, r->dq, TOLERANCE(4e-6) * spread);
    compare("dk", t, in, c->dk, r->dk, TOLERANCE(4e-6) * spread);
    compare("dv", t, in, c->dv, r->dv, TOLERANCE(4e-6) * spread);
    for (int64_t row = 1; row < c->bias_grad.rows; row++) /* the tiles together */
        for (int64_t x = 0; x < c->bias_grad.cols; x++) *at(c->bias_grad, 0, x) += *at(c->bias_grad, row, x);
    if (in.bias > 0 && in.n_k > 0 && in.n_q > 0)
        compare("bias gradient", t, in, (tensor){c->bias_grad.p, 1, c->bias_grad.cols, c->bias_grad.cols, 0}, r->dbias,
                TOLERANCE(2e-5) * spread); /* a sum over all pairs */
    if (in.shaw > 0 && in.n_k > 0) {
        compare("weights by distance", t, in, c->sums[0], r->weights, TOLERANCE(4e-6) * spread);
        compare("slopes by distance", t, in, c->sums[1], r->slopes, TOLERANCE(8e-6) * spread);
    }
    reference_free(r);
    case_free(c);
}

/* Small problems on every table, larger ones on the best. */
static void check_tables(problem in) {
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    if (in.n_q * in.n_k * (in.dim + in.value_dim) > 200000) n = 1;
    for (int i = 0; i < n; i++) check(tables[i], in);
}

static const int64_t spans[][2] = {{-1, -1}, {-1, 0}, {0, 0},       {3, 2},   {0, -1}, {16, 0},
                                   {-1, 5},  {7, -1}, {1000, 1000}, {40, 40}, {0, 9}};
enum { SPANS = sizeof spans / sizeof *spans };
static const int64_t widths[] = {1, 3, 8, 16, 24, 32, 48, 64, 80, 128};
enum { WIDTHS = sizeof widths / sizeof *widths };

static void test_grid(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 2, 5, 6, 16, 17, 63, 64, 65, 130, 200, 256, 300};
    int turn = 0;
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
        for (int d = 0; d < WIDTHS; d++)
            for (int again = 0; again < 2; again++, turn++)
                check_tables((problem){.n_q = lengths[n],
                                       .n_k = lengths[n],
                                       .dim = widths[d],
                                       .value_dim = again ? widths[(d + turn) % WIDTHS] : widths[d],
                                       .left = spans[turn % SPANS][0],
                                       .right = spans[turn % SPANS][1],
                                       .gap = turn % 3});
}

static void test_spans(void **state) {
    (void)state;
    static const int64_t lengths[][2] = {{5, 5},    {17, 17},  {70, 70}, {131, 131}, {1, 64}, {5, 130}, {130, 5},
                                         {17, 100}, {100, 17}, {64, 65}, {6, 257}, {257, 256}, {100, 530}, {0, 5},     {5, 0},  {7, 6}};
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
        for (int s = 0; s < SPANS; s++)
            check_tables((problem){.n_q = lengths[n][0],
                                   .n_k = lengths[n][1],
                                   .dim = 19,
                                   .value_dim = 21,
                                   .left = spans[s][0],
                                   .right = spans[s][1],
                                   .gap = 1});
    check_tables((problem){.n_q = 9, .n_k = 9, .dim = 4, .value_dim = 4, .left = INT64_MAX, .right = INT64_MAX});
}

static void test_terms(void **state) {
    (void)state;
    for (int s = 0; s < SPANS; s++) {
        problem in = {.n_q = 71, .n_k = 83, .dim = 20, .value_dim = 24, .left = spans[s][0], .right = spans[s][1], .gap = 1};
        in.alibi = 0.25;
        check_tables(in);
        in.softcap = 1.5;
        check_tables(in);
        in.alibi = 0;
        check_tables(in);
        in.dropout = 0.3;
        check_tables(in);
        in.softcap = 0;
        check_tables(in);
        in.alibi = 0.0625;
        check_tables(in);
    }
}

/* A bias by distance and rotation, alone and with the other terms, over several key tiles. */
static void test_bias_and_rotation(void **state) {
    (void)state;
    static const int64_t lengths[][2] = {{71, 83}, {9, 5}, {40, 300}, {110, 530}};
    for (int s = 0, turn = 0; s < SPANS; s++)
        for (int n = 0; n < 4; n++, turn++) {
            problem in = {.n_q = lengths[n][0], .n_k = lengths[n][1], .dim = 20, .value_dim = 16, .left = spans[s][0], .right = spans[s][1], .gap = 1};
            in.bias = 1 + turn % 4 * 9;
            check_tables(in);
            in.rope = turn % 3 == 0 ? 20 : 12;
            in.interleaved = turn % 2;
            in.softcap = turn % 3 ? 0 : 2;
            in.dropout = turn % 4 ? 0 : 0.2;
            check_tables(in);
            in.bias = 0;
            in.dim = 70;
            in.rope = 64 + turn % 4 * 2;
            in.alibi = 0.125;
            check_tables(in);
        }
}

/* Vectors by distance, whose limits fall anywhere into the vectors of keys, alone and with the other terms. */
static void test_vectors_by_distance(void **state) {
    (void)state;
    static const int64_t lengths[][2] = {{1, 1}, {7, 7}, {71, 83}, {9, 5}, {40, 300}, {110, 530}, {130, 60}};
    static const int64_t reaches[] = {1, 2, 7, 8, 15, 16, 17, 40, QKV_ATTEND_REACH};
    for (int s = 0, turn = 0; s < SPANS; s++)
        for (int n = 0; n < 7; n++, turn++) {
            problem in = {.n_q = lengths[n][0], .n_k = lengths[n][1], .dim = 20, .value_dim = 16, .left = spans[s][0], .right = spans[s][1], .gap = 1};
            in.shaw = reaches[turn % 9];
            check_tables(in);
            in.alibi = turn % 3 ? 0 : 0.125;
            in.bias = turn % 2 * 5;
            in.softcap = turn % 3 ? 0 : 2;
            in.dropout = turn % 4 ? 0 : 0.2;
            in.value_dim = 37;
            in.spread = turn % 5 || in.softcap != 0 ? 1 : 20; /* maxima move on the way */
            check_tables(in);
        }
}

/* Key tiles one by one, each with scratch of its own beside what they share, are the whole. */
static void test_parts(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    for (int t = 0; t < n; t++)
        for (int s = 0; s < SPANS; s++) {
            problem in = {.n_q = 210, .n_k = 530, .dim = 18, .value_dim = 16, .left = spans[s][0], .right = spans[s][1], .bias = 5, .spread = 4};
            if (s % 2) in.rope = 8;
            else in.shaw = 9;
            attention_case *whole = case_make(in), *parts = case_make(in);
            run_forward(tables[t], &whole->a);
            run_forward(tables[t], &parts->a);
            run_backward(tables[t], &whole->a);
            int64_t shared = tables[t]->attend_shared_scratch(in.n_q, in.dim, in.value_dim);
            int64_t own = tables[t]->attend_backward_scratch(in.n_q, in.n_k, in.dim, in.value_dim) - shared;
            parts->a.shared = scratch_make(shared);
            parts->a.shaw_work = scratch_make(in.shaw ? tables[t]->attend_shaw_work(in.n_q, in.shaw, true) : 0);
            for (int64_t key = 0; key < in.n_k; key += QKV_ATTEND_KEYS) {
                real *scratch = scratch_make(own);
                parts->a.key0 = key;
                parts->a.key1 = key + QKV_ATTEND_KEYS < in.n_k ? key + QKV_ATTEND_KEYS : in.n_k;
                tables[t]->attend_backward(&parts->a, scratch);
                free(scratch);
            }
            free(parts->a.shared);
            free(parts->a.shaw_work);
            for (int x = 0; x < 2; x++)
                if (!same_bits(whole->sums[x], parts->sums[x])) describe("sums by distance of parts", tables[t], in, x, 0);
            if (!same_bits(whole->dq, parts->dq)) describe("dq of parts", tables[t], in, 0, 0);
            if (!same_bits(whole->dk, parts->dk)) describe("dk of parts", tables[t], in, 0, 0);
            if (!same_bits(whole->dv, parts->dv)) describe("dv of parts", tables[t], in, 0, 0);
            if (!same_bits(whole->bias_grad, parts->bias_grad)) describe("bias gradient of parts", tables[t], in, 0, 0);
            case_free(whole);
            case_free(parts);
        }
}

/* Scores of large deviation move the maximum often, and leave most weights 0. */
static void test_spread(void **state) {
    (void)state;
    static const double spreads[] = {8, 30, 100};
    for (int i = 0; i < 3; i++)
        for (int s = 0; s < 5; s++)
            check_tables((problem){.n_q = 90,
                                   .n_k = i == 1 ? 300 : 150,
                                   .dim = 16,
                                   .value_dim = 16,
                                   .left = spans[s][0],
                                   .right = spans[s][1],
                                   .spread = spreads[i]});
}

/* Beyond 2^20 the maximum is subtracted first; scores there are whole or coarse, so the softmax is one key or a tie. */
static void test_huge_scores(void **state) {
    (void)state;
    static const double sizes[] = {0x1p19, 0x1p21, 0x1p30, 1e30};
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    for (int x = 0; x < 4; x++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int i = 0; i < n; i++) {
                problem in = {.n_q = 7, .n_k = 70, .dim = 1, .value_dim = 2, .left = -1, .right = -1};
                attention_case *c = case_make(in);
                for (int64_t r = 0; r < in.n_q; r++) *at(c->q, r, 0) = (real)(sign * sizes[x]);
                for (int64_t j = 0; j < in.n_k; j++)
                    *at(c->k, j, 0) = (real)(sign * (j == 3 || j == 66 ? 1 : j == 65 ? 0.5 : 0.25));
                run_forward(tables[i], &c->a);
                for (int64_t r = 0; r < in.n_q; r++)
                    for (int64_t v = 0; v < 2; v++) {
                        double want = ((double)*at(c->v, 3, v) + (double)*at(c->v, 66, v)) / 2;
                        if (!(fabs((double)*at(c->o, r, v) - want) < 1e-6)) describe("huge scores", tables[i], in, r, v);
                    }
                case_free(c);
            }
}

static void test_rows_that_see_nothing(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    for (int i = 0; i < n; i++) {
        problem in = {.n_q = 20, .n_k = 7, .dim = 5, .value_dim = 6, .left = -1, .right = 0};
        attention_case *c = case_make(in);
        *at(c->d_o, 3, 2) = (real)NAN;
        *at(c->q, 4, 1) = (real)NAN;
        run_forward(tables[i], &c->a);
        run_backward(tables[i], &c->a);
        for (int64_t r = 0; r < 13; r++) {
            assert_true(*at(c->lse, 0, r) == -(real)INFINITY);
            for (int64_t v = 0; v < 6; v++) assert_true(*at(c->o, r, v) == 0);
            for (int64_t l = 0; l < 5; l++) assert_true(*at(c->dq, r, l) == 0);
        }
        for (int64_t j = 0; j < 7; j++)
            for (int64_t l = 0; l < 5; l++) assert_true(isfinite(*at(c->dk, j, l)) && isfinite(*at(c->dv, j, l)));
        case_free(c);
    }
}

/* One bad number in each input in turn: what sees it is NaN in the reference too, and nothing else is. */
static void test_not_finite(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int t = 0; t < n; t++)
        for (int s = 0; s < SPANS; s++)
            for (int which = 0; which < 4; which++)
                for (int b = 0; b < 3; b++) {
                    problem in = {.n_q = 75, .n_k = 75, .dim = 6, .value_dim = 18, .left = spans[s][0], .right = spans[s][1]};
                    attention_case *c = case_make(in);
                    tensor x = which == 0 ? c->q : which == 1 ? c->k : which == 2 ? c->v : c->d_o;
                    *at(x, 21, 4) = (real)bad[b];
                    *at(x, 68, 1) = (real)bad[b];
                    reference *r = reference_make(c);
                    run_forward(tables[t], &c->a);
                    compare("o with a bad input", tables[t], in, c->o, r->o, TOLERANCE(2e-6));
                    if (b == 0 || which != 1) compare("lse with a bad input", tables[t], in, c->lse, r->lse, TOLERANCE(2e-6));
                    run_backward(tables[t], &c->a);
                    if (b == 0) { /* of an infinity, which gradients are NaN depends on the order of operations */
                        compare("dq with a bad input", tables[t], in, c->dq, r->dq, TOLERANCE(4e-6));
                        compare("dk with a bad input", tables[t], in, c->dk, r->dk, TOLERANCE(4e-6));
                        compare("dv with a bad input", tables[t], in, c->dv, r->dv, TOLERANCE(4e-6));
                    } else { /* but what does not see it is the reference's */
                        for (int64_t i = 0; i < in.n_q; i++)
                            for (int64_t l = 0; l < in.dim; l++)
                                if (isfinite(r->dq[i * in.dim + l]) && !isfinite(*at(c->dq, i, l)))
                                    if (!(which == 1 && (sees(in, i, 21) || sees(in, i, 68))))
                                        describe("an infinity leaks into dq", tables[t], in, i, l);
                    }
                    reference_free(r);
                    case_free(c);
                }
}

static void test_add_kv(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    static const int64_t lengths[][2] = {{70, 70}, {0, 5}, {9, 3}};
    for (int t = 0; t < n; t++)
        for (int x = 0; x < 3; x++) {
            problem in = {.n_q = lengths[x][0], .n_k = lengths[x][1], .dim = 17, .value_dim = 5, .left = 9, .right = 0};
            attention_case *c = case_make(in), *plain = case_make(in);
            run_forward(tables[t], &plain->a);
            run_backward(tables[t], &plain->a);
            run_forward(tables[t], &c->a);
            tensor_random(c->dk, 8, 1);
            tensor_random(c->dv, 9, 1);
            double *dk = widen(c->dk), *dv = widen(c->dv);
            for (int64_t j = 0; j < in.n_k; j++) {
                for (int64_t l = 0; l < 17; l++) dk[j * 17 + l] += (double)*at(plain->dk, j, l);
                for (int64_t l = 0; l < 5; l++) dv[j * 5 + l] += (double)*at(plain->dv, j, l);
            }
            c->a.add_kv = true;
            run_backward(tables[t], &c->a);
            compare("dk added", tables[t], in, c->dk, dk, TOLERANCE(2e-7));
            compare("dv added", tables[t], in, c->dv, dv, TOLERANCE(2e-7));
            assert_true(same_bits(c->dq, plain->dq));
            free(dk);
            free(dv);
            case_free(c);
            case_free(plain);
        }
}

static void test_weights(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    int n = all_tables(tables);
    for (int t = 0; t < n; t++)
        for (int s = 0; s < SPANS; s++) {
            problem in = {.n_q = 41, .n_k = 37, .dim = 21, .value_dim = 1, .left = spans[s][0], .right = spans[s][1]};
            in.alibi = s % 2 ? 0.125 : 0;
            in.softcap = s % 3 ? 0 : 2;
            in.bias = s % 4 == 1 ? 6 : 0;
            in.rope = s % 4 == 2 ? 20 : 0;
            in.interleaved = s % 8 == 2;
            in.shaw = s % 4 == 3 ? 9 : 0;
            attention_case *c = case_make(in);
            *at(c->k, 11, 3) = (real)(s == 7 ? NAN : 0.5);
            reference *r = reference_make(c);
            tensor w = tensor_make(in.n_q, in.n_k, 0), part = tensor_make(9, in.n_k, 0);
            tables[t]->attend_weights(&c->a, w.p);
            compare("weights", tables[t], in, w, r->p, TOLERANCE(1e-6));
            c->a.row0 = 14;
            c->a.row1 = 23;
            tables[t]->attend_weights(&c->a, part.p);
            assert_true(same_bits(part, (tensor){w.p + 14 * in.n_k, 9, in.n_k, in.n_k, 0}));
            free(w.p);
            free(part.p);
            reference_free(r);
            case_free(c);
        }
}

/* The reference's own gradients, by central differences of its own forward pass. */
static void test_reference(void **state) {
    (void)state;
    problem in = {
        .n_q = 6, .n_k = 7, .dim = 3, .value_dim = 4, .left = 3, .right = 1, .alibi = 0.2, .softcap = 0.8, .dropout = 0.3};
    attention_case *c = case_make(in);
    reference *r = reference_make(c);
    const double *gradients[] = {r->dq, r->dk, r->dv};
    double *inputs[] = {r->q, r->k, r->v};
    int64_t sizes[] = {in.n_q * in.dim, in.n_k * in.dim, in.n_k * in.value_dim};
    for (int x = 0; x < 3; x++)
        for (int64_t i = 0; i < sizes[x]; i++) {
            double loss[2], before = inputs[x][i];
            for (int side = 0; side < 2; side++) {
                inputs[x][i] = before + (side ? 1e-5 : -1e-5);
                reference_forward(c, r);
                loss[side] = 0;
                for (int64_t e = 0; e < in.n_q * in.value_dim; e++) loss[side] += r->o[e] * r->d_o[e];
            }
            inputs[x][i] = before;
            assert_true(fabs((loss[1] - loss[0]) / 2e-5 - gradients[x][i]) < 1e-8);
        }
    reference_free(r);
    case_free(c);
}

/* With equal scores and v = 1, o is the share of kept weights divided by 1 - p: its mean is 1. */
static void test_dropout_rate(void **state) {
    (void)state;
    const qkv_kernels *tables[5];
    qkv_kernels_present(tables);
    for (int x = 1; x < 10; x += 2) {
        problem in = {.n_q = 100, .n_k = 400, .dim = 2, .value_dim = 1, .left = -1, .right = -1, .dropout = 0.1 * x};
        attention_case *c = case_make(in);
        tensor_random(c->q, 1, 0);
        for (int64_t j = 0; j < in.n_k; j++) *at(c->v, j, 0) = 1;
        run_forward(tables[0], &c->a);
        double mean = 0;
        for (int64_t i = 0; i < in.n_q; i++) mean += (double)*at(c->o, i, 0) / (double)in.n_q;
        double deviation = sqrt(in.dropout / (1 - in.dropout) / (double)(in.n_q * in.n_k));
        assert_true(fabs(mean - 1) < 4 * deviation);
        case_free(c);
    }
}

/* Two keys share a number, a half each; neighbours have one each; rows have keys of their own. */
static void test_dropout_is_independent(void **state) {
    (void)state;
    enum { ROWS = 4000, KEYS = 64 };
    static const struct {
        int rows, keys;
    } apart[] = {{0, 1}, {0, 16}, {0, 32}, {1, 0}, {1, 16}};
    for (int a = 0; a < 5; a++) {
        const double p = a % 2 ? 0.1 : 0.5, expected = p * p;
        int64_t both = 0, pairs = 0;
        for (int i = 0; i + apart[a].rows < ROWS; i++)
            for (int j = 0; j + apart[a].keys < KEYS; j++, pairs++)
                both += !draw_keeps(7, (uint64_t)i, j, p) && !draw_keeps(7, (uint64_t)(i + apart[a].rows), j + apart[a].keys, p);
        const double deviation = sqrt(2 * expected * (1 - expected) / (double)pairs); /* a number is in two pairs */
        assert_true(fabs((double)both / (double)pairs - expected) < 4 * deviation);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_bias_and_rotation),
        cmocka_unit_test(test_vectors_by_distance),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_huge_scores),
        cmocka_unit_test(test_rows_that_see_nothing),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_add_kv),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_dropout_rate),
        cmocka_unit_test(test_dropout_is_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
