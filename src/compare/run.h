/* An experiment being run: a list of trials (cells), each measured once or taken from the file, and what is made of them. */
#ifndef QKV_COMPARE_RUN_H
#define QKV_COMPARE_RUN_H

#include "compare/cells.h"
#include "report/outcome.h"

enum { QKV_TRIAL_PLACES = 6, QKV_ANY = -1, QKV_SAMPLES = 128 };

typedef struct qkv_trial {
    char key[640];                /* all that the measurement depends on */
    char what[128];               /* for people */
    int64_t at[QKV_TRIAL_PLACES]; /* arm, size, seed, ... as the experiment numbers them, from 0 */
    double weight;                /* how long it takes, beside the others */
    bool left_out;                /* another part of the experiment was asked for */
    const json_t *values;         /* NULL: not done */
} qkv_trial;

typedef struct qkv_run qkv_run;

typedef struct qkv_experiment {
    const char *name, *summary;
    size_t self_size;
    bool takes_data; /* a file of rows has a place in it */
    int64_t seeds;   /* by default; 0: it trains nothing */
    /* Zeroed self; adds the trials and says the setting. */
    qkv_status (*prepare)(qkv_run *run);
    /* Fills `values` (an object). */
    qkv_status (*measure)(qkv_run *run, const qkv_trial *trial, json_t *values);
    /* Has it all that `measure` gives, each a number that can be? Only then a cell is taken from a file. */
    bool (*whole)(const qkv_run *run, const qkv_trial *trial, const json_t *values);
    /* Of the trials that are done. */
    void (*conclude)(qkv_run *run, qkv_outcome *outcome);
    void (*drop)(qkv_run *run); /* may be NULL */
} qkv_experiment;

extern const qkv_experiment *const qkv_experiments[]; /* ends with NULL */

struct qkv_run {
    qkv_ctx *ctx;
    const qkv_experiment *experiment;
    const qkv_compare_options *o;
    const qkv_compare_callbacks *callbacks;
    int64_t seeds;
    void *self;
    const char *machine; /* what it runs on; part of the keys of timings */
    char setting[768];
    qkv_cells cells;
    qkv_trial *trials;
    int64_t count, capacity;
    int64_t done, taken, at_hand;
    double begun, trial_begun, told;
    double measured_seconds, measured_weight; /* of the trials that were not taken */
};

/* A further trial. `key` and `what` are printed into it by the caller, through the pointer, which is valid until the next call. */
qkv_status qkv_run_add(qkv_run *run, qkv_trial **trial) QKV_MUST_USE;

/* A name as it stands in keys: of rows of a file what they are, not where they lie (what begins with "(rows "); of one that has more
 * than `most` bytes (200 at most) so many of them and a hash of all. */
typedef struct qkv_key_name {
    char s[256];
} qkv_key_name;
qkv_key_name qkv_name_in_key(const char *name, int64_t most);

/* Tells how far the trial at hand is, 0 .. 1, if it is time to. */
void qkv_run_tell(qkv_run *run, double part);

/* Are all these (the last is NULL) there, and numbers from low to high? */
bool qkv_values_within(const json_t *values, const char *const *names, double low, double high);

/* ---- what the trials came to ---- */

bool qkv_trial_is_at(const qkv_trial *trial, const int64_t at[QKV_TRIAL_PLACES]);
/* The first that is there at these places (QKV_ANY: wherever), done or not; NULL: none. */
const qkv_trial *qkv_run_find(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES]);
/* Is any of those at these places done? */
bool qkv_run_has(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES]);
double qkv_trial_number(const qkv_trial *trial, const char *name); /* NaN: not done, or has none */

/* How many of them are not done. */
int64_t qkv_run_missing(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES]);
/* Of how many of them the number is above 0; NaN: none is done. */
double qkv_run_count(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *name);

/* The number of each trial at these places, in order, NaN where it is not done. */
int64_t qkv_run_samples(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *name, double samples[QKV_SAMPLES]);
/* The quotient of those at a by those at b, one by one, and its interval. */
qkv_estimate qkv_run_ratio(const qkv_run *run, const int64_t a[QKV_TRIAL_PLACES], const int64_t b[QKV_TRIAL_PLACES],
                           const char *name);
/* Their mean and interval. */
qkv_estimate qkv_run_mean(const qkv_run *run, const int64_t at[QKV_TRIAL_PLACES], const char *name, double error);

/* Runs it; see qkv_compare_run. The options were checked. `machine`: CPU, instruction set, threads. */
qkv_status qkv_experiment_run(qkv_ctx *ctx, const qkv_experiment *experiment, const qkv_compare_options *options,
                              const char *machine, const qkv_compare_callbacks *callbacks,
                              qkv_compare_result **result) QKV_MUST_USE;

#endif
