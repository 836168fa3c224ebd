/* The breakdown of costs is that of the work: what a ledger holds by layer and by operation adds up to the tally, in a plan and in
 * a run (net_compare holds the two against each other in every law), and the multiply-adds it calls executed are those that the
 * COUNT build of the kernels counts. */
#include "net.h"

#include "kernels/bf16.h"
#include "kernels/count.h"
#include "layers/attention_layer.h"
#include "ops/reg.h"

enum { SEQUENCES = 6 };
static const uint64_t WHO[SEQUENCES] = {1, 2, 3, 4, 5, 6};
static const int64_t LENGTHS[SEQUENCES] = {12, 0, 30, 1, 9, 0};

static qkv_charge sum_of(const qkv_ledger *l, int pass, int work) {
    qkv_charge sum = {0};
    for (int64_t e = 0; e < l->count; e++)
        for (int p = 0; p < QKV_PASSES; p++)
            for (int k = 0; k < QKV_WORKS; k++) {
                const qkv_charge *c = &l->entries[e].of[p][k];
                if ((pass >= 0 && p != pass) || (work >= 0 && k != work)) continue;
                sum.macs += c->macs;
                sum.flops += c->flops;
                sum.executed += c->executed;
                sum.bytes += c->bytes;
            }
    return sum;
}

static void adds_up(const net_result *r) {
    for (int p = 0; p < QKV_PASSES; p++) {
        double flops = 0, bytes = 0;
        for (int c = 0; c < QKV_CLASSES; c++) {
            flops += r->tally.flops[p][c];
            bytes += r->tally.bytes[p][c];
        }
        const qkv_charge sum = sum_of(&r->ledger, p, -1);
        assert_true(sum.flops == flops && sum.bytes == bytes);
        /* products are the classes of products, but for softmax and cells */
        assert_true(2 * sum.macs <= flops - r->tally.flops[p][QKV_CLASS_OTHER]);
        assert_true(sum.executed >= sum.macs && sum.flops >= 2 * sum.macs);
    }
    for (int64_t e = 0; e < r->ledger.count; e++) assert_non_null(r->ledger.entries[e].place.name);
}

static const qkv_ledger_entry *place(const qkv_ledger *l, const char *name, int64_t index) {
    for (int64_t e = 0; e < l->count; e++)
        if (strcmp(l->entries[e].place.name, name) == 0 && l->entries[e].place.index == index) return &l->entries[e];
    fail_msg("nothing was done at %s %lld", name, (long long)index);
    return NULL;
}

static void networks(void **state) {
    (void)state;
    for (int i = 0; i < NET_CONFIGS; i++) {
        test_memory memory = {0};
        TEST_CTX qkv_ctx ctx = net_ctx(&memory, 2, NULL);
        const qkv_config c = net_grid(i);
        qkv_classifier *net;
        NET_OK(&ctx, qkv_classifier_create(&ctx, &c, i % 2, &net));
        real *w = net_weights(net, 3);
        net_rows b = net_rows_make(&c, SEQUENCES, WHO, LENGTHS);
        const net_options o = {.train = true, .seed = 1}, plain = {0};
        net_result r = net_step(&ctx, net, w, &b, &o), f = net_forward(&ctx, net, w, &b, &plain);
        adds_up(&r);
        adds_up(&f);
        /* both blocks do the same; of two that are recomputed the last is not, as it is wanted at once */
        const bool recurrent = qkv_config_recurrent(&c);
        const qkv_ledger_entry *first = place(&r.ledger, "encoder", 0), *second = place(&r.ledger, "encoder", 1);
        const bool alike = c.full_every == 0 && c.random_blocks == 0; /* layers see the same */
        if (!recurrent && alike && memcmp(first->of, second->of, (QKV_PASS_BACKWARD + 1) * sizeof first->of[0]) != 0)
            fail_msg("configuration %d: the blocks do not do the same", i);
        if (i % 2 && !recurrent && !c.reversible)
            assert_memory_equal(first->of[QKV_PASS_RECOMPUTE], first->of[QKV_PASS_FORWARD], sizeof first->of[0]);
        for (int k = 0; k < QKV_WORKS && i % 2 && !c.reversible; k++) /* a recurrent layer that keeps moves more, and computes the same */
            assert_true(first->of[QKV_PASS_RECOMPUTE][k].macs == first->of[QKV_PASS_FORWARD][k].macs &&
                        first->of[QKV_PASS_RECOMPUTE][k].flops == first->of[QKV_PASS_FORWARD][k].flops);
        if (i % 2 == 0 && !c.reversible) assert_true(sum_of(&r.ledger, QKV_PASS_RECOMPUTE, -1).flops == 0);
        /* a forward pass alone has the products of the one that is trained through */
        for (int k = 0; k < QKV_WORKS; k++)
            assert_true(sum_of(&f.ledger, -1, k).macs == sum_of(&r.ledger, QKV_PASS_FORWARD, k).macs);
        const double dim = (double)c.dim, mixed = (double)(c.heads * c.head_dim);
        const double segments = b.segments ? (double)(b.segments[SEQUENCES] * qkv_config_segment_layers(&c)) : 0;
        const double rows = (double)(b.rows * c.layers) + segments; /* each layer's */
        const qkv_batch lower = qkv_batch_lower(&b.batch);
        double projections = rows * dim * (2 * mixed + 2 * (double)(c.kv_heads * c.head_dim));
        projections += (double)c.layers * net_global_macs(&c, &lower);
        if (recurrent) projections = sum_of(&f.ledger, -1, QKV_WORK_PROJECTION).macs;
        assert_true(recurrent == (sum_of(&f.ledger, -1, QKV_WORK_RECURRENCE).macs > 0));
        assert_true(sum_of(&f.ledger, -1, QKV_WORK_PROJECTION).macs == projections);
        assert_true(sum_of(&r.ledger, QKV_PASS_BACKWARD, QKV_WORK_PROJECTION).macs == 2 * projections);
        assert_true(sum_of(&f.ledger, -1, QKV_WORK_HEAD).macs == SEQUENCES * dim * (double)c.classes);
        assert_true(sum_of(&f.ledger, -1, QKV_WORK_LINEAR).flops == 0 && sum_of(&f.ledger, -1, QKV_WORK_OTHER).bytes == 0);
        assert_true(sum_of(&r.ledger, QKV_PASS_BACKWARD, QKV_WORK_SCORES).macs == 3 * sum_of(&f.ledger, -1, QKV_WORK_SCORES).macs);
        assert_true(sum_of(&r.ledger, QKV_PASS_BACKWARD, QKV_WORK_VALUES).macs == 2 * sum_of(&f.ledger, -1, QKV_WORK_VALUES).macs);
        net_result_free(&r);
        net_result_free(&f);
        net_rows_free(&b);
        free(w);
        qkv_classifier_free(net);
    }
}

/* ---- an attention layer, by the kernels that count ---- */

typedef struct layer_run {
    qkv_exec x;
    qkv_attention_layer layer;
    const qkv_batch *batch;
    qkv_mat in, out, dout, din;
} layer_run;

static double both_ways(layer_run *r, bool backward) {
    qkv_attention_saved saved;
    const size_t low = r->x.arena.low;
    r->x.keep = backward;
    r->x.pass = QKV_PASS_FORWARD;
    qkv_exec_at(&r->x, (qkv_place){"attention", -1, QKV_WORK_LINEAR});
    qkv_counted = (qkv_counts){0};
    NET_OK(r->x.ctx, qkv_attention_layer_forward(&r->x, &r->layer, r->batch, r->in, r->out, &saved));
    if (backward) {
        r->x.pass = QKV_PASS_BACKWARD;
        NET_OK(r->x.ctx, qkv_attention_layer_backward(&r->x, &r->layer, r->batch, r->dout, r->din, &saved));
    }
    qkv_arena_low_release(&r->x.arena, low);
    return (double)qkv_counted.fma;
}

static qkv_mat matrix(int64_t rows, int64_t cols, uint64_t key) {
    real *p = calloc((size_t)(rows * cols + 1), sizeof *p);
    for (int64_t i = 0; i < rows * cols; i++) p[i] = (real)qkv_normal(qkv_key2(key, (uint64_t)i));
    return (qkv_mat){p, rows, cols, cols};
}

static void count_layer(const qkv_block_shape *shape, bool bf16, bool backward) {
    static const int64_t offset[SEQUENCES + 1] = {0, 12, 12, 300, 301, 310, 310};
    const qkv_batch batch = {.n_seq = SEQUENCES, .offset = offset};
    const int64_t rows = offset[SEQUENCES], dim = shape->dim;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, &qkv_kernels_count);
    qkv_reg reg = {.ctx = &ctx};
    ctx.bf16 = &qkv_kernels_bf16_count;
    layer_run r = {.x = {.ctx = &ctx, .plan = true, .reg = &reg, .bf16 = bf16}, .batch = &batch};
    r.in = r.out = r.dout = r.din = (qkv_mat){NULL, rows, dim, dim};
    NET_OK(&ctx, qkv_attention_layer_declare(&r.layer, &reg, "", shape, 0));
    qkv_ledger planned = net_ledger(), done = net_ledger();
    r.x.ledger = &planned;
    both_ways(&r, backward);
    const size_t peak = r.x.arena.peak;

    qkv_mat w = matrix(1, reg.size, 5), g = matrix(1, reg.size, 6);
    r.x = (qkv_exec){.ctx = &ctx, .reg = &reg, .bf16 = bf16, .weights = w.p, .grads = g.p, .ledger = &done};
    r.in = matrix(rows, dim, 1);
    r.out = matrix(rows, dim, 2);
    r.dout = matrix(rows, dim, 3);
    r.din = matrix(rows, dim, 4);
    NET_OK(&ctx, qkv_arena_create(&ctx, peak, &r.x.arena));
    const double counted = both_ways(&r, backward);
    assert_int_equal(r.x.arena.peak, peak);
    assert_memory_equal(planned.entries[0].of, done.entries[0].of, sizeof done.entries[0].of);
    if (sum_of(&done, -1, -1).executed != counted)
        fail_msg("heads %lld, window %lld,%lld, %s%s: %.0f multiply-adds executed by the books, %.0f counted",
                 (long long)shape->heads, (long long)shape->span.left, (long long)shape->span.right, bf16 ? "bf16" : "f32",
                 backward ? ", backward" : "", sum_of(&done, -1, -1).executed, counted);
    qkv_arena_free(&ctx, &r.x.arena);
    qkv_mat *const all[] = {&r.in, &r.out, &r.dout, &r.din, &w, &g};
    for (int i = 0; i < 6; i++) free(all[i]->p);
    free(planned.entries);
    free(done.entries);
    qkv_reg_free(&reg);
}

static void executed_is_what_is_counted(void **state) {
    (void)state;
    static const qkv_span spans[] = {{-1, -1}, {-1, 0}, {5, 3}, {40, 40}};
    for (int i = 0; i < 16; i++) {
        const qkv_block_shape shape = {.dim = 40,
                                       .heads = i % 3 ? 4 : 10,
                                       .kv_heads = 2,
                                       .head_dim = i % 3 ? 10 : 4,
                                       .span = spans[i % 4],
                                       .no_output = i / 2 % 2,
                                       .layers = 1};
        count_layer(&shape, i >= 8, i % 2);
        count_layer(&shape, i < 8, i % 2);
    }
}

static void patterns_are_counted(void **state) {
    (void)state;
    static const qkv_pattern patterns[] = {{.global_first = 1, .global_every = 30}, {.dilation = 3, .global_every = 100},
                                           {.random_blocks = 2, .block = 20, .global_first = 3}};
    for (int i = 0; i < 12; i++) {
        const qkv_block_shape shape = {.dim = 40,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 10,
                                       .span = {5, i < 6 ? 3 : 0},
                                       .pattern = patterns[i % 3],
                                       .global_projection = i % 6 == 1,
                                       .layers = 1};
        count_layer(&shape, i % 4 == 3, i / 3 % 2);
    }
}

/* Fewer keys than queries: with dilation, some of these have keys beside their window alone. */
static void queries_before_keys_are_counted(void **state) {
    (void)state;
    static const int64_t q_offset[] = {0, 6, 86}, k_offset[] = {0, 2, 80};
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = net_ctx(&memory, 1, &qkv_kernels_count);
    qkv_mat m[9];
    for (int i = 0; i < 9; i++) m[i] = matrix(86, 10, (uint64_t)i);
    const qkv_heads q = qkv_heads_of(m[0], 5), k = qkv_heads_of(m[1], 5), v = qkv_heads_of(m[2], 5), o = qkv_heads_of(m[3], 5),
                    d_o = qkv_heads_of(m[4], 5), dq = qkv_heads_of(m[5], 5), dk = qkv_heads_of(m[6], 5), dv = qkv_heads_of(m[7], 5);
    real vectors[4][7 * 5] = {{0}};
    for (int i = 0; i < 26; i++) {
        qkv_attention_shape s = {.sequences = 2, .q_offset = q_offset, .k_offset = k_offset, .heads = 2, .kv_heads = 2, .dim = 5,
                                 .value_dim = 5, .scale = 1, .left = 1, .right = i % 2 ? -1 : 1,
                                 .pattern = {.dilation = 1 + i % 12 / 2, .global_first = 1, .global_every = 20}};
        if (i >= 24) s.pattern = (qkv_pattern){.random_blocks = 2, .block = 8, .global_first = i % 2};
        if (i >= 12) s.shaw_keys = vectors[0], s.shaw_values = vectors[1], s.shaw_dkeys = vectors[2], s.shaw_dvalues = vectors[3], s.shaw_reach = 3;
        qkv_ledger done = net_ledger();
        qkv_exec x = {.ctx = &ctx, .ledger = &done};
        NET_OK(&ctx, qkv_arena_create(&ctx, 1 << 22, &x.arena));
        qkv_exec_at(&x, (qkv_place){"attention", -1, QKV_WORK_LINEAR});
        for (int pass = QKV_PASS_FORWARD; pass <= QKV_PASS_BACKWARD; pass++) {
            x.pass = pass;
            qkv_counted = (qkv_counts){0};
            if (pass == QKV_PASS_FORWARD) NET_OK(&ctx, qkv_attend_forward(&x, &s, q, k, v, o, m[8].p));
            else NET_OK(&ctx, qkv_attend_backward(&x, &s, q, k, v, o, m[8].p, d_o, dq, dk, dv));
            if (sum_of(&done, pass, -1).executed != (double)qkv_counted.fma)
                fail_msg("dilation %lld, pass %d: %.0f multiply-adds executed by the books, %.0f counted", (long long)s.pattern.dilation, pass,
                         sum_of(&done, pass, -1).executed, (double)qkv_counted.fma);
        }
        qkv_arena_free(&ctx, &x.arena);
        free(done.entries);
    }
    for (int i = 0; i < 9; i++) free(m[i].p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks), cmocka_unit_test(executed_is_what_is_counted),
                                       cmocka_unit_test(patterns_are_counted), cmocka_unit_test(queries_before_keys_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
