#include "compare/length.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(task, arm, kind) ((const int64_t[QKV_TRIAL_PLACES]){task, arm, QKV_ANY, kind, QKV_ANY, QKV_ANY})

static const qkv_length_task *task_of(const qkv_run *run, int64_t k) {
    const qkv_length *l = run->self;
    return &l->tasks[k];
}

static qkv_lengths near_rows(const qkv_length_task *t) {
    return (qkv_lengths){0, t->learned};
}

static qkv_lengths far_rows(const qkv_length_task *t) {
    return (qkv_lengths){t->learned + 1, INT64_MAX};
}

static qkv_lengths bucket(const qkv_length_task *t, int64_t b) {
    return (qkv_lengths){t->edges[b] + 1, t->edges[b + 1]};
}

static qkv_estimate accuracy(const qkv_run *run, int64_t k, int64_t a, int64_t kind, qkv_lengths s) {
    return qkv_run_accuracy(run, AT(k, a, kind), &task_of(run, k)->dataset.test, s.shortest, s.longest);
}

/* What is right of these rows for somebody who gives the class that is most frequent in what was learned from. */
static double nothing(const qkv_length_task *t, qkv_lengths s) {
    return qkv_share_of_class(&t->dataset.test, t->common, s);
}

/* ---- tables ---- */

static const char *bucket_name(qkv_outcome *o, const qkv_length_task *t, int64_t b) {
    if (t->edges[b + 1] == INT64_MAX) return qkv_outcome_text(o, "over %lld", (long long)t->edges[b]);
    return qkv_outcome_text(o, "%lld to %lld", (long long)t->edges[b] + 1, (long long)t->edges[b + 1]);
}

/* Arms whose rate is the last of those that were tried on one side, and does better there than the one beside it: another might do
 * better still. */
static const char *at_the_edge(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const qkv_length *l = run->self;
    const char *arms = "";
    for (int64_t a = 0; a < QKV_LENGTH_ARM_COUNT && l->picks; a++) {
        const int64_t last = qkv_length_rates(l, a) - 1, r = qkv_length_picked(run, k, a), beside = r == last ? r - 1 : r + 1;
        const double here = qkv_length_pick(run, k, a, r), there = qkv_length_pick(run, k, a, beside);
        if ((r == 0 || r == last) && here > there)
            arms = qkv_outcome_text(o, "%s%s%s", arms,
                                    *arms ? "; " : " At the edge of the rates that were tried: ", QKV_LENGTH_ARMS[a].name);
    }
    return *arms ? qkv_outcome_text(o, "%s.", arms) : "";
}

static void row_of(const qkv_run *run, int64_t k, int64_t a, int64_t b, qkv_outcome *o) {
    const qkv_length_task *t = task_of(run, k);
    const qkv_estimate of = accuracy(run, k, a, QKV_LENGTH_TRAIN, bucket(t, b)),
                       all = accuracy(run, k, a, QKV_LENGTH_ALL, bucket(t, b)),
                       speed = qkv_run_mean(run, AT(k, a, QKV_LENGTH_TRAIN), "tokens_per_second", 0);
    qkv_outcome_row(o);
    qkv_outcome_set_text(o, 0, QKV_LENGTH_ARMS[a].name);
    qkv_outcome_set_text(o, 1, bucket_name(o, t, b));
    qkv_outcome_set_text(o, 2, b < t->within ? "learned" : "beyond");
    qkv_outcome_set(o, 3, (double)qkv_rows_in(&t->dataset.test, bucket(t, b)), NAN);
    qkv_outcome_set(o, 4, nothing(t, bucket(t, b)), NAN);
    qkv_outcome_set_estimate(o, 5, &of);
    qkv_outcome_set(o, 6, qkv_run_mean(run, AT(k, a, QKV_LENGTH_TRAIN), "rate", 0).value, NAN);
    qkv_outcome_set(o, 7, qkv_run_count(run, AT(k, a, QKV_LENGTH_TRAIN), "diverged"), NAN);
    qkv_outcome_set_estimate(o, 8, &speed);
    qkv_outcome_set_estimate(o, 9, &all);
}

static void chart_of(const qkv_run *run, int64_t k, int64_t kind, const char *title, qkv_outcome *o) {
    const qkv_length_task *t = task_of(run, k);
    qkv_outcome_chart(o, title, "tokens of a text, at most", QKV_UNIT_COUNT, true, "accuracy", QKV_UNIT_SHARE, false);
    for (int64_t a = 0; a < QKV_LENGTH_ARM_COUNT; a++) {
        qkv_outcome_line(o, QKV_LENGTH_ARMS[a].name);
        for (int64_t b = 0; b < t->buckets; b++) {
            const qkv_estimate e = accuracy(run, k, a, kind, bucket(t, b));
            qkv_outcome_point(o, (double)(t->edges[b + 1] == INT64_MAX ? t->dataset.max_length : t->edges[b + 1]), e.value,
                              e.deviation);
        }
    }
}

static void table_of(const qkv_run *run, int64_t k, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"arm", "network", QKV_UNIT_TEXT},
                                                 {"tokens", "tokens of a text", QKV_UNIT_TEXT},
                                                 {"learned", "", QKV_UNIT_TEXT},
                                                 {"rows", "texts", QKV_UNIT_COUNT},
                                                 {"most_frequent", "most frequent class", QKV_UNIT_SHARE},
                                                 {"accuracy", "accuracy", QKV_UNIT_SHARE},
                                                 {"rate", "rate", QKV_UNIT_NUMBER},
                                                 {"diverged", "diverged", QKV_UNIT_COUNT},
                                                 {"tokens_per_second", "tokens/s in training", QKV_UNIT_COUNT},
                                                 {"accuracy_all", "learned from all lengths", QKV_UNIT_SHARE}};
    const int64_t count = sizeof columns / sizeof *columns;
    const qkv_length_task *t = task_of(run, k);
    const bool controls = t->all.count > 0;
    if (!qkv_run_has(run, AT(k, QKV_ANY, QKV_LENGTH_TRAIN)) && !qkv_run_has(run, AT(k, QKV_ANY, QKV_LENGTH_ALL))) return;
    const char *title = qkv_outcome_text(o, "Accuracy by length: %s", t->name);
    qkv_outcome_table(
        o, t->name, title,
        qkv_outcome_text(o,
                         "Most frequent class: share of the texts that have the class most frequent in the learned rows; a "
                         "training that diverged counts as one that always gives it. +- is the deviation over seeds.%s",
                         at_the_edge(run, k, o)),
        columns, controls ? count : count - 1);
    for (int64_t a = 0; a < QKV_LENGTH_ARM_COUNT; a++)
        for (int64_t b = 0; b < t->buckets; b++)
            if (qkv_rows_in(&t->dataset.test, bucket(t, b)) > 0) row_of(run, k, a, b, o);
    chart_of(run, k, QKV_LENGTH_TRAIN, title, o);
    if (controls) chart_of(run, k, QKV_LENGTH_ALL, qkv_outcome_text(o, "%s, learned from all lengths", title), o);
}

/* ---- claims ---- */

/* Has it learned nothing that these rows would show? Of what is not measured, or has no spread, that is not known. */
static bool idle(const qkv_run *run, int64_t k, int64_t a, int64_t kind, qkv_lengths s) {
    const qkv_estimate e = accuracy(run, k, a, kind, s);
    return e.missing == 0 && e.low <= nothing(task_of(run, k), s);
}

/* Where judging would need an arm that has learned nothing: says so as a part of the claim, and in a word; else NULL. */
static const char *judged_idle(qkv_outcome_claim *c, qkv_outcome *o, const char *part, const qkv_run *run, int64_t k, int64_t a,
                               int64_t kind, qkv_lengths s) {
    const qkv_estimate e = accuracy(run, k, a, kind, s);
    const double none = nothing(task_of(run, k), s);
    const char *name = QKV_LENGTH_ARMS[a].name;
    const bool more = e.value > none + 1e-9; /* but for rounding */
    if (!idle(run, k, a, kind, s)) return NULL;
    const char *what = more ? qkv_outcome_text(o, "%s has learned no more of the task than the spread", name)
                            : qkv_outcome_text(o, "%s has not learned the task", name);
    qkv_claim_open(
        c, part,
        qkv_outcome_text(o, "%s: %.1f %% (95 %% interval %.1f to %.1f) %s, the most frequent class %.1f %%", what, 100 * e.value,
                         100 * e.low, 100 * e.high,
                         kind == QKV_LENGTH_ALL ? "of these texts, learned from all lengths" : "within the learned lengths",
                         100 * none));
    return more ? "not learned beyond the spread" : "not learned";
}

/* How much of the accuracy, of what of it is above that of the most frequent class, is lost beyond the learned lengths: of made
 * rows beside that within them, of texts beside that of as many steps on texts of all lengths. */
static qkv_estimate loss_beyond(const qkv_run *run, int64_t k, int64_t a) {
    const qkv_length_task *t = task_of(run, k);
    if (t->all.count > 0)
        return qkv_run_fall_beside(run, &(qkv_asked_of){AT(k, a, QKV_LENGTH_ALL), "right"},
                                   &(qkv_asked_of){AT(k, a, QKV_LENGTH_TRAIN), "right"}, &t->dataset.test, far_rows(t),
                                   nothing(t, far_rows(t)));
    return qkv_run_fall_of(run, AT(k, a, QKV_LENGTH_TRAIN), "right", &t->dataset.test, near_rows(t), far_rows(t),
                           nothing(t, near_rows(t)), nothing(t, far_rows(t)));
}

/* Judges it, unless the arm has learned nothing; as a text for what ours is. */
static const char *part_of_loss(qkv_outcome_claim *c, qkv_outcome *o, const char *part, const qkv_run *run, int64_t k, int64_t a,
                                double figure) {
    const qkv_length_task *t = task_of(run, k);
    const qkv_asked asked = {figure, 0.005, 0, "%.1f %%", 100};
    const char *why = judged_idle(c, o, part, run, k, a, QKV_LENGTH_TRAIN, near_rows(t));
    if (!why && t->all.count > 0) why = judged_idle(c, o, part, run, k, a, QKV_LENGTH_ALL, far_rows(t));
    if (why) return why;
    const qkv_estimate e = loss_beyond(run, k, a);
    qkv_claim_part(c, part, &asked, &e);
    return qkv_outcome_text(o, "%.1f %%", 100 * e.value);
}

static void claim_long(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const qkv_length_task *t = task_of(run, k);
    qkv_outcome_claim c = {.row = 9,
                           .article = "A",
                           .says = "what is lost on long sentences, RNN and attention",
                           .figure = "37 % and 5 % (BLEU, translation of over 30 words)"};
    const char *rnn = part_of_loss(&c, o, "RNN", run, k, QKV_LENGTH_RNN, 0.37),
               *lstm = part_of_loss(&c, o, "LSTM", run, k, QKV_LENGTH_LSTM, 0.37),
               *gru = part_of_loss(&c, o, "GRU", run, k, QKV_LENGTH_GRU, 0.37),
               *attention = part_of_loss(&c, o, "attention", run, k, QKV_LENGTH_SINUSOIDAL, 0.05);
    snprintf(c.ours, sizeof c.ours,
             "%s: of what is above the most frequent class, beyond the learned lengths: RNN %s, LSTM %s, GRU %s, attention %s "
             "(sinusoidal)",
             t->name, rnn, lstm, gru, attention);
    qkv_outcome_add_claim(
        o, &c,
        qkv_outcome_text(o, "The claim is of translation; ours is %s%s.", t->dataset.name,
                         t->all.count > 0 ? ", beside what was learned from all lengths, on the same texts" : ""));
}

static void claim_positions(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const qkv_length_task *t = task_of(run, k);
    const qkv_asked asked[] = {{INFINITY, 0, 0, "%+.1f points", 100}, {-INFINITY, 0, 0, "%+.1f points", 100}};
    const qkv_lengths far = far_rows(t);
    const qkv_estimate gain =
        qkv_run_gain(run, AT(k, QKV_LENGTH_SINUSOIDAL, QKV_LENGTH_TRAIN), AT(k, QKV_LENGTH_LEARNED, QKV_LENGTH_TRAIN),
                     &t->dataset.test, far.shortest, far.longest);
    for (int i = 0; i < 2; i++) {
        qkv_outcome_claim c = {.row = 7,
                               .article = i ? "B" : "A",
                               .says = i ? "sinusoidal positions generalise best, learned ones do not"
                                         : "beyond the learned lengths learned positions are more robust than fixed ones",
                               .figure = "none"};
        snprintf(c.ours, sizeof c.ours, "learned less sinusoidal, beyond: %+.1f points (%s)", 100 * gain.value, t->name);
        if (!judged_idle(&c, o, "", run, k, QKV_LENGTH_SINUSOIDAL, QKV_LENGTH_TRAIN, near_rows(t)) &&
            !judged_idle(&c, o, "", run, k, QKV_LENGTH_LEARNED, QKV_LENGTH_TRAIN, near_rows(t)))
            qkv_claim_part(&c, "", &asked[i], &gain);
        qkv_outcome_add_claim(o, &c, "");
    }
}

/* Of the arms that attend, learned from all lengths, the best on rows that are not scored. */
static int64_t best_attention(const qkv_run *run, int64_t k) {
    int64_t best = QKV_LENGTH_SINUSOIDAL;
    double most = -1;
    for (int64_t a = 0; a < QKV_LENGTH_ARM_COUNT; a++) {
        const double dev = qkv_run_mean(run, AT(k, a, QKV_LENGTH_ALL), "dev", 0).value;
        if (qkv_length_attends(a) && dev > most) most = dev, best = a;
    }
    return best;
}

/* Attention less a recurrent arm, on these rows. */
static const char *part_of_gain(qkv_outcome_claim *c, qkv_outcome *o, const char *part, const qkv_run *run, const int64_t at[3],
                                int64_t attention, const qkv_asked *asked) {
    const int64_t k = at[0], a = at[1], kind = at[2];
    const qkv_length_task *t = task_of(run, k);
    const qkv_lengths s = kind == QKV_LENGTH_ALL ? (qkv_lengths){0, INT64_MAX} : far_rows(t),
                      shown = kind == QKV_LENGTH_ALL ? s : near_rows(t);
    const qkv_estimate e = qkv_run_gain(run, AT(k, a, kind), AT(k, attention, kind), &t->dataset.test, s.shortest, s.longest);
    if (!judged_idle(c, o, part, run, k, a, kind, shown) && !judged_idle(c, o, part, run, k, attention, kind, shown))
        qkv_claim_part(c, part, asked, &e);
    return qkv_outcome_text(o, "%+.1f points", 100 * e.value);
}

/* From rows of all lengths: what an arm does with the lengths that it knows. */
static void claim_reviews(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const qkv_length_task *t = task_of(run, k);
    const qkv_asked asked = {0.065, 0.0005, 0, "%+.1f points", 100};
    const int64_t best = best_attention(run, k);
    const qkv_lengths every = {0, INT64_MAX};
    const qkv_estimate of = accuracy(run, k, best, QKV_LENGTH_ALL, every);
    qkv_outcome_claim c = {
        .row = 11, .article = "B", .says = "sentiment of reviews, RNN and attention", .figure = "86.2 % and 92.7 %, +6.5 points"};
    const char *rnn =
                   part_of_gain(&c, o, "beside the RNN", run, (const int64_t[]){k, QKV_LENGTH_RNN, QKV_LENGTH_ALL}, best, &asked),
               *lstm =
                   part_of_gain(&c, o, "beside the LSTM", run, (const int64_t[]){k, QKV_LENGTH_LSTM, QKV_LENGTH_ALL}, best, &asked),
               *gru =
                   part_of_gain(&c, o, "beside the GRU", run, (const int64_t[]){k, QKV_LENGTH_GRU, QKV_LENGTH_ALL}, best, &asked);
    snprintf(c.ours, sizeof c.ours, "%s: %.1f %%; less RNN %s, less LSTM %s, less GRU %s", QKV_LENGTH_ARMS[best].name,
             100 * of.value, rnn, lstm, gru);
    qkv_outcome_add_claim(
        o, &c,
        qkv_outcome_text(o, "Ours is %s, all lengths; the positions are those that do best on %lld rows that are not scored.",
                         t->dataset.name, (long long)t->dev.count));
}

static void claim_speech(const qkv_run *run, int64_t k, qkv_outcome *o) {
    const qkv_length_task *t = task_of(run, k);
    const qkv_asked asked = {0.14, 0.005, 0, "%+.1f points", 100};
    qkv_outcome_claim c = {.row = 13,
                           .article = "B",
                           .says = "accuracy on long sentences, LSTM and attention (speech)",
                           .figure = "68 % and 82 %, +14 points"};
    const char *lstm =
        part_of_gain(&c, o, "", run, (const int64_t[]){k, QKV_LENGTH_LSTM, QKV_LENGTH_TRAIN}, QKV_LENGTH_SINUSOIDAL, &asked);
    snprintf(c.ours, sizeof c.ours, "attention less LSTM %s (%s, beyond the learned lengths)", lstm, t->name);
    qkv_outcome_add_claim(o, &c, qkv_outcome_text(o, "Ours is %s.", t->dataset.name));
}

void qkv_length_conclude(qkv_run *run, qkv_outcome *o) {
    const qkv_length *l = run->self;
    for (int64_t k = 0; k < l->count; k++) table_of(run, k, o);
    for (int64_t k = 0; k < l->count; k++) {
        claim_long(run, k, o);
        claim_positions(run, k, o);
        if (l->tasks[k].all.count > 0)
            claim_reviews(run, k, o);
        else
            claim_speech(run, k, o);
    }
}
