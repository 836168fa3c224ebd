/* oneDNN: products of matrices. The weights of nt and nn are laid out beforehand in the order that the library asks for. `about`:
 * its version, or why it is no fair peer. */
#include <dnnl.h>

#include "turn.h"

typedef struct product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t in, weights, out;
    float *a, *b, *c, *d;
    dnnl_dim_t m, n, k;
} product;

#define DNNL(call)                                                                                                                 \
    do {                                                                                                                           \
        if ((call) != dnnl_success) return #call " was refused";                                                                   \
    } while (0)

static void run_prepacked(void *arg) {
    product *p = arg;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->in}, {DNNL_ARG_WEIGHTS, p->weights}, {DNNL_ARG_DST, p->out}};
    dnnl_primitive_execute(p->primitive, p->stream, 3, args);
    dnnl_stream_wait(p->stream);
}

static void run_tn(void *arg) {
    product *p = arg;
    dnnl_sgemm('T', 'N', p->m, p->n, p->k, 1, p->a, p->m, p->b, p->n, 0, p->c, p->n);
}

/* gemm.backward: c[m,n] = a' b, the gradient of weights, and d[k,n] = a w, that of the input; a [k,m]. Weights change from step to
 * step, so nothing is laid out beforehand. */
static void run_backward(void *arg) {
    product *p = arg;
    run_tn(p);
    dnnl_sgemm('N', 'N', p->k, p->n, p->m, 1, p->a, p->m, p->c, p->n, 0, p->d, p->n);
}

/* out[m,n] = in[m,k] W', W [n,k], as `stored`: row by row (nt) or column by column (nn). An inner product whose weights may have
 * any order. */
static const char *prepack(product *p, dnnl_format_tag_t stored) {
    dnnl_memory_desc_t in, plain, any, out;
    const dnnl_dims_t in_dims = {p->m, p->k}, weight_dims = {p->n, p->k}, out_dims = {p->m, p->n};
    DNNL(dnnl_memory_desc_init_by_tag(&in, 2, in_dims, dnnl_f32, dnnl_ab));
    DNNL(dnnl_memory_desc_init_by_tag(&plain, 2, weight_dims, dnnl_f32, stored));
    DNNL(dnnl_memory_desc_init_by_tag(&any, 2, weight_dims, dnnl_f32, dnnl_format_tag_any));
    DNNL(dnnl_memory_desc_init_by_tag(&out, 2, out_dims, dnnl_f32, dnnl_ab));
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd, reorder_pd;
    dnnl_primitive_t reorder;
    DNNL(dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_inference, &in, &any, NULL, &out));
    DNNL(dnnl_primitive_desc_create(&pd, &desc, NULL, p->engine, NULL));
    const dnnl_memory_desc_t *chosen = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_memory_t from;
    DNNL(dnnl_memory_create(&p->in, &in, p->engine, p->a));
    DNNL(dnnl_memory_create(&from, &plain, p->engine, p->b));
    DNNL(dnnl_memory_create(&p->weights, chosen, p->engine, DNNL_MEMORY_ALLOCATE));
    DNNL(dnnl_memory_create(&p->out, &out, p->engine, p->c));
    DNNL(dnnl_reorder_primitive_desc_create(&reorder_pd, &plain, p->engine, chosen, p->engine, NULL));
    DNNL(dnnl_primitive_create(&reorder, reorder_pd));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, p->weights}};
    DNNL(dnnl_primitive_execute(reorder, p->stream, 2, args));
    DNNL(dnnl_stream_wait(p->stream));
    DNNL(dnnl_primitive_create(&p->primitive, pd));
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(reorder_pd);
    dnnl_primitive_desc_destroy(pd);
    dnnl_memory_destroy(from);
    return NULL;
}

static void release(product *p) {
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->in) dnnl_memory_destroy(p->in);
    if (p->weights) dnnl_memory_destroy(p->weights);
    if (p->out) dnnl_memory_destroy(p->out);
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->d);
}

static const char *one(product *p, const char *line, double *seconds) {
    int nt = turn_is(line, "case=gemm.nt"), nn = turn_is(line, "case=gemm.nn"), backward = turn_is(line, "case=gemm.backward");
    if (!nt && !nn && !backward && !turn_is(line, "case=gemm.tn")) return "no such thing in it";
    p->m = (dnnl_dim_t)turn_number(line, "m", 0);
    p->n = (dnnl_dim_t)turn_number(line, "n", 0);
    p->k = (dnnl_dim_t)turn_number(line, "k", 0);
    p->a = turn_random((size_t)p->m * (size_t)p->k);
    p->b = turn_random((size_t)p->k * (size_t)p->n);
    p->c = turn_random((size_t)p->m * (size_t)p->n);
    if (backward) p->d = turn_random((size_t)p->k * (size_t)p->n);
    const char *why = nt || nn ? prepack(p, nt ? dnnl_ab : dnnl_ba) : NULL;
    if (!why)
        *seconds = turn_run(nt || nn ? run_prepacked : backward ? run_backward : run_tn, p, turn_number(line, "seconds", 0.5));
    return why;
}

static int about(void) {
    const dnnl_version_t *v = dnnl_version();
    int openmp = v->cpu_runtime == DNNL_RUNTIME_OMP;
    printf("oneDNN %d.%d.%d%s\n", v->major, v->minor, v->patch, openmp ? "" : " is not the OpenMP build");
    return openmp ? 0 : 1;
}

int main(int argc, char **argv) {
    char line[1024];
    product base = {0};
    if (argc > 1 && !strcmp(argv[1], "about")) return about();
    if (dnnl_engine_create(&base.engine, dnnl_cpu, 0) != dnnl_success) return 1;
    if (dnnl_stream_create(&base.stream, base.engine, dnnl_stream_default_flags) != dnnl_success) return 1;
    while (fgets(line, sizeof line, stdin)) {
        product p = base;
        double seconds = 0;
        const char *why = one(&p, line, &seconds);
        if (why)
            turn_refuse(why);
        else
            turn_answer(seconds);
        release(&p);
    }
    dnnl_stream_destroy(base.stream);
    dnnl_engine_destroy(base.engine);
    return 0;
}
