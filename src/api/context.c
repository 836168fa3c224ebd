/* Context, version and status names of qkv/base.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/par.h"
#include "kernels/pick.h"

qkv_status qkv_ctx_create(const qkv_ctx_options *options, qkv_ctx **ctx, char *message, size_t message_size) {
    if (message && message_size) message[0] = 0;
    qkv_ctx start = {0};
    if (!ctx) {
        if (message && message_size) snprintf(message, message_size, "there is no place for the context: ctx is NULL");
        return QKV_BAD_ARGUMENT;
    }
    *ctx = NULL;
    qkv_ctx_options known = {.struct_size = sizeof known};
    qkv_status status = QKV_OK;
    if (options) {
        /* A caller built against an older header has a shorter struct; a longer one would hold what we cannot honour. */
        if (options->struct_size < sizeof(size_t) || options->struct_size > sizeof known)
            status = qkv_fail(&start, QKV_BAD_ARGUMENT, "qkv_ctx_options.struct_size is %zu, this library knows %zu", options->struct_size,
                              sizeof known);
        else memcpy(&known, options, options->struct_size);
    }
    if (status == QKV_OK && !known.allocate != !known.release)
        status = qkv_fail(&start, QKV_BAD_ARGUMENT, "allocate and release must be given together");
    if (status == QKV_OK && (known.threads < 0 || known.threads > 1024))
        status = qkv_fail(&start, QKV_BAD_ARGUMENT, "threads=%d is not in 0..1024", known.threads);
    if (status == QKV_OK) {
        const char *isa = known.isa ? known.isa : getenv("QKV_ISA");
        qkv_ctx_setup(&start, &known);
        status = qkv_kernels_pick(&start, isa && *isa ? isa : NULL);
    }
    qkv_ctx *made = NULL;
    if (status == QKV_OK) status = qkv_alloc(&start, 1, sizeof *made, &made);
    if (status != QKV_OK) {
        if (message && message_size) snprintf(message, message_size, "%s", start.message);
        return status;
    }
    *made = start;
    *ctx = made;
    return QKV_OK;
}

void qkv_ctx_free(qkv_ctx *ctx) {
    if (!ctx) return;
    qkv_par_close(ctx);
    qkv_scratch_close(ctx);
    qkv_ctx copy = *ctx; /* the allocator is needed after the block that holds it is gone */
    qkv_free(&copy, ctx);
}

const char *qkv_message(const qkv_ctx *ctx) { return ctx ? ctx->message : ""; }

const char *qkv_status_name(qkv_status status) {
    switch (status) {
    case QKV_OK: return "ok";
    case QKV_NO_MEMORY: return "out of memory";
    case QKV_BAD_ARGUMENT: return "bad argument";
    case QKV_BAD_CONFIG: return "bad configuration";
    case QKV_IO: return "input or output failed";
    case QKV_BAD_FORMAT: return "bad file format";
    case QKV_BAD_DATA: return "bad data";
    case QKV_NUMERIC: return "numbers diverged";
    case QKV_STOPPED: return "stopped";
    case QKV_INTERNAL: return "internal error";
    }
    return "unknown status";
}

int qkv_version_number(void) { return QKV_VERSION_NUMBER; }

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
const char *qkv_version_string(void) { return TEXT(QKV_VERSION_MAJOR) "." TEXT(QKV_VERSION_MINOR) "." TEXT(QKV_VERSION_PATCH); }

void qkv_release(qkv_ctx *ctx, void *pointer) {
    if (ctx) qkv_free(ctx, pointer);
}
