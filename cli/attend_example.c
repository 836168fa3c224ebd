/* The worked example: two tokens of width two. Scores, weights and output come from the library. */
#include "attend.h"

#include <math.h>

enum { N = 2 };

typedef struct example {
    float x[N * N], wq[N * N], wk[N * N], wv[N * N];
    float q[N * N], k[N * N], v[N * N], products[N * N];
    float scores[N * N], weights[N * N], output[N * N], lse[N];
} example;

static void multiply(const float *a, const float *b, float *c) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            c[i * N + j] = 0;
            for (int k = 0; k < N; k++) c[i * N + j] += a[i * N + k] * b[k * N + j];
        }
    }
}

static qkv_status compute(qkv_ctx *ctx, example *e) {
    static const int64_t offsets[] = {0, N};
    float transposed[N * N];
    multiply(e->x, e->wq, e->q);
    multiply(e->x, e->wk, e->k);
    multiply(e->x, e->wv, e->v);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) transposed[j * N + i] = e->k[i * N + j];
    }
    multiply(e->q, transposed, e->products);
    for (int i = 0; i < N * N; i++) e->scores[i] = e->products[i] / sqrtf(N);

    qkv_attention a;
    qkv_attention_init(&a);
    a.sequences = 1;
    a.q_offset = offsets;
    a.heads = 1;
    a.dim = N;
    qkv_status status = qkv_attention_forward(ctx, &a, e->q, e->k, e->v, e->output, e->lse);
    if (status == QKV_OK) status = qkv_attention_weights(ctx, &a, e->q, e->k, 0, 0, e->weights);
    return status;
}

static void show(const char *name, const char *what, const float *p, int decimals) {
    for (int i = 0; i < N; i++) {
        printf("  %-9s %s", i ? "" : name, i ? " [" : "[[");
        for (int j = 0; j < N; j++) printf("%s%*.*f", j ? ", " : "", decimals ? decimals + 2 : 1, decimals, (double)p[i * N + j]);
        printf("%s", i + 1 < N ? "]," : "]]");
        if (i == 0 && what[0]) printf("%*s%s", decimals ? 4 : 8, "", what);
        putchar('\n');
    }
    putchar('\n');
}

static void print(const example *e) {
    printf("Self-attention of two tokens, one head of width 2: softmax(Q K^T / sqrt(2)) V\n\n");
    printf("1. The input X, a row a token, and the three projections:\n\n");
    show("X", "", e->x, 0);
    show("Wq", "", e->wq, 0);
    show("Wk", "", e->wk, 0);
    show("Wv", "", e->wv, 0);
    printf("2. Queries, keys and values:\n\n");
    show("Q", "X Wq", e->q, 0);
    show("K", "X Wk", e->k, 0);
    show("V", "X Wv", e->v, 0);
    printf("3. Each query times each key, then divided by sqrt(2) = 1.414:\n\n");
    show("Q K^T", "", e->products, 0);
    show("scores", "Q K^T / sqrt(2)", e->scores, 4);
    printf("4. The softmax of each row: exp(score) over the sum of exp(scores). A row adds up to 1:\n\n");
    show("weights", "softmax(scores)", e->weights, 4);
    printf("5. Each output row is the mean of the rows of V with these weights:\n\n");
    show("output", "weights V", e->output, 4);
}

static json_t *to_json(const example *e) {
    const struct {
        const char *name;
        const float *p;
    } parts[] = {{"X", e->x}, {"Wq", e->wq}, {"Wk", e->wk},         {"Wv", e->wv},           {"Q", e->q},
                 {"K", e->k}, {"V", e->v},   {"scores", e->scores}, {"weights", e->weights}, {"output", e->output}};
    json_t *all = json_object();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        json_object_set_new(all, parts[i].name, cli_matrix_json(parts[i].p, N, N, N));
    return all;
}

int attend_example(qkv_ctx *ctx, const attend_values *values) {
    example e = {.x = {1, 1, 1, 0}, .wq = {1, 1, 0, 1}, .wk = {0, 1, 1, 1}, .wv = {1, 0, 0, 1}};
    qkv_status status = compute(ctx, &e);
    if (status != QKV_OK) return cli_fail(ctx, status);
    if (values->json) {
        cli_json_line(stdout, to_json(&e), JSON_COMPACT);
    } else {
        print(&e);
    }
    return CLI_DONE;
}
