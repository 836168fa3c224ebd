/* Documents in folds: who is held out, what is read of them, and what the answers of all folds say together. */
#include "support.h"

#include <math.h>

#include "compare/crossval.h"
#include "compare/fold_scores.h"
#include "data/folds.h"
#include "kernels/pick.h"

static qkv_ctx context(test_memory *memory) {
    qkv_ctx ctx = test_ctx(memory);
    ctx.threads = 2;
    assert_int_equal(qkv_kernels_pick(&ctx, NULL), QKV_OK);
    return ctx;
}

static qkv_crossval made(qkv_ctx *ctx) {
    qkv_crossval c = {0};
    assert_int_equal(qkv_crossval_make(ctx, 40, 60, 3, &c), QKV_OK);
    return c;
}

static void folds(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = context(&memory);
    qkv_crossval c = made(&ctx);
    int64_t rows[QKV_CROSSVAL_FOLDS] = {0};
    assert_int_equal(c.table.count, 40);
    assert_int_equal(c.labels.count, 4);
    assert_int_equal(c.asked, QKV_CROSSVAL_FOLDS);
    assert_int_equal(c.test_rows, 40);
    assert_true(c.words >= 30 && c.words <= 60 && qkv_crossval_most_frequent(&c) == 0.25);
    for (int64_t i = 0; i < 40; i++) rows[c.fold[i]]++;
    for (int f = 0; f < QKV_CROSSVAL_FOLDS; f++) assert_int_equal(rows[f], 8);
    qkv_crossval_ask(&c, 1);
    assert_int_equal(c.test_rows, 8);
    qkv_crossval again = made(&ctx);
    assert_string_equal(c.table.rows[39].text, again.table.rows[39].text);
    qkv_crossval_free(&again);
    qkv_crossval_free(&c);
    assert_int_equal(memory.blocks, 0);
}

/* What is too long is read from the beginning, or from both ends; segments are those of what is read. */
static void datasets(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = context(&memory);
    qkv_crossval c = made(&ctx);
    qkv_dataset head, ends, all, cut;
    qkv_config config = {.pooling = QKV_POOL_MEAN, .max_length = 20};
    assert_int_equal(qkv_crossval_dataset(&c, 2, &config, false, &head), QKV_OK);
    assert_int_equal(qkv_crossval_dataset(&c, 2, &config, true, &ends), QKV_OK);
    config.max_length = 4096;
    assert_int_equal(qkv_crossval_dataset(&c, 2, &config, false, &all), QKV_OK);
    config.max_length = 20;
    config.segment = QKV_SEGMENT_SENTENCES;
    config.segment_length = 6;
    assert_int_equal(qkv_crossval_dataset(&c, 2, &config, false, &cut), QKV_OK);
    assert_int_equal(head.train.count, 32);
    assert_int_equal(head.test.count, 8);
    for (int64_t i = 0; i < 8; i++) {
        const int32_t *whole = all.test.ids + all.test.offset[i], *a = head.test.ids + head.test.offset[i],
                      *b = ends.test.ids + ends.test.offset[i];
        const int64_t n = all.test.offset[i + 1] - all.test.offset[i];
        assert_true(n > 20);
        assert_int_equal(head.test.offset[i + 1] - head.test.offset[i], 20);
        assert_int_equal(ends.test.offset[i + 1] - ends.test.offset[i], 20);
        assert_memory_equal(a, whole, 20 * sizeof *a);
        assert_memory_equal(b, whole, 10 * sizeof *b);
        assert_memory_equal(b + 10, whole + n - 10, 10 * sizeof *b);
        int64_t sum = 0;
        for (int64_t k = cut.test.segment_at[i]; k < cut.test.segment_at[i + 1]; k++) {
            assert_true(cut.test.segment_size[k] >= 1 && cut.test.segment_size[k] <= 6);
            sum += cut.test.segment_size[k];
        }
        assert_int_equal(sum, 20);
    }
    qkv_ragged_between(&cut.train, 20, 20);
    assert_int_equal(cut.train.count, 32);
    assert_int_equal(cut.train.segment_at[0], 0);
    qkv_dataset_free(&ctx, &head);
    qkv_dataset_free(&ctx, &ends);
    qkv_dataset_free(&ctx, &all);
    qkv_dataset_free(&ctx, &cut);
    qkv_crossval_free(&c);
    assert_int_equal(memory.blocks, 0);
}

static void linear(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = context(&memory);
    qkv_crossval c = {0};
    assert_int_equal(qkv_crossval_make(&ctx, 200, 400, 3, &c), QKV_OK);
    int32_t *given;
    double bytes;
    int64_t right = 0, n = 0;
    assert_int_equal(qkv_crossval_linear(&c, 0, &given, &bytes), QKV_OK);
    for (int64_t i = 0; i < c.table.count; i++)
        if (c.fold[i] == 0) right += given[n++] == c.target[i];
    assert_int_equal(n, 40);
    assert_true(right >= 32 && bytes > 1000);
    qkv_free(&ctx, given);
    qkv_crossval_free(&c);
    assert_int_equal(memory.blocks, 0);
}

/* Trials of two arms, two folds, two seeds: the second arm errs once more a fold. */
static void fold_scoress(void **state) {
    (void)state;
    enum { FOLD = 1, TURN = 2, ALL = 3 };
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = context(&memory);
    qkv_crossval c = made(&ctx);
    qkv_crossval_ask(&c, 2);
    qkv_trial trials[8] = {0};
    json_t *values[8];
    qkv_run run = {.ctx = &ctx, .trials = trials, .count = 8, .seeds = 2};
    for (int i = 0; i < 8; i++) {
        const int arm = i / 4, fold = i / 2 % 2, seed = i % 2;
        int32_t given[8];
        int64_t n = 0;
        for (int64_t r = 0; r < 40; r++)
            if (c.fold[r] == fold) given[n++] = c.target[r];
        for (int k = 0; k < 1 + arm; k++) given[k] = (given[k] + 1) % 4;
        values[i] = json_object();
        json_object_set_new(values[i], "given", qkv_given_json(given, 8));
        trials[i] = (qkv_trial){.at = {arm, fold, seed}, .values = values[i]};
    }
    assert_true(qkv_given_whole(json_object_get(values[0], "given"), 8, 4));
    assert_false(qkv_given_whole(json_object_get(values[0], "given"), 7, 4));
    assert_false(qkv_given_whole(json_object_get(values[0], "given"), 8, 1));
    qkv_fold_scores s[2], none;
    for (int arm = 0; arm < 2; arm++) {
        const int64_t at[QKV_TRIAL_PLACES] = {arm, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY};
        assert_int_equal(qkv_fold_scores_make(&(qkv_fold_trials){&run, &c, at, FOLD, TURN}, ALL, &s[arm]), QKV_OK);
        assert_int_equal(s[arm].seeds, 2);
    }
    const qkv_estimate first = qkv_fold_scores_mean(&s[0], QKV_MARK_ACCURACY),
                       gain = qkv_fold_scores_gain(&s[0], &s[1], QKV_MARK_ACCURACY),
                       fall = qkv_fold_scores_fall(&s[0], &s[1], QKV_MARK_ACCURACY),
                       same = qkv_fold_scores_gain(&s[0], &s[0], QKV_MARK_MACRO_F1);
    assert_true(fabs(first.value - 14.0 / 16) < 1e-12 && first.low < first.value && first.high > first.value);
    assert_true(fabs(gain.value + 2.0 / 16) < 1e-12 && gain.low < gain.value && gain.deviation == 0);
    assert_true(fabs(fall.value - 1.0 / 7) < 1e-12);
    /* Against itself, row by row: 16 rows agree, and more of them might not. */
    assert_true(same.value == 0 && fabs(same.high - 1.96 * sqrt(2.0) / 18) < 1e-9);
    trials[3].values = NULL; /* a fold of the second seed is missing: the first alone counts, and two folds are no spread */
    const int64_t at[QKV_TRIAL_PLACES] = {0, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY},
                  nowhere[QKV_TRIAL_PLACES] = {7, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY};
    qkv_fold_scores_free(&s[0]);
    assert_int_equal(qkv_fold_scores_make(&(qkv_fold_trials){&run, &c, at, FOLD, TURN}, ALL, &s[0]), QKV_OK);
    assert_int_equal(s[0].seeds, 1);
    assert_true(fabs(qkv_fold_scores_mean(&s[0], QKV_MARK_ACCURACY).value - 14.0 / 16) < 1e-12);
    assert_true(isnan(qkv_fold_scores_mean(&s[0], QKV_MARK_MACRO_F1).low));
    assert_true(isnan(qkv_fold_scores_gain(&s[0], &s[1], QKV_MARK_ACCURACY).low));
    assert_int_equal(qkv_fold_scores_make(&(qkv_fold_trials){&run, &c, nowhere, FOLD, TURN}, 0, &none), QKV_OK);
    assert_true(isnan(qkv_fold_scores_gain(&s[0], &none, QKV_MARK_ACCURACY).value));
    qkv_fold_scores_free(&none);
    assert_int_equal(qkv_fold_scores_there(&(qkv_fold_trials){&run, &c, nowhere, FOLD, TURN}), 0);
    assert_int_equal(qkv_fold_scores_there(&(qkv_fold_trials){&run, &c, at, FOLD, TURN}), 3);
    trials[2].values = NULL; /* and now of the first seed, too: the first fold is what there is, of both */
    assert_int_equal(qkv_fold_scores_there(&(qkv_fold_trials){&run, &c, at, FOLD, TURN}), 1);
    assert_int_equal(qkv_fold_scores_make(&(qkv_fold_trials){&run, &c, at, FOLD, TURN}, 1, &none), QKV_OK);
    assert_true(none.seeds == 2 && none.rows == 8 && none.folds == 1 && none.missing == 2);
    assert_true(fabs(qkv_fold_scores_mean(&none, QKV_MARK_ACCURACY).value - 7.0 / 8) < 1e-12);
    qkv_fold_scores_free(&none);
    for (int arm = 0; arm < 2; arm++) qkv_fold_scores_free(&s[arm]);
    for (int i = 0; i < 8; i++) json_decref(values[i]);
    qkv_crossval_free(&c);
    assert_int_equal(memory.blocks, 0);
}

/* One seed in five folds of eight rows: each fold is a training, and how they differ is in the interval. */
static void folds_are_trainings(void **state) {
    (void)state;
    enum { FOLD = 1, TURN = 2, ALL = 31 };
    static const int errors[2][QKV_CROSSVAL_FOLDS] = {{0, 4, 0, 4, 2}, {2, 2, 2, 2, 2}};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = context(&memory);
    qkv_crossval c = made(&ctx);
    qkv_trial trials[10] = {0};
    json_t *values[10];
    qkv_run run = {.ctx = &ctx, .trials = trials, .count = 10, .seeds = 1};
    for (int i = 0; i < 10; i++) {
        const int arm = i / 5, fold = i % 5;
        int32_t given[8];
        int64_t n = 0;
        for (int64_t r = 0; r < 40; r++)
            if (c.fold[r] == fold) given[n++] = c.target[r];
        for (int k = 0; k < errors[arm][fold]; k++) given[k] = (given[k] + 1) % 4;
        values[i] = json_object();
        json_object_set_new(values[i], "given", qkv_given_json(given, 8));
        trials[i] = (qkv_trial){.at = {arm, fold, 0}, .values = values[i]};
    }
    qkv_fold_scores s[2];
    for (int arm = 0; arm < 2; arm++) {
        const int64_t at[QKV_TRIAL_PLACES] = {arm, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY};
        assert_int_equal(qkv_fold_scores_make(&(qkv_fold_trials){&run, &c, at, FOLD, TURN}, ALL, &s[arm]), QKV_OK);
    }
    /* Of equal folds the jackknife is the mean of the folds: errors of 0, 4, 0, 4, 2 of 8 deviate by 2. */
    const qkv_estimate uneven = qkv_fold_scores_mean(&s[0], QKV_MARK_ACCURACY),
                       even = qkv_fold_scores_mean(&s[1], QKV_MARK_ACCURACY),
                       gain = qkv_fold_scores_gain(&s[1], &s[0], QKV_MARK_ACCURACY);
    const double half = qkv_student(4) * 2.0 / 8 / sqrt(5);
    assert_true(fabs(uneven.value - 0.75) < 1e-12 && fabs(uneven.value - uneven.low - half) < 1e-9 && uneven.count == 5);
    assert_true(uneven.high == 1); /* no accuracy lies above it */
    assert_true(isnan(uneven.deviation));
    assert_true(fabs(gain.value) < 1e-12 && fabs(gain.high - half) < 1e-9);
    /* Where the folds agree, that of the rows is the wider: 30 of 40. */
    assert_true(even.high - even.value > 0.1 && even.high - even.value < 0.16);
    for (int arm = 0; arm < 2; arm++) qkv_fold_scores_free(&s[arm]);
    for (int i = 0; i < 10; i++) json_decref(values[i]);
    qkv_crossval_free(&c);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(folds), cmocka_unit_test(datasets), cmocka_unit_test(linear),
                                       cmocka_unit_test(fold_scoress), cmocka_unit_test(folds_are_trainings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
