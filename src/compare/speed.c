/* Time of a layer of attention and of recurrence by the length of the text, at equal tokens a batch. */
#include "compare/list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/timing.h"
#include "report/page.h"

typedef struct arm {
    const char *name, *forward, *both; /* cases of qkv bench */
    int64_t heads, window;             /* window -1: all */
    bool recurrent;
} arm;

static const arm ARMS[] = {
    {"attention, 1 head", "layer.forward", "layer.both", 1, -1, false},
    {"attention, 8 heads", "layer.forward", "layer.both", 8, -1, false},
    {"attention, 8 heads, 64 neighbours", "layer.forward", "layer.both", 8, 64, false},
    {"RNN", "recurrence.rnn", "recurrence.rnn-both", 0, -1, true},
    {"GRU", "recurrence.gru", "recurrence.gru-both", 0, -1, true},
    {"LSTM", "recurrence.lstm", "recurrence.lstm-both", 0, -1, true},
};
enum { ARM_COUNT = sizeof ARMS / sizeof *ARMS, EIGHT = 1, LOCAL = 2, RNN = 3, GRU = 4, LSTM = 5 };

static const int64_t LENGTHS[] = {64, 128, 256, 512, 1024, 2048, 4096, 8192}, DIMS[] = {128, 512};
enum { LENGTH_COUNT = 8, AT_256 = 2, AT_512 = 3, AT_2048 = 5, AT_8192 = 7, NARROW = 0, WIDE = 1 };

/* Places of a trial. */
enum { ARM, LENGTH, DIM, PASS, ROUND };
enum { FORWARD, TRAINING };
#define AT(arm, length, dim, pass) ((const int64_t[QKV_TRIAL_PLACES]){arm, length, dim, pass, QKV_ANY, QKV_ANY})

typedef struct speed {
    int64_t tokens;
    double seconds;
} speed;

static bool wanted(const qkv_run *run, int64_t length, int64_t dim) {
    if (!run->o->quick) return true;
    return dim == NARROW ? length % 2 == 1 : length == AT_512;
}

static qkv_bench_case case_of(const speed *s, const int64_t at[QKV_TRIAL_PLACES]) {
    const arm *a = &ARMS[at[ARM]];
    const int64_t n = LENGTHS[at[LENGTH]];
    qkv_bench_case c = {.n = n,
                        .dim = DIMS[at[DIM]],
                        .heads = a->heads,
                        .batch = s->tokens / n > 0 ? s->tokens / n : 1,
                        .window = {a->window, a->window}};
    snprintf(c.name, sizeof c.name, "%s", at[PASS] == TRAINING ? a->both : a->forward);
    return c;
}

static qkv_status add_trial(qkv_run *run, const int64_t at[QKV_TRIAL_PLACES]) {
    const speed *s = run->self;
    const qkv_bench_case c = case_of(s, at);
    const bool full = !ARMS[at[ARM]].recurrent && ARMS[at[ARM]].window < 0;
    qkv_trial *t;
    QKV_TRY(qkv_run_add(run, &t));
    memcpy(t->at, at, sizeof t->at);
    t->weight = 0.3 + (double)s->tokens * (double)c.dim * (8.0 * (double)c.dim + (full ? 4.0 * (double)c.n : 0)) *
                          (at[PASS] == TRAINING ? 3 : 1) * 2e-11;
    snprintf(t->what, sizeof t->what, "%s, n %lld, d %lld, %s, round %lld", ARMS[at[ARM]].name, (long long)c.n, (long long)c.dim,
             at[PASS] == TRAINING ? "training" : "forward", (long long)at[ROUND] + 1);
    snprintf(t->key, sizeof t->key, "speed: %s, heads %lld, window %lld, n %lld, d %lld, batch %lld, round %lld, %s", c.name,
             (long long)c.heads, (long long)c.window.left, (long long)c.n, (long long)c.dim, (long long)c.batch,
             (long long)at[ROUND], run->machine);
    return QKV_OK;
}

static bool claimed(int64_t length, int64_t dim, int64_t pass) {
    return dim == WIDE && pass == TRAINING && (length == AT_256 || length == AT_512 || length >= AT_2048);
}

/* Those that a claim is about, or the others; round by round, so that all meet the same moments. */
static qkv_status add_trials(qkv_run *run, bool of_claims) {
    for (int64_t round = 0; round < run->seeds; round++)
        for (int64_t d = 0; d < 2; d++)
            for (int64_t n = 0; n < LENGTH_COUNT; n++)
                for (int64_t pass = 0; pass < 2; pass++)
                    for (int64_t a = 0; a < ARM_COUNT; a++)
                        if (wanted(run, n, d) && claimed(n, d, pass) == of_claims)
                            QKV_TRY(add_trial(run, (const int64_t[QKV_TRIAL_PLACES]){a, n, d, pass, round, 0}));
    return QKV_OK;
}

static qkv_status prepare(qkv_run *run) {
    speed *s = run->self;
    s->tokens = run->o->quick ? 8192 : 16384;
    s->seconds = run->o->quick ? 0.02 : 0.1;
    snprintf(run->setting, sizeof run->setting,
             "One layer, f32, %lld tokens a batch whatever the length (at n 512: %lld sequences), %lld rounds in which all take "
             "turns. Attention "
             "with its four projections; recurrence as wide inside as outside. Training is forward and backward.",
             (long long)s->tokens, (long long)s->tokens / 512, (long long)run->seeds);
    QKV_TRY(add_trials(run, true)); /* what verdicts need comes first */
    QKV_TRY(add_trials(run, false));
    return QKV_OK;
}

static qkv_status measure(qkv_run *run, const qkv_trial *trial, json_t *values) {
    const speed *s = run->self;
    const qkv_bench_case c = case_of(s, trial->at);
    return qkv_timing_measure(run, &c, s->seconds, values);
}

static bool whole(const qkv_run *run, const qkv_trial *trial, const json_t *values) {
    (void)run;
    (void)trial;
    return qkv_timing_whole(values);
}

/* ---- results ---- */

static void table_of(const qkv_run *run, int64_t dim, int64_t pass, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"layer", "layer", QKV_UNIT_TEXT},
                                                 {"n", "n", QKV_UNIT_COUNT},
                                                 {"seconds", "time", QKV_UNIT_SECONDS},
                                                 {"share", "of FMA peak", QKV_UNIT_SHARE},
                                                 {"memory", "memory planned", QKV_UNIT_BYTES},
                                                 {"flops", "operations", QKV_UNIT_OPERATIONS},
                                                 {"beside_lstm", "LSTM takes, times", QKV_UNIT_NUMBER}};
    const char *what = pass == TRAINING ? "forward and backward" : "forward";
    if (!qkv_run_has(run, AT(QKV_ANY, QKV_ANY, dim, pass))) return;
    qkv_outcome_table(o, qkv_outcome_text(o, "%s_%lld", pass == TRAINING ? "training" : "forward", (long long)DIMS[dim]),
                      qkv_outcome_text(o, "d %lld, %s", (long long)DIMS[dim], what),
                      "Operations: useful FLOPs, a multiply-add counts as 2. +- is the deviation over rounds.", columns,
                      sizeof columns / sizeof *columns);
    qkv_outcome_chart(o, qkv_outcome_text(o, "Time by length, d %lld, %s", (long long)DIMS[dim], what), "tokens of a text",
                      QKV_UNIT_COUNT, true, "time of a batch", QKV_UNIT_SECONDS, true);
    for (int64_t a = 0; a < ARM_COUNT; a++) {
        qkv_outcome_line(o, ARMS[a].name);
        for (int64_t n = 0; n < LENGTH_COUNT; n++) {
            if (!qkv_run_has(run, AT(a, n, dim, pass))) continue;
            const qkv_estimate seconds = qkv_run_mean(run, AT(a, n, dim, pass), "seconds", 0),
                               share = qkv_run_mean(run, AT(a, n, dim, pass), "share", 0),
                               lstm = qkv_run_ratio(run, AT(LSTM, n, dim, pass), AT(a, n, dim, pass), "seconds");
            const qkv_trial *t = qkv_run_find(run, AT(a, n, dim, pass));
            qkv_outcome_row(o);
            qkv_outcome_set_text(o, 0, ARMS[a].name);
            qkv_outcome_set(o, 1, (double)LENGTHS[n], NAN);
            qkv_outcome_set_estimate(o, 2, &seconds);
            qkv_outcome_set_estimate(o, 3, &share);
            qkv_outcome_set(o, 4, qkv_trial_number(t, "bytes"), NAN);
            qkv_outcome_set(o, 5, qkv_trial_number(t, "flops"), NAN);
            qkv_outcome_set(o, 6, lstm.value, NAN);
            qkv_outcome_point(o, (double)LENGTHS[n], seconds.value, seconds.deviation);
        }
    }
}

/* Lengths in a row that were measured with the same outcome. */
typedef struct stretch {
    int side; /* -1: attention is the faster one, 1: recurrence, 0: no difference beyond the spread */
    int64_t first, last;
    double cross; /* the length at which the side before changed to this one, if one is the other way round than the other */
} stretch;

/* By the interval where there is one: one round alone has no spread to judge by. */
static int side_of(const qkv_estimate *r) {
    if (r->low <= 1 && r->high >= 1) return 0;
    return r->value < 1 ? -1 : 1;
}

static int64_t stretches_of(const qkv_run *run, int64_t attention, int64_t recurrent, int64_t dim, int64_t pass,
                            stretch of[LENGTH_COUNT]) {
    int64_t count = 0;
    double before = NAN, before_n = NAN;
    for (int64_t n = 0; n < LENGTH_COUNT; n++) {
        const qkv_estimate r = qkv_run_ratio(run, AT(attention, n, dim, pass), AT(recurrent, n, dim, pass), "seconds");
        if (!isfinite(r.value)) continue;
        const double now = log(r.value), now_n = log((double)LENGTHS[n]);
        const int side = side_of(&r);
        if (count > 0 && of[count - 1].side == side) {
            of[count - 1].last = n;
        } else {
            of[count] = (stretch){side, n, n, NAN};
            if (count > 0 && of[count - 1].side * side < 0)
                of[count].cross = exp(before_n + (now_n - before_n) * before / (before - now));
            count++;
        }
        before = now, before_n = now_n;
    }
    return count;
}

static const char *length_text(qkv_outcome *o, double n) {
    char text[32];
    qkv_page_value(QKV_UNIT_COUNT, floor(n + 0.5), text, sizeof text);
    return qkv_outcome_text(o, "%s", text);
}

/* "faster at n 64 to 512, slower at n 1,024 to 8,192 (they cross near 935)"; "": nothing was measured. */
static const char *crossing(const qkv_run *run, int64_t attention, int64_t recurrent, int64_t dim, int64_t pass, qkv_outcome *o) {
    stretch of[LENGTH_COUNT];
    const char *text = "";
    const int64_t count = stretches_of(run, attention, recurrent, dim, pass, of);
    for (int64_t i = 0; i < count; i++) {
        const stretch *s = &of[i];
        const bool one = s->first == s->last;
        text = qkv_outcome_text(o, "%s%s%s at n %s%s%s", text, i ? ", " : "",
                                s->side < 0   ? "faster"
                                : s->side > 0 ? "slower"
                                              : "no difference beyond the spread",
                                length_text(o, (double)LENGTHS[s->first]), one ? "" : " to ",
                                one ? "" : length_text(o, (double)LENGTHS[s->last]));
        if (count == 1) text = qkv_outcome_text(o, "%s (%s measured)", text, one ? "the only one" : "all that were");
        if (isfinite(s->cross)) text = qkv_outcome_text(o, "%s (they cross near %s)", text, length_text(o, s->cross));
    }
    return text;
}

static void table_of_crossings(const qkv_run *run, qkv_outcome *o) {
    static const qkv_compare_column columns[] = {{"attention", "attention", QKV_UNIT_TEXT},
                                                 {"recurrence", "beside", QKV_UNIT_TEXT},
                                                 {"d", "d", QKV_UNIT_COUNT},
                                                 {"pass", "pass", QKV_UNIT_TEXT},
                                                 {"crossing", "attention is", QKV_UNIT_TEXT}};
    bool begun = false;
    for (int64_t d = 0; d < 2; d++)
        for (int64_t pass = 0; pass < 2; pass++)
            for (int64_t a = 0; a <= LOCAL; a++)
                for (int64_t r = RNN; r <= LSTM; r++) {
                    const char *text = crossing(run, a, r, d, pass, o);
                    if (!*text) continue;
                    if (!begun)
                        qkv_outcome_table(
                            o, "crossings", "Where attention and recurrence cross",
                            "Of the lengths that were measured. Beyond the spread: 1 lies outside the 95 % interval of the "
                            "quotient of "
                            "the times; of one round no spread is known. A crossing between two lengths is interpolated.",
                            columns, sizeof columns / sizeof *columns);
                    begun = true;
                    qkv_outcome_row(o);
                    qkv_outcome_set_text(o, 0, ARMS[a].name);
                    qkv_outcome_set_text(o, 1, ARMS[r].name);
                    qkv_outcome_set(o, 2, (double)DIMS[d], NAN);
                    qkv_outcome_set_text(o, 3, pass == TRAINING ? "training" : "forward");
                    qkv_outcome_set_text(o, 4, text);
                }
}

static double milliseconds(const qkv_run *run, int64_t a) {
    return 1e3 * qkv_run_mean(run, AT(a, AT_512, WIDE, TRAINING), "seconds", 0).value;
}

static void claim_step_time(const qkv_run *run, qkv_outcome *o) {
    const qkv_asked asked = {238.0 / 31, 0.15, 1, "%.2f times", 1};
    qkv_outcome_claim c = {.row = 10,
                           .article = "B",
                           .says = "step time at length 512, RNN and attention",
                           .figure = "238 ms and 31 ms, 7.7 times (a GPU)"};
    const int64_t arms[] = {RNN, GRU, LSTM};
    for (int i = 0; i < 3; i++) {
        const qkv_estimate r =
            qkv_run_ratio(run, AT(arms[i], AT_512, WIDE, TRAINING), AT(EIGHT, AT_512, WIDE, TRAINING), "seconds");
        qkv_claim_part(&c, ARMS[arms[i]].name, &asked, &r);
    }
    snprintf(c.ours, sizeof c.ours, "attention with 8 heads %.0f ms; RNN %.0f ms, GRU %.0f ms, LSTM %.0f ms (d 512, training)",
             milliseconds(run, EIGHT), milliseconds(run, RNN), milliseconds(run, GRU), milliseconds(run, LSTM));
    qkv_outcome_add_claim(o, &c, qkv_outcome_text(o, "Ours: %s.", run->machine));
}

static void claim_speech(const qkv_run *run, qkv_outcome *o) {
    const qkv_asked rate = {320.0 / 85, 0.03, 1, "%.2f times", 1}, memory = {12.0 / 9, 0.1, 1, "%.2f times", 1};
    const qkv_estimate steps = qkv_run_ratio(run, AT(LSTM, AT_512, WIDE, TRAINING), AT(EIGHT, AT_512, WIDE, TRAINING), "seconds");
    const qkv_trial *a = qkv_run_find(run, AT(EIGHT, AT_512, WIDE, TRAINING)),
                    *l = qkv_run_find(run, AT(LSTM, AT_512, WIDE, TRAINING));
    const qkv_estimate bytes = qkv_estimate_exact(qkv_trial_number(a, "bytes") / qkv_trial_number(l, "bytes"));
    qkv_outcome_claim c = {.row = 13,
                           .article = "B",
                           .says = "attention beside LSTM, speech: steps a second, memory",
                           .figure = "320 and 85 steps/s, 3.8 times; 12 and 9 GB, 1.3 times"};
    snprintf(c.ours, sizeof c.ours,
             "%.2f and %.2f layer steps/s, %.2f times; %.0f and %.0f MB, %.2f times (n 512, d 512, training)",
             1e3 / milliseconds(run, EIGHT), 1e3 / milliseconds(run, LSTM), steps.value, 1e-6 * qkv_trial_number(a, "bytes"),
             1e-6 * qkv_trial_number(l, "bytes"), bytes.value);
    qkv_claim_part(&c, "steps a second", &rate, &steps);
    qkv_claim_part(&c, "memory", &memory, &bytes);
    qkv_outcome_add_claim(o, &c, "");
}

/* ---- how time grows with the length ---- */

enum { MOST_ROUNDS = 100 };

/* How the time of one text grows from the length `from` to `to`: the exponent of n, by a line through the logarithms over all
 * rounds. A batch has half as many texts where they are twice as long. `less`: an arm whose time is taken off; -1: none. */
static qkv_estimate growth(const qkv_run *run, int64_t a, int64_t less, int64_t from, int64_t to) {
    double x[LENGTH_COUNT], y[MOST_ROUNDS * LENGTH_COUNT];
    const int64_t points = to - from + 1, rounds = run->seeds < MOST_ROUNDS ? run->seeds : MOST_ROUNDS;
    for (int64_t i = 0; i < points; i++) {
        x[i] = log((double)LENGTHS[from + i]);
        for (int64_t r = 0; r < rounds; r++) {
            const int64_t at[] = {a, from + i, WIDE, TRAINING, r, QKV_ANY}, off[] = {less, from + i, WIDE, TRAINING, r, QKV_ANY};
            const double all = qkv_trial_number(qkv_run_find(run, at), "seconds"),
                         rest = less < 0 ? 0 : qkv_trial_number(qkv_run_find(run, off), "seconds");
            y[r * points + i] = all > rest ? x[i] + log(all - rest) : NAN;
        }
    }
    qkv_estimate e = qkv_estimate_slope(x, points, y, rounds);
    for (int64_t n = from; n <= to; n++)
        e.missing +=
            qkv_run_missing(run, AT(a, n, WIDE, TRAINING)) + (less < 0 ? 0 : qkv_run_missing(run, AT(less, n, WIDE, TRAINING)));
    return e;
}

/* The same of its operations, which are the same in each round. */
static double growth_of_operations(const qkv_run *run, int64_t a, int64_t from, int64_t to) {
    const double first = qkv_trial_number(qkv_run_find(run, AT(a, from, WIDE, TRAINING)), "flops"),
                 last = qkv_trial_number(qkv_run_find(run, AT(a, to, WIDE, TRAINING)), "flops");
    return 1 + log(last / first) / log((double)LENGTHS[to] / (double)LENGTHS[from]);
}

static void claim_growth(const qkv_run *run, qkv_outcome *o) {
    const qkv_asked square = {2, 0.1, NAN, "n^%.2f", 1}, linear = {1, 0.1, NAN, "n^%.2f", 1},
                    below = {-INFINITY, 0, 2, "n^%.2f", 1};
    const qkv_estimate full = growth(run, EIGHT, -1, AT_2048, AT_8192), pairs = growth(run, EIGHT, LOCAL, AT_2048, AT_8192),
                       local = growth(run, LOCAL, -1, AT_2048, AT_8192), rnn = growth(run, RNN, -1, AT_2048, AT_8192),
                       early = growth(run, EIGHT, -1, AT_256, AT_512);
    const double operations = growth_of_operations(run, EIGHT, AT_2048, AT_8192);
    qkv_outcome_claim c = {
        .row = 14,
        .article = "B",
        .says = "time grows with n^2 for full attention, with n for a window and for an RNN; at n 512 it is far below that",
        .figure = "n^2, n r, n d^2"};
    snprintf(c.ours, sizeof c.ours,
             "from 2,048 to 8,192 tokens: full n^%.2f, of which beyond a window's time n^%.2f, window n^%.2f, RNN n^%.2f; full "
             "from 256 to "
             "512: n^%.2f (d 512, training)",
             full.value, pairs.value, local.value, rnn.value, early.value);
    if (!qkv_run_find(run, AT(EIGHT, AT_2048, WIDE, TRAINING)))
        c.lacks = "Not measured by --quick: 'qkv compare speed' without it does.";
    qkv_claim_part(&c, "full, 2,048 to 8,192", &square, &full);
    qkv_claim_part(&c, "full beyond a window's time", &square, &pairs);
    qkv_claim_part(&c, "window of 64, 2,048 to 8,192", &linear, &local);
    qkv_claim_part(&c, "RNN, 2,048 to 8,192", &linear, &rnn);
    qkv_claim_part(&c, "full, 256 to 512, below n^2", &below, &early);
    qkv_outcome_add_claim(
        o, &c,
        isnan(operations)
            ? ""
            : qkv_outcome_text(o, "By its operations the full layer grows with n^%.2f there: its projections with n.", operations));
}

static void conclude(qkv_run *run, qkv_outcome *o) {
    for (int64_t d = 0; d < 2; d++)
        for (int64_t pass = 0; pass < 2; pass++) table_of(run, d, pass, o);
    table_of_crossings(run, o);
    claim_step_time(run, o);
    claim_speech(run, o);
    claim_growth(run, o);
}

const qkv_experiment qkv_experiment_speed = {
    .name = "speed",
    .summary = "time of attention, RNN, GRU and LSTM by the length of the text",
    .self_size = sizeof(speed),
    .seeds = 3,
    .prepare = prepare,
    .measure = measure,
    .whole = whole,
    .conclude = conclude,
};
