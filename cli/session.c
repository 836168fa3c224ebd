/* The context of a run, its messages, and the end of the program. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "progress.h"

void cli_say_of(const char *of, const char *format, va_list args) {
    char text[8192];
    vsnprintf(text, sizeof text, format, args);
    cli_name_options(text);
    fprintf(stderr, "qkv%s%s: ", of[0] ? " " : "", of);
    /* A message may quote data, and data must not steer the terminal. */
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f) {
            fprintf(stderr, "\\x%02X", byte);
        } else {
            fputc(byte, stderr);
        }
    }
    fputc('\n', stderr);
}

void cli_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    cli_say_of("", format, args);
    va_end(args);
}

void *cli_alloc(size_t bytes) {
    return cli_grow(NULL, bytes);
}

void *cli_grow(void *pointer, size_t bytes) {
    void *p = realloc(pointer, bytes ? bytes : 1);
    if (!p) {
        cli_say("out of memory (%s asked for)", cli_of((int64_t)bytes, "byte").s);
        exit(CLI_FAILED);
    }
    return p;
}

static int stop_asked(void *user) {
    (void)user;
    return cli_signals_got() != 0;
}

static void log_line(void *user, const char *line) {
    if (user) cli_progress_clear(user);
    cli_say("warning: %s", line);
}

int cli_open(const cli_verb *verb, int64_t threads, int stoppable, cli_progress *progress, qkv_ctx **ctx) {
    char message[512] = "";
    qkv_ctx_options options = {.struct_size = sizeof options, .threads = (int)threads, .log = log_line, .log_user = progress};
    if (stoppable) options.stop = stop_asked;
    /* Without this a limit on the size of files kills instead of failing the write. */
    signal(SIGXFSZ, SIG_IGN);
    qkv_status status = qkv_ctx_create(&options, ctx, message, sizeof message);
    if (status == QKV_OK) return CLI_GO_ON;
    if (status == QKV_BAD_ARGUMENT || status == QKV_BAD_CONFIG) {
        const char *isa = getenv("QKV_ISA"); /* the program itself never names one */
        if (isa && isa[0] && !strncmp(message, "isa=", 4)) return cli_wrong_use(verb, "QKV_ISA%s", message + 3);
        return cli_wrong_use(verb, "%s", message);
    }
    cli_say("%s", message);
    return CLI_FAILED;
}

int cli_set_compute(const cli_verb *verb, qkv_ctx *ctx, qkv_model *model, const char *dtype) {
    if (!dtype) return CLI_GO_ON;
    const int bf16 = !strcmp(dtype, "bf16");
    if (!bf16 && strcmp(dtype, "f32") != 0) return cli_wrong_use(verb, "--dtype=%s: expected f32 or bf16", dtype);
    qkv_status status = qkv_model_set_compute(model, bf16 ? QKV_COMPUTE_BF16 : QKV_COMPUTE_F32);
    return status == QKV_OK ? CLI_GO_ON : cli_fail(ctx, status);
}

/* Its place among the names, -1 for none, -2 for another one. */
static int choice_of(const char *text, const char *const *names) {
    if (!text) return -1;
    for (int i = 0; names[i]; i++)
        if (!strcmp(text, names[i])) return i;
    return -2;
}

static int status_code(qkv_status status) {
    return status == QKV_BAD_ARGUMENT || status == QKV_BAD_CONFIG ? CLI_WRONG_USE : CLI_FAILED;
}

int cli_set_reading(const cli_verb *verb, qkv_ctx *ctx, qkv_model *model, const char *path, const cli_reading *reading) {
    static const char *const beyond[] = {"error", "clamp", "tile", "interpolate", NULL};
    static const char *const stretch[] = {"none", "linear", "ntk", "yarn", NULL};
    qkv_reading r;
    qkv_reading_init(&r);
    r.max_length = reading->max_length;
    r.position_beyond = choice_of(reading->beyond, beyond);
    r.rope_stretch = choice_of(reading->stretch, stretch);
    r.rope_factor = reading->factor;
    if (r.position_beyond == -2)
        return cli_wrong_use(verb, "--position-beyond=%s: expected one of error|clamp|tile|interpolate", reading->beyond);
    if (r.rope_stretch == -2) return cli_wrong_use(verb, "--rope-stretch=%s: expected one of none|linear|ntk|yarn", reading->stretch);
    const qkv_status status = qkv_model_set_reading(model, &r);
    if (status == QKV_OK) return CLI_GO_ON;
    cli_say("%s: %s", path, qkv_message(ctx)); /* of two models the one it is about */
    return status_code(status);
}

int cli_fail(const qkv_ctx *ctx, qkv_status status) {
    const char *message = qkv_message(ctx);
    cli_say("%s", message[0] ? message : qkv_status_name(status));
    return status_code(status);
}

/* Where errno is lost: a pipe that nobody reads any more says so. */
static int is_left(void) {
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

int cli_output_failed(int error) {
    clearerr(stdout); /* said once */
    if (error == EPIPE) return CLI_SIGNAL + SIGPIPE; /* who reads has enough: as quiet as the signal would be */
    cli_say("standard output: %s", error ? strerror(error) : "a write failed");
    return CLI_FAILED;
}

int cli_finish(int code) {
    int failed = ferror(stdout), error = 0;
    if (fflush(stdout)) {
        failed = 1;
        error = errno;
    }
    if (failed && !error && is_left()) error = EPIPE;
    if (close(STDOUT_FILENO) && errno != EBADF && !failed) {
        failed = 1;
        error = errno;
    }
    if (!failed) return code;
    int worse = cli_output_failed(error);
    return code == CLI_DONE ? worse : code;
}
