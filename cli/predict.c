/* qkv predict: one line out for each row in, in order, as soon as there is nothing more to read at once. */
#include "cli.h"

#include <errno.h>

typedef struct predict_values {
    int64_t top, column, threads;
    int json;
    const char *dtype;
} predict_values;

static const cli_option options[] = {
    {"top", 0, CLI_INT, offsetof(predict_values, top), "K", "0", 0, 1e9,
     "print the K most probable labels, each with its probability: label TAB probability TAB label ... 0: the label alone"},
    {"column", 0, CLI_INT, offsetof(predict_values, column), "N", "0", 0, 1e9,
     "the text is column N of tab-separated lines, from 1; a line with fewer has no text. 0: the whole line"},
    {"json", 0, CLI_FLAG, offsetof(predict_values, json), NULL, NULL, 0, 0,
     "print an object a line with the label and all probabilities (with --top the K largest)"},
    {"dtype", 0, CLI_TEXT, offsetof(predict_values, dtype), "NAME", NULL, 0, 0, CLI_DTYPE_HELP},
    {"threads", 0, CLI_INT, offsetof(predict_values, threads), "N", "0", 0, 1024, "threads; 0: every core allowed"},
};

enum { MOST_ROWS = 512, MOST_BYTES = 1 << 20, MOST_FLOATS = 1 << 20 };

typedef struct candidate {
    float p;
    int64_t label;
} candidate;

typedef struct batch {
    const qkv_model *model;
    const predict_values *values;
    const char *separator;           /* between several labels */
    int64_t labels, capacity, count; /* rows */
    char *bytes;
    size_t used, room;
    int64_t *begin, *length;
    const char **text;
    float *probabilities;
    int64_t *dropped;
    candidate *order;                 /* [labels] */
    int output_error;                 /* errno of a failed write */
    int64_t short_lines, first_short; /* lines without the column */
    int64_t rows, cut_rows, cut_tokens;
} batch;

static void batch_open(batch *b, const qkv_model *model, const predict_values *values) {
    memset(b, 0, sizeof *b);
    b->model = model;
    b->values = values;
    b->labels = qkv_model_labels(model);
    b->capacity = b->labels > 0 && MOST_FLOATS / b->labels < MOST_ROWS ? MOST_FLOATS / b->labels : MOST_ROWS;
    if (b->capacity < 1) b->capacity = 1;
    size_t rows = (size_t)b->capacity, labels = (size_t)b->labels;
    b->begin = cli_alloc(rows * sizeof *b->begin);
    b->length = cli_alloc(rows * sizeof *b->length);
    b->text = cli_alloc(rows * sizeof *b->text);
    b->probabilities = cli_alloc(rows * labels * sizeof *b->probabilities);
    b->dropped = cli_alloc(rows * sizeof *b->dropped);
    b->order = cli_alloc(labels * sizeof *b->order);
}

static void batch_close(batch *b) {
    free(b->bytes);
    free(b->begin);
    free(b->length);
    free(b->text);
    free(b->probabilities);
    free(b->dropped);
    free(b->order);
}

static void batch_add(batch *b, const char *line, int64_t length, int64_t number) {
    const char *text = line;
    int64_t bytes = length;
    if (b->values->column) {
        text = qkv_line_column(line, length, b->values->column, &bytes);
        if (!text) {
            if (!b->short_lines++) b->first_short = number;
            bytes = 0;
        }
    }
    if (b->used + (size_t)bytes + 1 > b->room) {
        b->room = b->used + (size_t)bytes + 1 + b->room / 2;
        b->bytes = cli_grow(b->bytes, b->room);
    }
    if (bytes) memcpy(b->bytes + b->used, text, (size_t)bytes);
    b->bytes[b->used + (size_t)bytes] = 0;
    b->begin[b->count] = (int64_t)b->used;
    b->length[b->count++] = bytes;
    b->used += (size_t)bytes + 1;
}

static int more_probable(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->p != y->p) return x->p > y->p ? -1 : 1;
    return x->label < y->label ? -1 : 1;
}

/* The most probable label to the front of b->order, or all in order if more than one is wanted. */
static void rank(batch *b, const float *p, int64_t k) {
    for (int64_t i = 0; i < b->labels; i++) b->order[i] = (candidate){p[i], i};
    if (k > 1) qsort(b->order, (size_t)b->labels, sizeof *b->order, more_probable);
    for (int64_t i = 1; i < b->labels && k == 1; i++) {
        if (b->order[i].p > b->order[0].p) b->order[0] = b->order[i];
    }
}

static json_t *label_json(const batch *b, int64_t i) {
    const char *label = qkv_model_label(b->model, b->order[i].label);
    return cli_json_text(label, (int64_t)strlen(label));
}

static int reaches(const batch *b, int64_t i) {
    return (double)b->order[i].p >= qkv_model_threshold(b->model, b->order[i].label);
}

static void print_json(const batch *b, int64_t k) {
    json_t *all = json_object(), *given = json_array(), *answer = json_object();
    for (int64_t i = 0; i < k; i++) {
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
        json_object_set_new(answer, "label", label_json(b, 0));
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
static void print_set(const batch *b) {
    int count = 0;
    for (int64_t i = 0; i < b->labels; i++) {
        if (!reaches(b, i)) continue;
        if (count++) fputs(b->separator, stdout);
        print_escaped(qkv_model_label(b->model, b->order[i].label), b->separator);
    }
    putchar('\n');
}

static void print_row(batch *b, const float *p) {
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
    for (int64_t i = 0; i < k; i++) {
        if (i) putchar('\t');
        fputs(qkv_model_label(b->model, b->order[i].label), stdout);
        if (b->values->top) printf("\t%.6f", (double)b->order[i].p);
    }
    putchar('\n');
}

/* Answers what is waiting. Nonzero when standard output takes no more: nobody is there to read on. */
static int batch_answer(batch *b, qkv_status *status) {
    for (int64_t i = 0; i < b->count; i++) b->text[i] = b->bytes + b->begin[i];
    *status = qkv_classify_predict(b->model, b->count, b->text, b->length, b->probabilities, b->dropped);
    if (*status != QKV_OK) return 1;
    for (int64_t i = 0; i < b->count; i++) {
        print_row(b, b->probabilities + i * b->labels);
        b->cut_rows += b->dropped[i] > 0;
        b->cut_tokens += b->dropped[i];
    }
    b->rows += b->count;
    b->count = 0;
    b->used = 0;
    if (b->room > 2 * MOST_BYTES) { /* after one huge line */
        free(b->bytes);
        b->bytes = NULL;
        b->room = 0;
    }
    if (fflush(stdout) || ferror(stdout)) b->output_error = errno ? errno : EIO;
    return b->output_error;
}

static qkv_status predict_rows(batch *b, qkv_rows *rows) {
    qkv_status status = QKV_OK;
    for (;;) {
        const char *text;
        int64_t length;
        qkv_status read = qkv_rows_next(rows, &text, &length);
        if (read == QKV_OK && text) batch_add(b, text, length, qkv_rows_line(rows));
        int last = read != QKV_OK || !text;
        /* what was read before a damaged place is answered too */
        if (b->count && (last || b->count == b->capacity || b->used >= MOST_BYTES || !qkv_rows_ready(rows))) {
            if (batch_answer(b, &status)) return status;
        }
        if (last) return read;
    }
}

static void report_notes(const batch *b, const qkv_rows *rows) {
    if (b->short_lines)
        cli_say("warning: no column %lld in %s of %s, first in line %s; read as text without words", (long long)b->values->column,
                cli_count(b->short_lines).s, cli_of(qkv_rows_line(rows), "line").s, cli_count(b->first_short).s);
    if (b->cut_rows)
        cli_say("warning: %s of %s longer than the model reads, cut to what it reads: %s dropped", cli_count(b->cut_rows).s,
                cli_of(b->rows, "row").s, cli_of(b->cut_tokens, "token").s);
    if (qkv_rows_repaired(rows))
        cli_say("warning: %s of %s with NUL or bytes that are not UTF-8", cli_count(qkv_rows_repaired(rows)).s,
                cli_of(b->rows, "row").s);
}

static int predict(const cli_verb *verb, const predict_values *values, const cli_args *args) {
    qkv_ctx *ctx = NULL;
    qkv_model *model = NULL;
    qkv_rows *rows = NULL;
    qkv_data_options data;
    const char *file = args->count == 2 ? args->words[1] : "-";
    int output_error = 0;
    int code = cli_open(verb, values->threads, 0, NULL, &ctx);
    if (code != CLI_GO_ON) return code;
    code = cli_set_options(verb, ctx, args, &data);
    if (code == CLI_GO_ON && values->column && data.format != QKV_FORMAT_AUTO && data.format != QKV_FORMAT_TEXT)
        code = cli_wrong_use(verb, "--column is for lines of text: it does not go with --format");
    if (code != CLI_GO_ON) {
        qkv_ctx_free(ctx);
        return code;
    }
    if (values->column) data.format = QKV_FORMAT_TEXT;
    qkv_status status = qkv_model_load(ctx, args->words[0], &model);
    code = status == QKV_OK ? cli_set_compute(verb, ctx, model, values->dtype) : CLI_GO_ON;
    if (code != CLI_GO_ON) {
        qkv_model_free(model);
        qkv_ctx_free(ctx);
        return code;
    }
    if (status == QKV_OK) status = qkv_rows_open(ctx, file, &data, qkv_model_pair(model), &rows);
    if (status == QKV_OK) {
        if (!strcmp(file, "-") && cli_is_terminal(stdin) && cli_is_terminal(stderr))
            fprintf(stderr, "One text a line; Ctrl-D ends.\n");
        batch b;
        batch_open(&b, model, values);
        b.separator = data.label_separator;
        status = predict_rows(&b, rows);
        report_notes(&b, rows);
        output_error = b.output_error;
        batch_close(&b);
    }
    code = status != QKV_OK ? cli_fail(ctx, status) : output_error ? cli_output_failed(output_error) : CLI_DONE;
    qkv_rows_close(rows);
    qkv_model_free(model);
    qkv_ctx_free(ctx);
    return code;
}

static int run_predict(const cli_verb *verb, int argc, char **argv) {
    predict_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 2, &values, &args);
    if (code != CLI_GO_ON) return code;
    if (args.count) {
        code = predict(verb, &values, &args);
    } else {
        code = cli_wrong_use(verb, "MODEL is needed");
    }
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
                "predict reviews.model reviews.csv --text-column review",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(predict_values),
    .table = qkv_data_options_table,
    .run = run_predict,
};
