/* qkv train classify */
#include "train.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const cli_option options[] = {
    {"output", 'o', CLI_TEXT, offsetof(train_values, output), "MODEL", NULL, 0, 0, "where the model goes (needed)"},
    {"size", 0, CLI_TEXT, offsetof(train_values, size), "NAME", NULL, 0, 0,
     "a model by name: tiny, small, base (see Sizes); options beside it win, wherever they stand"},
    {"threads", 0, CLI_INT, offsetof(train_values, threads), "N", "0", 0, 1024,
     "threads; 0: every core allowed. The model is the same for any number"},
    {"resume", 0, CLI_FLAG, offsetof(train_values, resume), NULL, NULL, 0, 0,
     "go on with a run that was interrupted, from MODEL.resume; files and options must be those it had"},
    {"checkpoint", 0, CLI_REAL, offsetof(train_values, checkpoint), "MINUTES", "5", 0, 1e6,
     "between two writings of MODEL.resume (0: only when interrupted); it goes when the model is there"},
    {"log", 0, CLI_TEXT, offsetof(train_values, log), "FILE", NULL, 0, 0, "write a JSON line per step and evaluation to this file"},
    {"json", 0, CLI_FLAG, offsetof(train_values, json), NULL, NULL, 0, 0, "print a summary as JSON at the end"},
};

/* ---- before any work: are the files what they should be? ---- */

static int same_file(const char *a, const char *b) {
    struct stat x, y;
    if (!a || !b || !strcmp(a, "-") || !strcmp(b, "-")) return 0;
    if (!strcmp(a, b)) return 1;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int check_files(const cli_verb *verb, train_run *run) {
    const train_values *v = run->values;
    const char *train = run->train, *dev = run->dev;
    if (!v->output || !v->output[0]) return cli_wrong_use(verb, "where should the model go? -o MODEL");
    if (!strcmp(v->output, "-")) return cli_wrong_use(verb, "a model cannot go to standard output; give -o the name of a file");
    if (dev && !strcmp(train, "-") && !strcmp(dev, "-")) return cli_wrong_use(verb, "TRAIN and DEV cannot both be standard input");
    run->resume = cli_alloc(strlen(v->output) + 8);
    sprintf(run->resume, "%s.resume", v->output);
    const char *inputs[] = {train, dev};
    for (int i = 0; i < 2; i++) {
        if (same_file(v->output, inputs[i])) return cli_wrong_use(verb, "-o %s would overwrite the data", v->output);
        if (same_file(run->resume, inputs[i])) return cli_wrong_use(verb, "%s would overwrite the data", run->resume);
        if (same_file(v->log, inputs[i])) return cli_wrong_use(verb, "--log %s would overwrite the data", v->log);
    }
    if (v->log && !strcmp(v->log, "-"))
        return cli_wrong_use(verb, "a log cannot go to standard output; give --log the name of a file");
    if (same_file(v->output, v->log)) return cli_wrong_use(verb, "-o and --log name the same file");
    if (same_file(run->resume, v->log)) return cli_wrong_use(verb, "--log %s: checkpoints are written there", v->log);
    return CLI_GO_ON;
}

/* An hour of training must not end at a folder that is not there: a file is made beside the model's place and removed. */
static int check_writable(const char *output) {
    struct stat st;
    if (!stat(output, &st) && !S_ISREG(st.st_mode)) {
        cli_say("%s: is %s, not a file that a model can replace", output, S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe");
        return CLI_FAILED;
    }
    size_t length = strlen(output);
    if (output[length - 1] == '/') {
        cli_say("%s: is the name of a folder", output);
        return CLI_FAILED;
    }
    char *path = cli_alloc(length + 16);
    sprintf(path, "%s.XXXXXX", output);
    int fd = mkstemp(path), error = errno;
    if (fd >= 0) {
        close(fd);
        unlink(path);
    } else {
        cli_say("%s: the model could not be written there: %s", output, strerror(error));
    }
    free(path);
    return fd >= 0 ? CLI_GO_ON : CLI_FAILED;
}

/* ---- the options of the model ---- */

static int set_options(const cli_verb *verb, qkv_ctx *ctx, const train_values *v, const cli_args *args, qkv_classify_options *o) {
    const qkv_option_table *table = qkv_classify_options_table();
    qkv_options_default(table, o);
    if (v->size && qkv_classify_options_size(ctx, o, v->size) != QKV_OK) return cli_wrong_use(verb, "--%s", qkv_message(ctx));
    return cli_apply_settings(verb, ctx, args, o);
}

/* ---- the run ---- */

static void on_event(void *user, const qkv_train_event *event) {
    train_run *run = user;
    if (event->kind == QKV_TRAIN_PLAN) cli_signals_phase(CLI_STEPS);
    if (event->kind == QKV_TRAIN_STEP) {
        run->step = event->u.step.step;
        run->steps = event->u.step.steps;
    }
    if (event->kind == QKV_TRAIN_END) {
        run->ended = 1;
        run->end = event->u.end;
    }
    train_report(run, event);
    train_record(run, event);
}

/* The model is worth more than the place it was meant for. */
static int save_elsewhere(const qkv_ctx *ctx, qkv_model *model) {
    const char *tmp = getenv("TMPDIR");
    char folder[512], path[600];
    int length = snprintf(folder, sizeof folder, "%s/qkv-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (length >= (int)sizeof folder || !mkdtemp(folder)) return 0;
    snprintf(path, sizeof path, "%s/model", folder);
    if (qkv_model_save(model, path) != QKV_OK) {
        rmdir(folder);
        cli_say("%s", qkv_message(ctx));
        return 0;
    }
    cli_say("the model is in %s instead", path);
    return 1;
}

static int save(qkv_ctx *ctx, qkv_model *model, train_run *run) {
    struct stat st;
    const char *output = run->values->output;
    cli_signals_phase(CLI_SAVES);
    qkv_status status = qkv_model_save(model, output);
    if (status != QKV_OK) {
        int code = cli_fail(ctx, status);
        if (!save_elsewhere(ctx, model)) cli_say("no model was written");
        return code == CLI_WRONG_USE ? CLI_FAILED : code;
    }
    cli_signals_phase(CLI_SAVED);
    if (!run->ended || !run->end.stopped) unlink(run->resume);
    json_object_set_new(run->summary, "model", cli_json_text(output, (int64_t)strlen(output)));
    train_report_end(run, model, stat(output, &st) ? 0 : (double)st.st_size);
    return CLI_DONE;
}

static const char *signal_name(int number) {
    return number == SIGINT ? "SIGINT (Ctrl-C)" : number == SIGTERM ? "SIGTERM" : "SIGHUP";
}

static int stopped(qkv_ctx *ctx, qkv_model *model, train_run *run) {
    int got = cli_signals_got();
    if (!model) {
        cli_say("stopped by %s; %sno model was written", signal_name(got), run->step ? "" : "nothing was trained yet, and ");
        return CLI_SIGNAL + got;
    }
    int code = save(ctx, model, run);
    if (code != CLI_DONE) return code;
    fprintf(stderr, "\nStopped by %s at step %s of %s; the best model so far was saved and can be used.\n", signal_name(got),
            cli_count(run->step).s, cli_count(run->steps).s);
    struct stat st;
    if (!stat(run->resume, &st)) fprintf(stderr, "To go on with the training: the same command and --resume.\n");
    return CLI_SIGNAL + got;
}

static int finish(qkv_ctx *ctx, qkv_status status, qkv_model *model, train_run *run) {
    cli_progress_clear(&run->progress);
    /* A signal can also interrupt the opening of a pipe, which then is a failure like others. */
    int interrupted = status == QKV_STOPPED || (status == QKV_IO && !run->steps && !model);
    if (interrupted && cli_signals_got()) return stopped(ctx, model, run);
    if (status == QKV_OK) return save(ctx, model, run);
    int code = cli_fail(ctx, status);
    if (status == QKV_NUMERIC && model) {
        cli_say("warning: the last good weights, of step %s or before, are saved", cli_count(run->step).s);
        save(ctx, model, run);
    }
    return code;
}

static int train(const cli_verb *verb, qkv_ctx *ctx, train_run *run) {
    if (qkv_machine_measure(ctx, 0.1, 0, &run->machine) != QKV_OK) memset(&run->machine, 0, sizeof run->machine);
    cli_progress_init(&run->progress, 1e9 * run->machine.fma_gflops, run->options->steps ? 0 : run->options->epochs);
    struct stat st;
    int there = !stat(run->resume, &st);
    if (run->values->resume && !there) {
        cli_say("there is no interrupted run to go on with: %s does not exist", run->resume);
        return CLI_FAILED;
    }
    if (!run->values->resume && there)
        cli_say("note: %s is there from a run that was interrupted; --resume would go on with it, this one will replace it", run->resume);
    if (run->values->log) {
        run->log = fopen(run->values->log, run->values->resume ? "a" : "w");
        if (!run->log) {
            cli_say("%s: %s", run->values->log, strerror(errno));
            return CLI_FAILED;
        }
    }
    char title[64];
    run->summary = json_object();
    json_object_set_new(run->summary, "verb", json_string(cli_verb_title(verb, title, sizeof title)));
    fprintf(stderr, "%-11s%s\n", "reading", !strcmp(run->train, "-") ? "standard input" : run->train);

    const qkv_train_checkpoint checkpoint = {run->resume, run->values->checkpoint, run->values->resume};
    qkv_model *model = NULL;
    const qkv_train_callbacks callbacks = {on_event, run};
    qkv_status status = qkv_classify_train(ctx, run->options, run->train, run->dev, &checkpoint, &callbacks, &model);
    int code = finish(ctx, status, model, run);
    qkv_model_free(model);
    if (run->values->json && (code == CLI_DONE || code > CLI_SIGNAL)) {
        cli_json_line(stdout, run->summary, JSON_INDENT(2));
        run->summary = NULL;
    }
    json_decref(run->summary);
    if (run->log && fclose(run->log)) run->log_failed = 1;
    if (run->log_failed && code == CLI_DONE) {
        cli_say("%s: the log is not complete", run->values->log);
        code = CLI_FAILED;
    }
    return code;
}

static int run_train(const cli_verb *verb, int argc, char **argv) {
    train_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 2, &values, &args);
    if (code != CLI_GO_ON) return code;

    train_run run;
    memset(&run, 0, sizeof run);
    qkv_classify_options o;
    qkv_ctx *ctx = NULL;
    run.values = &values;
    run.options = &o;
    run.train = args.count > 0 ? args.words[0] : NULL;
    run.dev = args.count > 1 ? args.words[1] : NULL;
    code = run.train ? check_files(verb, &run) : cli_wrong_use(verb, "which file is to be trained on?");
    if (code == CLI_GO_ON) code = cli_open(verb, values.threads, 1, &run.progress, &ctx);
    if (code == CLI_GO_ON) code = set_options(verb, ctx, &values, &args, &o);
    if (code == CLI_GO_ON) code = check_writable(values.output);
    if (code == CLI_GO_ON) {
        cli_signals_stoppable();
        code = train(verb, ctx, &run);
    }
    qkv_ctx_free(ctx);
    cli_args_free(&args);
    free(run.resume);
    return code;
}

const cli_verb cli_train_classify = {
    .name = "train",
    .task = "classify",
    .usage = "train classify TRAIN [DEV] -o MODEL [options]",
    .summary = "train a text classifier",
    .about =
        "Trains a text classifier on rows label TAB text (the text may hold further tabs), on fastText files, JSON lines or CSV with "
        "a header. Files may be gzip; - is standard input. The weights with the best metric on DEV are kept; without DEV, 10 % of "
        "TRAIN, chosen by hash, is held out for that.\n\n"
        "Ctrl-C or SIGTERM: the step ends, the best weights so far are saved, exit 130 or 143. A second one ends at once. While "
        "the data is read there is nothing to save: the first one ends the program, and no model is written.\n\n"
        "An interrupted run goes on with the same command and --resume, to the same bits as if nothing had happened: where it "
        "stopped, or, after a crash, from the last of the checkpoints that are written every few minutes.",
    .examples = "train classify train.tsv dev.tsv -o news.model\n"
                "train classify reviews.csv -o reviews.model --label-column stars --text-column review\n"
                "train classify topics.jsonl -o topics.model --multi-label\n"
                "train classify train.tsv.gz -o news.model --size small --epochs 8 --log news.log",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(train_values),
    .table = qkv_classify_options_table,
    .run = run_train,
};
