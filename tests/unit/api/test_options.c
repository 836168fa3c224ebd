/* Sizes in option tables: read, printed, refused. */
#include "support.h"

#include <stddef.h>

#include "qkv.h"

typedef struct fields {
    int64_t room;
} fields;

static const qkv_option OPTIONS[] = {
    {"room", QKV_OPTION_SIZE, offsetof(fields, room), "64M", 0, 0x1p50, NULL, "Any", "bytes that may be taken", NULL}};
static const qkv_option_table TABLE = {"any", OPTIONS, 1, sizeof(fields)};

static void sizes_are_read_and_printed(void **state) {
    (void)state;
    static const struct {
        const char *text, *printed;
        int64_t bytes;
    } good[] = {
        {"0", "0", 0},
        {"1", "1", 1},
        {"4096", "4k", 4096},
        {"1k", "1k", 1024},
        {"1K", "1k", 1024},
        {"800M", "800M", INT64_C(800) << 20},
        {"2g", "2G", INT64_C(2) << 30},
        {"1.5G", "1536M", INT64_C(1536) << 20},
        {"0.5k", "512", 512},
        {"0k", "0", 0},
        {"3t", "3T", INT64_C(3) << 40},
        {"1025", "1025", 1025},
    };
    fields f;
    qkv_ctx *ctx;
    assert_int_equal(qkv_ctx_create(NULL, &ctx, NULL, 0), QKV_OK);
    qkv_options_default(&TABLE, &f);
    assert_int_equal(f.room, INT64_C(64) << 20);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[32];
        assert_int_equal(qkv_options_set(ctx, &TABLE, &f, "room", good[i].text), QKV_OK);
        assert_int_equal(f.room, good[i].bytes);
        assert_int_equal(qkv_options_text(OPTIONS, &f, text, sizeof text), strlen(good[i].printed));
        assert_string_equal(text, good[i].printed);
        assert_int_equal(qkv_options_set(ctx, &TABLE, &f, "room", text), QKV_OK);
        assert_int_equal(f.room, good[i].bytes);
    }
    qkv_ctx_free(ctx);
}

static void other_sizes_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "k", "M", "-1", "-1k", "1.5", "2GB", "2 G",
                                      "G2", "1e", "nan", "nank", "infM", "1025T", "1e30k", "99999999999999999999", "0x10"};
    fields f = {7};
    qkv_ctx *ctx;
    assert_int_equal(qkv_ctx_create(NULL, &ctx, NULL, 0), QKV_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (qkv_options_set(ctx, &TABLE, &f, "room", bad[i]) != QKV_BAD_ARGUMENT) print_error("'%s' was read\n", bad[i]);
        assert_int_equal(f.room, 7);
        assert_non_null(strstr(qkv_message(ctx), "expected a size from 0 to 1024T: bytes, or a number and k, M, G or T"));
    }
    qkv_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_read_and_printed), cmocka_unit_test(other_sizes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
