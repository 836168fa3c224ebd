#include "bench.h"

#include <math.h>
#include <stddef.h>

/* ---- what a case is ---- */

typedef struct field {
    const char *name, *json;
    size_t offset;
} field;

#define FIELD(name, json, member)                                                                                                  \
    { name, json, offsetof(qkv_bench_case, member) }
static const field fields[] = {
    FIELD("m", "m", m),
    FIELD("n", "n", n),
    FIELD("k", "k", k),
    FIELD("d", "d", dim),
    FIELD("value d", "value_d", value_dim),
    FIELD("heads", "heads", heads),
    FIELD("kv", "kv_heads", kv_heads),
    FIELD("batch", "batch", batch),
    FIELD("layers", "layers", layers),
    FIELD("ffn", "ffn", ffn),
    FIELD("global first", "global_first", global_first),
    FIELD("global every", "global_every", global_every),
    FIELD("random blocks", "random_blocks", random_blocks),
    FIELD("of", "block", block),
    FIELD("from", "shortest", shortest),
    FIELD("rows", "tokens", tokens),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int64_t size_of(const qkv_bench_case *c, int i) {
    int64_t x;
    memcpy(&x, (const char *)c + fields[i].offset, sizeof x);
    return x;
}

static void shape(const qkv_bench_case *c, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < FIELDS && used < size; i++) {
        int64_t x = size_of(c, i);
        int plain = fields[i].offset == offsetof(qkv_bench_case, batch) && x == 1;
        if (x > 0 && !plain)
            used += (size_t)snprintf(text + used, size - used, "%s%s %lld", used ? " " : "", fields[i].name, (long long)x);
    }
    if (used < size && (c->window.left >= 0 || c->window.right >= 0))
        used +=
            (size_t)snprintf(text + used, size - used, " window %lld,%lld", (long long)c->window.left, (long long)c->window.right);
    if (used < size && c->dropout > 0) used += (size_t)snprintf(text + used, size - used, " dropout %g", c->dropout);
    if (used < size && c->layout == QKV_BENCH_HEADS) snprintf(text + used, size - used, " layout heads");
}

static void title(const qkv_bench_case *c, char *text, size_t size) {
    snprintf(text, size, "%s%s%s", c->name, c->variant[0] ? ", " : "", c->variant);
}

void bench_describe(const qkv_bench_case *c, char *text, size_t size) {
    char name[80], sizes[200];
    title(c, name, sizeof name);
    shape(c, sizes, sizeof sizes);
    snprintf(text, size, "%s  %s", name, sizes);
}

/* ---- the table ---- */

/* Four digits and a unit: 94.91 ms. */
static cli_text seconds(double s) {
    static const char *const unit[] = {"s ", "ms", "us", "ns"};
    cli_text t;
    int i = 0;
    while (i < 3 && s < 0.9995) {
        s *= 1000;
        i++;
    }
    snprintf(t.s, sizeof t.s, "%.*f %s", s < 9.9995 ? 3 : s < 99.995 ? 2 : s < 999.95 ? 1 : 0, s, unit[i]);
    return t;
}

static cli_text rate(double x) {
    cli_text t;
    snprintf(t.s, sizeof t.s, "%.*f", x < 9.995 ? 2 : x < 9999.5 ? 1 : 0, x);
    return t;
}

static const char *dtype(const qkv_bench_case *c) {
    return c->dtype == QKV_BENCH_BF16 ? "bf16" : "f32";
}

void bench_heading(const bench_columns *w) {
    printf("%-*s  %-*s  %7s %5s %10s %-8s %7s %9s %9s %9s %9s\n", w->name, "case", w->shape, "shape", "threads", "dtype", "rate",
           "", "share", "floor", "min", "median", "max");
}

bench_columns bench_widths(const qkv_bench_case *cases, int64_t count) {
    bench_columns w = {4, 5};
    for (int64_t i = 0; i < count; i++) {
        char name[80], sizes[200];
        title(&cases[i], name, sizeof name);
        shape(&cases[i], sizes, sizeof sizes);
        if ((int)strlen(name) > w.name) w.name = (int)strlen(name);
        if ((int)strlen(sizes) > w.shape) w.shape = (int)strlen(sizes);
    }
    return w;
}

static void start_of_row(const bench_columns *w, const qkv_bench_case *c) {
    char name[80], sizes[200];
    title(c, name, sizeof name);
    shape(c, sizes, sizeof sizes);
    printf("%-*s  %-*s  ", w->name, name, w->shape, sizes);
}

void bench_row(const bench_columns *w, const qkv_bench_case *c) {
    start_of_row(w, c);
    printf("%7d %5s %10s %-8s %5.1f %% %9s %9s %9s %9s", c->threads, dtype(c), rate(c->by_bytes ? c->gbs : c->gflops).s,
           c->by_bytes ? "GB/s" : "GFLOP/s", 100 * c->share, seconds(c->floor_s).s, seconds(c->min_s).s, seconds(c->median_s).s,
           seconds(c->max_s).s);
    if (!strncmp(c->name, "train.", 6)) printf("  %s tokens/s", cli_count((int64_t)(c->items / c->median_s)).s);
    if (!strncmp(c->name, "predict.", 8)) printf("  %s texts/s", cli_count((int64_t)(c->items / c->median_s)).s);
    putchar('\n');
}

void bench_row_skipped(const bench_columns *w, const qkv_bench_case *c, const char *why) {
    start_of_row(w, c);
    printf("%7s not measured: %s\n", "", why);
}

/* ---- the machine ---- */

static void machine_row(const char *name, const char *unit, const qkv_machine *machines, int count, size_t offset) {
    double x;
    memcpy(&x, (const char *)&machines[0] + offset, sizeof x);
    if (!(x > 0)) return;
    printf("  %-28s", name);
    for (int i = 0; i < count; i++) {
        memcpy(&x, (const char *)&machines[i] + offset, sizeof x);
        printf(" %10s", rate(x).s);
    }
    printf(" %s\n", unit);
}

static const struct {
    const char *name;
    size_t offset;
} rates[] = {{"multiply-adds f32", offsetof(qkv_machine, fma_gflops)}, {"dot products bf16", offsetof(qkv_machine, bf16_gflops)}},
  streams[] = {{"read", offsetof(qkv_bandwidth, read_gbs)},
               {"copy", offsetof(qkv_bandwidth, copy_gbs)},
               {"update in place", offsetof(qkv_bandwidth, update_gbs)}};
enum { RATES = 2, STREAMS = 3, CACHES = 3 };

static void bandwidth_rows(const char *name, const qkv_machine *machines, int count, size_t offset) {
    char text[64];
    for (int k = 0; k < STREAMS; k++) {
        snprintf(text, sizeof text, "%s, %s", name, streams[k].name);
        machine_row(text, "GB/s", machines, count, offset + streams[k].offset);
    }
}

void bench_machine_list(void) {
    for (int i = 0; i < RATES; i++) printf("%s%s\n", rates[i].name, i == 0 ? "" : ", where the CPU has them");
    for (int i = 0; i <= CACHES; i++)
        for (int k = 0; k < STREAMS; k++) {
            if (i < CACHES)
                printf("L%d, %s\n", i + 1, streams[k].name);
            else
                printf("memory, %s\n", streams[k].name);
        }
}

void bench_machine_text(const qkv_machine *m, int count) {
    char name[64], threads[16];
    printf("%s, %s, %d core%s allowed; qkv %s, %s\n\n", m->cpu[0] ? m->cpu : "unknown CPU", m->isa, m->cores_allowed,
           m->cores_allowed == 1 ? "" : "s", qkv_version_string(), m->build);
    printf("%-30s", "ceilings, measured; threads");
    for (int i = 0; i < count; i++) {
        snprintf(threads, sizeof threads, "%d", m[i].threads);
        printf(" %10s", threads);
    }
    putchar('\n');
    for (int i = 0; i < RATES; i++) machine_row(rates[i].name, "GFLOP/s", m, count, rates[i].offset);
    for (int i = 0; i < CACHES; i++) {
        snprintf(name, sizeof name, "L%d %s", i + 1, cli_bytes((double)m->cache[i].bytes).s);
        if (m->cache[i].bytes > 0) bandwidth_rows(name, m, count, offsetof(qkv_machine, cache) + (size_t)i * sizeof(qkv_bandwidth));
    }
    bandwidth_rows("memory", m, count, offsetof(qkv_machine, memory));
    putchar('\n');
}

/* ---- JSON ---- */

static json_t *positive(double x) {
    return x > 0 && isfinite(x) ? json_real(x) : json_null();
}

static json_t *bandwidth_json(const qkv_bandwidth *b) {
    return json_pack("{s:I, s:o, s:o, s:o}", "bytes", (json_int_t)b->bytes, "read_gbs", positive(b->read_gbs), "copy_gbs",
                     positive(b->copy_gbs), "update_gbs", positive(b->update_gbs));
}

json_t *bench_machine_json(const qkv_machine *m, int count) {
    json_t *ceilings = json_array();
    for (int i = 0; i < count; i++) {
        json_t *caches = json_array();
        for (int k = 0; k < 3; k++) json_array_append_new(caches, bandwidth_json(&m[i].cache[k]));
        json_array_append_new(ceilings, json_pack("{s:i, s:o, s:o, s:o, s:o}", "threads", m[i].threads, "fma_gflops",
                                                  positive(m[i].fma_gflops), "bf16_gflops", positive(m[i].bf16_gflops), "memory",
                                                  bandwidth_json(&m[i].memory), "caches", caches));
    }
    return json_pack("{s:s, s:o, s:s, s:i, s:s, s:o}", "version", qkv_version_string(), "cpu",
                     cli_json_text(m->cpu, (int64_t)strlen(m->cpu)), "isa", m->isa, "cores_allowed", m->cores_allowed, "build",
                     m->build, "ceilings", ceilings);
}

/* What it is. */
static json_t *identity(const qkv_bench_case *c) {
    json_t *o = json_pack("{s:s, s:s}", "case", c->name, "variant", c->variant);
    for (int i = 0; i < FIELDS; i++) {
        int64_t x = size_of(c, i);
        if (x > 0) json_object_set_new(o, fields[i].json, json_integer(x));
    }
    if (c->window.left >= 0 || c->window.right >= 0)
        json_object_set_new(o, "window", json_pack("[I, I]", (json_int_t)c->window.left, (json_int_t)c->window.right));
    if (c->dropout > 0) json_object_set_new(o, "dropout", json_real(c->dropout));
    if (!strcmp(c->name, "attention.decode"))
        json_object_set_new(o, "layout", json_string(c->layout == QKV_BENCH_HEADS ? "heads" : "rows"));
    return o;
}

json_t *bench_left_out_json(const qkv_bench_case *c, int threads, const char *why) {
    json_t *o = identity(c);
    json_object_set_new(o, "threads", json_integer(threads));
    json_object_set_new(o, "why", cli_json_text(why, (int64_t)strlen(why)));
    return o;
}

json_t *bench_case_json(const qkv_bench_case *c) {
    json_t *o = identity(c);
    json_t *results =
        json_pack("{s:i, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:I, s:I}", "threads",
                  c->threads, "dtype", dtype(c), "gflops", cli_json_real(c->gflops), "gbs",
                  cli_json_real(c->gbs), "share", cli_json_real(c->share), "bound", c->by_bytes ? "bytes" : "arithmetic", "min_s",
                  cli_json_real(c->min_s), "median_s", cli_json_real(c->median_s), "max_s", cli_json_real(c->max_s), "floor_s",
                  cli_json_real(c->floor_s), "flops", cli_json_real(c->flops), "bytes", cli_json_real(c->bytes), "ceiling_gflops",
                  positive(c->ceiling_gflops), "ceiling_gbs", positive(c->ceiling_gbs), "items", cli_json_real(c->items), "repeats",
                  c->repeats, "passes", (json_int_t)c->passes, "memory", (json_int_t)c->memory);
    json_object_update(o, results);
    json_decref(results);
    return o;
}
