/* Ctrl-C and its relatives. The first asks, the second ends at once: files are written beside their place and renamed,
 * so there is nothing to damage. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Bits 0-5: the signal. Bits 6-30: when it came, in hundredths of a second. */
static volatile sig_atomic_t signal_got;

enum { TIME_MASK = 0x1ffffff, SAME_PRESS = 50 /* hundredths */ };

static int now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int)((t.tv_sec * 100 + t.tv_nsec / 10000000) & TIME_MASK);
}

/* timeout(1) and wrappers signal the process and then its group: two signals that are one request. */
static void on_signal(int number) {
    static const char text[] = "\nqkv: stopping after this step; once more to stop at once\n";
    int saved = errno, time = now();
    if (signal_got) {
        if (((time - (signal_got >> 6)) & TIME_MASK) >= SAME_PRESS) _exit(CLI_SIGNAL + number);
    } else {
        signal_got = time << 6 | number;
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
    }
    errno = saved;
}

void cli_signals_stoppable(void) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* nohup must keep working */
    if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
    /* A reader of the progress that goes away must not cost the training. */
    signal(SIGPIPE, SIG_IGN);
}

int cli_signals_got(void) {
    return (int)signal_got & 63;
}
