#include "progress.h"

#include <math.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static double wall(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int terminal_width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20) return 80;
    return size.ws_col > 200 ? 200 : size.ws_col;
}

void cli_progress_init(cli_progress *p, double peak, double epochs) {
    memset(p, 0, sizeof *p);
    p->terminal = cli_is_terminal(stderr);
    p->peak = peak;
    p->peak_name = "peak";
    p->epochs = epochs;
}

void cli_progress_clear(cli_progress *p) {
    if (p->drawn) fputs("\r\033[K", stderr);
    p->drawn = 0;
}

double cli_progress_share(const cli_progress *p) {
    return p->peak > 0 && p->all_seconds > 0 ? p->all_flops / p->all_seconds / p->peak : NAN;
}

static void account(cli_progress *p, const qkv_train_step *s) {
    double fade = exp(-s->seconds / 5);
    p->tokens = p->tokens * fade + (double)s->tokens;
    p->seconds = p->seconds * fade + s->seconds;
    p->flops = p->flops * fade + s->flops;
    if (!s->skipped && isfinite(s->loss)) {
        p->loss = 0.95 * p->loss + 0.05 * s->loss;
        p->loss_weight = 0.95 * p->loss_weight + 0.05;
    }
    p->all_tokens += (double)s->tokens;
    p->all_seconds += s->seconds;
    p->all_flops += s->flops;
    p->steps_done++;
    p->skipped = s->skipped_total;
}

/* What is left, by the mean of everything so far: evaluations are in it too. */
static double seconds_left(const cli_progress *p, const qkv_train_step *s, double now) {
    return (now - p->start) / (double)p->steps_done * (double)(s->steps - s->step);
}

enum { MOST = 512 };

/* One field more, with a space before it, or two where there is room. */
static int __attribute__((format(printf, 4, 5))) append(char *text, int length, const char *space, const char *format, ...) {
    if (length) length += snprintf(text + length, (size_t)(MOST - length), "%s", space);
    va_list args;
    va_start(args, format);
    if (length < MOST) length += vsnprintf(text + length, (size_t)(MOST - length), format, args);
    va_end(args);
    return length < MOST ? length : MOST - 1;
}

/* The fields of a line. `brief` 1: everything in few columns; 2: what matters most. */
static int fields(const cli_progress *p, const qkv_train_step *s, double now, int brief, char *text) {
    const char *space = brief ? " " : "  ";
    double rate = p->seconds > 0 ? p->tokens / p->seconds : 0;
    int n = append(text, 0, space, brief ? "%sepoch %.1f" : "%sepoch %.2f", p->what ? p->what : "", s->epoch);
    if (p->epochs > 0) n = append(text, n, "", "/%s", cli_short(p->epochs).s);
    if (!brief) n = append(text, n, space, "step %s/%s", cli_count(s->step).s, cli_count(s->steps).s);
    if (p->loss_weight > 0) n = append(text, n, space, "loss %s", cli_loss(p->loss / p->loss_weight).s);
    if (brief < 2) n = append(text, n, space, brief ? "lr %.1e" : "lr %.2e", s->lr);
    if (brief && rate >= 10000) {
        n = append(text, n, space, "%.0fk tok/s", rate / 1000);
    } else {
        n = append(text, n, space, "%s tok/s", cli_count((int64_t)rate).s);
    }
    if (p->peak > 0 && p->seconds > 0 && brief < 2)
        n = append(text, n, space, brief ? "%.0f %% %s" : "%.0f %% of %s", 100 * p->flops / p->seconds / p->peak, p->peak_name);
    if (p->skipped) n = append(text, n, space, "%s skipped", cli_count(p->skipped).s);
    return append(text, n, space, "%s left", cli_duration(seconds_left(p, s, now)).s);
}

static void draw_bar(cli_progress *p, const qkv_train_step *s, double now) {
    char text[MOST], bar[64];
    int width = terminal_width() - 1, length = 0;
    for (int brief = 0; brief <= 2; brief++) {
        length = fields(p, s, now, brief, text);
        if (length + 9 <= width) break;
    }
    int cells = width - length - 3;
    if (cells > 30) cells = 30;
    if (length > width) text[width] = 0;
    if (cells >= 4) {
        int full = s->steps > 0 ? (int)(cells * s->step / s->steps) : 0;
        for (int i = 0; i < cells; i++) bar[i] = i < full ? '#' : '-';
        bar[cells] = 0;
        fprintf(stderr, "\r\033[K[%s] %s", bar, text);
    } else {
        fprintf(stderr, "\r\033[K%s", text);
    }
    p->drawn = 1;
}

void cli_progress_step(cli_progress *p, const qkv_train_step *s) {
    double now = wall();
    if (!p->started) {
        p->started = 1;
        p->start = now - s->seconds;
        if (p->shown == 0) p->shown = p->start; /* else that of the training before */
    }
    account(p, s);
    if (now - p->shown < (p->terminal ? 0.1 : 10)) return;
    p->shown = now;
    if (p->terminal) {
        draw_bar(p, s, now);
    } else {
        char text[MOST];
        fields(p, s, now, 0, text);
        fprintf(stderr, "%s\n", text);
    }
}

void cli_progress_rows(cli_progress *p, int64_t rows) {
    double now = wall();
    if (!p->started) {
        p->started = 1;
        p->start = p->shown = now;
    }
    if (now - p->shown < (p->terminal ? 0.1 : 10)) return;
    p->shown = now;
    fprintf(stderr, "%s%s rows, %s rows/s%s", p->terminal ? "\r\033[K" : "", cli_count(rows).s,
            cli_count((int64_t)((double)rows / (now - p->start))).s, p->terminal ? "" : "\n");
    p->drawn = p->terminal;
}

void cli_progress_items(cli_progress *p, int64_t done, int64_t all, const char *what) {
    double now = wall();
    if (!p->started) {
        p->started = 1;
        p->start = p->shown = now;
    }
    if (!p->terminal && now - p->shown < 10) return;
    p->shown = now;
    char text[MOST], left[48] = "";
    if (done > 0) snprintf(left, sizeof left, ", %s left", cli_duration((now - p->start) / (double)done * (double)(all - done)).s);
    snprintf(text, sizeof text, "%s of %s  %s%s", cli_count(done).s, cli_count(all).s, what, left);
    if (p->terminal) text[terminal_width() - 1 < MOST ? terminal_width() - 1 : MOST - 1] = 0;
    fprintf(stderr, "%s%s%s", p->terminal ? "\r\033[K" : "", text, p->terminal ? "" : "\n");
    p->drawn = p->terminal;
}

void cli_progress_line(cli_progress *p, const char *line) {
    double now = wall();
    if (p->shown == 0) p->shown = now;
    if (now - p->shown < (p->terminal ? 0.1 : 10)) return;
    p->shown = now;
    int most = p->terminal ? terminal_width() - 1 : MOST;
    fprintf(stderr, "%s%.*s%s", p->terminal ? "\r\033[K" : "", most, line, p->terminal ? "" : "\n");
    p->drawn = p->terminal;
}
