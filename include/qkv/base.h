/* Version, status codes and the context that every call takes.
 *
 * NULL. A pointer must not be NULL unless a comment says that it may. A call that returns a status answers a NULL it cannot take
 * with QKV_BAD_ARGUMENT and a sentence in the context; where the context itself is NULL (or the model or reader that holds
 * it) there is nowhere to write one, and the status comes alone. Accessors that return a value give 0, NULL or "". Buffers
 * of 0 elements may be NULL. */
#ifndef QKV_BASE_H
#define QKV_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QKV_VERSION_MAJOR 0
#define QKV_VERSION_MINOR 1
#define QKV_VERSION_PATCH 0
#define QKV_VERSION_NUMBER (QKV_VERSION_MAJOR * 10000 + QKV_VERSION_MINOR * 100 + QKV_VERSION_PATCH)

#if defined(__GNUC__)
#define QKV_API __attribute__((visibility("default")))
#define QKV_MUST_USE __attribute__((warn_unused_result))
#else
#define QKV_API
#define QKV_MUST_USE
#endif

/* What a call returns. The values are pinned. Every call that returns a status other than QKV_OK has written one
 * sentence, with the numbers that matter, into its context (or that of the model or reader it was given): qkv_message().
 * qkv_ctx_create, which has none yet, writes it to `message`. Only a NULL context, model or reader leaves no sentence. */
typedef enum qkv_status {
    QKV_OK = 0,
    QKV_NO_MEMORY = 1,    /* the allocator refused; the sentence says how much was asked for */
    QKV_BAD_ARGUMENT = 2, /* the caller passed something no call could accept */
    QKV_BAD_CONFIG = 3,   /* options that contradict each other: heads=6 does not divide dim=256 */
    QKV_IO = 4,           /* the operating system refused to open, read, write or rename a file */
    QKV_BAD_FORMAT = 5,   /* a file is damaged or of another kind */
    QKV_BAD_DATA = 6,     /* a row of the user's data cannot be used; the sentence names file and line */
    QKV_NUMERIC = 7,      /* training diverged */
    QKV_STOPPED = 8,      /* the stop callback asked for an end; everything worth keeping was kept */
    QKV_INTERNAL = 9      /* a bug in qkv */
} qkv_status;

typedef struct qkv_ctx qkv_ctx;

/* Options of a context. Zero-initialise, set `struct_size`, change what you need; or pass NULL for all defaults. The struct
 * and `isa` are not needed after qkv_ctx_create; what the *_user pointers point at must outlive the context. All four
 * callbacks are called on the thread that made the call of qkv, never on another one, and must not call qkv with the
 * same context (nor with a model or reader made from it). */
typedef struct qkv_ctx_options {
    size_t struct_size; /* sizeof(qkv_ctx_options) */
    int threads;        /* 0: every core this process may use (affinity mask and cgroup quota) */
    const char *isa;    /* NULL: environment variable QKV_ISA, else the best one present; or scalar, avx2, avx512, neon */

    /* Memory. `allocate` returns `bytes` bytes aligned to 64 or NULL; `release` gets the same size back. NULL: the C
     * library's. Give both or neither. */
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer, size_t bytes);
    void *allocator_user;

    /* Asked between steps of long work; non-zero means "finish this step, keep what is worth keeping, return
     * QKV_STOPPED". NULL: never. */
    int (*stop)(void *user);
    void *stop_user;

    /* One line of text, no line break, for what a person should know (a warning, a row that was skipped). NULL: dropped. */
    void (*log)(void *user, const char *line);
    void *log_user;
} qkv_ctx_options;

/* Makes a context; `options` may be NULL. On failure *ctx is NULL and `message` (may be NULL) holds the sentence, cut to `message_size` bytes.
 * A context, and everything made from it, belongs to one thread at a time; different contexts are independent. It must
 * outlive what was made from it. A context that has run with several threads must not be used in a child after fork(). */
QKV_API qkv_status qkv_ctx_create(const qkv_ctx_options *options, qkv_ctx **ctx, char *message, size_t message_size) QKV_MUST_USE;
QKV_API void qkv_ctx_free(qkv_ctx *ctx); /* NULL is harmless */

/* The sentence of the last call on this context that failed; "" if none has. Valid until the next call. */
QKV_API const char *qkv_message(const qkv_ctx *ctx);
QKV_API const char *qkv_status_name(qkv_status status); /* "out of memory", ... never NULL */

QKV_API int qkv_version_number(void);        /* of the library that runs; compare with QKV_VERSION_NUMBER */
QKV_API const char *qkv_version_string(void); /* "0.1.0" */

/* Frees what a call of this library handed out and said to free with qkv_release. Give the context that the call had. NULL is
 * harmless. */
QKV_API void qkv_release(qkv_ctx *ctx, void *pointer);

#ifdef __cplusplus
}
#endif
#endif
