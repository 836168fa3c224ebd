/* Costs before anything is run: the figures themselves, sums, refusals; and that training, bench and the description of a model
 * print the same. */
#include "model_support.h"

#include <math.h>
#include <qkv.h>

#include "unit/api/fixture.h"

static qkv_flops_options defaults(void) {
    qkv_flops_options o;
    qkv_options_default(qkv_flops_options_table(), &o);
    return o;
}

static qkv_flops *count(fixture *f, const qkv_flops_options *o, const int64_t *lengths, int64_t sequences) {
    qkv_flops *flops = NULL;
    if (qkv_flops_count(f->ctx, o, lengths, sequences, &flops) != QKV_OK) fail_msg("%s", qkv_message(f->ctx));
    return flops;
}

/* `n` sequences of one length. */
static qkv_flops *count_even(fixture *f, const qkv_flops_options *o, int64_t n, int64_t length) {
    int64_t lengths[64];
    assert_true(n <= 64);
    for (int64_t i = 0; i < n; i++) lengths[i] = length;
    return count(f, o, lengths, n);
}

static void same_sum(const qkv_flops_sum *a, const qkv_flops_sum *b) {
    assert_true(a->macs == b->macs && a->flops == b->flops && a->executed == b->executed && a->bytes == b->bytes);
}

static void add(qkv_flops_sum *to, const qkv_flops_sum *s) {
    to->macs += s->macs;
    to->flops += s->flops;
    to->executed += s->executed;
    to->bytes += s->bytes;
}

/* By layer, by operation, by pass: all of it, and nothing twice. */
static void adds_up(const qkv_flops *f) {
    const qkv_flops_part *const lists[] = {f->layers, f->operations};
    const int64_t counts[] = {f->layer_count, f->operation_count};
    for (int l = 0; l < 2; l++) {
        qkv_flops_part sum = {0};
        for (int64_t i = 0; i < counts[l]; i++) {
            const qkv_flops_part *p = &lists[l][i];
            assert_true(p->name[0] && p->total.executed >= p->total.macs && p->total.flops >= 2 * p->total.macs);
            sum.parameters += p->parameters;
            add(&sum.total, &p->total);
            for (int k = 0; k < QKV_FLOPS_PASSES; k++) add(&sum.pass[k], &p->pass[k]);
            for (int64_t j = 0; j < i; j++) assert_string_not_equal(p->name, lists[l][j].name);
        }
        assert_int_equal(sum.parameters, f->total.parameters);
        same_sum(&sum.total, &f->total.total);
        for (int k = 0; k < QKV_FLOPS_PASSES; k++) same_sum(&sum.pass[k], &f->total.pass[k]);
    }
    qkv_flops_sum passes = {0};
    for (int k = 0; k < QKV_FLOPS_PASSES; k++) add(&passes, &f->total.pass[k]);
    same_sum(&passes, &f->total.total);
    assert_true(f->peak_bytes == f->weight_bytes + f->state_bytes + f->activation_bytes + f->row_bytes);
}

static const qkv_flops_part *operation(const qkv_flops *f, const char *name) {
    for (int64_t i = 0; i < f->operation_count; i++)
        if (!strcmp(f->operations[i].name, name)) return &f->operations[i];
    fail_msg("no operation '%s'", name);
    return NULL;
}

/* d 512, 1024 tokens, 32 sequences: 3nd^2 + 2n^2 d without the output projection, 4nd^2 + 2n^2 d with it, whatever the heads. */
static void one_layer(void **state) {
    (void)state;
    fixture f;
    start(&f);
    for (int heads = 1; heads <= 8; heads *= 8)
        for (int output = 0; output < 2; output++) {
            qkv_flops_options o = defaults();
            o.heads = heads;
            o.output_projection = output;
            qkv_flops *c = count_even(&f, &o, 32, 1024);
            const double n = 1024, d = 512;
            assert_true(c->total.total.macs == 32 * ((output ? 4 : 3) * n * d * d + 2 * n * n * d));
            assert_int_equal(c->total.parameters, output ? 1048576 : 786432);
            assert_true(operation(c, "queries x keys")->total.macs == 32 * n * n * d &&
                        operation(c, "weights x values")->total.macs == 32 * n * n * d);
            assert_true(operation(c, "softmax")->total.flops == 32 * (heads * 3 * n * n + 2 * n * d));
            assert_true(c->alone && c->pairs == 32 * n * n && c->all_pairs == c->pairs && c->tokens == 32 * 1024);
            assert_true(c->row_bytes == 2 * 32 * n * d * 4 && c->state_bytes == 0);
            adds_up(c);
            qkv_release(f.ctx, c);
        }
    /* grouped keys, biases, a window, and the way back: twice the products of the projections, 5/2 of attention's */
    qkv_flops_options o = defaults();
    o.kv_heads = 2;
    o.biases = QKV_FLOPS_BIASES_YES;
    o.window = (qkv_span){3, 0};
    o.train = 1;
    const int64_t lengths[] = {0, 1, 2, 100};
    qkv_flops *c = count(&f, &o, lengths, 4);
    const double pairs = 1 + 3 + (100 * 4 - 6), rows = 103;
    assert_int_equal(c->total.parameters, 512 * (512 + 2 * 128) + 512 + 2 * 128 + 512 * 512 + 512);
    assert_true(c->pairs == pairs && c->all_pairs == 1 + 4 + 10000);
    assert_true(operation(c, "queries x keys")->pass[QKV_FLOPS_FORWARD].macs == pairs * 512);
    assert_true(operation(c, "queries x keys")->pass[QKV_FLOPS_BACKWARD].macs == 3 * pairs * 512);
    assert_true(operation(c, "weights x values")->pass[QKV_FLOPS_BACKWARD].macs == 2 * pairs * 512);
    assert_true(operation(c, "projections")->total.macs == 3 * rows * 512 * (512 + 256 + 512));
    assert_true(operation(c, "optimizer")->pass[QKV_FLOPS_OPTIMIZER].flops >= 17 * (double)c->total.parameters);
    assert_true(c->state_bytes == 3 * c->weight_bytes && c->row_bytes == 4 * rows * 512 * 4);
    adds_up(c);
    qkv_release(f.ctx, c);
    finish(&f);
}

/* Every choice, on lengths that have everything in them; and batches that have nothing. */
static void networks(void **state) {
    (void)state;
    fixture f;
    start(&f);
    for (int i = 0; i < 28; i++) {
        qkv_flops_options o = defaults();
        o.model = i % 4 == 3 ? QKV_NETWORK_RNN + i % 6 : QKV_NETWORK_TRANSFORMER;
        o.layers = i % 5 == 4 ? 0 : 1 + i % 3;
        o.dim = 48;
        o.heads = 4;
        o.activation = i % 6;
        o.norm = i % 2;
        o.norm_place = i / 2 % 2;
        o.pooling = i % 5;
        o.position = i % 3;
        o.causal = i % 3 == 1;
        o.vocab = 100;
        o.dtype = i / 7 % 2;
        o.train = i % 2;
        o.recompute = o.layers > 0 && i % 6 == 1 ? 1 + i / 6 % 4 : 0;
        o.ffn_chunk = o.recompute == 3 ? 64 : 0;
        o.dropout = o.attention_dropout = o.embedding_dropout = i % 4 == 1 ? 0.1 : 0;
        const int64_t lengths[] = {0, 1, 33, 95, 95, 2};
        qkv_flops *c = count(&f, &o, lengths, 6), *none = count(&f, &o, NULL, 0), *empty = count(&f, &o, lengths, 1);
        adds_up(c);
        adds_up(none);
        adds_up(empty);
        assert_true(c->total.total.macs > 0 && c->shortest == 0 && c->longest == 95 && c->tokens == 226 && c->sequences == 6);
        assert_true(none->total.total.macs == 0 && empty->pairs == 0 && none->total.parameters > 0);
        assert_true(c->total.pass[QKV_FLOPS_RECOMPUTE].macs == 0 || o.recompute);
        assert_true(!o.recompute || c->total.pass[QKV_FLOPS_RECOMPUTE].flops > 0);
        for (int64_t k = 0; k < c->operation_count; k++) {
            assert_string_not_equal(c->operations[k].name, "linear maps");
            assert_string_not_equal(c->operations[k].name, "other");
        }
        for (int64_t k = 0; k < c->layer_count; k++) assert_string_not_equal(c->layers[k].name, "other");
        qkv_release(f.ctx, c);
        qkv_release(f.ctx, none);
        qkv_release(f.ctx, empty);
    }
    finish(&f);
}

/* An LSTM layer: 4 gates of d x d for what comes in and for the state; a first step has no state to multiply. */
static void recurrence(void **state) {
    (void)state;
    fixture f;
    start(&f);
    qkv_flops_options o = defaults();
    o.model = QKV_NETWORK_LSTM;
    const double n = 64, d = 512;
    qkv_flops *c = count_even(&f, &o, 4, 64);
    assert_true(operation(c, "projections")->total.macs == 4 * n * 4 * d * d &&
                operation(c, "recurrence")->total.macs == 4 * (n - 1) * 4 * d * d);
    assert_int_equal(c->total.parameters, 2 * 4 * 512 * 512 + 4 * 512);
    assert_true(operation(c, "recurrence")->total.flops == 2 * 4 * (n - 1) * 4 * d * d + 4 * n * d * 15);
    /* the weights are read at each step that has a state before it; of a row 4 gates in and out, h and c */
    assert_true(operation(c, "recurrence")->total.bytes == 4 * ((n - 1) * 4 * d * d + 4 * n * d * (2 * 4 + 2)));
    adds_up(c);
    qkv_release(f.ctx, c);
    /* and the way back: the gradients of the state and of the weights, at the same steps; the books have no row that is not there
     */
    static const double gates[] = {1, 4, 3, 1, 4, 3}, flops[] = {1 + 3, 15 + 23, 12 + 17};
    for (int i = 0; i < 6; i++) {
        o.model = QKV_NETWORK_RNN + i;
        o.train = 1;
        c = count_even(&f, &o, 4, 64);
        const qkv_flops_part *p = operation(c, "recurrence");
        const double both = i >= 3 ? 2 : 1, units = d / both,
                     bias = i % 3 == 2 ? 4 * n * d : 0; /* of the candidate: a sum of rows */
        assert_true(p->total.macs == both * 4 * (n - 1) * 3 * gates[i] * units * units);
        assert_true(p->total.executed > p->total.macs);
        assert_true(p->total.flops == 2 * p->total.macs + 4 * n * d * flops[i % 3] + bias);
        for (int64_t k = 0; k < c->operation_count; k++) assert_string_not_equal(c->operations[k].name, "sums, dropout");
        adds_up(c);
        qkv_release(f.ctx, c);
    }
    /* a layer alone has no heads */
    o.model = QKV_NETWORK_LSTM;
    o.dim = 100;
    qkv_release(f.ctx, count_even(&f, &o, 4, 64));
    finish(&f);
}

static void refusals(void **state) {
    (void)state;
    fixture f;
    start(&f);
    qkv_flops_options o = defaults();
    qkv_flops *c = (qkv_flops *)&o;
    int64_t one[] = {5}, less[] = {-1}, much[] = {(1 << 24) + 1}, most[] = {1 << 24};
    assert_int_equal(qkv_flops_count(NULL, &o, one, 1, &c), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_count(f.ctx, NULL, one, 1, &c), QKV_BAD_ARGUMENT);
    assert_null(c);
    assert_int_equal(qkv_flops_count(f.ctx, &o, NULL, 1, &c), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, -1, &c), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_count(f.ctx, &o, less, 1, &c), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_count(f.ctx, &o, much, 1, &c), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(qkv_message(f.ctx), "16777217 tokens"));
    assert_int_equal(qkv_flops_count_model(NULL, &o, one, 1, &c), QKV_BAD_ARGUMENT);
    o.heads = 6;
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, &c), QKV_BAD_CONFIG);
    assert_non_null(strstr(qkv_message(f.ctx), "heads=6 does not divide dim=512"));
    o = defaults();
    o.recompute = o.train = 1;
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, &c), QKV_BAD_CONFIG);
    o.layers = 1;
    o.reversible = 1;
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, &c), QKV_BAD_CONFIG);
    assert_string_equal(qkv_message(f.ctx), "recompute has no effect on a reversible network, which keeps nothing");
    o.reversible = 0;
    o.model = QKV_NETWORK_GRU;
    o.recompute = 0;
    o.ffn_chunk = 5;
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, &c), QKV_BAD_CONFIG);
    assert_string_equal(qkv_message(f.ctx), "ffn_chunk has no effect on layers of gru; try recompute=blocks");
    o.model = QKV_NETWORK_TRANSFORMER;
    o.recompute_every = 2;
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, &c), QKV_BAD_CONFIG);
    o.recompute = 5;
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, &c), QKV_BAD_ARGUMENT);
    /* the longest sequence there is: no product overflows */
    o = defaults();
    qkv_flops *big = count(&f, &o, most, 1);
    assert_true(big->total.total.macs == 0x1p24 * 4 * 512 * 512 + 2 * 0x1p48 * 512);
    adds_up(big);
    qkv_release(f.ctx, big);
    o.layers = 100;
    assert_int_equal(qkv_flops_count(f.ctx, &o, most, 1, &c), QKV_BAD_ARGUMENT);
    assert_non_null(strstr(qkv_message(f.ctx),
                           "too large to walk: tokens=16777216, sequences=1, heads=8 and layers=100 make 1677722400 steps"));
    o = defaults();
    o.causal = 1;
    o.window = (qkv_span){5, 7};
    assert_int_equal(qkv_flops_count(f.ctx, &o, one, 1, &c), QKV_BAD_CONFIG);
    int64_t *lengths = one, n;
    assert_int_equal(qkv_flops_lengths(NULL, "x", NULL, &lengths, &n, NULL), QKV_BAD_ARGUMENT);
    assert_null(c);
    assert_string_equal(qkv_flops_pass_name(QKV_FLOPS_RECOMPUTE), "recompute");
    assert_string_equal(qkv_flops_pass_name(QKV_FLOPS_PASSES), "");
    finish(&f);
}

static int stop_at_once(void *user) {
    (void)user;
    return 1;
}

/* Passes run for real change no count, and leave nothing behind. */
static void measured(void **state) {
    (void)state;
    fixture f;
    start(&f);
    const int64_t lengths[] = {0, 1, 33, 70, 2}, nothing[] = {0};
    for (int i = 0; i < 28; i++) {
        qkv_flops_options o = defaults();
        o.model = i % 4 == 3 ? QKV_NETWORK_RNN + i / 4 % 6 : QKV_NETWORK_TRANSFORMER;
        o.cell = o.model == QKV_NETWORK_LSTM ? QKV_CELL_PEEPHOLES : QKV_CELL_PLAIN;
        o.layers = i % 5 == 4 ? 0 : 1 + i % 2;
        o.dim = 16;
        o.heads = 4;
        o.vocab = 3 + i;
        o.position = i % 7;
        o.pattern = o.layers > 0 && (o.layers > 1 || i % 5 != QKV_PATTERN_ALTERNATING) ? i % 5 : 0;
        o.segment = o.layers > 0 && i % 3 == 1 && o.position != QKV_POSITION_SHAW ? QKV_SEGMENT_TOKENS : QKV_SEGMENT_NONE;
        if (o.position == QKV_POSITION_SHAW) o.pattern = 0;
        o.segment_length = o.segment ? 9 : 0;
        o.dtype = i / 7 % 2;
        o.train = i % 2;
        o.multi_label = o.train && i % 3 == 0;
        o.recompute = o.layers > 0 && i % 6 == 1 ? 1 + i / 6 % 4 : 0;
        o.dropout = o.attention_dropout = o.embedding_dropout = o.train ? 0.1 : 0;
        qkv_flops *plan = count(&f, &o, lengths, 5);
        o.measure = 1e-9;
        qkv_flops *run = count(&f, &o, lengths, 5), *none = count(&f, &o, NULL, 0);
        assert_true(plan->passes == 0 && plan->pass_s == 0 && none->passes == 0);
        assert_true(run->passes == 3 && run->pass_s > 0);
        same_sum(&plan->total.total, &run->total.total);
        assert_true(plan->peak_bytes == run->peak_bytes);
        qkv_release(f.ctx, plan);
        qkv_release(f.ctx, run);
        qkv_release(f.ctx, none);
    }
    /* no machine has the memory; nor a clock such seconds */
    qkv_flops *c = NULL;
    qkv_flops_options o = defaults();
    o.measure = 1;
    const int64_t most[] = {1 << 24};
    o.dim = 65536;
    o.heads = 64;
    assert_int_equal(qkv_flops_count(f.ctx, &o, most, 1, &c), QKV_NO_MEMORY);
    assert_null(c);
    char said[512], needed[80];
    snprintf(said, sizeof said, "%s", qkv_message(f.ctx));
    o.measure = 0;
    c = count(&f, &o, most, 1);
    assert_true(c->row_bytes > 0.1 * c->peak_bytes); /* the rows of a layer are not asked for twice */
    snprintf(needed, sizeof needed, "a pass of this size needs %.3g GB of memory", 1e-9 * (c->peak_bytes + 12.0 * (double)c->tokens));
    assert_non_null(strstr(said, needed));
    qkv_release(f.ctx, c);
    o.measure = -1;
    assert_int_equal(qkv_flops_count(f.ctx, &o, nothing, 1, &c), QKV_BAD_ARGUMENT);
    o.measure = (double)NAN;
    assert_int_equal(qkv_flops_count(f.ctx, &o, nothing, 1, &c), QKV_BAD_ARGUMENT);
    finish(&f);
    qkv_ctx *ctx;
    const qkv_ctx_options stops = {.struct_size = sizeof stops, .stop = stop_at_once};
    assert_int_equal(qkv_ctx_create(&stops, &ctx, NULL, 0), QKV_OK);
    o = defaults();
    o.dim = 16;
    o.measure = 1e6;
    assert_int_equal(qkv_flops_count(ctx, &o, lengths, 5, &c), QKV_STOPPED);
    assert_null(c);
    qkv_ctx_free(ctx);
}

static void memory_that_runs_out(void **state) {
    (void)state;
    const int64_t lengths[] = {3, 9};
    for (int layers = 0; layers < 2; layers++)
        for (int64_t k = 1;; k++) {
            fixture f;
            start(&f);
            qkv_flops_options o = defaults();
            o.layers = layers;
            o.train = 1;
            o.dim = 16;
            o.vocab = 50;
            o.measure = 1e-9;
            f.memory.fail_at = f.memory.calls + k;
            qkv_flops *c;
            const qkv_status status = qkv_flops_count(f.ctx, &o, lengths, 2, &c);
            const bool reached = f.memory.calls >= f.memory.fail_at;
            assert_int_equal(status, reached ? QKV_NO_MEMORY : QKV_OK);
            assert_int_equal(c != NULL, !reached);
            qkv_release(f.ctx, c);
            finish(&f);
            if (!reached) break;
        }
}

/* ---- the same numbers everywhere ---- */

/* `qkv bench` counts the products of a case. */
static void as_bench_counts(void **state) {
    (void)state;
    static const char *const cases[] = {"layer.forward",   "layer.both",           "predict.encoder", "train.step",
                                        "recurrence.lstm", "recurrence.lstm-both", "recurrence.gru",  "recurrence.gru-both"};
    fixture f;
    start(&f);
    for (int i = 0; i < 8; i++) {
        qkv_bench_options b;
        qkv_bench_case *list;
        int64_t found;
        qkv_bench_init(&b);
        b.what = cases[i];
        b.n = 40;
        b.dim = 64;
        if (i < 4) b.heads = 4;
        b.batch = 3;
        const int network = i == 2 || i == 3;
        if (network) b.layers = 2;
        if (network) b.ffn = 96;
        assert_int_equal(qkv_bench_list(f.ctx, &b, &list, &found), QKV_OK);
        assert_true(found >= 1);
        assert_int_equal(qkv_bench_plan(f.ctx, &b, &list[0]), QKV_OK);
        qkv_flops_options o = defaults();
        o.dim = 64;
        o.heads = 4;
        if (i >= 4) o.model = i < 6 ? QKV_NETWORK_LSTM : QKV_NETWORK_GRU;
        o.layers = network ? 2 : 0;
        o.ffn = 96;
        o.classes = 8;
        o.train = i % 2;
        o.window = list[0].window;
        qkv_flops *c = count_even(&f, &o, 3, 40);
        if (list[0].flops != 2 * c->total.total.macs)
            fail_msg("%s: bench counts %.0f, flops 2 * %.0f", cases[i], list[0].flops, c->total.total.macs);
        qkv_release(f.ctx, c);
        qkv_release(f.ctx, list);
    }
    finish(&f);
}

static void keep_plan(void *user, const qkv_train_event *event) {
    if (event->kind == QKV_TRAIN_PLAN) *(qkv_train_plan *)user = event->u.plan;
    if (event->kind == QKV_TRAIN_STEP && event->u.step.flops != ((qkv_train_plan *)user)->flops_per_step)
        fail_msg("a step of %.0f operations, %.0f planned", event->u.step.flops, ((qkv_train_plan *)user)->flops_per_step);
}

/* Of a model whose global tokens are told by what they are: without lists, and with lists that cannot be. */
static void refuse_lists(const qkv_model *model, qkv_flops_options o, const int64_t *lengths, qkv_flops_segments *segments) {
    int64_t *offset = segments->global_offset, *at = segments->global_at;
    qkv_flops *none;
    assert_true(offset[1] >= 1); /* the e of "one" */
    for (int bad = 0; bad < 5; bad++) {
        const int64_t old = bad == 1 ? offset[0] : bad == 2 ? offset[1] : at[0];
        if (bad == 1) offset[0] = 1;
        if (bad == 2) offset[1] = -1;
        if (bad == 3) at[0] = 99;
        if (bad == 4) at[0] = -1;
        const qkv_flops_segments unlisted = {segments->at, segments->size, NULL, NULL};
        o.segments = bad == 0 ? &unlisted : segments;
        assert_int_equal(qkv_flops_count_model(model, &o, lengths, 4, &none), QKV_BAD_ARGUMENT);
        assert_null(none);
        *(bad == 1 ? offset : bad == 2 ? offset + 1 : at) = old;
    }
}

/* A training whose epoch is one batch: its planned operations, those of its steps, and those counted of the model it makes. */
static void as_training_counts(void **state) {
    (void)state;
    static const char rows[] = "a\tone two\nb\tthree four five six\na\tseven\nb\teight nine\n";
    static const char *const texts[] = {"one two", "three four five six", "seven", "eight nine"};
    for (int i = 0; i < 12; i++) {
        const bool cut = i == 4 || i == 5, named = i == 5 || i == 6;
        fixture f;
        start(&f);
        char path[512];
        test_write_file(test_path("flops_train.tsv", path), rows, sizeof rows - 1);
        qkv_classify_options o;
        qkv_options_default(qkv_classify_options_table(), &o);
        o.model = i == 3 ? QKV_NETWORK_BILSTM : QKV_NETWORK_TRANSFORMER;
        o.layers = i < 6 ? 1 + i % 2 : 3;
        o.dim = 16;
        o.heads = 2;
        o.ngrams = 0;
        o.tokenizer = QKV_TOKENIZER_BYTE;
        o.steps = 2;
        o.max_length = 12;
        o.recompute = i < 6 ? i / 2 % 2 : 1 + i % 4;
        o.recompute_every = i == 8 ? 2 : 0;
        o.ffn_chunk = i > 8 ? 8 : 0;
        o.segment = cut ? QKV_SEGMENT_WORDS : QKV_SEGMENT_NONE;
        o.segment_layers = cut ? 2 : 0;
        o.causal = i == 1;
        if (named) {
            o.window = (qkv_span){1, 1};
            strcpy(o.global_token, "e \\s");
        }
        qkv_train_plan plan = {0};
        const qkv_train_callbacks callbacks = {keep_plan, &plan};
        qkv_model *model = NULL;
        if (qkv_classify_train(f.ctx, &o, path, path, NULL, &callbacks, &model) != QKV_OK) fail_msg("%s", qkv_message(f.ctx));
        int64_t lengths[4], all, *read, count;
        for (int t = 0; t < 4; t++) {
            qkv_token *tokens;
            assert_int_equal(qkv_model_tokens(model, texts[t], (int64_t)strlen(texts[t]), &tokens, &lengths[t], &all), QKV_OK);
            qkv_release(f.ctx, tokens);
        }
        qkv_flops_segments segments;
        if (qkv_flops_lengths(model, path, NULL, &read, &count, &segments) != QKV_OK) fail_msg("%s", qkv_message(f.ctx));
        assert_true((segments.at != NULL) == cut &&
                    (!cut || (segments.at[4] == 8 && segments.size[0] == 3 && segments.size[1] == 4)));
        assert_true((segments.global_offset != NULL) == named);
        assert_int_equal(count, 4); /* labels are no text */
        assert_memory_equal(read, lengths, sizeof lengths);
        qkv_release(f.ctx, read);
        qkv_flops_options count_options = defaults();
        count_options.train = 1;
        count_options.recompute = o.recompute;
        count_options.recompute_every = o.recompute_every;
        count_options.ffn_chunk = o.ffn_chunk;
        count_options.segments = &segments;
        qkv_flops *c;
        assert_int_equal(qkv_flops_count_model(model, &count_options, lengths, 4, &c), QKV_OK);
        if (c->total.total.flops != plan.flops_per_step)
            fail_msg("flops counts %.0f, train %.0f a step", c->total.total.flops, plan.flops_per_step);
        assert_int_equal(c->total.parameters, plan.parameters);
        assert_int_equal(c->segments, cut ? 8 : 0);
        assert_int_equal(c->recompute, plan.recompute);
        assert_int_equal(c->recompute_part, plan.recompute_part);
        assert_int_equal(c->recompute_every, plan.recompute_every);
        assert_int_equal(c->ffn_chunk, plan.ffn_chunk);
        const double again = c->total.pass[QKV_FLOPS_RECOMPUTE].flops,
                     others = c->total.pass[QKV_FLOPS_FORWARD].flops + c->total.pass[QKV_FLOPS_BACKWARD].flops;
        assert_true(fabs(again / others - plan.recompute_share) < 1e-12);
        adds_up(c);
        qkv_release(f.ctx, c);
        for (int bad = 0; cut && bad < 3; bad++) { /* that are not those of the texts */
            int64_t *at = segments.at, old = at[1];
            int32_t *size = segments.size, first = size[0];
            qkv_flops *none;
            if (bad == 0) at[1] = -3;
            if (bad == 1) size[0] = 0;
            if (bad == 2) size[0]++;
            assert_int_equal(qkv_flops_count_model(model, &count_options, lengths, 4, &none), QKV_BAD_ARGUMENT);
            assert_null(none);
            at[1] = old;
            size[0] = first;
        }
        if (named) refuse_lists(model, count_options, lengths, &segments);
        qkv_release(f.ctx, segments.at);
        qkv_release(f.ctx, segments.size);
        qkv_release(f.ctx, segments.global_offset);
        qkv_release(f.ctx, segments.global_at);
        qkv_model_free(model);
        finish(&f);
    }
}

/* And `qkv info` prints them of a token. */
static void as_a_model_is_described(void **state) {
    (void)state;
    fixture f;
    start(&f);
    const qkv_config config = test_config();
    qkv_model *model;
    char *text;
    assert_int_equal(test_model_try(f.ctx, &config, &model), QKV_OK);
    assert_int_equal(qkv_model_describe(model, &text), QKV_OK);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    const int64_t lengths[] = {32, 40};
    static const char *const keys[] = {"32", "40"};
    qkv_flops_options o = defaults();
    for (int i = 0; i < 2; i++) {
        qkv_flops *c;
        assert_int_equal(qkv_flops_count_model(model, &o, lengths + i, 1, &c), QKV_OK);
        const double said = json_number_value(json_object_get(json_object_get(json, "flops_per_token"), keys[i]));
        assert_true(said > 0 && said == c->total.total.flops / (double)lengths[i]);
        assert_int_equal(c->total.parameters, json_integer_value(json_object_get(json, "parameter_count")));
        qkv_release(f.ctx, c);
    }
    const int64_t longer = 41;
    qkv_flops *c;
    assert_int_equal(qkv_flops_count_model(model, &o, &longer, 1, &c), QKV_BAD_ARGUMENT);
    int64_t *read = NULL, count;
    assert_int_equal(qkv_flops_lengths(model, NULL, NULL, &read, &count, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_lengths(model, "", NULL, NULL, &count, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_lengths(model, "", NULL, &read, NULL, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_flops_lengths(model, "/nowhere/at/all", NULL, &read, &count, NULL), QKV_IO);
    assert_null(read);
    json_decref(json);
    qkv_release(f.ctx, text);
    qkv_model_free(model);
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_layer),       cmocka_unit_test(networks),           cmocka_unit_test(recurrence),
        cmocka_unit_test(refusals),        cmocka_unit_test(measured),           cmocka_unit_test(memory_that_runs_out),
        cmocka_unit_test(as_bench_counts), cmocka_unit_test(as_training_counts), cmocka_unit_test(as_a_model_is_described)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
