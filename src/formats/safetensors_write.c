/* Writing, with the limits of the reader. */
#include <string.h>

#include "formats/json.h"
#include "formats/safetensors.h"

static qkv_status no_memory(qkv_ctx *ctx) {
    return qkv_fail(ctx, QKV_NO_MEMORY, "out of memory while writing a safetensors header");
}

/* Adds `value` (taken over, may be NULL) under `key`, which must be new and valid UTF-8. */
static qkv_status add(qkv_ctx *ctx, json_t *object, const char *key, json_t *value) {
    if (!value) return no_memory(ctx);
    if (json_object_get(object, key)) {
        json_decref(value);
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "safetensors: \"%.80s\" is there twice", key);
    }
    if (json_object_set_new(object, key, value)) {
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "safetensors: \"%.80s\" is not valid UTF-8", key);
    }
    return QKV_OK;
}

static qkv_status check_tensor(qkv_ctx *ctx, const qkv_tensor *t) {
    int64_t count = 1, bytes;
    bool bad = t->rank < 0 || t->rank > QKV_TENSOR_RANK || strcmp(t->name, "__metadata__") == 0;
    for (int i = 0; !bad && i < t->rank; i++) bad = t->shape[i] < 0 || __builtin_mul_overflow(count, t->shape[i], &count);
    bad = bad || count != t->count || __builtin_mul_overflow(count, qkv_dtype_bytes(t->dtype), &bytes) || bytes != t->bytes;
    if (bad)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "safetensors: tensor \"%.80s\" cannot be written: shape and size disagree", t->name);
    return QKV_OK;
}

static qkv_status add_tensor(qkv_ctx *ctx, json_t *root, const qkv_tensor *t, int64_t *at) {
    QKV_TRY(check_tensor(ctx, t));
    int64_t begin = *at;
    if (__builtin_add_overflow(begin, t->bytes, at)) {
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "safetensors: the sizes of the tensors overflow");
    }
    json_t *shape = json_array();
    for (int i = 0; shape && i < t->rank; i++) {
        if (json_array_append_new(shape, json_integer(t->shape[i]))) {
            json_decref(shape);
            shape = NULL;
        }
    }
    if (!shape) return no_memory(ctx);
    json_t *entry = json_pack("{s:s, s:o, s:[I,I]}", "dtype", qkv_dtype_name(t->dtype), "shape", shape, "data_offsets",
                              (json_int_t)begin, (json_int_t)*at);
    return add(ctx, root, t->name, entry);
}

static qkv_status add_metadata(qkv_ctx *ctx, json_t *root, const qkv_metadata *metadata, int64_t count) {
    json_t *object = json_object();
    if (!object) return no_memory(ctx);
    qkv_status status = QKV_OK;
    for (int64_t i = 0; status == QKV_OK && i < count; i++) {
        json_t *value = json_string(metadata[i].value);
        status = value ? add(ctx, object, metadata[i].key, value)
                       : qkv_fail(ctx, QKV_BAD_ARGUMENT, "safetensors: metadata \"%.80s\" is not valid UTF-8", metadata[i].key);
    }
    if (status != QKV_OK) {
        json_decref(object);
        return status;
    }
    return add(ctx, root, "__metadata__", object);
}

static qkv_status make_header(qkv_ctx *ctx, json_t *root, const qkv_tensor *tensors, int64_t count, const qkv_metadata *metadata,
                              int64_t n_metadata, qkv_buf *header) {
    if (n_metadata) QKV_TRY(add_metadata(ctx, root, metadata, n_metadata));
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) QKV_TRY(add_tensor(ctx, root, &tensors[i], &at));
    QKV_TRY(qkv_buf_add(header, "\0\0\0\0\0\0\0", 8)); /* room for the size */
    QKV_TRY(qkv_json_print(root, header));
    static const char spaces[QKV_TENSOR_ALIGN + 1] = "                                                                ";
    QKV_TRY(qkv_buf_add(header, spaces, (QKV_TENSOR_ALIGN - header->size % QKV_TENSOR_ALIGN) % QKV_TENSOR_ALIGN));
    uint64_t size = (uint64_t)header->size - 8;
    memcpy(header->p, &size, 8);
    if (size > QKV_HEADER_LIMIT) {
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "safetensors: the header would have %llu bytes, no reader takes more than %d",
                        (unsigned long long)size, QKV_HEADER_LIMIT);
    }
    return QKV_OK;
}

qkv_status qkv_safetensors_write(qkv_ctx *ctx, qkv_output *output, const qkv_tensor *tensors, int64_t count,
                                 const qkv_metadata *metadata, int64_t n_metadata) {
    json_t *root = json_object();
    if (!root) return no_memory(ctx);
    qkv_buf header = {ctx, NULL, 0, 0};
    qkv_status status = make_header(ctx, root, tensors, count, metadata, n_metadata, &header);
    json_decref(root);
    if (status == QKV_OK) status = qkv_output_write(output, header.p, header.size);
    qkv_buf_free(&header);
    for (int64_t i = 0; status == QKV_OK && i < count; i++) {
        if (tensors[i].bytes) status = qkv_output_write(output, tensors[i].data, tensors[i].bytes);
    }
    return status;
}
