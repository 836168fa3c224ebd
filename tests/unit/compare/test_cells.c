/* Cells in a file: kept, taken, mended; and the run of an experiment that uses them. */
#include "unit/ops/ops.h"

#include <math.h>

#include "base/rng.h"
#include "compare/dataset.h"
#include "data/recall.h"

static char *contents(const char *path) {
    static char text[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static double number(const qkv_cells *c, const char *key) {
    const json_t *v = qkv_cells_get(c, key);
    return v ? json_number_value(json_object_get(v, "x")) : NAN;
}

static int logged;
static void on_log(void *user, const char *line) {
    (void)user;
    (void)line;
    logged++;
}

static void cells_are_kept(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    char path[512];
    qkv_cells c;
    remove(test_path("cells_kept", path));
    assert_int_equal(qkv_cells_open(&ctx, path, &c), QKV_OK);
    assert_null(qkv_cells_get(&c, "a"));
    assert_int_equal(qkv_cells_put(&c, "a", json_pack("{s:f}", "x", 1.5)), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "b \"quoted\"", json_pack("{s:f}", "x", 2.5)), QKV_OK);
    qkv_cells_close(&c);
    assert_int_equal(qkv_cells_open(&ctx, path, &c), QKV_OK);
    assert_true(number(&c, "a") == 1.5 && number(&c, "b \"quoted\"") == 2.5);
    qkv_cells_close(&c);
    assert_int_equal(memory.blocks, 0);
    /* Without a file they are in memory. */
    assert_int_equal(qkv_cells_open(&ctx, NULL, &c), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "a", json_object()), QKV_OK);
    assert_non_null(qkv_cells_get(&c, "a"));
    qkv_cells_close(&c);
}

/* The line of a cell, as it is written; "a" or "b" with x = 1 or 2. */
static const char *line_of(qkv_ctx *ctx, const char *key, double x, char line[256]) {
    char path[512];
    qkv_cells c;
    remove(test_path("cells_line", path));
    assert_int_equal(qkv_cells_open(ctx, path, &c), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, key, json_pack("{s:f}", "x", x)), QKV_OK);
    qkv_cells_close(&c);
    snprintf(line, 256, "%s", strchr(contents(path), '\n') + 1);
    line[strcspn(line, "\n")] = 0;
    return line;
}

static void damaged_lines_are_left_out(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    ctx.log = on_log;
    char path[512], text[2048], a[256], b[256], value[256], key[256];
    qkv_cells c;
    const char *head = "{\"qkv\":\"cells\",\"version\":\"0.1.0\"}\n";
    line_of(&ctx, "a", 1, a);
    line_of(&ctx, "b", 2, b);
    line_of(&ctx, "c", 3, value);
    strchr(value, '3')[0] = '4'; /* by hand */
    line_of(&ctx, "d", 3, key);
    strstr(key, "\"d\"")[1] = 'c';
    const char *const bad[] = {"{\"cell\":\"c\",\"values\":{\"x\":3",
                               "nonsense",
                               "{\"cell\":\"c\"}",
                               "[1]",
                               "{\"cell\":7,\"values\":{}}",
                               "{\"cell\":\"c\",\"values\":[]}",
                               "{\"cell\":\"c\",\"values\":{\"x\":3}}",
                               value,
                               key};
    test_path("cells_damaged", path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int last = 0; last < 2; last++) { /* half written at the end, or in the middle */
            logged = 0;
            snprintf(text, sizeof text, "%s%s\n%s%s%s", head, a, bad[i], last ? "" : "\n", last ? "" : b);
            test_write_file(path, text, strlen(text));
            assert_int_equal(qkv_cells_open(&ctx, path, &c), QKV_OK);
            assert_int_equal(logged, 1);
            assert_true(number(&c, "a") == 1 && isnan(number(&c, "c")) && (last || number(&c, "b") == 2));
            assert_int_equal(qkv_cells_put(&c, "c", json_pack("{s:f}", "x", 9.0)), QKV_OK);
            qkv_cells_close(&c);
            logged = 0;
            assert_int_equal(qkv_cells_open(&ctx, path, &c), QKV_OK); /* mended */
            assert_true(logged == 0 && number(&c, "a") == 1 && number(&c, "c") == 9);
            qkv_cells_close(&c);
        }
    assert_int_equal(memory.blocks, 0);
}

/* Two runs that keep their cells in one file. */
static void cells_of_others_stay(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    char path[512], key[8];
    qkv_cells one, two, all;
    remove(test_path("cells_shared", path));
    assert_int_equal(qkv_cells_open(&ctx, path, &one), QKV_OK);
    assert_int_equal(qkv_cells_open(&ctx, path, &two), QKV_OK);
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_int_equal(qkv_cells_put(i % 2 ? &one : &two, key, json_pack("{s:f}", "x", (double)i)), QKV_OK);
    }
    assert_int_equal(qkv_cells_open(&ctx, path, &all), QKV_OK);
    assert_int_equal(qkv_cells_count(&all), 8);
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_true(number(&all, key) == i);
    }
    remove(path); /* by one that is through */
    assert_int_equal(qkv_cells_keep(&one), QKV_OK);
    qkv_cells_close(&all);
    assert_int_equal(qkv_cells_open(&ctx, path, &all), QKV_OK);
    assert_int_equal(qkv_cells_count(&all), 8);
    qkv_cells_close(&all);
    qkv_cells_close(&one);
    qkv_cells_close(&two);
    assert_int_equal(memory.blocks, 0);
}

/* A measurement is worth more than its place: where that takes no file, or has become another, it is said once. */
static void a_place_that_takes_no_file_is_no_failure(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    ctx.log = on_log;
    char path[512];
    qkv_cells c;
    for (int other = 0; other < 2; other++) {
        logged = 0;
        remove(test_path("cells_later", path));
        assert_int_equal(qkv_cells_open(&ctx, other ? path : "/nowhere/cells", &c), QKV_OK);
        if (other) test_write_file(path, "label\ttext\n", 11);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(qkv_cells_put(&c, i ? "b" : "a", json_pack("{s:f}", "x", 1.0)), QKV_OK);
            assert_false(c.kept);
        }
        assert_int_equal(logged, 1);
        if (other) assert_string_equal(contents(path), "label\ttext\n");
        qkv_cells_close(&c);
    }
    assert_int_equal(memory.blocks, 0);
}

static void other_files_are_refused_and_stay(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    char path[512];
    qkv_cells c;
    static const char *const others[] = {"label\ttext\n", "{\"qkv\":\"cells\"}\n", "{\"qkv\":\"other\",\"version\":\"0.1.0\"}\n",
                                         "{\"qkv\":\"cells\",\"version\":\"99.0.0\"}\n",
                                         "\n{\"qkv\":\"cells\",\"version\":\"0.1.0\"}\n"};
    test_path("cells_other", path);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        test_write_file(path, others[i], strlen(others[i]));
        assert_int_equal(qkv_cells_open(&ctx, path, &c), QKV_BAD_FORMAT);
        qkv_cells_close(&c);
        assert_string_equal(contents(path), others[i]);
    }
    assert_int_equal(memory.blocks, 0);
}

/* ---- a run ---- */

static int measured, stop_after;

static int on_stop(void *user) {
    (void)user;
    return measured >= stop_after;
}

static qkv_status prepare(qkv_run *run) {
    for (int64_t i = 0; i < 6; i++) {
        qkv_trial *t;
        QKV_TRY(qkv_run_add(run, &t));
        t->at[0] = i / 3, t->at[1] = i % 3;
        snprintf(t->key, sizeof t->key, "toy %lld", (long long)i);
    }
    snprintf(run->setting, sizeof run->setting, "toy");
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *t, json_t *values) {
    measured++;
    qkv_run_tell(run, 0.5);
    json_object_set_new(values, "x", json_real((double)(10 * t->at[0] + t->at[1])));
    return QKV_OK;
}

static bool whole(const qkv_run *run, const qkv_trial *t, const json_t *values) {
    static const char *const names[] = {"x", NULL};
    (void)run;
    (void)t;
    return qkv_values_within(values, names, 0, 100);
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"x", "x", QKV_UNIT_NUMBER}};
    assert_false(qkv_stop_asked(run->ctx)); /* a run that is stopped says what it has, and that must not stop again */
    qkv_outcome_table(o, "toy", "Toy", "", columns, 1);
    for (int64_t a = 0; a < 2; a++) {
        const int64_t at[QKV_TRIAL_PLACES] = {a, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY};
        const qkv_estimate e = qkv_run_mean(run, at, "x", 0);
        qkv_outcome_row(o);
        qkv_outcome_set_estimate(o, 0, &e);
    }
}

static const qkv_experiment TOY = {.name = "toy",
                                   .summary = "toy",
                                   .self_size = 8,
                                   .seeds = 3,
                                   .prepare = prepare,
                                   .measure = measure,
                                   .whole = whole,
                                   .conclude = conclude};

static int told;
static void on_progress(void *user, const qkv_compare_progress *p) {
    (void)user;
    told++;
    assert_true(p->cells == 6 && p->cell >= 0 && p->cell < 6 && p->part >= 0 && p->part <= 1 && !(p->left < 0));
}

static void a_run_stops_and_goes_on(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    char path[512];
    remove(test_path("cells_run", path));
    const qkv_compare_options o = {.struct_size = sizeof o, .what = "toy", .cells = path};
    const qkv_compare_callbacks callbacks = {.progress = on_progress};
    qkv_compare_result *r;
    ctx.stop = on_stop;
    measured = 0, stop_after = 4;
    assert_int_equal(qkv_experiment_run(&ctx, &TOY, &o, "m", &callbacks, &r), QKV_STOPPED);
    assert_true(measured == 4 && told >= 4 && r->done == 4 && r->cells == 6 && r->taken == 0);
    assert_true(r->table[0].value[0].value == 1 && r->table[0].value[1].value == 10);
    assert_true(r->table[0].value[0].deviation == 1 && isnan(r->table[0].value[1].deviation));
    qkv_outcome_free(qkv_outcome_of(r));
    stop_after = 100;
    assert_int_equal(qkv_experiment_run(&ctx, &TOY, &o, "m", NULL, &r), QKV_OK);
    assert_true(measured == 6 && r->done == 6 && r->taken == 4 && r->table[0].value[1].value == 11);
    assert_string_equal(r->setting, "toy");
    qkv_outcome_free(qkv_outcome_of(r));
    assert_int_equal(memory.blocks, 0);
    for (int64_t k = 1;; k++) { /* the law of memory */
        test_memory poor = {.fail_at = k};
        qkv_ctx failing = test_ctx(&poor);
        const qkv_compare_options none = {.struct_size = sizeof none, .what = "toy"};
        const qkv_status status = qkv_experiment_run(&failing, &TOY, &none, "m", NULL, &r);
        const bool reached = poor.calls >= k;
        assert_int_equal(status, reached ? QKV_NO_MEMORY : QKV_OK);
        if (r) qkv_outcome_free(qkv_outcome_of(r));
        assert_int_equal(poor.blocks, 0);
        if (!reached) break;
    }
}

/* A cell is taken only where it has what its measurement gives. */
static void cells_that_lack_a_value_are_measured_anew(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    ctx.log = on_log;
    char path[512];
    qkv_cells c;
    qkv_compare_result *r;
    remove(test_path("cells_lacking", path));
    const qkv_compare_options o = {.struct_size = sizeof o, .what = "toy", .cells = path};
    assert_int_equal(qkv_cells_open(&ctx, path, &c), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "toy 0", json_object()), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "toy 1", json_pack("{s:f}", "y", 1.0)), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "toy 2", json_pack("{s:s}", "x", "1")), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "toy 3", json_pack("{s:f}", "x", 101.0)), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "toy 4", json_pack("{s:f}", "x", 11.0)), QKV_OK);
    assert_int_equal(qkv_cells_put(&c, "of another", json_object()), QKV_OK);
    qkv_cells_close(&c);
    for (int again = 0; again < 2; again++) {
        measured = logged = 0;
        assert_int_equal(qkv_experiment_run(&ctx, &TOY, &o, "m", NULL, &r), QKV_OK);
        assert_true(measured == (again ? 0 : 5) && logged == !again && r->taken == (again ? 6 : 1));
        assert_true(r->kept && r->others == 1 && r->table[0].value[0].value == 1 && r->table[0].value[1].value == 11);
        qkv_outcome_free(qkv_outcome_of(r));
    }
    assert_int_equal(memory.blocks, 0);
}

/* ---- what trainings say ---- */

static void rows_and_seeds_are_paired(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    int64_t offset[9];
    for (int i = 0; i < 9; i++) offset[i] = i < 5 ? i : 4 + 10 * (i - 4); /* four rows of 1 token, four of 10 */
    const qkv_ragged test = {.count = 8, .offset = offset};
    /* bit k of digit i: row 4 i + k */
    static const char *const right[] = {"3f", "f0", "1f", "70"};
    qkv_trial trials[4];
    memset(trials, 0, sizeof trials);
    for (int i = 0; i < 4; i++) {
        trials[i].at[0] = i % 2, trials[i].at[1] = i / 2;
        trials[i].values = json_pack("{s:s}", "right", right[i]);
    }
    qkv_run run = {.ctx = &ctx, .trials = trials, .count = 4};
    const int64_t a[] = {0, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY}, b[] = {1, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY};
    qkv_estimate e = qkv_run_accuracy(&run, a, &test, 0, 100);
    assert_true(e.count == 2 && fabs(e.value - (6.0 / 8 + 5.0 / 8) / 2) < 1e-12);
    e = qkv_run_accuracy(&run, a, &test, 2, 10);
    assert_true(e.value == 1 && e.deviation == 0 && e.high == 1 && fabs(e.low - 4 / (4 + 1.96 * 1.96)) < 1e-9);
    e = qkv_run_gain(&run, a, b, &test, 1, 1);
    assert_true(e.count == 2 && fabs(e.value - 0.5) < 1e-12 && fabs(e.deviation) < 1e-12);
    e = qkv_run_gain(&run, a, b, &test, 2, 100);
    assert_true(e.value == -1 && e.low < -1 && e.high > -1); /* on four rows; more of them might tell another thing */
    e = qkv_run_gain(&run, a, b, &test, 50, 100);
    assert_int_equal(e.count, 0);
    for (int i = 0; i < 4; i++) json_decref((json_t *)trials[i].values);
    assert_int_equal(memory.blocks, 0);
}

static void a_training_is_the_same_for_any_threads(void **state) {
    (void)state;
    char *answers[2] = {NULL, NULL};
    double loss[2];
    for (int threads = 1; threads <= 2; threads++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = test_ctx(&memory);
        ctx.threads = threads;
        assert_int_equal(qkv_kernels_pick(&ctx, getenv("QKV_ISA")), QKV_OK);
        const qkv_recall task = {4, 4, 8, 2, 8, 16};
        qkv_dataset l = {.name = "toy", .vocab = qkv_recall_vocab(&task), .classes = 4, .max_length = 16};
        assert_int_equal(qkv_recall_make(&ctx, &task, 1, 0, 60, &l.train), QKV_OK);
        assert_int_equal(qkv_recall_make(&ctx, &task, 2, 0, 30, &l.test), QKV_OK);
        qkv_trial trial = {.weight = 1};
        qkv_run run = {.ctx = &ctx, .trials = &trial, .count = 1};
        const qkv_recipe p = {
            .config = qkv_recipe_config(&l, 1, 16, 2), .steps = 5, .batch_tokens = 128, .lr = 1e-3, .clip = 1, .seed = 1};
        qkv_learned learned;
        assert_int_equal(qkv_recipe_train(&run, &l, &p, &learned), QKV_OK);
        assert_int_equal(strlen(learned.answers), 8);
        json_t *values = json_object();
        qkv_learned_json(&learned, &l, values);
        assert_true(json_number_value(json_object_get(values, "accuracy")) == (double)learned.right / 30);
        assert_true(json_number_value(json_object_get(values, "parameters")) > 1000);
        json_decref(values);
        answers[threads - 1] = strdup(learned.answers);
        loss[threads - 1] = learned.loss;
        qkv_learned_free(&ctx, &learned);
        qkv_ragged_between(&l.test, 9, 12);
        for (int64_t i = 0; i < l.test.count; i++) assert_in_range(l.test.offset[i + 1] - l.test.offset[i], 9, 12);
        qkv_dataset_free(&ctx, &l);
        assert_int_equal(memory.blocks, 0);
    }
    assert_string_equal(answers[0], answers[1]);
    assert_true(loss[0] == loss[1]);
    free(answers[0]);
    free(answers[1]);
}

/* Then it says what is most frequent in what it learned from, and that is scored as all answers are. */
static void a_training_that_diverges_has_answers(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    assert_int_equal(qkv_kernels_pick(&ctx, getenv("QKV_ISA")), QKV_OK);
    const qkv_recall task = {4, 4, 8, 2, 8, 16};
    qkv_dataset l = {.name = "toy", .vocab = qkv_recall_vocab(&task), .classes = 4, .max_length = 16};
    assert_int_equal(qkv_recall_make(&ctx, &task, 1, 0, 60, &l.train), QKV_OK);
    assert_int_equal(qkv_recall_make(&ctx, &task, 2, 0, 30, &l.test), QKV_OK);
    for (int64_t i = 0; i < 40; i++) l.train.target[i] = 2;
    qkv_trial trial = {.weight = 1};
    qkv_run run = {.ctx = &ctx, .trials = &trial, .count = 1};
    const qkv_recipe p = {
        .config = qkv_recipe_config(&l, 1, 16, 2), .steps = 20, .batch_tokens = 128, .lr = 1e30, .warmup = -1, .seed = 1};
    qkv_learned learned;
    int64_t common, right = 0;
    assert_int_equal(qkv_dataset_common(&ctx, &l, &common), QKV_OK);
    assert_int_equal(common, 2);
    assert_int_equal(qkv_recipe_train(&run, &l, &p, &learned), QKV_OK);
    assert_true(learned.diverged);
    for (int64_t i = 0; i < 30; i++) {
        assert_int_equal(learned.given[i], 2);
        right += l.test.target[i] == 2;
    }
    json_t *values = json_object();
    qkv_learned_json(&learned, &l, values);
    assert_true(right > 0 && json_number_value(json_object_get(values, "accuracy")) == (double)right / 30);
    assert_true(qkv_share_of_class(&l.test, 2, (qkv_lengths){0, 100}) == (double)right / 30);
    assert_true(json_is_string(json_object_get(values, "right")) && qkv_learned_whole(values, &l));
    json_decref(values);
    qkv_learned_free(&ctx, &learned);
    qkv_dataset_free(&ctx, &l);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_kept),
        cmocka_unit_test(damaged_lines_are_left_out),
        cmocka_unit_test(cells_of_others_stay),
        cmocka_unit_test(a_place_that_takes_no_file_is_no_failure),
        cmocka_unit_test(other_files_are_refused_and_stay),
        cmocka_unit_test(a_run_stops_and_goes_on),
        cmocka_unit_test(cells_that_lack_a_value_are_measured_anew),
        cmocka_unit_test(rows_and_seeds_are_paired),
        cmocka_unit_test(a_training_is_the_same_for_any_threads),
        cmocka_unit_test(a_training_that_diverges_has_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
