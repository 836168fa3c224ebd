/* Two models on the same rows: what differs, and whether that can be told from chance. */
#include "test.h"

#include <math.h>

/* The level that all sentences speak of. */
static const double level = 0.05;

typedef struct named_pair {
    const char *name, *key;
    const qkv_score_pair *pair;
} named_pair;

enum { PAIRS = 4 };

static void list_pairs(const test_side sides[2], const qkv_comparison *c, named_pair list[PAIRS]) {
    const int multi = sides[0].report->multi_label;
    list[0] = (named_pair){multi ? "exact" : "accuracy", "accuracy", &c->accuracy};
    list[1] = (named_pair){"macro F1", "macro_f1", &c->macro_f1};
    list[2] = (named_pair){"micro F1", "micro_f1", &c->micro_f1};
    list[3] = (named_pair){"weighted F1", "weighted_f1", &c->weighted_f1};
}

/* ---- for people ---- */

static cli_text p_value(double p) {
    cli_text t;
    if (isnan(p))
        snprintf(t.s, sizeof t.s, "-");
    else if (p < 0.0001)
        snprintf(t.s, sizeof t.s, "%.1e", p);
    else
        snprintf(t.s, sizeof t.s, "%.4f", p);
    return t;
}

static void with_interval(double score, qkv_interval i, const char *format, const char *both, int width) {
    char text[80];
    int used = snprintf(text, sizeof text, format, 100 * score);
    if (!isnan(i.low)) snprintf(text + used, sizeof text - (size_t)used, both, 100 * i.low, 100 * i.high);
    printf("  %-*s", width, text);
}

static void print_pair(const named_pair *n) {
    const qkv_score_pair *s = n->pair;
    printf("%-12s", n->name);
    with_interval(s->a, s->a_interval, "%.2f %%", " (%.2f to %.2f)", 26);
    with_interval(s->b, s->b_interval, "%.2f %%", " (%.2f to %.2f)", 26);
    with_interval(s->difference, s->interval, "%+.2f", " (%+.2f to %+.2f)", 24);
    printf("  %s\n", p_value(s->p).s);
}

static void verdict(const char *name, double difference, double p, const char *test) {
    if (isnan(p)) return;
    if (difference == 0) {
        printf("%s: A and B are equal.\n", name);
        return;
    }
    printf("%s: %s is better by %.2f points; the difference is %sdistinguishable from chance at %.0f %% (%s, p = %s).\n", name,
           difference > 0 ? "B" : "A", 100 * fabs(difference), p <= level ? "" : "not ", 100 * level, test, p_value(p).s);
}

static void print_side(const char *name, const test_side *side) {
    char text[512];
    cli_printable(side->path, (int64_t)strlen(side->path), 0, text, sizeof text);
    printf("%s  %s: %s, loss %s, %s\n", name, text, cli_of(side->report->classes, "class").s, cli_loss(side->report->loss).s,
           cli_duration(side->report->seconds).s);
}

static int has_notes(const qkv_classify_report *r) {
    return r->cut_rows || r->empty_rows || r->repaired_rows || r->unlabelled_rows || r->unseen;
}

void test_print_comparison(const test_side sides[2], const qkv_comparison *c) {
    named_pair list[PAIRS];
    list_pairs(sides, c, list);
    printf("%s\n", cli_of(c->rows, "row").s);
    print_side("A", &sides[0]);
    print_side("B", &sides[1]);
    printf("\n%-12s  %-26s  %-26s  %-24s  %s\n", "", "A", "B", "B - A", c->resamples ? "p" : "");
    for (int i = 0; i < PAIRS; i++) print_pair(&list[i]);
    if (c->resamples)
        printf("\nIn brackets: 95 %% intervals, by %s of the rows, the same for both.\n", cli_of(c->resamples, "resample").s);
    printf("\nrows that are right: both %s, only A %s, only B %s, neither %s\n", cli_count(c->both_right).s, cli_count(c->only_a).s,
           cli_count(c->only_b).s, cli_count(c->neither).s);
    printf("McNemar's exact test of %s against %s: p = %s\n\n", cli_count(c->only_a).s, cli_count(c->only_b).s,
           p_value(c->mcnemar).s);
    verdict(list[0].name, c->accuracy.difference, c->mcnemar, "McNemar's exact test");
    verdict(list[1].name, c->macro_f1.difference, c->macro_f1.p, "paired bootstrap");
    if (sides[0].report->multi_label) verdict(list[2].name, c->micro_f1.difference, c->micro_f1.p, "paired bootstrap");
    for (int i = 0; i < 2; i++) {
        if (!has_notes(sides[i].report)) continue;
        printf("\n%s", i ? "B" : "A");
        test_print_notes(sides[i].report);
    }
}

/* ---- for programs ---- */

static json_t *pair_json(const qkv_score_pair *s) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "a", cli_json_real(s->a), "a_interval",
                     test_interval_json(s->a_interval), "b", cli_json_real(s->b), "b_interval", test_interval_json(s->b_interval),
                     "difference", cli_json_real(s->difference), "interval", test_interval_json(s->interval), "p",
                     cli_json_real(s->p));
}

/* The report, with the intervals that the comparison has found. */
static json_t *side_json(const test_side *side, const qkv_comparison *c, int second) {
    qkv_classify_report *r = side->report;
    r->resamples = c->resamples;
    r->seed = c->seed;
    r->accuracy_interval = second ? c->accuracy.b_interval : c->accuracy.a_interval;
    r->macro_f1_interval = second ? c->macro_f1.b_interval : c->macro_f1.a_interval;
    r->micro_f1_interval = second ? c->micro_f1.b_interval : c->micro_f1.a_interval;
    r->weighted_f1_interval = second ? c->weighted_f1.b_interval : c->weighted_f1.a_interval;
    json_t *report = test_json(side->model, r);
    json_object_set_new(report, "model", cli_json_text(side->path, (int64_t)strlen(side->path)));
    return report;
}

json_t *test_comparison_json(const test_side sides[2], const qkv_comparison *c) {
    named_pair list[PAIRS];
    list_pairs(sides, c, list);
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->seed);
    json_t *rows = json_pack("{s:I, s:I, s:I, s:I}", "both", (json_int_t)c->both_right, "only_a", (json_int_t)c->only_a, "only_b",
                             (json_int_t)c->only_b, "neither", (json_int_t)c->neither);
    json_t *scores = json_object();
    for (int i = 0; i < PAIRS; i++) json_object_set_new(scores, list[i].key, pair_json(list[i].pair));
    json_t *comparison = json_pack("{s:I, s:o, s:o, s:f, s:b, s:I, s:s, s:o}", "rows", (json_int_t)c->rows, "right", rows,
                                   "mcnemar_p", cli_json_real(c->mcnemar), "level", level, "accuracy_distinguishable",
                                   c->mcnemar <= level, "resamples", (json_int_t)c->resamples, "seed", seed, "scores", scores);
    return json_pack("{s:o, s:o, s:o}", "a", side_json(&sides[0], c, 0), "b", side_json(&sides[1], c, 1), "comparison", comparison);
}
