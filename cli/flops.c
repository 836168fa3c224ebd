/* qkv flops: what a network costs, before anything is run. */
#include "flops.h"

#include <errno.h>
#include <math.h>

enum { MOST_SEQUENCES = 1 << 20, MOST_TOKENS = 1 << 24, USUAL_TOKENS = 1024 };
static const double MEASURE_SECONDS = 0.5;

typedef struct flops_values {
    const char *seq, *lengths, *data, *by;
    int64_t batch, threads;
    double peak;
    int bias, no_bias, json, measure, no_time;
} flops_values;

#define AT(field) offsetof(flops_values, field)
static const cli_option options[] = {
    {"seq", 0, CLI_TEXT, AT(seq), "N|A-B", NULL, 0, 0,
     "tokens of a sequence; A-B: lengths spread evenly from A to B [of a model its limit, else 1024]"},
    {"batch", 0, CLI_INT, AT(batch), "N", "1", 0, MOST_SEQUENCES, "sequences"},
    {"lengths", 0, CLI_TEXT, AT(lengths), "FILE", NULL, 0, 0, "the tokens of each sequence, numbers with white space between"},
    {"data", 0, CLI_TEXT, AT(data), "FILE", NULL, 0, 0, "with MODEL: the texts of a data file, labelled or not, as one batch"},
    {"bias", 0, CLI_FLAG, AT(bias), NULL, NULL, 0, 0, "an attention layer alone has biases"},
    {"no-bias", 0, CLI_FLAG, AT(no_bias), NULL, NULL, 0, 0, "the layers have none"},
    {"by", 0, CLI_TEXT, AT(by), "WHAT", "op", 0, 0, "rows of the table: op or layer"},
    {"json", 0, CLI_FLAG, AT(json), NULL, NULL, 0, 0, "print everything, by layer and by operation, as one JSON object"},
    {"measure", 0, CLI_FLAG, AT(measure), NULL, NULL, 0, 0,
     "run the pass as well, on random weights and tokens, for the time to expect here"},
    {"peak", 0, CLI_REAL, AT(peak), "GFLOPS", NULL, 1e-3, 1e12,
     "of another machine, in 1e9 FLOP/s, for the least time; nothing is measured here"},
    {"no-time", 0, CLI_FLAG, AT(no_time), NULL, NULL, 0, 0, "measure nothing: no time is given"},
    {"threads", 0, CLI_INT, AT(threads), "N", "0", 0, 1024, "threads that it would run with; 0: every core allowed"},
};

static const cli_need needs[] = {
    {"batch", "!lengths !data"},
    {"seq", "!lengths !data"},
    {"lengths", "!data"},
    {"bias", "model=transformer !layers"},
    {"no-bias", "model=transformer layers"},
    {"by", "!json"},
    {"peak", "!no-time !measure"},
    {"measure", "!no-time"},
    {NULL, NULL},
};

/* ---- lengths of the sequences ---- */

typedef struct batch {
    int64_t *lengths;
    int64_t count, capacity;
} batch;

static void put(batch *b, int64_t length) {
    if (b->count == b->capacity)
        b->lengths = cli_grow(b->lengths, sizeof *b->lengths * (size_t)(b->capacity = 2 * b->capacity + 64));
    b->lengths[b->count++] = length;
}

/* Digits alone; -1: it is something else, or beyond what a sequence has. */
static int64_t length_of(const char *text, size_t size) {
    int64_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return -1;
        n = n <= MOST_TOKENS ? 10 * n + (text[i] - '0') : n;
    }
    return size > 0 && n <= MOST_TOKENS ? n : -1;
}

static int spread(const cli_verb *verb, const flops_values *v, int64_t usual, batch *b) {
    int64_t from = usual, to = usual;
    if (v->seq) {
        const size_t first = strcspn(v->seq, "-");
        from = to = length_of(v->seq, first);
        if (v->seq[first]) to = length_of(v->seq + first + 1, strlen(v->seq + first + 1));
        if (from < 0 || to < from) return cli_wrong_use(verb, "--seq=%s: expected N or A-B, from 0 to %d", v->seq, MOST_TOKENS);
    }
    if (from < to && v->batch == 1)
        return cli_wrong_use(verb, "--seq %s: one sequence has one length; --batch 2 or more spreads them from A to B", v->seq);
    for (int64_t i = 0; i < v->batch; i++) put(b, v->batch > 1 ? from + (to - from) * i / (v->batch - 1) : to);
    return CLI_GO_ON;
}

static int too_many(const char *path) {
    cli_say("%s: more than %s", path, cli_of(MOST_SEQUENCES, "sequence").s);
    return CLI_FAILED;
}

/* The numbers of one line. */
static int put_line(const char *path, int64_t number, const char *text, int64_t length, batch *b) {
    static const char white[] = " \t\r,";
    for (int64_t i = 0; i < length;) {
        int64_t n = 0;
        while (i < length && strchr(white, text[i]) && text[i]) i++;
        while (i + n < length && !(strchr(white, text[i + n]) && text[i + n])) n++;
        if (n == 0) break;
        const int64_t value = length_of(text + i, (size_t)n);
        if (value < 0) {
            cli_say("%s:%lld: '%.*s' is no number of tokens, from 0 to %d", path, (long long)number, (int)(n < 40 ? n : 40),
                    text + i, MOST_TOKENS);
            return CLI_FAILED;
        }
        if (b->count == MOST_SEQUENCES) return too_many(path);
        put(b, value);
        i += n;
    }
    return CLI_GO_ON;
}

static int read_lengths(qkv_ctx *ctx, const char *path, batch *b) {
    qkv_lines *lines = NULL;
    qkv_status status = qkv_lines_open(ctx, path, &lines);
    int code = CLI_GO_ON;
    while (status == QKV_OK && code == CLI_GO_ON) {
        const char *text;
        int64_t length;
        status = qkv_lines_next(lines, &text, &length);
        if (status != QKV_OK || !text) break;
        code = put_line(path, qkv_lines_number(lines), text, length, b);
    }
    qkv_lines_close(lines);
    return status == QKV_OK ? code : cli_fail(ctx, status);
}

static int read_texts(qkv_ctx *ctx, const qkv_model *model, const char *path, const qkv_data_options *data, batch *b,
                      qkv_flops_segments *segments) {
    int64_t *lengths, count;
    const qkv_status status = qkv_flops_lengths(model, path, data, &lengths, &count, segments);
    if (status != QKV_OK) return cli_fail(ctx, status);
    for (int64_t i = 0; i < count; i++) put(b, lengths[i]);
    qkv_release(ctx, lengths);
    return CLI_GO_ON;
}

/* The longest text that a model reads, and how many layers it has. */
static int model_facts(qkv_ctx *ctx, const qkv_model *model, int64_t *longest, int64_t *layers) {
    char *text = NULL;
    qkv_status status = qkv_model_describe(model, &text);
    if (status != QKV_OK) return cli_fail(ctx, status);
    json_t *json = json_loads(text, 0, NULL);
    const json_t *config = json_object_get(json, "config");
    *longest = json_integer_value(json_object_get(config, "max_length"));
    *layers = json_integer_value(json_object_get(config, "layers"));
    json_decref(json);
    qkv_release(ctx, text);
    return CLI_GO_ON;
}

/* ---- time ---- */

/* Others that run meanwhile can only lower a ceiling: the highest of several looks is taken. */
static qkv_status measure_machine(qkv_ctx *ctx, int bf16, flops_time *t) {
    qkv_machine m;
    for (int look = 0; look < FLOPS_LOOKS; look++) {
        const int bytes = look == FLOPS_LOOKS / 2;
        qkv_status status = qkv_machine_measure(ctx, bytes ? 0.2 : 0.05, bytes, &m);
        if (status == QKV_NO_MEMORY && bytes) status = qkv_machine_measure(ctx, 0.05, 0, &m);
        if (status != QKV_OK) return status;
        const double gflops = bf16 && m.bf16_gflops > 0 ? m.bf16_gflops : m.fma_gflops;
        if (gflops > t->gflops) t->gflops = gflops;
        if (bytes) t->read_gbs = m.memory.read_gbs;
    }
    t->threads = m.threads;
    return QKV_OK;
}

static int measure(qkv_ctx *ctx, const flops_values *v, const qkv_flops *f, flops_time *t) {
    if (v->no_time || f->total.total.macs == 0) return CLI_GO_ON;
    const qkv_status status = v->peak > 0 ? QKV_OK : measure_machine(ctx, f->dtype == QKV_COMPUTE_BF16, t);
    if (status != QKV_OK) return cli_fail(ctx, status);
    if (v->peak > 0) t->gflops = v->peak;
    t->floor_s = t->gflops > 0 ? 2e-9 * f->total.total.macs / t->gflops : 0;
    t->tokens_per_s = t->floor_s > 0 ? (double)f->tokens / t->floor_s : 0;
    t->bytes_s = t->read_gbs > 0 ? 1e-9 * f->total.total.bytes / t->read_gbs : 0;
    t->expected_s = f->pass_s;
    t->passes = f->passes;
    t->share = f->pass_s > 0 ? t->floor_s / f->pass_s : 0;
    return CLI_GO_ON;
}

/* ---- the verb ---- */

typedef struct flops_run {
    const cli_verb *verb;
    const flops_values *values;
    const cli_args *args;
    qkv_ctx *ctx;
    qkv_model *model;
    qkv_flops_options options;
    batch batch;
    qkv_flops_segments segments;
    qkv_flops *flops, *other, *one_head;
} flops_run;

static int is_of_data(const char *name) {
    const qkv_option_table *table = qkv_data_options_table();
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->options[i].name, name)) return 1;
    return 0;
}

/* A network comes from a file or from options, not from both. */
static int check_settings(const flops_run *r, int *dtype) {
    for (int i = 0; i < r->args->setting_count; i++) {
        const char *name = r->args->settings[i].name;
        const int passes = !strcmp(name, "train") || !strncmp(name, "recompute", 9) || !strcmp(name, "ffn-chunk");
        *dtype |= !strcmp(name, "dtype");
        if (is_of_data(name) && !r->values->data) return cli_wrong_use(r->verb, "--%s has no effect without --data", name);
        if (r->args->count && !passes && strcmp(name, "dtype") && !is_of_data(name))
            return cli_wrong_use(r->verb, "--%s is of a network that is described, and MODEL is one", name);
    }
    if (r->args->count && (r->values->bias || r->values->no_bias))
        return cli_wrong_use(r->verb, "biases are of a network that is described, and MODEL is one");
    if (r->values->data && !r->args->count)
        return cli_wrong_use(r->verb, "--data has no effect without MODEL: its tokenizer counts the tokens");
    return CLI_GO_ON;
}

static int open_model(flops_run *r, int dtype, int64_t *usual) {
    qkv_status status = qkv_model_load(r->ctx, r->args->words[0], &r->model);
    if (status != QKV_OK) return cli_fail(r->ctx, status);
    if (!dtype) r->options.dtype = (int)qkv_model_compute(r->model);
    return model_facts(r->ctx, r->model, usual, &r->options.layers);
}

static int check_effects(const flops_run *r) {
    const cli_facts facts = {.labels = "no labels are read here",
                             .pair = !r->model || qkv_model_pair(r->model) ? NULL : "the model reads one text a row"};
    return cli_check_effects(r->verb, r->args, r->values, &r->options, &facts);
}

static int make_batch(flops_run *r, int64_t usual) {
    const flops_values *v = r->values;
    r->options.segments = &r->segments;
    if (v->data) return read_texts(r->ctx, r->model, v->data, &r->options.data, &r->batch, &r->segments);
    if (v->lengths) return read_lengths(r->ctx, v->lengths, &r->batch);
    return spread(r->verb, v, usual, &r->batch);
}

/* What the options say that cannot be is wrong use; what a file holds is a failure. */
static int failed(const flops_run *r, qkv_status status) {
    if (status == QKV_BAD_CONFIG || (status == QKV_BAD_ARGUMENT && !r->values->lengths && !r->values->data))
        return cli_wrong_use(r->verb, "%s", qkv_message(r->ctx));
    return cli_fail(r->ctx, status);
}

static int count_with(flops_run *r, const qkv_flops_options *o, qkv_flops **flops) {
    qkv_status status = r->model ? qkv_flops_count_model(r->model, o, r->batch.lengths, r->batch.count, flops)
                                 : qkv_flops_count(r->ctx, o, r->batch.lengths, r->batch.count, flops);
    return status == QKV_OK ? CLI_GO_ON : failed(r, status);
}

static int count_variants(flops_run *r, flops_variants *v) {
    qkv_flops_options o = r->options;
    o.measure = 0;
    o.output_projection = !o.output_projection;
    int code = count_with(r, &o, &r->other);
    o.output_projection = 1;
    o.heads = 1;
    o.kv_heads = 0;
    if (code == CLI_GO_ON) code = count_with(r, &o, &r->one_head);
    v->with = r->options.output_projection ? r->flops : r->other;
    v->without = r->options.output_projection ? r->other : r->flops;
    v->one_head = r->one_head;
    return code;
}

static int count(flops_run *r) {
    const flops_values *v = r->values;
    flops_variants variants = {0};
    flops_time time = {0};
    int64_t usual = USUAL_TOKENS;
    int dtype = 0, code = check_settings(r, &dtype);
    if (code == CLI_GO_ON && r->args->count) code = open_model(r, dtype, &usual);
    if (code == CLI_GO_ON) code = check_effects(r);
    if (code == CLI_GO_ON) code = make_batch(r, usual);
    if (code == CLI_GO_ON) code = count_with(r, &r->options, &r->flops);
    const int alone = code == CLI_GO_ON && r->flops->alone && r->options.model == QKV_NETWORK_TRANSFORMER;
    if (alone) code = count_variants(r, &variants);
    if (code == CLI_GO_ON) code = measure(r->ctx, v, r->flops, &time);
    if (code != CLI_GO_ON) return code;
    if (v->json)
        cli_json_line(stdout, flops_json(r->flops, alone ? &variants : NULL, &time), JSON_INDENT(1));
    else
        flops_text(r->flops, !strcmp(v->by, "layer"), alone ? &variants : NULL, &time);
    return CLI_DONE;
}

static int run_flops(const cli_verb *verb, int argc, char **argv) {
    flops_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 1, &values, &args);
    if (code != CLI_GO_ON) return code;
    flops_run r = {.verb = verb, .values = &values, .args = &args};
    code = cli_open(verb, values.threads, 0, NULL, &r.ctx);
    if (code == CLI_GO_ON) code = cli_set_options(verb, r.ctx, &args, &r.options);
    if (code == CLI_GO_ON && strcmp(values.by, "op") && strcmp(values.by, "layer"))
        code = cli_wrong_use(verb, "--by=%s: expected op or layer", values.by);
    r.options.measure = values.measure ? MEASURE_SECONDS : 0;
    r.options.biases = values.bias ? QKV_FLOPS_BIASES_YES : values.no_bias ? QKV_FLOPS_BIASES_NO : QKV_FLOPS_BIASES_AUTO;
    if (code == CLI_GO_ON) code = count(&r);
    free(r.batch.lengths);
    qkv_release(r.ctx, r.segments.at);
    qkv_release(r.ctx, r.segments.size);
    qkv_release(r.ctx, r.segments.global_offset);
    qkv_release(r.ctx, r.segments.global_at);
    qkv_release(r.ctx, r.flops);
    qkv_release(r.ctx, r.other);
    qkv_release(r.ctx, r.one_head);
    qkv_model_free(r.model);
    qkv_ctx_free(r.ctx);
    cli_args_free(&args);
    return code;
}

const cli_verb cli_flops = {
    .name = "flops",
    .usage = "flops [MODEL] [options]",
    .summary = "what a network costs: operations, bytes, memory",
    .about =
        "Parameters, multiply-adds and FLOPs, useful and executed, bytes, memory and the least time here, by operation or by "
        "layer: of one attention or recurrent layer, of a whole network (--layers), or of the network in a model file. Nothing "
        "is run (but with --measure): the code that trains and predicts is walked without data and books what it would do, so "
        "train and bench print the same numbers.\n\n"
        "A multiply-add of a product is 2 FLOP; any other operation is one. Only pairs of tokens that see each other count; "
        "executed is what whole tiles compute. A network has biases unless --no-bias, an attention layer alone only with "
        "--bias. docs/flops.md says what is counted where, and what other counters make of the same layers.",
    .examples = "flops --dim 512 --heads 8 --seq 1024 --batch 32\n"
                "flops --dim 512 --heads 1 --seq 1024 --batch 32 --no-output-projection\n"
                "flops --model lstm --dim 512 --seq 512 --batch 32 --train\n"
                "flops --layers 6 --dim 512 --heads 8 --seq 33-95 --batch 64 --train --by layer\n"
                "flops --layers 6 --dim 512 --heads 8 --seq 512 --batch 64 --train --peak 19500\n"
                "flops news.model --data train.tsv --train --json",
    .options = options,
    .count = sizeof options / sizeof *options,
    .needs = needs,
    .struct_size = sizeof(flops_values),
    .table = qkv_flops_options_table,
    .no_labels = 1,
    .run = run_flops,
};
