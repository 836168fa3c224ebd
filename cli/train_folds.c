/* qkv train classify --folds */
#include "train.h"

#include <errno.h>
#include <signal.h>

static const char *accuracy_name(const train_run *run) {
    return run->options->multi_label ? "micro F1" : "accuracy";
}

/* With --json standard output is for programs. */
static FILE *table_to(const train_run *run) {
    return run->values->json ? stderr : stdout;
}

static void print_scores(FILE *to, const qkv_fold_score *s, const char *time) {
    fprintf(to, "%10s  %10s  %8s  %10s\n", cli_percent(s->accuracy).s, cli_percent(s->macro_f1).s, cli_loss(s->loss).s, time);
}

static json_t *scores_json(const train_run *run, const qkv_fold_score *s) {
    return json_pack("{s:o, s:o, s:o, s:o}", run->options->multi_label ? "micro_f1" : "accuracy", cli_json_real(s->accuracy),
                     "macro_f1", cli_json_real(s->macro_f1), "loss", cli_json_real(s->loss), "seconds", cli_json_real(s->seconds));
}

static json_t *fold_json(const train_run *run, int64_t fold, const qkv_fold_score *s) {
    json_t *line =
        json_pack("{s:I, s:I, s:I, s:I, s:I}", "fold", (json_int_t)fold, "train_rows", (json_int_t)s->train_rows, "dev_rows",
                  (json_int_t)s->dev_rows, "rows", (json_int_t)s->rows, "unseen_rows", (json_int_t)s->unseen_rows);
    json_t *scores = scores_json(run, s);
    json_object_update(line, scores);
    json_decref(scores);
    return line;
}

static void on_scored(void *user, int64_t fold, const qkv_fold_score *s) {
    train_run *run = user;
    FILE *to = table_to(run);
    cli_progress_clear(&run->progress);
    if (fold == 0)
        fprintf(to, "%-11s%10s  %8s  %8s  %10s  %10s  %8s  %10s\n", "fold", "train", "dev", "scored", accuracy_name(run),
                "macro F1", "loss", "time");
    char name[32];
    snprintf(name, sizeof name, "%lld of %lld", (long long)fold + 1, (long long)run->values->folds);
    fprintf(to, "%-11s%10s  %8s  %8s  ", name, cli_count(s->train_rows).s, cli_count(s->dev_rows).s, cli_count(s->rows).s);
    print_scores(to, s, cli_duration(s->seconds).s);
    if (fflush(to) && !run->output_error) run->output_error = errno;
    /* Of scores alone nothing is left where they cannot be written. */
    if (run->output_error && !run->values->output) cli_signals_ask(SIGPIPE);
    json_array_append_new(json_object_get(json_object_get(run->summary, "cross_validation"), "folds"), fold_json(run, fold + 1, s));
    train_log_line(run, train_event_line("fold", fold_json(run, fold + 1, s)));
    train_part(run, "fold", fold + 2, run->values->folds);
}

/* A deviation in the units of what it is of. */
static void print_end(const train_run *run, const qkv_folds *f) {
    FILE *to = table_to(run);
    if (f->done == 0) return;
    fprintf(to, "%-43s", "mean");
    print_scores(to, &f->mean, cli_duration(f->mean.seconds).s);
    if (f->done > 1) {
        fprintf(to, "%-43s", "deviation");
        print_scores(to, &f->deviation, cli_duration(f->deviation.seconds).s);
    }
    fflush(to);
}

int train_folds(qkv_ctx *ctx, train_run *run) {
    const qkv_train_callbacks training = {train_on_event, run};
    const qkv_folds_callbacks callbacks = {&training, on_scored, run};
    qkv_folds *f = cli_alloc(sizeof *f);
    json_t *all = json_object();
    json_object_set_new(all, "folds", json_array());
    json_object_set_new(run->summary, "cross_validation", all);
    train_part(run, "fold", 1, run->values->folds);
    run->progress.shown = 1e-9; /* long ago: the first line comes at once */
    qkv_status status = qkv_classify_folds(ctx, run->options, run->train, run->dev, run->values->folds, &callbacks, f);
    run->part = NULL;
    cli_progress_clear(&run->progress);
    print_end(run, f);
    json_object_set_new(all, "mean", scores_json(run, &f->mean));
    json_object_set_new(all, "deviation", scores_json(run, &f->deviation));
    const int64_t done = f->done;
    free(f);
    if (cli_signals_got() == SIGPIPE) return cli_output_failed(run->output_error);
    if (status == QKV_OK) return CLI_GO_ON;
    if (!cli_signals_got() || (status != QKV_STOPPED && status != QKV_IO)) return cli_fail(ctx, status);
    fprintf(stderr, "\nStopped by %s after %s of %s folds%s.\n", train_signal_name(cli_signals_got()), cli_count(done).s,
            cli_count(run->values->folds).s, run->values->output ? "; no model was written" : "");
    return CLI_SIGNAL + cli_signals_got();
}
