/* Reading the files of make_parity.py and comparing with them. Results are compared on every kernel table that runs here. */
#ifndef QKV_TESTS_PARITY_H
#define QKV_TESTS_PARITY_H

#include "support.h"

#include <jansson.h>
#include <math.h>

#include "base/hash.h"
#include "base/real.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "kernels/pick.h"
#include "ops/exec.h"

typedef struct parity {
    test_memory memory;
    qkv_ctx ctx;
    qkv_safetensors *file;
    json_t *cases;
    char prefix[16]; /* "3.": of the case at hand */
    json_t *shape;   /* of the case at hand */
} parity;

/* The hash of the inputs must be the one that the results were made from. */
static inline void parity_check_inputs(const parity *p) {
    qkv_sha256 s;
    qkv_sha256_start(&s);
    for (int64_t i = 0; i < qkv_safetensors_count(p->file); i++) {
        const qkv_tensor *t = qkv_safetensors_at(p->file, i);
        if (!strstr(t->name, ".in.")) continue;
        qkv_sha256_add(&s, t->name, strlen(t->name) + 1);
        qkv_sha256_add(&s, t->data, (size_t)t->bytes);
    }
    char hex[65];
    qkv_sha256_end(&s, hex);
    assert_string_equal(hex, qkv_safetensors_metadata(p->file, "inputs_sha256"));
    assert_non_null(qkv_safetensors_metadata(p->file, "torch"));
}

static inline parity *parity_open(const char *name) {
    parity *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->ctx = test_ctx(&p->memory);
    const char *tests = getenv("QKV_TEST_SOURCE"), *folder = getenv("QKV_PARITY_DATA");
    char path[1024];
    if (folder) snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    else snprintf(path, sizeof path, "%s/parity/data/%s.safetensors", tests ? tests : "tests", name);
    if (qkv_safetensors_open(&p->ctx, path, &p->file) != QKV_OK) fail_msg("%s", p->ctx.message);
    parity_check_inputs(p);
    const char *cases = qkv_safetensors_metadata(p->file, "cases");
    assert_int_equal(qkv_json_parse(&p->ctx, "cases", cases, (int64_t)strlen(cases), 8, &p->cases), QKV_OK);
    return p;
}

static inline void parity_close(parity *p) {
    qkv_safetensors_close(p->file);
    json_decref(p->cases);
    qkv_par_close(&p->ctx);
    assert_int_equal(p->memory.blocks, 0);
    free(p);
}

static inline int parity_count(const parity *p) {
    return (int)json_array_size(p->cases);
}

static inline void parity_case(parity *p, int index) {
    snprintf(p->prefix, sizeof p->prefix, "%d.", index);
    p->shape = json_array_get(p->cases, (size_t)index);
}

/* Fields of the case's shape; a missing one fails the test. */
static inline const json_t *parity_field(const parity *p, const char *key) {
    const json_t *value = json_object_get(p->shape, key);
    if (!value) fail_msg("case %s has no %s", p->prefix, key);
    return value;
}
static inline int64_t parity_int(const parity *p, const char *key) {
    return json_integer_value(parity_field(p, key));
}
static inline double parity_real(const parity *p, const char *key) {
    return json_number_value(parity_field(p, key));
}
static inline bool parity_bool(const parity *p, const char *key) {
    return json_is_true(parity_field(p, key));
}
static inline const char *parity_text(const parity *p, const char *key) {
    return json_string_value(parity_field(p, key));
}

/* A list of lengths as offsets [n + 1]; n. The caller frees. */
static inline int64_t parity_offsets(const parity *p, const char *key, int64_t **offsets) {
    const json_t *list = parity_field(p, key);
    int64_t n = (int64_t)json_array_size(list);
    *offsets = calloc((size_t)n + 1, sizeof **offsets);
    for (int64_t i = 0; i < n; i++) (*offsets)[i + 1] = (*offsets)[i] + json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

static inline const qkv_tensor *parity_tensor(const parity *p, const char *name) {
    char full[192];
    snprintf(full, sizeof full, "%s%s", p->prefix, name);
    const qkv_tensor *t = qkv_safetensors_find(p->file, full);
    if (!t) fail_msg("there is no tensor %s", full);
    return t;
}

/* A copy as reals, 64-byte aligned, to be given to free(). */
static inline real *parity_reals(parity *p, const char *name) {
    const qkv_tensor *t = parity_tensor(p, name);
    real *r = aligned_alloc(64, ((size_t)t->count * sizeof *r + 64) / 64 * 64);
    assert_int_equal(qkv_tensor_reals(&p->ctx, t, r), QKV_OK);
    return r;
}

static inline int32_t *parity_ints(parity *p, const char *name) {
    const qkv_tensor *t = parity_tensor(p, name);
    assert_int_equal(t->dtype, QKV_DTYPE_I32);
    int32_t *r = malloc((size_t)t->bytes + 1);
    memcpy(r, t->data, (size_t)t->bytes);
    return r;
}

/* A zeroed block, to be given to free(). */
static inline real *parity_room(int64_t count) {
    size_t size = ((size_t)count * sizeof(real) + 64) / 64 * 64;
    real *r = aligned_alloc(64, size);
    assert_non_null(r);
    memset(r, 0, size);
    return r;
}

/* Largest difference over the tensor, divided by its largest magnitude, must be at most `tolerance`; infinities must be
 * the same. In the double build nothing but the rounding of the file's numbers to f32 is left, 2^-24. */
static inline void parity_equal(parity *p, const char *name, const real *got, double tolerance) {
    const qkv_tensor *t = parity_tensor(p, name);
    real *want = parity_reals(p, name);
    if (sizeof(real) == 8) tolerance = 1e-7;
    double worst = 0, largest = 0;
    int64_t at = -1;
    for (int64_t i = 0; i < t->count; i++) {
        if (isinf(want[i]) && got[i] == want[i]) continue;
        double difference = fabs((double)got[i] - (double)want[i]);
        if (!(difference <= worst)) {
            worst = difference;
            at = i;
        }
        if (fabs((double)want[i]) > largest) largest = fabs((double)want[i]);
    }
    if (getenv("QKV_PARITY_PRINT"))
        fprintf(stderr, "%-10s %s%s: %.2g of %.2g\n", p->ctx.kernels->name, p->prefix, name, worst > 0 ? worst / largest : 0,
                tolerance);
    if (!(worst <= tolerance * largest)) {
        fail_msg("%s: %s%s[%lld] is %.9g, PyTorch has %.9g: off by %.3g of the largest, %.3g, allowed %.3g", p->ctx.kernels->name,
                 p->prefix, name, (long long)at, (double)got[at], (double)want[at], worst / largest, largest, tolerance);
    }
    free(want);
}

/* f for every case on every table. */
static inline void parity_each(const char *name, void (*f)(parity *p)) {
    const qkv_kernels *tables[4];
    int n = qkv_kernels_present(tables);
    parity *p = parity_open(name);
    assert_true(parity_count(p) > 0);
    for (int t = 0; t < n; t++) {
        p->ctx.kernels = tables[t];
        for (int i = 0; i < parity_count(p); i++) {
            parity_case(p, i);
            f(p);
        }
    }
    parity_close(p);
}

/* A pass with `bytes` of arena and a registry; parity_done frees both. */
static inline qkv_exec parity_exec(parity *p, const qkv_reg *reg, size_t bytes) {
    qkv_exec x = {.ctx = &p->ctx, .keep = true, .pass = QKV_PASS_FORWARD, .reg = reg};
    x.arena.size = bytes;
    assert_int_equal(qkv_alloc(&p->ctx, (int64_t)bytes, 1, &x.arena.base), QKV_OK);
    return x;
}

static inline void parity_done(qkv_exec *x) {
    qkv_free(x->ctx, x->arena.base);
    x->arena.base = NULL;
}

#define PARITY_OK(expression)                                                                                                      \
    do {                                                                                                                           \
        if ((expression) != QKV_OK) fail_msg("%s", p->ctx.message);                                                                \
    } while (0)

#endif
