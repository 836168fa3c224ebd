/* Reading. Order of the work: sizes, JSON, entries one by one, then the layout of all of them; no number of the file is
 * used before it was compared with what is really there. */
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "formats/json.h"

enum { HEADER_DEPTH = 4, SHOWN = 80 };
#define FILE_LIMIT ((int64_t)1 << 46)

struct qkv_safetensors {
    qkv_ctx *ctx;
    char name[256];
    char *block;          /* the whole file */
    int64_t size, header; /* bytes of the file; offset of the data */
    json_t *root;         /* owns names and metadata */
    qkv_tensor *tensors;  /* in the order of the data */
    const qkv_tensor **by_name;
    int64_t count;
    qkv_metadata *metadata; /* by key */
    int64_t n_metadata;
};

typedef struct entry {
    qkv_tensor tensor;
    int64_t begin, end;
} entry;

/* A name of the file, fit for a message: cut, control characters shown as '?'. */
static const char *shown(const char *name, char out[SHOWN + 1]) {
    int i = 0;
    for (; name[i] && i < SHOWN; i++) out[i] = (unsigned char)name[i] < 32 || name[i] == 127 ? '?' : name[i];
    out[i] = 0;
    return out;
}

/* ---- what else it could be ---- */

static bool looks_like_text(const unsigned char *p, int64_t size) {
    int64_t n = size < 512 ? size : 512;
    for (int64_t i = 0; i < n; i++) {
        if (p[i] == 127 || (p[i] < 32 && p[i] != '\n' && p[i] != '\r' && p[i] != '\t')) return false;
    }
    return n > 0;
}

/* What the first bytes say about a file that is not safetensors; NULL: nothing. */
static const char *other_kind(const char *block, int64_t size) {
    static const struct {
        const char *magic;
        int length;
        const char *kind;
    } kinds[] = {
        {"\xBA\x16\x4F\x2F", 4, "a fastText model"},
        {"PK\3\4", 4, "a zip archive, perhaps a PyTorch checkpoint"},
        {"GGUF", 4, "a GGUF model"},
        {"\x89HDF\r\n\x1A\n", 8, "an HDF5 file"},
        {"\x93NUMPY", 6, "a NumPy array"},
        {"\x1F\x8B", 2, "a gzip file"},
        {"\x80\x02", 2, "a Python pickle"},
        {"\x7F"
         "ELF",
         4, "a program"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (size >= kinds[i].length && memcmp(block, kinds[i].magic, (size_t)kinds[i].length) == 0) return kinds[i].kind;
    }
    return looks_like_text((const unsigned char *)block, size) ? "a text file" : NULL;
}

/* ---- the header ---- */

static qkv_status check_sizes(qkv_safetensors *f) {
    qkv_ctx *ctx = f->ctx;
    if (f->size == 0) return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: the file is empty (0 bytes), not safetensors", f->name);
    uint64_t header = 0;
    if (f->size >= 8) memcpy(&header, f->block, 8);
    bool fits = f->size >= 8 && header <= (uint64_t)(f->size - 8);
    if (!fits || header < 2 || f->block[8] != '{') {
        const char *kind = other_kind(f->block, f->size);
        if (kind) return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: this is %s, not a safetensors file", f->name, kind);
    }
    if (f->size < 8) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: %d byte%s missing at offset %d (the file ends inside the size of the header)",
                        f->name, (int)(8 - f->size), f->size == 7 ? "" : "s", (int)f->size);
    }
    if (header > QKV_HEADER_LIMIT) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: not safetensors: the header would have %llu bytes, the limit is %d", f->name,
                        (unsigned long long)header, QKV_HEADER_LIMIT);
    }
    if (!fits) {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: %lld byte%s missing at offset %lld (the header has %llu bytes)", f->name,
                        (long long)((int64_t)header - (f->size - 8)), (int64_t)header - (f->size - 8) == 1 ? "" : "s",
                        (long long)f->size, (unsigned long long)header);
    }
    if (header < 2 || f->block[8] != '{') {
        return qkv_fail(ctx, QKV_BAD_FORMAT, "%s: not safetensors: the header does not begin with '{'", f->name);
    }
    f->header = 8 + (int64_t)header;
    return QKV_OK;
}

static qkv_status read_whole(qkv_safetensors *f, const char *key, const char *field, const json_t *json, int64_t *value) {
    char text[SHOWN + 1];
    if (!json_is_integer(json) || json_integer_value(json) < 0) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\": %s must hold whole numbers from 0 on", f->name,
                        shown(key, text), field);
    }
    *value = json_integer_value(json);
    return QKV_OK;
}

static qkv_status read_shape(qkv_safetensors *f, const char *key, const json_t *shape, qkv_tensor *t) {
    char text[SHOWN + 1];
    if (!json_is_array(shape)) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" has no shape", f->name, shown(key, text));
    }
    if (json_array_size(shape) > QKV_TENSOR_RANK) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" has %zu dimensions, at most %d are read", f->name,
                        shown(key, text), json_array_size(shape), QKV_TENSOR_RANK);
    }
    t->rank = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->rank; i++) {
        QKV_TRY(read_whole(f, key, "shape", json_array_get(shape, (size_t)i), &t->shape[i]));
        if (__builtin_mul_overflow(t->count, t->shape[i], &t->count)) {
            return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\": the product of the shape overflows", f->name,
                            shown(key, text));
        }
    }
    return QKV_OK;
}

static qkv_status read_entry(qkv_safetensors *f, const char *key, const json_t *json, entry *e) {
    char text[SHOWN + 1];
    const json_t *dtype = json_object_get(json, "dtype"), *offsets = json_object_get(json, "data_offsets");
    if (!json_is_object(json) || !json_is_string(dtype) || !json_is_array(offsets) || json_array_size(offsets) != 2 ||
        json_object_size(json) != 3) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" must have exactly dtype, shape and data_offsets [begin, end]",
                        f->name, shown(key, text));
    }
    qkv_tensor *t = &e->tensor;
    t->name = key;
    if (!qkv_dtype_find(json_string_value(dtype), &t->dtype)) {
        char kind[SHOWN + 1];
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" has the unknown type \"%s\"", f->name, shown(key, text),
                        shown(json_string_value(dtype), kind));
    }
    QKV_TRY(read_shape(f, key, json_object_get(json, "shape"), t));
    QKV_TRY(read_whole(f, key, "data_offsets", json_array_get(offsets, 0), &e->begin));
    QKV_TRY(read_whole(f, key, "data_offsets", json_array_get(offsets, 1), &e->end));
    if (e->begin > e->end) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" ends at %lld, before it begins at %lld", f->name,
                        shown(key, text), (long long)e->end, (long long)e->begin);
    }
    if (__builtin_mul_overflow(t->count, qkv_dtype_bytes(t->dtype), &t->bytes) || t->bytes != e->end - e->begin) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\": %lld elements of %s do not fill the bytes %lld..%lld", f->name,
                        shown(key, text), (long long)t->count, qkv_dtype_name(t->dtype), (long long)e->begin, (long long)e->end);
    }
    return QKV_OK;
}

static int by_offset(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->tensor.name, y->tensor.name);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const qkv_tensor *const *)a)->name, (*(const qkv_tensor *const *)b)->name);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const qkv_metadata *)a)->key, ((const qkv_metadata *)b)->key);
}

/* The tensors must cover the data exactly: no gap, no overlap, nothing behind them, nothing missing. */
static qkv_status check_layout(qkv_safetensors *f, const entry *entries) {
    char text[SHOWN + 1];
    int64_t at = 0, data = f->size - f->header;
    for (int64_t i = 0; i < f->count; i++) {
        const entry *e = &entries[i];
        if (e->begin != at) {
            return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: tensor \"%s\" begins at %lld, %s %lld", f->name,
                            shown(e->tensor.name, text), (long long)e->begin,
                            e->begin < at ? "inside another tensor that ends at" : "after a gap: the data before it ends at",
                            (long long)at);
        }
        at = e->end;
    }
    if (at > data) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: %lld byte%s missing at offset %lld (the file was cut short)", f->name,
                        (long long)(at - data), at - data == 1 ? "" : "s", (long long)f->size);
    }
    if (at < data) {
        return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: %lld byte%s too many at offset %lld, behind the last tensor", f->name,
                        (long long)(data - at), data - at == 1 ? "" : "s", (long long)(f->header + at));
    }
    return QKV_OK;
}

static qkv_status read_entries(qkv_safetensors *f, entry *entries) {
    const char *key;
    json_t *value;
    int64_t n = 0;
    json_object_foreach(f->root, key, value) {
        if (strcmp(key, "__metadata__") == 0) continue;
        QKV_TRY(read_entry(f, key, value, &entries[n++]));
    }
    qsort(entries, (size_t)n, sizeof *entries, by_offset);
    QKV_TRY(check_layout(f, entries));
    for (int64_t i = 0; i < n; i++) {
        f->tensors[i] = entries[i].tensor;
        f->tensors[i].data = f->block + f->header + entries[i].begin;
        f->by_name[i] = &f->tensors[i];
    }
    qsort(f->by_name, (size_t)n, sizeof *f->by_name, by_name);
    return QKV_OK;
}

static qkv_status read_metadata(qkv_safetensors *f) {
    const json_t *json = json_object_get(f->root, "__metadata__");
    if (!json) return QKV_OK;
    if (!json_is_object(json)) return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: __metadata__ is not an object of strings", f->name);
    QKV_TRY(qkv_alloc_zero(f->ctx, (int64_t)json_object_size(json), sizeof *f->metadata, &f->metadata));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value) {
        char text[SHOWN + 1];
        if (!json_is_string(value)) {
            return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: __metadata__ \"%s\" is not a string", f->name, shown(key, text));
        }
        f->metadata[f->n_metadata++] = (qkv_metadata){key, json_string_value(value)};
    }
    qsort(f->metadata, (size_t)f->n_metadata, sizeof *f->metadata, by_key);
    return QKV_OK;
}

static qkv_status read_block(qkv_safetensors *f) {
    QKV_TRY(check_sizes(f));
    char what[sizeof f->name + 16] = "";
    strcpy(what, f->name);
    strcat(what, ": header");
    QKV_TRY(qkv_json_parse(f->ctx, what, f->block + 8, f->header - 8, HEADER_DEPTH, &f->root));
    if (!json_is_object(f->root)) return qkv_fail(f->ctx, QKV_BAD_FORMAT, "%s: the header is not an object", f->name);
    QKV_TRY(read_metadata(f));
    f->count = (int64_t)json_object_size(f->root) - (json_object_get(f->root, "__metadata__") ? 1 : 0);
    QKV_TRY(qkv_alloc_zero(f->ctx, f->count, sizeof *f->tensors, &f->tensors));
    QKV_TRY(qkv_alloc_zero(f->ctx, f->count, sizeof *f->by_name, &f->by_name));
    entry *entries;
    QKV_TRY(qkv_alloc_zero(f->ctx, f->count, sizeof *entries, &entries));
    qkv_status status = read_entries(f, entries);
    qkv_free(f->ctx, entries);
    return status;
}

/* ---- opening ---- */

static qkv_status start(qkv_ctx *ctx, const char *name, qkv_safetensors **file) {
    *file = NULL;
    qkv_safetensors *f;
    QKV_TRY(qkv_alloc_zero(ctx, 1, sizeof *f, &f));
    f->ctx = ctx;
    size_t size = strlen(name); /* of a long path the end says more than the beginning */
    strcpy(f->name, size < sizeof f->name ? name : name + size - (sizeof f->name - 1));
    *file = f;
    return QKV_OK;
}

static qkv_status finish(qkv_status status, qkv_safetensors **file) {
    if (status == QKV_OK) status = read_block(*file);
    if (status != QKV_OK) {
        qkv_safetensors_close(*file);
        *file = NULL;
    }
    return status;
}

qkv_status qkv_safetensors_open(qkv_ctx *ctx, const char *path, qkv_safetensors **file) {
    QKV_TRY(start(ctx, path, file));
    return finish(qkv_file_read(ctx, path, FILE_LIMIT, &(*file)->block, &(*file)->size), file);
}

qkv_status qkv_safetensors_parse(qkv_ctx *ctx, const char *name, const void *data, int64_t size, qkv_safetensors **file) {
    QKV_TRY(start(ctx, name, file));
    qkv_status status = qkv_alloc(ctx, size + 1, 1, &(*file)->block);
    if (status == QKV_OK) {
        if (size) memcpy((*file)->block, data, (size_t)size);
        (*file)->block[size] = 0;
        (*file)->size = size;
    }
    return finish(status, file);
}

void qkv_safetensors_drop(qkv_safetensors *f, int64_t *header) {
    *header = f->header;
    for (int64_t i = 0; i < f->count; i++) f->tensors[i].data = NULL;
    qkv_free(f->ctx, f->block);
    f->block = NULL;
}

void qkv_safetensors_close(qkv_safetensors *f) {
    if (!f) return;
    qkv_ctx *ctx = f->ctx;
    qkv_free(ctx, f->metadata);
    qkv_free(ctx, f->by_name);
    qkv_free(ctx, f->tensors);
    qkv_free(ctx, f->block);
    json_decref(f->root);
    qkv_free(ctx, f);
}

/* ---- looking ---- */

int64_t qkv_safetensors_count(const qkv_safetensors *f) {
    return f->count;
}
const qkv_tensor *qkv_safetensors_at(const qkv_safetensors *f, int64_t index) {
    return &f->tensors[index];
}
const char *qkv_safetensors_name(const qkv_safetensors *f) {
    return f->name;
}

const qkv_tensor *qkv_safetensors_find(const qkv_safetensors *f, const char *name) {
    qkv_tensor key = {.name = name};
    const qkv_tensor *wanted = &key;
    const qkv_tensor **found = bsearch(&wanted, f->by_name, (size_t)f->count, sizeof *f->by_name, by_name);
    return found ? *found : NULL;
}

const char *qkv_safetensors_metadata(const qkv_safetensors *f, const char *key) {
    qkv_metadata wanted = {key, NULL};
    const qkv_metadata *found = f->n_metadata ? bsearch(&wanted, f->metadata, (size_t)f->n_metadata, sizeof wanted, by_key) : NULL;
    return found ? found->value : NULL;
}

const qkv_metadata *qkv_safetensors_all_metadata(const qkv_safetensors *f, int64_t *count) {
    *count = f->n_metadata;
    return f->metadata;
}
