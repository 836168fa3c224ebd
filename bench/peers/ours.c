/* qkv in turn with the others: the cases of `qkv bench`. Answers: seconds of a pass, share of the floor, operations, bytes, and 1
 * where the bytes bind. `about`: version, processor and instruction set. */
#include "qkv/bench.h"
#include "qkv/machine.h"
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
    } sizes[] = {{"m", c->m},
                 {"n", c->n},
                 {"k", c->k},
                 {"d", c->dim},
                 {"heads", c->heads},
                 {"batch", c->batch},
                 {"layers", c->layers},
                 {"ffn", c->ffn},
                 {"shortest", c->shortest},
                 {"tokens", c->tokens},
                 {"window", c->window.left},
                 {"layout", c->layout}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double given = turn_number(line, sizes[i].name, -1);
        if (given >= 0 && (int64_t)given != sizes[i].value) return 0;
    }
    return 1;
}

/* The first case of the list that fits, in a block of its own; 0: none does. */
static int among(qkv_ctx *ctx, const char *line, const qkv_bench_options *o, qkv_bench_case *found, qkv_status *status) {
    qkv_bench_case *cases;
    int64_t count;
    *status = qkv_bench_list(ctx, o, &cases, &count);
    if (*status != QKV_OK) return 0;
    int hit = 0;
    for (int64_t i = 0; i < count && !hit; i++) {
        hit = fits(line, &cases[i]);
        if (hit) *found = cases[i];
    }
    qkv_release(ctx, cases);
    return hit;
}

/* Of the list of `qkv bench`; else the case with these sizes, unless it is a variant, which sizes alone do not make. */
static qkv_status find(qkv_ctx *ctx, const char *line, const qkv_bench_options *o, qkv_bench_case *found, const char **why) {
    qkv_bench_options sized = *o;
    qkv_status status;
    *why = "no such case in qkv bench";
    sized.quick = 0;
    if (among(ctx, line, &sized, found, &status) || status != QKV_OK) return status;
    if (strstr(line, "variant=")) return QKV_BAD_ARGUMENT;
    sized.m = (int64_t)turn_number(line, "m", -1);
    sized.n = (int64_t)turn_number(line, "n", -1);
    sized.k = (int64_t)turn_number(line, "k", -1);
    sized.dim = (int64_t)turn_number(line, "d", -1);
    sized.heads = (int64_t)turn_number(line, "heads", -1);
    sized.batch = (int64_t)turn_number(line, "batch", -1);
    sized.layers = (int64_t)turn_number(line, "layers", -1);
    sized.ffn = (int64_t)turn_number(line, "ffn", -1);
    sized.layout = (int)turn_number(line, "layout", -1);
    return among(ctx, line, &sized, found, &status) ? QKV_OK : status != QKV_OK ? status : QKV_BAD_ARGUMENT;
}

static int about(qkv_ctx *ctx) {
    qkv_machine m;
    if (qkv_machine_describe(ctx, &m) != QKV_OK) return 1;
    printf("qkv %s, %s, %s\n", qkv_version_string(), m.cpu, m.isa);
    return 0;
}

static void serve(qkv_ctx *ctx, const char *line) {
    char name[64];
    const char *at = strstr(line, "case="), *why;
    snprintf(name, sizeof name, "%.*s", at ? (int)strcspn(at + 5, " \n") : 0, at ? at + 5 : "");
    qkv_bench_options o;
    qkv_bench_case c;
    qkv_bench_init(&o);
    o.what = name;
    o.quick = 1; /* one repeat is enough of what takes long */
    qkv_status status = find(ctx, line, &o, &c, &why);
    if (status != QKV_OK) {
        turn_refuse(why);
        return;
    }
    o.seconds = turn_number(line, "seconds", 0);
    if (o.seconds < 0.01) o.seconds = 0.01;
    if (qkv_bench_measure(ctx, &o, &c) != QKV_OK) {
        turn_refuse(qkv_message(ctx));
        return;
    }
    printf("%.9g %.9g %.9g %.9g %d\n", c.median_s, c.share, c.flops, c.bytes, c.by_bytes);
    fflush(stdout);
}

int main(int argc, char **argv) {
    char message[512], line[1024];
    int tell = argc > 1 && !strcmp(argv[1], "about");
    qkv_ctx_options options = {.struct_size = sizeof options, .threads = argc > 1 && !tell ? atoi(argv[1]) : 0};
    qkv_ctx *ctx;
    if (qkv_ctx_create(&options, &ctx, message, sizeof message) != QKV_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    int failed = tell ? about(ctx) : 0;
    while (!tell && fgets(line, sizeof line, stdin)) serve(ctx, line);
    qkv_ctx_free(ctx);
    return failed;
}
