/* OpenBLAS: products of matrices. It packs its operands in every call. */
#include <cblas.h>

#include "turn.h"

typedef struct product {
    int m, n, k;
    float *a, *b, *c;
    CBLAS_TRANSPOSE ta, tb;
} product;

static void pass(void *arg) {
    const product *p = arg;
    cblas_sgemm(CblasRowMajor, p->ta, p->tb, p->m, p->n, p->k, 1, p->a, p->ta == CblasTrans ? p->m : p->k, p->b,
                p->tb == CblasTrans ? p->k : p->n, 0, p->c, p->n);
}

int main(int argc, char **argv) {
    char line[1024];
    if (argc > 1) openblas_set_num_threads(atoi(argv[1]));
    while (fgets(line, sizeof line, stdin)) {
        product p = {(int)turn_number(line, "m", 0),
                     (int)turn_number(line, "n", 0),
                     (int)turn_number(line, "k", 0),
                     NULL,
                     NULL,
                     NULL,
                     CblasNoTrans,
                     CblasNoTrans};
        if (turn_is(line, "case=gemm.nt"))
            p.tb = CblasTrans;
        else if (turn_is(line, "case=gemm.tn"))
            p.ta = CblasTrans;
        else {
            printf("- no such thing in it\n");
            fflush(stdout);
            continue;
        }
        p.a = turn_random((size_t)p.m * (size_t)p.k);
        p.b = turn_random((size_t)p.k * (size_t)p.n);
        p.c = turn_random((size_t)p.m * (size_t)p.n);
        printf("%.9g\n", turn_run(pass, &p, turn_number(line, "seconds", 0.5)));
        fflush(stdout);
        free(p.a);
        free(p.b);
        free(p.c);
    }
    return 0;
}
