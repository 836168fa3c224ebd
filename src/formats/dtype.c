/* Element types of safetensors and their way to and from reals. */
#include <string.h>

#include "base/real.h"
#include "formats/safetensors.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors data is little-endian and is used as it lies in memory"
#endif

static const struct {
    const char *name;
    int64_t bytes;
} types[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
             {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};

const char *qkv_dtype_name(qkv_dtype dtype) {
    return types[dtype].name;
}
int64_t qkv_dtype_bytes(qkv_dtype dtype) {
    return types[dtype].bytes;
}

bool qkv_dtype_find(const char *name, qkv_dtype *dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *dtype = (qkv_dtype)i;
            return true;
        }
    }
    return false;
}

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* IEEE 754 binary16, exact: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
static float from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3FF;
    if (exponent == 31) return from_bits(sign | 0x7F800000u | fraction << 13); /* infinity, NaN with its payload */
    if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float subnormal = (float)fraction * 0x1p-24f;
    return sign ? -subnormal : subnormal;
}

/* The upper half of a binary32. */
static float from_bf16(uint16_t h) {
    return from_bits((uint32_t)h << 16);
}

static real element(qkv_dtype dtype, const unsigned char *p) {
    uint16_t half;
    float single;
    double wide;
    switch (dtype) {
    case QKV_DTYPE_F16:
        memcpy(&half, p, 2);
        return (real)from_f16(half);
    case QKV_DTYPE_BF16:
        memcpy(&half, p, 2);
        return (real)from_bf16(half);
    case QKV_DTYPE_F32:
        memcpy(&single, p, 4);
        return (real)single;
    default:
        memcpy(&wide, p, 8);
        return (real)wide;
    }
}

qkv_status qkv_tensor_reals(qkv_ctx *ctx, const qkv_tensor *t, void *reals) {
    if (t->dtype != QKV_DTYPE_F16 && t->dtype != QKV_DTYPE_BF16 && t->dtype != QKV_DTYPE_F32 && t->dtype != QKV_DTYPE_F64) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "tensor \"%.80s\" holds %s, expected F32, F64, F16 or BF16", t->name,
                        qkv_dtype_name(t->dtype));
    }
    int64_t bytes = qkv_dtype_bytes(t->dtype);
    bool as_is = t->dtype == (sizeof(real) == 8 ? QKV_DTYPE_F64 : QKV_DTYPE_F32);
    if (as_is) {
        if (t->bytes) memcpy(reals, t->data, (size_t)t->bytes);
        return QKV_OK;
    }
    real *out = reals;
    const unsigned char *p = t->data;
    for (int64_t i = 0; i < t->count; i++) out[i] = element(t->dtype, p + i * bytes);
    return QKV_OK;
}
