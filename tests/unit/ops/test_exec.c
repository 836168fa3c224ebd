/* The exec and the registry: memory of a pass, books, dropout keys, names and places of parameters. */
#include "ops.h"

static void memory(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 1);
    ops_ready(bench, 4096);
    qkv_exec *x = &bench->x;
    qkv_mat kept, scratch;
    OPS_OK(qkv_keep(x, 3, 5, &kept));
    size_t mark = qkv_exec_mark(x);
    OPS_OK(qkv_temp(x, 2, 7, &scratch));
    assert_true((uintptr_t)kept.p % 64 == 0 && (uintptr_t)scratch.p % 64 == 0);
    assert_true(kept.rows == 3 && kept.cols == 5 && kept.ld == 5);
    assert_int_equal(x->arena.low, (15 * sizeof(real) + 63) / 64 * 64);
    assert_int_equal(x->arena.high, (14 * sizeof(real) + 63) / 64 * 64);
    x->keep = false; /* now what is kept is scratch too */
    OPS_OK(qkv_keep(x, 3, 5, &kept));
    int32_t *numbers;
    OPS_OK(qkv_keep_array(x, 10, sizeof *numbers, &numbers));
    OPS_OK(qkv_temp_array(x, 10, sizeof *numbers, &numbers));
    assert_int_equal(x->arena.low, (15 * sizeof(real) + 63) / 64 * 64);
    qkv_exec_release(x, mark);
    assert_int_equal(x->arena.high, mark);
    /* sizes that cannot be */
    assert_int_equal(qkv_temp(x, -1, 5, &scratch), QKV_INTERNAL);
    assert_int_equal(qkv_temp(x, INT64_MAX, 2, &scratch), QKV_INTERNAL);
    assert_int_equal(qkv_temp(x, 2, INT64_MAX, &scratch), QKV_INTERNAL);
    assert_int_equal(qkv_temp(x, 1000, 1000, &scratch), QKV_INTERNAL);
    assert_non_null(strstr(bench->ctx.message, "too small"));
    qkv_arena_low_release(&x->arena, 0);
    ops_end(bench);
}

static void books(void **state) {
    (void)state;
    qkv_exec x = {0};
    qkv_exec_book(&x, QKV_CLASS_GEMM, 100, 10);
    x.pass = QKV_PASS_BACKWARD;
    qkv_exec_book(&x, QKV_CLASS_GEMM, 200, 20);
    qkv_exec_book(&x, QKV_CLASS_OTHER, 7, 1);
    qkv_exec_book(&x, QKV_CLASS_OTHER, 7, 1);
    assert_true(x.tally.flops[QKV_PASS_FORWARD][QKV_CLASS_GEMM] == 100);
    assert_true(x.tally.flops[QKV_PASS_BACKWARD][QKV_CLASS_OTHER] == 14);
    assert_true(x.tally.bytes[QKV_PASS_BACKWARD][QKV_CLASS_GEMM] == 20);
    assert_true(qkv_tally_flops(&x.tally) == 314);
}

/* A ledger keeps apart what the tally adds up: by pass, place and kind of work. */
static void ledger(void **state) {
    (void)state;
    qkv_ledger_entry entries[3];
    qkv_ledger book = {.entries = entries, .capacity = 3};
    qkv_exec x = {.ledger = &book};
    const qkv_charge one = {.macs = 3, .flops = 8, .executed = 4, .bytes = 16};
    qkv_exec_charge(&x, QKV_CLASS_GEMM, QKV_WORK_PROJECTION, one); /* nowhere */
    qkv_place before = qkv_exec_at(&x, (qkv_place){"encoder", 0, QKV_WORK_LINEAR});
    assert_null(before.name);
    qkv_exec_charge(&x, QKV_CLASS_GEMM, QKV_WORK_PROJECTION, one);
    qkv_exec_charge(&x, QKV_CLASS_GEMM, QKV_WORK_PROJECTION, one);
    qkv_exec_other(&x, QKV_WORK_NORM, 5, 7);
    char name[] = "head"; /* places are told apart by what is written there */
    before = qkv_exec_at(&x, (qkv_place){name, -1, QKV_WORK_HEAD});
    assert_string_equal(before.name, "encoder");
    x.pass = QKV_PASS_BACKWARD;
    qkv_exec_book(&x, QKV_CLASS_GEMM, 10, 2);
    qkv_exec_at(&x, (qkv_place){"head", -1, QKV_WORK_HEAD});
    qkv_exec_book(&x, QKV_CLASS_OTHER, 1, 1);
    qkv_exec_at(&x, (qkv_place){"encoder", 0, QKV_WORK_LINEAR});
    qkv_exec_book(&x, QKV_CLASS_RECURRENCE, 9, 1);
    assert_int_equal(book.count, 3);
    const qkv_charge *p = &entries[1].of[QKV_PASS_FORWARD][QKV_WORK_PROJECTION], *h = &entries[2].of[QKV_PASS_BACKWARD][QKV_WORK_HEAD];
    assert_true(p->macs == 6 && p->flops == 16 && p->executed == 8 && p->bytes == 32);
    assert_true(h->macs == 5 && h->flops == 11 && h->executed == 5 && h->bytes == 3);
    assert_true(entries[1].of[QKV_PASS_FORWARD][QKV_WORK_NORM].flops == 5 && entries[1].of[QKV_PASS_FORWARD][QKV_WORK_NORM].macs == 0);
    assert_true(entries[1].of[QKV_PASS_BACKWARD][QKV_WORK_RECURRENCE].flops == 9);
    double flops = 0;
    for (int e = 0; e < 3; e++)
        for (int k = 0; k < QKV_PASSES * QKV_WORKS; k++) flops += (&entries[e].of[0][0])[k].flops;
    assert_true(flops == qkv_tally_flops(&x.tally) && flops == 3 * 8 + 5 + 10 + 1 + 9);
    /* a place too many is not lost without a word, and the tally has it */
    assert_false(book.overflow);
    qkv_exec_at(&x, (qkv_place){"encoder", 1, QKV_WORK_LINEAR});
    qkv_exec_book(&x, QKV_CLASS_GEMM, 100, 1);
    assert_true(book.overflow && book.count == 3 && qkv_tally_flops(&x.tally) == flops + 100);
}

static void dropout_keys(void **state) {
    (void)state;
    static const uint64_t rows[] = {1, 2};
    qkv_exec x = {.train = true, .seed = 1, .step = 2};
    qkv_dropout a = qkv_exec_dropout(&x, 0.25, 3, rows), b = qkv_exec_dropout(&x, 0.25, 3, rows);
    assert_true(a.key == b.key && a.p == (real)0.25 && a.row_key == rows);
    assert_true(qkv_exec_dropout(&x, 0.25, 4, rows).key != a.key);
    x.step = 3;
    assert_true(qkv_exec_dropout(&x, 0.25, 3, rows).key != a.key);
    x.step = 2;
    x.seed = 2;
    assert_true(qkv_exec_dropout(&x, 0.25, 3, rows).key != a.key);
    x.train = false;
    assert_true(qkv_exec_dropout(&x, 0.25, 3, rows).p == 0);
}

static void shapes(void **state) {
    (void)state;
    qkv_ctx ctx = {0};
    qkv_exec x = {.ctx = &ctx};
    real some[6];
    assert_int_equal(qkv_exec_shape(&x, "thing", (qkv_mat){some, 2, 3, 3}, 2, 3), QKV_OK);
    assert_int_equal(qkv_exec_shape(&x, "thing", (qkv_mat){NULL, 0, 3, 3}, 0, 3), QKV_OK);
    assert_int_equal(qkv_exec_shape(&x, "thing", (qkv_mat){some, 2, 3, 2}, 2, 3), QKV_INTERNAL);
    assert_int_equal(qkv_exec_shape(&x, "thing", (qkv_mat){NULL, 2, 3, 3}, 2, 3), QKV_INTERNAL);
    x.plan = true;
    assert_int_equal(qkv_exec_shape(&x, "thing", (qkv_mat){NULL, 2, 3, 3}, 2, 3), QKV_OK);
    assert_int_equal(qkv_exec_shape(&x, "thing", (qkv_mat){some, 2, 3, 3}, 2, 4), QKV_INTERNAL);
    assert_string_equal(ctx.message, "thing is 2 x 3 (stride 3), expected 2 x 4");
}

static void registry(void **state) {
    (void)state;
    ops_bench one, *bench = &one;
    ops_start(bench, 1);
    int64_t a, b, c, d;
    OPS_OK(qkv_reg_add(&bench->reg, "encoder.0.", "norm1.weight", 1, 5, (qkv_param_kind){.value = 1, .vector = true}, &a));
    OPS_OK(qkv_reg_add(&bench->reg, "", "w", 3, 17, (qkv_param_kind){.std = 0.5, .decay = true, .matrix = true}, &b));
    OPS_OK(qkv_reg_add(&bench->reg, "", "e", 7, 1, (qkv_param_kind){.embedding = true}, &c));
    OPS_OK(qkv_reg_add(&bench->reg, "", "v", 20, 2, (qkv_param_kind){.matrix = true}, &d));
    const qkv_param *p = bench->reg.params;
    assert_string_equal(p[a].name, "encoder.0.norm1.weight");
    assert_true(p[a].offset == 0 && p[b].offset == 16 && p[c].offset == 80 && p[d].offset == 96 && bench->reg.size == 144);
    assert_true(p[a].vector && !p[a].decay && p[a].init_value == 1 && p[b].decay && p[b].init_std == (real)0.5 && p[c].embedding);
    assert_true(p[a].packed_offset == -1 && p[b].packed_offset == 0 && p[c].packed_offset == -1);
    assert_int_equal(p[d].packed_offset, qkv_packed_size(17, 3));
    assert_int_equal(qkv_reg_add(&bench->reg, "", "huge", INT64_MAX / 2, 3, (qkv_param_kind){0}, &d), QKV_BAD_CONFIG);
    assert_int_equal(qkv_reg_add(&bench->reg, "", "none", 0, 3, (qkv_param_kind){0}, &d), QKV_BAD_CONFIG);
    char longer[120];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(qkv_reg_add(&bench->reg, "", longer, 1, 3, (qkv_param_kind){0}, &d), QKV_INTERNAL);
    assert_int_equal(bench->reg.count, 4);
    ops_ready(bench, 64);
    ops_end(bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory), cmocka_unit_test(books), cmocka_unit_test(ledger), cmocka_unit_test(dropout_keys),
                                       cmocka_unit_test(shapes), cmocka_unit_test(registry)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
