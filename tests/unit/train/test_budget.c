/* The chooser: which ways are planned, in which order, and which is taken. */
#include "support.h"

#include "train/budget.h"

enum { MOST = 20 };

/* A run that needs `fixed` bytes, and so many for each token that is walked at a time; recomputing, a quarter of them. */
typedef struct run {
    int64_t fixed, each, tokens, longest;
    qkv_way tried[MOST];
    int count, fail_at;
} run;

static int64_t bytes_of(const run *r, qkv_way way) {
    int64_t tokens = way.piece_tokens > 0 ? way.piece_tokens : r->tokens;
    if (tokens < r->longest) tokens = r->longest;
    return r->fixed + tokens * (way.recompute ? r->each / 4 : r->each);
}

static qkv_status plan(void *self, qkv_way way, int64_t *bytes) {
    run *r = self;
    assert_true(r->count < MOST);
    r->tried[r->count++] = way;
    *bytes = bytes_of(r, way);
    return r->count == r->fail_at ? QKV_NO_MEMORY : QKV_OK;
}

static qkv_choice choose(run *r, int64_t limit, qkv_recompute_policy policy, bool pieces) {
    const qkv_budget b = {{limit, policy, pieces}, r->tokens, r->longest, plan, r};
    qkv_choice c;
    r->count = 0;
    assert_int_equal(qkv_budget_choose(&b, &c), QKV_OK);
    assert_int_equal(c.bytes, bytes_of(r, c.way));
    assert_int_equal(c.fits, limit <= 0 || c.bytes <= limit);
    return c;
}

static void is(qkv_choice c, bool recompute, int64_t piece, bool fits) {
    assert_int_equal(c.way.recompute, recompute);
    assert_int_equal(c.way.piece_tokens, piece);
    assert_int_equal(c.fits, fits);
}

static void as_asked_where_it_fits(void **state) {
    (void)state;
    run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100};
    const int64_t whole = 1000 + 40 * 4096;
    is(choose(&r, 0, QKV_RECOMPUTE_AUTO, true), false, 0, true); /* no limit is known */
    is(choose(&r, whole, QKV_RECOMPUTE_AUTO, true), false, 0, true);
    is(choose(&r, whole, QKV_RECOMPUTE_NONE, true), false, 0, true);
    assert_int_equal(r.count, 1); /* one plan costs enough */
    is(choose(&r, whole, QKV_RECOMPUTE_BLOCKS, true), true, 0, true);
    assert_int_equal(r.count, 1);
}

/* For every limit: nothing before the choice fits, and the choice does if anything does. */
static void the_first_that_fits(void **state) {
    (void)state;
    run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100};
    static const qkv_way order[] = {{false, 0},    {false, 2048}, {false, 1024}, {false, 512}, {false, 256}, {true, 0},
                                    {true, 2048},  {true, 1024},  {true, 512},   {true, 256},  {true, 128},  {true, 1}};
    for (int64_t limit = 500; limit < 170000; limit += 250) {
        qkv_choice c = choose(&r, limit, QKV_RECOMPUTE_AUTO, true);
        for (int i = 0; i < r.count; i++) {
            assert_int_equal(r.tried[i].recompute, order[i].recompute);
            assert_int_equal(r.tried[i].piece_tokens, order[i].piece_tokens);
            assert_int_equal(bytes_of(&r, order[i]) <= limit, c.fits && i == r.count - 1);
        }
        if (!c.fits) is(c, true, 1, false);
    }
}

static void policies(void **state) {
    (void)state;
    run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100};
    is(choose(&r, 1000 + 40 * 100, QKV_RECOMPUTE_NONE, true), false, 1, true); /* small pieces where there is no other way */
    is(choose(&r, 1000 + 40 * 100 - 1, QKV_RECOMPUTE_NONE, true), false, 1, false);
    is(choose(&r, 1000 + 10 * 1024, QKV_RECOMPUTE_BLOCKS, true), true, 1024, true);
    is(choose(&r, 1000 + 10 * 4096, QKV_RECOMPUTE_AUTO, false), true, 0, true); /* without pieces bits stay the same */
    is(choose(&r, 1000 + 10 * 4096 - 1, QKV_RECOMPUTE_AUTO, false), true, 0, false);
    is(choose(&r, 5, QKV_RECOMPUTE_NONE, false), false, 0, false);
    assert_int_equal(r.count, 1);
}

static void long_rows(void **state) {
    (void)state;
    run r = {.fixed = 0, .each = 40, .tokens = 4096, .longest = 1500};
    is(choose(&r, 40 * 2048, QKV_RECOMPUTE_AUTO, true), false, 2048, true);
    is(choose(&r, 40 * 1500, QKV_RECOMPUTE_AUTO, true), true, 0, true); /* 1024 would not be smaller than the longest row */
    is(choose(&r, 10 * 1500, QKV_RECOMPUTE_AUTO, true), true, 1, true);
    r.longest = 10000; /* a batch of its own: nothing helps but recomputation */
    is(choose(&r, 10 * 10000, QKV_RECOMPUTE_AUTO, true), true, 0, true);
    assert_int_equal(r.count, 2);
}

static void failures_are_handed_on(void **state) {
    (void)state;
    for (int k = 1; k <= 12; k++) {
        run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100, .fail_at = k};
        const qkv_budget b = {{1, QKV_RECOMPUTE_AUTO, true}, r.tokens, r.longest, plan, &r};
        qkv_choice c;
        assert_int_equal(qkv_budget_choose(&b, &c), QKV_NO_MEMORY);
        assert_int_equal(r.count, k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_asked_where_it_fits), cmocka_unit_test(the_first_that_fits),
                                       cmocka_unit_test(policies), cmocka_unit_test(long_rows),
                                       cmocka_unit_test(failures_are_handed_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
