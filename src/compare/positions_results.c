/* What `positions` makes of its trials: tables, charts and claims. */
#include "compare/positions.h"

#include <math.h>
#include <stdio.h>

#define AT(task, of) ((const int64_t[QKV_TRIAL_PLACES]){task, of, QKV_ANY, QKV_ANY, QKV_ANY, QKV_ANY})

enum { ONCE = 0, FOUR_TIMES = 2 };

static const qkv_positions_task *task_of(const qkv_run *run, int64_t k) {
    const qkv_positions *p = run->self;
    return &p->tasks[k];
}

static qkv_estimate accuracy(const qkv_run *run, int64_t k, int64_t which, int at) {
    const qkv_positions_task *t = task_of(run, k);
    return qkv_run_accuracy_of(run, AT(k, QKV_PLACED[which].trained), QKV_PLACED[which].key, &t->asked, t->at[at]);
}

static double rows_at(const qkv_positions_task *t, int at) {
    return (double)qkv_rows_in(&t->asked, t->at[at]);
}

static double chance(const qkv_positions_task *t) {
    return 1 / (double)t->dataset.classes;
}

/* Has it learned nothing, a tenth of what there is beyond chance at most, at the learned lengths, in the mean over the seeds? Of
 * what is not measured that is not known. */
static bool idle(const qkv_run *run, int64_t k, int64_t which) {
    const qkv_positions_task *t = task_of(run, k);
    return accuracy(run, k, which, ONCE).value <= chance(t) + 0.1 * (1 - chance(t));
}

/* Are the texts at four times the length others than those at the learned one? Then what is lost between both is also what makes
 * them others, and it is taken beside no positions on the same texts instead. */
static bool beside(const qkv_positions_task *t) {
    return t->dataset.text;
}

/* Share of the accuracy (above: of what of it is above chance) that is lost at four times the learned length. */
static qkv_estimate lost(const qkv_run *run, int64_t k, int64_t which, bool above) {
    const qkv_positions_task *t = task_of(run, k);
    const qkv_placed *a = &QKV_PLACED[which], *base = &QKV_PLACED[QKV_PLACED_NONE];
    const double none = above ? chance(t) : 0;
    if (idle(run, k, which) || (beside(t) && (which == QKV_PLACED_NONE || idle(run, k, QKV_PLACED_NONE))))
        return qkv_estimate_mean(&none, 0, 0);
    if (!beside(t)) return qkv_run_fall_of(run, AT(k, a->trained), a->key, &t->asked, t->at[ONCE], t->at[FOUR_TIMES], none, none);
    return qkv_run_fall_beside(run, &(qkv_asked_of){AT(k, base->trained), base->key}, &(qkv_asked_of){AT(k, a->trained), a->key},
                               &t->asked, t->at[FOUR_TIMES], none);
}

static qkv_estimate gain(const qkv_run *run, int64_t k, int64_t from, int64_t to) {
    const qkv_positions_task *t = task_of(run, k);
    const qkv_placed *a = &QKV_PLACED[from], *b = &QKV_PLACED[to];
    return qkv_run_gain_of(run, &(qkv_asked_of){AT(k, a->trained), a->key}, &(qkv_asked_of){AT(k, b->trained), b->key}, &t->asked,
                           t->at[FOUR_TIMES]);
}

/* ---- tables ---- */

static const char *length_name(qkv_outcome *o, const qkv_positions_task *t, int at) {
    const qkv_lengths *l = &t->at[at];
    if (l->shortest == l->longest) return qkv_outcome_text(o, "%lld tokens", (long long)l->longest);
    return qkv_outcome_text(o, "%lld to %lld", (long long)l->shortest, (long long)l->longest);
}

static const char *note(const qkv_positions_task *t, qkv_outcome *o) {
    return qkv_outcome_text(
        o,
        "By chance %.1f %% where classes are equally frequent; rows: %.0f, %.0f, %.0f, %.0f. Lost: share of the accuracy (and of "
        "what of "
        "it is above chance) %s (over 100 %%: worse than chance); not of what learned nothing. +- is the deviation over seeds.",
        100 * chance(t), rows_at(t, 0), rows_at(t, 1), rows_at(t, 2), rows_at(t, 3),
        beside(t) ? "without positions that is gone with these, on the same texts of four times the learned length (below 0: they "
                    "gain); the texts of the learned length are others"
                  : "at the learned length that is gone at four times it");
}

static void table_of(const qkv_run *run, int64_t k, qkv_outcome *o) {
    enum { LOST = QKV_POSITIONS_LENGTHS + 1, COLUMNS = QKV_POSITIONS_LENGTHS + 4 };
    static const char *const keys[QKV_POSITIONS_LENGTHS] = {"once", "twice", "four_times", "eight_times"};
    const qkv_positions_task *t = task_of(run, k);
    qkv_compare_column columns[COLUMNS] = {{"arm", "positions", QKV_UNIT_TEXT}};
    if (!qkv_run_has(run, AT(k, QKV_ANY))) return;
    for (int i = 0; i < QKV_POSITIONS_LENGTHS; i++)
        columns[1 + i] = (qkv_compare_column){keys[i], length_name(o, t, i), QKV_UNIT_SHARE};
    columns[LOST] = (qkv_compare_column){"lost", beside(t) ? "lost at 4x, beside none" : "lost at 4x", QKV_UNIT_SHARE};
    columns[LOST + 1] = (qkv_compare_column){"lost_above_chance", "above chance", QKV_UNIT_SHARE};
    columns[LOST + 2] = (qkv_compare_column){"diverged", "diverged", QKV_UNIT_COUNT};
    qkv_outcome_table(o, t->name, qkv_outcome_text(o, "Accuracy by length: %s", t->name), note(t, o), columns, COLUMNS);
    qkv_outcome_chart(o, qkv_outcome_text(o, "Accuracy by length: %s", t->name), "tokens of a text, at most", QKV_UNIT_COUNT, true,
                      "accuracy", QKV_UNIT_SHARE, false);
    for (int64_t a = 0; a < QKV_PLACED_COUNT; a++) {
        const qkv_estimate relative = lost(run, k, a, false), above = lost(run, k, a, true);
        qkv_outcome_row(o);
        qkv_outcome_line(o, QKV_PLACED[a].name);
        qkv_outcome_set_text(o, 0, QKV_PLACED[a].name);
        for (int i = 0; i < QKV_POSITIONS_LENGTHS; i++) {
            const qkv_estimate e = accuracy(run, k, a, i);
            qkv_outcome_set_estimate(o, 1 + i, &e);
            qkv_outcome_point(o, (double)t->at[i].longest, e.value, e.deviation);
        }
        qkv_outcome_set_estimate(o, LOST, &relative);
        qkv_outcome_set_estimate(o, LOST + 1, &above);
        qkv_outcome_set(o, LOST + 2, qkv_run_count(run, AT(k, QKV_PLACED[a].trained), "diverged"), NAN);
    }
}

/* ---- claims ---- */

typedef struct arms {
    int64_t count, of[8];
} arms;

static const arms FIXED = {1, {QKV_PLACED_SINUSOIDAL}}, BOTH = {2, {QKV_PLACED_SINUSOIDAL, QKV_PLACED_UNTRAINED}},
                  TABLES = {4, {QKV_PLACED_UNTRAINED, QKV_PLACED_CLAMP, QKV_PLACED_TILE, QKV_PLACED_INTERPOLATE}},
                  BIASES = {3, {QKV_PLACED_SHAW, QKV_PLACED_T5, QKV_PLACED_ALIBI}},
                  RELATIVE = {7,
                              {QKV_PLACED_SHAW, QKV_PLACED_T5, QKV_PLACED_ALIBI, QKV_PLACED_ROPE, QKV_PLACED_ROPE_LINEAR,
                               QKV_PLACED_ROPE_NTK, QKV_PLACED_ROPE_YARN}};

/* Who of two groups learned nothing: no part is about them, nor about what is held against them. */
static const char *remark(const qkv_run *run, int64_t k, const arms *a, const arms *b, qkv_outcome *o) {
    const qkv_positions_task *t = task_of(run, k);
    const arms *groups[] = {a, b};
    const char *names = "";
    for (int g = 0; g < 2 && groups[g]; g++)
        for (int64_t i = 0; i < groups[g]->count; i++)
            if (idle(run, k, groups[g]->of[i]))
                names = qkv_outcome_text(o, "%s%s%s", names, *names ? ", " : "", QKV_PLACED[groups[g]->of[i]].name);
    return qkv_outcome_text(
        o, "Ours is %s.%s%s%s%s", t->dataset.name, *names ? " Learned nothing and left out: " : "", names, *names ? "." : "",
        beside(t) ? " What is lost is beside no positions, on the same texts: those of the learned length are others." : "");
}

/* A part for each of these: what it loses at four times the length is less (or more) than `than`. */
static void parts_lost(const qkv_run *run, int64_t k, const arms *a, bool above, bool less, double than, qkv_outcome_claim *c,
                       qkv_outcome *o) {
    const qkv_asked asked = {less ? -INFINITY : INFINITY, 0, than, "%.1f %%", 100};
    for (int64_t i = 0; i < a->count; i++) {
        const qkv_estimate e = lost(run, k, a->of[i], above);
        const char *what =
            qkv_outcome_text(o, "%s, lost of %s", QKV_PLACED[a->of[i]].name, above ? "what is above chance" : "the accuracy");
        if (!idle(run, k, a->of[i])) qkv_claim_part(c, what, &asked, &e);
    }
}

/* A part for each: at four times the length better (or worse) than sinusoidal positions. */
static void parts_gain(const qkv_run *run, int64_t k, const arms *a, bool better, qkv_outcome_claim *c) {
    const qkv_asked asked = {better ? INFINITY : -INFINITY, 0, 0, "%+.1f points", 100};
    if (idle(run, k, QKV_PLACED_SINUSOIDAL)) return;
    for (int64_t i = 0; i < a->count; i++) {
        const qkv_estimate e = gain(run, k, QKV_PLACED_SINUSOIDAL, a->of[i]);
        if (!idle(run, k, a->of[i])) qkv_claim_part(c, QKV_PLACED[a->of[i]].name, &asked, &e);
    }
}

static void say_accuracies(const qkv_run *run, int64_t k, const arms *a, qkv_outcome_claim *c) {
    int used = snprintf(c->ours, sizeof c->ours, "%s, at the learned length and at four times it: ", task_of(run, k)->name);
    for (int64_t i = 0; i < a->count && used < (int)sizeof c->ours; i++)
        used += snprintf(c->ours + used, sizeof c->ours - (size_t)used, "%s%s %.1f and %.1f %%", i ? "; " : "",
                         QKV_PLACED[a->of[i]].name, 100 * accuracy(run, k, a->of[i], ONCE).value,
                         100 * accuracy(run, k, a->of[i], FOUR_TIMES).value);
}

static void claims_of_articles(const qkv_run *run, int64_t k, qkv_outcome *o) {
    qkv_outcome_claim any = {.row = 7, .article = "A", .says = "sinusoidal positions serve texts of any length", .figure = "none"},
                      sharp = {.row = 7,
                               .article = "A",
                               .says = "beyond the training length fixed positions fall sharply, learned ones are more robust",
                               .figure = "none"},
                      best = {.row = 7,
                              .article = "B",
                              .says = "sinusoidal positions generalise better than learned ones",
                              .figure = "none"},
                      far = {.row = 7, .article = "B", .says = "on long texts relative positions are best", .figure = "none"};
    say_accuracies(run, k, &FIXED, &any);
    parts_lost(run, k, &FIXED, false, true, 0.02, &any, o);
    qkv_outcome_add_claim(o, &any, remark(run, k, &FIXED, NULL, o));
    say_accuracies(run, k, &BOTH, &sharp);
    parts_lost(run, k, &FIXED, false, false, 0.02, &sharp, o);
    parts_gain(run, k, &TABLES, true, &sharp);
    qkv_outcome_add_claim(o, &sharp, remark(run, k, &BOTH, NULL, o));
    say_accuracies(run, k, &BOTH, &best);
    parts_gain(run, k, &TABLES, false, &best);
    qkv_outcome_add_claim(o, &best, remark(run, k, &BOTH, NULL, o));
    say_accuracies(run, k, &BIASES, &far);
    parts_gain(run, k, &RELATIVE, true, &far);
    qkv_outcome_add_claim(o, &far, remark(run, k, &FIXED, &RELATIVE, o));
}

static void claim_expected(const qkv_run *run, int64_t k, qkv_outcome *o) {
    qkv_outcome_claim c = {.row = 7,
                           .article = "B, sharpened",
                           .says = "at four times the length Shaw, T5 and ALiBi lose under 2 %, sinusoidal and learned collapse",
                           .figure = "2 %; collapse: half of what is above chance"};
    say_accuracies(run, k, &BIASES, &c);
    parts_lost(run, k, &BIASES, false, true, 0.02, &c, o);
    parts_lost(run, k, &BOTH, true, false, 0.5, &c, o);
    qkv_outcome_add_claim(o, &c, remark(run, k, &BOTH, &BIASES, o));
}

void qkv_positions_conclude(qkv_run *run, qkv_outcome *o) {
    const qkv_positions *p = run->self;
    for (int64_t k = 0; k < p->count; k++) table_of(run, k, o);
    for (int64_t k = 0; k < p->count; k++) {
        claims_of_articles(run, k, o);
        claim_expected(run, k, o);
    }
}
