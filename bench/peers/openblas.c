/* OpenBLAS: products of matrices. It packs its operands in every call. `about`: its version, or why it is no fair peer. */
#include <cblas.h>

#include "turn.h"

typedef struct product {
    int m, n, k;
    float *a, *b, *c, *d;
    CBLAS_TRANSPOSE ta, tb;
    int both; /* gemm.backward: d[k,n] = a[k,m] w[m,n] beside c[m,n] = a' b */
} product;

static void pass(void *arg) {
    const product *p = arg;
    cblas_sgemm(CblasRowMajor, p->ta, p->tb, p->m, p->n, p->k, 1, p->a, p->ta == CblasTrans ? p->m : p->k, p->b,
                p->tb == CblasTrans ? p->k : p->n, 0, p->c, p->n);
    if (p->both) cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->k, p->n, p->m, 1, p->a, p->m, p->c, p->n, 0, p->d, p->n);
}

static int about(void) {
    char version[64] = "";
    int threading = openblas_get_parallel();
    sscanf(openblas_get_config(), "OpenBLAS %63s", version);
    if (threading == 2)
        printf("OpenBLAS %s\n", version);
    else
        printf("OpenBLAS %s is the %s build, not the OpenMP one\n", version, threading == 1 ? "pthread" : "sequential");
    return threading == 2 ? 0 : 1;
}

static int prepare(product *p, const char *line) {
    p->ta = p->tb = CblasNoTrans;
    p->both = turn_is(line, "case=gemm.backward");
    if (turn_is(line, "case=gemm.nt"))
        p->tb = CblasTrans;
    else if (turn_is(line, "case=gemm.tn") || p->both)
        p->ta = CblasTrans;
    else if (!turn_is(line, "case=gemm.nn"))
        return 0;
    p->m = (int)turn_number(line, "m", 0);
    p->n = (int)turn_number(line, "n", 0);
    p->k = (int)turn_number(line, "k", 0);
    p->a = turn_random((size_t)p->m * (size_t)p->k);
    p->b = turn_random((size_t)p->k * (size_t)p->n);
    p->c = turn_random((size_t)p->m * (size_t)p->n);
    p->d = p->both ? turn_random((size_t)p->k * (size_t)p->n) : NULL;
    return 1;
}

int main(int argc, char **argv) {
    char line[1024];
    if (argc > 1 && !strcmp(argv[1], "about")) return about();
    if (argc > 1) openblas_set_num_threads(atoi(argv[1]));
    while (fgets(line, sizeof line, stdin)) {
        product p = {0};
        if (!prepare(&p, line)) {
            turn_refuse("no such thing in it");
            continue;
        }
        turn_answer(turn_run(pass, &p, turn_number(line, "seconds", 0.5)));
        free(p.a);
        free(p.b);
        free(p.c);
        free(p.d);
    }
    return 0;
}
