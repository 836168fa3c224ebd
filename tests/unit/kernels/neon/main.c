/* AArch64: the NEON table against the scalar one, every kernel, and the vocabulary against its pinned bits. Needs nothing
 * but a C library, so that it can be cross-built and run under an emulator. */
#define QKV_ISA_NEON 1
#include "kernels/bf16.h"
#include "kernels/simd.h"

#include "unit/kernels/kernel_fuzz.h"
#include "unit/kernels/simd_pinned.h"

/* A product and attention there and back, of every size up to 40. */
static bool bf16_product_same(dice *d, const qkv_bf16_kernels *x, const qkv_bf16_kernels *y) {
    const int64_t m = dice_int(d, 1, 40), n = dice_int(d, 1, 40), k = dice_int(d, 1, 40), size = qkv_bf16_packed_size(k, n);
    real *a = random_reals(d, m * k, 1), *b = random_reals(d, k * n, 1), *c[2] = {random_reals(d, m * n, 1), random_reals(d, m * n, 1)};
    uint32_t *p[2] = {must_alloc((size_t)size * 4), must_alloc((size_t)size * 4)};
    for (int i = 0; i < 2; i++) {
        const qkv_bf16_kernels *t = i ? y : x;
        qkv_gemm g = {.m = m, .k = k, .n1 = n, .a = a, .a_row = k, .a_col = 1, .c = c[i], .ldc = n};
        t->gemm_pack(k, n, 0, k, 0, n, b, n, 1, p[i]);
        t->gemm(&g, p[i]);
    }
    bool same = first_difference(c[0], c[1], m * n) < 0 && memcmp(p[0], p[1], (size_t)size * 4) == 0;
    free(a), free(b), free(c[0]), free(c[1]), free(p[0]), free(p[1]);
    return same;
}

static bool bf16_attention_same(dice *d, const qkv_bf16_kernels *x, const qkv_bf16_kernels *y) {
    const int64_t n = dice_int(d, 1, 40), w = dice_int(d, 1, 40), size = n * w;
    real *q = random_reals(d, size, 2), *k = random_reals(d, size, 1), *v = random_reals(d, size, 1), *g = random_reals(d, size, 1);
    real *out[2], *lse[2] = {random_reals(d, n, 1), random_reals(d, n, 1)};
    for (int i = 0; i < 2; i++) {
        const qkv_bf16_kernels *t = i ? y : x;
        out[i] = random_reals(d, 4 * size, 1);
        real *o = out[i], *dq = o + size, *dk = dq + size, *dv = dk + size;
        qkv_attend a = {.n_q = n, .n_k = n, .row1 = n, .dim = w, .value_dim = w, .scale = (real)0.5, .left = n % 3 - 1, .right = n % 2 - 1,
                        .q = q, .k = k, .v = v, .q_row = w, .k_row = w, .v_row = w, .o = o, .o_row = w, .lse = lse[i], .d_o = g, .do_row = w,
                        .dq = dq, .dk = dk, .dv = dv, .dq_row = w, .dk_row = w, .dv_row = w};
        real *there = random_reals(d, t->attend_forward_scratch(n, n, w, w), 1), *back = random_reals(d, t->attend_backward_scratch(n, n, w, w), 1);
        t->attend_forward(&a, there);
        t->attend_backward(&a, back);
        free(there), free(back);
    }
    bool same = first_difference(out[0], out[1], 4 * size) < 0 && first_difference(lse[0], lse[1], n) < 0;
    free(q), free(k), free(v), free(g), free(out[0]), free(out[1]), free(lse[0]), free(lse[1]);
    return same;
}

int main(void) {
    int failed = 0;
    for (int f = 0; f < FUZZ_KERNELS; f++) {
        bool same = fuzz_same(&qkv_kernels_scalar, &qkv_kernels_neon, &fuzz_kernels[f], 120);
        printf("%s: %s\n", fuzz_kernels[f].name, same ? "the same bits" : "DIFFERENT");
        failed += !same;
    }
    dice d = {8, 0};
    bool bf16 = true;
    for (int i = 0; i < 60; i++)
        bf16 = bf16_product_same(&d, &qkv_kernels_bf16_scalar, &qkv_kernels_bf16_neon) &&
               bf16_attention_same(&d, &qkv_kernels_bf16_scalar, &qkv_kernels_bf16_neon) && bf16;
    printf("bf16: %s\n", bf16 ? "the same bits" : "DIFFERENT");
    failed += !bf16;
    bool pinned = vocabulary_hash() == VOCABULARY_HASH;
    printf("vocabulary: %s\n", pinned ? "the same bits as on other machines" : "DIFFERENT");
    return failed != 0 || !pinned;
}
