/* qkv in turn with the others: the cases of `qkv bench`. Answers: seconds, share of the ceiling, operations. */
#include "qkv/bench.h"
#include "turn.h"

static int text_is(const char *line, const char *name, const char *value) {
    size_t n = strlen(name), m = strlen(value);
    const char *at = strstr(line, name);
    return at && at[n] == '=' && !strncmp(at + n + 1, value, m) && strchr(" \n", at[n + 1 + m]) != NULL;
}

/* Does the case of the list have every size that the line names? Underscores stand for spaces in a variant. */
static int fits(const char *line, const qkv_bench_case *c) {
    char variant[32];
    snprintf(variant, sizeof variant, "%s", c->variant);
    for (char *s = variant; *s; s++)
        if (*s == ' ') *s = '_';
    if (strstr(line, "variant=") ? !text_is(line, "variant", variant) : variant[0] != 0) return 0;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"m", c->m},         {"n", c->n},         {"k", c->k},           {"d", c->dim},
                 {"heads", c->heads}, {"batch", c->batch}, {"layers", c->layers}, {"ffn", c->ffn}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double given = turn_number(line, sizes[i].name, -1);
        if (given >= 0 && (int64_t)given != sizes[i].value) return 0;
    }
    return 1;
}

static qkv_status find(qkv_ctx *ctx, const char *line, qkv_bench_options *o, qkv_bench_case *found) {
    static char name[64];
    const char *at = strstr(line, "case=");
    snprintf(name, sizeof name, "%.*s", at ? (int)strcspn(at + 5, " \n") : 0, at ? at + 5 : "");
    o->what = name;
    qkv_bench_case *cases;
    int64_t count;
    qkv_bench_options all = *o;
    all.quick = 0;
    qkv_status status = qkv_bench_list(ctx, &all, &cases, &count);
    if (status != QKV_OK) return status;
    int hit = 0;
    for (int64_t i = 0; i < count && !hit; i++) {
        hit = fits(line, &cases[i]);
        if (hit) *found = cases[i];
    }
    qkv_release(ctx, cases);
    if (hit) return QKV_OK;
    qkv_bench_options sized = *o;
    sized.m = (int64_t)turn_number(line, "m", -1);
    sized.n = (int64_t)turn_number(line, "n", -1);
    sized.k = (int64_t)turn_number(line, "k", -1);
    sized.dim = (int64_t)turn_number(line, "d", -1);
    sized.heads = (int64_t)turn_number(line, "heads", -1);
    sized.batch = (int64_t)turn_number(line, "batch", -1);
    sized.layers = (int64_t)turn_number(line, "layers", -1);
    sized.ffn = (int64_t)turn_number(line, "ffn", -1);
    status = qkv_bench_list(ctx, &sized, &cases, &count);
    if (status != QKV_OK) return status;
    *found = cases[0];
    qkv_release(ctx, cases);
    return QKV_OK;
}

int main(int argc, char **argv) {
    char message[512], line[1024];
    qkv_ctx_options options = {.struct_size = sizeof options, .threads = argc > 1 ? atoi(argv[1]) : 0};
    qkv_ctx *ctx;
    if (qkv_ctx_create(&options, &ctx, message, sizeof message) != QKV_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        qkv_bench_options o;
        qkv_bench_case c;
        qkv_bench_init(&o);
        o.quick = 1; /* one repeat is enough of what takes long */
        qkv_status status = find(ctx, line, &o, &c);
        o.seconds = turn_number(line, "seconds", 0);
        if (o.seconds < 0.01) o.seconds = 0.01;
        if (status == QKV_OK) status = qkv_bench_measure(ctx, &o, &c);
        if (status == QKV_OK)
            printf("%.9g %.9g %.9g\n", c.median_s, c.share, c.flops);
        else
            printf("- %s\n", qkv_message(ctx));
        fflush(stdout);
    }
    qkv_ctx_free(ctx);
    return 0;
}
