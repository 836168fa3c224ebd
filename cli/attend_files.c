/* The calculator: attention of the user's own matrices. */
#include "attend.h"

#include <limits.h>

typedef struct work {
    cli_matrix q, k, v;
    float *output, *lse, *weights; /* [n_q][heads * value width], [heads][n_q], [heads][n_q][n_k] */
    qkv_attention a;
    int64_t offset_q[2], offset_k[2];
} work;

static int read_matrix(qkv_ctx *ctx, const char *path, cli_matrix *m) {
    char message[512];
    if (!cli_matrix_read(ctx, path, m, message, sizeof message)) return CLI_GO_ON;
    cli_say("%s", message);
    return CLI_FAILED;
}

/* A matrix without rows says nothing about its width. */
static void adopt_width(cli_matrix *m, int64_t cols) {
    if (m->rows == 0 && m->cols == 0) m->cols = cols;
}

static int check_shapes(const cli_verb *verb, work *w, int64_t heads, int64_t kv_heads) {
    cli_matrix *q = &w->q, *k = &w->k, *v = &w->v;
    if (kv_heads > heads || heads % kv_heads)
        return cli_wrong_use(verb, "--kv-heads %lld does not divide --heads %lld", (long long)kv_heads, (long long)heads);
    int64_t group = heads / kv_heads;
    adopt_width(q, k->cols * group);
    adopt_width(k, q->cols / group);
    adopt_width(v, k->cols);
    long long qr = q->rows, qc = q->cols, kr = k->rows, kc = k->cols, vr = v->rows, vc = v->cols;
    if (qc == 0) return cli_wrong_use(verb, "q has no columns");
    if (qc % heads)
        return cli_wrong_use(verb, "q is %lld x %lld; its width does not split into %s", qr, qc, cli_of(heads, "head").s);
    if (kc != qc / heads * kv_heads) {
        if (group == 1) return cli_wrong_use(verb, "q is %lld x %lld but k has width %lld", qr, qc, kc);
        return cli_wrong_use(verb, "q is %lld x %lld in %s, so k in %s has width %lld, not %lld", qr, qc, cli_of(heads, "head").s,
                             cli_of(kv_heads, "head").s, qc / heads * kv_heads, kc);
    }
    if (kr != vr) return cli_wrong_use(verb, "k has %s but v has %s", cli_of(kr, "row").s, cli_count(vr).s);
    if (vc == 0 || vc % kv_heads)
        return cli_wrong_use(verb, "v is %lld x %lld; its width does not split into %s", vr, vc, cli_of(kv_heads, "head").s);
    return CLI_GO_ON;
}

static void describe(work *w, const attend_values *values, int64_t heads, int64_t kv_heads) {
    qkv_attention_init(&w->a);
    w->offset_q[1] = w->q.rows;
    w->offset_k[1] = w->k.rows;
    w->a.sequences = 1;
    w->a.q_offset = w->offset_q;
    w->a.k_offset = w->offset_k;
    w->a.heads = heads;
    w->a.kv_heads = kv_heads;
    w->a.dim = w->q.cols / heads;
    w->a.value_dim = w->v.cols / kv_heads;
    w->a.scale = (float)values->scale;
    w->a.span = values->window;
    if (values->causal) w->a.span.right = 0;
}

static void *floats(int64_t a, int64_t b, int64_t c) {
    double bytes = (double)a * (double)b * (double)c * sizeof(float);
    if (bytes > (double)(SIZE_MAX / 4)) {
        cli_say("out of memory (%s asked for)", cli_bytes(bytes).s);
        exit(CLI_FAILED);
    }
    return cli_alloc((size_t)(a * b * c) * sizeof(float));
}

static qkv_status compute(qkv_ctx *ctx, work *w, int weights) {
    int64_t heads = w->a.heads, n_q = w->q.rows, n_k = w->k.rows;
    w->output = floats(n_q, heads, w->a.value_dim);
    w->lse = floats(heads, n_q, 1);
    qkv_status status = qkv_attention_forward(ctx, &w->a, w->q.p, w->k.p, w->v.p, w->output, w->lse);
    if (!weights) return status;
    w->weights = floats(heads, n_q, n_k);
    for (int64_t h = 0; h < heads && status == QKV_OK; h++)
        status = qkv_attention_weights(ctx, &w->a, w->q.p, w->k.p, 0, h, w->weights + h * n_q * n_k);
    return status;
}

static void print(const work *w, const attend_values *values) {
    int64_t heads = w->a.heads, n_q = w->q.rows, n_k = w->k.rows, width = heads * w->a.value_dim;
    if (values->weights || values->lse) printf("# output\n");
    cli_matrix_print(stdout, w->output, n_q, width, width);
    for (int64_t h = 0; values->weights && h < heads; h++) {
        printf("# weights of head %lld\n", (long long)h);
        cli_matrix_print(stdout, w->weights + h * n_q * n_k, n_q, n_k, n_k);
    }
    if (!values->lse) return;
    printf("# lse\n");
    for (int64_t i = 0; i < n_q; i++) {
        for (int64_t h = 0; h < heads; h++) printf("%s%s", h ? " " : "", cli_float(w->lse[h * n_q + i]).s);
        putchar('\n');
    }
}

static json_t *to_json(const work *w, const attend_values *values) {
    int64_t heads = w->a.heads, n_q = w->q.rows, n_k = w->k.rows, width = heads * w->a.value_dim;
    json_t *all = json_object();
    json_object_set_new(all, "output", cli_matrix_json(w->output, n_q, width, width));
    if (values->weights) {
        json_t *list = json_array();
        for (int64_t h = 0; h < heads; h++) json_array_append_new(list, cli_matrix_json(w->weights + h * n_q * n_k, n_q, n_k, n_k));
        json_object_set_new(all, "weights", list);
    }
    if (values->lse) json_object_set_new(all, "lse", cli_matrix_json(w->lse, heads, n_q, n_q));
    return all;
}

int attend_files(const cli_verb *verb, qkv_ctx *ctx, const attend_values *values) {
    const char *paths[] = {values->q, values->k, values->v};
    int piped = 0;
    for (int i = 0; i < 3; i++) piped += !strcmp(paths[i], "-");
    if (piped > 1) return cli_wrong_use(verb, "only one of --q, --k and --v can be standard input");
    int64_t heads = values->heads, kv_heads = values->kv_heads ? values->kv_heads : heads;

    work w;
    memset(&w, 0, sizeof w);
    int code = read_matrix(ctx, values->q, &w.q);
    if (code == CLI_GO_ON) code = read_matrix(ctx, values->k, &w.k);
    if (code == CLI_GO_ON) code = read_matrix(ctx, values->v, &w.v);
    if (code == CLI_GO_ON) code = check_shapes(verb, &w, heads, kv_heads);
    if (code == CLI_GO_ON) {
        describe(&w, values, heads, kv_heads);
        qkv_status status = compute(ctx, &w, values->weights);
        code = status == QKV_OK ? CLI_DONE : cli_fail(ctx, status);
    }
    if (code == CLI_DONE && values->json) cli_json_line(stdout, to_json(&w, values), JSON_COMPACT);
    if (code == CLI_DONE && !values->json) print(&w, values);
    free(w.q.p);
    free(w.k.p);
    free(w.v.p);
    free(w.output);
    free(w.lse);
    free(w.weights);
    return code;
}
