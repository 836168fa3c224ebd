/* The readers of data files, format by format: what comes out of which bytes. */
#include "support.h"

#include <zlib.h>

#include "base/buf.h"
#include "data/options.h"
#include "data/rows.h"

typedef struct logged {
    char text[1024];
} logged;

static void on_log(void *user, const char *line) {
    logged *l = user;
    size_t n = strlen(l->text);
    snprintf(l->text + n, sizeof l->text - n, "%s\n", line);
}

static qkv_data_options with_format(int format) {
    qkv_data_options o;
    memset(&o, 0, sizeof o);
    o.format = format;
    return o;
}

/* Rows as lines "labels/with/slashes|text@line", or the message without the folder. */
static void render(qkv_ctx *ctx, const char *path, const qkv_data_options *o, qkv_rows_want want, bool pair, qkv_buf *out) {
    qkv_rows *rows;
    qkv_record r;
    qkv_status status = qkv_rows_start(ctx, path, o, want, pair, &rows);
    while (status == QKV_OK && (status = qkv_rows_read(rows, &r)) == QKV_OK && r.text) {
        const char *label = r.labels;
        assert_int_equal(r.text[r.text_size], 0);
        for (int64_t i = 0; i < r.label_count; i++, label += strlen(label) + 1)
            assert_int_equal(qkv_buf_addf(out, "%s%s", i ? "/" : "", label), QKV_OK);
        assert_int_equal(label - r.labels, r.labels_size + (r.label_count > 0));
        assert_int_equal(qkv_buf_add(out, "|", 1), QKV_OK);
        assert_int_equal(qkv_buf_add(out, r.text, r.text_size), QKV_OK);
        assert_int_equal(qkv_buf_addf(out, "@%lld%s\n", (long long)r.line, r.repaired ? "!" : ""), QKV_OK);
    }
    if (status != QKV_OK) {
        const char *said = strstr(ctx->message, "rows.txt");
        assert_int_equal(qkv_buf_addf(out, "%s\n", said ? said : ctx->message), QKV_OK);
    }
    assert_int_equal(qkv_buf_add(out, "", 0), QKV_OK);
    qkv_rows_close(rows);
}

static void expect_sized(const char *bytes, size_t size, const qkv_data_options *o, qkv_rows_want want, bool pair,
                         const char *expected) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    qkv_buf out = {.ctx = &ctx};
    char path[512];
    test_write_file(test_path("rows.txt", path), bytes, size);
    render(&ctx, path, o, want, pair, &out);
    assert_string_equal(out.p, expected);
    qkv_buf_free(&out);
    assert_int_equal(memory.blocks, 0);
    remove(path);
}

static void expect(const char *bytes, const qkv_data_options *o, qkv_rows_want want, bool pair, const char *expected) {
    expect_sized(bytes, strlen(bytes), o, want, pair, expected);
}

#define LABEL(bytes, expected) expect(bytes, NULL, QKV_WANT_LABEL, false, expected)
#define LABELS(bytes, expected) expect(bytes, NULL, QKV_WANT_LABELS, false, expected)
#define TEXT(bytes, expected) expect(bytes, NULL, QKV_WANT_TEXT, false, expected)

/* ---- TSV ---- */

static void tsv_with_several_labels(void **state) {
    (void)state;
    LABELS("a\tx\nb,a\ty\n", "a|x@1\nb/a|y@2\n");
    LABELS("a , b\tx\n a\ty\n", "a/b|x@1\na|y@2\n"); /* spaces around a label are not part of it */
    LABELS("a,b,a\tx\n", "a/b|x@1\n");
    LABELS("\tx\na\ty\n", "|x@1\na|y@2\n");
    LABELS("a\\,b,c\\\\,d\\e\tx\n", "a,b/c\\/d\\e|x@1\n"); /* \, and \\ are escapes, \e is not */
    LABELS("a,,b\tx\n", "rows.txt:1: a label is empty\n");
    LABELS("b\ty\na,\tx\n", "b|y@1\nrows.txt:2: a label is empty\n");
    qkv_data_options o = with_format(QKV_FORMAT_AUTO);
    strcpy(o.label_separator, "||");
    expect("a,b||c\\||d\tx\n", &o, QKV_WANT_LABELS, false, "a,b/c||d|x@1\n");
    LABEL("a,b\tx\n", "a,b|x@1\n"); /* one label: everything before the tab */
}

static void tsv_with_pairs(void **state) {
    (void)state;
    expect("a\tone\ttwo\n", NULL, QKV_WANT_LABEL, true, "a|one\ttwo@1\n");
    expect("a\tone\ttwo\tthree\n", NULL, QKV_WANT_LABEL, true, "rows.txt:1: more than 3 columns, expected 3 (label<TAB>text<TAB>text)\n");
    expect("a\t\t\n", NULL, QKV_WANT_LABEL, true, "a|\t@1\n");
    expect("a\tx\ty\na\tone\n", NULL, QKV_WANT_LABEL, true,
           "a|x\ty@1\nrows.txt:2: 2 columns, expected 3 (label<TAB>text<TAB>text)\n");
    expect("a\n", NULL, QKV_WANT_LABEL, true, "rows.txt:1: 1 column, expected 3 (label<TAB>text<TAB>text)\n");
}

/* ---- fastText ---- */

static void fasttext_labels_are_words_with_the_prefix(void **state) {
    (void)state;
    LABEL("__label__a some text\n__label__b  more\ttext \r\n", "a|some text@1\nb|more\ttext@2\n");
    LABEL("__label__a\n", "a|@1\n");
    LABEL("__label__a\tx\n", "a|x@1\n"); /* a tab is white space there */
    LABELS("__label__a __label__b x  y __label__c z\n", "a/b/c|x  y z@1\n");
    LABELS("__label__a x\nno label here\n", "a|x@1\n|no label here@2\n");
    LABEL("__label__a x\nno label here\n", "a|x@1\nrows.txt:2: no label: no word begins with __label__\n");
    LABEL("__label__a __label__b x\n", "rows.txt:1: 2 labels, expected 1 (a model trained with --multi-label takes several)\n");
    LABEL("__label__a __label__a x\n", "a|x@1\n");
    LABEL("__label__ x\n", "rows.txt:1: a label is empty\n");
    LABEL("__label__a x\n\n__label__b y\n", "a|x@1\nrows.txt:2: empty line, expected __label__<label> text\n");
    LABEL("__label__a x\n\n\n", "a|x@1\n");
    qkv_data_options o = with_format(QKV_FORMAT_AUTO);
    strcpy(o.label_prefix, "#");
    expect("#a x\n#b #c y\n", &o, QKV_WANT_LABELS, false, "a|x@1\nb/c|y@2\n");
    expect("__label__a x\ty\n", NULL, QKV_WANT_LABEL, true, "rows.txt: fastText files have one text a row, and pairs need two\n");
}

/* ---- JSON lines ---- */

static void jsonl_fields(void **state) {
    (void)state;
    LABEL("{\"label\": \"a b\", \"text\": \"x\\ty\\n\\u597d\"}\n{\"text\":\"\",\"label\":3}\n", "a b|x\ty\n\u597d@1\n3|@2\n");
    LABEL("{\"label\":true,\"text\":\"x\"}\n\n{\"label\":-0.5,\"text\":\"y\",\"more\":[{}]}\n{\"label\":[\"a\"],\"text\":\"z\"}",
          "true|x@1\n-0.5|y@3\na|z@4\n");
    LABELS("{\"label\":[100,100.0,1e2,1500000.0,-0.0,0.25],\"text\":\"x\"}\n", "100/1500000/0/0.25|x@1\n"); /* one number, one label */
    LABELS("{\"label\":[\"a\",2,false,\"a\"],\"text\":\"x\"}\n{\"label\":[],\"text\":\"y\"}\n{\"label\":\"a,b\",\"text\":\"z\"}\n",
           "a/2/false|x@1\n|y@2\na,b|z@3\n");
    LABEL("{\"label\":[\"a\",\"b\"],\"text\":\"x\"}\n",
          "rows.txt:1: 2 labels, expected 1 (a model trained with --multi-label takes several)\n");
    LABEL("{\"label\":[],\"text\":\"x\"}\n", "rows.txt:1: no label\n");
    LABEL("{\"label\":\"\",\"text\":\"x\"}\n", "rows.txt:1: a label is empty\n");
    LABEL("{\"label\":\"a\\nb\",\"text\":\"x\"}\n", "rows.txt:1: the label holds a line break\n");
    LABEL("{\"label\":\"a\\u0000\",\"text\":\"x\"}\n", "rows.txt:1: the label holds a NUL byte\n");
    LABEL("{\"label\":\"a\\tb\",\"text\":\"x\"}\n", "rows.txt:1: the label holds a tab\n");
    LABEL("{\"label\":null,\"text\":\"x\"}\n",
          "rows.txt:1: the label (field 'label') is null, expected a string, a number, true or false\n");
    LABELS("{\"label\":[[\"a\"]],\"text\":\"x\"}\n",
           "rows.txt:1: the label (field 'label') is an array, expected a string, a number, "
           "true or false, or an array of them\n");
    LABEL("{\"label\":\"a\",\"text\":7}\n", "rows.txt:1: the text (field 'text') is a number, expected a string\n");
    LABEL("{\"label\":\"a\",\"body\":\"x\"}\n",
          "rows.txt:1: no field 'text' (there is: label, body); --text-field names another\n");
    LABEL("{}\n", "rows.txt:1: no field 'label' (there is: nothing); --label-field names another\n");
    qkv_data_options o = with_format(QKV_FORMAT_AUTO);
    strcpy(o.label_field, "stars");
    strcpy(o.text_field, "body");
    expect("{\"stars\":5,\"body\":\"x\",\"text\":1}\n", &o, QKV_WANT_LABEL, false, "5|x@1\n");
    expect("{\"label\":1,\"text\":\"a\\tb\",\"text2\":\"c\\td\"}\n", NULL, QKV_WANT_LABEL, true, "1|a b\tc\td@1\n");
    expect("{\"label\":1,\"text\":\"a\"}\n", NULL, QKV_WANT_LABEL, true,
           "rows.txt:1: no field 'text2' (there is: label, text); --text-field-2 names another\n");
}

static void jsonl_is_strict(void **state) {
    (void)state;
    qkv_data_options o = with_format(QKV_FORMAT_JSONL);
    expect("{\"label\":1,\"text\":\"x\"}\n{\"label\":1,\"text\":\"x\"\n", &o, QKV_WANT_LABEL, false,
           "1|x@1\nrows.txt:2: not valid JSON: '}' expected near end of file (column 21)\n");
    expect("{\"label\":1,\"label\":2,\"text\":\"x\"}\n", &o, QKV_WANT_LABEL, false,
           "rows.txt:1: not valid JSON: duplicate object key near '\"label\"' (column 18)\n");
    expect("[1]\n", &o, QKV_WANT_LABEL, false, "rows.txt:1: the line is an array, expected an object\n");
    expect("{\"label\":1,\"text\":\"x\"} {}\n", &o, QKV_WANT_LABEL, false,
           "rows.txt:1: not valid JSON: end of file expected near '{' (column 24)\n");
    static const char range[] = " is out of range: whole numbers have 64 bits, others reach 1.8e308 (column ";
    static const struct {
        const char *number, *told, *place;
    } far[] = {{"123456789012345678901234567890", "123456789012345678901234567890", "39)"},
               {"-9223372036854775809", "-9223372036854775809", "29)"},
               {"-1e999", "-1e999", "15)"},
               {"1234567890123456789012345678901234567890123", "1234567890123456789012345678901234567890...", "52)"}};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        char row[200], message[300];
        snprintf(row, sizeof row, "{\"label\":%s,\"text\":\"x\"}\n", far[i].number);
        snprintf(message, sizeof message, "rows.txt:1: the number %s%s%s\n", far[i].told, range, far[i].place);
        expect(row, &o, QKV_WANT_LABEL, false, message);
    }
    expect("{\"label\":9223372036854775807,\"text\":\"x\"}\n", &o, QKV_WANT_LABEL, false, "9223372036854775807|x@1\n");
    expect("a\tb\n", &o, QKV_WANT_LABEL, false, "rows.txt:1: not valid JSON: invalid token near 'a' (column 1)\n");
    char deep[400];
    memset(deep, '[', 200);
    strcpy(deep + 200, "\n");
    expect(deep, &o, QKV_WANT_LABEL, false, "rows.txt:1: JSON nested more than 64 levels deep\n");
    /* What cannot be in JSON is replaced and told; NUL can. */
    expect("{\"label\":\"a\",\"text\":\"x\xFF y\xE4\xBD\"}\n", &o, QKV_WANT_LABEL, false, "a|x\uFFFD y\uFFFD@1!\n");
    expect("{\"label\":\"a\",\"text\":\"x\\u0000y\"}\n", &o, QKV_WANT_LABEL, false, "a|x");
}

/* ---- CSV ---- */

static void csv_cells(void **state) {
    (void)state;
    LABEL("label,text\na,x\nb,\"y, \"\"z\"\"\"\n", "a|x@2\nb|y, \"z\"@3\n");
    LABEL("id;text;label\r\n1;x,y;a\r\n\r\n2;\"line\r\nbreak;\n\";b\r\n", "a|x,y@2\nb|line\nbreak;\n@4\n");
    LABEL("\xEF\xBB\xBFtext,label\nx,a\n,b", "a|x@2\nb|@3\n");
    LABEL("label,text\na,5\" screen\n", "a|5\" screen@2\n"); /* a quote that opens no cell is a quote */
    LABEL("\"label\",\"text\"\n\"a\",\"\"\n", "a|@2\n");
    LABEL("label,text\na,x,y\n", "rows.txt:2: 3 columns, expected 2 as in the header\n");
    LABEL("label,text\na,x\n\nb\n", "a|x@2\nrows.txt:4: 1 column, expected 2 as in the header\n");
    LABEL("label,text\n,x\n", "rows.txt:2: the label is empty\n");
    LABEL("label,text\n\"a\" ,x\n", "rows.txt:2: text behind a closing quote (column 1); a quote inside quotes is doubled\n");
    LABEL("label,text\na,\"x\nb,y\n", "rows.txt:2: the quote that opens a cell in this line is never closed\n");
    LABEL("label,text\n\"a\nb\",x\n", "rows.txt:2: the label holds a line break\n");
    LABELS("label,text\n\"a,b\",x\n,y\n", "a/b|x@2\n|y@3\n");
    expect("label,text,text2\na,x\ty,z\n", NULL, QKV_WANT_LABEL, true, "a|x y\tz@2\n");
}

static void csv_columns(void **state) {
    (void)state;
    qkv_data_options o = with_format(QKV_FORMAT_CSV);
    expect("stars,review\n5,x\n", &o, QKV_WANT_LABEL, false,
           "rows.txt:1: no column 'label' in the header (it has: stars, review); --label-column names another\n");
    strcpy(o.label_column, "stars");
    expect("stars,review\n5,x\n", &o, QKV_WANT_LABEL, false,
           "rows.txt:1: no column 'text' in the header (it has: stars, review); --text-column names another\n");
    strcpy(o.text_column, "2");
    expect("stars,review\n5,x\n", &o, QKV_WANT_LABEL, false, "5|x@2\n");
    strcpy(o.text_column, "3");
    expect("stars,review\n5,x\n", &o, QKV_WANT_LABEL, false,
           "rows.txt:1: no column '3' in the header (it has: stars, review); --text-column names another\n");
    strcpy(o.text_column, "review");
    expect("stars\treview\n5\tx,y\n", &o, QKV_WANT_LABEL, false, "5|x,y@2\n"); /* a tab is tried, too */
    expect("stars,review,review\n5,x,y\n", &o, QKV_WANT_LABEL, false, "rows.txt:1: two columns are called 'review'\n");
    strcpy(o.label_column, "review");
    expect("stars,review\n5,x\n", &o, QKV_WANT_LABEL, false, "rows.txt:1: label and text are the same column 'review'\n");
    strcpy(o.label_column, "stars");
    o.separator = QKV_SEPARATOR_SEMICOLON;
    expect("stars,review\n5,x\n", &o, QKV_WANT_LABEL, false,
           "rows.txt:1: no column 'stars' in the header (it has: stars,review); --label-column names another\n");
    o = with_format(QKV_FORMAT_CSV);
    expect("text\nx\n\ny\n", &o, QKV_WANT_TEXT, false, "|x@2\n|@3\n|y@4\n"); /* one column: an empty line is an empty text */
    expect("id,text\n1,x\n", &o, QKV_WANT_TEXT, false, "|x@2\n");            /* no label is asked for */
}

/* ---- the guess ---- */

static void expect_guess(const char *bytes, qkv_rows_want want, qkv_format format, const char *what) {
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char path[512];
    qkv_rows *rows;
    qkv_record r;
    test_write_file(test_path("rows.txt", path), bytes, strlen(bytes));
    assert_int_equal(qkv_rows_start(&ctx, path, NULL, want, false, &rows), QKV_OK);
    assert_int_equal(qkv_rows_format(rows), QKV_FORMAT_AUTO);
    assert_string_equal(qkv_rows_describe(rows), "");
    (void)!qkv_rows_read(rows, &r);
    assert_int_equal(qkv_rows_format(rows), format);
    assert_string_equal(qkv_rows_describe(rows), what);
    qkv_rows_close(rows);
    assert_int_equal(memory.blocks, 0);
    remove(path);
}

static void the_first_lines_tell_the_format(void **state) {
    (void)state;
    expect_guess("a\tb\n", QKV_WANT_LABEL, QKV_FORMAT_TSV, "TSV, guessed from line 1");
    expect_guess("__label__a\tb\n", QKV_WANT_LABEL, QKV_FORMAT_FASTTEXT, "fastText, guessed from line 1");
    expect_guess("no label\nnone\n__label__a\tb\n", QKV_WANT_LABELS, QKV_FORMAT_FASTTEXT, "fastText, guessed from line 3");
    expect_guess(" {\"label\":\"a\",\"text\":\"a\\tb\"}", QKV_WANT_LABEL, QKV_FORMAT_JSONL, "JSON lines, guessed from line 1");
    expect_guess("{\"text", QKV_WANT_LABEL, QKV_FORMAT_JSONL, "JSON lines, guessed from line 1");
    expect_guess("x,label,text\n", QKV_WANT_LABEL, QKV_FORMAT_CSV, "CSV, separator comma, guessed from line 1");
    expect_guess("x,y;label;text\n", QKV_WANT_LABEL, QKV_FORMAT_CSV, "CSV, separator semicolon, guessed from line 1");
    expect_guess("label\ttext\n", QKV_WANT_LABEL, QKV_FORMAT_TSV, "TSV, guessed from line 1");
    expect_guess("{good}\tb\n", QKV_WANT_LABEL, QKV_FORMAT_TSV, "TSV, guessed from line 1");
    expect_guess("nothing\nat all\n", QKV_WANT_LABEL, QKV_FORMAT_TSV, "TSV, guessed from line 1");
    expect_guess("", QKV_WANT_LABEL, QKV_FORMAT_TSV, "TSV, guessed from line 1");
    /* For texts alone a line that is nothing else is a text, tabs or not. */
    expect_guess("a\tb\n", QKV_WANT_TEXT, QKV_FORMAT_TEXT, "plain text");
    expect_guess("{not json}\n", QKV_WANT_TEXT, QKV_FORMAT_TEXT, "plain text");
    expect_guess("{\"text\":\"x\"}\n", QKV_WANT_TEXT, QKV_FORMAT_TEXT, "plain text");
    expect_guess("__label__a b\n", QKV_WANT_TEXT, QKV_FORMAT_TEXT, "plain text");
    expect_guess("label,text\n", QKV_WANT_TEXT, QKV_FORMAT_TEXT, "plain text");
    expect_guess("some text, or label\n", QKV_WANT_TEXT, QKV_FORMAT_TEXT, "plain text");
}

static void a_header_of_tabs_is_pointed_out(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    logged log = {""};
    ctx.log = on_log, ctx.log_user = &log;
    char path[512];
    qkv_rows *rows;
    qkv_record r;
    test_write_file(test_path("rows.txt", path), "label\ttext\na\tx\n", 15);
    assert_int_equal(qkv_rows_start(&ctx, path, NULL, QKV_WANT_LABEL, false, &rows), QKV_OK);
    assert_int_equal(qkv_rows_read(rows, &r), QKV_OK);
    assert_non_null(strstr(log.text, "rows.txt:1: read as a row, though it looks like a header; --format csv --separator tab"));
    qkv_rows_close(rows);
    remove(path);
}

/* ---- texts alone ---- */

static void every_line_is_a_text(void **state) {
    (void)state;
    TEXT("a\tb\n\n c \r\nlast", "|a\tb@1\n|@2\n| c @3\n|last@4\n");
    TEXT("", "");
    TEXT("__label__a x y\n\nz __label__b\n", "|__label__a x y@1\n|@2\n|z __label__b@3\n"); /* whatever it looks like */
    TEXT("{\"text\":\"x\"}\n", "|{\"text\":\"x\"}@1\n");
    TEXT("text,label\nx,y\n", "|text,label@1\n|x,y@2\n");
    qkv_data_options o = with_format(QKV_FORMAT_FASTTEXT);
    expect("__label__a x y\n\nz __label__b\n", &o, QKV_WANT_TEXT, false, "|x y@1\n|@2\n|z@3\n");
    o = with_format(QKV_FORMAT_TSV);
    expect("a\tb\tc\n\tx\n", &o, QKV_WANT_TEXT, false, "|b\tc@1\n|x@2\n");
    o = with_format(QKV_FORMAT_JSONL);
    expect("{\"text\":\"x\"}\n{\"text\":\"y\",\"label\":[[]]}\n", &o, QKV_WANT_TEXT, false, "|x@1\n|y@2\n"); /* labels are not looked at */
    expect("{\"text\":\"x\"}\n{\"txt\":\"x\"}\n", &o, QKV_WANT_TEXT, false,
           "|x@1\nrows.txt:2: no field 'text' (there is: txt); --text-field names another\n");
}

static void the_public_reader(void **state) {
    (void)state;
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    char path[512];
    const char *text;
    int64_t length;
    qkv_rows *rows;
    gzFile gz = gzopen(test_path("rows.csv.gz", path), "wb"); /* the name says what it is */
    gzputs(gz, "text,label\n\"x\ny\",a\nz,b\n");
    gzclose(gz);
    assert_int_equal(qkv_rows_open(&ctx, path, NULL, 0, &rows), QKV_OK);
    assert_int_equal(qkv_rows_line(rows), 0);
    assert_int_equal(qkv_rows_next(rows, &text, &length), QKV_OK);
    assert_string_equal(text, "x\ny");
    assert_int_equal(length, 3);
    assert_int_equal(qkv_rows_line(rows), 2);
    assert_int_equal(qkv_rows_ready(rows), 1);
    assert_int_equal(qkv_rows_next(rows, &text, &length), QKV_OK);
    assert_string_equal(text, "z");
    assert_int_equal(qkv_rows_line(rows), 4);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(qkv_rows_next(rows, &text, &length), QKV_OK);
        assert_null(text);
    }
    assert_int_equal(qkv_rows_next(rows, NULL, &length), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_rows_repaired(rows), 0);
    qkv_rows_close(rows);
    qkv_rows_close(NULL);
    remove(path);
    test_write_file(test_path("rows.txt", path), "a\0b\nc\xFF\nd\n", 9);
    assert_int_equal(qkv_rows_open(&ctx, path, NULL, 0, &rows), QKV_OK);
    do {
        assert_int_equal(qkv_rows_next(rows, &text, &length), QKV_OK);
    } while (text);
    assert_int_equal(qkv_rows_repaired(rows), 2);
    qkv_rows_close(rows);
    assert_int_equal(qkv_rows_open(&ctx, NULL, NULL, 0, &rows), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_rows_open(&ctx, path, NULL, 0, NULL), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_rows_open(NULL, path, NULL, 0, &rows), QKV_BAD_ARGUMENT);
    assert_int_equal(qkv_rows_open(&ctx, "/nowhere/x", NULL, 0, &rows), QKV_IO);
    assert_int_equal(memory.blocks, 0);
    remove(path);
}

static void other_files_are_named(void **state) {
    (void)state;
    qkv_data_options o = with_format(QKV_FORMAT_CSV);
    expect_sized(
        "\xFF\xFEl\0a\0b\0", 8, &o, QKV_WANT_LABEL, false,
        "rows.txt: this is UTF-16 text (little-endian): convert it with iconv -f UTF-16LE -t UTF-8; expected UTF-8 text\n");
    o.format = QKV_FORMAT_JSONL;
    expect_sized("\x7F"
                 "ELF\2\1\1\0\0\0\0\0",
                 12, &o, QKV_WANT_TEXT, false, "rows.txt: this is an ELF program; expected UTF-8 text\n");
    test_memory memory = {0};
    TEST_CTX qkv_ctx ctx = test_ctx(&memory);
    logged log = {""};
    ctx.log = on_log, ctx.log_user = &log;
    char path[512];
    const char *text;
    int64_t length;
    qkv_rows *rows;
    test_write_file(test_path("rows.txt", path), "\xFF\xFEl\0a\0b\0\n", 9);
    assert_int_equal(qkv_rows_open(&ctx, path, NULL, 0, &rows), QKV_OK);
    assert_int_equal(qkv_rows_next(rows, &text, &length), QKV_OK); /* prediction answers every line */
    assert_int_equal(length, 8);
    assert_non_null(strstr(log.text, "this looks like UTF-16 text"));
    qkv_rows_close(rows);
    assert_int_equal(memory.blocks, 0);
}

static void options_are_checked(void **state) {
    (void)state;
    qkv_data_options o = with_format(QKV_FORMAT_TEXT);
    expect("x\n", &o, QKV_WANT_LABEL, false, "format=text has no labels: it is for prediction only\n");
    o = with_format(9);
    expect("x\n", &o, QKV_WANT_TEXT, false, "format=9 is no format\n");
    o = with_format(QKV_FORMAT_AUTO);
    strcpy(o.label_separator, "\t");
    expect("x\n", &o, QKV_WANT_TEXT, false, "label-separator: a tab, a line break or a backslash cannot separate labels\n");
    o = with_format(QKV_FORMAT_AUTO);
    strcpy(o.label_prefix, "a b");
    expect("x\n", &o, QKV_WANT_TEXT, false, "label-prefix=a b: white space ends a label, so none can be in its prefix\n");
    memset(o.label_prefix, 'x', sizeof o.label_prefix);
    expect("x\n", &o, QKV_WANT_TEXT, false, "label-prefix is not ended by a NUL\n");
}

/* Lines of a megabyte, in every format, and no allocation that fails is lost. */
static void long_lines(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    char *bytes = malloc(SIZE + 100), *expected = malloc(SIZE + 100), *letters = malloc(SIZE + 1);
    memset(letters, 'x', SIZE);
    letters[SIZE] = 0;
    const char *formats[] = {"a\t%s\n", "__label__a %s\n", "{\"label\":\"a\",\"text\":\"%s\"}\n", "label,text\na,\"%s\"\n"};
    for (int i = 0; i < 4; i++) {
        snprintf(bytes, SIZE + 100, formats[i], letters);
        snprintf(expected, SIZE + 100, "a|%s@%d\n", letters, i == 3 ? 2 : 1);
        LABEL(bytes, expected);
    }
    free(bytes), free(expected), free(letters);
}

static void a_row_of_very_many_labels(void **state) {
    (void)state;
    enum { MANY = 200000 };
    char *bytes = malloc(8 * MANY + 16), *at = bytes;
    for (int i = 0; i < MANY; i++) at += sprintf(at, "%s%d", i ? "," : "", i);
    strcpy(at, "\tx\n");
    LABELS(bytes, "rows.txt:1: more than 10000 labels in one row\n");
    free(bytes);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    const char *files[] = {"a,b\tx\nb\ty\n", "__label__a __label__b x\nz\n", "{\"label\":[\"a\",\"b\"],\"text\":\"\xFFx\"}\n",
                           "id,label,text\n1,\"a,b\",\"x\ny\"\n"};
    char path[512];
    for (int i = 0; i < 4; i++) {
        test_write_file(test_path("rows.txt", path), files[i], strlen(files[i]));
        bool failed = true;
        for (int64_t k = 1; failed; k++) {
            test_memory memory = {.fail_at = k};
            TEST_CTX qkv_ctx ctx = test_ctx(&memory);
            qkv_rows *rows = NULL;
            qkv_record r = {.text = ""};
            qkv_status status = qkv_rows_start(&ctx, path, NULL, QKV_WANT_LABELS, false, &rows);
            while (status == QKV_OK && r.text) status = qkv_rows_read(rows, &r);
            failed = status != QKV_OK;
            if (failed) assert_int_equal(status, QKV_NO_MEMORY);
            qkv_rows_close(rows);
            assert_int_equal(memory.blocks, 0);
        }
    }
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tsv_with_several_labels),
        cmocka_unit_test(tsv_with_pairs),
        cmocka_unit_test(fasttext_labels_are_words_with_the_prefix),
        cmocka_unit_test(jsonl_fields),
        cmocka_unit_test(jsonl_is_strict),
        cmocka_unit_test(csv_cells),
        cmocka_unit_test(csv_columns),
        cmocka_unit_test(the_first_lines_tell_the_format),
        cmocka_unit_test(a_header_of_tabs_is_pointed_out),
        cmocka_unit_test(every_line_is_a_text),
        cmocka_unit_test(the_public_reader),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(a_row_of_very_many_labels),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
