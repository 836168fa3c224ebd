/* What `heads` says of times and answers that are made up. */
#include "made.h"

#include "kernels/pick.h"

enum { KIND, ARM, TURN, TIMING = 0, TRAINING = 1, ONE = 0, EIGHT = 3, ROWS = 400 };

static bool right(const void *of, int64_t row) {
    return 7 * row % 10 < *(const int *)of;
}

static void fill(made *c, int64_t seeds, int64_t diverged) {
    for (int64_t i = 0; i < c->run.count; i++) {
        qkv_trial *t = &c->run.trials[i];
        if (t->at[TURN] >= seeds) continue;
        if (t->at[KIND] == TIMING) {
            const double seconds = t->at[ARM] == ONE ? 1 + 0.01 * (double)t->at[TURN] : 1.2;
            made_put(c, t, json_pack("{s:f, s:f, s:f, s:f}", "seconds", seconds, "share", 0.5, "flops", 1e9, "bytes", 1e6));
            continue;
        }
        const bool lost = t->at[ARM] == EIGHT && t->at[TURN] < diverged;
        const int tens = lost ? 1 : t->at[ARM] == EIGHT ? 9 : 8;
        json_t *v = made_training(made_answers(ROWS, right, &tens), 0.1 * tens);
        json_object_set_new(v, "diverged", json_real(lost));
        made_put(c, t, v);
    }
}

static void begin(made *c) {
    made_prepare(c, &qkv_experiment_heads, 3, true, NULL);
    assert_int_equal(qkv_kernels_pick(&c->ctx, NULL), QKV_OK); /* plans of layers ask for their tiles */
}

static void verdicts(void **state) {
    (void)state;
    made c;
    begin(&c);
    fill(&c, 3, 0);
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 4, "training speed");
    assert_true(m->parts == 1 && m->verdict == QKV_HOLDS && m->part[0].figure == 1.2 && m->part[0].measurements == 3);
    assert_true(fabs(m->part[0].value - 1.19) < 0.01 && m->part[0].low < 1.2 && m->part[0].high > 1.18);
    m = made_claim(&c, 3, "cost at");
    assert_true(m->parts == 4 && m->verdict == QKV_HOLDS_IN_PART && m->part[0].value == m->part[0].low);
    m = made_claim(&c, 6, "long sequences");
    assert_true(fabs(m->part[0].value - 0.1) < 1e-9);
    made_free(&c);
}

static void a_training_that_diverged_counts(void **state) {
    (void)state;
    made c;
    begin(&c);
    fill(&c, 3, 1);
    made_conclude(&c);
    const qkv_compare_table *t = &c.result->table[0];
    const qkv_compare_value *v = &t->value[EIGHT * t->columns];
    assert_true(fabs(v[7].value - (0.1 + 0.9 + 0.9) / 3) < 1e-9 && v[9].value == 1 && t->value[9].value == 0);
    assert_true(made_claim(&c, 6, "long sequences")->part[0].value < 0);
    made_free(&c);
}

static void what_is_not_done_is_not_judged(void **state) {
    (void)state;
    made c;
    begin(&c);
    fill(&c, 2, 0);
    made_conclude(&c);
    const qkv_compare_claim *time = made_claim(&c, 4, "training speed"), *accuracy = made_claim(&c, 6, "long sequences");
    assert_true(time->so_far && time->verdict == QKV_CANNOT_BE_JUDGED && time->part[0].missing == 2);
    assert_true(accuracy->so_far && accuracy->verdict == QKV_CANNOT_BE_JUDGED && accuracy->part[0].missing == 2);
    assert_non_null(strstr(accuracy->ours, "So far, and not all of it was measured: 80.00 %"));
    assert_non_null(strstr(accuracy->why, "+10.0 points so far, 2 more measurements are to come"));
    assert_true(made_claim(&c, 3, "cost at")->verdict == QKV_HOLDS_IN_PART && !made_claim(&c, 3, "cost at")->so_far);
    made_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(a_training_that_diverged_counts),
        cmocka_unit_test(what_is_not_done_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
