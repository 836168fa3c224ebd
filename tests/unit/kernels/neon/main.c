/* AArch64: the NEON table against the scalar one, every kernel, and the vocabulary against its pinned bits. Needs nothing
 * but a C library, so that it can be cross-built and run under an emulator. */
#define QKV_ISA_NEON 1
#include "kernels/simd.h"

#include "unit/kernels/kernel_fuzz.h"
#include "unit/kernels/simd_pinned.h"

int main(void) {
    int failed = 0;
    for (int f = 0; f < FUZZ_KERNELS; f++) {
        bool same = fuzz_same(&qkv_kernels_scalar, &qkv_kernels_neon, &fuzz_kernels[f], 120);
        printf("%s: %s\n", fuzz_kernels[f].name, same ? "the same bits" : "DIFFERENT");
        failed += !same;
    }
    bool pinned = vocabulary_hash() == VOCABULARY_HASH;
    printf("vocabulary: %s\n", pinned ? "the same bits as on other machines" : "DIFFERENT");
    return failed != 0 || !pinned;
}
