/* qkv predict: one line out for each line in, in order, as soon as there is nothing more to read at once. */
#include "cli.h"

#include <errno.h>

typedef struct predict_values {
    int64_t top, column, threads;
    int json;
} predict_values;

static const cli_option options[] = {
    {"top", 0, CLI_INT, offsetof(predict_values, top), "K", "0", 0, 1e9,
     "print the K most probable labels, each with its probability: label TAB probability TAB label ... 0: the label alone"},
    {"column", 0, CLI_INT, offsetof(predict_values, column), "N", "0", 0, 1e9,
     "the text is column N of tab-separated lines, from 1; a line with fewer has no text. 0: the whole line"},
    {"json", 0, CLI_FLAG, offsetof(predict_values, json), NULL, NULL, 0, 0,
     "print an object a line with the label and all probabilities (with --top the K largest)"},
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
    int64_t labels, capacity, count; /* rows */
    char *bytes;
    size_t used, room;
    int64_t *begin, *length;
    const char **text;
    float *probabilities;
    candidate *order;                 /* [labels] */
    int output_error;                 /* errno of a failed write */
    int64_t short_lines, first_short; /* lines without the column */
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
    b->order = cli_alloc(labels * sizeof *b->order);
}

static void batch_close(batch *b) {
    free(b->bytes);
    free(b->begin);
    free(b->length);
    free(b->text);
    free(b->probabilities);
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

static void print_json(const batch *b, int64_t k) {
    const char *best = qkv_model_label(b->model, b->order[0].label);
    json_t *all = json_object();
    for (int64_t i = 0; i < k; i++) {
        const char *label = qkv_model_label(b->model, b->order[i].label);
        json_t *name = cli_json_text(label, (int64_t)strlen(label));
        json_object_set_new(all, json_string_value(name), cli_json_float(b->order[i].p));
        json_decref(name);
    }
    cli_json_line(stdout, json_pack("{s:o, s:o}", "label", cli_json_text(best, (int64_t)strlen(best)), "probabilities", all),
                  JSON_COMPACT);
}

static void print_row(batch *b, const float *p) {
    int64_t k = b->values->top;
    if (k == 0) k = b->values->json ? b->labels : 1;
    if (k > b->labels) k = b->labels;
    rank(b, p, k);
    if (b->values->json) {
        print_json(b, k);
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
    *status = qkv_classify_predict(b->model, b->count, b->text, b->length, b->probabilities);
    if (*status != QKV_OK) return 1;
    for (int64_t i = 0; i < b->count; i++) print_row(b, b->probabilities + i * b->labels);
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

static qkv_status predict_lines(batch *b, qkv_lines *lines) {
    qkv_status status = QKV_OK;
    for (;;) {
        const char *line;
        int64_t length;
        qkv_status read = qkv_lines_next(lines, &line, &length);
        if (read == QKV_OK && line) batch_add(b, line, length, qkv_lines_number(lines));
        int last = read != QKV_OK || !line;
        /* what was read before a damaged place is answered too */
        if (b->count && (last || b->count == b->capacity || b->used >= MOST_BYTES || !qkv_lines_ready(lines))) {
            if (batch_answer(b, &status)) return status;
        }
        if (last) return read;
    }
}

static int predict(const cli_verb *verb, const predict_values *values, const char *path, const char *file) {
    qkv_ctx *ctx = NULL;
    qkv_model *model = NULL;
    qkv_lines *lines = NULL;
    int output_error = 0;
    int code = cli_open(verb, values->threads, 0, NULL, &ctx);
    if (code != CLI_GO_ON) return code;
    qkv_status status = qkv_model_load(ctx, path, &model);
    if (status == QKV_OK) status = qkv_lines_open(ctx, file, &lines);
    if (status == QKV_OK) {
        if (!strcmp(file, "-") && cli_is_terminal(stdin) && cli_is_terminal(stderr))
            fprintf(stderr, "One text a line; Ctrl-D ends.\n");
        batch b;
        batch_open(&b, model, values);
        status = predict_lines(&b, lines);
        if (b.short_lines)
            cli_say("warning: no column %lld in %s of %s, first in line %s; read as text without words", (long long)values->column,
                    cli_count(b.short_lines).s, cli_of(qkv_lines_number(lines), "line").s, cli_count(b.first_short).s);
        output_error = b.output_error;
        batch_close(&b);
    }
    code = status != QKV_OK ? cli_fail(ctx, status) : output_error ? cli_output_failed(output_error) : CLI_DONE;
    qkv_lines_close(lines);
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
        code = predict(verb, &values, args.words[0], args.count == 2 ? args.words[1] : "-");
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
    .about = "Reads plain text, a text a line, and prints one line for each, in order, whatever is in it. Without FILE, or with -, "
             "it reads standard input, and answers as soon as there is nothing more to read at once. FILE may be gzip.",
    .examples = "predict news.model letters.txt\n"
                "predict news.model --top 3 < letters.txt\n"
                "predict news.model test.tsv --column 2 --json",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(predict_values),
    .run = run_predict,
};
