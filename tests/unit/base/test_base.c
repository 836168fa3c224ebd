/* Context, memory, arena, random numbers, parallel-for, buffer, hashes, numbers. */
#include "support.h"

#include <time.h>

#include <locale.h>
#include <math.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/par.h"
#include "base/rng.h"

static void memory_is_aligned_counted_and_refused(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (int64_t n = 0; n < 200; n += 7) {
        char *p = NULL;
        assert_int_equal(qkv_alloc_zero(&ctx, n, 3, &p), QKV_OK);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (int64_t i = 0; i < 3 * n; i++) assert_int_equal(p[i], 0);
        memset(p, 'x', (size_t)(n < 0 ? 0 : n) * 3);
        assert_int_equal(qkv_grow(&ctx, n + 50, 3, &p), QKV_OK);
        for (int64_t i = 0; i < 3 * n; i++) assert_int_equal(p[i], 'x');
        qkv_free(&ctx, p);
    }
    assert_int_equal(memory.blocks, 0);
    void *p = NULL;
    assert_int_equal(qkv_alloc(&ctx, INT64_MAX, 16, &p), QKV_NO_MEMORY);
    assert_int_equal(qkv_alloc(&ctx, -1, 1, &p), QKV_NO_MEMORY);
    assert_non_null(strstr(ctx.message, "-1 elements"));
    memory.fail_at = memory.calls + 1;
    assert_int_equal(qkv_alloc(&ctx, 1000, 4, &p), QKV_NO_MEMORY);
    assert_string_equal(ctx.message, "out of memory: 4000 bytes asked for");
    assert_null(p);
}

static void memory_has_a_wall(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char *a = NULL, *b = NULL, *c = NULL;
    assert_int_equal(qkv_alloc(&ctx, 1000, 1, &a), QKV_OK);
    const int64_t one = ctx.used;
    assert_true(one >= 1000 && one <= 1064);
    ctx.most_used = 3 * one;
    assert_int_equal(qkv_grow(&ctx, 1000, 2, &a), QKV_OK); /* old and new side by side: 2,064 + 1,064 of 3,192 */
    assert_int_equal(ctx.used, one + 1000);
    assert_int_equal(qkv_alloc(&ctx, 1000, 1, &b), QKV_OK);
    const int64_t used = ctx.used, calls = memory.calls;
    assert_int_equal(qkv_alloc(&ctx, 1000, 1, &c), QKV_NO_MEMORY);
    assert_null(c);
    assert_non_null(strstr(ctx.message, "out of memory: 1000 bytes asked for beside 3128 that are in use, 3192 are allowed"));
    assert_true(ctx.used == used && memory.calls == calls); /* the allocator was not asked */
    qkv_free(&ctx, b);
    assert_int_equal(qkv_alloc(&ctx, 1000, 1, &c), QKV_OK);
    qkv_free(&ctx, c);
    memory.fail_at = memory.calls + 1;
    assert_int_equal(qkv_alloc(&ctx, 10, 1, &c), QKV_NO_MEMORY);
    qkv_free(&ctx, a);
    assert_int_equal(ctx.used, 0);
}

static void a_message_may_quote_the_last_one(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    assert_int_equal(qkv_fail(&ctx, QKV_BAD_DATA, "row %d", 7), QKV_BAD_DATA);
    assert_int_equal(qkv_fail(&ctx, QKV_IO, "file: %s", ctx.message), QKV_IO);
    assert_string_equal(ctx.message, "file: row 7");
}

static void arena_plans_what_it_grants(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_arena plan = {0}, run;
    void *p = NULL;
    for (int pass = 0; pass < 2; pass++) {
        qkv_arena *a = pass ? &run : &plan;
        if (pass) assert_int_equal(qkv_arena_create(&ctx, plan.peak, &run), QKV_OK);
        assert_int_equal(qkv_arena_low(&ctx, a, 100, &p), QKV_OK);
        assert_int_equal(p != NULL, pass);
        if (pass) memset(p, 1, 100);
        size_t high = a->high, low = a->low;
        assert_int_equal(qkv_arena_high(&ctx, a, 1000, &p), QKV_OK);
        if (pass) memset(p, 2, 1000);
        assert_int_equal(qkv_arena_low(&ctx, a, 1, &p), QKV_OK);
        qkv_arena_high_release(a, high);
        qkv_arena_low_release(a, low);
        assert_int_equal(qkv_arena_high(&ctx, a, 64, &p), QKV_OK);
        assert_int_equal(a->low, 128);
        assert_int_equal(a->peak, 128 + 1024 + 64);
    }
    assert_int_equal(qkv_arena_low(&ctx, &run, 1 << 20, &p), QKV_INTERNAL);
    assert_non_null(strstr(ctx.message, "arena of 1216 bytes is too small"));
    qkv_arena_free(&ctx, &run);
    assert_int_equal(memory.blocks, 0);
}

static void random_numbers_have_their_moments(void **state) {
    (void)state;
    double sum = 0, square = 0, fourth = 0, uniform = 0;
    enum { N = 200000 };
    for (uint64_t i = 0; i < N; i++) {
        double x = qkv_normal(qkv_key2(3, i));
        assert_true(isfinite(x));
        sum += x, square += x * x, fourth += x * x * x * x;
        uniform += qkv_uniform(qkv_key3(1, 2, i));
    }
    assert_true(fabs(sum / N) < 0.01);
    assert_true(fabs(square / N - 1) < 0.02);
    assert_true(fabs(fourth / N - 3) < 0.1);
    assert_true(fabs(uniform / N - 0.5) < 0.005);
    int64_t order[97], again[97], seen[97] = {0};
    qkv_shuffle(5, 97, order);
    qkv_shuffle(5, 97, again);
    assert_memory_equal(order, again, sizeof order);
    int64_t moved = 0;
    for (int i = 0; i < 97; i++) seen[order[i]]++, moved += order[i] != i;
    for (int i = 0; i < 97; i++) assert_int_equal(seen[i], 1);
    assert_true(moved > 80);
    int64_t counts[10] = {0};
    for (uint64_t i = 0; i < 10000; i++) counts[qkv_below(qkv_key2(9, i), 10)]++;
    for (int i = 0; i < 10; i++) assert_true(counts[i] > 850 && counts[i] < 1150);
}

static void count_chunk(void *arg, int64_t chunk, int thread) {
    int64_t *counts = arg;
    assert_true(thread >= 0 && thread < 4);
    counts[chunk]++;
}

static void every_chunk_runs_once(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (ctx.threads = 1; ctx.threads <= 4; ctx.threads++)
        for (int64_t chunks = 0; chunks <= 33; chunks += 3) {
            int64_t counts[40] = {0};
            qkv_par(&ctx, chunks, count_chunk, counts);
            for (int64_t i = 0; i < 40; i++) assert_int_equal(counts[i], i < chunks);
            qkv_par_in_order(&ctx, chunks, count_chunk, counts);
            for (int64_t i = 0; i < 40; i++) assert_int_equal(counts[i], i < chunks ? 2 : 0);
        }
    qkv_par_close(&ctx);
    qkv_par_close(&ctx); /* harmless */
    assert_true(qkv_cpu_cores_allowed() >= 1);
}

typedef struct relay {
    qkv_ctx *ctx;
    qkv_par_counter turn;
    int64_t order[64], inner[64];
} relay;

static void pass_on(void *arg, int64_t chunk, int thread) {
    (void)thread;
    relay *r = arg;
    qkv_par_wait(&r->turn, chunk);
    r->order[chunk] = chunk > 0 ? r->order[chunk - 1] + 1 : 0;
    qkv_par_post(&r->turn, chunk + 1);
}

static void add_inner(void *arg, int64_t chunk, int thread) {
    (void)thread;
    ((int64_t *)arg)[chunk]++;
}

static void nest(void *arg, int64_t chunk, int thread) {
    (void)thread;
    relay *r = arg;
    qkv_par(r->ctx, 1 + chunk % 2, add_inner, r->inner + 2 * chunk);
}

/* More threads than cores: a chunk that waits for a lower one gets it, whoever holds it. */
static void chunks_hand_over(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    for (int round = 0; round < 200; round++) {
        relay r = {.ctx = &ctx};
        ctx.threads = 1 + round % 5;
        qkv_par_in_order(&ctx, 64, pass_on, &r);
        for (int i = 0; i < 64; i++) assert_int_equal(r.order[i], i);
    }
    qkv_par_close(&ctx);
}

static void loops_do_not_nest_but_work(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    ctx.threads = 3;
    relay r = {.ctx = &ctx};
    qkv_par(&ctx, 32, nest, &r);
    for (int i = 0; i < 32; i++) {
        assert_int_equal(r.inner[2 * i], 1);
        assert_int_equal(r.inner[2 * i + 1], i % 2);
    }
    qkv_par_close(&ctx);
}

/* Threads without work do not burn time that others could use. */
static void idle_threads_sleep(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    ctx.threads = 4;
    int64_t counts[64] = {0};
    qkv_par(&ctx, 64, count_chunk, counts);
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    assert_true((double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec) < 0.05);
    qkv_par_close(&ctx);
}

static void buffer_grows(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_buf b = {.ctx = &ctx};
    for (int i = 0; i < 1000; i++) assert_int_equal(qkv_buf_addf(&b, "%d,", i), QKV_OK);
    assert_int_equal(qkv_buf_add(&b, "\0z", 2), QKV_OK);
    assert_int_equal(b.size, 3890 + 2);
    assert_memory_equal(b.p, "0,1,2,", 6);
    assert_memory_equal(b.p + b.size - 6, "999,\0z", 6);
    assert_int_equal(b.p[b.size], 0);
    memory.fail_at = memory.calls + 1;
    int64_t size = b.size;
    char large[8192] = {0};
    assert_int_equal(qkv_buf_add(&b, large, sizeof large), QKV_NO_MEMORY);
    assert_int_equal(b.size, size);
    qkv_buf_free(&b);
    assert_int_equal(memory.blocks, 0);
}

/* FIPS 180-4 examples, and a long one in uneven pieces. */
static void sha256_is_sha256(void **state) {
    (void)state;
    char hex[65], other[65];
    qkv_sha256 s;
    qkv_sha256_start(&s);
    qkv_sha256_end(&s, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    qkv_sha256_start(&s);
    qkv_sha256_add(&s, "abc", 3);
    qkv_sha256_end(&s, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    char text[1000];
    for (int i = 0; i < 1000; i++) text[i] = (char)i;
    qkv_sha256_start(&s);
    qkv_sha256_add(&s, text, sizeof text);
    qkv_sha256_end(&s, hex);
    for (size_t step = 1; step < 200; step += 13) {
        qkv_sha256_start(&s);
        for (size_t i = 0; i < sizeof text; i += step) qkv_sha256_add(&s, text + i, i + step < sizeof text ? step : sizeof text - i);
        qkv_sha256_end(&s, other);
        assert_string_equal(hex, other);
    }
    assert_true(qkv_hash64("a", 1, 0) != qkv_hash64("b", 1, 0));
    assert_true(qkv_hash64("a", 1, 0) != qkv_hash64("a", 1, 1));
}

static void check_numbers(void) {
    char text[64];
    double d;
    for (uint64_t i = 0; i < 3000; i++) {
        double x = qkv_normal(i) * pow(10, (double)(i % 60) - 30);
        size_t n = qkv_print_real(x, text, sizeof text);
        assert_int_equal(n, strlen(text));
        assert_null(strchr(text, ','));
        assert_true(qkv_parse_real(text, n, &d));
        assert_true(d == x);
        float f = (float)x;
        n = qkv_print_float(f, text, sizeof text);
        assert_true(qkv_parse_real(text, n, &d));
        assert_true((float)d == f);
    }
    qkv_print_real(0.1, text, sizeof text);
    assert_string_equal(text, "0.1");
    qkv_print_float(0.1f, text, sizeof text);
    assert_string_equal(text, "0.1");
    static const char *const bad[] = {"", " 1", "1 ", "0x1p3", "1,5", "1.5.2", "--1", "e", "1e", "12abc"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(qkv_parse_real(bad[i], strlen(bad[i]), &d));
    assert_true(qkv_parse_real("-inf", 4, &d) && isinf(d));
    assert_true(qkv_parse_real("nan", 3, &d) && isnan(d));
    qkv_print_real(-INFINITY, text, sizeof text);
    assert_string_equal(text, "-inf");
    static const struct {
        double value;
        const char *text;
    } plain[] = {{100, "100"}, {0, "0"}, {0.95, "0.95"}, {1e-5, "0.00001"}, {1e12, "1000000000000"}, {-2.5e6, "-2500000"}, {1e30, "1e30"},
                 {1e-16, "1e-16"}, {0.1 + 0.2, "0.30000000000000004"}, {INFINITY, "inf"}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) assert_string_equal(qkv_plain(plain[i].value).s, plain[i].text);
}

static void numbers_do_not_depend_on_the_locale(void **state) {
    (void)state;
    check_numbers();
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF"};
    for (size_t i = 0; i < 3; i++)
        if (setlocale(LC_ALL, locales[i])) check_numbers();
    setlocale(LC_ALL, "C");
    int64_t i;
    uint64_t u;
    assert_true(qkv_parse_int("-9223372036854775807", 20, &i) && i == -INT64_MAX);
    assert_false(qkv_parse_int("9223372036854775808", 19, &i));
    assert_true(qkv_parse_uint("18446744073709551615", 20, &u) && u == UINT64_MAX);
    assert_false(qkv_parse_uint("18446744073709551616", 20, &u));
    assert_false(qkv_parse_int("", 0, &i));
    assert_false(qkv_parse_int("-", 1, &i));
    assert_false(qkv_parse_int("1x", 2, &i));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_counted_and_refused), cmocka_unit_test(memory_has_a_wall),
        cmocka_unit_test(a_message_may_quote_the_last_one),
        cmocka_unit_test(arena_plans_what_it_grants),            cmocka_unit_test(random_numbers_have_their_moments),
        cmocka_unit_test(every_chunk_runs_once),
        cmocka_unit_test(chunks_hand_over),
        cmocka_unit_test(loops_do_not_nest_but_work),
        cmocka_unit_test(idle_threads_sleep),                 cmocka_unit_test(buffer_grows),
        cmocka_unit_test(sha256_is_sha256),                      cmocka_unit_test(numbers_do_not_depend_on_the_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
