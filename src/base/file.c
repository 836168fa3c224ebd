#define _GNU_SOURCE 1
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/rng.h"

/* ---------------------------------------------------------------- reading */

enum { INPUT_BUFFER = 1 << 16 };

struct qkv_input {
    qkv_ctx *ctx;
    char *name;
    int fd;
    bool owned;    /* close fd */
    bool started;  /* the first bytes were looked at */
    bool ended;    /* read() has returned 0 */
    bool gzip, inflating; /* inflating: inside a member */
    int64_t members;      /* begun */
    z_stream z;
    int64_t begin, end; /* raw bytes not yet handed on */
    unsigned char raw[INPUT_BUFFER];
};

static qkv_status copy_text(qkv_ctx *ctx, const char *text, char **copy) {
    size_t n = strlen(text) + 1;
    QKV_TRY(qkv_alloc(ctx, (int64_t)n, 1, copy));
    memcpy(*copy, text, n);
    return QKV_OK;
}

qkv_status qkv_input_open(qkv_ctx *ctx, const char *path, qkv_input **input) {
    *input = NULL;
    if (!*path) return qkv_fail(ctx, QKV_IO, "the path is empty");
    qkv_input *in;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *in, &in));
    in->ctx = ctx;
    in->fd = -1;
    bool standard = strcmp(path, "-") == 0;
    qkv_status status = copy_text(ctx, standard ? "standard input" : path, &in->name);
    if (status == QKV_OK && !standard) {
        in->fd = open(path, O_RDONLY | O_CLOEXEC);
        in->owned = true;
        struct stat info;
        if (in->fd < 0) status = qkv_fail(ctx, QKV_IO, "%s: %s", path, strerror(errno));
        else if (fstat(in->fd, &info) == 0 && S_ISDIR(info.st_mode)) status = qkv_fail(ctx, QKV_IO, "%s: is a folder, not a file", path);
    } else if (status == QKV_OK) {
        in->fd = STDIN_FILENO;
    }
    if (status != QKV_OK) {
        qkv_input_close(in);
        return status;
    }
    *input = in;
    return QKV_OK;
}

/* Reads once into the raw buffer behind what is there. */
static qkv_status fill(qkv_input *in) {
    if (in->begin == in->end) in->begin = in->end = 0;
    if (in->ended || in->end == INPUT_BUFFER) return QKV_OK;
    ssize_t n;
    do n = read(in->fd, in->raw + in->end, (size_t)(INPUT_BUFFER - in->end));
    while (n < 0 && errno == EINTR && !qkv_stop_asked(in->ctx));
    if (n < 0) {
        if (errno == EINTR) return qkv_fail(in->ctx, QKV_STOPPED, "%s: stopped while reading", in->name);
        return qkv_fail(in->ctx, QKV_IO, "%s: %s", in->name, strerror(errno));
    }
    in->ended = n == 0;
    in->end += n;
    return QKV_OK;
}

/* The first two bytes decide; a pipe may deliver them one by one. */
static qkv_status start(qkv_input *in) {
    while (!in->ended && in->end < 2 && (in->end == 0 || in->raw[0] == 0x1f)) QKV_TRY(fill(in));
    in->started = true;
    in->gzip = in->end >= 2 && in->raw[0] == 0x1f && in->raw[1] == 0x8b;
    return QKV_OK;
}

static void *z_allocate(void *user, unsigned count, unsigned size) {
    qkv_input *in = user;
    void *p = NULL;
    return qkv_alloc(in->ctx, count, size, &p) == QKV_OK ? p : NULL;
}

static void z_release(void *user, void *pointer) {
    qkv_input *in = user;
    qkv_free(in->ctx, pointer);
}

static qkv_status begin_member(qkv_input *in) {
    in->z = (z_stream){.zalloc = z_allocate, .zfree = z_release, .opaque = in};
    int code = inflateInit2(&in->z, 15 + 16);
    if (code != Z_OK) return qkv_fail(in->ctx, QKV_NO_MEMORY, "out of memory: %s cannot be unpacked", in->name);
    in->inflating = true;
    in->members++;
    return QKV_OK;
}

/* Between members. Another one may follow. Zero padding, as tape tools write it, ends the file, and so does anything that is
 * not the start of a member: gzip itself ignores that with a warning. */
static qkv_status next_member(qkv_input *in) {
    bool padded = false;
    for (;;) {
        while (in->begin < in->end && in->raw[in->begin] == 0) in->begin++, padded = true;
        if (in->ended || in->end - in->begin >= 2 || (in->begin < in->end && in->raw[in->begin] != 0x1f)) break;
        if (in->end == INPUT_BUFFER && in->begin < in->end) { /* its last byte may be the first of a member */
            in->raw[0] = in->raw[in->begin];
            in->begin = 0, in->end = 1;
        }
        QKV_TRY(fill(in));
    }
    if (in->begin == in->end) return QKV_OK;
    const unsigned char *at = in->raw + in->begin;
    if (!padded && in->end - in->begin >= 2 && at[0] == 0x1f && at[1] == 0x8b) return begin_member(in);
    qkv_log(in->ctx, "%s: the bytes behind the end of the gzip stream are ignored", in->name);
    in->begin = in->end;
    in->ended = true;
    return QKV_OK;
}

static qkv_status read_gzip(qkv_input *in, void *buffer, int64_t size, int64_t *got) {
    while (*got == 0) {
        if (in->begin == in->end) QKV_TRY(fill(in));
        if (in->begin == in->end) {
            if (in->inflating) return qkv_fail(in->ctx, QKV_BAD_FORMAT, "%s: the gzip stream is cut off", in->name);
            return QKV_OK;
        }
        if (!in->inflating) {
            QKV_TRY(in->members > 0 ? next_member(in) : begin_member(in));
            if (!in->inflating) return QKV_OK;
        }
        in->z.next_in = in->raw + in->begin;
        in->z.avail_in = (unsigned)(in->end - in->begin);
        in->z.next_out = buffer;
        in->z.avail_out = (unsigned)(size < INT32_MAX ? size : INT32_MAX);
        unsigned room = in->z.avail_out;
        int code = inflate(&in->z, Z_NO_FLUSH);
        in->begin = in->end - in->z.avail_in;
        *got = room - in->z.avail_out;
        if (code == Z_STREAM_END) {
            inflateEnd(&in->z);
            in->inflating = false;
        } else if (code == Z_MEM_ERROR) {
            return qkv_fail(in->ctx, QKV_NO_MEMORY, "out of memory: %s cannot be unpacked", in->name);
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            return qkv_fail(in->ctx, QKV_BAD_FORMAT, "%s: the gzip stream is damaged (%s)", in->name, in->z.msg ? in->z.msg : "no header");
        }
    }
    return QKV_OK;
}

qkv_status qkv_input_read(qkv_input *in, void *buffer, int64_t size, int64_t *got) {
    *got = 0;
    if (size <= 0) return QKV_OK;
    if (!in->started) QKV_TRY(start(in));
    if (in->gzip) return read_gzip(in, buffer, size, got);
    if (in->begin == in->end) QKV_TRY(fill(in));
    int64_t n = in->end - in->begin < size ? in->end - in->begin : size;
    memcpy(buffer, in->raw + in->begin, (size_t)n);
    in->begin += n;
    *got = n;
    return QKV_OK;
}

bool qkv_input_ready(qkv_input *in) {
    if (in->begin < in->end || in->ended) return true;
    struct pollfd p = {.fd = in->fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0; /* an error will be found by the read */
}

int64_t qkv_input_size(qkv_input *in) {
    struct stat info;
    if (!in->started || in->gzip || fstat(in->fd, &info) != 0 || !S_ISREG(info.st_mode)) return -1;
    return (int64_t)info.st_size;
}

const char *qkv_input_name(const qkv_input *in) { return in->name; }

void qkv_input_close(qkv_input *in) {
    if (!in) return;
    if (in->inflating) inflateEnd(&in->z);
    if (in->owned && in->fd >= 0) close(in->fd);
    qkv_free(in->ctx, in->name);
    qkv_free(in->ctx, in);
}

qkv_status qkv_file_read(qkv_ctx *ctx, const char *path, int64_t limit, char **data, int64_t *size) {
    *data = NULL;
    *size = 0;
    if (!*path) return qkv_fail(ctx, QKV_IO, "the path is empty");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return qkv_fail(ctx, QKV_IO, "%s: %s", path, strerror(errno));
    struct stat info;
    qkv_status status = QKV_OK;
    if (fstat(fd, &info) != 0) status = qkv_fail(ctx, QKV_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode)) status = qkv_fail(ctx, QKV_IO, "%s: is a folder, not a file", path);
    else if (!S_ISREG(info.st_mode)) status = qkv_fail(ctx, QKV_IO, "%s: is not a regular file", path);
    else if (info.st_size > limit)
        status = qkv_fail(ctx, QKV_BAD_FORMAT, "%s: %lld bytes, more than the %lld that can be read", path, (long long)info.st_size, (long long)limit);
    char *p = NULL;
    int64_t n = 0;
    if (status == QKV_OK) status = qkv_alloc(ctx, (int64_t)info.st_size + 1, 1, &p);
    while (status == QKV_OK && n < info.st_size) {
        ssize_t got = read(fd, p + n, (size_t)(info.st_size - n));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = qkv_fail(ctx, QKV_IO, "%s: %s", path, strerror(errno));
        if (got <= 0) break; /* shorter than it said: it is being cut right now */
        n += got;
    }
    close(fd);
    if (status != QKV_OK) {
        qkv_free(ctx, p);
        return status;
    }
    p[n] = 0;
    *data = p;
    *size = n;
    return QKV_OK;
}

bool qkv_file_peek(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    if (n < 0) return false;
    text[n] = 0;
    return true;
}

bool qkv_file_poke(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const size_t size = strlen(text);
    const bool whole = write(fd, text, size) == (ssize_t)size;
    return close(fd) == 0 && whole;
}

/* ---------------------------------------------------------------- reading and writing anew */

int qkv_folder_lock(const char *path) {
    enum { TRIES = 400 }; /* two seconds */
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/');
    const size_t length = !slash || slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) return -1;
    if (slash) memcpy(folder, path, length), folder[length] = 0;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (fd >= 0) close(fd);
    return -1;
}

void qkv_folder_unlock(int lock) {
    if (lock < 0) return;
    flock(lock, LOCK_UN); /* also for a child that has it open */
    close(lock);
}

/* ---------------------------------------------------------------- writing */

enum { OUTPUT_BUFFER = 1 << 16 };

struct qkv_output {
    qkv_ctx *ctx;
    char *path, *temporary, *folder;
    int fd;
    bool created; /* the temporary file is there and is ours */
    bool broken;  /* a write failed: never to be made visible */
    int64_t written, fill; /* bytes handed over, and those of them that are in the buffer */
    char buffer[OUTPUT_BUFFER];
};

/* Asks the test's fault function; sets errno and returns true if the call is to fail. */
static bool fault(const qkv_ctx *ctx, const char *what) {
    int code = ctx->fault ? ctx->fault(ctx->fault_user, what) : 0;
    if (code < 0) kill(getpid(), SIGKILL);
    if (code > 0) errno = code;
    return code != 0;
}

static qkv_status failed(qkv_output *o, const char *what) {
    return qkv_fail(o->ctx, QKV_IO, "%s: %s failed: %s", o->path, what, strerror(errno));
}

/* A link is followed, so that the file it names is replaced and not the link. */
static qkv_status real_path(qkv_ctx *ctx, const char *path, char **copy) {
    char *target = realpath(path, NULL);
    qkv_status status = copy_text(ctx, target ? target : path, copy);
    free(target);
    return status;
}

static qkv_status open_temporary(qkv_output *o) {
    struct stat info;
    bool old = stat(o->path, &info) == 0;
    if (old && S_ISDIR(info.st_mode)) return qkv_fail(o->ctx, QKV_IO, "%s: is a folder", o->path);
    if (old && !S_ISREG(info.st_mode)) return qkv_fail(o->ctx, QKV_IO, "%s: is not a regular file", o->path);
    size_t size = strlen(o->path) + 40;
    QKV_TRY(qkv_alloc(o->ctx, (int64_t)size, 1, &o->temporary));
    for (uint64_t attempt = 0; attempt < 100; attempt++) {
        uint64_t mark = qkv_key2((uint64_t)getpid(), attempt) & 0xffffffffu;
        snprintf(o->temporary, size, "%s.%08llx.part", o->path, (unsigned long long)mark);
        if (fault(o->ctx, "open")) break;
        o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd >= 0) {
            o->created = true;
            if (old && fchmod(o->fd, info.st_mode & 07777) != 0) return failed(o, "keeping the file mode");
            return QKV_OK;
        }
        if (errno != EEXIST) break;
    }
    return failed(o, "creating a file");
}

qkv_status qkv_output_open(qkv_ctx *ctx, const char *path, qkv_output **output) {
    if (!ctx) return QKV_BAD_ARGUMENT;
    if (!output) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "there is no place for the output: output is NULL");
    *output = NULL;
    if (!path) return qkv_fail(ctx, QKV_BAD_ARGUMENT, "the path of an output is NULL");
    if (!*path) return qkv_fail(ctx, QKV_IO, "the path is empty");
    qkv_output *o;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *o, &o));
    o->ctx = ctx;
    o->fd = -1;
    qkv_status status = real_path(ctx, path, &o->path);
    if (status == QKV_OK) status = copy_text(ctx, o->path, &o->folder);
    if (status == QKV_OK) status = open_temporary(o);
    if (status != QKV_OK) {
        qkv_output_discard(o);
        return status;
    }
    *output = o;
    return QKV_OK;
}

/* offset -1: behind what the file has */
static qkv_status write_all(qkv_output *o, int64_t offset, const char *p, int64_t size) {
    o->broken = true;
    while (size > 0) {
        if (fault(o->ctx, "write")) return failed(o, "writing");
        ssize_t n = offset < 0 ? write(o->fd, p, (size_t)size) : pwrite(o->fd, p, (size_t)size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(o, "writing");
        p += n;
        size -= n;
        if (offset >= 0) offset += n;
    }
    o->broken = false;
    return QKV_OK;
}

static qkv_status flush(qkv_output *o) {
    int64_t n = o->fill;
    o->fill = 0;
    return write_all(o, -1, o->buffer, n);
}

static qkv_status check_write(qkv_output *o, const void *data, int64_t size) {
    if (size < 0 || (size > 0 && !data))
        return qkv_fail(o->ctx, QKV_BAD_ARGUMENT, "%s: %lld bytes at %s cannot be written", o->path, (long long)size, data ? "an address" : "NULL");
    if (o->broken) return qkv_fail(o->ctx, QKV_IO, "%s: a write has failed before", o->path);
    return QKV_OK;
}

qkv_status qkv_output_write(qkv_output *o, const void *data, int64_t size) {
    if (!o) return QKV_BAD_ARGUMENT;
    QKV_TRY(check_write(o, data, size));
    if (o->fill + size > OUTPUT_BUFFER) QKV_TRY(flush(o));
    o->written += size;
    if (size > OUTPUT_BUFFER) return write_all(o, -1, data, size);
    if (size) memcpy(o->buffer + o->fill, data, (size_t)size);
    o->fill += size;
    return QKV_OK;
}

qkv_status qkv_output_rewrite(qkv_output *o, int64_t offset, const void *data, int64_t size) {
    if (!o) return QKV_BAD_ARGUMENT;
    QKV_TRY(check_write(o, data, size));
    if (offset < 0 || size > o->written - offset)
        return qkv_fail(o->ctx, QKV_BAD_ARGUMENT, "%s: bytes %lld..%lld are not among the %lld written", o->path, (long long)offset,
                        (long long)(offset + size - 1), (long long)o->written);
    QKV_TRY(flush(o));
    return write_all(o, offset, data, size);
}

static qkv_status sync_folder(qkv_output *o) {
    char *slash = strrchr(o->folder, '/');
    if (slash == o->folder) slash[1] = 0;
    else if (slash) *slash = 0;
    int fd = open(slash ? o->folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return QKV_OK; /* a folder that may be written but not read: the rename stands */
    bool bad = fault(o->ctx, "fsync of the folder") || (fsync(fd) != 0 && errno != EINVAL && errno != EROFS);
    qkv_status status = bad ? failed(o, "syncing the folder") : QKV_OK;
    close(fd);
    return status;
}

static qkv_status make_visible(qkv_output *o) {
    if (o->broken) return qkv_fail(o->ctx, QKV_IO, "%s: a write has failed before", o->path);
    QKV_TRY(flush(o));
    if (fault(o->ctx, "fsync") || fsync(o->fd) != 0) return failed(o, "syncing");
    int fd = o->fd;
    o->fd = -1;
    bool bad = fault(o->ctx, "close");
    int error = errno;
    if (close(fd) != 0) bad = true;
    else errno = error;
    if (bad) return failed(o, "closing");
    if (fault(o->ctx, "rename") || rename(o->temporary, o->path) != 0) return failed(o, "renaming");
    o->created = false;
    return sync_folder(o);
}

qkv_status qkv_output_commit(qkv_output *o) {
    if (!o) return QKV_BAD_ARGUMENT;
    qkv_status status = make_visible(o);
    qkv_output_discard(o);
    return status;
}

void qkv_output_discard(qkv_output *o) {
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    if (o->created) unlink(o->temporary);
    qkv_free(o->ctx, o->path);
    qkv_free(o->ctx, o->temporary);
    qkv_free(o->ctx, o->folder);
    qkv_free(o->ctx, o);
}
