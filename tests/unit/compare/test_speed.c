/* What `speed` says of times that are made up: where the faster one changes, every time. */
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "compare/list.h"

enum { ARM, LENGTH, DIM, PASS, ROUND, LENGTHS = 8, ONE = 0, LOCAL = 2, GRU = 4 };

/* Attention beside the GRU at d 128, forward: quotients of the times by length; 0: not measured. */
static double times[LENGTHS];
static double spread; /* of the rounds */
static int64_t attention = LOCAL;

static void fill(qkv_run *run) {
    for (int64_t i = 0; i < run->count; i++) {
        qkv_trial *t = &run->trials[i];
        const bool asked = t->at[DIM] == 0 && t->at[PASS] == 0 && (t->at[ARM] == attention || t->at[ARM] == GRU);
        if (!asked || times[t->at[LENGTH]] <= 0) continue;
        const double seconds = t->at[ARM] == GRU ? 1 : times[t->at[LENGTH]] * (t->at[ROUND] % 2 ? 1 + spread : 1);
        t->values = json_pack("{s:f, s:f, s:f, s:f}", "seconds", seconds, "share", 0.5, "flops", 1e9, "bytes", 1e6);
    }
}

/* The sentence of that row; the table is nothing but that. */
static void says(const char *expected) {
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    const qkv_compare_options o = {.struct_size = sizeof o, .what = "speed"};
    qkv_run run = {.ctx = &ctx, .experiment = &qkv_experiment_speed, .o = &o, .seeds = 3, .machine = "m"};
    qkv_outcome *outcome;
    qkv_compare_result *r;
    const qkv_compare_table *t = NULL;
    assert_int_equal(qkv_alloc_zero(&ctx, 1, qkv_experiment_speed.self_size, &run.self), QKV_OK);
    assert_int_equal(qkv_experiment_speed.prepare(&run), QKV_OK);
    fill(&run);
    assert_int_equal(qkv_outcome_create(&ctx, &outcome), QKV_OK);
    qkv_outcome_lacks(outcome, "Run it.");
    qkv_experiment_speed.conclude(&run, outcome);
    assert_int_equal(qkv_outcome_finish(outcome, &r), QKV_OK);
    for (int64_t i = 0; i < r->tables; i++)
        if (strcmp(r->table[i].key, "crossings") == 0) t = &r->table[i];
    if (expected) {
        assert_true(t && t->rows == 1 && r->tables == 2 && r->charts == 1); /* those of what was measured */
        assert_string_equal(t->value[4].text, expected);
    } else {
        assert_true(!t && r->tables == 0 && r->charts == 0);
    }
    for (int64_t i = 0; i < r->claims; i++) {
        assert_string_equal(r->claim[i].ours, "Run it.");
        assert_int_equal(r->claim[i].verdict, QKV_CANNOT_BE_JUDGED);
    }
    qkv_outcome_free(outcome);
    for (int64_t i = 0; i < run.count; i++) json_decref((json_t *)run.trials[i].values);
    qkv_free(&ctx, run.trials);
    qkv_free(&ctx, run.self);
    assert_int_equal(memory.blocks, 0);
}

static void set(const double quotients[LENGTHS], double of_rounds) {
    memcpy(times, quotients, sizeof times);
    spread = of_rounds;
}

static void every_crossing_is_told(void **state) {
    (void)state;
    set((const double[]){0.5, 0.5, 2, 2, 2, 0.5, 0.5, 2}, 0.001);
    says("faster at n 64 to 128, slower at n 256 to 1,024 (they cross near 181), faster at n 2,048 to 4,096 (they cross near "
         "1,448), "
         "slower at n 8,192 (they cross near 5,792)");
    set((const double[]){0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 0.001);
    says("faster at n 64 to 8,192 (all that were measured)");
    set((const double[]){0, 0, 0, 2, 0, 0, 0, 0}, 0.001);
    says("slower at n 512 (the only one measured)");
    set((const double[LENGTHS]){0}, 0.001);
    says(NULL);
}

static void what_lies_within_the_spread_is_no_difference(void **state) {
    (void)state;
    set((const double[]){0.5, 0.98, 2, 0, 0, 0, 0, 0}, 0.05);
    says("faster at n 64, no difference beyond the spread at n 128, slower at n 256");
    set((const double[]){0, 0, 0, 0.98, 0, 0, 0, 0}, 0.05);
    says("no difference beyond the spread at n 512 (the only one measured)");
}

/* Of one head too. */
static void each_kind_of_attention_is_there(void **state) {
    (void)state;
    set((const double[]){0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 0.001);
    for (attention = ONE; attention <= LOCAL; attention++) says("faster at n 64 to 8,192 (all that were measured)");
    attention = LOCAL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_crossing_is_told),
        cmocka_unit_test(what_lies_within_the_spread_is_no_difference),
        cmocka_unit_test(each_kind_of_attention_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
