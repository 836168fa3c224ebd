/* What `patterns` makes of its trials: tables, charts and claims. */
#include "compare/patterns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(arm) ((const int64_t[QKV_TRIAL_PLACES]){arm, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY})

/* ---- scores ---- */

typedef qkv_estimate compared(const qkv_fold_scores *a, const qkv_fold_scores *b, qkv_mark mark);

static qkv_fold_trials trials_of(const qkv_run *run, const int64_t *at) {
    const qkv_patterns *p = run->self;
    return (qkv_fold_trials){run, &p->crossval, at, QKV_PATTERNS_FOLD, QKV_PATTERNS_TURN};
}

/* Of an arm, of these folds. Where memory runs out, it counts as not measured. */
static void make_scores(const qkv_run *run, int64_t a, uint32_t mask, qkv_fold_scores *s) {
    const qkv_fold_trials t = trials_of(run, AT(a));
    if (qkv_fold_scores_make(&t, mask, s) != QKV_OK) *s = (qkv_fold_scores){0};
}

static qkv_estimate of_arm(const qkv_run *run, int64_t a, qkv_mark mark) {
    const qkv_patterns *p = run->self;
    return qkv_fold_scores_mean(&p->fold_scores[a], mark);
}

/* On the folds that both have. */
static qkv_estimate of_both(const qkv_run *run, int64_t from, int64_t to, qkv_mark mark, compared *f) {
    const qkv_patterns *p = run->self;
    const uint32_t mask = p->fold_scores[from].mask & p->fold_scores[to].mask;
    const int64_t arm[2] = {from, to};
    const qkv_fold_scores *of[2];
    qkv_fold_scores own[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        of[i] = &p->fold_scores[arm[i]];
        if (of[i]->mask == mask) continue;
        make_scores(run, arm[i], mask, &own[i]);
        of[i] = &own[i];
    }
    const qkv_estimate e = f(of[0], of[1], mark);
    for (int i = 0; i < 2; i++) qkv_fold_scores_free(&own[i]);
    return e;
}

/* ---- tables ---- */

/* Mean over folds and seeds; one alone is as good. */
static void set_mean(const qkv_run *run, int64_t a, const char *name, int64_t column, qkv_outcome *o) {
    const qkv_estimate e = qkv_run_mean(run, AT(a), name, 0);
    qkv_outcome_set_estimate(o, column, &e);
}

static void set_gain(const qkv_run *run, int64_t from, int64_t a, qkv_mark mark, int64_t column, qkv_outcome *o) {
    const qkv_estimate e = of_both(run, from, a, mark, qkv_fold_scores_gain);
    if (a != from) qkv_outcome_set_estimate(o, column, &e);
}

/* What the intervals are of. */
static const char *interval_text(const qkv_run *run) {
    const qkv_patterns *p = run->self;
    if (run->seeds > 1) return "of seeds and rows";
    if (p->crossval.asked > 1)
        return "of the folds, each a training of its own (t, by the jackknife), and no narrower than those of the rows; that folds "
               "share "
               "most of what they learn from is not in them";
    return "which one seed and one fold do not give";
}

/* Do those who may read more read the same? */
static bool same_texts(const qkv_run *run) {
    const qkv_estimate some = qkv_run_mean(run, AT(QKV_PATTERNS_SHORT), "tokens", 0),
                       more = qkv_run_mean(run, AT(QKV_PATTERNS_FULL_4), "tokens", 0);
    return isfinite(some.value) && some.value == more.value;
}

static void quality_table(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"arm", "who sees whom", QKV_UNIT_TEXT},
                                                 {"tokens", "tokens, at most", QKV_UNIT_COUNT},
                                                 {"accuracy", "accuracy", QKV_UNIT_SHARE},
                                                 {"macro_f1", "macro-F1", QKV_UNIT_SHARE},
                                                 {"gain", "accuracy, gain", QKV_UNIT_GAIN},
                                                 {"f1_gain", "macro-F1, gain", QKV_UNIT_GAIN},
                                                 {"f1_linear", "on the linear model", QKV_UNIT_GAIN}};
    const qkv_patterns *p = run->self;
    qkv_outcome_table(
        o, "quality", "Quality",
        qkv_outcome_text(o,
                         "%lld texts are scored%s.%s Gains are points more than the first arm has, or of macro-F1 the linear model. "
                         "+- is the deviation over seeds; in brackets: 95 %% intervals, %s. By the most "
                         "frequent kind alone a model would be right on %.1f %%. Alternating: every third layer sees all; random "
                         "blocks: three of 64 tokens beside the window, and the first block is global.",
                         (long long)p->crossval.test_rows,
                         run->done < run->count ? " in all; an arm of which folds are missing has the scores of those that are there, "
                                                  "and is held against others on the folds that both have"
                                                : "",
                         same_texts(run) ? " No text is longer than the first arm reads: what differs in length alone is the same." : "",
                         interval_text(run), 100 * qkv_crossval_most_frequent(&p->crossval)),
        columns, sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < QKV_PATTERNS_COUNT; a++) {
        const qkv_estimate accuracy = of_arm(run, a, QKV_MARK_ACCURACY), f1 = of_arm(run, a, QKV_MARK_MACRO_F1);
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, QKV_WAY_NAMES[QKV_PATTERNS_ARMS[a].way]);
        if (a != QKV_PATTERNS_LINEAR) qkv_outcome_set(o, 1, (double)qkv_patterns_length(p, a), NAN);
        qkv_outcome_set_estimate(o, 2, &accuracy);
        qkv_outcome_set_estimate(o, 3, &f1);
        set_gain(run, QKV_PATTERNS_SHORT, a, QKV_MARK_ACCURACY, 4, o);
        set_gain(run, QKV_PATTERNS_SHORT, a, QKV_MARK_MACRO_F1, 5, o);
        set_gain(run, QKV_PATTERNS_LINEAR, a, QKV_MARK_MACRO_F1, 6, o);
    }
}

static void cost_table(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {
        {"arm", "who sees whom", QKV_UNIT_TEXT},      {"tokens", "tokens, at most", QKV_UNIT_COUNT},
        {"step_seconds", "step", QKV_UNIT_SECONDS},   {"seconds", "training", QKV_UNIT_SECONDS},
        {"seen", "tokens seen", QKV_UNIT_COUNT},      {"tokens_per_second", "tokens/s", QKV_UNIT_COUNT},
        {"flops", "FLOPs of a step", QKV_UNIT_COUNT}, {"bytes", "memory, planned", QKV_UNIT_BYTES},
        {"parameters", "parameters", QKV_UNIT_COUNT}};
    static const char *const values[] = {"step_seconds", "seconds", "tokens",    "tokens_per_second",
                                         "step_flops",   "bytes",   "parameters"};
    const qkv_patterns *p = run->self;
    qkv_outcome_table(
        o, "cost", "Cost",
        "Of one training: mean over folds and seeds, +- their deviation. Of the linear model the memory is its weights'.", columns,
        sizeof columns / sizeof *columns);
    for (int64_t a = 0; a < QKV_PATTERNS_COUNT; a++) {
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, QKV_WAY_NAMES[QKV_PATTERNS_ARMS[a].way]);
        if (a != QKV_PATTERNS_LINEAR) qkv_outcome_set(o, 1, (double)qkv_patterns_length(p, a), NAN);
        for (int64_t i = 0; i < (int64_t)(sizeof values / sizeof *values); i++) set_mean(run, a, values[i], i + 2, o);
    }
}

static void charts(const qkv_run *run, qkv_outcome *o) {
    const qkv_patterns *p = run->self;
    for (int by_time = 0; by_time < 2; by_time++) {
        qkv_outcome_chart(o, by_time ? "Macro-F1 by the time of a training" : "Macro-F1 by what is read",
                          by_time ? "seconds" : "tokens of a text, at most", by_time ? QKV_UNIT_SECONDS : QKV_UNIT_COUNT, true,
                          "macro-F1", QKV_UNIT_SHARE, false);
        for (int w = 0; w < QKV_WAY_LINEAR; w++) {
            qkv_outcome_line(o, QKV_WAY_NAMES[w]);
            for (int64_t a = 0; a < QKV_PATTERNS_COUNT; a++) {
                if (QKV_PATTERNS_ARMS[a].way != (qkv_way)w) continue;
                const qkv_estimate f1 = of_arm(run, a, QKV_MARK_MACRO_F1),
                                   seconds = qkv_run_mean(run, AT(a), "seconds", 0);
                qkv_outcome_point(o, by_time ? seconds.value : (double)qkv_patterns_length(p, a), f1.value, f1.deviation);
            }
        }
    }
}

/* ---- claims ---- */

enum { LONG_UNIT = 512, KINDS = 10 };

/* Is it what the claim is about: given documents of many kinds, longer than what they are cut to? "": yes, else what it asks for.
 */
static const char *lacking(const qkv_patterns *p) {
    if (p->unit != LONG_UNIT) return "Not measured by --quick, which reads shorter texts.";
    if (!p->given || p->crossval.labels.count < KINDS || p->crossval.words < p->unit)
        return "Asks for contracts: --data FILE, with long texts (512 words or more, in the median) of 10 kinds or more.";
    return "";
}

static void claim_contracts(const qkv_run *run, qkv_outcome *o) {
    const qkv_patterns *p = run->self;
    const qkv_asked asked = {0.023, 0.0005, 0, "%+.1f %%", 100};
    enum { FROM = QKV_PATTERNS_SHORT, TO = QKV_PATTERNS_GLOBAL_4 };
    const qkv_estimate f1 = of_both(run, FROM, TO, QKV_MARK_MACRO_F1, qkv_fold_scores_fall),
                       accuracy = of_both(run, FROM, TO, QKV_MARK_ACCURACY, qkv_fold_scores_fall);
    qkv_outcome_claim c = {.row = 17,
                           .article = "B",
                           .says = "contracts: what F1 loses from 512 tokens to 2,048 with local and global attention",
                           .figure = "2.3 %"};
    const char *asks = lacking(p);
    if (*asks) {
        snprintf(c.ours, sizeof c.ours, "%s", asks);
        qkv_outcome_add_claim(o, &c,
                              qkv_outcome_text(o, "The texts are %s: %lld kinds, median %lld words.", p->crossval.name,
                                               (long long)p->crossval.labels.count, (long long)p->crossval.words));
        return;
    }
    snprintf(
        c.ours, sizeof c.ours,
        "macro-F1 %.1f %% at %lld tokens, %.1f %% at %lld with a window and its first tokens global: a loss of %.1f %% (of accuracy %.1f %%)",
        100 * of_arm(run, FROM, QKV_MARK_MACRO_F1).value, (long long)p->unit,
        100 * of_arm(run, TO, QKV_MARK_MACRO_F1).value, (long long)(4 * p->unit), 100 * f1.value, 100 * accuracy.value);
    qkv_claim_part(&c, "macro-F1", &asked, &f1);
    qkv_claim_part(&c, "accuracy", &asked, &accuracy);
    qkv_outcome_add_claim(o, &c, qkv_outcome_text(o, "A loss below 0 is a gain. Ours is %s.", p->crossval.name));
}

/* One arm against another, by macro-F1 on the same rows. */
typedef struct duel {
    int64_t arm, against;
    bool better; /* than it; else not a point worse */
} duel;

static void parts_of(const qkv_run *run, const duel *duels, int64_t count, qkv_outcome_claim *c, qkv_outcome *o) {
    static const qkv_asked better = {INFINITY, 0, 0, "%+.1f points", 100}, as_good = {INFINITY, 0, -0.01, "%+.1f points", 100};
    const qkv_patterns *p = run->self;
    for (int64_t i = 0; i < count; i++) {
        const duel *d = &duels[i];
        char name[64], other[64];
        const qkv_estimate gain = of_both(run, d->against, d->arm, QKV_MARK_MACRO_F1, qkv_fold_scores_gain);
        qkv_patterns_name(p, d->arm, name);
        qkv_patterns_name(p, d->against, other);
        qkv_claim_part(c, qkv_outcome_text(o, "%s, %s %s", name, d->better ? "better than" : "not a point worse than", other),
                       d->better ? &better : &as_good, &gain);
        const int used = (int)strlen(c->ours);
        snprintf(c->ours + used, sizeof c->ours - (size_t)used, "%s %+.1f", i > 0 ? "," : "", 100 * gain.value);
    }
}

static void claim_long(const qkv_run *run, qkv_outcome *o) {
    static const duel duels[] = {{QKV_PATTERNS_FIXED_4, QKV_PATTERNS_SHORT, true},
                                 {QKV_PATTERNS_FIXED_16, QKV_PATTERNS_SHORT, true},
                                 {QKV_PATTERNS_GLOBAL_4, QKV_PATTERNS_SHORT, true},
                                 {QKV_PATTERNS_GLOBAL_16, QKV_PATTERNS_SHORT, true},
                                 {QKV_PATTERNS_SPARSE_4, QKV_PATTERNS_SHORT, true}};
    const qkv_patterns *p = run->self;
    qkv_outcome_claim c = {.row = 16,
                           .article = "B",
                           .says = "long texts are the better for hierarchical attention and for neighbours with key positions",
                           .figure = "none"};
    snprintf(c.ours, sizeof c.ours,
             "macro-F1 against the first %lld tokens, points, in the order of the parts:", (long long)p->unit);
    parts_of(run, duels, sizeof duels / sizeof *duels, &c, o);
    const double linear = of_arm(run, QKV_PATTERNS_LINEAR, QKV_MARK_MACRO_F1).value;
    qkv_outcome_add_claim(
        o, &c, isnan(linear) ? "" : qkv_outcome_text(o, "The linear model, which reads everything, has %.1f %%.", 100 * linear));
}

/* Segments with an encoder over them are what the rest has to beat. */
static void claim_each_other(const qkv_run *run, qkv_outcome *o) {
    static const duel duels[] = {
        {QKV_PATTERNS_GLOBAL_4, QKV_PATTERNS_FIXED_4, true},     {QKV_PATTERNS_GLOBAL_16, QKV_PATTERNS_FIXED_16, true},
        {QKV_PATTERNS_GLOBAL_4, QKV_PATTERNS_SENTENCES_4, true}, {QKV_PATTERNS_GLOBAL_4, QKV_PATTERNS_SHORT, false},
        {QKV_PATTERNS_SPARSE_4, QKV_PATTERNS_GLOBAL_4, false},   {QKV_PATTERNS_ALTERNATING_4, QKV_PATTERNS_DEEP_4, false}};
    qkv_outcome_claim c = {
        .row = 16,
        .article = "B, sharpened",
        .says = "windows with global tokens beat segments, and at four times the tokens are as good as full attention",
        .figure = "none"};
    snprintf(c.ours, sizeof c.ours, "macro-F1, points, in the order of the parts:");
    parts_of(run, duels, sizeof duels / sizeof *duels, &c, o);
    qkv_outcome_add_claim(o, &c, "As good: not worse by a point or more.");
}

void qkv_patterns_conclude(qkv_run *run, qkv_outcome *o) {
    qkv_patterns *p = run->self;
    for (int64_t a = 0; a < QKV_PATTERNS_COUNT; a++) {
        const qkv_fold_trials t = trials_of(run, AT(a));
        make_scores(run, a, qkv_fold_scores_there(&t), &p->fold_scores[a]);
    }
    quality_table(run, o);
    cost_table(run, o);
    charts(run, o);
    claim_contracts(run, o);
    claim_long(run, o);
    claim_each_other(run, o);
    for (int64_t a = 0; a < QKV_PATTERNS_COUNT; a++) qkv_fold_scores_free(&p->fold_scores[a]);
}
