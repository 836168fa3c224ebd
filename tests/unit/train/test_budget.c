/* The chooser: which ways are planned, in which order, and which is taken. */
#include "support.h"

#include "train/budget.h"

enum { MOST = 40 };

/* A run that needs `fixed` bytes, and so many for each token that is walked at a time, less where something is computed again. */
typedef struct run {
    int64_t fixed, each, tokens, longest;
    qkv_way tried[MOST];
    int count, fail_at;
} run;

static int64_t bytes_of(const run *r, qkv_way way) {
    int64_t tokens = way.piece_tokens > 0 ? way.piece_tokens : r->tokens, eighths = 8 - way.saving.again;
    if (tokens < r->longest) tokens = r->longest;
    if (way.saving.every > 0) eighths -= 4;
    if (way.saving.ffn_rows > 0) eighths--;
    return r->fixed + tokens * r->each * eighths / 8;
}

static qkv_status plan(void *self, qkv_way way, int64_t *bytes) {
    run *r = self;
    assert_true(r->count < MOST);
    r->tried[r->count++] = way;
    *bytes = bytes_of(r, way);
    return r->count == r->fail_at ? QKV_NO_MEMORY : QKV_OK;
}

static void same(qkv_way a, qkv_way b) {
    assert_int_equal(a.saving.again, b.saving.again);
    assert_int_equal(a.saving.every, b.saving.every);
    assert_int_equal(a.saving.ffn_rows, b.saving.ffn_rows);
    assert_int_equal(a.piece_tokens, b.piece_tokens);
}

static qkv_choice choose_in(run *r, qkv_room room) {
    const qkv_budget b = {room, r->tokens, r->longest, plan, r};
    qkv_choice c;
    r->count = 0;
    assert_int_equal(qkv_budget_choose(&b, &c), QKV_OK);
    assert_int_equal(c.bytes, bytes_of(r, c.way));
    same(r->tried[r->count - 1], c.way);
    assert_int_equal(c.fits, room.limit <= 0 || c.bytes <= room.limit);
    return c;
}

static qkv_choice choose(run *r, int64_t limit, qkv_recompute_policy policy, bool pieces) {
    return choose_in(r, (qkv_room){.limit = limit, .recompute = policy, .layers = 6, .pieces = pieces});
}

static const qkv_saving NONE = {0}, POINTWISE = {QKV_AGAIN_POINTWISE, 0, 0}, ATTENTION = {QKV_AGAIN_ATTENTION, 0, 0},
                        PARTS = {QKV_AGAIN_ATTENTION, 0, QKV_FFN_ROWS}, BLOCKS = {QKV_AGAIN_NOTHING, 1, 0},
                        ALL = {QKV_AGAIN_ATTENTION, 1, QKV_FFN_ROWS};

static void is(qkv_choice c, qkv_saving saving, int64_t piece, bool fits) {
    same(c.way, (qkv_way){saving, piece});
    assert_int_equal(c.fits, fits);
}

static void as_asked_where_it_fits(void **state) {
    (void)state;
    run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100};
    const int64_t whole = 1000 + 40 * 4096;
    is(choose(&r, 0, QKV_RECOMPUTE_AUTO, true), NONE, 0, true); /* no limit is known */
    is(choose(&r, whole, QKV_RECOMPUTE_AUTO, true), NONE, 0, true);
    is(choose(&r, whole, QKV_RECOMPUTE_NONE, true), NONE, 0, true);
    assert_int_equal(r.count, 1); /* one plan costs enough */
    is(choose(&r, whole, QKV_RECOMPUTE_BLOCKS, true), BLOCKS, 0, true);
    is(choose(&r, whole, QKV_RECOMPUTE_ATTENTION, true), ATTENTION, 0, true);
    is(choose(&r, whole, QKV_RECOMPUTE_POINTWISE, true), POINTWISE, 0, true);
    assert_int_equal(r.count, 1);
}

/* For every limit: nothing before the choice fits, and the choice does if anything does. Where not even the last does, no other is
 * looked at. */
static void the_first_that_fits(void **state) {
    (void)state;
    run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100};
    const qkv_saving levels[] = {NONE, POINTWISE, ATTENTION, PARTS, BLOCKS, ALL};
    qkv_way order[MOST];
    int ways = 0;
    for (int i = 0; i < 6; i++)
        for (int64_t piece = 4096; piece >= (i < 5 ? 256 : 128); piece /= 2) order[ways++] = (qkv_way){levels[i], piece < 4096 ? piece : 0};
    order[ways++] = (qkv_way){ALL, 1};
    for (int64_t limit = 500; limit < 170000; limit += 250) {
        qkv_choice c = choose(&r, limit, QKV_RECOMPUTE_AUTO, true);
        same(r.tried[0], order[0]);
        if (r.count > 1) same(r.tried[1], order[ways - 1]);
        int first = 0;
        while (first < ways && bytes_of(&r, order[first]) > limit) first++;
        if (first == ways) is(c, ALL, 1, false), assert_int_equal(r.count, 2);
        else same(c.way, order[first]);
        for (int i = 2; i < r.count; i++) same(r.tried[i], order[i - 1]);
    }
}

static void policies(void **state) {
    (void)state;
    run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100};
    is(choose(&r, 1000 + 40 * 100, QKV_RECOMPUTE_NONE, true), NONE, 1, true); /* small pieces where there is no other way */
    is(choose(&r, 1000 + 40 * 100 - 1, QKV_RECOMPUTE_NONE, true), NONE, 1, false);
    is(choose(&r, 1000 + 20 * 1024, QKV_RECOMPUTE_BLOCKS, true), BLOCKS, 1024, true);
    is(choose(&r, 1000 + 20 * 4096, QKV_RECOMPUTE_AUTO, false), BLOCKS, 0, true); /* without pieces bits stay the same */
    is(choose(&r, 1000 + 5 * 4096 - 1, QKV_RECOMPUTE_AUTO, false), ALL, 0, false);
    is(choose(&r, 5, QKV_RECOMPUTE_NONE, false), NONE, 0, false);
    assert_int_equal(r.count, 1);
    static const int64_t roots[][2] = {{1, 1}, {2, 1}, {3, 2}, {6, 2}, {7, 3}, {12, 3}, {24, 5}};
    for (int i = 0; i < 7; i++) {
        qkv_choice c = choose_in(&r, (qkv_room){.recompute = QKV_RECOMPUTE_SQRT, .layers = roots[i][0]});
        is(c, (qkv_saving){QKV_AGAIN_NOTHING, roots[i][1], 0}, 0, true);
    }
    is(choose_in(&r, (qkv_room){.recompute = QKV_RECOMPUTE_BLOCKS, .every = 4, .ffn_rows = 99}), (qkv_saving){QKV_AGAIN_NOTHING, 4, 99}, 0, true);
    is(choose_in(&r, (qkv_room){.limit = 1, .recompute = QKV_RECOMPUTE_AUTO, .ffn_rows = 99}), (qkv_saving){QKV_AGAIN_ATTENTION, 1, 99}, 0, false);
    is(choose_in(&r, (qkv_room){.limit = 1, .recompute = QKV_RECOMPUTE_AUTO, .recurrent = true}), BLOCKS, 0, false);
    is(choose_in(&r, (qkv_room){.limit = 1, .recompute = QKV_RECOMPUTE_AUTO, .reversible = true}), (qkv_saving){QKV_AGAIN_NOTHING, 0, QKV_FFN_ROWS},
       0, false);
}

static void long_rows(void **state) {
    (void)state;
    run r = {.fixed = 0, .each = 40, .tokens = 4096, .longest = 1500};
    is(choose(&r, 40 * 2048, QKV_RECOMPUTE_AUTO, true), NONE, 2048, true);
    is(choose(&r, 25 * 2048, QKV_RECOMPUTE_AUTO, true), PARTS, 2048, true); /* 1024 would not be smaller than the longest row */
    is(choose(&r, 5 * 1500, QKV_RECOMPUTE_AUTO, true), ALL, 1, true);
    r.longest = 10000; /* a batch of its own: nothing helps but computing again */
    is(choose(&r, 20 * 10000, QKV_RECOMPUTE_AUTO, true), BLOCKS, 0, true);
    assert_int_equal(r.count, 6);
}

static void failures_are_handed_on(void **state) {
    (void)state;
    for (int k = 1; k <= 30; k++) {
        run r = {.fixed = 1000, .each = 40, .tokens = 4096, .longest = 100, .fail_at = k};
        const qkv_budget b = {{.limit = 1000 + 5 * 100, .recompute = QKV_RECOMPUTE_AUTO, .layers = 6, .pieces = true}, r.tokens, r.longest, plan, &r};
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
