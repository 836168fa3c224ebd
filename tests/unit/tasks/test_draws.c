#include "unit/tasks/toy.h"

#include <math.h>

#include "tasks/draws.h"

static qkv_classify_options defaults(void) {
    qkv_classify_options o = toy_options();
    o.dim = 128;
    o.heads = 4;
    o.ffn = 0;
    o.lr = 5e-4;
    o.embedding_lr = 0;
    o.vocab = 16000;
    o.epochs = 3;
    return o;
}

static void draws_are_legal_and_a_function_of_the_seed(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    qkv_classify_options o = defaults(), a, b;
    qkv_draws d, e;
    assert_int_equal(qkv_draws_make(&ctx, &o, NULL, 0, &d), QKV_OK);
    assert_int_equal(qkv_draws_open(&d), QKV_DRAW_AXES);
    qkv_draw(&d, 0, &o, &a);
    assert_memory_equal(&a, &o, sizeof o);
    o.seed = 4;
    assert_int_equal(qkv_draws_make(&ctx, &o, NULL, 0, &e), QKV_OK);
    int64_t layers = 0, most_ngrams = 0;
    double lowest = 1, highest = 0;
    for (int64_t i = 1; i <= 300; i++) {
        qkv_draw(&d, i, &d.start, &a);
        qkv_draw(&d, i, &d.start, &b);
        assert_memory_equal(&a, &b, sizeof a);
        qkv_draw(&e, i, &e.start, &b);
        b.seed = a.seed;
        assert_int_not_equal(memcmp(&a, &b, sizeof a), 0);
        if (qkv_classify_check(&ctx, &a) != QKV_OK) fail_msg("%s", ctx.message);
        assert_true(a.layers >= 1 && a.layers <= 3 && a.dim >= 64 && a.dim <= 256 && a.heads == a.dim / 32 && a.dim % 32 == 0);
        assert_true(a.lr >= 1e-4 && a.lr <= 3e-3 && a.epochs >= 1 && a.epochs <= 12 && a.vocab >= 2000 && a.vocab <= 32000);
        assert_true(a.ngrams >= 1 && a.ngrams <= 3 && a.dropout <= 0.5 && a.embedding_dropout <= 0.6 && a.token_dropout <= 0.4);
        assert_true(a.embedding_lr == 0 || (a.embedding_lr >= 0.95 * a.lr && a.embedding_lr <= 31 * a.lr));
        char text[32]; /* two digits, and the same bits back */
        snprintf(text, sizeof text, "%.2g", a.lr);
        assert_true(strtod(text, NULL) == a.lr);
        snprintf(text, sizeof text, "%.2g", a.embedding_lr);
        assert_true(strtod(text, NULL) == a.embedding_lr);
        snprintf(text, sizeof text, "%.2f", a.dropout);
        assert_true(strtod(text, NULL) == a.dropout);
        if (a.layers > layers) layers = a.layers;
        if (a.ngrams > most_ngrams) most_ngrams = a.ngrams;
        if (a.lr < lowest) lowest = a.lr;
        if (a.lr > highest) highest = a.lr;
    }
    assert_true(layers == 3 && most_ngrams == 3 && lowest < 1.5e-4 && highest > 2e-3);
}

static void what_is_fixed_stays(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    qkv_classify_options o = defaults(), a;
    qkv_draws d;
    static const char *const fixed[] = {"lr", "layers", "heads", "batch-rows", "ngrams"};
    o.heads = 3;
    o.dim = 96;
    o.ngrams = 0;
    assert_int_equal(qkv_draws_make(&ctx, &o, fixed, 5, &d), QKV_OK);
    assert_int_equal(qkv_draws_open(&d), QKV_DRAW_AXES - 3);
    bool moved = false;
    for (int64_t i = 1; i <= 50; i++) {
        qkv_draw(&d, i, &o, &a);
        assert_true(a.lr == o.lr && a.layers == o.layers && a.heads == 3 && a.dim % 3 == 0 && a.ngrams == 0);
        moved |= a.dim != o.dim && a.dropout != o.dropout;
    }
    assert_true(moved);
    /* what would have no effect is left alone */
    o.steps = 10;
    o.tokenizer = QKV_TOKENIZER_CHAR;
    assert_int_equal(qkv_draws_make(&ctx, &o, NULL, 0, &d), QKV_OK);
    for (int64_t i = 1; i <= 50; i++) {
        qkv_draw(&d, i, &o, &a);
        assert_true(a.epochs == o.epochs && a.vocab == o.vocab);
    }
    static const char *const unknown[] = {"lr", "learning-rate"};
    assert_int_equal(qkv_draws_make(&ctx, &o, unknown, 2, &d), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "'learning-rate'"));
}

/* How far draws are from the best, of those that start there. */
static double distance(const qkv_draws *d, const qkv_classify_options *best, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; i++) {
        qkv_classify_options a;
        qkv_draw(d, i, best, &a);
        sum += fabs(log(a.lr / best->lr));
    }
    return sum / (double)(to - from);
}

static void later_draws_are_near_the_best(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 1);
    const qkv_classify_options o = defaults();
    qkv_draws d;
    qkv_classify_options best = o;
    best.lr = 2e-4;
    double early = 0, late = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        qkv_classify_options s = o;
        s.seed = seed;
        assert_int_equal(qkv_draws_make(&ctx, &s, NULL, 0, &d), QKV_OK);
        early += distance(&d, &best, 1, 5);
        late += distance(&d, &best, 40, 44);
    }
    assert_true(late < 0.7 * early);
    assert_true(late > 0.05 * early);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_legal_and_a_function_of_the_seed),
        cmocka_unit_test(what_is_fixed_stays),
        cmocka_unit_test(later_draws_are_near_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
