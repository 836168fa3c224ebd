/* What several trainings say about the same test rows. */
#include "compare/lesson.h"

#include <math.h>
#include <string.h>

/* Digits of the trial's answers, of exactly these rows; NULL: it has none. */
static const char *answers_of(const qkv_trial *t, const char *name, const qkv_ragged *test) {
    const char *digits = t->values ? json_string_value(json_object_get(t->values, name)) : NULL;
    return digits && (int64_t)strlen(digits) == (test->count + 3) / 4 ? digits : NULL;
}

static int right(const char *digits, int64_t row) {
    const char d = digits[row / 4];
    return (d <= '9' ? d - '0' : d - 'a' + 10) >> row % 4 & 1;
}

static bool asked(const qkv_ragged *test, int64_t row, int64_t shortest, int64_t longest) {
    const int64_t n = test->offset[row + 1] - test->offset[row];
    return n >= shortest && n <= longest;
}

qkv_estimate qkv_run_accuracy_of(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *answers, const qkv_ragged *test,
                                 int64_t shortest, int64_t longest) {
    double of[QKV_SAMPLES], mean = 0;
    int64_t seeds = 0, rows = 0;
    for (int64_t i = 0; i < run->count && seeds < QKV_SAMPLES; i++) {
        const qkv_trial *t = &run->trials[i];
        const char *digits = qkv_trial_is_at(t, at) ? answers_of(t, answers, test) : NULL;
        int64_t hits = 0;
        rows = 0;
        for (int64_t r = 0; digits && r < test->count; r++)
            if (asked(test, r, shortest, longest)) hits += right(digits, r), rows++;
        if (rows > 0) of[seeds++] = (double)hits / (double)rows, mean += of[seeds - 1];
    }
    mean = seeds > 0 ? mean / (double)seeds : NAN;
    for (int64_t r = rows = 0; r < test->count; r++) rows += asked(test, r, shortest, longest);
    return qkv_estimate_mean(of, seeds, rows > 0 && seeds > 0 ? sqrt(mean * (1 - mean) / (double)rows) : 0);
}

/* The trial at `at` that has the same seed, and all else that `at` leaves open, as `other`. */
static const qkv_trial *partner(const qkv_run *run, const qkv_trial *other, const int64_t at[QKV_TRIAL_PLACES]) {
    int64_t all[QKV_TRIAL_PLACES];
    for (int i = 0; i < QKV_TRIAL_PLACES; i++) all[i] = at[i] == QKV_ANY ? other->at[i] : at[i];
    return qkv_run_find(run, all);
}

qkv_estimate qkv_run_gain_of(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const char *answers_a,
                             const int64_t b[QKV_TRIAL_PLACES], const char *answers_b, const qkv_ragged *test, int64_t shortest,
                             int64_t longest) {
    double of[QKV_SAMPLES], *gain, sum = 0, squares = 0;
    int64_t seeds = 0, rows = 0;
    if (qkv_alloc_zero(run->ctx, test->count, sizeof *gain, &gain) != QKV_OK) return qkv_estimate_mean(of, 0, 0);
    for (int64_t r = 0; r < test->count; r++) rows += asked(test, r, shortest, longest);
    for (int64_t i = 0; i < run->count && rows > 0 && seeds < QKV_SAMPLES; i++) {
        const qkv_trial *one = &run->trials[i], *other = qkv_trial_is_at(one, a) ? partner(run, one, b) : NULL;
        const char *first = other ? answers_of(one, answers_a, test) : NULL,
                   *second = other ? answers_of(other, answers_b, test) : NULL;
        if (!first || !second) continue;
        double all = 0;
        for (int64_t r = 0; r < test->count; r++) {
            if (!asked(test, r, shortest, longest)) continue;
            const int g = right(second, r) - right(first, r);
            gain[r] += g;
            all += g;
        }
        of[seeds++] = all / (double)rows;
    }
    for (int64_t r = 0; r < test->count && seeds > 0; r++)
        if (asked(test, r, shortest, longest))
            sum += gain[r] / (double)seeds, squares += gain[r] * gain[r] / (double)(seeds * seeds);
    qkv_free(run->ctx, gain);
    const double mean = rows > 0 ? sum / (double)rows : 0,
                 variance = rows > 1 ? (squares - (double)rows * mean * mean) / (double)(rows - 1) : 0;
    return qkv_estimate_mean(of, seeds, rows > 1 && seeds > 0 ? sqrt(fmax(variance, 0) / (double)rows) : 0);
}

qkv_estimate qkv_run_accuracy(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const qkv_ragged *test, int64_t shortest,
                              int64_t longest) {
    return qkv_run_accuracy_of(run, at, "right", test, shortest, longest);
}

qkv_estimate qkv_run_gain(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const int64_t b[QKV_TRIAL_PLACES],
                          const qkv_ragged *test, int64_t shortest, int64_t longest) {
    return qkv_run_gain_of(run, a, "right", b, "right", test, shortest, longest);
}
