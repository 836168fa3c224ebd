/* Pages: well-formed, escaped, nothing from outside; memory that runs out is an error. */
#include "support.h"

#include <math.h>

#include "report/outcome.h"
#include "report/page.h"

/* A table, a chart with all kinds of points, a claim; with text that would break a page. */
static void build(qkv_outcome *o) {
    static const qkv_compare_column columns[] = {
        {"name", "a <b> & \"c\"", QKV_UNIT_TEXT}, {"share", "share", QKV_UNIT_SHARE}, {"time", "time", QKV_UNIT_SECONDS}};
    qkv_outcome_claim c = {.row = 8, .article = "A", .says = "x < y", .figure = "</td><script>", .ours = "1 & 2"};
    qkv_outcome_table(o, "t", "Title </h2>", "note \x01 \xff & more", columns, 3);
    for (int r = 0; r < 20; r++) {
        qkv_outcome_row(o);
        qkv_outcome_set_text(o, 0, r == 7 ? "</tr><b \"x\">" : "plain");
        qkv_outcome_set(o, 1, r == 3 ? NAN : 0.05 * r, r % 2 ? 0.01 : NAN);
        qkv_outcome_set(o, 2, 1e-9 * pow(10, r / 2.0), NAN);
    }
    for (int log = 0; log < 2; log++) {
        qkv_outcome_chart(o, "chart <svg>", "x", QKV_UNIT_COUNT, log, "y", QKV_UNIT_SECONDS, log);
        for (int l = 0; l < 12; l++) {
            qkv_outcome_line(o, "line & line");
            for (int i = 0; i < 9; i++)
                qkv_outcome_point(o, 64 << i, i == 4 ? NAN : (l - 3) * 0.001 * (i + 1), i % 2 ? 0.001 : NAN);
        }
    }
    qkv_outcome_chart(o, "empty", "x", QKV_UNIT_COUNT, true, "y", QKV_UNIT_NUMBER, true);
    qkv_outcome_chart(o, "one point", "x", QKV_UNIT_COUNT, false, "y", QKV_UNIT_NUMBER, false);
    qkv_outcome_line(o, "l");
    qkv_outcome_point(o, 0, 0, 0);
    const qkv_asked asked = {1, 0.5, NAN, "%g", 1};
    const qkv_estimate one = qkv_estimate_exact(1), two = qkv_estimate_exact(2);
    qkv_claim_part(&c, "first", &asked, &one);
    qkv_claim_part(&c, "second", &asked, &two);
    qkv_outcome_add_claim(o, &c, "So.");
}

static qkv_status page(qkv_ctx *ctx, qkv_buf *out) {
    qkv_outcome *o;
    qkv_compare_result *r;
    QKV_TRY(qkv_outcome_create(ctx, &o));
    build(o);
    qkv_status status = qkv_outcome_finish(o, &r);
    if (status == QKV_OK) {
        r->what = "test";
        r->summary = r->machine = r->setting = "s < t";
        r->cells = 5;
        r->done = 3;
        assert_true(r->tables == 1 && r->charts == 4 && r->claims == 1 && r->table[0].rows == 20);
        assert_int_equal(r->claim[0].verdict, QKV_HOLDS_IN_PART);
        assert_string_equal(r->claim[0].why, "first: 1, as claimed (holds); second: 2, not the claim's 1 (does not hold). So.");
        status = qkv_page_print(r, out);
    }
    qkv_outcome_free(o);
    return status;
}

/* Every element that is opened is closed, in order. Fails on a stray '<' or a bare '&' too. */
static void check_form(const char *p) {
    char open[64][16];
    int depth = 0;
    assert_memory_equal(p, "<!DOCTYPE html>", 15);
    for (p += 15; *p; p++) {
        if (*p == '&') {
            size_t n = strcspn(p, ";");
            assert_true(n > 1 && n < 8);
        }
        if (*p != '<') continue;
        const bool closes = p[1] == '/';
        const char *name = p + 1 + closes;
        size_t length = strcspn(name, " />\n"), whole = strcspn(p, ">");
        assert_true(length > 0 && length < 16 && p[whole] == '>');
        if (closes) {
            assert_true(depth > 0);
            depth--;
            if (strncmp(open[depth], name, length) != 0 || open[depth][length])
                fail_msg("</%.*s> closes <%s>", (int)length, name, open[depth]);
        } else if (p[whole - 1] != '/') {
            assert_true(depth < 64);
            memcpy(open[depth], name, length);
            open[depth++][length] = 0;
        }
        p += whole;
    }
    assert_int_equal(depth, 0);
}

static void a_page_is_well_formed_and_alone(void **state) {
    (void)state;
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    qkv_buf out = {.ctx = &ctx};
    assert_int_equal(page(&ctx, &out), QKV_OK);
    check_form(out.p);
    static const char *const outside[] = {"http", "//", "<script", "src=", "href=", "url(", "@import", "<link", "nan", "inf,"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (strstr(out.p, outside[i])) fail_msg("the page has '%s'", outside[i]);
    assert_non_null(strstr(out.p, "&lt;/td&gt;&lt;script&gt;"));
    assert_non_null(strstr(out.p, "&lt;/tr&gt;&lt;b &quot;x&quot;&gt;"));
    assert_non_null(strstr(out.p, "3 of 5 measurements are done"));
    assert_non_null(strstr(out.p, "holds in part"));
    qkv_buf_free(&out);
    assert_int_equal(memory.blocks, 0);
}

static void text_is_escaped(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"a<b>&\"c\"", "a&lt;b&gt;&amp;&quot;c&quot;"},
                                           {"\xe4\xb8\xad\xf0\x9f\x98\x80", "\xe4\xb8\xad\xf0\x9f\x98\x80"},
                                           {"\xff", "\xef\xbf\xbd"},
                                           {"\xe4\xb8", "\xef\xbf\xbd\xef\xbf\xbd"},
                                           {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                                           {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
                                           {"\x01\t", "\xef\xbf\xbd\t"},
                                           {"", ""}};
    test_memory memory = {0};
    qkv_ctx ctx = test_ctx(&memory);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        qkv_buf out = {.ctx = &ctx};
        assert_int_equal(qkv_page_text(pairs[i][0], &out), QKV_OK);
        assert_string_equal(out.p ? out.p : "", pairs[i][1]);
        qkv_buf_free(&out);
    }
}

static void values(void **state) {
    (void)state;
    static const struct {
        qkv_unit unit;
        double x;
        const char *text;
    } cases[] = {{QKV_UNIT_SHARE, 0.5, "50.00 %"},
                 {QKV_UNIT_SECONDS, 0.00125, "1.25 ms"},
                 {QKV_UNIT_SECONDS, 12.34, "12.3 s"},
                 {QKV_UNIT_BYTES, 123, "123 B"},
                 {QKV_UNIT_BYTES, 1.5e9, "1.50 GB"},
                 {QKV_UNIT_OPERATIONS, 68.72e9, "68.7 G"},
                 {QKV_UNIT_COUNT, 1048576, "1,048,576"},
                 {QKV_UNIT_NUMBER, 0.000123456, "0.0001235"},
                 {QKV_UNIT_SHARE, NAN, "-"},
                 {QKV_UNIT_COUNT, 999, "999"},
                 {QKV_UNIT_COUNT, -1000, "-1,000"},
                 {QKV_UNIT_COUNT, 0, "0"}};
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_page_value(cases[i].unit, cases[i].x, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void memory_runs_out(void **state) {
    (void)state;
    for (int64_t k = 1;; k += k < 40 ? 1 : 37) {
        test_memory memory = {.fail_at = k};
        qkv_ctx ctx = test_ctx(&memory);
        qkv_buf out = {.ctx = &ctx};
        const qkv_status status = page(&ctx, &out);
        const bool reached = memory.calls >= k;
        assert_int_equal(status, reached ? QKV_NO_MEMORY : QKV_OK);
        qkv_buf_free(&out);
        assert_int_equal(memory.blocks, 0);
        if (!reached) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_well_formed_and_alone),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(values),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
