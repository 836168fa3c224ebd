/* qkv compare: experiments with a verdict. */
#include "compare.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress.h"

typedef struct compare_values {
    int64_t threads, seeds;
    uint64_t seed;
    const char *data, *only, *html, *json, *resume;
    int quick, list, show;
} compare_values;

#define AT(field) offsetof(compare_values, field)
static const cli_option options[] = {
    {"data", 0, CLI_TEXT, AT(data), "FILE", NULL, 0, 0,
     "labelled rows to train on, some of them held out to be scored; without it rows are made"},
    {"seeds", 0, CLI_INT, AT(seeds), "N", NULL, 1, 100, "trainings of each kind, or rounds of timing [3; --quick 2; five folds 1]"},
    {"seed", 0, CLI_SEED, AT(seed), "N", "1", 0, 0, "the first of them"},
    {"quick", 0, CLI_FLAG, AT(quick), NULL, NULL, 0, 0, "a taste within two minutes: smaller, and fewer"},
    {"only", 0, CLI_TEXT, AT(only), "TEXT", NULL, 0, 0,
     "of what is not done measure only what has these words in its name"},
    {"list", 0, CLI_FLAG, AT(list), NULL, NULL, 0, 0, "print the names of the measurements and measure nothing"},
    {"show", 0, CLI_FLAG, AT(show), NULL, NULL, 0, 0, "print what is done and measure nothing"},
    {"html", 0, CLI_TEXT, AT(html), "FILE", NULL, 0, 0, "write tables, charts and verdicts as one page that needs no network"},
    {"json", 0, CLI_TEXT, AT(json), "FILE", NULL, 0, 0, "write them as JSON; - is standard output, instead of the tables"},
    {"resume", 0, CLI_TEXT, AT(resume), "FILE", NULL, 0, 0,
     "take what is done from FILE and keep what gets done there [qkv-compare-NAME.cells; with --quick none]"},
    {"threads", 0, CLI_INT, AT(threads), "N", "0", 0, 1024, "threads; 0: every core allowed"},
};
enum { OPTIONS = sizeof options / sizeof *options };

static const cli_need needs[] = {{"html", "!list"}, {"json", "!list"}, {"show", "!list"}, {"only", "!show"}, {NULL, NULL}};

typedef struct compare_run {
    const compare_values *values;
    const char *what;
    char *cells;   /* file of cells, NULL: none */
    int own_cells; /* 1: nobody asked for it, and it goes when all is done */
    cli_progress progress;
    char **argv;
    int argc;
} compare_run;

static void on_progress(void *user, const qkv_compare_progress *p) {
    compare_run *run = user;
    char line[512], left[64] = "", part[48] = "";
    if (isfinite(p->left)) snprintf(left, sizeof left, ", %s left", cli_duration(p->left).s);
    if (p->part > 0.005) snprintf(part, sizeof part, " (%.0f %% of it done)", 100 * p->part);
    snprintf(line, sizeof line, "%s of %s  %s%s%s", cli_count(p->cell + 1).s, cli_count(p->cells).s, p->what, part, left);
    cli_progress_line(&run->progress, line);
}

static void on_listed(void *user, const char *name, int done) {
    (void)user;
    printf("%s  %s\n", done ? "done" : "    ", name);
}

/* ---- files ---- */

int compare_known(const char *what) {
    for (int64_t i = 0; qkv_compare_name(i); i++)
        if (!strcmp(what, qkv_compare_name(i))) return 1;
    return 0;
}

static int check_files(const cli_verb *verb, const compare_run *run) {
    const compare_values *v = run->values;
    const char *const named[] = {v->data, v->html, v->json, v->resume};
    static const char *const option[] = {"data", "html", "json", "resume"};
    for (int i = 0; i < 4; i++)
        for (int k = i + 1; k < 4; k++)
            if (cli_same_file(named[i], named[k]))
                return cli_wrong_use(verb, "--%s and --%s name the same file", option[i], option[k]);
    if (v->html && !strcmp(v->html, "-"))
        return cli_wrong_use(verb, "a page cannot go to standard output; give --html the name of a file");
    if (v->resume && !strcmp(v->resume, "-"))
        return cli_wrong_use(verb, "cells cannot go to standard output; give --resume the name of a file");
    if (v->data && !strcmp(v->data, "-"))
        return cli_wrong_use(verb, "the data is read anew when the run goes on, and cannot be standard input");
    if (v->html && cli_check_place(v->html, "a page") != CLI_GO_ON) return CLI_FAILED;
    if (v->json && strcmp(v->json, "-") && cli_check_place(v->json, "JSON") != CLI_GO_ON) return CLI_FAILED;
    /* One that is there can be printed from wherever it lies; that nothing can be added to it the library says. */
    struct stat st;
    const int there = v->resume && !stat(v->resume, &st) && S_ISREG(st.st_mode);
    return v->resume && !there ? cli_check_place(v->resume, "what is done") : CLI_GO_ON;
}

/* A run that takes longer than a taste is worth keeping, asked or not. */
static void choose_cells(compare_run *run) {
    const compare_values *v = run->values;
    if (v->resume) {
        run->cells = cli_alloc(strlen(v->resume) + 1);
        strcpy(run->cells, v->resume);
    } else if (!v->quick) {
        run->cells = cli_alloc(strlen(run->what) + 32);
        sprintf(run->cells, "qkv-compare-%s.cells", run->what);
        run->own_cells = 1;
    }
}

/* ---- results ---- */

static int write_results(qkv_ctx *ctx, const compare_run *run, const qkv_compare_result *result) {
    const compare_values *v = run->values;
    const int json_alone = v->json && !strcmp(v->json, "-");
    int code = CLI_GO_ON;
    errno = 0;
    if (json_alone)
        cli_json_line(stdout, compare_json(result), JSON_INDENT(1));
    else
        compare_print(stdout, result);
    if (fflush(stdout) || ferror(stdout)) code = cli_output_failed(errno);
    if (v->json && !json_alone && cli_json_file(ctx, v->json, compare_json(result)) != CLI_GO_ON) code = CLI_FAILED;
    if (v->html) {
        qkv_status status = qkv_compare_write_page(ctx, result, v->html);
        if (status != QKV_OK) code = cli_fail(ctx, status);
    }
    return code;
}

/* A word of a command line, in quotes where a shell would need them. */
static void say_word(const char *word) {
    if (word[0] && !word[strcspn(word, " \t\n'\"\\$&|;<>()*?[]#~!`{}")]) {
        fprintf(stderr, " %s", word);
        return;
    }
    fputs(" '", stderr);
    for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (const char[]){*word, 0}, stderr);
    fputc('\'', stderr);
}

static void say_how_to_go_on(const compare_run *run, const qkv_compare_result *result) {
    if (result->done == 0) {
        fputs("qkv: stopped before anything was measured\n", stderr);
        return;
    }
    fprintf(stderr, "qkv: stopped; %s of %s measurements are done", cli_count(result->done).s, cli_count(result->cells).s);
    if (!result->kept) {
        fputs(run->cells ? " and could not be kept\n" : " and were not kept\n", stderr);
        return;
    }
    fprintf(stderr, " and are in %s. To go on:\nqkv", run->cells);
    for (int i = 0; i < run->argc; i++) say_word(run->argv[i]);
    fputc('\n', stderr);
}

/* Of a part that was asked for. */
static void say_what_is_done(const compare_run *run, const qkv_compare_result *result) {
    fprintf(stderr, "%s of %s measurements %s done", cli_count(result->done).s, cli_count(result->cells).s,
            result->done == 1 ? "is" : "are");
    if (result->kept)
        fprintf(stderr, ", in %s; without --only the same command goes on\n", run->cells);
    else
        fprintf(stderr, ", and not kept%s\n", run->cells ? "" : ": --resume FILE would");
}

static int finish(const cli_verb *verb, qkv_ctx *ctx, compare_run *run, qkv_status status, const qkv_compare_result *result) {
    cli_progress_clear(&run->progress);
    cli_signals_phase(CLI_SAVED);
    if (status == QKV_BAD_ARGUMENT) return cli_wrong_use(verb, "--%s", qkv_message(ctx)); /* "data: 'order' reads no data" */
    if (!result) return cli_signals_got() && status == QKV_STOPPED ? CLI_SIGNAL + cli_signals_got() : cli_fail(ctx, status);
    if (run->values->list) return CLI_DONE;
    int code = write_results(ctx, run, result);
    if (status == QKV_STOPPED) {
        say_how_to_go_on(run, result);
        return cli_signals_got() ? CLI_SIGNAL + cli_signals_got() : CLI_FAILED;
    }
    if (result->taken > 0)
        fprintf(stderr, "%s of %s measurements were taken from %s\n", cli_count(result->taken).s, cli_count(result->cells).s,
                run->cells);
    if (code != CLI_GO_ON) return code;
    if (result->done < result->cells && !run->values->show) say_what_is_done(run, result);
    if (!run->own_cells || !result->kept || result->done < result->cells || run->values->show) return CLI_DONE;
    if (result->others == 0)
        unlink(run->cells);
    else
        fprintf(stderr, "%s stays: it has what other runs measured (%s)\n", run->cells, cli_count(result->others).s);
    return CLI_DONE;
}

static int compare(const cli_verb *verb, compare_run *run) {
    const compare_values *v = run->values;
    const qkv_compare_callbacks callbacks = {on_progress, v->list ? on_listed : NULL, run};
    qkv_compare_options o;
    qkv_compare_result *result;
    qkv_ctx *ctx = NULL;
    int code = cli_open(verb, v->threads, 1, &run->progress, &ctx);
    if (code != CLI_GO_ON) return code;
    qkv_compare_init(&o);
    o.what = run->what;
    o.data = v->data;
    o.cells = run->cells;
    o.only = v->only;
    o.show = v->list || v->show;
    o.seeds = v->seeds;
    o.seed = v->seed;
    o.quick = v->quick;
    cli_progress_init(&run->progress, 0, 0);
    cli_signals_stoppable();
    cli_signals_phase(CLI_MEASURES);
    qkv_status status = qkv_compare_run(ctx, &o, &callbacks, &result);
    code = finish(verb, ctx, run, status, result);
    qkv_compare_free(ctx, result);
    qkv_ctx_free(ctx);
    return code;
}

static int wrong_experiment(const cli_verb *verb, const char *what) {
    char names[256] = "";
    for (int64_t i = 0; qkv_compare_name(i); i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", qkv_compare_name(i));
    }
    if (!what) return cli_wrong_use(verb, "which experiment? There is: %s", names);
    return cli_wrong_use(verb, "there is no experiment '%s'; there is: %s", what, names);
}

static int run_compare(const cli_verb *verb, int argc, char **argv) {
    compare_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 1, &values, &args);
    if (code != CLI_GO_ON) return code;
    compare_run run = {.values = &values, .what = args.count ? args.words[0] : NULL, .argv = argv - 1, .argc = argc + 1};
    if (!run.what || !compare_known(run.what)) {
        code = wrong_experiment(verb, run.what);
    } else {
        choose_cells(&run);
        code = cli_check_effects(verb, &args, &values, NULL, NULL);
        if (code == CLI_GO_ON) code = check_files(verb, &run);
        if (code == CLI_GO_ON) code = compare(verb, &run);
    }
    free(run.cells);
    cli_args_free(&args);
    return code;
}

const cli_verb cli_compare = {
    .name = "compare",
    .usage = "compare NAME [options]",
    .summary = "experiments on claims about attention, with a verdict",
    .about =
        "Runs an experiment, prints what was measured, the figure of the claim beside it, and a verdict that is computed from the "
        "measurements and their spread: holds, holds in part, does not hold, cannot be judged. docs/claims.md has the claims.\n\n"
        "speed: the time of a layer of attention (1 head, 8 heads, 64 neighbours) and of RNN, GRU, LSTM, by the length of the "
        "text.\n"
        "heads: 1 to 16 heads at equal width: operations, time, accuracy.\n"
        "length: accuracy of attention, RNN, GRU and LSTM by length, within what was learned from and beyond.\n"
        "positions: twelve ways to tell positions, asked far beyond the length that was learned from.\n"
        "patterns: of long texts 512, 2,048 and 8,192 tokens: full, windows, global tokens, segments; five folds.\n"
        "memory: ways to save it in training: bytes planned and measured, time paid.\n"
        "gradients: how far they reach in attention, RNN, GRU and LSTM (forget bias 1, or 0), by layer and by stretches of the "
        "text.\n"
        "stability: what norms, residual connections, the scale of the scores and the start are for, shallow and deep.\n"
        "order: without positions the order of words is invisible; with each way to tell positions it is not.\n\n"
        "Without --data networks learn tasks that the program makes: recall at a distance, nested list operations, in patterns texts "
        "of four kinds.\n\n"
        "What is done is kept in a file as it gets done, and the same command goes on from there; the file goes when all is done, "
        "unless --resume names it. --only measures a part, --list names the parts, --show prints what is done. With --quick no file "
        "is kept. Ctrl-C ends after the step at hand and prints what the part that is done says (exit 130).",
    .examples = "compare order\n"
                "compare speed --quick\n"
                "compare heads --data train.tsv --html heads.html",
    .options = options,
    .count = OPTIONS,
    .needs = needs,
    .struct_size = sizeof(compare_values),
    .run = run_compare,
};
