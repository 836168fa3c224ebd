/* qkv bench: how fast the pieces run, beside what the machine could do. */
#include "bench.h"

#include <errno.h>
#include <signal.h>

#include "progress.h"

typedef struct bench_values {
    int64_t threads;
    const char *dtype, *json, *layout;
    int quick, list;
    double seconds, dropout;
    int64_t m, n, k, dim, value_dim, heads, kv_heads, batch, layers, ffn, global_first, global_every, random_blocks, block;
    qkv_span window;
} bench_values;

#define AT(field) offsetof(bench_values, field)
#define SIZE(name, field, most, help)                                                                                              \
    { name, 0, CLI_INT, AT(field), "N", NULL, 1, most, help }
static const cli_option options[] = {
    {"threads", 0, CLI_INT, AT(threads), "N", NULL, 1, 1024,
     "measure with N threads; without it, with one and with every core allowed"},
    {"dtype", 0, CLI_TEXT, AT(dtype), "NAME", "f32", 0, 0, "of the numbers: f32, bf16"},
    {"quick", 0, CLI_FLAG, AT(quick), NULL, NULL, 0, 0, "fewer cases, less time for each: about a minute"},
    {"seconds", 0, CLI_REAL, AT(seconds), "X", NULL, 0.01, 3600, "spend at least X seconds on each case [0.5, with --quick 0.1]"},
    {"json", 0, CLI_TEXT, AT(json), "FILE", NULL, 0, 0,
     "write machine and results as JSON too; - is standard output, instead of the table"},
    {"list", 0, CLI_FLAG, AT(list), NULL, NULL, 0, 0, "print the cases and measure nothing"},
    SIZE("m", m, 1 << 24, "gemm: rows of the result"),
    SIZE("n", n, 1 << 24, "gemm: its columns; elsewhere the length of a sequence, or the rows"),
    SIZE("k", k, 1 << 24, "gemm: length of the sums"),
    SIZE("dim", dim, 65536, "width of an attention head; elsewhere of the model"),
    SIZE("value-dim", value_dim, 65536, "attention: width of the values, where it is another one"),
    SIZE("heads", heads, 65536, "attention heads"),
    SIZE("kv-heads", kv_heads, 65536, "key/value heads, a divisor of heads"),
    SIZE("batch", batch, 1 << 24, "sequences, or texts"),
    SIZE("layers", layers, 65536, "encoder blocks"),
    SIZE("ffn", ffn, 65536, "width inside the feed-forward layers; with --dim alone 4 times that"),
    {"window", 0, CLI_SPAN, AT(window), "L,R", NULL, 0, 0,
     "attention: neighbours seen to the left and right, -1: all; -1,0 is causal"},
    SIZE("global-first", global_first, 1 << 24, "attention with a window: the first N tokens see all and are seen by all"),
    SIZE("global-every", global_every, 1 << 24, "so do tokens 0, N, 2N, ..."),
    SIZE("random-blocks", random_blocks, 64, "attention with a window: blocks of tokens that each block of tokens sees beside it"),
    SIZE("block", block, 65536, "tokens of such a block (64)"),
    {"dropout", 0, CLI_REAL, AT(dropout), "X", NULL, 0, 0.95, "on the attention weights, and in training on the layers"},
    {"layout", 0, CLI_TEXT, AT(layout), "NAME", "rows", 0, 0,
     "attention.decode: keys and values by rows of all heads, or by heads, each with all its rows: rows, heads"},
};
enum { OPTIONS = sizeof options / sizeof *options };

typedef struct bench_run {
    const bench_values *values;
    qkv_ctx *ctx[2]; /* one thread, all threads; or the one that was asked for */
    qkv_machine machine[2];
    int count;
    json_t *cases, *left_out;
    int told_f32; /* that a case has no bf16 form */
    cli_progress progress;
    qkv_bench_options options;
    int64_t done, all;
    bench_columns columns;
} bench_run;

static int read_options(const cli_verb *verb, const bench_values *v, const cli_args *args, qkv_bench_options *o) {
    qkv_bench_init(o);
    o->what = args->count ? args->words[0] : "all";
    o->quick = v->quick;
    o->seconds = v->seconds;
    if (!strcmp(v->dtype, "bf16"))
        o->dtype = QKV_BENCH_BF16;
    else if (strcmp(v->dtype, "f32"))
        return cli_wrong_use(verb, "--dtype=%s: expected f32 or bf16", v->dtype);
    if (strcmp(v->layout, "rows") && strcmp(v->layout, "heads"))
        return cli_wrong_use(verb, "--layout=%s: expected rows or heads", v->layout);
    static const char *const sizes[] = {"m",      "n",      "k",   "dim",          "value-dim",    "heads",         "kv-heads",
                                        "batch",  "layers", "ffn", "global-first", "global-every", "random-blocks", "block",
                                        "window", "dropout", "layout"};
    for (size_t i = 0; !strcmp(o->what, "peak") && i < sizeof sizes / sizeof *sizes; i++)
        if (cli_given(verb, args, sizes[i])) return cli_wrong_use(verb, "--%s: the ceilings have no sizes", sizes[i]);
    if (cli_given(verb, args, "m")) o->m = v->m;
    if (cli_given(verb, args, "n")) o->n = v->n;
    if (cli_given(verb, args, "k")) o->k = v->k;
    if (cli_given(verb, args, "dim")) o->dim = v->dim;
    if (cli_given(verb, args, "value-dim")) o->value_dim = v->value_dim;
    if (cli_given(verb, args, "heads")) o->heads = v->heads;
    if (cli_given(verb, args, "kv-heads")) o->kv_heads = v->kv_heads;
    if (cli_given(verb, args, "batch")) o->batch = v->batch;
    if (cli_given(verb, args, "layers")) o->layers = v->layers;
    if (cli_given(verb, args, "ffn")) o->ffn = v->ffn;
    if (cli_given(verb, args, "global-first")) o->global_first = v->global_first;
    if (cli_given(verb, args, "global-every")) o->global_every = v->global_every;
    if (cli_given(verb, args, "random-blocks")) o->random_blocks = v->random_blocks;
    if (cli_given(verb, args, "block")) o->block = v->block;
    if (cli_given(verb, args, "window")) o->window = v->window;
    if (cli_given(verb, args, "dropout")) o->dropout = v->dropout;
    if (cli_given(verb, args, "layout")) o->layout = strcmp(v->layout, "heads") ? QKV_BENCH_ROWS : QKV_BENCH_HEADS;
    return CLI_GO_ON;
}

/* One thread and all of them, or what --threads says. */
static int open_contexts(const cli_verb *verb, bench_run *run) {
    int code = cli_open(verb, run->values->threads, 1, &run->progress, &run->ctx[0]);
    if (code != CLI_GO_ON) return code;
    run->count = 1;
    if (run->values->threads) return CLI_GO_ON;
    qkv_machine m;
    qkv_status status = qkv_machine_describe(run->ctx[0], &m);
    if (status != QKV_OK) return cli_fail(run->ctx[0], status);
    if (m.threads == 1) return CLI_GO_ON;
    run->ctx[1] = run->ctx[0];
    run->count = 2;
    return cli_open(verb, 1, 1, &run->progress, &run->ctx[0]);
}

static int wants_table(const bench_run *run) {
    return !run->values->json || strcmp(run->values->json, "-") != 0;
}

/* What is printed must be read by somebody. */
static int printed(int code) {
    errno = 0;
    return fflush(stdout) || ferror(stdout) ? cli_output_failed(errno) : code;
}

static int measure_machine(bench_run *run) {
    for (int i = 0; i < run->count; i++) {
        qkv_status status = qkv_machine_measure(run->ctx[i], run->options.quick ? 0.2 : 2, 1, &run->machine[i]);
        if (status == QKV_NO_MEMORY) {
            cli_say("warning: %s; memory is not measured", qkv_message(run->ctx[i]));
            status = qkv_machine_measure(run->ctx[i], 0.2, 0, &run->machine[i]);
        }
        if (status == QKV_STOPPED) return CLI_SIGNAL + cli_signals_got();
        if (status != QKV_OK) return cli_fail(run->ctx[i], status);
    }
    if (run->options.dtype == QKV_BENCH_BF16 && !(run->machine[0].bf16_gflops > 0))
        cli_say("note: bf16 is emulated here (%s), slower than f32, and held against the rate of the emulation", run->machine[0].isa);
    if (!wants_table(run)) return CLI_GO_ON;
    bench_machine_text(run->machine, run->count);
    return printed(CLI_GO_ON);
}

static void tell_dtype(bench_run *run, const qkv_bench_case *one) {
    if (one->dtype == run->options.dtype || run->told_f32) return;
    run->told_f32 = 1;
    cli_say("note: %s runs in f32 whatever --dtype says, and is held against f32's ceiling%s", one->name,
            run->all > 1 ? "; so do others that are listed as f32" : "");
}

/* A case of the list that does not fit the machine. */
static int leave_out(bench_run *run, const qkv_bench_case *c, int i) {
    const char *why = qkv_message(run->ctx[i]);
    qkv_machine m;
    const int threads = qkv_machine_describe(run->ctx[i], &m) == QKV_OK ? m.threads : 0;
    json_array_append_new(run->left_out, bench_left_out_json(c, threads, why));
    if (!wants_table(run)) {
        cli_say("warning: not measured: %s", why);
        return CLI_GO_ON;
    }
    bench_row_skipped(&run->columns, c, why);
    return printed(CLI_GO_ON);
}

/* One case with each number of threads. A case of the list that does not fit the machine is left out; one that was asked for
 * is a failure. */
static int one_case(bench_run *run, const qkv_bench_case *c) {
    char what[300];
    int code = CLI_GO_ON;
    bench_describe(c, what, sizeof what);
    for (int i = 0; i < run->count && code == CLI_GO_ON; i++) {
        cli_progress_items(&run->progress, run->done, run->all, what);
        qkv_bench_case one = *c;
        qkv_status status = qkv_bench_measure(run->ctx[i], &run->options, &one);
        cli_progress_clear(&run->progress);
        if (status == QKV_NO_MEMORY && run->all > 1) {
            code = leave_out(run, c, i);
            break;
        }
        if (status == QKV_STOPPED) return CLI_SIGNAL + cli_signals_got();
        if (status != QKV_OK) return cli_fail(run->ctx[i], status);
        tell_dtype(run, &one);
        json_array_append_new(run->cases, bench_case_json(&one));
        if (!wants_table(run)) continue;
        bench_row(&run->columns, &one);
        code = printed(CLI_GO_ON);
    }
    run->done++;
    return code;
}

/* Sizes that are hopeless here are refused before anything is measured or printed: a case that fits is enough to go on. */
static int any_fits(bench_run *run, const qkv_bench_case *cases, int64_t count) {
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count; i++) {
        qkv_bench_case one = cases[i];
        qkv_status planned = qkv_bench_plan(run->ctx[0], &run->options, &one);
        if (planned != QKV_NO_MEMORY) return CLI_GO_ON; /* what else is wrong is said where it is measured */
        status = planned;
    }
    return status == QKV_OK ? CLI_GO_ON : cli_fail(run->ctx[0], status);
}

static int list_cases(const bench_run *run, const qkv_bench_case *cases, int64_t count) {
    if (!strcmp(run->options.what, "peak")) bench_machine_list();
    for (int64_t i = 0; i < count; i++) {
        char text[300];
        bench_describe(&cases[i], text, sizeof text);
        printf("%s\n", text);
    }
    return CLI_DONE;
}

/* JSON of what there is, also after a signal. */
static int write_json(bench_run *run, int code) {
    json_t *all = json_pack("{s:o, s:O, s:O, s:b}", "machine", bench_machine_json(run->machine, run->count), "cases", run->cases,
                            "left_out", run->left_out, "stopped", code != CLI_DONE);
    if (wants_table(run)) {
        const int written = cli_json_file(run->ctx[0], run->values->json, all);
        return written != CLI_GO_ON && code == CLI_DONE ? written : code;
    }
    cli_json_line(stdout, all, JSON_INDENT(1));
    return code;
}

static int measure(bench_run *run, const qkv_bench_case *cases, int64_t count) {
    run->all = count;
    run->columns = bench_widths(cases, count);
    cli_progress_init(&run->progress, 0, 0);
    cli_signals_stoppable();
    cli_signals_phase(CLI_MEASURES);
    int code = measure_machine(run);
    if (code > CLI_SIGNAL) cli_say("stopped before the machine was measured");
    if (code != CLI_GO_ON) return code;
    if (wants_table(run) && count > 0) bench_heading(&run->columns);
    code = printed(code);
    for (int64_t i = 0; i < count && code == CLI_GO_ON; i++)
        code = cli_signals_got() ? CLI_SIGNAL + cli_signals_got() : one_case(run, &cases[i]);
    if (code == CLI_GO_ON) code = CLI_DONE;
    if (cli_signals_got() && code != CLI_DONE)
        cli_say("stopped; %s of %s %s done", cli_count(run->done).s, cli_of(run->all, "case").s, run->all == 1 ? "is" : "are");
    return run->values->json && (code == CLI_DONE || code > CLI_SIGNAL) ? write_json(run, code) : code;
}

static int bench(const cli_verb *verb, bench_run *run) {
    qkv_bench_case *cases = NULL;
    int64_t count = 0;
    int code = open_contexts(verb, run);
    if (code != CLI_GO_ON) return code;
    if (strcmp(run->options.what, "peak")) {
        qkv_status status = qkv_bench_list(run->ctx[0], &run->options, &cases, &count);
        if (status != QKV_OK) return cli_wrong_use(verb, "%s", qkv_message(run->ctx[0]));
    }
    if (run->values->list && run->values->json)
        code = cli_wrong_use(verb, "--list measures nothing, so there is nothing for --json");
    else if (run->values->list)
        code = list_cases(run, cases, count);
    else if ((code = any_fits(run, cases, count)) == CLI_GO_ON && run->values->json && wants_table(run))
        code = cli_check_place(run->values->json, "JSON"); /* not after ten minutes */
    if (code == CLI_GO_ON) code = measure(run, cases, count);
    qkv_release(run->ctx[0], cases);
    return code;
}

static int run_bench(const cli_verb *verb, int argc, char **argv) {
    bench_values values;
    cli_args args;
    bench_run run;
    int code = cli_parse(verb, argc, argv, 1, &values, &args);
    if (code != CLI_GO_ON) return code;
    memset(&run, 0, sizeof run);
    run.values = &values;
    run.cases = json_array();
    run.left_out = json_array();
    code = read_options(verb, &values, &args, &run.options);
    if (code == CLI_GO_ON) code = bench(verb, &run);
    for (int i = 0; i < 2; i++) qkv_ctx_free(run.ctx[i]);
    json_decref(run.cases);
    json_decref(run.left_out);
    cli_args_free(&args);
    return code;
}

const cli_verb cli_bench = {
    .name = "bench",
    .usage = "bench [peak|gemm|attention|...|all] [options]",
    .summary = "how fast it runs here, beside what the machine could do",
    .about =
        "Measures the machine's ceilings (multiply-adds from registers alone, bytes from memory and from each cache) and then the "
        "pieces of the library: gemm, attention, pointwise, layer, recurrence, train, predict; one of their cases, like "
        "attention.forward; all of them (all, or options and no cases; about ten minutes); or peak, the ceilings alone.\n\n"
        "Rate counts useful operations only: pairs that see each other, 1 multiply-add = 2. Floor is the least time by what the "
        "machine does: the larger of the operations at the ceiling of arithmetic, in the type that the case ran in, and the bytes, "
        "each once, at the ceiling of memory or of the cache that holds them; of attention.decode a loop that only reads its keys "
        "and values. Share is floor / time, with ceilings measured right before and after each repeat.\n\n"
        "A size measures the cases once, with that size, instead of with their own lists. Ctrl-C ends after the repeat at hand "
        "with what is done (exit 130); so does a reader of the table that goes away (exit 141).",
    .examples = "bench --quick\n"
                "bench attention --n 4096 --dim 64 --threads 2\n"
                "bench attention --n 16384 --dim 64 --window 64,64 --global-first 1 --global-every 512\n"
                "bench gemm.nt --m 8192 --n 2048 --k 512\n"
                "bench all --json today.json",
    .options = options,
    .count = OPTIONS,
    .struct_size = sizeof(bench_values),
    .run = run_bench,
};
