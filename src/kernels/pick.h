/* Which kernel tables this build has, which can run here, and the choice. */
#ifndef QKV_KERNELS_PICK_H
#define QKV_KERNELS_PICK_H

#include "base/ctx.h"
#include "kernels/bf16.h"
#include "kernels/kernels.h"

/* Tables that can run on this machine, best first; returns their number (at least 1: scalar). */
int qkv_kernels_present(const qkv_kernels *tables[4]);

/* The bf16 kernels that go with one of them on this machine. */
const qkv_bf16_kernels *qkv_kernels_bf16(const qkv_kernels *table);

/* Sets ctx->kernels, ctx->bf16 and ctx->isa_why. `isa` NULL: the best. A name that is not present is QKV_BAD_CONFIG with the list of
 * those that are. */
qkv_status qkv_kernels_pick(qkv_ctx *ctx, const char *isa) QKV_MUST_USE;

#endif
