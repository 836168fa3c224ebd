/* What experiments say of networks whose answers are made up: which verdict they come to, and what is left open. */
#include "made.h"

#include "compare/patterns.h"
#include "compare/positions.h"
#include "kernels/pick.h"

/* ---- positions ---- */

enum { BY_LENGTH = 4 };

/* Shares of the rows that are right, by length. */
typedef struct shares {
    const qkv_positions_task *task;
    const double *of;
    int64_t seed;
} shares;

static bool some_rows(const void *of, int64_t row) {
    const shares *s = of;
    const qkv_ragged *r = &s->task->asked;
    const int64_t n = r->offset[row + 1] - r->offset[row];
    int k = 0;
    while (k < BY_LENGTH - 1 && n > s->task->at[k].longest) k++;
    return (double)((row * 7919 + s->seed) % 1000) < 1000 * s->of[k];
}

static void answer(made *m, const double *(*of)(int arm)) {
    const qkv_positions *p = m->run.self;
    for (int64_t i = 0; i < m->run.count; i++) {
        qkv_trial *t = &m->run.trials[i];
        const qkv_positions_task *task = &p->tasks[t->at[QKV_POSITIONS_TASK]];
        json_t *v = made_training(json_string(""), 0);
        for (int a = 0; a < QKV_PLACED_COUNT; a++) {
            if (QKV_PLACED[a].trained != t->at[QKV_POSITIONS_OF]) continue;
            const shares s = {task, of(a), t->at[QKV_POSITIONS_TURN]};
            json_object_set_new(v, QKV_PLACED[a].key, made_answers(task->asked.count, some_rows, &s));
        }
        made_put(m, t, v);
    }
}

static const double ALL[] = {1, 1, 1, 1}, FALLS[] = {1, 0.7, 0.5, 0.5}, HALF[] = {0.5, 0.5, 0.5, 0.5}, LESS[] = {1, 0.9, 0.8, 0.8};

static const double *as_published(int a) {
    return a == QKV_PLACED_NONE                                      ? HALF
           : a == QKV_PLACED_SINUSOIDAL || a == QKV_PLACED_UNTRAINED ? FALLS
           : a < QKV_PLACED_SHAW                                     ? LESS
                                                                     : ALL;
}

static const double *sinusoidal_idle(int a) {
    return a == QKV_PLACED_SINUSOIDAL ? HALF : as_published(a);
}

static void positions(void **state) {
    (void)state;
    made m;
    made_prepare(&m, &qkv_experiment_positions, 3, true, NULL);
    answer(&m, as_published);
    made_conclude(&m);
    made_verdict(&m, 7, "texts of any length", QKV_DOES_NOT_HOLD);
    made_verdict(&m, 7, "fixed positions fall sharply", QKV_CANNOT_BE_JUDGED); /* of untrained rows it is open */
    made_why(&m, 7, "fixed positions fall sharply", "learned, last row: +30.7 points (95 % interval +2");
    made_verdict(&m, 7, "generalise better than learned", QKV_CANNOT_BE_JUDGED);
    made_verdict(&m, 7, "relative positions are best", QKV_HOLDS);
    made_why(&m, 7, "relative positions are best", "RoPE, YaRN: +50");
    made_verdict(&m, 7, "at four times the length", QKV_HOLDS);
    /* 200 of 200 rows, twice: nothing is lost, as far as so many can tell. */
    made_why(&m, 7, "at four times the length",
             "ALiBi, lost of the accuracy: 0.0 % (95 % interval -1.9 % to 1.9 %, 3 measurements)");
    /* A cell without the answers of one arm is not whole. */
    for (int64_t i = 0; i < m.run.count; i++) {
        json_t *old = json_copy((json_t *)m.run.trials[i].values);
        json_object_del(old, "right_rope_yarn");
        assert_true(qkv_experiment_positions.whole(&m.run, &m.run.trials[i], old) == (m.run.trials[i].at[1] != QKV_TRAINED_ROPE));
        json_decref(old);
    }
    made_free(&m);
}

/* What is not measured has not "learned nothing"; and what is held against an arm that learned nothing says nothing. */
static void positions_not_measured(void **state) {
    (void)state;
    made m;
    made_prepare(&m, &qkv_experiment_positions, 3, true, NULL);
    answer(&m, as_published);
    for (int64_t i = 0; i < m.run.count; i++)
        if (m.run.trials[i].at[QKV_POSITIONS_OF] == QKV_TRAINED_SHAW) made_take(&m.run.trials[i]);
    made_conclude(&m);
    made_verdict(&m, 7, "at four times the length", QKV_CANNOT_BE_JUDGED);
    made_why(&m, 7, "at four times the length", "Shaw, lost of the accuracy: not measured (cannot be judged)");
    assert_null(strstr(made_claim(&m, 7, "at four times the length")->why, "Learned nothing"));
    assert_string_equal(made_claim(&m, 7, "at four times the length")->ours, "Run it.");
    answer(&m, sinusoidal_idle);
    made_conclude(&m);
    made_verdict(&m, 7, "generalise better than learned", QKV_CANNOT_BE_JUDGED);
    made_why(&m, 7, "generalise better than learned", "Learned nothing and left out: sinusoidal.");
    assert_null(strstr(made_claim(&m, 7, "generalise better than learned")->why, "points"));
    made_verdict(&m, 7, "relative positions are best", QKV_CANNOT_BE_JUDGED);
    made_free(&m);
}

static int by_turns(int row) {
    return 45 << (row / 2 + row / 10) % 4;
} /* of both kinds in turn, held out or not */

/* Longer texts are others, and harder ones: that is no fault of the positions. */
static void positions_of_texts(void **state) {
    (void)state;
    char path[512];
    made m;
    made_prepare(&m, &qkv_experiment_positions, 2, true, made_rows("claims_positions.tsv", 2, 200, by_turns, path));
    const qkv_positions *p = m.run.self;
    assert_true(qkv_rows_in(&p->tasks[0].asked, p->tasks[0].at[0]) > 0 && qkv_rows_in(&p->tasks[0].asked, p->tasks[0].at[2]) >= 90);
    answer(&m, as_published);
    for (int64_t i = 0; i < m.run.count; i++) { /* right of the same rows as without positions */
        qkv_trial *t = &m.run.trials[i];
        const shares s = {&p->tasks[0], (const double[]){1, 0.7, 0.6, 0.5}, 0};
        if (t->at[QKV_POSITIONS_OF] == QKV_TRAINED_NONE)
            json_object_set_new((json_t *)t->values, "right_none", made_answers(p->tasks[0].asked.count, some_rows, &s));
        if (t->at[QKV_POSITIONS_OF] == QKV_TRAINED_SINUSOIDAL)
            json_object_set_new((json_t *)t->values, "right_sinusoidal", made_answers(p->tasks[0].asked.count, some_rows, &s));
    }
    made_conclude(&m);
    made_verdict(&m, 7, "texts of any length", QKV_CANNOT_BE_JUDGED);
    made_why(&m, 7, "texts of any length", "sinusoidal, lost of the accuracy: 0.0 % (95 % interval -");
    made_why(&m, 7, "texts of any length", "What is lost is beside no positions, on the same texts");
    made_free(&m);
}

/* ---- patterns ---- */

/* Of five rows of a fold so many are wrong, by arm. */
static int wrong(int64_t arm) {
    return arm == QKV_PATTERNS_SHORT || arm == QKV_PATTERNS_DEEP_4 || arm == QKV_PATTERNS_ALTERNATING_4 ||
                   arm == QKV_PATTERNS_FIXED_16
               ? 1
           : arm == QKV_PATTERNS_GLOBAL_4 || arm == QKV_PATTERNS_SPARSE_4 ? 3
                                                                          : 0;
}

static void give(made *m) {
    const qkv_patterns *p = m->run.self;
    const qkv_crossval *c = &p->crossval;
    for (int64_t i = 0; i < m->run.count; i++) {
        qkv_trial *t = &m->run.trials[i];
        json_t *v = made_training(json_string(""), 0), *given = json_array();
        int64_t n = 0;
        for (int64_t r = 0; r < c->table.count; r++) {
            if (c->fold[r] != t->at[QKV_PATTERNS_FOLD]) continue;
            const bool off = (n++ + t->at[QKV_PATTERNS_FOLD]) % 5 < wrong(t->at[QKV_PATTERNS_ARM]);
            json_array_append_new(given, json_integer((c->target[r] + off) % c->labels.count));
        }
        json_object_set_new(v, "given", given);
        json_object_set_new(v, "seconds", json_real(10));
        json_object_set_new(v, "tokens", json_real(1e5));
        made_put(m, t, v);
    }
}

static int long_ones(int row) {
    return 600 + row % 7;
}

static void patterns(void **state) {
    (void)state;
    char path[512];
    made m;
    made_prepare(&m, &qkv_experiment_patterns, 1, false, made_rows("claims_patterns.tsv", 10, 20, long_ones, path));
    /* Those with further layers or blocks after all others of their length, and before the longest. */
    int64_t order[QKV_PATTERNS_COUNT] = {0};
    for (int64_t i = 0; i < m.run.count; i++) order[m.run.trials[i].at[QKV_PATTERNS_ARM]] = i;
    assert_true(order[QKV_PATTERNS_LINEAR] < order[QKV_PATTERNS_DEEP_4] &&
                order[QKV_PATTERNS_DEEP_4] < order[QKV_PATTERNS_ALTERNATING_4]);
    assert_true(order[QKV_PATTERNS_ALTERNATING_4] < order[QKV_PATTERNS_SPARSE_4] &&
                order[QKV_PATTERNS_SPARSE_4] < order[QKV_PATTERNS_LOCAL_16] - 4 * 4);
    assert_non_null(strstr(m.run.trials[order[QKV_PATTERNS_DEEP_4]].key, "layers 3, d 128, window 64, "));
    assert_non_null(strstr(m.run.trials[order[QKV_PATTERNS_SPARSE_4]].key, "layers 1, d 128, window 64, "));
    give(&m);
    made_conclude(&m);
    made_verdict(&m, 17, "contracts", QKV_HOLDS_IN_PART); /* from 80 to 40 % */
    made_why(&m, 17, "contracts", "accuracy: +50.0 % (95 % interval +");
    made_verdict(&m, 16, "long texts are the better", QKV_HOLDS_IN_PART);
    const char *says = "beat segments";
    made_verdict(&m, 16, says, QKV_HOLDS_IN_PART);
    made_why(&m, 16, says, "window, first tokens global, 2048 tokens, better than segments, 2048 tokens: -");
    made_why(&m, 16, says, "the other way round than the claim (does not hold)");
    made_why(
        &m, 16, says,
        "alternating, 3 layers, 2048 tokens, not a point worse than full, 3 layers, 2048 tokens: +0.0 points (95 % interval -");
    made_why(&m, 16, says, "5 measurements)");
    made_free(&m);
}

/* One seed on one part that is held out has no spread; and made texts, or short ones, are no contracts. */
static void patterns_that_are_open(void **state) {
    (void)state;
    made m;
    made_prepare(&m, &qkv_experiment_patterns, 1, true, NULL);
    give(&m);
    made_conclude(&m);
    made_verdict(&m, 16, "beat segments", QKV_CANNOT_BE_JUDGED);
    made_why(&m, 16, "beat segments", "by one measurement, whose spread is not known");
    made_verdict(&m, 17, "contracts", QKV_CANNOT_BE_JUDGED);
    assert_non_null(strstr(made_claim(&m, 17, "contracts")->ours, "--quick"));
    qkv_patterns *p = m.run.self;
    p->unit = 512; /* as without --quick, on texts that are made all the same */
    made_conclude(&m);
    assert_non_null(strstr(made_claim(&m, 17, "contracts")->ours, "Asks for contracts: --data FILE"));
    made_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(positions), cmocka_unit_test(positions_not_measured),
                                       cmocka_unit_test(positions_of_texts), cmocka_unit_test(patterns),
                                       cmocka_unit_test(patterns_that_are_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
