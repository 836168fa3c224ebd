/* The training for programs: a JSON line per step and evaluation in --log, and the summary that --json prints. */
#include "train.h"

#include <errno.h>
#include <math.h>

/* A step or evaluation of the pretraining says so, and so does one of a fold or a trial. */
static json_t *in_phase(const train_run *run, json_t *line, qkv_train_phase phase) {
    if (run->part) json_object_set_new(line, run->part, json_integer((json_int_t)run->part_number));
    if (phase == QKV_PHASE_PRETRAIN) json_object_set_new(line, "phase", json_string("pretraining"));
    return line;
}

void train_log_line(train_run *run, json_t *line) {
    if (!run->log) {
        json_decref(line);
        return;
    }
    cli_json_line(run->log, line, JSON_COMPACT);
    if (fflush(run->log) && !run->log_failed) {
        /* The training is worth more than its log. */
        run->log_failed = 1;
        cli_progress_clear(&run->progress);
        cli_say("warning: %s: %s; training goes on without it", run->values->log, strerror(errno));
    }
}

json_t *train_event_line(const char *event, json_t *rest) {
    json_t *line = json_pack("{s:s}", "event", event);
    json_object_update(line, rest);
    json_decref(rest);
    return line;
}

static json_t *step_line(const train_run *run, const qkv_train_step *s) {
    double peak = run->progress.peak > 0 && s->seconds > 0 ? s->flops / s->seconds / run->progress.peak : NAN;
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:b, s:I}", "event", "step", "step",
                     (json_int_t)s->step, "steps", (json_int_t)s->steps, "epoch", cli_json_real(s->epoch), "loss",
                     cli_json_real(s->loss), "gradient_norm", cli_json_real(s->gradient_norm), "lr", cli_json_real(s->lr), "tokens",
                     (json_int_t)s->tokens, "rows", (json_int_t)s->rows, "seconds", cli_json_real(s->seconds), "flops",
                     cli_json_real(s->flops), "share_of_peak", cli_json_real(peak), "skipped", s->skipped, "skipped_total",
                     (json_int_t)s->skipped_total);
}

static const char *accuracy_name(const train_run *run) { return run->options->multi_label ? "micro_f1" : "accuracy"; }

static json_t *evaluation_line(const train_run *run, const qkv_train_evaluation *e) {
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:b, s:b, s:o}", "event", "evaluation", "step", (json_int_t)e->step, "epoch",
                     cli_json_real(e->epoch), "loss", cli_json_real(e->loss), accuracy_name(run), cli_json_real(e->accuracy), "macro_f1",
                     cli_json_real(e->macro_f1), "best", e->best, "averaged", e->averaged, "seconds", cli_json_real(e->seconds));
}

static json_t *data_object(const qkv_train_data *d) {
    json_t *classes = json_array();
    for (int64_t i = 0; i < d->classes; i++) {
        const char *name = d->labels[i];
        json_array_append_new(classes, json_pack("{s:o, s:I}", "label", cli_json_text(name, (int64_t)strlen(name)), "rows",
                                                 (json_int_t)d->class_rows[i]));
    }
    return json_pack("{s:s, s:I, s:I, s:b, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "format", d->format,
                     "train_rows", (json_int_t)d->train_rows,
                     "dev_rows", (json_int_t)d->dev_rows, "held_out", d->held_out, "train_tokens", (json_int_t)d->train_tokens,
                     "classes", classes, "vocab", (json_int_t)d->vocab, "shortest", (json_int_t)d->shortest, "median",
                     (json_int_t)d->median, "longest", (json_int_t)d->longest, "cut_rows", (json_int_t)d->cut_rows, "cut_tokens",
                     (json_int_t)d->cut_tokens, "unseen_dev_rows", (json_int_t)d->unseen_dev_rows, "empty_rows",
                     (json_int_t)d->empty_rows, "repaired_rows", (json_int_t)d->repaired_rows, "unlabelled_rows",
                     (json_int_t)d->unlabelled_rows);
}

static json_t *plan_object(const qkv_train_plan *p) {
    return json_pack("{s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:b, s:s, s:I, s:I, s:o, s:I}", "network", p->network,
                     "parameters", (json_int_t)p->parameters, "embedding_parameters",
                     (json_int_t)p->embedding_parameters, "bytes", (json_int_t)p->bytes, "before_bytes", (json_int_t)p->before_bytes, "activation_bytes",
                     (json_int_t)p->activation_bytes, "steps", (json_int_t)p->steps, "batches_per_epoch",
                     (json_int_t)p->batches_per_epoch, "flops_per_step", cli_json_real(p->flops_per_step), "limit",
                     p->limit > 0 ? json_integer((json_int_t)p->limit) : json_null(), "recompute", p->recompute, "recompute_part",
                     cli_again_part(p->recompute_part), "recompute_every", (json_int_t)p->recompute_every, "ffn_chunk",
                     (json_int_t)p->ffn_chunk, "recompute_share", cli_json_real(p->recompute_share), "piece_tokens",
                     (json_int_t)p->piece_tokens);
}

static json_t *end_object(const train_run *run, const qkv_train_end *e) {
    return json_pack("{s:I, s:I, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "steps", (json_int_t)e->steps, "best_step",
                     (json_int_t)e->best_step, "stopped", e->stopped, "out_of_patience", e->out_of_patience, "averaged",
                     e->averaged, "seconds", cli_json_real(e->seconds), "tokens_per_second",
                     cli_json_real(e->tokens_per_second), "share_of_peak", cli_json_real(cli_progress_share(&run->progress)),
                     accuracy_name(run), cli_json_real(e->accuracy), "macro_f1", cli_json_real(e->macro_f1), "loss",
                     cli_json_real(e->loss), "rebuilt", e->rebuilt != 0 ? cli_json_real(e->rebuilt) : json_null());
}

/* Of the pretraining: in an object of its own. */
static void put(const train_run *run, qkv_train_phase phase, const char *key, json_t *value) {
    json_t *to = run->summary;
    if (run->part) {
        json_decref(value); /* the summary has what each came to */
        return;
    }
    if (phase == QKV_PHASE_PRETRAIN) {
        to = json_object_get(run->summary, "pretraining");
        if (!to) json_object_set_new(run->summary, "pretraining", to = json_object());
    }
    json_object_set_new(to, key, value);
}

static json_t *monitor_counts(const qkv_train_monitor *m) {
    json_t *words = json_array();
    for (int64_t i = 0; i < m->words; i++) json_array_append_new(words, json_string(m->word[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "looks", (json_int_t)m->looks, "uniform", (json_int_t)m->uniform, "saturated",
                     (json_int_t)m->saturated, "vanishing", (json_int_t)m->vanishing, "steps", (json_int_t)m->steps, "exploding",
                     (json_int_t)m->exploding, "nonfinite", (json_int_t)m->nonfinite, "words", words);
}

static json_t *by_head(const double *value, int64_t layers, int64_t heads) {
    json_t *all = json_array();
    for (int64_t l = 0; l < layers; l++) {
        json_t *layer = json_array();
        for (int64_t h = 0; h < heads; h++) json_array_append_new(layer, cli_json_real(value[l * heads + h]));
        json_array_append_new(all, layer);
    }
    return all;
}

static json_t *monitor_line(const qkv_train_monitor *m) {
    json_t *line = json_pack("{s:s, s:I, s:o, s:o}", "event", "monitor", "step", (json_int_t)m->step, "gradient_norm",
                             cli_json_real(m->gradient_norm), "median_norm", cli_json_real(m->median_norm));
    json_t *parts = json_object(), *counts = monitor_counts(m);
    if (m->looked) {
        json_object_set_new(line, "entropy", by_head(m->entropy, m->layers, m->heads));
        json_object_set_new(line, "score", by_head(m->score, m->layers, m->heads));
        for (int64_t i = 0; i < m->parts; i++)
            json_object_set_new(parts, m->part[i].name, json_pack("{s:o, s:o}", "gradient_norm", cli_json_real(m->part[i].gradient_norm),
                                                                  "update_ratio", cli_json_real(m->part[i].update_ratio)));
        json_object_set(line, "parts", parts);
    }
    json_object_update(line, counts);
    json_decref(parts);
    json_decref(counts);
    return line;
}

void train_record(train_run *run, const qkv_train_event *event) {
    switch (event->kind) {
    case QKV_TRAIN_DATA:
        if (!run->part) json_object_set_new(run->summary, "data", data_object(&event->u.data));
        break;
    case QKV_TRAIN_LINEAR:
        if (event->u.linear.runs < 0) break;
        put(run, event->phase, "linear",
            json_pack("{s:I, s:I, s:o}", "ngrams", (json_int_t)event->u.linear.ngrams, "runs", (json_int_t)event->u.linear.runs, "seconds",
                      cli_json_real(event->u.linear.seconds)));
        break;
    case QKV_TRAIN_PLAN:
        put(run, event->phase, "plan", plan_object(&event->u.plan));
        break;
    case QKV_TRAIN_STEP:
        train_log_line(run, in_phase(run, step_line(run, &event->u.step), event->phase));
        break;
    case QKV_TRAIN_EVALUATE:
        train_log_line(run, in_phase(run, evaluation_line(run, &event->u.evaluation), event->phase));
        break;
    case QKV_TRAIN_MONITOR:
        if (event->u.monitor.over) put(run, event->phase, "monitor", monitor_counts(&event->u.monitor));
        else train_log_line(run, in_phase(run, monitor_line(&event->u.monitor), event->phase));
        break;
    case QKV_TRAIN_END:
        put(run, event->phase, "result", end_object(run, &event->u.end));
        break;
    }
}
