/* The safetensors reader on any bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/real.h"
#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds) abort();
}

static int is_real(qkv_dtype d) {
    return d == QKV_DTYPE_F16 || d == QKV_DTYPE_BF16 || d == QKV_DTYPE_F32 || d == QKV_DTYPE_F64;
}

static void check_tensor(qkv_ctx *ctx, const qkv_safetensors *file, const qkv_tensor *t) {
    int64_t count = 1;
    require(t->rank >= 0 && t->rank <= QKV_TENSOR_RANK && t->name[0] != 0);
    for (int i = 0; i < t->rank; i++) count *= t->shape[i];
    require(count == t->count && t->bytes == count * qkv_dtype_bytes(t->dtype));
    require(qkv_safetensors_find(file, t->name) == t);
    real *reals;
    require(qkv_alloc(ctx, count, sizeof *reals, &reals) == QKV_OK);
    require(qkv_tensor_reals(ctx, t, reals) == (is_real(t->dtype) ? QKV_OK : QKV_BAD_FORMAT));
    qkv_free(ctx, reals);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qkv_ctx ctx = {0};
    qkv_safetensors *file;
    qkv_ctx_setup(&ctx, NULL);
    if (qkv_safetensors_parse(&ctx, "fuzz", data, (int64_t)size, &file) != QKV_OK) {
        require(!file && strncmp(ctx.message, "fuzz: ", 6) == 0);
        return 0;
    }
    int64_t covered = 0, n;
    for (int64_t i = 0; i < qkv_safetensors_count(file); i++) {
        const qkv_tensor *t = qkv_safetensors_at(file, i);
        require(i == 0 || (const char *)t->data == (const char *)t[-1].data + t[-1].bytes);
        covered += t->bytes;
        check_tensor(&ctx, file, t);
    }
    require(covered <= (int64_t)size - 10);
    const qkv_metadata *all = qkv_safetensors_all_metadata(file, &n);
    for (int64_t i = 0; i < n; i++) {
        require(i == 0 || strcmp(all[i - 1].key, all[i].key) < 0);
        require(qkv_safetensors_metadata(file, all[i].key) == all[i].value);
    }
    qkv_safetensors_close(file);
    return 0;
}
