/* How far a training is: a bar on a terminal, elsewhere a plain line every ten seconds. */
#ifndef QKV_CLI_PROGRESS_H
#define QKV_CLI_PROGRESS_H

#include "cli.h"

struct cli_progress {
    int terminal;
    double peak;   /* floating-point operations a second; 0: not known */
    const char *peak_name;
    double epochs; /* of the whole training, 0: not known */
    const char *what; /* in front of each line; NULL: nothing */

    int started, drawn;  /* drawn: a bar is on the line where the cursor stands */
    double start, shown; /* wall time of the first step's begin, of the last line (0: there is none; else what is said next waits its time) */
    int64_t steps_done;
    double tokens, seconds, flops; /* of the last few seconds, fading */
    double loss, loss_weight;      /* smoothed */
    double all_tokens, all_seconds, all_flops;
    int64_t skipped;
};

void cli_progress_init(cli_progress *p, double peak, double epochs);
void cli_progress_step(cli_progress *p, const qkv_train_step *s);
void cli_progress_clear(cli_progress *p);              /* takes the bar away, so that a line can be printed */
double cli_progress_share(const cli_progress *p);      /* of the peak, over all steps; NaN if not known */
void cli_progress_rows(cli_progress *p, int64_t rows); /* for a pass over data: rows done */

/* For a list of things: how many are done, and what is being done. */
void cli_progress_items(cli_progress *p, int64_t done, int64_t all, const char *what);

/* Any line, for work that knows best how far it is. */
void cli_progress_line(cli_progress *p, const char *line);

#endif
