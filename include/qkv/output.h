/* Files that are there whole or not at all: a temporary file beside the place, checked writes, fsync, rename, fsync of the
 * folder. A kill at any moment leaves the old file or the new one. Models, checkpoints and all else that qkv writes go
 * through here. */
#ifndef QKV_OUTPUT_H
#define QKV_OUTPUT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkv_output qkv_output;

/* Makes the temporary file. A link is followed; what is there and is no regular file is QKV_IO. `ctx` must outlive *output. */
QKV_API qkv_status qkv_output_open(qkv_ctx *ctx, const char *path, qkv_output **output) QKV_MUST_USE;
QKV_API qkv_status qkv_output_write(qkv_output *output, const void *data, int64_t size) QKV_MUST_USE;
/* Writes over bytes that were written before: what stands at the front may be known at the end only. */
QKV_API qkv_status qkv_output_rewrite(qkv_output *output, int64_t offset, const void *data, int64_t size) QKV_MUST_USE;
/* Makes the new file visible under its name, or leaves the old one and removes the temporary file; the latter too where a write
 * has failed before. Frees `output`. */
QKV_API qkv_status qkv_output_commit(qkv_output *output) QKV_MUST_USE;
QKV_API void qkv_output_discard(qkv_output *output); /* removes the temporary file and frees; NULL is harmless */

#ifdef __cplusplus
}
#endif
#endif
