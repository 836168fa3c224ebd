#include "formats/json.h"
#include "formats/safetensors.h"

#include <math.h>
#include <unistd.h>

#include "base/real.h"
#include "support.h"

static test_memory memory;

/* A file of this header and `data` zero bytes; its size. */
static int64_t compose(const char *header, int64_t data, char *out) {
    uint64_t n = strlen(header);
    memcpy(out, &n, 8);
    memcpy(out + 8, header, n);
    memset(out + 8 + n, 0, (size_t)data);
    return 8 + (int64_t)n + data;
}

/* Must be refused as damaged, with `part` in the sentence, and leave no memory behind. */
static void expect_refused(const void *data, int64_t size, const char *part) {
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_safetensors *file = NULL;
    qkv_status status = qkv_safetensors_parse(&ctx, "model.safetensors", data, size, &file);
    if (status != QKV_BAD_FORMAT || !strstr(ctx.message, part)) {
        fail_msg("status %d, \"%s\", expected \"%s\"", status, ctx.message, part);
    }
    assert_ptr_equal(strstr(ctx.message, "model.safetensors: "), ctx.message);
    assert_null(file);
    assert_int_equal(memory.blocks, 0);
}

#define ENTRY(type, shape, from, to) "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void refuses_bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        int64_t data;
        const char *part;
    } cases[] = {
        {"{", 0, "does not begin"},
        {"[]", 0, "does not begin"},
        {"{} x", 0, "not valid JSON"},
        {"{\"a\":1}", 0, "\"a\" must have exactly"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "must have exactly"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "must have exactly"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "must have exactly"},
        {"{\"a\":" ENTRY("F33", "[1]", 0, 4) "}", 4, "unknown type \"F33\""},
        {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "duplicate"},
        {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[1]", 8, 12) "}", 12, "after a gap"},
        {"{\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "after a gap"},
        {"{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "inside another tensor"},
        {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "inside another tensor"},
        {"{\"a\":" ENTRY("F32", "[2]", 0, 4) "}", 4, "2 elements of F32 do not fill"},
        {"{\"a\":" ENTRY("F32", "[]", 0, 8) "}", 8, "do not fill"},
        {"{\"a\":" ENTRY("F32", "[1]", 4, 0) "}", 4, "before it begins"},
        {"{\"a\":" ENTRY("F32", "[-1]", 0, 4) "}", 4, "whole numbers"},
        {"{\"a\":" ENTRY("F32", "[1.0]", 0, 4) "}", 4, "whole numbers"},
        {"{\"a\":" ENTRY("F32", "[1]", -4, 0) "}", 4, "whole numbers"},
        {"{\"a\":" ENTRY("F32", "[\"1\"]", 0, 4) "}", 4, "whole numbers"},
        {"{\"a\":" ENTRY("F32", "{}", 0, 4) "}", 4, "no shape"},
        {"{\"a\":" ENTRY("F32", "[4611686018427387904,4]", 0, 4) "}", 4, "overflows"},
        {"{\"a\":" ENTRY("F32", "[4611686018427387904]", 0, 4) "}", 4, "do not fill"},
        {"{\"a\":" ENTRY("F32", "[9223372036854775808]", 0, 4) "}", 4, "the number 9223372036854775808 is out of range"},
        {"{\"a\":" ENTRY("U8", "[9223372036854775807]", 0, 9223372036854775807) "}", 4,
         "9223372036854775803 bytes missing at offset"},
        {"{\"a\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, "9 dimensions"},
        {"{\"a\":" ENTRY("F32", "[4]", 0, 16) "}", 4, "12 bytes missing at offset"},
        {"{\"a\":" ENTRY("F32", "[1]", 0, 4) "}", 16, "12 bytes too many at offset"},
        {"{}", 1, "1 byte too many"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ \"a\" is not a string"},
        {"{\"__metadata__\":[\"a\"]}", 0, "not an object of strings"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "duplicate"},
        {"{\"__metadata__\":{\"a\":\"\\u0000\"}}", 0, "not valid JSON"},
        {"{\"a\\u0000b\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "not valid JSON"},
        {"{\"\xff\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "not valid JSON"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[[[1]]]],\"data_offsets\":[0,4]}}", 4, "nested more than"},
    };
    char block[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_refused(block, compose(cases[i].header, cases[i].data, block), cases[i].part);
    }
}

static void refuses_bad_sizes_and_other_files(void **state) {
    (void)state;
    static const char huge[16] = {0, 0, 0, 0, 0, 0, 0, (char)0x80, '{'}, over[16] = {1, (char)0xE1, (char)0xF5, 5, 0, 0, 0, 0, '{'};
    static const char wraps[16] = {(char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF,
                                   (char)0xFF, (char)0xFF, (char)0xFF, '{'};
    expect_refused(NULL, 0, "empty");
    expect_refused("\x10\0\0", 3, "5 bytes missing at offset 3");
    expect_refused(huge, 16, "the header would have 9223372036854775808 bytes");
    expect_refused(wraps, 16, "18446744073709551615");
    expect_refused(over, 16, "100000001 bytes, the limit is 100000000");
    expect_refused("\x40\0\0\0\0\0\0\0{}", 10, "62 bytes missing at offset 10 (the header has 64 bytes)");
    expect_refused("\0\0\0\0\0\0\0\0", 8, "does not begin");
    expect_refused("sport\tA text file.\n", 19, "a text file, not a safetensors file");
    expect_refused("{\"layers\":2}", 12, "a text file");
    expect_refused("\xBA\x16\x4F\x2F\x0C\0\0\0\x64\0\0\0", 12, "a fastText model");
    expect_refused("PK\3\4\0\0\x08\x08\0\0\0\0", 12, "a zip archive, perhaps a PyTorch checkpoint");
    expect_refused("\x1f\x8b\x08\0\0\0\0\0\0\3", 10, "a gzip file");
}

/* A hundred thousand levels: refused before anything recurses. */
static void refuses_deep_nesting(void **state) {
    (void)state;
    enum { DEEP = 100000 };
    char *block = malloc(8 + 2 * DEEP), *header = malloc(2 * DEEP);
    memset(header, '[', DEEP);
    memcpy(header, "{\"a\":", 5);
    header[DEEP] = 0;
    expect_refused(block, compose(header, 0, block), "nested more than");
    free(header);
    free(block);
}

/* Every beginning of a good file is refused, and says how much is missing. */
static void refuses_every_truncation(void **state) {
    (void)state;
    char block[512], part[96];
    int64_t size = compose("{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("U8", "[3]", 8, 11) "}  ", 11, block);
    for (int64_t cut = 1; cut < size; cut++) {
        bool in_data = cut >= size - 11;
        snprintf(part, sizeof part, "%lld byte%s missing at offset %lld", (long long)(size - cut), size - cut == 1 ? "" : "s",
                 (long long)cut);
        expect_refused(block, cut, in_data ? part : cut < 8 ? "" : "missing at offset");
    }
}

static void reads_what_is_legal(void **state) {
    (void)state;
    char block[1024];
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_safetensors *file;
    int64_t size = compose("{\"z\":" ENTRY("F32", "[]", 0, 4) ",\"__metadata__\":{\"b\":\"2\",\"a\":\"\\u00e9\"},\"e\":" ENTRY(
                               "I64", "[3,0,5]", 4, 4) ",\"y\":" ENTRY("BOOL", "[1,3]", 4, 7) "}   ",
                           7, block);
    assert_int_equal(qkv_safetensors_parse(&ctx, "m", block, size, &file), QKV_OK);
    assert_int_equal(qkv_safetensors_count(file), 3);
    assert_string_equal(qkv_safetensors_at(file, 0)->name, "z");
    assert_string_equal(qkv_safetensors_at(file, 1)->name, "e");
    assert_string_equal(qkv_safetensors_at(file, 2)->name, "y");
    assert_int_equal(qkv_safetensors_at(file, 0)->count, 1);
    assert_int_equal(qkv_safetensors_at(file, 1)->count, 0);
    assert_ptr_equal(qkv_safetensors_find(file, "y"), qkv_safetensors_at(file, 2));
    assert_null(qkv_safetensors_find(file, "x"));
    assert_string_equal(qkv_safetensors_metadata(file, "a"), "\xc3\xa9");
    assert_null(qkv_safetensors_metadata(file, "c"));
    int64_t n;
    const qkv_metadata *all = qkv_safetensors_all_metadata(file, &n);
    assert_int_equal(n, 2);
    assert_string_equal(all[0].key, "a");
    assert_string_equal(all[1].value, "2");
    real out[3];
    assert_int_equal(qkv_tensor_reals(&ctx, qkv_safetensors_find(file, "y"), out), QKV_BAD_FORMAT);
    assert_non_null(strstr(ctx.message, "BOOL"));
    qkv_safetensors_close(file);
    qkv_safetensors_close(NULL);
    assert_int_equal(memory.blocks, 0);
    assert_int_equal(qkv_safetensors_parse(&ctx, "m", block, compose("{}", 0, block), &file), QKV_OK);
    assert_int_equal(qkv_safetensors_count(file), 0);
    assert_null(qkv_safetensors_find(file, "x"));
    qkv_safetensors_close(file);
}

static void convert(qkv_dtype dtype, const void *data, int64_t count, real *out) {
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char unaligned[256];
    memcpy(unaligned + 1, data, (size_t)(count * qkv_dtype_bytes(dtype)));
    qkv_tensor t = {.name = "t", .dtype = dtype, .rank = 1, .shape = {count}, .count = count, .data = unaligned + 1};
    t.bytes = count * qkv_dtype_bytes(dtype);
    assert_int_equal(qkv_tensor_reals(&ctx, &t, out), QKV_OK);
}

static void converts_types(void **state) {
    (void)state;
    real out[8];
    const uint16_t f16[] = {0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x83FF, 0x7C00, 0x8000};
    const double f16_is[] = {1, -2, 65504, 0x1p-14, 0x1p-24, -1023 * 0x1p-24, INFINITY, 0};
    convert(QKV_DTYPE_F16, f16, 8, out);
    for (int i = 0; i < 8; i++) assert_true((double)out[i] == f16_is[i]);
    assert_true(signbit(out[7]));
    const uint16_t nan16[] = {0x7E00, 0xFC01};
    convert(QKV_DTYPE_F16, nan16, 2, out);
    assert_true(isnan(out[0]) && isnan(out[1]));
    const uint16_t bf16[] = {0x3F80, 0xC0A0, 0x7F7F, 0x0001, 0xFF80};
    const double bf16_is[] = {1, -5, 255 * 0x1p120, 0x1p-133, -INFINITY};
    convert(QKV_DTYPE_BF16, bf16, 5, out);
    for (int i = 0; i < 5; i++) assert_true((double)out[i] == bf16_is[i]);
    const float f32[] = {0.1f, -1e-40f, 3e38f};
    convert(QKV_DTYPE_F32, f32, 3, out);
    for (int i = 0; i < 3; i++) assert_true(out[i] == (real)f32[i]);
    const double f64[] = {0.1, -1e300, 1.0000000001};
    convert(QKV_DTYPE_F64, f64, 3, out);
    for (int i = 0; i < 3; i++) assert_true(out[i] == (real)f64[i]);
}

/* What is written can be read, is aligned, and is the same file again when it is written again. */
static void writes_and_reads_back(void **state) {
    (void)state;
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    float a[16], b[3] = {1, 2, 3};
    for (int i = 0; i < 16; i++) a[i] = (float)i;
    qkv_tensor tensors[] = {
        {.name = "a", .dtype = QKV_DTYPE_F32, .rank = 2, .shape = {2, 8}, .count = 16, .data = a, .bytes = 64},
        {.name = "b \"quoted\" \xc3\xa9", .dtype = QKV_DTYPE_F32, .rank = 1, .shape = {3}, .count = 3, .data = b, .bytes = 12},
        {.name = "none", .dtype = QKV_DTYPE_U8, .rank = 2, .shape = {0, 4}},
    };
    qkv_metadata metadata[] = {{"format", "pt"}, {"text", "line\n\ttab \xe4\xb8\xad \"q\" \\ \x01"}};
    char path[512];
    test_path("safetensors-written", path);
    qkv_output *output;
    assert_int_equal(qkv_output_open(&ctx, path, &output), QKV_OK);
    assert_int_equal(qkv_safetensors_write(&ctx, output, tensors, 3, metadata, 2), QKV_OK);
    assert_int_equal(qkv_output_commit(output), QKV_OK);
    qkv_safetensors *file;
    assert_int_equal(qkv_safetensors_open(&ctx, path, &file), QKV_OK);
    assert_int_equal(qkv_safetensors_count(file), 3);
    const qkv_tensor *t = qkv_safetensors_find(file, tensors[1].name);
    assert_int_equal(t->rank, 1);
    assert_memory_equal(t->data, b, sizeof b);
    assert_int_equal((uintptr_t)qkv_safetensors_find(file, "a")->data % 64, 0);
    assert_memory_equal(qkv_safetensors_find(file, "a")->data, a, sizeof a);
    assert_string_equal(qkv_safetensors_metadata(file, "text"), metadata[1].value);
    qkv_safetensors_close(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(qkv_safetensors_open(&ctx, path, &file), QKV_IO);
    assert_non_null(strstr(ctx.message, "safetensors-written"));
    assert_int_equal(memory.blocks, 0);
}

static void write_refuses(const qkv_tensor *tensors, int64_t count, const qkv_metadata *metadata, int64_t n, const char *part) {
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char path[512];
    test_path("safetensors-refused", path);
    qkv_output *output;
    assert_int_equal(qkv_output_open(&ctx, path, &output), QKV_OK);
    assert_int_equal(qkv_safetensors_write(&ctx, output, tensors, count, metadata, n), QKV_BAD_ARGUMENT);
    if (!strstr(ctx.message, part)) fail_msg("\"%s\", expected \"%s\"", ctx.message, part);
    qkv_output_discard(output);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(memory.blocks, 0);
}

static void writer_applies_the_readers_rules(void **state) {
    (void)state;
    float a[2] = {0};
    qkv_tensor good = {.name = "a", .dtype = QKV_DTYPE_F32, .rank = 1, .shape = {2}, .count = 2, .data = a, .bytes = 8};
    qkv_tensor twice[2] = {good, good}, wrong = good, reserved = good, broken = good;
    wrong.bytes = 4;
    reserved.name = "__metadata__";
    broken.name = "\xff";
    qkv_metadata same[] = {{"k", "1"}, {"k", "2"}}, invalid[] = {{"k", "\xff"}};
    write_refuses(twice, 2, NULL, 0, "twice");
    write_refuses(&wrong, 1, NULL, 0, "disagree");
    write_refuses(&reserved, 1, NULL, 0, "cannot be written");
    write_refuses(&broken, 1, NULL, 0, "UTF-8");
    write_refuses(&good, 1, same, 2, "twice");
    write_refuses(&good, 1, invalid, 1, "UTF-8");
    char *huge = malloc(QKV_HEADER_LIMIT + 1);
    memset(huge, 'x', QKV_HEADER_LIMIT);
    huge[QKV_HEADER_LIMIT] = 0;
    qkv_metadata large[] = {{"k", huge}};
    write_refuses(&good, 1, large, 1, "no reader takes more than 100000000");
    free(huge);
}

/* The k-th allocation fails, for every k: a status, no leak. */
static void survives_no_memory(void **state) {
    (void)state;
    char block[512];
    int64_t size = compose("{\"__metadata__\":{\"k\":\"v\"},\"a\":" ENTRY("F32", "[2]", 0, 8) "}", 8, block);
    for (int64_t k = 1;; k++) {
        test_memory failing = {.fail_at = k};
        TEST_CTX qkv_ctx ctx = test_ctx(&failing);
        qkv_safetensors *file;
        qkv_status status = qkv_safetensors_parse(&ctx, "m", block, size, &file);
        if (status == QKV_OK) {
            qkv_safetensors_close(file);
            assert_int_equal(failing.blocks, 0);
            assert_true(k > 4);
            return;
        }
        assert_int_equal(status, QKV_NO_MEMORY);
        assert_null(file);
        assert_int_equal(failing.blocks, 0);
    }
}

static void json_is_strict(void **state) {
    (void)state;
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    json_t *json;
    static const char *const bad[] = {
        "", " ", "{\"a\":1,\"a\":2}", "[1] 2", "[[[1]]]", "\"\\u0000\"", "nul", "{\"a\"}", "[1,]", "NaN", "1e999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(qkv_json_parse(&ctx, "text", bad[i], (int64_t)strlen(bad[i]), 2, &json), QKV_BAD_FORMAT);
        assert_null(json);
        assert_ptr_equal(strstr(ctx.message, "text: "), ctx.message);
    }
    const char good[] = " {\"b\":[\"[[[[\",\"\\\"[[[[\"],\"a\":0.1,\"c\":1.0} \n";
    assert_int_equal(qkv_json_parse(&ctx, "text", good, (int64_t)strlen(good), 2, &json), QKV_OK);
    qkv_buf text = {&ctx, NULL, 0, 0};
    assert_int_equal(qkv_json_print(json, &text), QKV_OK);
    json_t *again;
    assert_int_equal(qkv_json_parse(&ctx, "text", text.p, text.size, 2, &again), QKV_OK);
    assert_true(json_equal(json, again));
    assert_string_equal(text.p, "{\"b\":[\"[[[[\",\"\\\"[[[[\"],\"a\":0.1,\"c\":1.0}");
    qkv_buf_free(&text);
    json_decref(json);
    json_decref(again);
    static const char *const same[] = {"[]",
                                       "{}",
                                       "null",
                                       "[true,false]",
                                       "-9223372036854775808",
                                       "5e-324",
                                       "1.7976931348623157e308",
                                       "-0.0",
                                       "\"\\u0001\\n\\t\\\\ \x7f \xe4\xb8\xad\"",
                                       "{\"\":{\"a\":[]}}",
                                       "0.30000000000000004"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        text = (qkv_buf){&ctx, NULL, 0, 0};
        assert_int_equal(qkv_json_parse(&ctx, "text", same[i], (int64_t)strlen(same[i]), 3, &json), QKV_OK);
        assert_int_equal(qkv_json_print(json, &text), QKV_OK);
        assert_int_equal(qkv_json_parse(&ctx, "text", text.p, text.size, 3, &again), QKV_OK);
        assert_true(json_equal(json, again) && json_typeof(json) == json_typeof(again));
        if (!json_is_real(json)) assert_string_equal(text.p, same[i]);
        qkv_buf_free(&text);
        json_decref(json);
        json_decref(again);
    }
    assert_int_equal(memory.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_headers),   cmocka_unit_test(refuses_bad_sizes_and_other_files),
        cmocka_unit_test(refuses_deep_nesting),  cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(reads_what_is_legal),   cmocka_unit_test(converts_types),
        cmocka_unit_test(writes_and_reads_back), cmocka_unit_test(writer_applies_the_readers_rules),
        cmocka_unit_test(survives_no_memory),    cmocka_unit_test(json_is_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
