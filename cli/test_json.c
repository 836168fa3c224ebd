/* The report of one model as JSON. */
#include "test.h"

#include <math.h>

static json_t *text(const char *s) {
    return cli_json_text(s, (int64_t)strlen(s));
}

json_t *test_interval_json(qkv_interval i) {
    return isnan(i.low) ? json_null() : json_pack("[o, o]", cli_json_real(i.low), cli_json_real(i.high));
}

static json_t *intervals(const qkv_classify_report *r) {
    if (!r->resamples) return json_null();
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)r->seed);
    return json_pack("{s:f, s:I, s:s, s:o, s:o, s:o, s:o}", "level", 0.95, "resamples", (json_int_t)r->resamples, "seed", seed,
                     "accuracy", test_interval_json(r->accuracy_interval), "macro_f1", test_interval_json(r->macro_f1_interval),
                     "micro_f1", test_interval_json(r->micro_f1_interval), "weighted_f1",
                     test_interval_json(r->weighted_f1_interval));
}

static json_t *calibration(const qkv_classify_report *r) {
    json_t *bins = json_array();
    for (int64_t i = 0; i < r->bins; i++) {
        const qkv_reliability *b = &r->reliability[i];
        json_array_append_new(bins, json_pack("{s:o, s:o, s:I, s:o, s:o}", "from", cli_json_real(b->from), "to",
                                              cli_json_real(b->to), "rows", (json_int_t)b->rows, "confidence",
                                              cli_json_real(b->confidence), "accuracy", cli_json_real(b->accuracy)));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "of", r->multi_label ? "decisions" : "rows", "ece", cli_json_real(r->ece),
                     "mce", cli_json_real(r->mce), "brier", cli_json_real(r->brier), "confidence", cli_json_real(r->confidence),
                     "bins", bins);
}

static json_t *confusion(const qkv_model *model, const qkv_classify_report *r) {
    json_t *pairs = json_array();
    for (int64_t i = 0; i < r->confusions; i++) {
        const qkv_confusion *c = &r->confusion[i];
        json_array_append_new(pairs, json_pack("{s:o, s:o, s:I}", "gold", text(test_label(model, r, c->gold)), "predicted",
                                               text(test_label(model, r, c->predicted)), "rows", (json_int_t)c->rows));
    }
    return pairs;
}

static json_t *multi(const qkv_classify_report *r) {
    json_t *ranks = json_array();
    for (int64_t i = 0; i < r->ranks; i++) {
        const qkv_rank_score *k = &r->by_rank[i];
        json_array_append_new(ranks, json_pack("{s:I, s:o, s:o}", "k", (json_int_t)k->k, "precision", cli_json_real(k->precision),
                                               "recall", cli_json_real(k->recall)));
    }
    return json_pack("{s:b, s:o, s:o, s:o, s:I}", "multi_label", 1, "micro_precision", cli_json_real(r->micro_precision),
                     "micro_recall", cli_json_real(r->micro_recall), "at_k", ranks, "unlabelled_rows",
                     (json_int_t)r->unlabelled_rows);
}

static json_t *classes(const qkv_model *model, const qkv_classify_report *r) {
    json_t *all = json_array();
    for (int64_t i = 0; i < r->classes; i++) {
        const qkv_class_score *s = &r->scores[i];
        json_array_append_new(all,
                              json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "label", text(qkv_model_label(model, i)), "precision",
                                        cli_json_real(s->precision), "recall", cli_json_real(s->recall), "f1", cli_json_real(s->f1),
                                        "rows", (json_int_t)s->support, "predicted", (json_int_t)s->predicted));
    }
    return all;
}

static json_t *lengths(const qkv_classify_report *r) {
    json_t *all = json_array();
    for (int64_t i = 0; i < r->lengths; i++) {
        const qkv_length_score *l = &r->by_length[i];
        json_t *to = l->to < 0 ? json_null() : json_integer(l->to);
        json_array_append_new(all, json_pack("{s:I, s:o, s:I, s:o}", "from", (json_int_t)l->from, "to", to, "rows",
                                             (json_int_t)l->rows, "accuracy", l->rows ? cli_json_real(l->accuracy) : json_null()));
    }
    return all;
}

static json_t *unseen(const qkv_classify_report *r) {
    json_t *all = json_array();
    for (int64_t i = 0; i < r->unseen; i++)
        json_array_append_new(
            all, json_pack("{s:o, s:I}", "label", text(r->unseen_labels[i].label), "rows", (json_int_t)r->unseen_labels[i].rows));
    return all;
}

json_t *test_json(const qkv_model *model, const qkv_classify_report *r) {
    json_t *report = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "rows", (json_int_t)r->rows, "accuracy",
                               cli_json_real(r->accuracy), "macro_f1", cli_json_real(r->macro_f1), "micro_f1",
                               cli_json_real(r->micro_f1), "weighted_f1", cli_json_real(r->weighted_f1), "loss",
                               cli_json_real(r->loss), "errors", (json_int_t)r->errors, "intervals", intervals(r));
    json_object_set_new(report, "classes", classes(model, r));
    json_object_set_new(report, "by_length", lengths(r));
    json_object_set_new(report, "calibration", calibration(r));
    if (!r->multi_label) json_object_set_new(report, "confusion", confusion(model, r));
    json_object_set_new(report, "unseen_labels", unseen(r));
    json_object_set_new(report, "cut_rows", json_integer(r->cut_rows));
    json_object_set_new(report, "seconds", cli_json_real(r->seconds));
    json_object_set_new(report, "cut_tokens", json_integer(r->cut_tokens));
    json_object_set_new(report, "empty_rows", json_integer(r->empty_rows));
    json_object_set_new(report, "repaired_rows", json_integer(r->repaired_rows));
    json_object_set_new(report, "format", json_string(r->format));
    if (r->multi_label) json_object_update_new(report, multi(r));
    return report;
}
