/* What `qkv train` tells people while it works. */
#include "train.h"

#include <math.h>

static void row(const char *name) {
    fprintf(stderr, "%-11s", name);
}

static int by_rows(const void *a, const void *b) {
    const int64_t *x = a, *y = b; /* rows, index */
    if (x[0] != y[0]) return x[0] > y[0] ? -1 : 1;
    return x[1] < y[1] ? -1 : 1;
}

/* The classes with their counts, the largest first, wrapped; of many only the ends. */
static void report_classes(const qkv_train_data *d) {
    enum { ALL = 24, SOME = 16, WIDTH = 80, INDENT = 11 };
    int64_t *order = cli_alloc(sizeof *order * 2 * (size_t)(d->classes + 1));
    for (int64_t i = 0; i < d->classes; i++) {
        order[2 * i] = d->class_rows[i];
        order[2 * i + 1] = i;
    }
    qsort(order, (size_t)d->classes, 2 * sizeof *order, by_rows);
    row("classes");
    int64_t shown = d->classes <= ALL ? d->classes : SOME;
    char text[256], label[160];
    int column = INDENT + fprintf(stderr, "%s:", cli_count(d->classes).s);
    for (int64_t i = 0; i < shown; i++) {
        const char *name = d->labels[order[2 * i + 1]];
        int width = cli_printable(name, (int64_t)strlen(name), 40, label, sizeof label);
        int count = snprintf(text, sizeof text, "%s%s", cli_count(order[2 * i]).s, i + 1 < d->classes ? "," : "");
        if (column + 2 + width + count > WIDTH) {
            fprintf(stderr, "\n%*s", INDENT - 1, "");
            column = INDENT - 1;
        }
        fprintf(stderr, " %s %s", label, text);
        column += 2 + width + count;
    }
    fputc('\n', stderr);
    if (shown < d->classes) {
        const char *name = d->labels[order[2 * d->classes - 1]];
        cli_printable(name, (int64_t)strlen(name), 40, label, sizeof label);
        fprintf(stderr, "%*sand %s more, the smallest %s %s\n", INDENT, "", cli_count(d->classes - shown).s, label,
                cli_count(order[2 * d->classes - 2]).s);
    }
    free(order);
}

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : NAN;
}

static void report_data(const train_run *run, const qkv_train_data *d) {
    row("format");
    fprintf(stderr, "%s", d->format);
    if (d->dev_format[0] && strcmp(d->format, d->dev_format)) fprintf(stderr, "; DEV: %s", d->dev_format);
    fputc('\n', stderr);
    row("rows");
    fprintf(stderr, "%s to train on, %s to evaluate on", cli_count(d->train_rows).s, cli_count(d->dev_rows).s);
    if (d->held_out && d->dev_rows) fprintf(stderr, " (held out: 10 %% of the training file, as no DEV was given)");
    if (d->held_out && !d->dev_rows) fprintf(stderr, " (too few rows to hold any out; the last weights will be kept)");
    fputc('\n', stderr);
    report_classes(d);
    row("tokens");
    fprintf(stderr, "%s to train on; ", cli_count(d->train_tokens).s);
    if (d->shortest == d->longest) {
        fprintf(stderr, "every row has %s; ", cli_count(d->shortest).s);
    } else {
        fprintf(stderr, "a row has %s to %s, median %s; ", cli_count(d->shortest).s, cli_count(d->longest).s,
                cli_count(d->median).s);
    }
    fprintf(stderr, "vocabulary %s\n", cli_count(d->vocab).s);
    row("length");
    if (d->cut_rows) {
        fprintf(stderr, "the limit of %s cuts %s (%s) and drops %s\n", cli_of(run->options->max_length, "token").s,
                cli_of(d->cut_rows, "row").s, cli_percent(share(d->cut_rows, d->train_rows)).s, cli_of(d->cut_tokens, "token").s);
    } else {
        fprintf(stderr, "the limit of %s cuts nothing\n", cli_of(run->options->max_length, "token").s);
    }
    if (d->dev_cut_rows) {
        row("note");
        fprintf(stderr, "of the rows to evaluate on it cuts %s\n", cli_of(d->dev_cut_rows, "row").s);
    }
    if (d->unlabelled_rows) {
        row("note");
        fprintf(stderr, "%s without a label\n", cli_of(d->unlabelled_rows, "row").s);
    }
    if (d->empty_rows) {
        row("note");
        fprintf(stderr, "%s without text\n", cli_of(d->empty_rows, "row").s);
    }
    if (d->repaired_rows) {
        row("note");
        fprintf(stderr, "%s with NUL or bytes that are not UTF-8, %s\n", cli_of(d->repaired_rows, "row").s,
                run->options->normalize ? "read as U+FFFD" : "used as they are");
    }
    if (d->pretrain_rows) {
        row("pretrain");
        fprintf(stderr, "on %s, %s", cli_of(d->pretrain_rows, "text").s, cli_of(d->pretrain_tokens, "token").s);
        if (d->pretrain_format[0]) fprintf(stderr, " (%s)", d->pretrain_format);
        if (d->pretrain_cut_rows) fprintf(stderr, "; the limit cuts %s", cli_of(d->pretrain_cut_rows, "text").s);
        fputc('\n', stderr);
    }
    if (d->resumed_step) {
        row("resuming");
        fprintf(stderr, "after step %s%s\n", cli_count(d->resumed_step).s, d->resumed_phase == QKV_PHASE_PRETRAIN ? " of the pretraining" : "");
    }
    /* Labels of DEV that the training rows do not have: the library has warned, with their names. */
}

static void report_linear(const qkv_train_linear *l) {
    row("linear");
    if (l->runs < 0) {
        fprintf(stderr, "learning from runs of up to %s\n", cli_of(l->ngrams, "word").s);
        return;
    }
    fprintf(stderr, "%s of up to %s, learned in %s\n", cli_of(l->runs, "run").s, cli_of(l->ngrams, "word").s, cli_duration(l->seconds).s);
}

/* What is computed again, and what that costs. */
static void report_again(const qkv_train_plan *p) {
    cli_again(stderr, "; ", p->recompute_part, p->recompute_every, p->ffn_chunk);
    if (p->recompute) fprintf(stderr, " (%.0f %% more operations)", 100 * p->recompute_share);
}

static void report_plan(const train_run *run, const qkv_train_plan *p) {
    row("model");
    fprintf(stderr, "%s\n", p->network);
    row("parameters");
    fprintf(stderr, "%s, %s of them embeddings\n", cli_count(p->parameters).s, cli_count(p->embedding_parameters).s);
    row("memory");
    fprintf(stderr, "%s planned, %s of it activations", cli_bytes((double)p->bytes).s, cli_bytes((double)p->activation_bytes).s);
    if (p->piece_tokens == 1) fprintf(stderr, "; batches row by row");
    if (p->piece_tokens > 1) fprintf(stderr, "; batches in pieces of %s", cli_of(p->piece_tokens, "token").s);
    report_again(p);
    if (p->before_bytes > p->bytes)
        fprintf(stderr, "; reading and %s took %s", run->options->ngrams ? "the linear model" : "cutting into tokens",
                cli_bytes((double)p->before_bytes).s);
    fputc('\n', stderr);
    row("steps");
    fprintf(stderr, "%s, %s an epoch; %s each (a multiply-add counts as 2)\n", cli_count(p->steps).s,
            cli_count(p->batches_per_epoch).s, cli_si(p->flops_per_step, "FLOP").s);
    row("machine");
    fprintf(stderr, "%s, %d thread%s, %s %s\n", run->machine.isa, run->machine.threads, run->machine.threads == 1 ? "" : "s",
            train_peak_name(run), cli_si(1e9 * train_peak(run), "FLOP/s").s);
    fputc('\n', stderr);
}

/* ---- pretraining: its loss is that of a hidden token, e^loss its perplexity ---- */

static void report_pretrain_plan(const qkv_train_plan *p) {
    row("pretrain");
    fprintf(stderr, "%s, %s an epoch; %s each; %s planned\n", cli_of(p->steps, "step").s, cli_count(p->batches_per_epoch).s,
            cli_si(p->flops_per_step, "FLOP").s, cli_bytes((double)p->bytes).s);
}

static void report_pretrain_evaluation(const qkv_train_evaluation *e) {
    fprintf(stderr, "pretraining, epoch %6.2f  step %9s  dev loss %7s  perplexity %s%s\n", e->epoch, cli_count(e->step).s,
            cli_loss(e->loss).s, cli_short(exp(e->loss)).s, e->best ? "  best" : "");
}

static void report_pretrain_end(const train_run *run, const qkv_train_end *e) {
    if (e->stopped) return;
    row("pretrained");
    fprintf(stderr, "%s in %s, %s tokens/s", cli_of(e->steps, "step").s, cli_duration(e->seconds).s,
            cli_count((int64_t)e->tokens_per_second).s);
    double peak = cli_progress_share(&run->progress);
    if (isfinite(peak)) fprintf(stderr, ", %.0f %% of %s", 100 * peak, train_peak_name(run));
    if (!isnan(e->loss))
        fprintf(stderr, "; kept step %s: dev loss %s, perplexity %s", cli_count(e->best_step).s, cli_loss(e->loss).s,
                cli_short(exp(e->loss)).s);
    fputs("\n\n", stderr);
}

static const char *accuracy_name(const train_run *run) { return run->options->multi_label ? "micro F1" : "accuracy"; }

/* Before the first step there is only that, unless there is none. */
static int linear_alone(const train_run *run, int64_t step) { return step == 0 && run->options->ngrams > 0; }

static void report_evaluation(const train_run *run, const qkv_train_evaluation *e) {
    char when[64];
    if (e->averaged) snprintf(when, sizeof when, "mean of the last evaluations");
    else snprintf(when, sizeof when, "epoch %6.2f  step %9s", e->epoch, cli_count(e->step).s);
    fprintf(stderr, "%s  dev loss %7s  %s %8s  macro F1 %8s%s%s\n", when, cli_loss(e->loss).s, accuracy_name(run),
            cli_percent(e->accuracy).s, cli_percent(e->macro_f1).s, e->best ? "  best" : "",
            linear_alone(run, e->step) ? "  (the linear model alone)" : "");
}

/* What is wrong, in words; at the end also that nothing is. */
static void report_monitor(train_run *run, const qkv_train_monitor *m) {
    if (m->words > 0) cli_progress_clear(&run->progress);
    for (int64_t i = 0; i < m->words; i++) {
        row(m->over ? "monitor" : "warning");
        fprintf(stderr, "%s\n", m->word[i]);
    }
}

static void report_rebuilt(const qkv_train_end *e) {
    if (e->rebuilt == 0) return;
    row("reversible");
    fprintf(stderr, "rows were rebuilt to within %.1e of the largest number in them\n", e->rebuilt);
    if (!(e->rebuilt > 1e-3)) return;
    row("warning");
    fprintf(stderr, "gradients are off by about as much; fewer layers, a lower rate and --norm-place pre rebuild closer\n");
}

void train_report(train_run *run, const qkv_train_event *event) {
    if (event->kind == QKV_TRAIN_MONITOR) {
        report_monitor(run, &event->u.monitor);
        return;
    }
    if (event->kind == QKV_TRAIN_STEP) {
        cli_progress_step(&run->progress, &event->u.step);
        return;
    }
    cli_progress_clear(&run->progress);
    if (event->phase == QKV_PHASE_PRETRAIN) {
        if (event->kind == QKV_TRAIN_PLAN) report_pretrain_plan(&event->u.plan);
        if (event->kind == QKV_TRAIN_EVALUATE) report_pretrain_evaluation(&event->u.evaluation);
        if (event->kind == QKV_TRAIN_END) report_pretrain_end(run, &event->u.end);
        return;
    }
    if (event->kind == QKV_TRAIN_DATA) report_data(run, &event->u.data);
    if (event->kind == QKV_TRAIN_LINEAR) report_linear(&event->u.linear);
    if (event->kind == QKV_TRAIN_PLAN) report_plan(run, &event->u.plan);
    if (event->kind == QKV_TRAIN_EVALUATE) report_evaluation(run, &event->u.evaluation);
    if (event->kind == QKV_TRAIN_END) report_rebuilt(&event->u.end);
}

/* A path as a person can paste it into a shell. */
void train_shell_word(FILE *to, const char *word) {
    int easy = word[0] != 0;
    for (const char *c = word; *c; c++)
        easy &= strchr("./_-+=:,@%", *c) || (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z');
    if (easy) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (const char *c = word; *c; c++) fputs(*c == '\'' ? "'\\''" : (char[2]){*c, 0}, to);
    fputc('\'', to);
}

static void command(const char *verb, const char *model, const char *rest, const char *what) {
    char head[32];
    snprintf(head, sizeof head, "  qkv %s ", verb);
    fputs(head, stderr);
    train_shell_word(stderr, model);
    fprintf(stderr, "%s%*s    # %s\n", rest, (int)(strlen("  qkv predict ") + 5 - strlen(head) - strlen(rest)), "", what);
}

/* What labels need to be given. */
static void report_thresholds(const qkv_model *model) {
    double least = 1, most = 0;
    for (int64_t i = 0; i < qkv_model_labels(model); i++) {
        double t = qkv_model_threshold(model, i);
        if (t < least) least = t;
        if (t > most) most = t;
    }
    row("thresholds");
    if (least == most)
        fprintf(stderr, "%s for every label\n", cli_short(least).s);
    else
        fprintf(stderr, "%s to %s, one for each label\n", cli_short(least).s, cli_short(most).s);
}

static int ema(const train_run *run) { return run->options->average == 1; }

void train_report_end(const train_run *run, const qkv_model *trained, double file_bytes) {
    const char *model = run->values->output;
    if (run->ended) {
        const qkv_train_end *e = &run->end;
        fputc('\n', stderr);
        row(e->stopped ? "stopped" : "done");
        fprintf(stderr, "%s in %s, %s tokens/s", cli_of(e->steps, "step").s, cli_duration(e->seconds).s,
                cli_count((int64_t)e->tokens_per_second).s);
        double peak = cli_progress_share(&run->progress);
        if (isfinite(peak)) fprintf(stderr, ", %.0f %% of %s", 100 * peak, train_peak_name(run));
        fputc('\n', stderr);
        if (e->out_of_patience) {
            row("ended");
            fprintf(stderr, "early, by --patience %s: the last evaluations brought nothing better\n", cli_count(run->options->patience).s);
        }
        row("kept");
        if (e->averaged) fputs(ema(run) ? "the moving average, " : "the mean of the last evaluations, ", stderr);
        if (linear_alone(run, e->best_step) && !isnan(e->accuracy))
            fputs("the linear model alone, which no epoch of the encoder bettered (qkv embed and attend show an encoder without training)\n"
                  "           ", stderr);
        if (isnan(e->accuracy)) fprintf(stderr, "the weights of step %s; no dev rows to choose by\n", cli_count(e->best_step).s);
        else fprintf(stderr, "step %s: dev %s %s, macro F1 %s, loss %s\n", cli_count(e->best_step).s, accuracy_name(run),
                cli_percent(e->accuracy).s, cli_percent(e->macro_f1).s, cli_loss(e->loss).s);
    }
    if (qkv_model_multi_label(trained)) report_thresholds(trained);
    row("model");
    train_shell_word(stderr, model);
    fprintf(stderr, " (%s)\n\n", cli_bytes(file_bytes).s);
    command("test", model, " FILE", "scores it on rows label TAB text");
    command("predict", model, " FILE", "a label for each line; no FILE: standard input");
    command("info", model, "", "what is in it");
}
