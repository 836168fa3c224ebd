/* What a test leaves behind: confusions, wrong rows in a file, intervals, two models compared. */
#include "unit/tasks/toy.h"

#include <math.h>

#include "base/file.h"

static qkv_model *trained(qkv_ctx *ctx, const char *path) {
    qkv_classify_options o = toy_options();
    qkv_model *model;
    assert_int_equal(qkv_classify_fit(ctx, &o, NULL, path, NULL, NULL, NULL, &model), QKV_OK);
    return model;
}

static qkv_classify_report *tested(const qkv_model *model, const char *path) {
    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(model, path, NULL, NULL, NULL, &r), QKV_OK);
    return r;
}

/* The file's text, for free(). */
static char *text_of(qkv_ctx *ctx, const char *path) {
    char *data;
    int64_t size;
    assert_int_equal(qkv_file_read(ctx, path, 1 << 20, &data, &size), QKV_OK);
    char *copy = malloc((size_t)size + 1);
    assert_non_null(copy);
    memcpy(copy, data, (size_t)size + 1);
    qkv_free(ctx, data);
    return copy;
}

/* Column `column` (from 0) of line `line` (from 0). */
static void field(const char *text, int line, int column, char out[256]) {
    for (; line > 0; line--) text = strchr(text, '\n') + 1;
    for (; column > 0; column--) text = strchr(text, '\t') + 1;
    snprintf(out, 256, "%.*s", (int)strcspn(text, "\t\n"), text);
}

static bool same_interval(qkv_interval a, qkv_interval b) {
    return a.low == b.low && a.high == b.high;
}

static int64_t rows_of(const qkv_classify_report *r, int64_t gold, int64_t predicted) {
    for (int64_t i = 0; i < r->confusions; i++)
        if (r->confusion[i].gold == gold && r->confusion[i].predicted == predicted) return r->confusion[i].rows;
    return 0;
}

/* The classes are no (0) and yes (1); maybe (2) is a label that the model does not know. */
static void confusions_and_wrong_rows(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512], data[512], out[512], cell[256];
    toy_file("report_train.tsv", 200, 1, train);
    toy_text("report.tsv",
             "yes\tbright day\nno\tgloomy day\nno\tbright\tbright \\ \xff bright\x01\nmaybe\tgloomy gloomy\nyes\tgloomy "
             "we\nyes\tbright\n",
             data);
    qkv_model *model = trained(&ctx, train);
    qkv_classify_report *r = tested(model, data);
    assert_true(r->rows == 6 && r->errors == 3 && r->unseen == 1 && r->accuracy == 0.5);
    assert_true(rows_of(r, 0, 0) == 1 && rows_of(r, 0, 1) == 1 && rows_of(r, 1, 0) == 1 && rows_of(r, 1, 1) == 2 &&
                rows_of(r, 2, 0) == 1);
    assert_int_equal(r->confusions, 5);
    assert_true(isnan(r->accuracy_interval.low) && r->resamples == 0);
    assert_true(r->ece > 0 && r->ece < r->mce + 1e-12 && r->mce < 1 && r->brier > 0 && r->brier < 2 && r->confidence > 0.5);
    int64_t binned = 0;
    for (int64_t i = 0; i < r->bins; i++) binned += r->reliability[i].rows;
    assert_int_equal(binned, 6);

    assert_int_equal(qkv_classify_confusion(r, test_path("report_confusion.tsv", out)), QKV_OK);
    char *text = text_of(&ctx, out);
    assert_string_equal(text, "gold\tpredicted\trows\nno\tno\t1\nno\tyes\t1\nyes\tno\t1\nyes\tyes\t2\nmaybe\tno\t1\n");
    free(text);

    assert_int_equal(qkv_classify_errors(r, test_path("report_errors.tsv", out), 0), QKV_OK);
    text = text_of(&ctx, out);
    assert_memory_equal(text, "probability\tpredicted\tgold\tgold_probability\tline\ttext\n", 54);
    double before = 1;
    int seen = 0;
    for (int i = 1; i <= 3; i++) {
        field(text, i, 0, cell);
        double p = atof(cell);
        assert_true(p <= before && p > 0.5);
        before = p;
        field(text, i, 4, cell);
        int line = atoi(cell);
        seen |= 1 << line;
        field(text, i, 1, cell);
        assert_string_equal(cell, line == 3 ? "yes" : "no");
        field(text, i, 2, cell);
        assert_string_equal(cell, line == 3 ? "no" : line == 4 ? "maybe" : "yes");
        field(text, i, 3, cell);
        assert_true(line == 4 ? atof(cell) == 0 : fabs(atof(cell) + p - 1) < 3e-6);
        field(text, i, 5, cell);
        assert_string_equal(cell, line == 3   ? "bright\\x09bright \\\\ \\xFF bright\\x01"
                                  : line == 4 ? "gloomy gloomy"
                                              : "gloomy we");
    }
    assert_int_equal(seen, 1 << 3 | 1 << 4 | 1 << 5);
    char first[256];
    field(text, 1, 5, first);
    free(text);
    assert_int_equal(qkv_classify_errors(r, out, 1), QKV_OK); /* the file is replaced */
    text = text_of(&ctx, out);
    field(text, 1, 5, cell);
    assert_string_equal(cell, first);
    field(text, 2, 0, cell);
    assert_string_equal(cell, "");
    free(text);
    assert_int_equal(qkv_classify_errors(r, test_path("no/such/folder", out), 0), QKV_IO);
    qkv_classify_score_free(&ctx, r);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

static void intervals_do_not_depend_on_threads(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512], data[512];
    toy_file("report_train.tsv", 200, 1, train);
    toy_text("report_few.tsv", "yes\tbright\nno\tbright\nno\tgloomy\nno\twe\nyes\twe\nyes\tgloomy\nyes\tbright bright\n", data);
    qkv_model *model = trained(&ctx, train);
    qkv_classify_report *a = tested(model, data), *b = tested(model, data);
    assert_int_equal(qkv_classify_resample(a, 500, 1), QKV_OK);
    ctx.threads = 1;
    assert_int_equal(qkv_classify_resample(b, 500, 1), QKV_OK);
    assert_true(same_interval(a->accuracy_interval, b->accuracy_interval) &&
                same_interval(a->macro_f1_interval, b->macro_f1_interval));
    assert_true(a->resamples == 500 && a->seed == 1);
    assert_true(a->accuracy_interval.low < a->accuracy && a->accuracy < a->accuracy_interval.high);
    assert_true(a->macro_f1_interval.low < a->macro_f1 && a->macro_f1 < a->macro_f1_interval.high);
    bool differs = false; /* of seven rows two seeds may draw the same ends */
    for (uint64_t seed = 2; seed < 12 && !differs; seed++) {
        assert_int_equal(qkv_classify_resample(b, 500, seed), QKV_OK);
        differs = !same_interval(a->macro_f1_interval, b->macro_f1_interval);
    }
    assert_true(differs);
    assert_int_equal(qkv_classify_resample(b, 99, 2), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_resample(b, 1000001, 2), QKV_BAD_ARGUMENT);
    qkv_classify_score_free(&ctx, a);
    qkv_classify_score_free(&ctx, b);

    toy_text("report_one.tsv", "yes\tbright\n", data); /* one row */
    a = tested(model, data);
    assert_int_equal(qkv_classify_resample(a, 100, 1), QKV_OK);
    assert_true(a->accuracy_interval.low == 1 && a->accuracy_interval.high == 1 && a->errors == 0);
    qkv_classify_score_free(&ctx, a);
    toy_text("report_none.tsv", "a\tbright\nb\tgloomy\n", data); /* nothing that the model knows */
    a = tested(model, data);
    assert_int_equal(qkv_classify_resample(a, 100, 1), QKV_OK);
    assert_true(a->accuracy_interval.high == 0 && a->macro_f1_interval.high == 0 && a->errors == 2 && isnan(a->loss));
    assert_true(a->confusions == 2 && a->confusion[0].gold == 2 && a->confusion[1].gold == 3 && a->brier > 1);
    qkv_classify_score_free(&ctx, a);
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* A model with weights that are not numbers answers something, is wrong about it, and says so. */
static void probabilities_that_are_no_numbers(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512];
    toy_file("report_train.tsv", 40, 1, train);
    qkv_model *model = trained(&ctx, train);
    for (int64_t i = 0; i < qkv_classifier_reg(model->net)->size; i++) model->weights[i] = (real)NAN;
    qkv_model_unpack(model);
    qkv_classify_report *r;
    assert_int_equal(qkv_classify_score(model, train, NULL, NULL, NULL, &r), QKV_NUMERIC);
    assert_null(r);
    assert_non_null(strstr(ctx.message, "report_train.tsv:1: "));
    qkv_model_free(model);
    assert_int_equal(memory.blocks, 0);
}

/* The second model knows "maybe" too; both are judged by the text of the labels. */
static void two_models(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512], other[512], data[512], big[20000] = "";
    toy_file("report_train.tsv", 200, 1, train);
    for (int i = 0; i < 120; i++)
        strcat(big, i % 3 == 0 ? "yes\tthe bright day\n" : i % 3 == 1 ? "no\twe gloomy day\n" : "maybe\tso noisy day\n");
    toy_text("report_other.tsv", big, other);
    static const char rows[] =
        "yes\tthe bright day\nno\twe gloomy day\nmaybe\tso noisy day\nmaybe\tso noisy day\nyes\twe gloomy day\n"
        "maybe\tso noisy day\nno\twe gloomy day\nmaybe\tso noisy day\nmaybe\tso noisy day\nmaybe\tso noisy day\n";
    toy_text("report_two.tsv", rows, data);
    qkv_model *two = trained(&ctx, train), *three = trained(&ctx, other);
    assert_int_equal(three->config.classes, 3);
    qkv_classify_report *a = tested(two, data), *b = tested(three, data);
    qkv_comparison c, again;
    assert_int_equal(qkv_classify_pair(a, b, 200, 1, &c), QKV_OK);
    assert_true(c.rows == 10 && c.both_right == 3 && c.only_a == 0 && c.only_b == 6 && c.neither == 1);
    assert_true(fabs(c.mcnemar - 0.03125) < 1e-15); /* 2 / 2^6 */
    assert_true(fabs(c.accuracy.difference - 0.6) < 1e-12 && c.accuracy.a == a->accuracy && c.accuracy.b == b->accuracy);
    assert_true(c.accuracy.interval.low > 0 && c.accuracy.interval.high <= 1 && c.accuracy.p <= 0.05 && c.accuracy.p > 0);
    assert_int_equal(qkv_classify_resample(a, 200, 1), QKV_OK);
    assert_int_equal(qkv_classify_resample(b, 200, 1), QKV_OK);
    assert_true(same_interval(c.macro_f1.a_interval, a->macro_f1_interval) &&
                same_interval(c.macro_f1.b_interval, b->macro_f1_interval));
    assert_int_equal(qkv_classify_pair(b, a, 200, 1, &again), QKV_OK); /* the other way round */
    assert_true(again.only_a == 6 && again.mcnemar == c.mcnemar && again.macro_f1.p == c.macro_f1.p);
    assert_true(again.macro_f1.interval.low == -c.macro_f1.interval.high &&
                again.macro_f1.interval.high == -c.macro_f1.interval.low);
    assert_int_equal(qkv_classify_pair(a, a, 0, 1, &again), QKV_OK);
    assert_true(again.mcnemar == 1 && again.accuracy.difference == 0 && isnan(again.accuracy.p) &&
                isnan(again.accuracy.interval.low));
    assert_int_equal(qkv_classify_pair(a, a, 100, 1, &again), QKV_OK);
    assert_true(again.accuracy.p == 1 && again.accuracy.interval.low == 0 && again.accuracy.interval.high == 0);
    assert_int_equal(qkv_classify_pair(a, b, 20, 1, &again), QKV_BAD_ARGUMENT);

    qkv_classify_report *others = tested(two, train);
    assert_int_equal(qkv_classify_pair(a, others, 100, 1, &again), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "10 and 200"));
    qkv_classify_score_free(&ctx, others);
    snprintf(big, sizeof big, "%s", rows); /* as many rows, one of them another */
    memcpy(strstr(big, "gloomy"), "glooms", 6);
    toy_text("report_swapped.tsv", big, train);
    others = tested(two, train);
    assert_int_equal(qkv_classify_pair(a, others, 100, 1, &again), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "different rows"));
    qkv_classify_score_free(&ctx, others);
    qkv_classify_score_free(&ctx, a);
    qkv_classify_score_free(&ctx, b);
    qkv_model_free(two);
    qkv_model_free(three);
    assert_int_equal(memory.blocks, 0);
}

/* Of a model of any number of labels: sets in the file, decisions in the calibration, no confusions. */
static void sets_of_labels(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = toy_ctx(&memory, 2);
    char train[512], data[512], out[512], cell[256], big[40000] = "";
    for (int i = 0; i < 300; i++)
        strcat(big, i % 3 == 0   ? "{\"label\":[\"a,b\"],\"text\":\"the bright day\"}\n"
                    : i % 3 == 1 ? "{\"label\":[\"c\"],\"text\":\"we gloomy\"}\n"
                                 : "{\"label\":[\"a,b\",\"c\"],\"text\":\"bright so gloomy\"}\n");
    toy_text("report_sets.jsonl", big, train);
    toy_text("report_sets_test.jsonl",
             "{\"label\":[\"a,b\"],\"text\":\"the bright day\"}\n{\"label\":[\"c\",\"a,b\"],\"text\":\"the bright day\"}\n"
             "{\"label\":[\"new\",\"c\"],\"text\":\"we gloomy\"}\n{\"label\":[],\"text\":\"we gloomy\"}\n",
             data);
    qkv_classify_options o = toy_options();
    o.multi_label = 1;
    qkv_model *model, *single;
    assert_int_equal(qkv_classify_fit(&ctx, &o, NULL, train, NULL, NULL, NULL, &model), QKV_OK);
    qkv_classify_report *r = tested(model, data);
    assert_true(r->multi_label && r->rows == 4 && r->errors == 3 && r->confusions == 0 && r->accuracy == 0.25);
    int64_t decisions = 0;
    for (int64_t i = 0; i < r->bins; i++) decisions += r->reliability[i].rows;
    assert_int_equal(decisions, 8); /* of the two labels that the model knows */
    assert_int_equal(qkv_classify_resample(r, 100, 1), QKV_OK);
    assert_true(r->accuracy_interval.low == 0 && r->accuracy_interval.high >= 0.5 && r->micro_f1_interval.low < r->micro_f1);
    assert_int_equal(qkv_classify_confusion(r, test_path("report_confusion.tsv", out)), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_classify_errors(r, test_path("report_errors.tsv", out), 0), QKV_OK);
    char *text = text_of(&ctx, out);
    static const char *const expected[5][3] = {[2] = {"a\\,b", "a\\,b,c"}, [3] = {"c", "c,new", "0.000000"}, [4] = {"c", "", ""}};
    for (int i = 1; i <= 3; i++) {
        field(text, i, 4, cell);
        int line = atoi(cell);
        assert_true(line >= 2 && line <= 4);
        if (i == 1) assert_int_equal(line, 3); /* what is not known is missed for certain */
        for (int k = 0; k < 3; k++) {
            field(text, i, k + 1, cell);
            if (expected[line][k]) assert_string_equal(cell, expected[line][k]);
        }
    }
    free(text);
    single = trained(&ctx, toy_file("report_train.tsv", 40, 1, train));
    qkv_classify_report *other = tested(single, train);
    qkv_comparison c;
    assert_int_equal(qkv_classify_pair(r, other, 0, 1, &c), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(ctx.message, "do not compare"));
    assert_int_equal(qkv_classify_pair(r, r, 100, 1, &c), QKV_OK);
    assert_true(c.both_right == 1 && c.neither == 3 && c.micro_f1.p == 1);
    qkv_classify_score_free(&ctx, other);
    qkv_classify_score_free(&ctx, r);
    qkv_model_free(model);
    qkv_model_free(single);
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confusions_and_wrong_rows),
        cmocka_unit_test(intervals_do_not_depend_on_threads),
        cmocka_unit_test(probabilities_that_are_no_numbers),
        cmocka_unit_test(two_models),
        cmocka_unit_test(sets_of_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
