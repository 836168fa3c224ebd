/* qkv train classify */
#include "train.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

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
    {"folds", 0, CLI_INT, offsetof(train_values, folds), "K", "0", 0, QKV_FOLDS_MOST,
     "score such a training by K-fold cross-validation first; without -o only that"},
    {"autotune", 0, CLI_REAL, offsetof(train_values, autotune), "MINUTES", "0", 0, 1e6,
     "search for better options on the dev rows for so long; those given stay"},
    {"autotune-trials", 0, CLI_INT, offsetof(train_values, trials), "N", "0", 0, 1e9,
     "end the search after N trials that counted (0: by time alone)"},
    {"pretrain-text", 0, CLI_TEXT, offsetof(train_values, pretrain_text), "FILE", NULL, 0, 0,
     "texts for --pretrain, instead of those of TRAIN: a text a line, or any format, whose labels are left out"},
    {"log", 0, CLI_TEXT, offsetof(train_values, log), "FILE", NULL, 0, 0, "write a JSON line per step and evaluation to this file"},
    {"monitor", 0, CLI_FLAG, offsetof(train_values, monitor), NULL, NULL, 0, 0,
     "watch attention, gradients and updates, and say what is wrong; with --log a JSON line for each look"},
    {"monitor-every", 0, CLI_INT, offsetof(train_values, monitor_every), "STEPS", "10", 1, 1e9, "between two looks of --monitor"},
    {"json", 0, CLI_FLAG, offsetof(train_values, json), NULL, NULL, 0, 0, "print a summary as JSON at the end"},
};

static const cli_need needs[] = {{"monitor-every", "monitor"},
                                 {"checkpoint", "output !autotune !autotune-trials"},
                                 {"pretrain-text", "pretrain"},
                                 {NULL, NULL}};

/* ---- before any work: are the files what they should be? ---- */

static int tunes(const train_values *v) { return v->autotune > 0 || v->trials > 0; }

/* What trains many times. */
static int check_many(const cli_verb *verb, const train_run *run) {
    const train_values *v = run->values;
    const char *what = v->folds ? "--folds" : "--autotune";
    if (!v->folds && !tunes(v)) return CLI_GO_ON;
    if (v->folds && tunes(v))
        return cli_wrong_use(verb, "--folds and --autotune are two runs: first search, then score what was found");
    if (v->folds == 1) return cli_wrong_use(verb, "--folds=1: expected a whole number from 2 to %d", QKV_FOLDS_MOST);
    if (v->resume) return cli_wrong_use(verb, "--resume goes on with one training, and %s makes many; leave it out", what);
    if (v->pretrain_text && !strcmp(v->pretrain_text, "-"))
        return cli_wrong_use(verb, "with %s --pretrain-text is read more than once and cannot be standard input", what);
    if (v->folds && v->output && (!strcmp(run->train, "-") || (run->dev && !strcmp(run->dev, "-"))))
        return cli_wrong_use(verb, "with --folds and -o the data is read twice and cannot be standard input");
    return CLI_GO_ON;
}

static int check_files(const cli_verb *verb, train_run *run) {
    const train_values *v = run->values;
    const char *train = run->train, *dev = run->dev;
    const int scores_only = v->folds && !v->output;
    if (!scores_only && (!v->output || !v->output[0])) return cli_wrong_use(verb, "where should the model go? -o MODEL");
    if (!scores_only && !strcmp(v->output, "-")) return cli_wrong_use(verb, "a model cannot go to standard output; give -o the name of a file");
    if (dev && !strcmp(train, "-") && !strcmp(dev, "-")) return cli_wrong_use(verb, "TRAIN and DEV cannot both be standard input");
    const char *inputs[] = {train, dev, v->pretrain_text};
    int streams = 0;
    for (int i = 0; i < 3; i++) streams += inputs[i] && !strcmp(inputs[i], "-");
    if (streams > 1) return cli_wrong_use(verb, "only one of TRAIN, DEV and --pretrain-text can be standard input");
    if (v->output) {
        run->resume = cli_alloc(strlen(v->output) + 8);
        sprintf(run->resume, "%s.resume", v->output);
    }
    for (int i = 0; i < 3; i++) {
        if (cli_same_file(v->output, inputs[i])) return cli_wrong_use(verb, "-o %s would overwrite the data", v->output);
        if (cli_same_file(run->resume, inputs[i])) return cli_wrong_use(verb, "%s would overwrite the data", run->resume);
        if (cli_same_file(v->log, inputs[i])) return cli_wrong_use(verb, "--log %s would overwrite the data", v->log);
    }
    if (v->log && !strcmp(v->log, "-"))
        return cli_wrong_use(verb, "a log cannot go to standard output; give --log the name of a file");
    if (cli_same_file(v->output, v->log)) return cli_wrong_use(verb, "-o and --log name the same file");
    if (cli_same_file(run->resume, v->log)) return cli_wrong_use(verb, "--log %s: checkpoints are written there", v->log);
    return check_many(verb, run);
}

/* ---- the options of the model ---- */

static int set_options(const cli_verb *verb, qkv_ctx *ctx, const train_values *v, const cli_args *args, qkv_classify_options *o) {
    const qkv_option_table *table = qkv_classify_options_table();
    qkv_options_default(table, o);
    if (v->size && qkv_classify_options_size(ctx, o, v->size) != QKV_OK) return cli_wrong_use(verb, "--%s", qkv_message(ctx));
    /* What goes with a kind of model, before the options that are given one by one: these refuse one that there is not. */
    for (int i = 0; i < args->setting_count; i++)
        if (!strcmp(args->settings[i].name, "model") && qkv_classify_options_model(ctx, o, args->settings[i].value) != QKV_OK) break;
    int code = cli_apply_settings(verb, ctx, args, o);
    if (code == CLI_GO_ON) code = cli_check_effects(verb, args, v, o, NULL);
    o->pretrain_text = v->pretrain_text;
    o->monitor = v->monitor ? v->monitor_every : 0;
    return code;
}

/* ---- the run ---- */

/* What else runs can only lower a peak: of all looks the highest is the machine's. */
static void look_at_peak(qkv_ctx *ctx, train_run *run) {
    const double before = run->machine.fma_gflops, bf16_before = run->machine.bf16_gflops;
    qkv_machine m;
    if (qkv_machine_measure(ctx, 0.1, 0, &m) != QKV_OK) return;
    run->machine = m;
    if (before > m.fma_gflops) run->machine.fma_gflops = before;
    if (bf16_before > m.bf16_gflops) run->machine.bf16_gflops = bf16_before;
    run->progress.peak = 1e9 * train_peak(run);
}

/* Where bf16 is emulated, its operations are f32's. */
static int in_bf16(const train_run *run) {
    return run->options->dtype == QKV_COMPUTE_BF16 && run->machine.bf16_gflops > 0;
}

double train_peak(const train_run *run) {
    return in_bf16(run) ? run->machine.bf16_gflops : run->machine.fma_gflops;
}

const char *train_peak_name(const train_run *run) {
    return in_bf16(run) ? "bf16 peak" : "FMA peak";
}

/* At a training's end, before its share of the peak is told. The context that trains must not be used in an event. */
static void look_again(train_run *run) {
    const qkv_ctx_options own = {.struct_size = sizeof own, .threads = run->machine.threads};
    qkv_ctx *ctx;
    if (run->part || qkv_ctx_create(&own, &ctx, NULL, 0) != QKV_OK) return;
    look_at_peak(ctx, run);
    qkv_ctx_free(ctx);
}

static void begin_phase(train_run *run, qkv_train_phase phase, double epochs) {
    run->phase = phase;
    run->step = 0;
    const double shown = run->part ? run->progress.shown : 0;
    cli_progress_init(&run->progress, 1e9 * train_peak(run), epochs);
    if (in_bf16(run)) run->progress.peak_name = train_peak_name(run);
    run->progress.shown = shown;
    if (phase == QKV_PHASE_PRETRAIN) run->progress.what = "pretraining, ";
    if (run->part) run->progress.what = run->part_what;
}

void train_part(train_run *run, const char *part, int64_t number, int64_t of) {
    run->part = part;
    run->part_number = number;
    if (of) snprintf(run->part_what, sizeof run->part_what, "%s %lld of %lld, ", part, (long long)number, (long long)of);
    else snprintf(run->part_what, sizeof run->part_what, "%s %lld, ", part, (long long)number);
}

/* One of many trainings is at work, too, when there are no steps yet. */
static void tell_part(train_run *run, const char *what) {
    char line[128];
    snprintf(line, sizeof line, "%s%s", run->part_what, what);
    cli_progress_line(&run->progress, line);
}

void train_on_event(void *user, const qkv_train_event *event) {
    train_run *run = user;
    if (event->kind == QKV_TRAIN_PLAN) {
        cli_signals_phase(CLI_STEPS);
        begin_phase(run, event->phase, event->u.plan.epochs);
    }
    if (event->kind == QKV_TRAIN_STEP) {
        run->step = event->u.step.step;
        run->steps = event->u.step.steps;
    }
    if (event->kind == QKV_TRAIN_END) look_again(run);
    if (event->kind == QKV_TRAIN_END && event->phase == QKV_PHASE_TRAIN && !run->part) {
        run->ended = 1;
        run->end = event->u.end;
    }
    if (event->kind == QKV_TRAIN_DATA) run->dev_rows = event->u.data.dev_rows;
    /* Of many trainings the rows are said once, unless each has its own. */
    const int first = event->kind == QKV_TRAIN_DATA && run->part_number == 1 && run->part && !strcmp(run->part, "trial");
    if (!run->part || first || event->kind == QKV_TRAIN_STEP) train_report(run, event);
    else if (event->kind == QKV_TRAIN_LINEAR && event->u.linear.runs < 0) tell_part(run, "learning the linear model");
    else cli_progress_clear(&run->progress);
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

int train_save(qkv_ctx *ctx, qkv_model *model, train_run *run) {
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

const char *train_signal_name(int number) {
    return number == SIGINT ? "SIGINT (Ctrl-C)" : number == SIGTERM ? "SIGTERM" : "SIGHUP";
}

static void say_how_to_go_on(const train_run *run) {
    struct stat st;
    if (!run->step || stat(run->resume, &st)) return;
    fprintf(stderr, "To go on with the training: the same command %s --resume.\n", run->values->folds ? "without --folds and with" : "and");
}

static int stopped(qkv_ctx *ctx, qkv_model *model, train_run *run) {
    int got = cli_signals_got();
    if (!model) {
        if (run->phase == QKV_PHASE_PRETRAIN && run->step)
            cli_say("stopped by %s at step %s of %s of the pretraining; there is no model yet", train_signal_name(got), cli_count(run->step).s,
                    cli_count(run->steps).s);
        else
            cli_say("stopped by %s; %sno model was written", train_signal_name(got), run->step ? "" : "nothing was trained yet, and ");
        say_how_to_go_on(run);
        return CLI_SIGNAL + got;
    }
    int code = train_save(ctx, model, run);
    if (code != CLI_DONE) return code;
    fprintf(stderr, "\nStopped by %s at step %s of %s; the best model so far was saved and can be used.\n", train_signal_name(got),
            cli_count(run->step).s, cli_count(run->steps).s);
    say_how_to_go_on(run);
    return CLI_SIGNAL + got;
}

static int finish(qkv_ctx *ctx, qkv_status status, qkv_model *model, train_run *run) {
    cli_progress_clear(&run->progress);
    /* A signal can also interrupt the opening of a pipe, which then is a failure like others. */
    int interrupted = status == QKV_STOPPED || (status == QKV_IO && !run->steps && !model);
    if (interrupted && cli_signals_got()) return stopped(ctx, model, run);
    if (status == QKV_OK) return train_save(ctx, model, run);
    int code = cli_fail(ctx, status);
    if (status == QKV_NUMERIC && model) {
        cli_say("warning: the last good weights, of step %s or before, are saved", cli_count(run->step).s);
        train_save(ctx, model, run);
    }
    return code;
}

/* Is there a run to go on with? */
static int check_resume(const train_run *run) {
    struct stat st;
    if (!run->resume) return CLI_GO_ON;
    int there = !stat(run->resume, &st);
    if (run->values->resume && !there) {
        cli_say("there is no interrupted run to go on with: %s does not exist (it is written when steps are done); without --resume training begins",
                run->resume);
        return CLI_FAILED;
    }
    if (!run->values->resume && there)
        cli_say("note: %s is there from a run that was interrupted; --resume would go on with it, this one will replace it", run->resume);
    return CLI_GO_ON;
}

static int open_log(train_run *run) {
    if (!run->values->log) return CLI_GO_ON;
    run->log = fopen(run->values->log, run->values->resume ? "a" : "w");
    if (run->log) return CLI_GO_ON;
    cli_say("%s: %s", run->values->log, strerror(errno));
    return CLI_FAILED;
}

static int one_training(qkv_ctx *ctx, train_run *run) {
    const qkv_train_checkpoint checkpoint = {run->resume, run->values->checkpoint, run->values->resume};
    qkv_model *model = NULL;
    const qkv_train_callbacks callbacks = {train_on_event, run};
    qkv_status status = qkv_classify_train(ctx, run->options, run->train, run->dev, &checkpoint, &callbacks, &model);
    int code = finish(ctx, status, model, run);
    if (status && run->values->resume && !strncmp(qkv_message(ctx), run->resume, strlen(run->resume)))
        fprintf(stderr, "Without --resume training begins anew, and %s is replaced.\n", run->resume);
    qkv_model_free(model);
    return code;
}

static int trainings(qkv_ctx *ctx, train_run *run, const cli_args *args) {
    if (tunes(run->values)) return train_tune(ctx, run, args);
    if (!run->values->folds) return one_training(ctx, run);
    int code = train_folds(ctx, run);
    if (code != CLI_GO_ON) return code;
    if (!run->values->output) return CLI_DONE;
    fputc('\n', stderr);
    return one_training(ctx, run);
}

static int train(const cli_verb *verb, qkv_ctx *ctx, train_run *run, const cli_args *args) {
    look_at_peak(ctx, run);
    begin_phase(run, QKV_PHASE_TRAIN, 0);
    int code = check_resume(run);
    if (code == CLI_GO_ON) code = open_log(run);
    if (code != CLI_GO_ON) return code;
    char title[64];
    run->summary = json_object();
    json_object_set_new(run->summary, "verb", json_string(cli_verb_title(verb, title, sizeof title)));
    fprintf(stderr, "%-11s%s\n", "reading", !strcmp(run->train, "-") ? "standard input" : run->train);
    code = trainings(ctx, run, args);
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

/* What is freed goes back to the system at once: the C library would keep blocks of up to 32 MB, beyond what --memory plans. */
static void give_blocks_back(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
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
    if (code == CLI_GO_ON && values.output) code = cli_check_place(values.output, "the model"); /* not after an hour */
    if (code == CLI_GO_ON) {
        cli_signals_stoppable();
        give_blocks_back();
        code = train(verb, ctx, &run, &args);
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
        "--pretrain EPOCHS first teaches the encoder to tell hidden tokens of the texts, without labels. Ctrl-C during that leaves no model, "
        "but a run that --resume goes on with.\n\n"
        "--folds K deals the rows of TRAIN to K folds, trains K times without one of them, and scores the model on it; then, with -o, "
        "the model is trained on all rows.\n\n"
        "--autotune MINUTES trains again and again with other options and keeps the model that is best on the dev rows; whatever the "
        "command line sets stays. The command that trains it again is printed. Its score on the dev rows flatters it: test it on "
        "others. Ctrl-C ends the search, and the best so far is saved.\n\n"
        "An interrupted run goes on with the same command and --resume, to the same bits as if nothing had happened: where it "
        "stopped, or, after a crash, from the last of the checkpoints that are written every few minutes.",
    .examples = "train classify train.tsv dev.tsv -o news.model\n"
                "train classify reviews.csv -o reviews.model --label-column stars --text-column review\n"
                "train classify topics.jsonl -o topics.model --multi-label\n"
                "train classify train.tsv --folds 10\n"
                "train classify train.tsv dev.tsv -o news.model --autotune 30\n"
                "train classify train.tsv.gz -o news.model --size small --epochs 8 --log news.log",
    .options = options,
    .count = sizeof options / sizeof *options,
    .needs = needs,
    .struct_size = sizeof(train_values),
    .table = qkv_classify_options_table,
    .run = run_train,
};
