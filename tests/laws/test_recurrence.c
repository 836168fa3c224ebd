/* The walk of recurrent cells: the same bits for any number of threads, on every instruction set and in any company, where steps
 * are cut into columns and where they are not; NaN stays with its sequence; what is counted is what is done. */
#include "unit/ops/ops.h"

#include "base/rng.h"
#include "kernels/count.h"
#include "ops/recurrence.h"

typedef struct walked {
    int64_t sequences, rows;
    int64_t *offset;
    qkv_mat gates, hidden, cells, dhidden;
    qkv_recur_ends ends;
    real *grads;
    qkv_tally tally;
} walked;

static void drop(walked *w) {
    free(w->offset);
    free(w->gates.p);
    free(w->hidden.p);
    free(w->cells.p);
    free(w->dhidden.p);
    qkv_mat all[] = {w->ends.hidden, w->ends.cells, w->ends.dhidden, w->ends.dcells, w->ends.dlast};
    for (int i = 0; i < 5; i++) free(all[i].p);
    free(w->grads);
}

/* Rows of sequence s depend on who[s] alone. */
static void fill(qkv_mat m, const walked *w, const uint64_t *who, uint64_t salt) {
    for (int64_t s = 0; s < w->sequences; s++)
        for (int64_t r = w->offset[s]; r < w->offset[s + 1]; r++)
            for (int64_t c = 0; c < m.cols; c++)
                m.p[r * m.ld + c] = (real)qkv_normal(qkv_key4(who[s], salt, (uint64_t)(r - w->offset[s]), (uint64_t)c));
}

/* One row a sequence, of who[s] alone. */
static qkv_mat end_rows(const walked *w, const uint64_t *who, int64_t cols, uint64_t salt) {
    qkv_mat m = ops_mat(w->sequences, cols, cols + 2, salt);
    for (int64_t s = 0; s < w->sequences; s++)
        for (int64_t c = 0; c < cols; c++) m.p[s * m.ld + c] = (real)qkv_normal(qkv_key3(who[s], salt, (uint64_t)c));
    return m;
}

static void give_ends(walked *w, const qkv_recurrence *r, const uint64_t *who) {
    const int64_t wide = r->directions * r->units;
    w->ends.hidden = end_rows(w, who, wide, 5);
    w->ends.dhidden = end_rows(w, who, wide, 6);
    if (r->cell != QKV_RECUR_LSTM) return;
    w->ends.cells = end_rows(w, who, wide, 7);
    w->ends.dcells = end_rows(w, who, wide, 8);
    w->ends.dlast = end_rows(w, who, wide, 9);
}

static qkv_recurrence declare(ops_bench *bench, qkv_recur_cell cell, int64_t units, int directions, bool peepholes) {
    qkv_recurrence r = {cell, units, directions, {{-1, -1, -1}, {-1, -1, -1}}};
    const bool apart = cell == QKV_RECUR_GRU_BEFORE;
    const int64_t gates = apart ? 2 : qkv_recur_gates(cell);
    for (int i = 0; i < directions; i++) {
        OPS_OK(qkv_reg_add(&bench->reg, "", "weight", gates * units, units, (qkv_param_kind){.matrix = true, .gates = gates},
                           &r.of[i].weight));
        if (apart)
            OPS_OK(qkv_reg_add(&bench->reg, "", "candidate", units, units, (qkv_param_kind){.matrix = true, .gates = 1},
                               &r.of[i].candidate));
        if (cell == QKV_RECUR_GRU || peepholes)
            OPS_OK(qkv_reg_add(&bench->reg, "", "vector", 1, (peepholes ? 3 : 1) * units, (qkv_param_kind){.vector = true},
                               &r.of[i].vector));
    }
    return r;
}

/* Plan, and both passes in an arena of the planned size. `spoil`: a sequence whose first row is NaN, -1: none. ends: h and c before
 * the first step are given. */
static walked walk(ops_bench *bench, const qkv_recurrence *r, int64_t sequences, const uint64_t *who, const int64_t *lengths,
                   int64_t spoil, bool ends) {
    walked w = {.sequences = sequences};
    w.offset = calloc((size_t)sequences + 1, sizeof *w.offset);
    for (int64_t s = 0; s < sequences; s++) w.offset[s + 1] = w.offset[s] + lengths[s];
    w.rows = w.offset[sequences];
    const int64_t wide = r->directions * r->units;
    w.gates = ops_mat(w.rows, qkv_recurrence_gates(r), qkv_recurrence_gates(r) + 3, 1);
    w.hidden = ops_mat(w.rows, wide, wide + 5, 2);
    w.cells = ops_mat(w.rows, qkv_recurrence_cells(r), qkv_recurrence_cells(r) + 1, 3);
    w.dhidden = ops_mat(w.rows, wide, wide, 4);
    fill(w.gates, &w, who, 1);
    fill(w.dhidden, &w, who, 2);
    if (ends) give_ends(&w, r, who);
    const qkv_recur_ends *e = ends ? &w.ends : NULL;
    qkv_recur_ends no = w.ends;
    no.hidden.p = no.cells.p = no.dhidden.p = no.dcells.p = no.dlast.p = NULL;
    for (int64_t c = 0; spoil >= 0 && c < w.gates.cols; c++) w.gates.p[w.offset[spoil] * w.gates.ld + c] = (real)NAN;
    w.grads = calloc((size_t)bench->reg.size, sizeof(real));
    const qkv_batch batch = {.n_seq = sequences, .offset = w.offset};
    qkv_exec plan = {.ctx = &bench->ctx, .plan = true, .keep = true, .reg = &bench->reg}, x = bench->x;
    qkv_mat none[4] = {w.gates, w.hidden, w.cells, w.dhidden};
    for (int i = 0; i < 4; i++) none[i].p = NULL;
    OPS_OK(qkv_recurrence_forward(&plan, r, &batch, ends ? &no : NULL, none[0], none[1], none[2]));
    plan.pass = QKV_PASS_BACKWARD;
    OPS_OK(qkv_recurrence_backward(&plan, r, &batch, ends ? &no : NULL, none[3], none[0], none[1], none[2]));
    x.grads = w.grads;
    x.arena = (qkv_arena){0};
    x.tally = (qkv_tally){0};
    OPS_OK(qkv_arena_create(&bench->ctx, plan.arena.peak, &x.arena));
    OPS_OK(qkv_recurrence_forward(&x, r, &batch, e, w.gates, w.hidden, w.cells));
    x.pass = QKV_PASS_BACKWARD;
    OPS_OK(qkv_recurrence_backward(&x, r, &batch, e, w.dhidden, w.gates, w.hidden, w.cells));
    assert_memory_equal(&plan.tally, &x.tally, sizeof x.tally);
    assert_int_equal(plan.arena.peak, x.arena.peak);
    qkv_arena_free(&bench->ctx, &x.arena);
    ops_untouched(w.gates);
    ops_untouched(w.hidden);
    ops_untouched(w.cells);
    w.tally = x.tally;
    return w;
}

static void same_rows(const char *what, qkv_mat a, int64_t row_a, qkv_mat b, int64_t row_b, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        if (memcmp(a.p + (row_a + r) * a.ld, b.p + (row_b + r) * b.ld, (size_t)a.cols * sizeof(real)) != 0)
            fail_msg("%s: row %lld differs", what, (long long)(row_a + r));
}

static void same(const ops_bench *bench, const walked *a, const walked *b) {
    same_rows("hidden", a->hidden, 0, b->hidden, 0, a->rows);
    same_rows("gradients of the gates", a->gates, 0, b->gates, 0, a->rows);
    assert_memory_equal(a->grads, b->grads, (size_t)bench->reg.size * sizeof(real));
    same_rows("gradient of h before", a->ends.dhidden, 0, b->ends.dhidden, 0, a->ends.dhidden.rows);
    same_rows("gradient of c before", a->ends.dcells, 0, b->ends.dcells, 0, a->ends.dcells.rows);
}

/* Small weights: h stays well inside the range where its gradients live. */
static void scale_weights(ops_bench *bench, int64_t units) {
    for (int64_t i = 0; i < bench->reg.size; i++) bench->weights[i] *= (real)(1 / sqrt((double)units));
}

enum { SEQUENCES = 30 };

static void one(qkv_recur_cell cell, int64_t units, int directions, bool peepholes, bool ends) {
    uint64_t who[SEQUENCES];
    int64_t lengths[SEQUENCES];
    for (int s = 0; s < SEQUENCES; s++) {
        who[s] = (uint64_t)(40 + s);
        lengths[s] = s % 7 == 3 ? 0 : (int64_t)qkv_below(qkv_key2(9, (uint64_t)s), 12);
    }
    ops_bench all, *bench = &all;
    ops_start(bench, 1);
    qkv_recurrence r = declare(bench, cell, units, directions, peepholes);
    ops_ready(bench, 64);
    scale_weights(bench, units);
    walked first = walk(bench, &r, SEQUENCES, who, lengths, -1, ends);
    const qkv_kernels *tables[4];
    const int n = qkv_kernels_present(tables);
    for (int t = 0; t < n + 3; t++) {
        const int threads[] = {2, 3, 8};
        qkv_par_close(&bench->ctx);
        bench->ctx.kernels = tables[t < n ? t : 0];
        bench->ctx.threads = t < n ? 1 : threads[t - n];
        walked w = walk(bench, &r, SEQUENCES, who, lengths, -1, ends);
        same(bench, &first, &w);
        drop(&w);
    }
    /* each alone, and with a spoilt one beside it */
    for (int s = 0; s < SEQUENCES; s++) {
        const uint64_t two[] = {who[s], 999};
        const int64_t both[] = {lengths[s], 9};
        walked w = walk(bench, &r, 2, two, both, 1, ends);
        same_rows("hidden, alone", first.hidden, first.offset[s], w.hidden, 0, lengths[s]);
        same_rows("gradients of the gates, alone", first.gates, first.offset[s], w.gates, 0, lengths[s]);
        if (ends) same_rows("gradient of h before, alone", first.ends.dhidden, s, w.ends.dhidden, 0, 1);
        if (ends && cell == QKV_RECUR_LSTM) same_rows("gradient of c before, alone", first.ends.dcells, s, w.ends.dcells, 0, 1);
        assert_true(isnan(w.hidden.p[lengths[s] * w.hidden.ld]));
        drop(&w);
    }
    drop(&first);
    ops_end(bench);
}

static void bits(void **state) {
    (void)state;
    for (int cell = 0; cell <= QKV_RECUR_GRU_BEFORE; cell++) {
        one((qkv_recur_cell)cell, 20, 2, false, false);
        one((qkv_recur_cell)cell, 20, 2, cell == QKV_RECUR_LSTM, true);
        for (int ends = 0; ends < 2; ends++) /* large enough for columns */
            one((qkv_recur_cell)cell, cell < QKV_RECUR_LSTM ? 260 : 144, 1, cell == QKV_RECUR_LSTM, ends);
    }
}

/* The COUNT table counts the lanes that it computes. */
static void count(void **state) {
    (void)state;
    static const uint64_t who[] = {1, 2, 3, 4};
    static const int64_t lengths[] = {5, 0, 1, 9};
    for (int cell = 0; cell <= QKV_RECUR_GRU_BEFORE; cell++)
        for (int k = 0; k < (cell == QKV_RECUR_LSTM ? 4 : 2); k++) {
            const bool ends = k % 2 == 1, peepholes = k / 2 == 1;
            ops_bench all, *bench = &all;
            ops_start(bench, 1);
            bench->ctx.kernels = &qkv_kernels_count;
            qkv_recurrence r = declare(bench, (qkv_recur_cell)cell, 18, 1, peepholes);
            ops_ready(bench, 64);
            qkv_ledger_entry entries[2] = {0};
            qkv_ledger ledger = {.entries = entries, .capacity = 2};
            bench->x.ledger = &ledger;
            bench->x.pass = QKV_PASS_FORWARD;
            qkv_counted = (qkv_counts){0};
            walked w = walk(bench, &r, 4, who, lengths, -1, ends);
            const qkv_charge *forward = &entries[0].of[QKV_PASS_FORWARD][QKV_WORK_RECURRENCE],
                             *back = &entries[0].of[QKV_PASS_BACKWARD][QKV_WORK_RECURRENCE];
            /* the gradient of the peepholes is three more chains over all rows, in blocks of 16 columns */
            const double dots = peepholes ? 3 * 15 * 32 : 0;
            assert_true((double)qkv_counted.fma == forward->executed + back->executed + dots);
            assert_true(forward->macs > 0 && forward->flops > 2 * forward->macs && back->flops > 2 * back->macs);
            drop(&w);
            ops_end(bench);
        }
}

static void refusals(void **state) {
    (void)state;
    ops_bench all, *bench = &all;
    ops_start(bench, 1);
    qkv_recurrence r = declare(bench, QKV_RECUR_GRU, 4, 1, false), bad = r;
    ops_ready(bench, 1 << 16);
    static const int64_t offset[] = {0, 3};
    const qkv_batch batch = {.n_seq = 1, .offset = offset};
    qkv_mat gates = ops_mat(3, 12, 12, 1), hidden = ops_mat(3, 4, 4, 2), narrow = hidden;
    narrow.cols = 3;
    assert_int_equal(qkv_recurrence_forward(&bench->x, &r, &batch, NULL, gates, narrow, hidden), QKV_INTERNAL);
    bad.directions = 3;
    assert_int_equal(qkv_recurrence_forward(&bench->x, &bad, &batch, NULL, gates, hidden, hidden), QKV_INTERNAL);
    bad = r;
    bad.of[0].vector = -1;
    assert_int_equal(qkv_recurrence_forward(&bench->x, &bad, &batch, NULL, gates, hidden, hidden), QKV_INTERNAL);
    assert_non_null(strstr(bench->ctx.message, "not there"));
    bad = r;
    bad.units = 5;
    assert_int_equal(qkv_recurrence_forward(&bench->x, &bad, &batch, NULL, gates, hidden, hidden), QKV_INTERNAL);
    const qkv_mat one_row = qkv_mat_rows(hidden, 0, 1);
    const qkv_recur_ends wrong[] = {{.hidden = hidden}, {.hidden = one_row, .cells = one_row}, {.cells = one_row}, {.dlast = one_row}};
    for (int i = 0; i < 4; i++)
        assert_int_equal(qkv_recurrence_forward(&bench->x, &r, &batch, &wrong[i], gates, hidden, hidden), QKV_INTERNAL);
    const qkv_recur_ends no_gradient = {.hidden = one_row};
    assert_int_equal(qkv_recurrence_backward(&bench->x, &r, &batch, &no_gradient, hidden, gates, hidden, hidden), QKV_INTERNAL);
    free(gates.p);
    free(hidden.p);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits), cmocka_unit_test(count), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
