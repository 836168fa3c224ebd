/* qkv predict: one line out for each row in, in order, as soon as there is nothing more to read at once. */
#include <errno.h>

#include "texts.h"

typedef struct predict_values {
    int64_t top;
    double least;
    int json;
    cli_texts_options texts;
} predict_values;

static const cli_option options[] = {
    {"top", 0, CLI_INT, offsetof(predict_values, top), "K", "0", 0, 1e9,
     "print the K most probable labels, each with its probability: label TAB probability TAB label ... 0: the label alone"},
    {"min-probability", 0, CLI_REAL, offsetof(predict_values, least), "P", NULL, 0, 1,
     "print only labels with at least this probability, in place of a model's own thresholds; an empty line if there is none"},
    {"json", 0, CLI_FLAG, offsetof(predict_values, json), NULL, NULL, 0, 0,
     "print an object a line with the label and all probabilities (with --top the K largest)"},
    CLI_TEXTS_OPTIONS(offsetof(predict_values, texts)),
};

typedef struct candidate {
    float p;
    int64_t label;
} candidate;

typedef struct prediction {
    const qkv_model *model;
    const predict_values *values;
    const char *separator; /* between several labels */
    int limited;           /* --min-probability is given */
    int64_t labels;
    float *probabilities; /* of a batch */
    candidate *order;     /* [labels] */
} prediction;

static int more_probable(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->p != y->p) return x->p > y->p ? -1 : 1;
    return x->label < y->label ? -1 : 1;
}

/* The most probable label to the front of b->order, or all in order if more than one is wanted. */
static void rank(prediction *b, const float *p, int64_t k) {
    for (int64_t i = 0; i < b->labels; i++) b->order[i] = (candidate){p[i], i};
    if (k > 1) qsort(b->order, (size_t)b->labels, sizeof *b->order, more_probable);
    for (int64_t i = 1; i < b->labels && k == 1; i++) {
        if (b->order[i].p > b->order[0].p) b->order[0] = b->order[i];
    }
}

static json_t *label_json(const prediction *b, int64_t i) {
    const char *label = qkv_model_label(b->model, b->order[i].label);
    return cli_json_text(label, (int64_t)strlen(label));
}

/* Is it probable enough to be printed at all? */
static int shown(const prediction *b, int64_t i) {
    return !b->limited || (double)b->order[i].p >= b->values->least;
}

/* Is it one of the labels that a model of any number gives? */
static int reaches(const prediction *b, int64_t i) {
    return b->limited ? shown(b, i) : (double)b->order[i].p >= qkv_model_threshold(b->model, b->order[i].label);
}

static void print_json(const prediction *b, int64_t k) {
    json_t *all = json_object(), *given = json_array(), *answer = json_object();
    for (int64_t i = 0; i < k && shown(b, i); i++) {
        json_t *name = label_json(b, i);
        json_object_set_new(all, json_string_value(name), cli_json_float(b->order[i].p));
        json_decref(name);
    }
    if (qkv_model_multi_label(b->model)) {
        for (int64_t i = 0; i < b->labels; i++) {
            if (reaches(b, i)) json_array_append_new(given, label_json(b, i));
        }
        json_object_set(answer, "labels", given);
    } else {
        json_object_set_new(answer, "label", shown(b, 0) ? label_json(b, 0) : json_null());
    }
    json_decref(given);
    json_object_set_new(answer, "probabilities", all);
    cli_json_line(stdout, answer, JSON_COMPACT);
}

/* As it is read back from a column: a separator inside a label, and a backslash that would be taken for its escape, get one. */
static void print_escaped(const char *label, const char *separator) {
    size_t n = strlen(separator);
    for (const char *c = label; *c;) {
        if (!strncmp(c, separator, n)) {
            printf("\\%s", separator);
            c += n;
        } else {
            if (*c == '\\') putchar('\\');
            putchar(*c++);
        }
    }
}

/* All labels that reach their threshold, the most probable first; an empty line where none does. */
static void print_set(const prediction *b) {
    int count = 0;
    for (int64_t i = 0; i < b->labels; i++) {
        if (!reaches(b, i)) continue;
        if (count++) fputs(b->separator, stdout);
        print_escaped(qkv_model_label(b->model, b->order[i].label), b->separator);
    }
    putchar('\n');
}

static void print_row(prediction *b, const float *p) {
    int multi = qkv_model_multi_label(b->model);
    int64_t k = b->values->top;
    if (k == 0) k = b->values->json || multi ? b->labels : 1;
    if (k > b->labels) k = b->labels;
    rank(b, p, multi ? b->labels : k);
    if (b->values->json) {
        print_json(b, k);
        return;
    }
    if (multi && !b->values->top) {
        print_set(b);
        return;
    }
    for (int64_t i = 0; i < k && shown(b, i); i++) {
        if (i) putchar('\t');
        fputs(qkv_model_label(b->model, b->order[i].label), stdout);
        if (b->values->top) printf("\t%.6f", (double)b->order[i].p);
    }
    putchar('\n');
}

static int answer(void *user, cli_texts *t) {
    prediction *b = user;
    if (!b->probabilities) b->probabilities = cli_alloc((size_t)(t->capacity * b->labels) * sizeof *b->probabilities);
    qkv_status status = qkv_classify_predict(t->model, t->count, t->text, t->length, b->probabilities, t->dropped);
    int code;
    const int64_t count = cli_texts_answered(t, status, b->probabilities, b->labels, &code);
    for (int64_t i = 0; i < count; i++) print_row(b, b->probabilities + i * b->labels);
    /* nobody may be there to read on */
    return fflush(stdout) || ferror(stdout) ? cli_output_failed(errno ? errno : EIO) : code;
}

static int predict(cli_texts *t, const predict_values *values, int limited) {
    prediction b = {.model = t->model, .values = values, .separator = t->data.label_separator, .limited = limited};
    b.labels = qkv_model_labels(t->model);
    b.order = cli_alloc((size_t)b.labels * sizeof *b.order);
    int code = cli_texts_run(t, b.labels, answer, &b);
    free(b.probabilities);
    free(b.order);
    return code;
}

static int run_predict(const cli_verb *verb, int argc, char **argv) {
    predict_values values;
    cli_args args;
    cli_texts texts;
    int code = cli_parse(verb, argc, argv, 2, &values, &args);
    if (code != CLI_GO_ON) return code;
    code = cli_texts_open(verb, &values.texts, &args, 0, &texts);
    if (code == CLI_GO_ON) code = predict(&texts, &values, cli_given(verb, &args, "min-probability"));
    cli_texts_close(&texts);
    cli_args_free(&args);
    return code;
}

const cli_verb cli_predict = {
    .name = "predict",
    .usage = "predict MODEL [FILE] [options]",
    .summary = "a label for each line",
    .about = "Reads plain text, a text a line, and prints one line for each, in order, whatever is in it. Of files that end in .csv, "
             ".jsonl or .ndjson, and of what --format names, the texts of the rows are read. Without FILE, or with -, it reads standard "
             "input, and answers as soon as there is nothing more to read at once. FILE may be gzip.\n\n"
             "Of a model trained with --multi-label it prints all labels that reach their threshold, the most probable first; an "
             "empty line if none does. A model trained with --pair reads two texts with a tab between.",
    .examples = "predict news.model letters.txt\n"
                "predict news.model --top 3 < letters.txt\n"
                "predict news.model test.tsv --column 2 --json\n"
                "predict news.model --top 3 --min-probability 0.2 < letters.txt\n"
                "predict reviews.model reviews.csv --text-column review",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(predict_values),
    .table = qkv_data_options_table,
    .no_labels = 1,
    .writes_labels = 1,
    .run = run_predict,
};
