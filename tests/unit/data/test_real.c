/* Real texts, English and Chinese, where they are at hand: rows, round trip and how long tokens are. */
#include "support.h"

#include <unistd.h>

#include "data/table.h"
#include "text/tokenizer.h"

/* The folder of shared data sets, or NULL. */
static const char *shared(char path[512]) {
    const char *folder = getenv("QKV_SHARED"), *source = getenv("QKV_TEST_SOURCE");
    if (folder)
        snprintf(path, 512, "%s", folder);
    else
        snprintf(path, 512, "%s/../../shared/data", source ? source : "tests");
    return access(path, R_OK) == 0 ? path : NULL;
}

static void check_set(const char *name, int64_t rows, double most_tokens_per_byte) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char folder[512], path[600];
    qkv_table table;
    snprintf(path, sizeof path, "%s/%s", shared(folder), name);
    assert_int_equal(qkv_table_read(&ctx, path, NULL, QKV_WANT_LABEL, false, &table), QKV_OK);
    assert_int_equal(table.count, rows);
    const char **texts = malloc((size_t)rows * sizeof *texts);
    int64_t *lengths = malloc((size_t)rows * sizeof *lengths), bytes = 0, total = 0, longest = 1;
    for (int64_t i = 0; i < rows; i++) {
        texts[i] = table.rows[i].text, lengths[i] = table.rows[i].text_size;
        bytes += lengths[i];
        if (lengths[i] > longest) longest = lengths[i];
    }
    qkv_tokenizer *t;
    qkv_tokenizer_options o = {QKV_TOKENIZER_BPE, 8000, 0, 0};
    assert_int_equal(qkv_tokenizer_train(&ctx, &o, rows, texts, lengths, &t), QKV_OK);
    assert_int_equal(qkv_tokenizer_vocab(t), 8000);
    qkv_token *tokens = malloc((size_t)longest * sizeof *tokens);
    for (int64_t i = 0; i < rows; i++) {
        int64_t count, at = 0;
        assert_int_equal(qkv_tokenizer_encode(&ctx, t, texts[i], lengths[i], tokens, longest, &count), QKV_OK);
        for (int64_t j = 0; j < count; j++) {
            int64_t size;
            const char *piece = qkv_tokenizer_piece(t, tokens[j].id, &size);
            assert_true(tokens[j].begin == at && tokens[j].end == at + size);
            assert_memory_equal(piece, texts[i] + at, (size_t)size);
            at += size;
        }
        assert_int_equal(at, lengths[i]);
        total += count;
    }
    print_message("%s: %lld rows, %.2f bytes a token\n", name, (long long)rows, (double)bytes / (double)total);
    assert_true((double)total < most_tokens_per_byte * (double)bytes);
    free(tokens);
    free(texts);
    free(lengths);
    qkv_tokenizer_free(t);
    qkv_table_free(&table);
    assert_int_equal(memory.blocks, 0);
}

static void english(void **state) {
    (void)state;
    check_set("mr/train.tsv.gz", 7108, 0.28);
}

static void chinese(void **state) {
    (void)state;
    check_set("chnsenticorp/dev.tsv.gz", 1200, 0.28);
}

int main(void) {
    char path[512];
    if (!shared(path)) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(english), cmocka_unit_test(chinese)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
