/* safetensors: u64 little-endian header size, JSON header, byte buffer. Reading checks everything before it allocates
 * from a number in the file; writing goes through the atomic output of base/file.h. */
#ifndef QKV_FORMATS_SAFETENSORS_H
#define QKV_FORMATS_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "base/file.h"

enum { QKV_TENSOR_RANK = 8, QKV_TENSOR_ALIGN = 64, QKV_HEADER_LIMIT = 100000000 };
typedef enum qkv_dtype {
    QKV_DTYPE_BOOL,
    QKV_DTYPE_U8,
    QKV_DTYPE_I8,
    QKV_DTYPE_F8_E4M3,
    QKV_DTYPE_F8_E5M2,
    QKV_DTYPE_U16,
    QKV_DTYPE_I16,
    QKV_DTYPE_F16,
    QKV_DTYPE_BF16,
    QKV_DTYPE_U32,
    QKV_DTYPE_I32,
    QKV_DTYPE_F32,
    QKV_DTYPE_U64,
    QKV_DTYPE_I64,
    QKV_DTYPE_F64
} qkv_dtype;

typedef struct qkv_tensor {
    const char *name;
    qkv_dtype dtype;
    int rank;
    int64_t shape[QKV_TENSOR_RANK];
    int64_t count;    /* product of the shape; 1 for rank 0 */
    const void *data; /* into the file's block; may be unaligned: memcpy */
    int64_t bytes;
} qkv_tensor;

typedef struct qkv_metadata {
    const char *key, *value;
} qkv_metadata;

const char *qkv_dtype_name(qkv_dtype dtype); /* as in the header: "F32" */
int64_t qkv_dtype_bytes(qkv_dtype dtype);
bool qkv_dtype_find(const char *name, qkv_dtype *dtype); /* false: no such type */

typedef struct qkv_safetensors qkv_safetensors;

/* Refuses, with the reason: header over 100 MB or past the end, not JSON, duplicate names, unknown dtype, product that
 * overflows or is not end-begin, overlap, gap, trailing bytes, non-string metadata, a name with NUL, too deep nesting.
 * A file of another kind is named as what it is, as far as its first bytes tell. */
qkv_status qkv_safetensors_open(qkv_ctx *ctx, const char *path, qkv_safetensors **file) QKV_MUST_USE;
/* The same from memory (for fuzzing). The block is copied. */
qkv_status qkv_safetensors_parse(qkv_ctx *ctx, const char *name, const void *data, int64_t size,
                                 qkv_safetensors **file) QKV_MUST_USE;
void qkv_safetensors_close(qkv_safetensors *file); /* NULL is harmless */
/* Gives back the memory of the numbers: `data` of every tensor is NULL from now on. They begin `header` bytes into the file, one
 * tensor right behind the other. */
void qkv_safetensors_drop(qkv_safetensors *file, int64_t *header);

int64_t qkv_safetensors_count(const qkv_safetensors *file);
const qkv_tensor *qkv_safetensors_at(const qkv_safetensors *file, int64_t index);      /* in the order of the data; one array */
const qkv_tensor *qkv_safetensors_find(const qkv_safetensors *file, const char *name); /* NULL: none */
const char *qkv_safetensors_metadata(const qkv_safetensors *file, const char *key);    /* NULL: none */
const qkv_metadata *qkv_safetensors_all_metadata(const qkv_safetensors *file, int64_t *count); /* sorted by key, bytewise */
const char *qkv_safetensors_name(const qkv_safetensors *file);
/* Copies as f32 or f64 reals (F32, F64, F16, BF16 are widened or rounded); other types are QKV_BAD_FORMAT. */
qkv_status qkv_tensor_reals(qkv_ctx *ctx, const qkv_tensor *t, void *reals /* real[count] */) QKV_MUST_USE;

/* Writes tensors in the given order, each starting at a multiple of 64 bytes of the file (zero-byte padding is not legal
 * between tensors, so sizes that are not a multiple go last: sort f32 by size class; the header is padded with spaces).
 * Applies the limits of the reader: what is written can be read. */
qkv_status qkv_safetensors_write(qkv_ctx *ctx, qkv_output *output, const qkv_tensor *tensors, int64_t count,
                                 const qkv_metadata *metadata, int64_t n_metadata) QKV_MUST_USE;

#endif
