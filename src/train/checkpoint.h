/* The file that an interrupted training run goes on from: the state of the loop to the last bit, and what the run was made of,
 * so that another run cannot be continued by mistake. It is a safetensors file (docs/model-file.md), checksummed, written
 * atomically. */
#ifndef QKV_TRAIN_CHECKPOINT_H
#define QKV_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "train/loop.h"

/* `identity`: an object that names everything the bits of the run depend on (options, data, sizes). `notes`: an object that the
 * file carries along for whoever resumes; NULL: none. */
qkv_status qkv_checkpoint_save(qkv_ctx *ctx, const char *path, const json_t *identity, const json_t *notes,
                               const qkv_train_state *state) QKV_MUST_USE;

typedef struct qkv_checkpoint qkv_checkpoint;

/* Reads and checks the file. QKV_BAD_FORMAT for another kind of file, another version or a damaged one. Compares its identity
 * with `identity`, one level deep into objects, and refuses (QKV_BAD_ARGUMENT) with the first value that differs. */
qkv_status qkv_checkpoint_open(qkv_ctx *ctx, const char *path, const json_t *identity, qkv_checkpoint **checkpoint) QKV_MUST_USE;
int64_t qkv_checkpoint_step(const qkv_checkpoint *checkpoint);        /* steps done */
const json_t *qkv_checkpoint_notes(const qkv_checkpoint *checkpoint); /* borrowed; NULL where there are none */
/* Fills `state`, whose blocks are allocated and of the size they had. */
qkv_status qkv_checkpoint_restore(const qkv_checkpoint *checkpoint, qkv_train_state *state) QKV_MUST_USE;
void qkv_checkpoint_close(qkv_checkpoint *checkpoint); /* NULL is harmless */

#endif
