/* Tables and JSON of costs. */
#include "flops.h"

#include <math.h>

/* ---- for people ---- */

enum { NAME = 17 };

/* 60.1 G; a dash where there is nothing. */
static cli_text amount(double x) {
    cli_text none = {"-"};
    return x > 0 ? cli_si(x, "") : none;
}

/* 12.3 us, 583 ms, 4.2 s, 1:02:03 h, 3.1 years. */
static cli_text duration(double s) {
    const double year = 365.25 * 24 * 3600;
    cli_text t;
    if (s < 0.0009995)
        snprintf(t.s, sizeof t.s, "%.3g us", 1e6 * s);
    else if (s < 0.9995)
        snprintf(t.s, sizeof t.s, "%.3g ms", 1e3 * s);
    else if (s < year)
        return cli_duration(s);
    else
        snprintf(t.s, sizeof t.s, "%.3g years", s / year);
    return t;
}

static cli_text intensity(const qkv_flops_sum *s) {
    cli_text t = {"-"};
    if (!(s->bytes > 0 && s->flops > 0)) return t;
    const double x = s->flops / s->bytes;
    if (x >= 9999.5) return cli_si(x, "");
    snprintf(t.s, sizeof t.s, "%.*f", x < 99.95 ? 1 : 0, x);
    return t;
}

static void heading(const char *what, int parameters) {
    printf("\n%-*s%12s%9s%9s%9s%9s%7s%8s\n", NAME, what, parameters ? "parameters" : "", "mul-adds", "executed", "FLOP", "bytes",
           "FLOP/B", "share");
}

/* parameters -1: none are shown. */
static void row(const char *name, int64_t parameters, const qkv_flops_sum *s, double whole) {
    cli_text share = {"-"}, own = {""};
    if (whole > 0) snprintf(share.s, sizeof share.s, "%.1f %%", 100 * s->flops / whole);
    if (parameters >= 0) own = cli_count(parameters);
    printf("%-*s%12s%9s%9s%9s%9s%7s%8s\n", NAME, name, parameters == 0 ? "-" : own.s, amount(s->macs).s, amount(s->executed).s,
           amount(s->flops).s, amount(s->bytes).s, intensity(s).s, share.s);
}

static void by_part(const qkv_flops *f, int by_layer) {
    const qkv_flops_part *parts = by_layer ? f->layers : f->operations;
    const int64_t count = by_layer ? f->layer_count : f->operation_count;
    heading(by_layer ? "layer" : "operation", 1);
    for (int64_t i = 0; i < count; i++) row(parts[i].name, parts[i].parameters, &parts[i].total, f->total.total.flops);
    row("total", f->total.parameters, &f->total.total, f->total.total.flops);
}

static void by_pass(const qkv_flops *f) {
    heading("pass", 0);
    for (int p = 0; p < QKV_FLOPS_PASSES; p++) {
        const qkv_flops_sum *s = &f->total.pass[p];
        if (s->bytes > 0) row(qkv_flops_pass_name((qkv_flops_pass)p), -1, s, f->total.total.flops);
    }
}

/* What makes the difference between two articles' figures for the same layer. */
static void difference(const flops_variants *v) {
    const double with = v->with->total.total.macs, without = v->without->total.total.macs, one = v->one_head->total.total.macs;
    printf("\nThe output projection makes the difference: with it %s multiply-adds and %s parameters,\nwithout it %s and %s. ",
           amount(with).s, cli_count(v->with->total.parameters).s, amount(without).s, cli_count(v->without->total.parameters).s);
    if (one == with)
        puts("The number of heads changes neither.");
    else
        printf("With one head: %s.\n", amount(one).s);
}

static void memory(const qkv_flops *f) {
    printf("\nmemory      %s: weights %s", cli_bytes(f->peak_bytes).s, cli_bytes(f->weight_bytes).s);
    if (f->state_bytes > 0) printf(", gradients and moments %s", cli_bytes(f->state_bytes).s);
    if (f->row_bytes > 0) printf(", %s %s", f->train ? "rows and their gradients" : "rows in and out", cli_bytes(f->row_bytes).s);
    printf(", activations %s\n", cli_bytes(f->activation_bytes).s);
}

static void linear(const qkv_flops *f) {
    if (f->linear_features > 0)
        printf("linear      beside it a linear model of %s and %s, in none of the sums: where a token is a word,\n"
               "            at most %s additions\n",
               cli_of(f->linear_features, "run").s, cli_of(f->linear_weights, "weight").s, amount(f->linear_flops).s);
}

static void times(const flops_time *t) {
    if (t->gflops == 0) return;
    printf("time        at least %s: the useful multiply-adds at ", duration(t->floor_s).s);
    if (t->threads > 0)
        printf("the FMA peak measured now, %s (the highest of %d, %s)\n", cli_si(1e9 * t->gflops, "FLOP/s").s, (int)FLOPS_LOOKS,
               cli_of(t->threads, "thread").s);
    else
        printf("the peak that was given, %s\n", cli_si(1e9 * t->gflops, "FLOP/s").s);
    printf("            at most %s\n", cli_si(t->tokens_per_s, "tokens/s").s);
    if (t->read_gbs > 0)
        printf("            (all bytes from memory, as if there were no caches: %s at %s)\n", duration(t->bytes_s).s,
               cli_si(1e9 * t->read_gbs, "B/s").s);
    if (t->expected_s > 0)
        printf("            expected %s, the median of %s just now: %.1f %% of that peak\n", duration(t->expected_s).s,
               cli_of(t->passes, "pass").s, 100 * t->share);
}

void flops_text(const qkv_flops *f, int by_layer, const flops_variants *variants, const flops_time *time) {
    printf("%s\n%s; %s, %s", f->what, f->batch, f->train ? "forward, backward, update" : "forward",
           f->dtype != QKV_COMPUTE_BF16 ? "f32" : f->attention_f32 ? "bf16, attention in f32" : "bf16");
    cli_again(stdout, "; ", f->recompute_part, f->recompute_every, f->ffn_chunk);
    putchar('\n');
    if (f->pairs < f->all_pairs && f->pairs > 0)
        printf("pairs of tokens that see each other: %s of %s (%.1f %%)\n", amount(f->pairs).s, amount(f->all_pairs).s,
               100 * f->pairs / f->all_pairs);
    by_part(f, by_layer);
    if (f->train) by_pass(f);
    if (variants && f->total.total.macs > 0) difference(variants);
    memory(f);
    linear(f);
    times(time);
    puts("\nmul-adds: useful multiply-adds of products; executed: those that whole tiles compute. FLOP: 2 a\n"
         "multiply-add, 1 for any other operation (exp, tanh, divisions and roots too). bytes: operands, each once.");
}

/* ---- for programs ---- */

/* Whole numbers are printed whole. */
static json_t *number(double x) {
    return fabs(x) < 9e18 && x == floor(x) ? json_integer((json_int_t)x) : cli_json_real(x);
}

static double of(const qkv_flops_sum *s, int key) {
    return key == 0 ? s->macs : key == 1 ? s->flops : key == 2 ? s->executed : s->bytes;
}

static json_t *parts_json(const qkv_flops_part *parts, int64_t count, int key) {
    json_t *list = json_object();
    for (int64_t i = 0; i < count; i++)
        json_object_set_new(list, parts[i].name,
                            key < 0 ? json_integer((json_int_t)parts[i].parameters) : number(of(&parts[i].total, key)));
    return list;
}

static json_t *sums_json(const qkv_flops *f, int key) {
    json_t *passes = json_object();
    for (int p = 0; p < QKV_FLOPS_PASSES; p++)
        json_object_set_new(passes, qkv_flops_pass_name((qkv_flops_pass)p), number(of(&f->total.pass[p], key)));
    return json_pack("{s:o, s:o, s:o, s:o}", "total", number(of(&f->total.total, key)), "passes", passes, "layers",
                     parts_json(f->layers, f->layer_count, key), "operations", parts_json(f->operations, f->operation_count, key));
}

static json_t *parameters_json(const qkv_flops *f) {
    return json_pack("{s:I, s:o, s:o}", "total", (json_int_t)f->total.parameters, "layers",
                     parts_json(f->layers, f->layer_count, -1), "operations", parts_json(f->operations, f->operation_count, -1));
}

static json_t *memory_json(const qkv_flops *f) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "weights", number(f->weight_bytes), "gradients_and_moments",
                     number(f->state_bytes), "rows", number(f->row_bytes), "activations", number(f->activation_bytes), "peak",
                     number(f->peak_bytes));
}

static json_t *or_null(double x) {
    return x > 0 ? json_real(x) : json_null();
}

static json_t *time_json(const flops_time *t) {
    if (t->gflops == 0) return json_null();
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:o}", "threads",
                     t->threads ? json_integer(t->threads) : json_null(), "fma_gflops", json_real(t->gflops), "memory_read_gbs",
                     or_null(t->read_gbs), "floor_s", t->floor_s, "tokens_per_s", t->tokens_per_s, "bytes_s", or_null(t->bytes_s),
                     "share", or_null(t->share), "expected_s", or_null(t->expected_s), "passes",
                     t->passes ? json_integer((json_int_t)t->passes) : json_null());
}

static json_t *variant_json(const qkv_flops *f) {
    return json_pack("{s:o, s:I}", "macs", number(f->total.total.macs), "parameters", (json_int_t)f->total.parameters);
}

json_t *flops_json(const qkv_flops *f, const flops_variants *variants, const flops_time *time) {
    static const char *const keys[] = {"macs", "flops", "executed_macs", "bytes"};
    json_t *out =
        json_pack("{s:s, s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:o, s:o}", "network", f->what, "batch", f->batch, "dtype",
                  f->dtype == QKV_COMPUTE_BF16 ? "bf16" : "f32", "train", f->train, "recompute", f->recompute, "sequences",
                  (json_int_t)f->sequences, "tokens", (json_int_t)f->tokens, "shortest", (json_int_t)f->shortest, "longest",
                  (json_int_t)f->longest, "pairs", number(f->pairs), "all_pairs", number(f->all_pairs));
    json_object_set_new(out, "attention_dtype", json_string(f->dtype == QKV_COMPUTE_BF16 && !f->attention_f32 ? "bf16" : "f32"));
    json_object_set_new(out, "recompute_part", json_string(cli_again_part(f->recompute_part)));
    json_object_set_new(out, "recompute_every", json_integer((json_int_t)f->recompute_every));
    json_object_set_new(out, "ffn_chunk", json_integer((json_int_t)f->ffn_chunk));
    json_object_set_new(out, "parameters", parameters_json(f));
    for (int key = 0; key < 4; key++) json_object_set_new(out, keys[key], sums_json(f, key));
    const qkv_flops_sum *all = &f->total.total;
    json_object_set_new(out, "flops_per_byte", all->bytes > 0 ? json_real(all->flops / all->bytes) : json_null());
    json_object_set_new(out, "memory", memory_json(f));
    json_object_set_new(out, "linear",
                        f->linear_features > 0
                            ? json_pack("{s:I, s:I, s:o}", "features", (json_int_t)f->linear_features, "weights",
                                        (json_int_t)f->linear_weights, "flops_at_most", number(f->linear_flops))
                            : json_null());
    json_object_set_new(out, "time", time_json(time));
    if (variants)
        json_object_set_new(out, "variants",
                            json_pack("{s:o, s:o, s:o}", "with_output_projection", variant_json(variants->with),
                                      "without_output_projection", variant_json(variants->without), "one_head",
                                      variant_json(variants->one_head)));
    json_object_set_new(out, "convention",
                        json_string("macs: useful multiply-adds of products; flops: 2 a multiply-add, 1 for any other operation; "
                                    "executed_macs: what whole tiles compute; bytes: operands, each once"));
    return out;
}
