/* qkv test */
#include "cli.h"
#include "progress.h"

#include <math.h>

typedef struct test_values {
    int64_t threads;
    int json;
    const char *dtype;
} test_values;

static const cli_option options[] = {
    {"dtype", 0, CLI_TEXT, offsetof(test_values, dtype), "NAME", NULL, 0, 0, CLI_DTYPE_HELP},
    {"threads", 0, CLI_INT, offsetof(test_values, threads), "N", "0", 0, 1024, "threads; 0: every core allowed"},
    {"json", 0, CLI_FLAG, offsetof(test_values, json), NULL, NULL, 0, 0, "print everything as one JSON object"},
};

static void on_rows(void *user, int64_t rows) {
    cli_progress_rows(user, rows);
}

static void score(const char *name, double share) {
    printf("%-12s %9s\n", name, cli_percent(share).s);
}

static void print_classes(const qkv_model *model, const qkv_classify_report *r) {
    enum { MOST = 32 };
    char text[256];
    int width = 5;
    for (int64_t i = 0; i < r->classes; i++) {
        const char *label = qkv_model_label(model, i);
        int w = cli_printable(label, (int64_t)strlen(label), MOST, text, sizeof text);
        if (w > width) width = w;
    }
    printf("\n%-*s  %9s  %9s  %9s  %9s  %9s\n", width, "class", "precision", "recall", "F1", "rows", "predicted");
    for (int64_t i = 0; i < r->classes; i++) {
        const qkv_class_score *s = &r->scores[i];
        cli_print_padded(stdout, qkv_model_label(model, i), width);
        printf("  %9s  %9s  %9s  %9s  %9s\n", cli_percent(s->precision).s, cli_percent(s->recall).s, cli_percent(s->f1).s,
               cli_count(s->support).s, cli_count(s->predicted).s);
    }
}

static void print_lengths(const qkv_classify_report *r) {
    printf("\n%-13s  %9s  %9s\n", "tokens", r->multi_label ? "exact" : "accuracy", "rows");
    for (int64_t i = 0; i < r->lengths; i++) {
        const qkv_length_score *l = &r->by_length[i];
        char range[100];
        if (!l->rows) continue;
        if (l->to == l->from) {
            snprintf(range, sizeof range, "%s", cli_count(l->from).s);
        } else if (l->to < 0) {
            snprintf(range, sizeof range, "%s and more", cli_count(l->from).s);
        } else {
            snprintf(range, sizeof range, "%s to %s", cli_count(l->from).s, cli_count(l->to).s);
        }
        printf("%-13s  %9s  %9s\n", range, cli_percent(l->accuracy).s, cli_count(l->rows).s);
    }
}

static void print_multi(const qkv_classify_report *r) {
    char name[32];
    score("precision", r->micro_precision);
    score("recall", r->micro_recall);
    for (int64_t i = 0; i < r->ranks; i++) {
        snprintf(name, sizeof name, "P@%lld", (long long)r->by_rank[i].k);
        score(name, r->by_rank[i].precision);
        snprintf(name, sizeof name, "R@%lld", (long long)r->by_rank[i].k);
        score(name, r->by_rank[i].recall);
    }
}

/* What is not as one would think about the rows. */
static void print_notes(const qkv_classify_report *r) {
    if (r->cut_rows)
        printf("\n%s longer than the model reads: cut to what it reads, %s dropped.\n", cli_of(r->cut_rows, "row").s,
               cli_of(r->cut_tokens, "token").s);
    if (r->empty_rows) printf("\n%s without text.\n", cli_of(r->empty_rows, "row").s);
    if (r->repaired_rows) printf("\n%s with NUL or bytes that are not UTF-8.\n", cli_of(r->repaired_rows, "row").s);
    if (r->unlabelled_rows) printf("\n%s without a label.\n", cli_of(r->unlabelled_rows, "row").s);
}

static void print_report(const qkv_model *model, const qkv_classify_report *r) {
    char text[256];
    printf("%s, %s, %s", cli_of(r->rows, "row").s, cli_of(r->classes, "class").s, cli_duration(r->seconds).s);
    if (r->seconds > 0) printf(" (%s rows/s)", cli_count((int64_t)((double)r->rows / r->seconds)).s);
    printf("\n\n");
    score(r->multi_label ? "exact" : "accuracy", r->accuracy);
    score("macro F1", r->macro_f1);
    score("micro F1", r->micro_f1);
    score("weighted F1", r->weighted_f1);
    if (r->multi_label) print_multi(r);
    printf("%-12s %9s%s\n", "loss", cli_loss(r->loss).s, isnan(r->loss) ? "" : " nats");
    print_classes(model, r);
    print_lengths(r);
    print_notes(r);
    if (r->unseen) printf("\nLabels that the model does not know; their rows count as errors:\n");
    for (int64_t i = 0; i < r->unseen; i++) {
        const char *label = r->unseen_labels[i].label;
        cli_printable(label, (int64_t)strlen(label), 0, text, sizeof text);
        printf("  %s  %s\n", text, cli_of(r->unseen_labels[i].rows, "row").s);
    }
}

static json_t *multi_json(const qkv_classify_report *r) {
    json_t *ranks = json_array();
    for (int64_t i = 0; i < r->ranks; i++) {
        const qkv_rank_score *k = &r->by_rank[i];
        json_array_append_new(ranks, json_pack("{s:I, s:o, s:o}", "k", (json_int_t)k->k, "precision", cli_json_real(k->precision),
                                               "recall", cli_json_real(k->recall)));
    }
    return json_pack("{s:b, s:o, s:o, s:o, s:I}", "multi_label", 1, "micro_precision", cli_json_real(r->micro_precision),
                     "micro_recall", cli_json_real(r->micro_recall), "at_k", ranks, "unlabelled_rows",
                     (json_int_t)r->unlabelled_rows);
}

static json_t *report_json(const qkv_model *model, const qkv_classify_report *r) {
    json_t *classes = json_array(), *lengths = json_array(), *unseen = json_array();
    for (int64_t i = 0; i < r->classes; i++) {
        const qkv_class_score *s = &r->scores[i];
        const char *label = qkv_model_label(model, i);
        json_array_append_new(
            classes, json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "label", cli_json_text(label, (int64_t)strlen(label)), "precision",
                               cli_json_real(s->precision), "recall", cli_json_real(s->recall), "f1", cli_json_real(s->f1), "rows",
                               (json_int_t)s->support, "predicted", (json_int_t)s->predicted));
    }
    for (int64_t i = 0; i < r->lengths; i++) {
        const qkv_length_score *l = &r->by_length[i];
        json_t *to = l->to < 0 ? json_null() : json_integer(l->to);
        json_array_append_new(lengths,
                              json_pack("{s:I, s:o, s:I, s:o}", "from", (json_int_t)l->from, "to", to, "rows", (json_int_t)l->rows,
                                        "accuracy", l->rows ? cli_json_real(l->accuracy) : json_null()));
    }
    for (int64_t i = 0; i < r->unseen; i++) {
        const char *label = r->unseen_labels[i].label;
        json_array_append_new(unseen, json_pack("{s:o, s:I}", "label", cli_json_text(label, (int64_t)strlen(label)), "rows",
                                                (json_int_t)r->unseen_labels[i].rows));
    }
    json_t *report = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "rows", (json_int_t)r->rows, "accuracy",
                     cli_json_real(r->accuracy), "macro_f1", cli_json_real(r->macro_f1), "micro_f1", cli_json_real(r->micro_f1),
                     "weighted_f1", cli_json_real(r->weighted_f1), "loss", cli_json_real(r->loss), "classes", classes, "by_length",
                     lengths, "unseen_labels", unseen, "cut_rows", (json_int_t)r->cut_rows, "seconds", cli_json_real(r->seconds));
    json_object_set_new(report, "cut_tokens", json_integer(r->cut_tokens));
    json_object_set_new(report, "empty_rows", json_integer(r->empty_rows));
    json_object_set_new(report, "repaired_rows", json_integer(r->repaired_rows));
    json_object_set_new(report, "format", json_string(r->format));
    if (r->multi_label) json_object_update_new(report, multi_json(r));
    return report;
}

static int test(const cli_verb *verb, const test_values *values, const cli_args *args) {
    qkv_ctx *ctx = NULL;
    qkv_model *model = NULL;
    qkv_classify_report *report = NULL;
    cli_progress progress;
    cli_progress_init(&progress, 0, 0);
    int code = cli_open(verb, values->threads, 0, &progress, &ctx);
    if (code != CLI_GO_ON) return code;
    qkv_data_options data;
    code = cli_set_options(verb, ctx, args, &data);
    if (code != CLI_GO_ON) {
        qkv_ctx_free(ctx);
        return code;
    }
    qkv_status status = qkv_model_load(ctx, args->words[0], &model);
    code = status == QKV_OK ? cli_set_compute(verb, ctx, model, values->dtype) : CLI_GO_ON;
    if (code != CLI_GO_ON) {
        qkv_model_free(model);
        qkv_ctx_free(ctx);
        return code;
    }
    if (status == QKV_OK) status = qkv_classify_test(model, args->words[1], &data, on_rows, &progress, &report);
    cli_progress_clear(&progress);
    if (status != QKV_OK) {
        code = cli_fail(ctx, status);
    } else if (values->json) {
        cli_json_line(stdout, report_json(model, report), JSON_INDENT(2));
        code = CLI_DONE;
    } else {
        print_report(model, report);
        code = CLI_DONE;
    }
    qkv_classify_report_free(ctx, report);
    qkv_model_free(model);
    qkv_ctx_free(ctx);
    return code;
}

static int run_test(const cli_verb *verb, int argc, char **argv) {
    test_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 2, &values, &args);
    if (code != CLI_GO_ON) return code;
    if (args.count == 2) {
        code = test(verb, &values, &args);
    } else {
        code = cli_wrong_use(verb, "%s", args.count ? "which data? MODEL DATA are needed" : "MODEL and DATA are needed");
    }
    cli_args_free(&args);
    return code;
}

const cli_verb cli_test = {
    .name = "test",
    .usage = "test MODEL DATA [options]",
    .summary = "score a model on rows it has not seen",
    .about =
        "Scores the model on rows label TAB text, or of any other format that 'train classify' reads: accuracy, macro and micro "
        "F1, precision, recall and F1 of each class, accuracy by length; for a model of several labels a text also precision and "
        "recall of the 1, 3 and 5 most probable. Labels that the model does not know are named, and their rows count as errors. - is "
        "standard input.",
    .examples = "test news.model test.tsv\ntest news.model test.tsv.gz --json\n"
                "test reviews.model test.csv --label-column stars --text-column review",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(test_values),
    .table = qkv_data_options_table,
    .run = run_test,
};
