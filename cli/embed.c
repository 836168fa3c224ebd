/* qkv embed: the pooled vector of each row. */
#include <errno.h>
#include <math.h>

#include "texts.h"

typedef struct embed_values {
    const char *output;
    int unit;
    cli_texts_options texts;
} embed_values;

static const cli_option options[] = {
    {"output", 'o', CLI_TEXT, offsetof(embed_values, output), "FILE", NULL, 0, 0,
     "write to this file, which is there whole or not at all: NAME.npy as NumPy's, float32 [rows, dim]; .tsv, .txt or nothing: as text"},
    {"normalize-vectors", 0, CLI_FLAG, offsetof(embed_values, unit), NULL, NULL, 0, 0,
     "divide each vector by its length (L2), so that products of two are cosines; zeros stay zeros"},
    CLI_TEXTS_OPTIONS(offsetof(embed_values, texts)),
};

enum { NUMBER = 24 }; /* bytes of a number and the tab or line break behind it, at most */

typedef struct embedding {
    const embed_values *values;
    qkv_ctx *ctx;
    int npy;
    qkv_output *file; /* NULL: standard output */
    int64_t dim;
    float *vectors; /* of a batch */
    char *row;      /* dim numbers as they are written */
} embedding;

static int ends_in(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

static void to_unit(float *v, int64_t dim) {
    double sum = 0;
    for (int64_t i = 0; i < dim; i++) sum += (double)v[i] * (double)v[i];
    const double length = sqrt(sum);
    for (int64_t i = 0; i < dim && length > 0; i++) v[i] = (float)((double)v[i] / length);
}

static size_t as_text(const float *v, int64_t dim, char *row) {
    size_t n = 0;
    for (int64_t i = 0; i < dim; i++) {
        n += (size_t)cli_float9(v[i], row + n);
        row[n++] = i + 1 < dim ? '\t' : '\n';
    }
    return n;
}

static size_t as_bytes(const float *v, int64_t dim, char *row) {
    for (int64_t i = 0; i < dim; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        for (int b = 0; b < 4; b++) row[4 * i + b] = (char)(bits >> 8 * b & 0xff);
    }
    return 4 * (size_t)dim;
}

static int answer(void *user, cli_texts *t) {
    embedding *e = user;
    if (!e->vectors) e->vectors = cli_alloc((size_t)(t->capacity * e->dim) * sizeof *e->vectors);
    qkv_status status = qkv_classify_embed(t->model, t->count, t->text, t->length, e->vectors, t->dropped);
    int code;
    const int64_t count = cli_texts_answered(t, status, e->vectors, e->dim, &code);
    status = QKV_OK;
    for (int64_t i = 0; i < count && status == QKV_OK; i++) {
        float *v = e->vectors + i * e->dim;
        if (e->values->unit) to_unit(v, e->dim);
        size_t bytes = e->npy ? as_bytes(v, e->dim, e->row) : as_text(v, e->dim, e->row);
        if (e->file)
            status = qkv_output_write(e->file, e->row, (int64_t)bytes);
        else
            fwrite(e->row, 1, bytes, stdout);
    }
    if (status != QKV_OK) return cli_fail(t->ctx, status);
    if (e->file) return code;
    return fflush(stdout) || ferror(stdout) ? cli_output_failed(errno ? errno : EIO) : code;
}

/* How many rows there are is known at the end. */
static qkv_status put_header(embedding *e, int64_t rows) {
    char header[CLI_NPY_HEADER];
    if (!e->npy) return QKV_OK;
    cli_npy_header(rows, e->dim, header);
    return rows ? qkv_output_rewrite(e->file, 0, header, sizeof header) : qkv_output_write(e->file, header, sizeof header);
}

static int open_file(embedding *e) {
    const char *path = e->values->output;
    if (!path || !strcmp(path, "-")) return CLI_GO_ON;
    e->npy = ends_in(path, ".npy");
    cli_signals_phase(CLI_WRITES);
    cli_signals_stoppable(); /* after it: waiting for rows must end at once */
    qkv_status status = qkv_output_open(e->ctx, path, &e->file);
    if (status == QKV_OK) status = put_header(e, 0);
    return status == QKV_OK ? CLI_GO_ON : cli_fail(e->ctx, status);
}

static int finish_file(embedding *e, int64_t rows) {
    qkv_status status = rows ? put_header(e, rows) : QKV_OK;
    if (status == QKV_OK) {
        status = qkv_output_commit(e->file);
        e->file = NULL;
    }
    return status == QKV_OK ? CLI_DONE : cli_fail(e->ctx, status);
}

static int embed(cli_texts *t, const embed_values *values) {
    embedding e = {.values = values, .ctx = t->ctx, .dim = qkv_model_dim(t->model)};
    int code = open_file(&e);
    if (code == CLI_GO_ON) {
        e.row = cli_alloc((size_t)e.dim * NUMBER);
        code = cli_texts_run(t, e.dim, answer, &e);
    }
    if (code == CLI_DONE && e.file) code = finish_file(&e, t->done);
    qkv_output_discard(e.file);
    free(e.vectors);
    free(e.row);
    return code;
}

/* The name says the format: one that says another is not written as if it had not. */
static int check_name(const cli_verb *verb, const char *output) {
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output, *dot = strrchr(name, '.');
    if (!dot || dot == name || !strcmp(dot, ".npy") || !strcmp(dot, ".tsv") || !strcmp(dot, ".txt")) return CLI_GO_ON;
    return cli_wrong_use(verb, "-o %s: vectors are written as NumPy's (.npy) or as text (.tsv, .txt or no ending), not as %s", output, dot);
}

static int check_output(const cli_verb *verb, const char *output, const char *file, const char *model) {
    if (!output) return CLI_GO_ON;
    if (cli_same_file(output, file)) return cli_wrong_use(verb, "-o %s would overwrite the data", output);
    if (cli_same_file(output, model)) return cli_wrong_use(verb, "-o %s would overwrite the model", output);
    int code = check_name(verb, output);
    return code == CLI_GO_ON ? cli_check_place(output, "the vectors") : code;
}

static int run_embed(const cli_verb *verb, int argc, char **argv) {
    embed_values values;
    cli_args args;
    cli_texts texts;
    int code = cli_parse(verb, argc, argv, 2, &values, &args);
    if (code != CLI_GO_ON) return code;
    code = check_output(verb, values.output, args.count > 1 ? args.words[1] : NULL, args.count > 0 ? args.words[0] : NULL);
    if (code == CLI_GO_ON) {
        code = cli_texts_open(verb, &values.texts, &args, values.output != NULL, &texts);
        if (code == CLI_GO_ON) code = embed(&texts, &values);
        cli_texts_close(&texts);
    }
    cli_args_free(&args);
    return code;
}

const cli_verb cli_embed = {
    .name = "embed",
    .usage = "embed MODEL [FILE] [-o VECTORS] [options]",
    .summary = "a vector for each line",
    .about = "Prints the vector that the model pools from each text, before its output layer: a line for each row, the numbers with tabs "
             "between, in decimals that read back to the same float. Texts come from where predict takes them, and as fast. With -o the "
             "vectors go to a file; the name says in which format. A vector does not depend on the texts around it.\n\n"
             "The vectors were trained to tell the labels apart: texts of one label lie near each other. Of a text without "
             "tokens all numbers are 0, unless the model pools the first token.",
    .examples = "embed news.model letters.txt > vectors.tsv\n"
                "embed news.model letters.txt -o vectors.npy --normalize-vectors\n"
                "embed news.model test.tsv --column 2 | head -n 1",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(embed_values),
    .table = qkv_data_options_table,
    .no_labels = 1,
    .run = run_embed,
};
