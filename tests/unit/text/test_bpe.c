#include "samples.h"

#include <time.h>

#include "text/counts.h"
#include "text/pieces.h"
#include "text/vocab.h"

static qkv_tokenizer *train(qkv_ctx *ctx, qkv_tokenizer_kind kind, int64_t vocab, int lowercase, const samples *s) {
    qkv_tokenizer *t;
    qkv_tokenizer_options o = {kind, vocab, lowercase, 0};
    assert_int_equal(qkv_tokenizer_train(ctx, &o, s->count, s->texts, s->lengths, &t), QKV_OK);
    assert_non_null(t);
    return t;
}

static int64_t encode(qkv_ctx *ctx, const qkv_tokenizer *t, const char *text, int64_t length, qkv_token *tokens, int64_t capacity) {
    int64_t count;
    assert_int_equal(qkv_tokenizer_encode(ctx, t, text, length, tokens, capacity, &count), QKV_OK);
    return count;
}

/* In order, inside the text, without a gap. */
static void check_offsets(const qkv_token *tokens, int64_t count, int64_t length) {
    int64_t begin = 0, end = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_true(0 <= tokens[i].begin && tokens[i].begin <= tokens[i].end && tokens[i].end <= length);
        assert_true(tokens[i].begin >= begin && tokens[i].end >= end);
        assert_true(tokens[i].begin <= end);
        begin = tokens[i].begin, end = tokens[i].end;
    }
    assert_int_equal(end, length);
}

/* ---- a plain reference: everything is counted anew for each merge ---- */

typedef struct plain_word {
    int32_t ids[SAMPLE_SIZE];
    int64_t size, weight;
} plain_word;

typedef struct plain_pair {
    int32_t left, right;
    int64_t weight;
    char bytes[2 * QKV_PIECE_BYTES];
    int64_t size;
    int banned;
} plain_pair;

typedef struct plain {
    plain_word *words;
    int64_t word_count;
    plain_pair *pairs;
    int64_t pair_count;
    char pieces[2000][QKV_PIECE_BYTES];
    int64_t sizes[2000], count;
    qkv_merge merges[2000];
    int64_t merge_count;
    int32_t banned[4000][2];
    int64_t banned_count;
} plain;

static int plain_is_banned(const plain *p, int32_t left, int32_t right) {
    for (int64_t i = 0; i < p->banned_count; i++)
        if (p->banned[i][0] == left && p->banned[i][1] == right) return 1;
    return 0;
}

static void plain_count(plain *p) {
    p->pair_count = 0;
    for (int64_t w = 0; w < p->word_count; w++)
        for (int64_t i = 0; i + 1 < p->words[w].size; i++) {
            int32_t left = p->words[w].ids[i], right = p->words[w].ids[i + 1];
            int64_t k = 0;
            while (k < p->pair_count && (p->pairs[k].left != left || p->pairs[k].right != right)) k++;
            if (k == p->pair_count) {
                plain_pair *q = &p->pairs[p->pair_count++];
                *q = (plain_pair){.left = left, .right = right, .banned = plain_is_banned(p, left, right)};
                memcpy(q->bytes, p->pieces[left], (size_t)p->sizes[left]);
                memcpy(q->bytes + p->sizes[left], p->pieces[right], (size_t)p->sizes[right]);
                q->size = p->sizes[left] + p->sizes[right];
            }
            p->pairs[k].weight += p->words[w].weight;
        }
}

static int plain_before(const plain *p, const plain_pair *x, const plain_pair *y) {
    if (x->weight != y->weight) return x->weight > y->weight;
    int order = memcmp(x->bytes, y->bytes, (size_t)(x->size < y->size ? x->size : y->size));
    if (order != 0) return order < 0;
    if (x->size != y->size) return x->size < y->size;
    return p->sizes[x->left] < p->sizes[y->left];
}

/* Whole code points, or a part of one. */
static int plain_sound(const char *bytes, int64_t size) {
    int32_t cp;
    if (qkv_utf8_faults(bytes, size) == 0 || (size == 1)) return 1;
    int64_t nul = 0;
    for (int64_t i = 0; i < size; i++) nul += bytes[i] == 0;
    if (qkv_utf8_faults(bytes, size) == nul) return 1;
    if (-qkv_utf8_next(bytes, size, &cp) == size) return 1;
    for (int64_t i = 0; i < size; i++)
        if ((bytes[i] & 0xC0) != 0x80) return 0;
    return size < 4;
}

static int plain_step(plain *p) {
    plain_pair *best = NULL;
    plain_count(p);
    for (int64_t k = 0; k < p->pair_count; k++)
        if (!p->pairs[k].banned && p->pairs[k].weight >= 2 && (!best || plain_before(p, &p->pairs[k], best))) best = &p->pairs[k];
    if (!best) return 0;
    int there = best->size > QKV_PIECE_BYTES || !plain_sound(best->bytes, best->size);
    for (int64_t i = QKV_FIRST_BYTE; i < p->count; i++)
        there |= p->sizes[i] == best->size && memcmp(p->pieces[i], best->bytes, (size_t)best->size) == 0;
    if (there) {
        p->banned[p->banned_count][0] = best->left;
        p->banned[p->banned_count++][1] = best->right;
        return 1;
    }
    p->merges[p->merge_count++] = (qkv_merge){best->left, best->right};
    memcpy(p->pieces[p->count], best->bytes, (size_t)best->size);
    p->sizes[p->count] = best->size;
    for (int64_t w = 0; w < p->word_count; w++) {
        plain_word *x = &p->words[w];
        int64_t n = 0;
        for (int64_t i = 0; i < x->size; i++) {
            int hit = i + 1 < x->size && x->ids[i] == best->left && x->ids[i + 1] == best->right;
            x->ids[n++] = hit ? (int32_t)p->count : x->ids[i];
            i += hit;
        }
        x->size = n;
    }
    p->count++;
    return 1;
}

static void training_equals_the_plain_reference(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    plain *p = calloc(1, sizeof *p);
    p->pairs = malloc(100000 * sizeof *p->pairs);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        samples s = samples_make(seed, seed % 2 ? 12 : 30);
        int64_t vocab = QKV_FIRST_MERGE + (seed % 3 ? 150 : 900);
        qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BPE, vocab, 0, &s);
        qkv_piece_counts c = {.ctx = &ctx};
        for (int64_t i = 0; i < s.count; i++) assert_int_equal(qkv_piece_counts_add(&c, s.texts[i], s.lengths[i]), QKV_OK);
        p->words = calloc((size_t)c.count, sizeof *p->words);
        p->word_count = c.count;
        p->count = QKV_FIRST_MERGE, p->merge_count = p->banned_count = 0;
        for (int i = 0; i < 256; i++) p->pieces[QKV_FIRST_BYTE + i][0] = (char)i, p->sizes[QKV_FIRST_BYTE + i] = 1;
        for (int64_t w = 0; w < c.count; w++) {
            p->words[w].size = c.words[w].size, p->words[w].weight = c.words[w].count;
            for (int64_t i = 0; i < c.words[w].size; i++)
                p->words[w].ids[i] = QKV_FIRST_BYTE + (unsigned char)c.bytes[c.words[w].offset + i];
        }
        while (p->count < vocab && plain_step(p)) {
        }
        assert_int_equal(t->merge_count, p->merge_count);
        assert_true(t->merge_count > 20);
        assert_memory_equal(t->merges, p->merges, (size_t)p->merge_count * sizeof *p->merges);
        assert_int_equal(qkv_tokenizer_vocab(t), p->count);
        /* Encoding a word gives what training had made of it. */
        for (int64_t w = 0; w < c.count; w++) {
            qkv_token tokens[SAMPLE_SIZE];
            const char *word = c.bytes + c.words[w].offset;
            assert_int_equal(encode(&ctx, t, word, c.words[w].size, tokens, SAMPLE_SIZE), p->words[w].size);
            for (int64_t i = 0; i < p->words[w].size; i++) assert_int_equal(tokens[i].id, p->words[w].ids[i]);
        }
        free(p->words);
        qkv_piece_counts_free(&c);
        qkv_tokenizer_free(t);
        samples_free(&s);
    }
    free(p->pairs);
    free(p);
    assert_int_equal(memory.blocks, 0);
}

static void any_text_comes_back(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    samples train_set = samples_make(1, 200), s = samples_make(2, 2000);
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BPE, 700, 0, &train_set);
    for (int64_t i = 0; i < s.count; i++) {
        qkv_token tokens[SAMPLE_SIZE];
        char back[SAMPLE_SIZE];
        int64_t count = encode(&ctx, t, s.texts[i], s.lengths[i], tokens, SAMPLE_SIZE), at = 0;
        check_offsets(tokens, count, s.lengths[i]);
        for (int64_t j = 0; j < count; j++) {
            int64_t size;
            assert_true(tokens[j].id >= QKV_TOKEN_SPECIALS && tokens[j].id < qkv_tokenizer_vocab(t));
            const char *piece = qkv_tokenizer_piece(t, tokens[j].id, &size);
            assert_int_equal(size, tokens[j].end - tokens[j].begin);
            memcpy(back + at, piece, (size_t)size);
            at += size;
        }
        assert_int_equal(at, s.lengths[i]);
        assert_memory_equal(back, s.texts[i], (size_t)at);
    }
    qkv_tokenizer_free(t);
    samples_free(&train_set);
    samples_free(&s);
    assert_int_equal(memory.blocks, 0);
}

static void offsets_survive_lower_case(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    samples s = samples_make(3, 1500);
    for (int kind = 0; kind < 3; kind++) {
        qkv_tokenizer *t = train(&ctx, (qkv_tokenizer_kind)kind, 600, 1, &s);
        for (int64_t i = 0; i < s.count; i++) {
            qkv_token tokens[2 * SAMPLE_SIZE];
            check_offsets(tokens, encode(&ctx, t, s.texts[i], s.lengths[i], tokens, 2 * SAMPLE_SIZE), s.lengths[i]);
        }
        qkv_tokenizer_free(t);
    }
    samples_free(&s);
    assert_int_equal(memory.blocks, 0);
}

/* One piece by the short way, and the same bytes by the long one, which a longer neighbour forces. */
static void the_short_and_the_long_way_agree(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    samples s = samples_make(4, 300);
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BPE, 900, 0, &s);
    sample_rng r = {5, 0};
    for (int round = 0; round < 3000; round++) {
        char text[QKV_PIECE_BYTES];
        qkv_token tokens[QKV_PIECE_BYTES];
        int32_t ids[QKV_PIECE_BYTES];
        int64_t size = 33 + draw(&r, QKV_PIECE_BYTES - 33 + 1);
        for (int64_t i = 0; i < size; i++) text[i] = (char)('a' + draw(&r, 4));
        int64_t count = encode(&ctx, t, text, size, tokens, QKV_PIECE_BYTES);
        assert_int_equal(count, qkv_bpe_short(t, text, (int)size, ids));
        for (int64_t i = 0; i < count; i++) assert_int_equal(tokens[i].id, ids[i]);
    }
    qkv_tokenizer_free(t);
    samples_free(&s);
}

static void the_order_of_the_texts_does_not_matter(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    samples s = samples_make(6, 400);
    for (int kind = 0; kind < 2; kind++) {
        qkv_tokenizer *a = train(&ctx, (qkv_tokenizer_kind)kind, 1000, 1, &s);
        for (int64_t i = 0, j = s.count - 1; i < j; i++, j--) {
            const char *text = s.texts[i];
            int64_t length = s.lengths[i];
            s.texts[i] = s.texts[j], s.lengths[i] = s.lengths[j];
            s.texts[j] = text, s.lengths[j] = length;
        }
        qkv_tokenizer *b = train(&ctx, (qkv_tokenizer_kind)kind, 1000, 1, &s);
        assert_int_equal(a->count, b->count);
        assert_memory_equal(a->start, b->start, (size_t)(a->count + 1) * sizeof *a->start);
        assert_memory_equal(a->bytes, b->bytes, (size_t)a->start[a->count]);
        qkv_tokenizer_free(a);
        qkv_tokenizer_free(b);
    }
    samples_free(&s);
}

static void sizes_and_limits(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    samples none = {0}, s = samples_make(8, 200);
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BPE, 5000, 0, &none);
    assert_int_equal(qkv_tokenizer_vocab(t), 260);
    qkv_tokenizer_free(t);
    for (int64_t vocab = 260; vocab < 300; vocab += 13) {
        t = train(&ctx, QKV_TOKENIZER_BPE, vocab, 0, &s);
        assert_int_equal(qkv_tokenizer_vocab(t), vocab);
        qkv_tokenizer_free(t);
    }
    qkv_tokenizer_options small = {QKV_TOKENIZER_BPE, 259, 0, 0}, large = {QKV_TOKENIZER_CHAR, INT64_MAX, 0, 0},
                          odd = {(qkv_tokenizer_kind)7, 300, 0, 0};
    assert_int_equal(qkv_tokenizer_train(&ctx, &small, 0, NULL, NULL, &t), QKV_BAD_CONFIG);
    assert_string_equal(ctx.message,
                        "vocab=259 is too small for byte-level BPE: it needs at least 260 (4 special tokens and 256 bytes)");
    assert_null(t);
    assert_int_equal(qkv_tokenizer_train(&ctx, &large, 0, NULL, NULL, &t), QKV_BAD_CONFIG);
    assert_int_equal(qkv_tokenizer_train(&ctx, &odd, 0, NULL, NULL, &t), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_tokenizer_train(&ctx, &small, -1, NULL, NULL, &t), QKV_BAD_CONFIG);
    small.vocab = 300;
    assert_int_equal(qkv_tokenizer_train(&ctx, &small, -1, NULL, NULL, &t), QKV_BAD_ARGUMENT);
    const char *texts[] = {"a", NULL};
    int64_t lengths[] = {1, 3};
    assert_int_equal(qkv_tokenizer_train(&ctx, &small, 2, texts, lengths, &t), QKV_BAD_ARGUMENT);
    samples_free(&s);
    qkv_tokenizer_free(NULL);
    assert_int_equal(memory.blocks, 0);
}

static void pieces_and_specials(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    const char *text = "<unk> <unk> <cls> <cls> <mask> <mask> <unk> <unk>";
    samples s = {.count = 1, .texts = &text, .lengths = &(int64_t){(int64_t)strlen(text)}};
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BPE, 400, 0, &s);
    const char *const names[] = {"<unk>", "<cls>", "<sep>", "<mask>"};
    int64_t size;
    for (int32_t id = 0; id < 4; id++) {
        assert_memory_equal(qkv_tokenizer_piece(t, id, &size), names[id], strlen(names[id]));
        assert_int_equal(size, strlen(names[id]));
    }
    qkv_tokenizer_piece(t, -1, &size);
    assert_int_equal(size, 0);
    qkv_tokenizer_piece(t, (int32_t)qkv_tokenizer_vocab(t), &size);
    assert_int_equal(size, 0);
    qkv_token tokens[64];
    int64_t count = encode(&ctx, t, text, *s.lengths, tokens, 64);
    for (int64_t i = 0; i < count; i++) assert_true(tokens[i].id >= QKV_TOKEN_SPECIALS);
    /* A small buffer gets the beginning, and the count is that of the whole text. */
    qkv_token few[3] = {{0, 0, 0}, {0, 0, 0}, {-7, -7, -7}};
    assert_int_equal(encode(&ctx, t, text, *s.lengths, few, 2), count);
    for (int i = 0; i < 2; i++)
        assert_true(few[i].id == tokens[i].id && few[i].begin == tokens[i].begin && few[i].end == tokens[i].end);
    assert_int_equal(few[2].id, -7);
    assert_int_equal(encode(&ctx, t, text, *s.lengths, NULL, 0), count);
    assert_int_equal(encode(&ctx, t, NULL, 0, NULL, 0), 0);
    assert_int_equal(qkv_tokenizer_encode(&ctx, t, NULL, 3, NULL, 0, &count), QKV_BAD_ARGUMENT);
    qkv_tokenizer_free(t);
}

#if defined(__OPTIMIZE__) && defined(__x86_64__) /* elsewhere it may be an emulator */
#define TIMES_MEAN_SOMETHING (!SANITIZED)
#else
#define TIMES_MEAN_SOMETHING 0
#endif

static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

/* One letter, Han text without a space, spaces, and a pattern with overlapping pairs: all in well under a second. */
static void a_megabyte_without_a_space(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE + 4);
    qkv_token *tokens = malloc(SIZE * sizeof *tokens);
    sample_rng r = {9, 0};
    for (int kind = 0; kind < 4; kind++) {
        int64_t size = 0;
        while (size < SIZE - 3) {
            if (kind == 0) text[size++] = 'a';
            if (kind == 1) size += qkv_utf8_put((int32_t)(0x4E00 + draw(&r, 1 + draw(&r, 2000))), text + size);
            if (kind == 2) text[size++] = ' ';
            if (kind == 3) text[size++] = (char)('a' + draw(&r, 2));
        }
        samples s = {.count = 1, .texts = (const char *[]){text}, .lengths = &size};
        double start = cpu_seconds();
        qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BPE, 2000, 0, &s);
        double trained = cpu_seconds();
        check_offsets(tokens, encode(&ctx, t, text, size, tokens, SIZE), size);
        double encoded = cpu_seconds();
        encode(&ctx, t, text, size / 8, tokens, SIZE);
        double eighth = cpu_seconds() - encoded;
        print_message("kind %d: %lld pieces, training %.2f s, encoding %.2f s\n", kind, (long long)qkv_tokenizer_vocab(t),
                      trained - start, encoded - trained);
        assert_true(encoded - trained < 32 * eighth + 0.05); /* n log n, not n * n: that would be 64 times */
        if (TIMES_MEAN_SOMETHING) assert_true(encoded - trained < 1.0);
        qkv_tokenizer_free(t);
    }
    free(text);
    free(tokens);
    assert_int_equal(memory.blocks, 0);
}

static void no_piece_cuts_a_code_point(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    samples s = samples_make(11, 400);
    qkv_tokenizer *t = train(&ctx, QKV_TOKENIZER_BPE, 2000, 0, &s);
    for (int32_t id = QKV_FIRST_MERGE; id < t->count; id++) {
        int64_t size;
        const char *piece = qkv_tokenizer_piece(t, id, &size);
        assert_true(plain_sound(piece, size));
        assert_true(size <= QKV_PIECE_BYTES);
    }
    qkv_tokenizer_free(t);
    samples_free(&s);
}

static void every_failing_allocation_is_survived(void **state) {
    (void)state;
    samples s = samples_make(12, 40);
    char *run = malloc(3000);
    memset(run, 'a', 3000);
    s.texts[0] = run, s.lengths[0] = 3000;
    for (int kind = 0; kind < 3; kind++) {
        int done = 0;
        for (int64_t k = 1; !done; k++) {
            test_memory memory = {.fail_at = k};
            TEST_CTX qkv_ctx ctx = test_ctx(&memory);
            qkv_tokenizer *t;
            qkv_token tokens[3000];
            int64_t count;
            qkv_tokenizer_options o = {(qkv_tokenizer_kind)kind, 400, 1, 0};
            qkv_status status = qkv_tokenizer_train(&ctx, &o, s.count, s.texts, s.lengths, &t);
            if (status == QKV_OK) status = qkv_tokenizer_encode(&ctx, t, run, 3000, tokens, 3000, &count);
            done = memory.calls < k;
            assert_int_equal(status, done ? QKV_OK : QKV_NO_MEMORY);
            qkv_tokenizer_free(t);
            assert_int_equal(memory.blocks, 0);
        }
    }
    free(run);
    samples_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_equals_the_plain_reference),
        cmocka_unit_test(any_text_comes_back),
        cmocka_unit_test(offsets_survive_lower_case),
        cmocka_unit_test(the_short_and_the_long_way_agree),
        cmocka_unit_test(the_order_of_the_texts_does_not_matter),
        cmocka_unit_test(sizes_and_limits),
        cmocka_unit_test(pieces_and_specials),
        cmocka_unit_test(a_megabyte_without_a_space),
        cmocka_unit_test(no_piece_cuts_a_code_point),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
