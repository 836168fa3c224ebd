/* qkv train classify --autotune */
#include "train.h"

typedef struct tune {
    train_run *run;
    const qkv_classify_options *start;
    json_t *trials;
    int64_t done, counted;
    qkv_autotune_trial first, ahead, best_trial; /* ahead: the highest score, though it may be chance */
} tune;

/* Calls `each` for every option that differs from those in `other`, with its value. */
static void differences(const qkv_classify_options *o, const qkv_classify_options *other,
                        void (*each)(void *user, const char *name, const char *value), void *user) {
    const qkv_option_table *table = qkv_classify_options_table();
    for (size_t i = 0; i < table->count; i++) {
        char now[2 * QKV_OPTION_TEXT_SIZE], then[2 * QKV_OPTION_TEXT_SIZE];
        qkv_options_text(&table->options[i], o, now, sizeof now);
        qkv_options_text(&table->options[i], other, then, sizeof then);
        if (strcmp(now, then) != 0) each(user, table->options[i].name, now);
    }
}

/* ---- a line a trial ---- */

static void write_option(void *user, const char *name, const char *value) {
    FILE *to = user;
    fprintf(to, " --%s%c", name, strncmp(value, "--", 2) ? ' ' : '=');
    train_shell_word(to, value);
}

static void put_option(void *user, const char *name, const char *value) {
    json_object_set_new(user, name, cli_json_text(value, (int64_t)strlen(value)));
}

static const char *accuracy_name(const train_run *run) {
    return run->options->multi_label ? "micro F1" : "accuracy";
}

static void say_trial(const tune *t, const qkv_autotune_trial *trial) {
    fprintf(stderr, "trial %4s  ", cli_count(trial->trial).s);
    if (trial->status == QKV_OK)
        fprintf(stderr, "%s %8s  macro F1 %8s  loss %7s  %8s%s", accuracy_name(t->run), cli_percent(trial->accuracy).s,
                cli_percent(trial->macro_f1).s, cli_loss(trial->loss).s, cli_duration(trial->seconds).s,
                trial->best ? "  kept" : "      ");
    else
        fprintf(stderr, "does not count: %s", trial->why);
    fputs(trial->trial == 1 ? "  as given" : " ", stderr);
    differences(trial->options, t->start, write_option, stderr);
    fputc('\n', stderr);
}

static json_t *trial_json(const tune *t, const qkv_autotune_trial *trial) {
    json_t *changed = json_object();
    differences(trial->options, t->start, put_option, changed);
    return json_pack("{s:I, s:o, s:b, s:s, s:o, s:o, s:o, s:b, s:o}", "trial", (json_int_t)trial->trial, "options", changed,
                     "counts", trial->status == QKV_OK, "why", trial->why, t->start->multi_label ? "micro_f1" : "accuracy",
                     cli_json_real(trial->accuracy), "macro_f1", cli_json_real(trial->macro_f1), "loss", cli_json_real(trial->loss),
                     "best", trial->best, "seconds", cli_json_real(trial->seconds));
}

static void on_begun(void *user, int64_t trial, const qkv_classify_options *options) {
    tune *t = user;
    train_part(t->run, "trial", trial, t->run->values->trials);
    t->run->options = options;
}

static double metric(const tune *t, const qkv_autotune_trial *trial) {
    const int by = t->start->metric;
    return by == 0 ? trial->accuracy : by == 1 ? trial->macro_f1 : -trial->loss;
}

static void on_done(void *user, const qkv_autotune_trial *trial) {
    tune *t = user;
    cli_progress_clear(&t->run->progress);
    t->done++;
    t->counted += trial->status == QKV_OK;
    if (trial->trial == 1) t->first = *trial;
    if (trial->status == QKV_OK && (t->ahead.trial == 0 || metric(t, trial) > metric(t, &t->ahead))) t->ahead = *trial;
    if (trial->best) t->best_trial = *trial;
    if (trial->trial == 1) fputc('\n', stderr); /* below the rows */
    say_trial(t, trial);
    json_array_append_new(t->trials, trial_json(t, trial));
    train_log_line(t->run, train_event_line("trial", trial_json(t, trial)));
}

/* ---- the end ---- */

/* What trains the same model alone. */
static char *command(const train_run *run) {
    char *text = NULL;
    size_t size = 0;
    qkv_classify_options defaults;
    qkv_options_default(qkv_classify_options_table(), &defaults);
    FILE *to = open_memstream(&text, &size);
    if (!to) return NULL;
    fputs("qkv train classify ", to);
    train_shell_word(to, run->train);
    if (run->dev) {
        fputc(' ', to);
        train_shell_word(to, run->dev);
    }
    fputs(" -o ", to);
    train_shell_word(to, run->values->output);
    differences(run->options, &defaults, write_option, to);
    if (run->options->pretrain_text) write_option(to, "pretrain-text", run->options->pretrain_text);
    if (fclose(to)) {
        free(text);
        return NULL;
    }
    return text;
}

static void say_scores(const tune *t, const char *name, const qkv_autotune_trial *trial) {
    fprintf(stderr, "%-11strial %s: dev %s %s, macro F1 %s, loss %s", name, cli_count(trial->trial).s, accuracy_name(t->run),
            cli_percent(trial->accuracy).s, cli_percent(trial->macro_f1).s, cli_loss(trial->loss).s);
}

/* On few rows a better share is few rows. */
static void say_gain(const tune *t) {
    if (t->best_trial.trial > 1 && t->first.status == QKV_OK) {
        const double more = (t->best_trial.accuracy - t->first.accuracy) * (double)t->run->dev_rows;
        say_scores(t, "as given", &t->first);
        if (!t->start->multi_label && more > 0.5)
            fprintf(stderr, ": of %s %s fewer right", cli_of(t->run->dev_rows, "row").s, cli_count((int64_t)(more + 0.5)).s);
        fputc('\n', stderr);
    } else if (t->best_trial.trial == 1 && t->ahead.trial > 1) {
        say_scores(t, "not kept", &t->ahead);
        fprintf(stderr, "; on %s that may be chance\n", cli_of(t->run->dev_rows, "row").s);
    }
}

static void say_end(const tune *t, json_t *all) {
    const qkv_autotune_trial *b = &t->best_trial;
    fprintf(stderr, "\n%-11s%s, %s of them counted\n", "searched", cli_of(t->done, "trial").s, cli_count(t->counted).s);
    if (b->trial == 0) return;
    say_scores(t, "kept", b);
    fputs(b->trial == 1 ? ", as given\n" : "\n", stderr);
    say_gain(t);
    json_object_set_new(all, "best", json_integer((json_int_t)b->trial));
    char *again = command(t->run);
    if (!again) return;
    fprintf(stderr, "%-11s%s\n", "the same", again);
    json_object_set_new(all, "command", cli_json_text(again, (int64_t)strlen(again)));
    free(again);
}

static int finish(qkv_ctx *ctx, qkv_status status, qkv_model *model, tune *t, json_t *all) {
    const int got = cli_signals_got(), stopped = got && (status == QKV_STOPPED || (status == QKV_IO && t->done == 0));
    if (!stopped && status != QKV_OK) return cli_fail(ctx, status);
    if (!model) {
        cli_say("stopped by %s; no trial has come far enough, and no model was written", train_signal_name(got));
        return CLI_SIGNAL + got;
    }
    say_end(t, all);
    const int code = train_save(ctx, model, t->run);
    if (!stopped || code != CLI_DONE) return code;
    fprintf(stderr, "\nStopped by %s in trial %s; the best model so far was saved and can be used.\n", train_signal_name(got),
            cli_count(t->run->part_number).s);
    return CLI_SIGNAL + got;
}

/* What is given, and what that leaves without effect. --size says how large the network is. */
static int64_t fixed_options(const train_run *run, const cli_args *args, const char **fixed) {
    const qkv_option_table *table = qkv_classify_options_table();
    int64_t n = 0;
    for (int i = 0; i < args->setting_count; i++) fixed[n++] = args->settings[i].name;
    for (size_t i = 0; i < table->count; i++)
        if (!cli_has_effect(&cli_train_classify, run->values, run->options, &table->options[i])) fixed[n++] = table->options[i].name;
    if (!run->values->size) return n;
    fixed[n++] = "layers";
    fixed[n++] = "dim";
    fixed[n++] = "heads";
    return n;
}

int train_tune(qkv_ctx *ctx, train_run *run, const cli_args *args) {
    const qkv_classify_options *given = run->options, start = *given;
    qkv_classify_options best;
    tune t = {.run = run, .start = &start, .trials = json_array()};
    const char **fixed = cli_alloc(sizeof *fixed * ((size_t)args->setting_count + qkv_classify_options_table()->count + 3));
    const qkv_autotune_options how = {run->values->autotune, run->values->trials, fixed, fixed_options(run, args, fixed)};
    const qkv_train_callbacks training = {train_on_event, run};
    const qkv_autotune_callbacks callbacks = {&training, on_begun, on_done, &t};
    json_t *all = json_object();
    json_object_set_new(all, "trials", t.trials);
    json_object_set_new(run->summary, "autotune", all);
    qkv_model *model = NULL;
    qkv_status status = qkv_classify_autotune(ctx, &start, &how, run->train, run->dev, &callbacks, &best, &model);
    run->options = model ? &best : &start;
    run->part = NULL;
    cli_progress_clear(&run->progress);
    int code = finish(ctx, status, model, &t, all);
    run->options = given;
    qkv_model_free(model);
    free(fixed);
    return code;
}
