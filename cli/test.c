/* qkv test */
#include "test.h"
#include "progress.h"

typedef struct test_values {
    int64_t threads, bootstrap, errors_limit;
    uint64_t seed;
    int json;
    const char *dtype, *errors, *confusion;
    cli_reading reading;
} test_values;

enum { LEAST_RESAMPLES = 100 };

static const cli_need needs[] = {{"seed", "bootstrap"}, {"errors-limit", "errors"}, {NULL, NULL}};

static const cli_option options[] = {
    {"bootstrap", 0, CLI_INT, offsetof(test_values, bootstrap), "N", "1000", 0, 1000000,
     "resamples of the rows for 95 % intervals and p values; 0: none"},
    {"seed", 0, CLI_SEED, offsetof(test_values, seed), "N", "1", 0, 0, "of the resamples"},
    {"errors", 0, CLI_TEXT, offsetof(test_values, errors), "FILE", NULL, 0, 0,
     "write the wrong rows to this file, the most confident first"},
    {"errors-limit", 0, CLI_INT, offsetof(test_values, errors_limit), "N", "0", 0, 1e15, "at most so many of them; 0: all"},
    {"confusion", 0, CLI_TEXT, offsetof(test_values, confusion), "FILE", NULL, 0, 0,
     "write which label was taken for which, and how often"},
    {"dtype", 0, CLI_TEXT, offsetof(test_values, dtype), "NAME", NULL, 0, 0, CLI_DTYPE_HELP},
    CLI_READING_OPTIONS(offsetof(test_values, reading)),
    {"threads", 0, CLI_INT, offsetof(test_values, threads), "N", "0", 0, 1024, "threads; 0: every core allowed"},
    {"json", 0, CLI_FLAG, offsetof(test_values, json), NULL, NULL, 0, 0, "print everything as one JSON object"},
};

typedef struct test_run {
    const cli_verb *verb;
    const test_values *values;
    const char *file; /* the rows */
    int count;        /* of models, 1 or 2 */
    test_side side[2];
    qkv_ctx *ctx;
    qkv_data_options data;
    cli_progress progress;
} test_run;

static void on_rows(void *user, int64_t rows) {
    cli_progress_rows(user, rows);
}

/* ---- before any work ---- */

static int check_output(const test_run *run, const char *name, const char *path, const char *what) {
    if (!path) return CLI_GO_ON;
    if (!strcmp(path, "-") || !path[0])
        return cli_wrong_use(run->verb, "%s cannot go to standard output; give --%s the name of a file", what, name);
    if (run->count == 2) return cli_wrong_use(run->verb, "--%s goes with one model, not with two", name);
    if (cli_same_file(path, run->file)) return cli_wrong_use(run->verb, "--%s %s would overwrite the data", name, path);
    if (cli_same_file(path, run->side[0].path)) return cli_wrong_use(run->verb, "--%s %s would overwrite the model", name, path);
    return cli_check_place(path, what);
}

static int check_use(const test_run *run, const cli_args *args) {
    const test_values *v = run->values;
    int code = cli_check_effects(run->verb, args, v, NULL, NULL);
    if (code != CLI_GO_ON) return code;
    if (v->bootstrap > 0 && v->bootstrap < LEAST_RESAMPLES)
        return cli_wrong_use(run->verb, "--bootstrap=%lld: expected 0 or at least %d", (long long)v->bootstrap, LEAST_RESAMPLES);
    if (run->count == 2 && !strcmp(run->file, "-"))
        return cli_wrong_use(run->verb, "two models read the rows twice, and standard input can be read only once");
    code = check_output(run, "errors", v->errors, "the wrong rows");
    if (code == CLI_GO_ON) code = check_output(run, "confusion", v->confusion, "the confusion matrix");
    if (code == CLI_GO_ON && cli_same_file(v->errors, v->confusion))
        code = cli_wrong_use(run->verb, "--errors and --confusion name the same file");
    return code;
}

/* ---- the work ---- */

static int load(test_run *run, test_side *side) {
    qkv_status status = qkv_model_load(run->ctx, side->path, &side->model);
    if (status != QKV_OK) return cli_fail(run->ctx, status);
    int code = cli_set_compute(run->verb, run->ctx, side->model, run->values->dtype);
    if (code == CLI_GO_ON) code = cli_set_reading(run->verb, run->ctx, side->model, side->path, &run->values->reading);
    if (code == CLI_GO_ON && run->values->confusion && qkv_model_multi_label(side->model))
        code =
            cli_wrong_use(run->verb, "--confusion: the model gives any number of labels to a text, so none is taken for another");
    return code;
}

static int check_kinds(const test_run *run) {
    const int first = qkv_model_multi_label(run->side[0].model);
    if (run->count < 2 || first == qkv_model_multi_label(run->side[1].model)) return CLI_GO_ON;
    return cli_wrong_use(run->verb, "%s gives one label to a text, %s any number: their scores do not compare",
                         run->side[first].path, run->side[!first].path);
}

static int check_effects(const test_run *run, const cli_args *args) {
    const qkv_model *model = run->side[0].model;
    const cli_facts facts = {
        .multi_label = qkv_model_multi_label(model) ? NULL : "the model gives one label to a text",
        .pair = qkv_model_pair(model) ? NULL : "the model reads one text a row",
    };
    return cli_check_effects(run->verb, args, run->values, &run->data, &facts);
}

static int score(test_run *run, test_side *side) {
    qkv_status status = qkv_classify_test(side->model, run->file, &run->data, on_rows, &run->progress, &side->report);
    cli_progress_clear(&run->progress);
    if (status == QKV_OK && run->count == 1 && run->values->bootstrap)
        status = qkv_classify_intervals(side->report, run->values->bootstrap, run->values->seed);
    return status == QKV_OK ? CLI_GO_ON : cli_fail(run->ctx, status);
}

static int write_files(const test_run *run) {
    const test_values *v = run->values;
    const qkv_classify_report *r = run->side[0].report;
    qkv_status status = v->errors ? qkv_classify_write_errors(r, v->errors, v->errors_limit) : QKV_OK;
    if (status == QKV_OK && v->confusion) status = qkv_classify_write_confusion(r, v->confusion);
    return status == QKV_OK ? CLI_DONE : cli_fail(run->ctx, status);
}

static int report_one(const test_run *run) {
    const test_side *side = run->side;
    if (run->values->json)
        cli_json_line(stdout, test_json(side->model, side->report), JSON_INDENT(2));
    else
        test_print(side->model, side->report);
    return write_files(run);
}

static int report_two(test_run *run) {
    qkv_comparison c;
    qkv_status status =
        qkv_classify_compare(run->side[0].report, run->side[1].report, run->values->bootstrap, run->values->seed, &c);
    if (status != QKV_OK) return cli_fail(run->ctx, status);
    if (run->values->json)
        cli_json_line(stdout, test_comparison_json(run->side, &c), JSON_INDENT(2));
    else
        test_print_comparison(run->side, &c);
    return CLI_DONE;
}

static int test(test_run *run, const cli_args *args) {
    int code = check_use(run, args);
    if (code == CLI_GO_ON) code = cli_open(run->verb, run->values->threads, 0, &run->progress, &run->ctx);
    if (code == CLI_GO_ON) code = cli_set_options(run->verb, run->ctx, args, &run->data);
    for (int i = 0; i < run->count && code == CLI_GO_ON; i++) code = load(run, &run->side[i]);
    if (code == CLI_GO_ON) code = check_kinds(run);
    if (code == CLI_GO_ON) code = check_effects(run, args);
    for (int i = 0; i < run->count && code == CLI_GO_ON; i++) code = score(run, &run->side[i]);
    if (code == CLI_GO_ON) code = run->count == 2 ? report_two(run) : report_one(run);
    for (int i = 0; i < run->count; i++) {
        qkv_classify_report_free(run->ctx, run->side[i].report);
        qkv_model_free(run->side[i].model);
    }
    qkv_ctx_free(run->ctx);
    return code;
}

static int run_test(const cli_verb *verb, int argc, char **argv) {
    test_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 3, &values, &args);
    if (code != CLI_GO_ON) return code;
    if (args.count >= 2) {
        test_run run;
        memset(&run, 0, sizeof run);
        run.verb = verb;
        run.values = &values;
        run.count = args.count - 1;
        run.file = args.words[run.count];
        for (int i = 0; i < run.count; i++) run.side[i].path = args.words[i];
        cli_progress_init(&run.progress, 0, 0);
        code = test(&run, &args);
    } else {
        code = cli_wrong_use(verb, "%s", args.count ? "which data? MODEL DATA are needed" : "MODEL and DATA are needed");
    }
    cli_args_free(&args);
    return code;
}

const cli_verb cli_test = {
    .name = "test",
    .usage = "test MODEL DATA [options]\n"
             "test MODEL_A MODEL_B DATA [options]",
    .summary = "score a model on rows it has not seen, or compare two",
    .about =
        "Scores the model on rows label TAB text, or of any other format that 'train classify' reads: accuracy, macro and micro "
        "F1, each with a 95 % interval by resampling the rows; precision, recall and F1 of each class, accuracy by length, the "
        "confusion matrix, and how far the probabilities can be believed; for a model of several labels a text also precision and "
        "recall of the 1, 3 and 5 most probable. Labels that the model does not know are named, and their rows count as errors. - "
        "is "
        "standard input.\n\n"
        "Of two models it says how their scores on the same rows differ, and whether that can be told from chance: paired "
        "resampling "
        "for each score, McNemar's exact test for the rows that one of them gets right.",
    .examples = "test news.model test.tsv\ntest news.model test.tsv.gz --json\n"
                "test news.model test.tsv --errors wrong.tsv --errors-limit 100\n"
                "test old.model new.model test.tsv\n"
                "test reviews.model test.csv --label-column stars --text-column review",
    .options = options,
    .count = sizeof options / sizeof *options,
    .needs = needs,
    .struct_size = sizeof(test_values),
    .table = qkv_data_options_table,
    .run = run_test,
};
