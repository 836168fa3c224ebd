/* Ctrl-C and its relatives. The first asks, the second ends at once: files are written beside their place and renamed,
 * so there is nothing to damage. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Bits 0-5: the signal. Bits 6-30: when it came, in hundredths of a second. */
static volatile sig_atomic_t signal_got;
static volatile sig_atomic_t phase;

enum { TIME_MASK = 0x1ffffff, SAME_PRESS = 50 /* hundredths */ };

static int now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int)((t.tv_sec * 100 + t.tv_nsec / 10000000) & TIME_MASK);
}

static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* A signal that comes just before a read() does not interrupt it: as long as the program may wait for data, this comes
 * again every second. */
static void on_alarm(int number) {
    (void)number;
    if (phase == CLI_READS || phase == CLI_WRITES) alarm(1);
}

static void first(int number, int time) {
    signal_got = time << 6 | number;
    if (phase == CLI_READS) {
        say("\nqkv: stopping; nothing was trained yet\n");
        alarm(1);
    } else if (phase == CLI_WRITES) {
        alarm(1);
    } else if (phase == CLI_STEPS) {
        say("\nqkv: stopping after this step; once more to stop at once\n");
    } else if (phase == CLI_MEASURES) {
        say("\nqkv: stopping after the step or repeat at hand; once more to stop at once\n");
    }
}

/* timeout(1) and wrappers signal the process and then its group: two signals that are one request. */
static void on_signal(int number) {
    int saved = errno, time = now();
    if (!signal_got) {
        first(number, time);
    } else if (((time - (signal_got >> 6)) & TIME_MASK) >= SAME_PRESS) {
        if (phase <= CLI_STEPS) say("\nqkv: stopped at once; no model was written\n");
        if (phase == CLI_MEASURES) say("\nqkv: stopped at once\n");
        if (phase == CLI_SAVES) say("\nqkv: stopped at once, while the model was being written\n");
        _exit(CLI_SIGNAL + number);
    }
    errno = saved;
}

static void install(int flags) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* nohup must keep working */
    if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
}

void cli_signals_stoppable(void) {
    install(0); /* without SA_RESTART: a read() that waits for data must end */
    /* A reader of the progress that goes away must not cost the training. */
    signal(SIGPIPE, SIG_IGN);
}

void cli_signals_phase(cli_phase now_in) {
    /* Everything is read, and the library asks often: a write to the log or the terminal need not be cut short. */
    if (phase == CLI_READS && now_in != CLI_READS) install(SA_RESTART);
    phase = now_in;
}

void cli_signals_ask(int number) {
    if (!signal_got) signal_got = now() << 6 | number;
}

int cli_signals_got(void) {
    return (int)signal_got & 63;
}
