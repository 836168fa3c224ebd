/* Measuring: the list of cases, sizes, refusals, and results that are possible ones. How fast anything is fails no test. */
#include "unit/ops/ops.h"

#include "base/par.h"
#include "bench/job.h"

typedef struct fixture {
    test_memory memory;
    qkv_ctx ctx;
} fixture;

static void start(fixture *f, int threads) {
    memset(f, 0, sizeof *f);
    f->ctx = test_ctx(&f->memory);
    f->ctx.threads = threads;
    assert_int_equal(qkv_kernels_pick(&f->ctx, getenv("QKV_ISA")), QKV_OK);
}

static void end(fixture *f) {
    qkv_par_close(&f->ctx);
    assert_int_equal(f->memory.blocks, 0);
}

static qkv_bench_options options(const char *what) {
    return (qkv_bench_options){.struct_size = sizeof(qkv_bench_options),
                               .what = what,
                               .seconds = 0.01,
                               .m = -1,
                               .n = -1,
                               .k = -1,
                               .dim = -1,
                               .value_dim = -1,
                               .heads = -1,
                               .kv_heads = -1,
                               .batch = -1,
                               .layers = -1,
                               .ffn = -1,
                               .global_first = -1,
                               .global_every = -1,
                               .random_blocks = -1,
                               .block = -1,
                               .window = {-2, -1},
                               .dropout = -1,
                               .layout = -1};
}

static qkv_bench_case *list(fixture *f, const qkv_bench_options *o, int64_t *count) {
    qkv_bench_case *cases = NULL;
    if (qkv_bench_cases(&f->ctx, o, &cases, count) != QKV_OK) fail_msg("%s", f->ctx.message);
    return cases;
}

static bool has(const qkv_bench_case *cases, int64_t count, const char *name) {
    for (int64_t i = 0; i < count; i++)
        if (strcmp(cases[i].name, name) == 0) return true;
    return false;
}

static void the_list_has_every_kind_and_the_short_one_is_part_of_it(void **state) {
    (void)state;
    static const char *const names[] = {"gemm.nt",          "gemm.tn",        "attention.forward", "attention.backward",
                                        "attention.decode", "pointwise.norm", "pointwise.adamw",   "layer.forward", "gemm.nn",
                                        "layer.both",       "train.step",     "predict.texts",     "recurrence.lstm",
                                        "recurrence.gru-both"};
    fixture f;
    start(&f, 1);
    int64_t all, few, part;
    qkv_bench_options o = options("all");
    qkv_bench_case *cases = list(&f, &o, &all);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_true(has(cases, all, names[i]));
    qkv_free(&f.ctx, cases);
    o.quick = 1;
    cases = list(&f, &o, &few);
    assert_true(few > 10 && few < all / 3);
    qkv_free(&f.ctx, cases);
    o = options("attention");
    cases = list(&f, &o, &part);
    for (int64_t i = 0; i < part; i++) assert_memory_equal(cases[i].name, "attention.", 10);
    qkv_free(&f.ctx, cases);
    o.what = "attention.decode";
    cases = list(&f, &o, &part);
    for (int64_t i = 0; i < part; i++) assert_string_equal(cases[i].name, "attention.decode");
    qkv_free(&f.ctx, cases);
    end(&f);
}

static void every_kind_is_in_a_list_and_runs_at_a_tiny_size(void **state) {
    (void)state;
    const qkv_bench_kind *const *const lists[] = {qkv_bench_gemm_kinds,  qkv_bench_attention_kinds, qkv_bench_pointwise_kinds,
                                                  qkv_bench_layer_kinds, qkv_bench_train_kinds,     qkv_bench_predict_kinds,
                                                  qkv_bench_recurrence_kinds};
    fixture f;
    start(&f, 2);
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (const qkv_bench_kind *const *k = lists[l]; *k; k++) {
            qkv_bench_options o = options((*k)->name);
            int64_t count;
            if (l == 0)
                o.m = 5, o.n = 33, o.k = 17;
            else if (l == 2)
                o.n = 7, o.dim = 24;
            else if (l == 6)
                o.dim = 24, o.batch = 2;
            else
                o.dim = 24, o.heads = 3, o.batch = 2;
            if (l == 1 || (l >= 3 && strcmp((*k)->name, "predict.texts") != 0)) o.n = 9;
            if (l == 4 || l == 5) o.layers = 1, o.ffn = 16;
            qkv_bench_case *cases = list(&f, &o, &count);
            assert_int_equal(count, 1);
            qkv_bench_case *c = cases;
            if (qkv_bench_run(&f.ctx, &o, c) != QKV_OK) fail_msg("%s: %s", c->name, f.ctx.message);
            bool copies = strcmp(c->name, "pointwise.embedding") == 0;
            if (!((c->flops > 0 || copies) && c->bytes > 0 && c->repeats >= 3 && c->passes >= 1))
                fail_msg("%s: nothing was counted", c->name);
            if (!(c->min_s > 0 && c->min_s <= c->median_s && c->median_s <= c->max_s)) fail_msg("%s: impossible times", c->name);
            if (!(c->share > 0 && c->floor_s > 0 && c->ceiling_gflops > 0)) fail_msg("%s: no ceiling", c->name);
            assert_int_equal(c->threads, 2);
            qkv_free(&f.ctx, cases);
        }
    end(&f);
}

static void operations_are_those_of_the_formulas(void **state) {
    (void)state;
    fixture f;
    start(&f, 1);
    int64_t count;
    qkv_bench_options o = options("gemm.nt");
    o.m = 12, o.n = 20, o.k = 30;
    qkv_bench_case *cases = list(&f, &o, &count);
    assert_int_equal(qkv_bench_run(&f.ctx, &o, cases), QKV_OK);
    assert_true(cases->flops == 2.0 * 12 * 20 * 30);
    assert_true(cases->bytes == sizeof(real) * (12.0 * 30 + 30 * 20 + 12 * 20));
    qkv_free(&f.ctx, cases);

    o.what = "gemm.nn";
    cases = list(&f, &o, &count);
    assert_int_equal(qkv_bench_foresee(&f.ctx, &o, cases), QKV_OK);
    assert_true(cases->flops == 2.0 * 12 * 20 * 30);
    assert_true(cases->bytes == sizeof(real) * (12.0 * 30 + 30 * 20 + 12 * 20)); /* not the packing */
    qkv_free(&f.ctx, cases);

    o = options("attention");
    o.n = 10, o.dim = 8, o.heads = 2, o.batch = 3, o.window = (qkv_span){-1, 0};
    cases = list(&f, &o, &count);
    assert_true(count >= 3);
    for (int64_t i = 0; i < count; i++) {
        qkv_bench_case *c = &cases[i];
        if (strcmp(c->name, "attention.decode") == 0) continue;
        assert_int_equal(qkv_bench_run(&f.ctx, &o, c), QKV_OK);
        double pairs = 3 * 2 * 55, factor = strcmp(c->name, "attention.forward") == 0 ? 4 : 10; /* visible pairs only */
        assert_true(c->flops == factor * 8 * pairs);
    }
    qkv_free(&f.ctx, cases);

    /* Neighbours on both sides: 28 pairs; token 0 global: 8 more that see it, 8 more that it sees. */
    o = options("attention");
    o.n = 10, o.dim = 8, o.heads = 2, o.window = (qkv_span){1, 1}, o.global_first = 1;
    cases = list(&f, &o, &count);
    assert_int_equal(count, 2);
    assert_int_equal(qkv_bench_run(&f.ctx, &o, cases), QKV_OK);
    assert_true(cases->flops == 4 * 8 * 2 * (28 + 16));
    qkv_free(&f.ctx, cases);
    end(&f);
}

/* A case tells the type that it ran in, and is held against the peak of that. */
static void what_has_no_bf16_form_runs_in_f32_and_says_so(void **state) {
    (void)state;
    static const struct {
        const char *name, *variant;
        bool bf16;
    } want[] = {
        {"gemm.nt", "", true},           {"gemm.backward", "", true},        {"attention.forward", "", true},
        {"attention.forward", "alibi", true}, {"attention.backward", "dropout", true}, {"attention.forward", "bias", false},
        {"attention.backward", "rope", false}, {"attention.forward", "shaw", false}, {"attention.backward", "global", false},
        {"attention.decode", "", false}, {"pointwise.norm", "", false},      {"recurrence.lstm", "", false},
        {"layer.both", "", true},        {"train.step", "", true},
    };
    fixture f;
    start(&f, 1);
    qkv_bench_options o = options("all");
    o.dtype = QKV_BENCH_BF16;
    int64_t count;
    qkv_bench_case *cases = list(&f, &o, &count);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int64_t k = 0;
        while (k < count && (strcmp(cases[k].name, want[i].name) != 0 || strcmp(cases[k].variant, want[i].variant) != 0)) k++;
        assert_true(k < count);
        assert_int_equal(qkv_bench_foresee(&f.ctx, &o, &cases[k]), QKV_OK);
        if ((cases[k].dtype == QKV_BENCH_BF16) != want[i].bf16) fail_msg("%s, %s: the wrong type", want[i].name, want[i].variant);
    }
    qkv_free(&f.ctx, cases);
    end(&f);
}

/* Its bytes are read from where they lie, in either order. */
static void decoding_is_held_against_a_loop_over_its_own_bytes(void **state) {
    (void)state;
    fixture f;
    start(&f, 2);
    for (int layout = QKV_BENCH_ROWS; layout <= QKV_BENCH_HEADS; layout++) {
        qkv_bench_options o = options("attention.decode");
        o.n = 40, o.dim = 8, o.heads = 4, o.kv_heads = 2, o.layout = layout;
        int64_t count;
        qkv_bench_case *cases = list(&f, &o, &count);
        assert_int_equal(count, 1);
        assert_int_equal(qkv_bench_run(&f.ctx, &o, cases), QKV_OK);
        assert_int_equal(cases->layout, layout);
        assert_true(cases->bytes >= sizeof(real) * 40 * 2 * (8 + 8) && cases->ceiling_gbs > 0);
        assert_true(cases->memory < 1 << 16); /* no buffers beside its own */
        qkv_free(&f.ctx, cases);
    }
    end(&f);
}

static void refused(fixture *f, const qkv_bench_options *o, const char *sentence) {
    qkv_bench_case *cases = NULL;
    int64_t count = 0;
    assert_int_equal(qkv_bench_cases(&f->ctx, o, &cases, &count), QKV_BAD_ARGUMENT);
    if (!strstr(f->ctx.message, sentence)) fail_msg("'%s' does not say '%s'", f->ctx.message, sentence);
}

static void what_makes_no_sense_is_refused_with_its_number(void **state) {
    (void)state;
    fixture f;
    start(&f, 1);
    qkv_bench_options o = options("atention");
    refused(&f, &o, "'atention'");
    o = options("");
    refused(&f, &o, "no case ''");
    o = options("gemm");
    o.heads = 8;
    refused(&f, &o, "heads is not a size of 'gemm'");
    o = options("predict");
    o.n = 8;
    refused(&f, &o, "n is not a size of 'predict.texts'");
    o = options("all");
    o.n = 8;
    refused(&f, &o, "n is not a size of 'all'");
    o = options("gemm");
    o.m = 0;
    refused(&f, &o, "m=0");
    o.m = (1 << 24) + 1;
    refused(&f, &o, "m=16777217");
    o = options("attention");
    o.heads = 6, o.kv_heads = 4;
    refused(&f, &o, "kv-heads=4 does not divide heads=6");
    o = options("layer");
    o.dim = 100, o.heads = 3;
    refused(&f, &o, "heads=3 does not divide dim=100");
    o = options("attention");
    o.dropout = 0.99;
    refused(&f, &o, "dropout=0.99");
    o = options("attention");
    o.window = (qkv_span){-3, 0};
    refused(&f, &o, "window=-3,0");
    o = options("gemm");
    o.seconds = 1e9;
    refused(&f, &o, "seconds=1e+09");
    o = options("pointwise.gelu");
    o.dropout = 0.5;
    refused(&f, &o, "dropout is not a size of 'pointwise.gelu'");
    o = options("attention.decode");
    o.dropout = 0.1;
    refused(&f, &o, "not of attention.decode");
    o = options("attention.forward");
    o.layout = QKV_BENCH_HEADS;
    refused(&f, &o, "layout is of attention.decode, which has no windows");
    o.layout = 2;
    refused(&f, &o, "layout=2");
    /* sizes of a case that no list gives */
    qkv_bench_case *cases;
    int64_t count;
    o = options("attention.forward");
    assert_int_equal(qkv_bench_cases(&f.ctx, &o, &cases, &count), QKV_OK);
    cases[0].heads = 0;
    assert_int_equal(qkv_bench_run(&f.ctx, &o, &cases[0]), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(f.ctx.message, "attention.forward: heads=0, expected 1 to 65536"));
    cases[0].heads = 8;
    cases[0].n = INT64_C(1) << 40;
    assert_int_equal(qkv_bench_run(&f.ctx, &o, &cases[0]), QKV_BAD_ARGUMENT);
    qkv_free(&f.ctx, cases);
    end(&f);
}

static void what_does_not_fit_is_refused_before_it_is_allocated(void **state) {
    (void)state;
    static const char *const names[] = {"gemm.nt",          "gemm.tn",        "attention.forward", "attention.backward",
                                        "attention.decode", "pointwise.norm", "layer.both"};
    fixture f;
    start(&f, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        qkv_bench_options o = options(names[i]);
        int64_t count;
        if (i < 2)
            o.m = 1 << 24, o.n = 1 << 24, o.k = 1 << 24;
        else
            o.n = 1 << 24, o.dim = 65536;
        qkv_bench_case *cases = list(&f, &o, &count);
        assert_int_equal(count, 1);
        assert_int_equal(qkv_bench_foresee(&f.ctx, &o, cases), QKV_NO_MEMORY);
        assert_true(cases->memory > (int64_t)1 << 40);
        assert_int_equal(qkv_bench_run(&f.ctx, &o, cases), QKV_NO_MEMORY);
        if (!strstr(f.ctx.message, names[i]) || !strstr(f.ctx.message, "GB")) fail_msg("'%s' does not say how much", f.ctx.message);
        qkv_free(&f.ctx, cases);
    }
    end(&f);
}

static int stop_at_once(void *user) {
    (void)user;
    return 1;
}

static void a_stop_is_obeyed(void **state) {
    (void)state;
    static const char *const names[] = {"gemm.nt", "train.step"};
    fixture f;
    start(&f, 1);
    for (int i = 0; i < 2; i++) {
        qkv_bench_options o = options(names[i]);
        int64_t count;
        if (i == 0)
            o.m = o.n = o.k = 16;
        else
            o.n = 4, o.batch = 2, o.dim = 8, o.heads = 2, o.layers = 1, o.ffn = 8;
        qkv_bench_case *cases = list(&f, &o, &count);
        f.ctx.stop = stop_at_once;
        assert_int_equal(qkv_bench_run(&f.ctx, &o, cases), QKV_STOPPED);
        f.ctx.stop = NULL;
        qkv_free(&f.ctx, cases);
    }
    end(&f);
}

/* Memory may run out at any allocation. */
static void running_out_of_memory_is_an_answer(void **state) {
    (void)state;
    static const char *const names[] = {"gemm.tn", "attention.backward", "train.step", "predict.texts"};
    fixture f;
    start(&f, 1);
    for (int i = 0; i < 4; i++) {
        qkv_bench_options o = options(names[i]);
        int64_t count;
        if (i == 0)
            o.m = o.n = o.k = 8;
        else if (i == 1)
            o.n = 4, o.dim = 8, o.heads = 2;
        else
            o.batch = 2, o.dim = 8, o.heads = 2, o.layers = 1, o.ffn = 8;
        if (i == 2) o.n = 4;
        qkv_bench_case *cases = list(&f, &o, &count);
        int64_t before = f.memory.calls;
        assert_int_equal(qkv_bench_run(&f.ctx, &o, cases), QKV_OK);
        int64_t calls = f.memory.calls - before, step = calls / 6 + 1;
        for (int64_t k = 1; k <= calls; k += step) {
            f.memory.fail_at = f.memory.calls + k;
            qkv_status status = qkv_bench_run(&f.ctx, &o, cases);
            if (status != QKV_NO_MEMORY && status != QKV_OK)
                fail_msg("%s, allocation %lld: status %d", names[i], (long long)k, (int)status);
            f.memory.fail_at = 0;
        }
        qkv_free(&f.ctx, cases);
    }
    end(&f);
}

static void ceilings_are_possible_ones(void **state) {
    (void)state;
    fixture f;
    start(&f, 2);
    qkv_ceilings *c;
    assert_int_equal(qkv_ceilings_open(&f.ctx, 1 << 20, &c), QKV_OK);
    assert_true(qkv_ceiling_flops(c, QKV_BENCH_F32, 1) > 0);
    assert_true(qkv_ceiling_flops(c, QKV_BENCH_F32, 2) > 0);
    for (int kind = 0; kind < 3; kind++) {
        assert_true(qkv_ceiling_bytes(c, (qkv_stream)kind, 1) > 0); /* rounded up to a line a thread */
        assert_true(qkv_ceiling_bytes(c, (qkv_stream)kind, 1 << 16) > 0);
        assert_true(qkv_ceiling_bytes(c, (qkv_stream)kind, INT64_C(1) << 40) > 0); /* cut to what was opened */
    }
    static const real own[100] = {1};
    assert_true(qkv_ceiling_reading(c, own, 100) > 0 && qkv_ceiling_reading(c, own, 2) > 0);
    qkv_ceilings_close(c);
    assert_int_equal(qkv_ceilings_open(&f.ctx, 0, &c), QKV_OK); /* without buffers */
    assert_true(qkv_ceiling_bytes(c, QKV_STREAM_READ, 1 << 16) == 0);
    assert_true(qkv_ceiling_reading(c, own, 100) > 0);
    qkv_ceilings_close(c);
    qkv_ceilings_close(NULL);
    assert_true(qkv_beyond_caches() >= 1 << 26);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_has_every_kind_and_the_short_one_is_part_of_it),
        cmocka_unit_test(every_kind_is_in_a_list_and_runs_at_a_tiny_size),
        cmocka_unit_test(operations_are_those_of_the_formulas),
        cmocka_unit_test(what_has_no_bf16_form_runs_in_f32_and_says_so),
        cmocka_unit_test(decoding_is_held_against_a_loop_over_its_own_bytes),
        cmocka_unit_test(what_makes_no_sense_is_refused_with_its_number),
        cmocka_unit_test(what_does_not_fit_is_refused_before_it_is_allocated),
        cmocka_unit_test(a_stop_is_obeyed),
        cmocka_unit_test(running_out_of_memory_is_an_answer),
        cmocka_unit_test(ceilings_are_possible_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
