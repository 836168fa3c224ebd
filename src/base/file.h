/* The only file that opens files. */
#ifndef QKV_BASE_FILE_H
#define QKV_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctx.h"
#include "qkv/output.h"

/* ---- reading ---- */
typedef struct qkv_input qkv_input;

/* Opens a file or "-" (standard input); gzip is recognised by its first bytes. Several members in a row are legal; other bytes
 * behind a member end the input, with a line in the log. */
qkv_status qkv_input_open(qkv_ctx *ctx, const char *path, qkv_input **input) QKV_MUST_USE;
/* Reads up to `size` bytes as soon as some are there; *got = 0 at the end. A damaged gzip stream is QKV_BAD_FORMAT. */
qkv_status qkv_input_read(qkv_input *input, void *buffer, int64_t size, int64_t *got) QKV_MUST_USE;
/* True if qkv_input_read would not wait. */
bool qkv_input_ready(qkv_input *input);
int64_t qkv_input_size(qkv_input *input); /* bytes of a file that is no pipe and not gzip; else -1 */
const char *qkv_input_name(const qkv_input *input); /* the path, or "standard input" */
void qkv_input_close(qkv_input *input);

/* Whole file (not gzip) into one block for qkv_free, with a NUL after it. Refuses files over `limit` bytes. */
qkv_status qkv_file_read(qkv_ctx *ctx, const char *path, int64_t limit, char **data, int64_t *size) QKV_MUST_USE;

/* The first bytes of a small system file as a string; false if it cannot be read. */
bool qkv_file_peek(const char *path, char *text, size_t size);
/* Writes a word to a system file that is there; false if that cannot be. */
bool qkv_file_poke(const char *path, const char *text);

/* ---- atomic writing: qkv/output.h ---- */

/* For reading a file and writing it anew: holds off all who do the same in its folder, for as long as it takes, and gives a number
 * for qkv_folder_unlock. Where a folder cannot be locked, or somebody has it for seconds (stopped, perhaps), -1: nobody is held off. */
int qkv_folder_lock(const char *path);
void qkv_folder_unlock(int lock);

#endif
