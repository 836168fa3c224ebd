/* Rows of text into batches: full ones as long as input is there, what there is when it is not. */
#include "texts.h"

#include <math.h>

enum { MOST_ROWS = 512, MOST_BYTES = 1 << 20, MOST_FLOATS = 1 << 20 };

/* Labels are not read, but several may be written, with what separates them. */
static int check_effects(const cli_verb *verb, const cli_args *args, const cli_texts *t) {
    const cli_facts facts = {
        .labels = "no labels are read here",
        .multi_label = !verb->writes_labels            ? "no labels are written here"
                       : qkv_model_multi_label(t->model) ? NULL
                                                         : "the model gives one label to a text",
        .pair = qkv_model_pair(t->model) ? NULL : "the model reads one text a row",
    };
    return cli_check_effects(verb, args, NULL, &t->data, &facts);
}

static int open_rows(const cli_verb *verb, const cli_texts_options *options, const cli_args *args, cli_texts *t) {
    const char *file = args->count == 2 ? args->words[1] : "-";
    t->name = strcmp(file, "-") ? file : "standard input";
    int code = cli_set_options(verb, t->ctx, args, &t->data);
    if (code != CLI_GO_ON) return code;
    t->column = options->column;
    if (t->column && t->data.format != QKV_FORMAT_AUTO && t->data.format != QKV_FORMAT_TEXT)
        return cli_wrong_use(verb, "--column is for lines of text: it does not go with --format");
    if (t->column) t->data.format = QKV_FORMAT_TEXT;
    qkv_status status = qkv_model_load(t->ctx, args->words[0], &t->model);
    if (status != QKV_OK) return cli_fail(t->ctx, status);
    code = check_effects(verb, args, t);
    if (code == CLI_GO_ON) code = cli_set_compute(verb, t->ctx, t->model, options->dtype);
    if (code == CLI_GO_ON) code = cli_set_reading(verb, t->ctx, t->model, args->words[0], &options->reading);
    if (code != CLI_GO_ON) return code;
    status = qkv_rows_open(t->ctx, file, &t->data, qkv_model_pair(t->model), &t->rows);
    if (status != QKV_OK) return cli_fail(t->ctx, status);
    if (!strcmp(file, "-") && cli_is_terminal(stdin) && cli_is_terminal(stderr))
        fprintf(stderr, "One text a line; Ctrl-D ends.\n");
    return CLI_GO_ON;
}

int cli_texts_open(const cli_verb *verb, const cli_texts_options *options, const cli_args *args, int stoppable, cli_texts *t) {
    memset(t, 0, sizeof *t);
    if (!args->count) return cli_wrong_use(verb, "MODEL is needed");
    int code = cli_open(verb, options->threads, stoppable, NULL, &t->ctx);
    return code == CLI_GO_ON ? open_rows(verb, options, args, t) : code;
}

void cli_texts_close(cli_texts *t) {
    free(t->bytes);
    free(t->begin);
    free(t->length);
    free(t->text);
    free(t->dropped);
    free(t->line);
    qkv_rows_close(t->rows);
    qkv_model_free(t->model);
    qkv_ctx_free(t->ctx);
}

static void add(cli_texts *t, const char *line, int64_t length, int64_t number) {
    const char *text = line;
    int64_t bytes = length;
    if (t->column) {
        text = qkv_line_column(line, length, t->column, &bytes);
        if (!text) {
            if (!t->short_lines++) t->first_short = number;
            bytes = 0;
        }
    }
    if (t->used + (size_t)bytes + 1 > t->room) {
        t->room = t->used + (size_t)bytes + 1 + t->room / 2;
        t->bytes = cli_grow(t->bytes, t->room);
    }
    if (bytes) memcpy(t->bytes + t->used, text, (size_t)bytes);
    t->bytes[t->used + (size_t)bytes] = 0;
    t->line[t->count] = number;
    t->begin[t->count] = (int64_t)t->used;
    t->length[t->count++] = bytes;
    t->used += (size_t)bytes + 1;
}

int64_t cli_texts_answered(const cli_texts *t, qkv_status status, const float *answers, int64_t width, int *code) {
    *code = CLI_GO_ON;
    if (status == QKV_OK) return t->count;
    for (int64_t i = 0; status == QKV_NUMERIC && i < t->count * width; i++) {
        if (isfinite(answers[i])) continue;
        const char *why = strchr(qkv_message(t->ctx), ':'); /* "text 3: the model's ..." */
        cli_say("%s:%lld%s", t->name, (long long)t->line[i / width], why ? why : "");
        *code = CLI_FAILED;
        return i / width;
    }
    *code = cli_fail(t->ctx, status);
    return 0;
}

static int answer_batch(cli_texts *t, int (*answer)(void *user, cli_texts *t), void *user) {
    for (int64_t i = 0; i < t->count; i++) t->text[i] = t->bytes + t->begin[i];
    int code = answer(user, t);
    if (code != CLI_GO_ON) return code;
    for (int64_t i = 0; i < t->count; i++) {
        t->cut_rows += t->dropped[i] > 0;
        t->cut_tokens += t->dropped[i];
    }
    t->done += t->count;
    t->count = 0;
    t->used = 0;
    if (t->room > 2 * MOST_BYTES) { /* after one huge line */
        free(t->bytes);
        t->bytes = NULL;
        t->room = 0;
    }
    return CLI_GO_ON;
}

/* CLI_GO_ON at the end of what can be read, with why it ends in *read; or the code to exit with. */
static int read_on(cli_texts *t, int (*answer)(void *user, cli_texts *t), void *user, qkv_status *read) {
    for (;;) {
        const char *text;
        int64_t length;
        *read = qkv_rows_next(t->rows, &text, &length);
        if (cli_signals_got()) return CLI_SIGNAL + cli_signals_got();
        if (*read == QKV_OK && text) add(t, text, length, qkv_rows_line(t->rows));
        int last = *read != QKV_OK || !text;
        /* what was read before a damaged place is answered too */
        if (t->count && (last || t->count == t->capacity || t->used >= MOST_BYTES || !qkv_rows_ready(t->rows))) {
            int code = answer_batch(t, answer, user);
            if (code != CLI_GO_ON) return code;
        }
        if (last) return CLI_GO_ON;
    }
}

static void say_notes(const cli_texts *t) {
    if (t->short_lines)
        cli_say("warning: no column %lld in %s of %s, first in line %s; read as text without words", (long long)t->column,
                cli_count(t->short_lines).s, cli_of(qkv_rows_line(t->rows), "line").s, cli_count(t->first_short).s);
    if (t->cut_rows)
        cli_say("warning: %s of %s longer than the model reads, cut to what it reads: %s dropped", cli_count(t->cut_rows).s,
                cli_of(t->done, "row").s, cli_of(t->cut_tokens, "token").s);
    if (qkv_rows_repaired(t->rows))
        cli_say("warning: %s of %s with NUL or bytes that are not UTF-8", cli_count(qkv_rows_repaired(t->rows)).s,
                cli_of(t->done, "row").s);
}

int cli_texts_run(cli_texts *t, int64_t width, int (*answer)(void *user, cli_texts *t), void *user) {
    t->capacity = width > 0 && MOST_FLOATS / width < MOST_ROWS ? MOST_FLOATS / width : MOST_ROWS;
    if (t->capacity < 1) t->capacity = 1;
    size_t rows = (size_t)t->capacity;
    t->begin = cli_alloc(rows * sizeof *t->begin);
    t->length = cli_alloc(rows * sizeof *t->length);
    t->text = cli_alloc(rows * sizeof *t->text);
    t->dropped = cli_alloc(rows * sizeof *t->dropped);
    t->line = cli_alloc(rows * sizeof *t->line);
    qkv_status read;
    int code = read_on(t, answer, user, &read);
    say_notes(t);
    if (code != CLI_GO_ON) return code;
    return read == QKV_OK ? CLI_DONE : cli_fail(t->ctx, read);
}
