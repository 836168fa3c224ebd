/* What `gradients` says of looks that are made up. */
#include "made.h"

enum { ARM, TURN, ATTENTION = 0, LSTM = 2, LSTM_0 = 3, ARM_COUNT = 5, STRETCHES = 16 };

static void put(json_t *values, const char *when, const char *what, int count, double x) {
    char name[64];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s_%s_%d", when, what, i);
        json_object_set_new(values, name, json_real(x));
    }
}

/* Of eight looks so many see vanishing gradients; a training that diverged has nothing at the end. */
static json_t *cell(double vanished, bool diverged) {
    char right[126] = "";
    memset(right, '0', sizeof right - 1); /* 500 rows */
    json_t *v = made_training(json_string(right), diverged ? 0.125 : 0.5);
    json_object_set_new(v, "diverged", json_real(diverged));
    json_object_set_new(v, "looks", json_real(8));
    json_object_set_new(v, "vanished", json_real(vanished));
    json_object_set_new(v, "nonfinite", json_real(0));
    json_object_set_new(v, "counted", json_real(80));
    json_object_set_new(v, "exploded", json_real(diverged ? 40 : 0));
    for (int end = 0; end < 2 - diverged; end++) {
        const char *when = end ? "end" : "start";
        put(v, when, "stretch", STRETCHES, 0.5);
        put(v, when, "layer", 2, 0.25);
        put(v, when, "reach", 1, 0.125);
    }
    return v;
}

static void begin(made *c) {
    made_prepare(c, &qkv_experiment_gradients, 3, true, NULL);
    assert_int_equal(c->run.count, 3 * ARM_COUNT);
}

static void verdicts_are_by_trainings(void **state) {
    (void)state;
    made c;
    begin(&c);
    /* looks that vanish, of both LSTMs, by seed */
    static const double of[2][3] = {{0, 4, 0}, {8, 8, 2}};
    for (int64_t i = 0; i < c.run.count; i++) {
        qkv_trial *t = &c.run.trials[i];
        const bool lstm = t->at[ARM] == LSTM || t->at[ARM] == LSTM_0;
        made_put(&c, t, cell(lstm ? of[t->at[ARM] - LSTM][t->at[TURN]] : 0, false));
    }
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 13, "vanishing");
    assert_int_equal(m->parts, 3);
    assert_true(m->part[0].verdict == QKV_HOLDS && m->part[0].value == 3);
    assert_true(m->part[1].verdict == QKV_HOLDS_IN_PART && m->part[1].value == 1);
    assert_true(m->part[2].verdict == QKV_HOLDS && m->part[2].value == 3 && m->part[2].figure == 3);
    assert_non_null(strstr(m->ours, "LSTM 17 % (forget bias 0: 75 %), GRU 0 %"));
    const qkv_compare_table *t = &c.result->table[0];
    assert_string_equal(t->value[LSTM * t->columns].text, "LSTM");
    assert_true(fabs(t->value[LSTM * t->columns + 7].deviation - 0.5 / sqrt(3)) < 1e-9); /* 0, 1/2, 0 */
    made_free(&c);
}

static void a_training_that_diverged_counts(void **state) {
    (void)state;
    made c;
    begin(&c);
    for (int64_t i = 0; i < c.run.count; i++) {
        qkv_trial *t = &c.run.trials[i];
        made_put(&c, t, cell(0, t->at[ARM] == LSTM && t->at[TURN] == 0));
    }
    made_conclude(&c);
    const qkv_compare_table *t = &c.result->table[0];
    const qkv_compare_value *v = &t->value[LSTM * t->columns];
    assert_true(fabs(v[9].value - (0.125 + 0.5 + 0.5) / 3) < 1e-9 && v[10].value == 1 && fabs(v[8].value - 0.5 / 3) < 1e-9);
    assert_true(t->value[ATTENTION * t->columns + 10].value == 0);
    made_free(&c);
}

/* Nor does what was never looked at count as without vanishing gradients. */
static void what_was_never_looked_at_says_nothing(void **state) {
    (void)state;
    made c;
    begin(&c);
    for (int64_t i = 0; i < c.run.count; i++) {
        qkv_trial *t = &c.run.trials[i];
        json_t *v = cell(0, t->at[TURN] == 2);
        if (t->at[TURN] == 2) json_object_set_new(v, "looks", json_real(0));
        made_put(&c, t, v);
    }
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 13, "vanishing");
    assert_true(m->part[0].value == 2 && m->part[0].verdict != QKV_HOLDS);
    made_free(&c);
}

/* What is no number is not 0, and a cell need not have it where that is counted. */
static void no_number_is_none(void **state) {
    (void)state;
    made c;
    begin(&c);
    json_t *v = cell(0, false);
    assert_true(qkv_experiment_gradients.whole(&c.run, &c.run.trials[0], v));
    json_object_del(v, "end_reach_0");
    assert_false(qkv_experiment_gradients.whole(&c.run, &c.run.trials[0], v));
    json_object_set_new(v, "nonfinite", json_real(1));
    assert_true(qkv_experiment_gradients.whole(&c.run, &c.run.trials[0], v));
    json_object_del(v, "nonfinite");
    json_object_del(v, "right");
    assert_false(qkv_experiment_gradients.whole(&c.run, &c.run.trials[0], v));
    json_decref(v);
    made_free(&c);
}

static void what_is_not_done_is_not_judged(void **state) {
    (void)state;
    made c;
    begin(&c);
    for (int64_t i = 0; i < c.run.count; i++)
        if (c.run.trials[i].at[TURN] == 0) made_put(&c, &c.run.trials[i], cell(1, false));
    made_conclude(&c);
    const qkv_compare_claim *m = made_claim(&c, 13, "vanishing");
    assert_true(m->verdict == QKV_CANNOT_BE_JUDGED && m->so_far && m->part[0].missing == 2);
    assert_non_null(strstr(m->part[0].why, "2 more measurements are to come"));
    made_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_are_by_trainings),
        cmocka_unit_test(a_training_that_diverged_counts),
        cmocka_unit_test(what_was_never_looked_at_says_nothing),
        cmocka_unit_test(no_number_is_none),
        cmocka_unit_test(what_is_not_done_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
