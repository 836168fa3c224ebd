/* qkv info: the machine, or a model. */
#include "cli.h"

typedef struct info_values {
    int64_t threads;
    int json;
} info_values;

static const cli_option options[] = {
    {"threads", 0, CLI_INT, offsetof(info_values, threads), "N", "0", 0, 1024, "threads to measure with; 0: every core allowed"},
    {"json", 0, CLI_FLAG, offsetof(info_values, json), NULL, NULL, 0, 0, "print everything as one JSON object"},
};

/* ---- the machine ---- */

static void machine_text(const qkv_machine *m) {
    printf("qkv %s\n\n", qkv_version_string());
    printf("%-20s%s\n", "CPU", m->cpu[0] ? m->cpu : "unknown");
    printf("%-20s%s\n", "instruction set", m->isa);
    printf("%-20s%s\n", "  why", m->why);
    printf("%-20s%s\n", "  present", m->present);
    printf("%-20s%d\n", "cores allowed", m->cores_allowed);
    printf("%-20s%d\n", "threads", m->threads);
    printf("%-20s%s (%s a thread); 1 multiply-add = 2 FLOP\n", "FMA peak, measured", cli_si(1e9 * m->fma_gflops, "FLOP/s").s,
           cli_si(1e9 * m->fma_gflops_core, "FLOP/s").s);
    if (m->bf16_gflops > 0) printf("%-20s%s\n", "bf16 peak, measured", cli_si(1e9 * m->bf16_gflops, "FLOP/s").s);
    if (m->memory.read_gbs > 0) {
        printf("%-20s%s\n", "memory read", cli_si(1e9 * m->memory.read_gbs, "B/s").s);
        printf("%-20s%s (read + written)\n", "memory copy", cli_si(1e9 * m->memory.copy_gbs, "B/s").s);
        printf("%-20s%s (read + written, in place)\n", "memory update", cli_si(1e9 * m->memory.update_gbs, "B/s").s);
    }
    for (int i = 0; i < 3; i++) {
        char name[24];
        const qkv_bandwidth *b = &m->cache[i];
        if (b->bytes == 0) continue;
        snprintf(name, sizeof name, "cache level %d", i + 1);
        printf("%-20s%s, read %s, update %s\n", name, cli_bytes((double)b->bytes).s, cli_si(1e9 * b->read_gbs, "B/s").s,
               cli_si(1e9 * b->update_gbs, "B/s").s);
    }
    printf("%-20s%s\n", "build", m->build);
}

static json_t *number_or_null(double x) {
    return x > 0 ? json_real(x) : json_null();
}

static json_t *bandwidth_json(const qkv_bandwidth *b) {
    return json_pack("{s:I, s:o, s:o, s:o}", "bytes", (json_int_t)b->bytes, "read_gbs", number_or_null(b->read_gbs), "copy_gbs",
                     number_or_null(b->copy_gbs), "update_gbs", number_or_null(b->update_gbs));
}

static json_t *machine_json(const qkv_machine *m) {
    json_t *present = json_array();
    for (const char *p = m->present; *p;) {
        size_t length = strcspn(p, " ,");
        if (length) json_array_append_new(present, json_stringn(p, length));
        p += length + (p[length] != 0);
    }
    json_t *caches = json_array();
    for (int i = 0; i < 3; i++) json_array_append_new(caches, bandwidth_json(&m->cache[i]));
    return json_pack("{s:s, s:o, s:s, s:s, s:o, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:s}", "version", qkv_version_string(), "cpu",
                     cli_json_text(m->cpu, (int64_t)strlen(m->cpu)), "isa", m->isa, "why", m->why, "present", present,
                     "cores_allowed", m->cores_allowed, "threads", m->threads, "fma_gflops", number_or_null(m->fma_gflops),
                     "fma_gflops_core", number_or_null(m->fma_gflops_core), "bf16_gflops", number_or_null(m->bf16_gflops), "memory",
                     bandwidth_json(&m->memory), "caches", caches, "build", m->build);
}

static int machine(qkv_ctx *ctx, const info_values *values) {
    qkv_machine m;
    qkv_status status = qkv_machine_measure(ctx, 1, 1, &m);
    if (status == QKV_NO_MEMORY) {
        cli_say("warning: %s; memory is not measured", qkv_message(ctx));
        status = qkv_machine_measure(ctx, 0.5, 0, &m);
    }
    if (status != QKV_OK) return cli_fail(ctx, status);
    if (values->json) {
        cli_json_line(stdout, machine_json(&m), JSON_INDENT(2));
    } else {
        machine_text(&m);
    }
    return CLI_DONE;
}

/* ---- a model: the library's description, laid out ---- */

/* A value in a few words; lists and objects within it as JSON. */
static void print_value(const json_t *value) {
    char text[512];
    if (json_is_string(value)) {
        cli_printable(json_string_value(value), (int64_t)json_string_length(value), 0, text, sizeof text);
        printf("%s", text);
    } else if (json_is_boolean(value)) {
        printf("%s", json_is_true(value) ? "yes" : "no");
    } else if (json_is_integer(value)) {
        printf("%s", cli_count(json_integer_value(value)).s);
    } else if (json_is_real(value)) {
        printf("%.7g", json_real_value(value));
    } else {
        char *json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));
        printf("%s", json ? json : "");
        free(json);
    }
}

static void print_members(const json_t *object, int indent) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        int used = printf("%*s%s", indent, "", key);
        if (json_is_object(value) && json_object_size(value)) {
            putchar('\n');
            print_members(value, indent + 2);
            continue;
        }
        printf("%*s", used < 22 ? 22 - used : 1, "");
        if (!strcmp(key, "seed") && json_is_integer(value)) { /* a name, not a quantity */
            printf("%lld", (long long)json_integer_value(value));
        } else {
            print_value(value);
        }
        putchar('\n');
    }
}

/* What stands between commas, as much in a line as fits, behind a name. */
static void print_wrapped(const char *name, const char *text) {
    enum { WIDTH = 100, INDENT = 22 };
    int column = printf("%-22s", name);
    for (int first = 1; *text; first = 0) {
        const char *comma = strstr(text, ", ");
        const int length = comma ? (int)(comma - text) + 1 : (int)strlen(text);
        if (!first && column + 1 + length > WIDTH) column = printf("\n%*s", INDENT, "") - 1;
        else if (!first) column += printf(" ");
        column += printf("%.*s", length, text);
        text += length + (comma != NULL);
    }
    putchar('\n');
}

static void print_labels(const qkv_model *model) {
    enum { WIDTH = 80, INDENT = 22 };
    int64_t labels = qkv_model_labels(model);
    int column = printf("%-22s%s:", "labels", cli_count(labels).s);
    char text[256];
    for (int64_t i = 0; i < labels; i++) {
        const char *label = qkv_model_label(model, i);
        int width = cli_printable(label, (int64_t)strlen(label), 40, text, sizeof text);
        int comma = i + 1 < labels;
        if (column + 1 + width + comma > WIDTH) {
            printf("\n%*s", INDENT - 1, "");
            column = INDENT - 1;
        }
        printf(" %s%s", text, comma ? "," : "");
        column += 1 + width + comma;
    }
    putchar('\n');
}

static void print_parameters(const json_t *list) {
    size_t width = 4;
    for (size_t i = 0; i < json_array_size(list); i++) {
        size_t w = json_string_length(json_object_get(json_array_get(list, i), "name"));
        if (w > width) width = w;
    }
    printf("\n%-*s  %15s  %12s  %5s\n", (int)width, "parameters", "shape", "count", "decay");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *shape = json_object_get(p, "shape");
        char text[64] = "";
        size_t used = 0;
        for (size_t d = 0; d < json_array_size(shape) && used < sizeof text; d++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", d ? " x " : "",
                                     (long long)json_integer_value(json_array_get(shape, d)));
        printf("%-*s  %15s  %12s  %5s\n", (int)width, json_string_value(json_object_get(p, "name")), text,
               cli_count(json_integer_value(json_object_get(p, "count"))).s,
               json_is_true(json_object_get(p, "decay")) ? "yes" : "no");
    }
}

static void print_flops(const json_t *flops) {
    const char *tokens;
    json_t *value;
    json_object_foreach((json_t *)flops, tokens, value) {
        char name[64];
        snprintf(name, sizeof name, "  a text of %s", cli_count(atoll(tokens)).s);
        printf("%-22s%s a token\n", name, cli_si(json_number_value(value), "FLOP").s);
    }
}

static void model_text(const qkv_model *model, const json_t *m) {
    static const char *const known[] = {"task",       "version",         "network", "labels",          "tokenizer", "config",
                                        "parameters", "parameter_count", "bytes",   "flops_per_token", "record",    "linear"};
    printf("%-22s", "task");
    print_value(json_object_get(m, "task"));
    printf("\n%-22s", "file version");
    print_value(json_object_get(m, "version"));
    putchar('\n');
    print_labels(model);
    print_wrapped("network", json_string_value(json_object_get(m, "network")));
    printf("%-22s%s\n", "parameters", cli_count(json_integer_value(json_object_get(m, "parameter_count"))).s);
    const json_t *linear = json_object_get(m, "linear");
    if (linear)
        printf("%-22s%s of up to %s beside them, %s\n", "linear", cli_of(json_integer_value(json_object_get(linear, "runs")), "run").s,
               cli_of(json_integer_value(json_object_get(linear, "ngrams")), "word").s,
               cli_bytes(json_number_value(json_object_get(linear, "bytes"))).s);
    printf("%-22s%s (weights, copies laid out for the kernels%s)\n", "in memory",
           cli_bytes(json_number_value(json_object_get(m, "bytes"))).s, linear ? ", the linear model" : "");
    printf("operations            forward pass; 1 multiply-add = 2 FLOP\n");
    print_flops(json_object_get(m, "flops_per_token"));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)m, key, value) {
        int seen = 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) seen |= !strcmp(known[i], key);
        if (seen) continue;
        printf("%-22s", key);
        print_value(value);
        putchar('\n');
    }
    printf("\ntokenizer\n");
    print_members(json_object_get(m, "tokenizer"), 2);
    printf("\nconfig                (a window counts neighbours besides the token itself; -1: no limit)\n");
    print_members(json_object_get(m, "config"), 2);
    print_parameters(json_object_get(m, "parameters"));
    printf("\nrecord of the training (options as they were given; what they came to stands above)\n");
    print_members(json_object_get(m, "record"), 2);
}

static int model(qkv_ctx *ctx, const info_values *values, const char *path) {
    qkv_model *m = NULL;
    char *text = NULL;
    qkv_status status = qkv_model_load(ctx, path, &m);
    if (status == QKV_OK) status = qkv_model_describe(m, &text);
    int code = status == QKV_OK ? CLI_DONE : cli_fail(ctx, status);
    if (code == CLI_DONE && values->json) {
        puts(text);
    } else if (code == CLI_DONE) {
        json_error_t error;
        json_t *json = json_loads(text, 0, &error);
        if (json) {
            model_text(m, json);
        } else {
            cli_say("%s: the description cannot be read: %s", path, error.text);
            code = CLI_FAILED;
        }
        json_decref(json);
    }
    qkv_release(ctx, text);
    qkv_model_free(m);
    return code;
}

static int run_info(const cli_verb *verb, int argc, char **argv) {
    info_values values;
    cli_args args;
    qkv_ctx *ctx = NULL;
    int code = cli_parse(verb, argc, argv, 1, &values, &args);
    if (code != CLI_GO_ON) return code;
    if (args.count && cli_given(verb, &args, "threads")) code = cli_wrong_use(verb, "--threads has no effect: nothing of a model is measured");
    if (code == CLI_GO_ON) code = cli_open(verb, values.threads, 0, NULL, &ctx);
    if (code == CLI_GO_ON) code = args.count ? model(ctx, &values, args.words[0]) : machine(ctx, &values);
    qkv_ctx_free(ctx);
    cli_args_free(&args);
    return code;
}

const cli_verb cli_info = {
    .name = "info",
    .bare = 1,
    .usage = "info [MODEL] [options]",
    .summary = "this machine, or what is in a model",
    .about =
        "Alone: version, instruction set chosen and why, cores allowed, measured FMA peak and memory bandwidth, build options; "
        "takes about a second.\n\n"
        "With MODEL: task, labels, tokenizer, every hyper-parameter, the parameters with their counts, size in memory, "
        "operations per token, record of the training.",
    .examples = "info\ninfo news.model\ninfo news.model --json",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(info_values),
    .run = run_info,
};
